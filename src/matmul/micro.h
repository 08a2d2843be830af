/* matmul/micro.h - every micro-kernel of the canonical product, one row each.
 *
 * A micro-kernel works on one tile of mr x nr results, kept as mr * nr contiguous floats.
 * Dispatch, tests and benchmarks walk the same table, so a kernel that is registered is
 * also compared with the reference bit for bit.
 *
 * Operands come packed: A as rows of PLUMB_MICRO_LD floats (K contiguous), B as slivers
 * [K][nr].  K is padded with +0 to a multiple of PLUMB_MICRO_CHAIN on both sides.  A kernel may
 * keep something shorter than a float there: then it packs by itself, and a chain takes fewer
 * than 32 floats (`chain`) in rows of the same stride and in slivers that are as much shorter.
 */
#ifndef PLUMB_MATMUL_MICRO_H
#define PLUMB_MATMUL_MICRO_H

#include "plumb/matmul.h"

enum {
    PLUMB_MICRO_CHAIN = 32,  /* K of one pair of chains */
    PLUMB_MICRO_KC = 256,    /* K of one packed panel of floats, at most */
    PLUMB_MICRO_PANEL = 512, /* K of any, at most */
    /* One chain more than a panel: rows a power of two apart would share cache sets. */
    PLUMB_MICRO_LD = PLUMB_MICRO_KC + PLUMB_MICRO_CHAIN,
    PLUMB_MICRO_MR = 32,    /* mr, at most */
    PLUMB_MICRO_NR_LCM = 32 /* every nr divides it */
};

/* Decodes codes[rows, cols] (row stride ld elements) to fp32: copy writes
 * x[r * stride + c], turn writes x[c * stride + r].
 */
typedef void plumb_micro_unpack(plumb_format format, const void *codes, size_t ld,
                                size_t rows, size_t cols, float *x, size_t stride);

/* tile = tile + (even + odd) for each of `chains` groups of 32 along K; from +0 if first. */
typedef void plumb_micro_run(size_t chains, const float *a, const float *b, float *tile,
                             bool first);

/* sum = fma(tile, da[i] * db[j], sum); from +0 if first.  sum may be tile. */
typedef void plumb_micro_join(const float *tile, const float *da, const float *db,
                              float *sum, bool first);

/* c[rows, cols] = tile, or c + tile; NaN becomes 0x7FC00000. */
typedef void plumb_micro_store(const float *tile, float *c, size_t ldc, size_t rows,
                               size_t cols, bool accumulate);

/* A panel of A as rows, or of B as slivers (matmul/pack.h). */
struct plumb_micro;
struct plumb_panel;
typedef void plumb_micro_pack(const struct plumb_micro *micro, const plumb_operand *operand,
                              const struct plumb_panel *panel, float *x);

/* Multiplies a packed panel of `chains` chains by its scales, which are powers of two that leave
 * every number normal (matmul/fold.h).
 */
struct plumb_scales;
typedef void plumb_micro_fold(const struct plumb_micro *micro,
                              const struct plumb_scales *scales, size_t chains, float *x);

typedef struct plumb_micro {
    const char *name;
    unsigned cpu;  /* PLUMB_CPU_* it needs */
    bool amd;      /* faster than the rows above on processors of AMD only: chosen there */
    bool on_trial; /* compared with the reference before it is first chosen */
    bool ftz;      /* flushes through MXCSR (flush-to-zero, denormals-are-zero) */
    int fraction_bits; /* of the formats of its operands, at most */
    size_t mr, nr;
    size_t panel; /* K of one packed panel, at most: whole chains */
    size_t chain; /* floats of one outer index that a chain takes when packed */
    plumb_micro_pack *rows, *slivers;
    plumb_micro_unpack *copy, *turn;            /* for the packing that decodes to fp32 */
    plumb_micro_fold *fold_rows, *fold_slivers; /* NULL: scales are never folded */
    plumb_micro_run *run;
    plumb_micro_join *join;
    plumb_micro_store *store;
    void (*enter)(void), (*leave)(void); /* around a product; or NULL */
} plumb_micro;

/* The reference comes first and the fastest last. */
extern const plumb_micro plumb_micros[];
extern const size_t plumb_micro_count;

/* The fastest that may run here, and has stood its trial. */
const plumb_micro *plumb_micro_best(void);

/* Whether a product that is hard to get right has the bits of the reference: a few tenths of a
 * millisecond, on 120 KiB of stack.
 */
bool plumb_micro_agrees(const plumb_micro *micro);

/* plumb_matmul with a chosen micro-kernel for the canonical accumulator and chosen lanes for the
 * others (matmul/lanes.h), which this CPU must have.  Where the kernel does not take the formats
 * of the operands, the nearest row above it does the work.
 */
struct plumb_lanes;
plumb_status plumb_matmul_with(const plumb_micro *micro, const struct plumb_lanes *lanes,
                               const plumb_accumulator *how, const plumb_operand *a,
                               const plumb_operand *b, float *c, size_t ldc,
                               bool accumulate, plumb_tile tile, void *workspace,
                               plumb_error *why);
plumb_status plumb_matmul_extended_with(
    const plumb_micro *micro, const struct plumb_lanes *lanes, const plumb_accumulator *how,
    const plumb_operand *a, const plumb_operand *b, float *c, size_t ldc, bool accumulate,
    plumb_tile tile, const plumb_extras *extras, void *workspace, plumb_error *why);

/* Packs B as this micro-kernel or, where it does not take the format, the nearest row above it
 * reads it; what that takes.
 */
void plumb_pack_with(const plumb_micro *micro, const plumb_operand *b, float *memory,
                     plumb_packed *packed);
plumb_status plumb_packed_need_with(const plumb_micro *micro, const plumb_operand *b,
                                    size_t *bytes, plumb_error *why);

plumb_micro_unpack plumb_micro_copy_ref, plumb_micro_turn_ref;
plumb_micro_run plumb_micro_run_ref;
plumb_micro_join plumb_micro_join_ref;
plumb_micro_store plumb_micro_store_ref;

plumb_micro_unpack plumb_micro_copy_avx2, plumb_micro_turn_avx2;
plumb_micro_run plumb_micro_run_avx2;
plumb_micro_join plumb_micro_join_avx2;
plumb_micro_store plumb_micro_store_avx2;

plumb_micro_unpack plumb_micro_copy_avx512, plumb_micro_turn_avx512;
plumb_micro_run plumb_micro_run_avx512;
plumb_micro_join plumb_micro_join_avx512;
plumb_micro_store plumb_micro_store_avx512;

plumb_micro_pack plumb_micro_rows_avx512bf16, plumb_micro_slivers_avx512bf16;
plumb_micro_fold plumb_micro_fold_rows_avx512bf16, plumb_micro_fold_slivers_avx512bf16;
plumb_micro_run plumb_micro_run_avx512bf16;

plumb_micro_pack plumb_micro_rows_amx, plumb_micro_slivers_amx;
plumb_micro_fold plumb_micro_fold_rows_amx, plumb_micro_fold_slivers_amx;
plumb_micro_run plumb_micro_run_amx;
plumb_micro_join plumb_micro_join_amx;
void plumb_micro_enter_amx(void); /* tiles of this thread; their contents before are lost */
void plumb_micro_leave_amx(void);

#endif
