/* The table of micro-kernels, and the choice of the fastest that may run here. */
#include "base/cpu.h"
#include "matmul/fold.h"
#include "matmul/lanes.h"

const plumb_micro plumb_micros[] = {
    {.name = "ref",
     .cpu = PLUMB_CPU_BASELINE,
     .fraction_bits = 23,
     .mr = 4,
     .nr = 4,
     .panel = PLUMB_MICRO_KC,
     .chain = 32,
     .rows = plumb_pack_rows,
     .slivers = plumb_pack_slivers,
     .copy = plumb_micro_copy_ref,
     .turn = plumb_micro_turn_ref,
     .run = plumb_micro_run_ref,
     .join = plumb_micro_join_ref,
     .store = plumb_micro_store_ref},
#if defined(__x86_64__)
    {.name = "avx2",
     .cpu = PLUMB_CPU_AVX2,
     .ftz = true,
     .fraction_bits = 23,
     .mr = 3,
     .nr = 16,
     .panel = PLUMB_MICRO_KC,
     .chain = 32,
     .rows = plumb_pack_rows,
     .slivers = plumb_pack_slivers,
     .copy = plumb_micro_copy_avx2,
     .turn = plumb_micro_turn_avx2,
     .fold_rows = plumb_fold_rows,
     .fold_slivers = plumb_fold_slivers,
     .run = plumb_micro_run_avx2,
     .join = plumb_micro_join_avx2,
     .store = plumb_micro_store_avx2},
    {.name = "avx512",
     .cpu = PLUMB_CPU_AVX512,
     .ftz = true,
     .fraction_bits = 23,
     .mr = 6,
     .nr = 32,
     .panel = PLUMB_MICRO_KC,
     .chain = 32,
     .rows = plumb_pack_rows,
     .slivers = plumb_pack_slivers,
     .copy = plumb_micro_copy_avx512,
     .turn = plumb_micro_turn_avx512,
     .fold_rows = plumb_fold_rows,
     .fold_slivers = plumb_fold_slivers,
     .run = plumb_micro_run_avx512,
     .join = plumb_micro_join_avx512,
     .store = plumb_micro_store_avx512},
    {.name = "avx512bf16",
     .cpu = PLUMB_CPU_AVX512BF16,
     .amd = true,
     .ftz = true,
     .fraction_bits = 7,
     .mr = 6,
     .nr = 32,
     .panel = PLUMB_MICRO_KC,
     .chain = 16,
     .rows = plumb_micro_rows_avx512bf16,
     .slivers = plumb_micro_slivers_avx512bf16,
     .fold_rows = plumb_micro_fold_rows_avx512bf16,
     .fold_slivers = plumb_micro_fold_slivers_avx512bf16,
     .run = plumb_micro_run_avx512bf16,
     .join = plumb_micro_join_avx512,
     .store = plumb_micro_store_avx512},
    {.name = "amx",
     .cpu = PLUMB_CPU_AMX,
     .on_trial = true,
     .ftz = true,
     .fraction_bits = 7,
     .mr = 32,
     .nr = 32,
     .panel = PLUMB_MICRO_PANEL,
     .chain = 16,
     .rows = plumb_micro_rows_amx,
     .slivers = plumb_micro_slivers_amx,
     .fold_rows = plumb_micro_fold_rows_amx,
     .fold_slivers = plumb_micro_fold_slivers_amx,
     .run = plumb_micro_run_amx,
     .join = plumb_micro_join_amx,
     .store = plumb_micro_store_avx512,
     .enter = plumb_micro_enter_amx,
     .leave = plumb_micro_leave_amx},
#endif
};
const size_t plumb_micro_count = sizeof plumb_micros / sizeof plumb_micros[0];

const plumb_lanes plumb_lanes_rows[] = {
    {"ref", PLUMB_CPU_BASELINE, NULL, NULL, NULL, plumb_sliced_cut_ref,
     plumb_sliced_add_ref, plumb_sliced_copy_ref, plumb_sliced_turn_ref, NULL, NULL, NULL},
#if defined(__x86_64__)
    {"avx2", PLUMB_CPU_AVX2, plumb_lane_add_avx2, plumb_lane_prepare_avx2,
     plumb_lane_join_avx2, plumb_sliced_cut_avx2, plumb_sliced_add_avx2,
     plumb_micro_copy_avx2, plumb_micro_turn_avx2, NULL, NULL, NULL},
    {"avx512", PLUMB_CPU_AVX512, plumb_lane_add_avx512, plumb_lane_prepare_avx512,
     plumb_lane_join_avx512, plumb_sliced_cut_avx512, plumb_sliced_add_avx512,
     plumb_micro_copy_avx512, plumb_micro_turn_avx512, NULL, NULL, NULL},
    {"avx512bf16", PLUMB_CPU_AVX512BF16, plumb_lane_add_avx512, plumb_lane_prepare_avx512,
     plumb_lane_join_avx512, plumb_sliced_cut_avx512, plumb_sliced_add_avx512,
     plumb_micro_copy_avx512, plumb_micro_turn_avx512, plumb_narrow_row_avx512bf16,
     plumb_narrow_column_avx512bf16, plumb_narrow_add_avx512bf16},
#endif
};
const size_t plumb_lanes_count = sizeof plumb_lanes_rows / sizeof plumb_lanes_rows[0];

static bool agrees(const void *micro)
{
    return plumb_micro_agrees(micro);
}

static bool is_fast(const plumb_micro *micro)
{
    return (micro->cpu & ~plumb_cpu_flags()) == 0 && (!micro->amd || plumb_cpu_is_amd()) &&
           (!micro->on_trial || plumb_cpu_trust(micro->cpu, agrees, micro));
}

const plumb_micro *plumb_micro_best(void)
{
    size_t i = plumb_micro_count - 1;

    while (i > 0 && !is_fast(&plumb_micros[i]))
        i--;
    return &plumb_micros[i];
}

plumb_status plumb_matmul_extended(const plumb_accumulator *how, const plumb_operand *a,
                                   const plumb_operand *b, float *c, size_t ldc,
                                   bool accumulate, plumb_tile tile,
                                   const plumb_extras *extras, void *workspace,
                                   plumb_error *why)
{
    return plumb_matmul_extended_with(
        plumb_micro_best(), PLUMB_CPU_BEST(&plumb_lanes_rows[plumb_lanes_count - 1]), how,
        a, b, c, ldc, accumulate, tile, extras, workspace, why);
}

plumb_status plumb_matmul(const plumb_accumulator *how, const plumb_operand *a,
                          const plumb_operand *b, float *c, size_t ldc, bool accumulate,
                          plumb_tile tile, void *workspace, plumb_error *why)
{
    return plumb_matmul_extended(how, a, b, c, ldc, accumulate, tile, NULL, workspace, why);
}
