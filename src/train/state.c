/* What a run carries from step to step: weights, moments, scale states.  Its hash is the state
 * hash of the log.
 */
#include "train/train.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Once a step.  A site that shares storage follows its owner, so that a continuing run in which
 * the two part finds both states.
 */
void state_update_scales(trainer *t)
{
    for (size_t i = 0; i < t->sites.operands; i++) {
        const size_t owner = plumb_site_owner(&t->shape, t->sites.specs, i);

        if (t->sites.specs[i].rule != PLUMB_SCALE_DELAYED)
            continue;
        if (owner == i)
            plumb_scale_state_update(&t->states[i], &t->sites.specs[i]);
        else
            t->states[i] = t->states[owner];
    }
}

uint64_t state_hash(const trainer *t)
{
    const size_t bytes = t->weight_count * sizeof(float);
    const size_t linears = plumb_linear_site_count(&t->shape);
    uint64_t hash = XXH3_64bits(t->weights, bytes);

    hash = XXH3_64bits_withSeed(t->m, bytes, hash);
    hash = XXH3_64bits_withSeed(t->v, bytes, hash);
    for (size_t i = 0; i < t->sites.operands; i++) {
        const plumb_scale_state *s = &t->states[i];

        /* Only linears are always hashed: what never had a delayed scale carries nothing. */
        if (i >= linears && s->count == 0 && s->scale == 1 && s->pending == -1)
            continue;
        const float head[2] = {s->scale, s->pending};

        hash = XXH3_64bits_withSeed(head, sizeof head, hash);
        hash = XXH3_64bits_withSeed(s->history, (size_t)s->count * sizeof(float), hash);
    }
    return hash;
}
