/* Matrix units against cases worked by hand and outputs of real GPUs that lie beside this file,
 * and each rule of a unit that its row can express broken on purpose: the vectors must tell.
 */
#include "vectors.h"

#include "check.h"

#include <stdlib.h>

static void read_beside(const char *name, vectors *v)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/tests/matmul/%s", getenv("PLUMB_SOURCE_DIR"), name);
    if (!vectors_read(path, NULL, v)) {
        printf("Bail out! cannot read %s\n", path);
        exit(1);
    }
}

static void all_rows(const char *name, const vectors *v, void *workspace)
{
    for (size_t i = 0; i < v->count; i++) {
        const vector *row = &v->rows[i];
        const plumb_unit *unit = plumb_unit_get(row->kind);
        const uint32_t dot = vector_dot(row, unit), c = vector_matmul(row, workspace);

        CHECK(dot == row->d, "%s %s: unit gives %08x, want %08x", row->id, unit->name, dot,
              row->d);
        CHECK(c == row->d, "%s %s: product gives %08x, want %08x", row->id, unit->name, c,
              row->d);
    }
    check_done(name);
}

/* A wrong row misses some of the vectors. */
static void is_told(const vectors *v, plumb_sum_kind kind, const plumb_unit *wrong,
                    const char *rule)
{
    const size_t missed = vectors_missed(v, kind, wrong);

    printf("# %s, %s: %zu missed\n", wrong->name, rule, missed);
    CHECK(missed > 0, "%s: nothing tells that %s is wrong", wrong->name, rule);
}

static void broken_rules(plumb_sum_kind kind, const vectors *v)
{
    const plumb_unit unit = *plumb_unit_get(kind);
    plumb_unit wrong = unit;

    CHECK(vectors_missed(v, kind, &unit) == 0, "%s is wrong itself", unit.name);
    wrong.fraction_bits = unit.fraction_bits - 1;
    is_told(v, kind, &wrong, "one fraction bit less");
    wrong.fraction_bits = unit.fraction_bits + 1;
    is_told(v, kind, &wrong, "one fraction bit more");
    wrong = unit;
    wrong.terms_8 /= 2;
    wrong.terms_16 /= 2;
    wrong.terms_tf32 /= 2;
    is_told(v, kind, &wrong, "half as many terms");
    wrong = unit;
    wrong.rounding = PLUMB_ROUND_NEAREST_EVEN;
    is_told(v, kind, &wrong, "nearest results");
    wrong = unit;
    wrong.result_bits = unit.result_bits == 13 ? 23 : 13;
    is_told(v, kind, &wrong, "another width of results");
    wrong = unit;
    wrong.addend_every = unit.addend_every > 0 ? 0
                         : unit.terms_8 > 0    ? unit.terms_8
                                               : unit.terms_16;
    wrong.interleaved = false;
    is_told(v, kind, &wrong, "C on the other side of the sum");
    wrong = unit;
    wrong.nan_fp32 = wrong.nan_fp16 = 0x7fc00000;
    if (unit.terms_8 > 0)
        is_told(v, kind, &wrong, "another NaN");
}

/* Rules that one unit has, or outputs of one chip tell. */
static void rules_of_one_unit(const vectors *v)
{
    const plumb_unit mma = *plumb_unit_get(PLUMB_SUM_HOPPER_MMA);
    const plumb_unit half = *plumb_unit_get(PLUMB_SUM_HOPPER_16);
    plumb_unit wrong = mma;

    wrong.interleaved = false;
    is_told(v, PLUMB_SUM_HOPPER_MMA, &wrong, "order of k");
    wrong = mma;
    wrong.as_fp16 = false;
    is_told(v, PLUMB_SUM_HOPPER_MMA, &wrong, "E4M3 subnormals as coded");
    for (int up = -1; up <= 1; up += 2) {
        wrong = half;
        wrong.floor_fp32 += up;
        is_told(v, PLUMB_SUM_HOPPER_16, &wrong, "another floor for fp32 results");
        wrong = half;
        wrong.floor_fp16 += up;
        is_told(v, PLUMB_SUM_HOPPER_16, &wrong, "another floor for fp16 results");
        wrong = half;
        wrong.nan_fp32 = wrong.nan_fp16 = 0x7fc00000;
        is_told(v, PLUMB_SUM_HOPPER_16, &wrong, "another NaN");
    }
}

/* The two published models differ below 2^-126 (eight products of 2^-152: nothing, or 2^-149), and
 * the floor decides; an H200 gives 2^-149.
 */
