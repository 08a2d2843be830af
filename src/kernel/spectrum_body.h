/* Where the values of a block lie and what its cast cost, read while they are still in the
 * first cache.  The energies are sums in sixteen lanes, so vector code does the very additions
 * that the order states.
 */
#ifndef PLUMB_KERNEL_SPECTRUM_BODY_H
#define PLUMB_KERNEL_SPECTRUM_BODY_H

#include "kernel/body.h"
#include "kernel/decode_body.h"
#include "plumb/cast.h"

enum { BLOCK = 1024 /* a multiple of LANES */ };

typedef struct energy {
    double signal[LANES], error[LANES];
    float decode[BLOCK]; /* of each element */
} energy;

INLINE void energy_start(const plumb_cast *how, energy *e)
{
    const float own = how->divide ? how->scale : 1.0f / how->scale;

    memset(e->signal, 0, sizeof e->signal);
    memset(e->error, 0, sizeof e->error);
    for (size_t i = 0; i < BLOCK; i++)
        e->decode[i] = how->decode != 0 ? how->decode : own;
}

/* x as it is, or zero. */
INLINE double only_if(bool condition, float x)
{
    return (double)float_of(choose(condition, bits_of(x), 0));
}

INLINE void add_one(float x, float value, float decode, double *signal, double *error)
{
    const bool finite = (bits_of(x) & MAGNITUDE) < INF;
    const bool both = finite & ((bits_of(value) & MAGNITUDE) < INF) &
                      ((bits_of(decode) & MAGNITUDE) < INF);
    const double from = only_if(finite, x);
    const double lost = only_if(both, x) - only_if(both, value) * only_if(both, decode);

    *signal += from * from;
    *error += lost * lost;
}

INLINE void add_energy(energy *e, const float *restrict x, const float *restrict value,
                       size_t n)
{
    const float *restrict decode = e->decode;
    double signal[LANES], error[LANES];
    size_t i = 0;

    memcpy(signal, e->signal, sizeof signal);
    memcpy(error, e->error, sizeof error);
    for (; n - i >= LANES; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            add_one(x[i + l], value[i + l], decode[i + l], &signal[l], &error[l]);
    for (size_t l = 0; l < n - i; l++)
        add_one(x[i + l], value[i + l], decode[i + l], &signal[l], &error[l]);
    memcpy(e->signal, signal, sizeof signal);
    memcpy(e->error, error, sizeof error);
}

INLINE void values_of(plumb_format format, const void *codes, size_t n, float *values)
{
    switch (format) {
    case PLUMB_FP32:
    case PLUMB_TF32:
        memcpy(values, codes, n * sizeof *values);
        break;
    case PLUMB_BF16:
        ENTRY(plumb_decode_bf16_)(format, 1, codes, n, values);
        break;
    case PLUMB_FP16:
        ENTRY(plumb_decode_fp16_)(format, 1, codes, n, values);
        break;
    default:
        ENTRY(plumb_decode_table_)(format, 1, codes, n, values);
    }
}

static void measure(plumb_format format, const float *x, const void *codes, size_t n,
                    energy *e, plumb_spectrum *spectrum)
{
    float values[BLOCK];

    values_of(format, codes, n, values);
    add_energy(e, x, values, n);
    for (size_t i = 0; i < n; i++)
        spectrum->exponent[bits_of(x[i]) >> 23 & 0xff]++;
}

INLINE void energy_end(energy *e, plumb_spectrum *spectrum)
{
    spectrum->signal += join_lanes(e->signal);
    spectrum->error += join_lanes(e->error);
}

#endif
