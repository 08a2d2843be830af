/* cast_kit.h - what the tests of the casts share: registered kernels, floats of all kinds, the
 * comparison of counts.
 */
#ifndef CAST_KIT_H
#define CAST_KIT_H

#include "bits.h"
#include "kernel/cast.h"

#include <math.h>
#include <string.h>

static inline bool can_run(unsigned needs)
{
    return (needs & ~plumb_cpu_flags()) == 0;
}

static inline void encode(const plumb_encode_kernel *k, const plumb_cast *how,
                          const float *x, size_t n, void *codes, plumb_counts *counts)
{
    const plumb_encode_job job = {
        .how = how, .source = PLUMB_FP32, .x = x, .n = n, .codes = codes, .counts = counts};

    k->run(&job);
}

static inline uint32_t code_at(plumb_format format, const void *codes, size_t i)
{
    const int bytes = plumb_format_get(format)->bytes;

    if (bytes == 1)
        return ((const uint8_t *)codes)[i];
    return bytes == 2 ? ((const uint16_t *)codes)[i] : ((const uint32_t *)codes)[i];
}

static inline uint32_t next_random(void) /* xorshift32 */
{
    static uint32_t state = 1;

    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

/* Floats of all kinds: any bits, many near 1, special ones. */
static inline float any_float(void)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000,
                                       0x7fc00000, 0xffc12345, 0x7f800001, 0x7f7fffff,
                                       0x00000001, 0x807fffff, 0x43e00000, 0xc3e80000,
                                       0x47600000, 0x47700000, 0x3f800000, 0x40c00000};
    const uint32_t bits = next_random();

    switch (bits % 7) {
    case 0:
    case 1:
        return float_from(next_random());
    case 2:
        return float_from(special[next_random() % 16]);
    default:
        return float_from((bits & 0x87ffffff) | 0x38000000);
    }
}

static inline bool same_counts(const plumb_counts *a, const plumb_counts *b)
{
    return a->total == b->total && a->saturated == b->saturated &&
           a->clipped == b->clipped && a->flushed == b->flushed && a->zero == b->zero &&
           a->nonfinite == b->nonfinite && a->amax == b->amax &&
           a->code_amax == b->code_amax;
}

static inline bool same_double(double a, double b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static inline bool same_spectrum(const plumb_spectrum *a, const plumb_spectrum *b)
{
    return memcmp(a->exponent, b->exponent, sizeof a->exponent) == 0 &&
           same_double(a->signal, b->signal) && same_double(a->error, b->error);
}

#endif
