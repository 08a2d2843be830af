/* The canonical product of operands that bf16 holds exactly, two steps of a chain at once.
 *
 * VDPBF16PS adds two products to each float, one fused multiply-add after the other: that of the
 * upper halves first, rounded to nearest even, with operands and results below 2^-126 flushed as
 * MXCSR would make FMA do it (which it ignores).  So k in the upper half and k + 2 in the lower
 * one are two steps of the even or of the odd chain, with the same bits.
 */
#include "matmul/micro.h"

#if defined(__x86_64__)
#define PAIR_STEP 2 /* of one chain */
#include "matmul/pairs_avx512bf16.h"

#include <string.h>

/* --- run ------------------------------------------------------------------- */

/* By an integer load: Zen 4 is a tenth slower where a float is broadcast to VDPBF16PS. */
static inline __m512bh broadcast(const float *pair)
{
    int32_t bits;

    memcpy(&bits, pair, sizeof bits);
    return (__m512bh)_mm512_set1_epi32(bits);
}

/* sum += a pair of each of MR rows by those of 32 columns. */
static inline void step(__m512 sum[MR][2], const float *a, const float *b)
{
    const __m512bh left = (__m512bh)_mm512_loadu_ps(b);
    const __m512bh right = (__m512bh)_mm512_loadu_ps(b + WIDTH);

#pragma GCC unroll 6
    for (size_t i = 0; i < MR; i++) {
        const __m512bh x = broadcast(a + i * PLUMB_MICRO_LD);

        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, left);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, right);
    }
}

void plumb_micro_run_avx512bf16(size_t chains, const float *a, const float *b, float *tile,
                                bool first)
{
    for (size_t n = 0; n < chains; n++) {
        __m512 even[MR][2], odd[MR][2];

#pragma GCC unroll 6
        for (size_t i = 0; i < MR; i++)
            even[i][0] = even[i][1] = odd[i][0] = odd[i][1] = _mm512_setzero_ps();
        for (size_t k = 0; k < PLUMB_MICRO_CHAIN; k += 4) {
            step(even, a, b);
            step(odd, a + 1, b + NR);
            a += 2;
            b += 2 * NR;
        }
        add_chains(even, odd, tile, first && n == 0);
    }
}

/* --- packing ------------------------------------------------------------------ */

void plumb_micro_rows_avx512bf16(const plumb_micro *micro, const plumb_operand *operand,
                                 const plumb_panel *panel, float *rows)
{
    (void)micro;
    pack_rows(operand, panel, rows);
}

void plumb_micro_slivers_avx512bf16(const plumb_micro *micro, const plumb_operand *operand,
                                    const plumb_panel *panel, float *slivers)
{
    (void)micro;
    pack_slivers(operand, panel, slivers);
}

void plumb_micro_fold_rows_avx512bf16(const plumb_micro *micro, const plumb_scales *scales,
                                      size_t chains, float *x)
{
    (void)micro;
    fold_rows(scales, chains, x);
}

void plumb_micro_fold_slivers_avx512bf16(const plumb_micro *micro,
                                         const plumb_scales *scales, size_t chains,
                                         float *x)
{
    fold_slivers(micro, scales, chains, x);
}
#endif