static void exponent_floor(void)
{
    const uint16_t x[8] = {0x1980, 0x1980, 0x1980, 0x1980, 0x1980, 0x1980, 0x1980, 0x1980};
    const uint16_t small = 0x0d80; /* 2^-100 */
    plumb_unit unit = *plumb_unit_get(PLUMB_SUM_HOPPER_16);
    float d = -1;

    CHECK(plumb_unit_dot(&unit, PLUMB_FP32, PLUMB_BF16, x, PLUMB_BF16, x, 8, 0, &d, NULL) ==
                  PLUMB_OK &&
              d == 0x1p-149f,
          "floor -133: %a", (double)d);
    unit.floor_fp32 = -126;
    CHECK(plumb_unit_dot(&unit, PLUMB_FP32, PLUMB_BF16, x, PLUMB_BF16, x, 8, 0, &d, NULL) ==
                  PLUMB_OK &&
              d == 0,
          "floor -126: %a", (double)d);
    /* Without a floor a zero C must not be shifted by its distance: UBSan watches. */
    unit.floor_fp32 = -1024;
    CHECK(plumb_unit_dot(&unit, PLUMB_FP32, PLUMB_BF16, &small, PLUMB_BF16, &small, 1, 0,
                         &d, NULL) == PLUMB_OK &&
              d == 0,
          "2^-200: %a", (double)d);
    check_done("the floor of the exponent");
}

static void refused_rows(void)
{
    const uint8_t x[4] = {0x38, 0x38, 0x38, 0x38};
    const plumb_unit good = *plumb_unit_get(PLUMB_SUM_HOPPER_MMA);
    plumb_unit bad[9];
    float d = -1;

    for (size_t i = 0; i < 9; i++)
        bad[i] = good;
    bad[0].terms_8 = 0;
    bad[1].terms_8 = PLUMB_UNIT_MAX_TERMS + 1;
    bad[2].fraction_bits = 0;
    bad[3].fraction_bits = PLUMB_UNIT_MAX_FRACTION + 1;
    bad[4].result_bits = 24;
    bad[5].addend_every = 24;
    bad[6].addend_every = 0;
    bad[7].floor_fp32 = 128;
    bad[8].rounding = PLUMB_ROUND_STOCHASTIC;
    for (size_t i = 0; i < 9; i++)
        CHECK(plumb_unit_dot(&bad[i], PLUMB_FP32, PLUMB_E4M3, x, PLUMB_E4M3, x, 4, 0, &d,
                             NULL) == PLUMB_BAD_ARGUMENT &&
                  d == -1,
              "row %zu", i);
    CHECK(plumb_unit_dot(&good, PLUMB_BF16, PLUMB_E4M3, x, PLUMB_E4M3, x, 4, 0, &d, NULL) ==
              PLUMB_BAD_ARGUMENT,
          "bf16 results");
    CHECK(plumb_unit_dot(&good, PLUMB_FP32, PLUMB_E4M3, x, PLUMB_UE4M3, x, 4, 0, &d,
                         NULL) == PLUMB_UNSUPPORTED,
          "ue4m3");
    CHECK(plumb_unit_get(PLUMB_SUM_FP32) == NULL &&
              plumb_unit_get(PLUMB_SUM_EXACT) == NULL &&
              plumb_unit_get(PLUMB_SUM_COUNT) == NULL,
          "a row where there is none");
    check_done("rows that are refused");
}

int main(void)
{
    static const plumb_sum_kind broken[] = {
        PLUMB_SUM_HOPPER_WGMMA,      PLUMB_SUM_ADA_MMA,   PLUMB_SUM_HOPPER_MMA,
        PLUMB_SUM_BLACKWELL_TCGEN05, PLUMB_SUM_HOPPER_16, PLUMB_SUM_AMPERE_16,
        PLUMB_SUM_VOLTA_16};
    _Alignas(64) static unsigned char workspace[1 << 20];
    static const struct {
        const char *file, *what;
    } files[] = {
        {"hand.csv", "cases worked by hand"},
        {"silicon.csv", "outputs of GPUs"},
        {"hardware/h200-rows.csv", "outputs of an H200"},
    };
    vectors all = {NULL, 0};

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        vectors some;

        read_beside(files[i].file, &some);
        all_rows(files[i].what, &some, workspace);
        all.rows = realloc(all.rows, (all.count + some.count) * sizeof *all.rows);
        memcpy(all.rows + all.count, some.rows, some.count * sizeof *all.rows);
        all.count += some.count;
        vectors_free(&some);
    }
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        broken_rules(broken[i], &all);
    rules_of_one_unit(&all);
    check_done("rules broken on purpose are told");
    exponent_floor();
    refused_rows();
    vectors_free(&all);
    return check_exit();
}
