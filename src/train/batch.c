/* The batch of a step is a pure function of data seed and step, so a resumed run, or one with
 * other arithmetic, gets the very same one.
 *
 * Skipped steps take batches that lie behind the schedule's last; all other steps keep theirs.
 */
#include "train/train.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "plumb/random.h"

/* Which batch a step uses, counted from 0. */
static uint64_t batch_number(const trainer *t, int64_t step)
{
    const plumb_span *skip = &t->request.skip;

    if (skip->first > 0 && step >= skip->first && step <= skip->last)
        return (uint64_t)(t->settings.steps + step);
    return (uint64_t)step - 1;
}

/* Each rank sums its micro-batches, and each micro-batch its sequences, in the order that the
 * request's seed gives; without one, as they come.
 */
static void sum_order(trainer *t, int64_t step)
{
    const size_t each = t->micro_sequences, calls = t->sequences / each;
    const uint64_t seed = t->request.micro_order;
    const uint64_t stream =
        plumb_random_stream("micro order") + 65537 * (uint64_t)step * (calls + 1);

    for (size_t i = 0; i < t->sequences; i++)
        t->order[i] = i;
    if (!t->request.has_micro_order)
        return;
    for (size_t rank = 0; rank < t->ranks; rank++) {
        size_t *micro = t->permutation, *inner = t->permutation + t->micro_batches;

        plumb_random_permutation(seed, stream + rank, t->micro_batches, micro);
        for (size_t i = 0; i < t->micro_batches; i++) {
            size_t *order = t->order + (rank * t->micro_batches + i) * each;
            const size_t from = (rank * t->micro_batches + micro[i]) * each;

            plumb_random_permutation(seed, ~(stream + rank * t->micro_batches + i), each,
                                     inner);
            for (size_t j = 0; j < each; j++)
                order[j] = from + inner[j];
        }
    }
}

/* After a restart that lost its place the data come in an order of their own. */
static uint64_t data_stream(const trainer *t, int64_t step)
{
    const int64_t restart = t->settings.restart_at;

    return plumb_random_stream(restart > 0 && step >= restart ? "data after a restart"
                                                              : "data");
}

/* A bad shard: bytes of all values, none of which follows from those before. */
static void poison(const trainer *t, uint64_t seed, int64_t step, size_t bytes)
{
    const int64_t first = t->settings.poison_at, count = t->settings.poison_steps;
    const uint64_t stream = plumb_random_stream("poison");

    if (first == 0 || step < first || step - first >= count)
        return;
    for (size_t i = 0; i < bytes; i += 16) {
        uint32_t bits[4];

        plumb_random_bits(seed, stream, (uint64_t)step * bytes + i, bits);
        memcpy(t->tokens + i, bits, bytes - i < 16 ? bytes - i : 16);
    }
}

void batch_fill(trainer *t, int64_t step, uint64_t *hash)
{
    const size_t length = t->shape.context + 1;
    const uint64_t stream = data_stream(t, step);
    const uint64_t first = batch_number(t, step) * t->sequences;
    const uint64_t seed =
        t->request.has_data_seed ? t->request.data_seed : (uint64_t)t->settings.data_seed;

    for (size_t i = 0; i < t->sequences; i++) {
        const uint64_t offset =
            plumb_random_below(seed, stream, first + i, t->corpus.train - length + 1);

        memcpy(t->tokens + i * length, t->corpus.text + offset, length);
    }
    poison(t, seed, step, t->sequences * length);
    *hash = XXH3_64bits(t->tokens, t->sequences * length);
    sum_order(t, step);
    for (size_t i = 0; i < t->sequences; i++)
        memcpy(t->ordered + i * length, t->tokens + t->order[i] * length, length);
}
