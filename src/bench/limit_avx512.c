/* The limits of AVX-512, and its dot product of bf16 where there is one. */
#define ISA             avx512
#define BYTES           64
#define reals           __m512
#define splat(x)        _mm512_set1_ps(x)
#define fma_of(a, b, c) _mm512_fmadd_ps(a, b, c)
#include "bench/limit_body.h"

__attribute__((target("avx512bf16"))) float bench_dot_avx512(size_t rounds)
{
    const __m512i x = _mm512_set1_epi16(0x3f00), y = _mm512_set1_epi16(0x3f10);
    __m512 chain[BENCH_CHAINS];
    float sum = 0;

    for (int k = 0; k < BENCH_CHAINS; k++)
        chain[k] = _mm512_set1_ps(0.01f * (float)k);
    for (size_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < BENCH_CHAINS; k++)
            chain[k] = _mm512_dpbf16_ps(chain[k], (__m512bh)x, (__m512bh)y);
    }
    for (int k = 0; k < BENCH_CHAINS; k++)
        sum += _mm512_cvtss_f32(chain[k]);
    return sum;
}
