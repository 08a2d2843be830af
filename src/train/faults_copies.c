/* Faults of copies that are not renewed: codes, scales or both of an operand are those of an earlier
 * step, while everything else is fresh.
 *
 * A site keeps, for each of its casts in a step, a flag, codes and scales.
 */
#include "train/faults.h"

#include <math.h>
#include <string.h>

enum { CODES = 1, SCALES = 2 };

typedef struct slot {
    unsigned char *full, *codes, *scales;
    size_t code_bytes, scale_bytes;
} slot;

static size_t slot_bytes(const trainer *t, size_t index, size_t *code_bytes, size_t *scales)
{
    fault_operand_size(t, index, code_bytes, scales);
    return 1 + *code_bytes + *scales * sizeof(float);
}

static size_t slots_bytes(const trainer *t, size_t index)
{
    size_t code_bytes, scales;

    return fault_calls(t, index) * slot_bytes(t, index, &code_bytes, &scales);
}

static slot slot_of(const fault *f, const trainer *t, size_t index)
{
    size_t code_bytes, scales;
    const size_t bytes = slot_bytes(t, index, &code_bytes, &scales);
    unsigned char *at = f->keep[index].data + fault_call(t, index) * bytes;

    return (slot){at, at + 1, at + 1 + code_bytes, code_bytes, scales * sizeof(float)};
}

static void exchange(unsigned char *a, unsigned char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char x = a[i];

        a[i] = b[i];
        b[i] = x;
    }
}

static void store(const slot *s, const plumb_quantized *q)
{
    memcpy(s->codes, q->codes, s->code_bytes);
    if (q->d != NULL)
        memcpy(s->scales, q->d, s->scale_bytes);
    *s->full = 1;
}

/* Codes, scales or both of one step before; there are none in the step that leads. */
static void lag(fault *f, trainer *t, size_t index, plumb_quantized *q, int what)
{
    const slot s = slot_of(f, t, index);

    if (!*s.full) {
        store(&s, q);
        return;
    }
    if (what & CODES)
        fault_part(f, q, index);
    if (what & CODES)
        exchange(q->codes, s.codes, s.code_bytes);
    if ((what & SCALES) && q->d != NULL)
        exchange((unsigned char *)q->d, s.scales, s.scale_bytes);
}

/* Codes, scales or both as they were last renewed: in the step before `from`, then every so often. */
static void hold(fault *f, trainer *t, size_t index, plumb_quantized *q, int what)
{
    const slot s = slot_of(f, t, index);
    const int64_t age = t->faults.step - f->from + 1;

    if (!*s.full || age % (int64_t)f->value[0] == 0) {
        store(&s, q);
        return;
    }
    fault_part(f, q, index);
    memcpy(q->codes, s.codes, s.code_bytes);
    if ((what & SCALES) && q->d != NULL)
        memcpy(q->d, s.scales, s.scale_bytes);
}

static void stale_copy(fault *f, trainer *t, size_t index, plumb_quantized *q,
                       plumb_scale_state *state)
{
    (void)state;
    lag(f, t, index, q, CODES | SCALES);
}

static void stale_decode(fault *f, trainer *t, size_t index, plumb_quantized *q,
                         plumb_scale_state *state)
{
    (void)state;
    lag(f, t, index, q, SCALES);
}

static void cached(fault *f, trainer *t, size_t index, plumb_quantized *q,
                   plumb_scale_state *state)
{
    (void)state;
    hold(f, t, index, q, CODES);
}

static void frozen(fault *f, trainer *t, size_t index, plumb_quantized *q,
                   plumb_scale_state *state)
{
    (void)state;
    hold(f, t, index, q, CODES | SCALES);
}

#define EVERY                                                                              \
    {                                                                                      \
        "every", 2, 1e9, 1e9, true, FAULT_FREE, "steps from renewal to renewal"            \
    }

static const fault_kind kinds[] = {
    {.name = "stale-copy",
     .acts = "codes and scales are those of the step before (same rank and "
             "micro-batch), while the first orientation is fresh",
     .models = "a step invalidates one orientation of a cached operand and not the other",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/1972",
     .reach = FAULT_TURNED,
     .lead = 1,
     .keep = slots_bytes,
     .operand = stale_copy},
    {.name = "stale-decode-scale",
     .acts = "fresh codes are decoded with the scales of the step before",
     .models = "the backward pass keeps a reference to a scale that moves on",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/659",
     .reach = FAULT_LINEARS,
     .lead = 1,
     .keep = slots_bytes,
     .operand = stale_decode},
    {.name = "cached-weight",
     .acts = "the codes of a weight are renewed only `every` so many steps, its "
             "scales each step",
     .models = "the scale is updated where the cached FP8 weight is not quantised anew",
     .source = "https://github.com/NVIDIA/TransformerEngine/issues/1047",
     .reach = FAULT_WEIGHTS,
     .parameters = {EVERY},
     .lead = 1,
     .keep = slots_bytes,
     .operand = cached},
    {.name = "frozen-weight",
     .acts = "codes and scales of a weight are renewed only `every` so many steps",
     .models = "the replay of a CUDA graph does not renew the cached FP8 weight",
     .source = "https://github.com/NVIDIA/TransformerEngine/pull/3052",
     .reach = FAULT_WEIGHTS,
     .parameters = {EVERY},
     .lead = 1,
     .keep = slots_bytes,
     .joint = true,
     .operand = frozen},
};

const fault_family faults_of_copies = {kinds, sizeof kinds / sizeof *kinds};
