/* What is looked at and when, and what is said of it: at most one event for an invariant, a site and
 * a step, and at most COMPLAINTS for an invariant and a step (the first sites, in their order).
 */
#include "train/invariants.h"

#include <math.h>
#include <string.h>

#include "plumb/random.h"

#ifndef PLUMB_NO_SENSORS

static const char *const names[INVARIANTS] = {
    [INVARIANT_GRADIENT] = "the gradient is the mean of its parts",
    [INVARIANT_STORED] = "what is stored is what was computed",
    [INVARIANT_POSITIVE] = "second moments are not negative",
    [INVARIANT_STEP] = "Adam's step is bounded",
    [INVARIANT_SCALE] = "the scale is that of its rule",
    [INVARIANT_DECODED] = "the largest value is decoded as such",
    [INVARIANT_WEIGHT] = "the codes of a weight are that weight's",
};

void invariants_plan(trainer *t, invariants *v)
{
    const size_t looks = t->parameter_count * LOOKS;

    t->arena.label = PLUMB_MEMORY_RECORDS;
    v->element = plumb_arena_take(&t->arena, looks, sizeof *v->element);
    v->part = plumb_arena_take(&t->arena, t->ranks * looks, sizeof *v->part);
    v->size = plumb_arena_take(&t->arena, t->ranks * looks, sizeof *v->size);
    v->wire = plumb_arena_take(&t->arena, t->parameter_count, sizeof *v->wire);
    v->kept = plumb_arena_take(&t->arena, PARAMETER_SITES * looks, sizeof *v->kept);
    v->twin = plumb_arena_take(&t->arena, t->sites.operands, sizeof *v->twin);
}

static void draw(const trainer *t, invariants *v, int64_t step)
{
    for (size_t i = 0; i < t->parameter_count; i++) {
        const plumb_parameter *p = &t->parameters[i];
        const uint64_t stream =
            plumb_random_stream_at(plumb_random_stream(p->name), (uint64_t)step);

        for (size_t j = 0; j < LOOKS; j += 4) {
            uint32_t words[4];

            plumb_random_bits(0, stream, j, words);
            for (size_t k = 0; k < 4; k++)
                v->element[i * LOOKS + j + k] =
                    p->offset + (size_t)((uint64_t)words[k] * (p->rows * p->cols) >> 32);
        }
    }
}

void invariants_begin(trainer *t, invariants *v, int64_t step)
{
    const size_t looks = t->parameter_count * LOOKS;

    if (!v->begun)
        memcpy(v->twin, t->states, t->sites.operands * sizeof *v->twin);
    v->begun = true;
    v->count = 0;
    memset(v->of, 0, sizeof v->of);
    memset(v->part, 0, t->ranks * looks * sizeof *v->part);
    memset(v->size, 0, t->ranks * looks * sizeof *v->size);
    for (size_t i = 0; i < PARAMETER_SITES * looks; i++)
        v->kept[i].allowed = -1;
    draw(t, v, step);
}

void invariant_broken(invariants *v, invariant which, size_t index, double value,
                      double bound)
{
    for (size_t i = 0; i < v->count; i++) {
        if (v->complaints[i].which == which && v->complaints[i].site == index)
            return;
    }
    if (v->of[which] >= COMPLAINTS)
        return;
    v->of[which]++;
    v->complaints[v->count++] = (complaint){which, index, value, bound};
}

plumb_status invariants_say(trainer *t, const invariants *v, int64_t step, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < v->count && status == PLUMB_OK; i++) {
        const complaint *c = &v->complaints[i];

        status = plumb_run_event(
            t->run, "invariant",
            json_pack("{s:s, s:s, s:I, s:o, s:o}", "name", names[c->which], "site",
                      t->sites.names[c->site], "step", (json_int_t)step, "value",
                      plumb_json_real(c->value), "bound", plumb_json_real(c->bound)),
            why);
    }
    return status;
}

double invariant_cast_error(const plumb_spec *spec, double d, double x)
{
    const plumb_format_info *f = plumb_format_get(spec->format);
    const double half = spec->rounding == PLUMB_ROUND_NEAREST_EVEN ? 0.5 : 1;
    const double of_value = half * ldexp(fabs(x), -f->fraction_bits);
    const double of_subnormals = half * (double)f->least * d;

    if (!(fabs(x) <= (double)f->largest * d * (1 + INVARIANT_SLACK)))
        return (double)INFINITY;
    return (of_value > of_subnormals ? of_value : of_subnormals) +
           INVARIANT_SLACK * fabs(x) + 0x1p-149;
}

#else
typedef int plumb_invariants_are_gone;
#endif
