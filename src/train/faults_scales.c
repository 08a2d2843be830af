/* Faults on the state of delayed scaling: the scale in use, and the amax that enters its history.
 *
 * Sites that share codes have one state, that of the owner; it is acted on once.
 */
#include "train/faults.h"

#include <math.h>
#include <string.h>

enum { SHARERS = 12 }; /* no pair of sites lies farther apart */

static size_t owner_of(const trainer *t, size_t index)
{
    return plumb_site_owner(&t->shape, t->sites.specs, index);
}

/* The state that this site stands for; NULL where there is none, or the owner stands for both. */
static plumb_scale_state *state_of(const fault *f, const trainer *t, size_t index)
{
    const size_t owner = owner_of(t, index);

    if (t->sites.specs[owner].rule != PLUMB_SCALE_DELAYED ||
        (owner != index && f->hits[owner]))
        return NULL;
    return &t->states[owner];
}

/* Sites that share codes follow their owner. */
static void spread(trainer *t, size_t index)
{
    const size_t owner = owner_of(t, index);

    for (size_t i = owner + 1; i < t->sites.operands && i < owner + SHARERS; i++) {
        if (owner_of(t, i) == owner)
            t->states[i] = t->states[owner];
    }
}

/* --- the scale in use ------------------------------------------------------------------ */

typedef struct held {
    plumb_scale_state state;
    uint32_t full;
} held;

static size_t held_bytes(const trainer *t, size_t index)
{
    return t->sites.specs[owner_of(t, index)].rule == PLUMB_SCALE_DELAYED ? sizeof(held)
                                                                          : 0;
}

static void frozen(fault *f, trainer *t, size_t index)
{
    held *h = (held *)(void *)f->keep[index].data;
    plumb_scale_state *state = state_of(f, t, index);

    if (state == NULL || t->step < f->from - 1)
        return;
    if (h->full)
        *state = h->state;
    h->state = *state;
    h->full = 1;
    spread(t, index);
}

/* What the update made is held back for a step. */
static void stale(fault *f, trainer *t, size_t index)
{
    held *h = (held *)(void *)f->keep[index].data;
    plumb_scale_state *state = state_of(f, t, index);

    if (state == NULL)
        return;
    const float fresh = state->scale;

    if (h->full && t->step >= f->from - 1)
        state->scale = h->state.scale;
    h->state.scale = fresh;
    h->full = 1;
    spread(t, index);
}

static void stale_start(fault *f, trainer *t, size_t index)
{
    held *h = (held *)(void *)f->keep[index].data;

    if (state_of(f, t, index) != NULL && !h->full)
        stale(f, t, index);
}

/* --- a state for each rank ---------------------------------------------------------------- */

/* The last one says by its count whether the others are full.  Between steps the trainer has that of
 * rank 0, while a rank runs its own.
 */
static size_t ranks_bytes(const trainer *t, size_t index)
{
    return held_bytes(t, index) == 0 ? 0 : (t->ranks + 1) * sizeof(plumb_scale_state);
}

static plumb_scale_state *of_ranks(const fault *f, size_t index)
{
    return (plumb_scale_state *)(void *)f->keep[index].data;
}

static void enter_rank(fault *f, trainer *t, size_t index)
{
    plumb_scale_state *own = of_ranks(f, index), *state = state_of(f, t, index);
    const size_t rank = t->faults.rank;

    if (state == NULL || own[t->ranks].count == 0 || rank == 0)
        return;
    own[rank - 1] = *state;
    *state = own[rank];
    f->before[owner_of(t, index)] = -1;
}

static void part_ranks(fault *f, trainer *t, size_t index)
{
    plumb_scale_state *own = of_ranks(f, index), *state = state_of(f, t, index);

    if (state == NULL || t->step < f->from - 1 || own[t->ranks].count != 0)
        return;
    for (size_t rank = 0; rank < t->ranks; rank++)
        own[rank] = *state;
    own[t->ranks].count = 1;
}

/* The trainer has updated the state of the last rank. */
static void leave_ranks(fault *f, trainer *t, size_t index)
{
    plumb_scale_state *own = of_ranks(f, index), *state = state_of(f, t, index);

    if (state == NULL)
        return;
    if (own[t->ranks].count == 0) {
        part_ranks(f, t, index);
        return;
    }
    own[t->ranks - 1] = *state;
    for (size_t rank = 0; rank + 1 < t->ranks; rank++)
        plumb_scale_state_update(&own[rank], &t->sites.specs[owner_of(t, index)]);
    *state = own[0];
    spread(t, index);
}

/* --- the amax that enters the history ------------------------------------------------------- */

/* Takes back what the running cast has added to the pending amax, unless it is kept. */
static void record(fault *f, const trainer *t, size_t index, plumb_scale_state *state,
                   bool kept)
{
    float *before = &f->before[owner_of(t, index)];

    if (state == NULL)
        return;
    if (!kept)
        state->pending = *before;
    *before = state->pending;
}

static void last_micro_batch(fault *f, trainer *t, size_t index, plumb_quantized *q,
                             plumb_scale_state *state)
{
    (void)q;
    record(f, t, index, state, t->faults.micro + 1 == t->micro_batches);
}

static void one_rank(fault *f, trainer *t, size_t index, plumb_quantized *q,
                     plumb_scale_state *state)
{
    (void)q;
    record(f, t, index, state, (double)t->faults.rank == f->value[0]);
}

/* --- the table ----------------------------------------------------------------------------- */

static const fault_kind kinds[] = {
    {.name = "frozen-scale",
     .acts = "between steps the scale state is put back to what it was when step "
             "`from` began",
     .models = "a freshly computed scale is overwritten by the copy from before the "
               "step, or written to the wrong variable",
     .source = "https://github.com/AI-Hypercomputer/maxtext/pull/5021",
     .reach = FAULT_OPERANDS,
     .keep = held_bytes,
     .start = frozen,
     .state = frozen},
    {.name = "stale-scale",
     .acts = "each step uses the scale that should have been in use one step earlier",
     .models = "the amax of the updated tensor is not the one that its scale comes from",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/567",
     .reach = FAULT_OPERANDS,
     .keep = held_bytes,
     .start = stale_start,
     .state = stale},
    {.name = "per-rank-scale",
     .acts = "each rank has a scale and an amax history of its own, which are never "
             "reduced",
     .models = "amax reduced over the wrong group, or not at all",
     .source = "https://github.com/NVIDIA/Megatron-LM/pull/442",
     .reach = FAULT_SHARDS,
     .ranks = 2,
     .keep = ranks_bytes,
     .rank = enter_rank,
     .start = part_ranks,
     .state = leave_ranks},
    {.name = "unreduced-amax",
     .acts = "all ranks use the scale that the amax of one of them gives",
     .models = "the amax is taken from one shard only",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/74",
     .reach = FAULT_SHARDS,
     .ranks = 2,
     .parameters = {{"rank", 0, 63, 0, true, FAULT_RANKS, "whose amax is recorded"}},
     .operand = one_rank},
    {.name = "last-micro-batch-amax",
     .acts = "only the amax of a rank's last micro-batch enters the history",
     .models = "the recorded amax is overwritten where the maximum is meant",
     .source = "https://github.com/marin-community/marin/issues/7659",
     .reach = FAULT_SHARDS,
     .operand = last_micro_batch},
};

const fault_family faults_of_scales = {kinds, sizeof kinds / sizeof *kinds};
