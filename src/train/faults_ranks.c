/* Faults of the gradient all-reduce: on what ranks hand in, on the order in which they are added, on what
 * comes out.
 */
#include "train/faults.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "plumb/cast.h"
#include "plumb/random.h"

static float *share_of(const trainer *t, size_t rank, const plumb_parameter *p)
{
    return t->share[rank] + p->offset;
}

static void exchange(float *a, float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float x = a[i];

        a[i] = b[i];
        b[i] = x;
    }
}

static void dropped(fault *f, trainer *t, size_t index, const plumb_parameter *p)
{
    (void)index;
    memset(share_of(t, (size_t)f->value[0], p), 0, p->rows * p->cols * sizeof(float));
}

/* A share of before, then whether it is one. */
static size_t share_bytes(const trainer *t, size_t index)
{
    plumb_parameter p;

    plumb_parameter_get(&t->shape, fault_parameter_of(t, index), &p);
    return (p.rows * p.cols + 1) * sizeof(float);
}

static void stale(fault *f, trainer *t, size_t index, const plumb_parameter *p)
{
    const size_t n = p->rows * p->cols;
    float *kept = (float *)(void *)f->keep[index].data;
    float *share = share_of(t, (size_t)f->value[0], p);

    if (kept[n] != 0)
        exchange(share, kept, n);
    else
        memcpy(kept, share, n * sizeof *kept);
    kept[n] = 1;
}

/* Every rank encodes with the scale of its own amax; all are decoded with that of rank 0. */
static void unsynchronised(fault *f, trainer *t, size_t index, const plumb_parameter *p)
{
    const size_t n = p->rows * p->cols;
    const float first = plumb_cast_amax(share_of(t, 0, p), n);

    (void)f;
    (void)index;
    for (size_t rank = 1; rank < t->ranks; rank++) {
        float *share = share_of(t, rank, p);
        const float amax = plumb_cast_amax(share, n);

        for (size_t i = 0; i < n && first > 0 && amax > 0 && isfinite(first / amax); i++)
            share[i] *= first / amax;
    }
}

/* The clock decides who comes first: the one fault that two runs of the same seed do not share. */
static void shuffled(fault *f, trainer *t, size_t index, const plumb_parameter *p)
{
    struct timespec now;

    (void)f;
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (size_t rank = t->ranks - 1; rank > 0; rank--) {
        const uint64_t seed = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        const size_t other = (size_t)plumb_random_below(seed, index, rank, rank + 1);

        if (other != rank)
            exchange(share_of(t, rank, p), share_of(t, other, p), p->rows * p->cols);
    }
}

static void average(fault *f, trainer *t, const plumb_parameter *p, float *sum)
{
    const float ranks = (float)t->ranks;

    for (size_t i = 0; i < p->rows * p->cols; i++)
        sum[i] *= ranks / (ranks + (float)f->value[0]);
}

static const fault_kind kinds[] = {
    {.name = "dropped-rank",
     .acts = "the share of rank `rank` is zero",
     .models = "a rank whose gradient never reaches the buffer that is reduced",
     .source = "https://github.com/Azure/MS-AMP/pull/78",
     .reach = FAULT_COLLECTIVE,
     .ranks = 2,
     .parameters = {{"rank", 0, 63, NAN, true, FAULT_RANKS, "from 0"}},
     .shares = dropped},
    {.name = "stale-share",
     .acts = "rank `rank` hands in its gradient of the step before",
     .models = "the reduction reads a gradient buffer that holds what was there before",
     .source = "https://github.com/NVIDIA/Megatron-LM/pull/2802",
     .reach = FAULT_COLLECTIVE,
     .parameters = {{"rank", 0, 63, NAN, true, FAULT_RANKS, "from 0"}},
     .lead = 1,
     .keep = share_bytes,
     .shares = stale},
    {.name = "unsynchronised-scale",
     .acts = "each rank encodes its share with the scale of its own amax, and all are "
             "decoded with that of rank 0",
     .models = "scales that are not synchronised before a sum in FP8",
     .source = "https://github.com/Azure/MS-AMP/pull/58",
     .reach = FAULT_COLLECTIVE,
     .ranks = 2,
     .shares = unsynchronised},
    {.name = "nondeterministic-reduction",
     .acts = "the clock decides in which order ranks are added: the only fault whose "
             "runs cannot be repeated bit by bit",
     .models = "a race in a reduction",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/2921",
     .reach = FAULT_COLLECTIVE,
     .ranks = 2,
     .shares = shuffled},
    {.name = "wrong-average",
     .acts = "the sum is divided by the number of ranks and `more`",
     .models = "gradients scaled by the size of the world instead of the data-parallel "
               "group",
     .source = "https://github.com/meta-pytorch/torchtune/issues/2641",
     .reach = FAULT_COLLECTIVE,
     .ranks = 2,
     .parameters = {{"more", -1, 1, NAN, true, FAULT_FREE, "1 or -1"}},
     .sum = average},
};

const fault_family faults_of_ranks = {kinds, sizeof kinds / sizeof *kinds};
