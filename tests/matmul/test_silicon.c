/* Matrix units against all outputs of real GPUs in ../shared/data/matrix-unit-vectors: 2,000 rows
 * of each file, through the unit and through the product.  Skipped where the folder is absent.
 */
#include "vectors.h"

#include "check.h"

#include <stdlib.h>

typedef struct file {
    const char *name;
    plumb_sum_kind kind;
    plumb_format format, output;
} file;

/* FP8 with fp16 results ran on mma.sync, with fp32 results on wgmma. */
static const file files[] = {
    {"a100-bf16-fp32", PLUMB_SUM_AMPERE_16, PLUMB_BF16, PLUMB_FP32},
    {"ada-e4m3-fp16", PLUMB_SUM_ADA_MMA, PLUMB_E4M3, PLUMB_FP16},
    {"ada-e4m3-fp32", PLUMB_SUM_ADA_MMA, PLUMB_E4M3, PLUMB_FP32},
    {"ada-e5m2-fp32", PLUMB_SUM_ADA_MMA, PLUMB_E5M2, PLUMB_FP32},
    {"h100-bf16-fp32", PLUMB_SUM_HOPPER_16, PLUMB_BF16, PLUMB_FP32},
    {"h100-e4m3-fp16", PLUMB_SUM_HOPPER_MMA, PLUMB_E4M3, PLUMB_FP16},
    {"h100-e4m3-fp32", PLUMB_SUM_HOPPER_WGMMA, PLUMB_E4M3, PLUMB_FP32},
    {"h100-e5m2-fp32", PLUMB_SUM_HOPPER_WGMMA, PLUMB_E5M2, PLUMB_FP32},
    {"v100-fp16-fp32", PLUMB_SUM_VOLTA_16, PLUMB_FP16, PLUMB_FP32},
};

/* What each wrong rule would miss, for the record. */
static void ablate(const file *f, const vectors *v)
{
    const plumb_unit unit = *plumb_unit_get(f->kind);
    plumb_unit less = unit, more = unit, half = unit, nearest = unit, wide = unit,
               after = unit;

    less.fraction_bits--;
    more.fraction_bits++;
    half.terms_8 /= 2;
    half.terms_16 /= 2;
    nearest.rounding = PLUMB_ROUND_NEAREST_EVEN;
    wide.result_bits = 36 - unit.result_bits;
    after.addend_every = unit.addend_every > 0 ? 0
                         : unit.terms_8 > 0    ? unit.terms_8
                                               : unit.terms_16;
    after.interleaved = false;
    printf("# %s, of %zu missed with F-1 %zu, F+1 %zu, n/2 %zu, nearest %zu, %d bits %zu, "
           "C elsewhere %zu\n",
           f->name, v->count, vectors_missed(v, f->kind, &less),
           vectors_missed(v, f->kind, &more), vectors_missed(v, f->kind, &half),
           vectors_missed(v, f->kind, &nearest), wide.result_bits,
           vectors_missed(v, f->kind, &wide), vectors_missed(v, f->kind, &after));
}

static void compare(const file *f, const vectors *v, void *workspace)
{
    const plumb_unit *unit = plumb_unit_get(f->kind);

    CHECK(v->count == 2000, "%s has %zu rows", f->name, v->count);
    for (size_t i = 0; i < v->count; i++) {
        const vector *row = &v->rows[i];
        const uint32_t dot = vector_dot(row, unit), c = vector_matmul(row, workspace);

        CHECK(dot == row->d && c == row->d,
              "%s row %zu: unit %08x, product %08x, hardware %08x", f->name, i + 1, dot, c,
              row->d);
    }
    ablate(f, v);
    check_done(f->name);
}

int main(void)
{
    _Alignas(64) static unsigned char workspace[1 << 20];

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const file *f = &files[i];
        const vector of = {.kind = f->kind,
                           .format = f->format,
                           .format_b = f->format,
                           .output = f->output};
        char path[1024];
        vectors v;

        snprintf(path, sizeof path, "%s/../shared/data/matrix-unit-vectors/%s.csv",
                 getenv("PLUMB_SOURCE_DIR"), f->name);
        if (vectors_read(path, &of, &v))
            compare(f, &v, workspace);
        else
            check_skip(f->name, "skipped: no ../shared/data/matrix-unit-vectors");
        vectors_free(&v);
    }
    return check_exit();
}
