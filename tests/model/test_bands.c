/* Quantising by bands against plumb_quantize over the whole: codes, scales, counts and the state of
 * delayed scaling, bit by bit, for every grain and rule, on both axes, for matrices that do and do
 * not divide into bands.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "check.h"
#include "model/model.h"

enum { ROWS = 517, COLS = 200, MOST = ROWS * COLS };

static const char *const specs[] = {
    "fp32",
    "bf16",
    "e4m3:none",
    "e4m3:static=3",
    "e4m3:current",
    "e5m2:current:pow2:margin=2",
    "e4m3:current:divide",
    "e4m3:current:floor=64:overflow",
    "e4m3:delayed",
    "e5m2:delayed:overflow",
    "e4m3:1x128:current",
    "e4m3:1x128:divide",
    "e4m3:1x128:static=0.5",
    "e4m3:128x128:current",
    "e4m3:128x128:none",
    "e4m3:row:current",
    "e4m3:mx32",
    "e2m1:nvfp4",
    "e4m3:stochastic",
    "e5m2:1x128:stochastic8",
    "bf16:stochastic",
};
static const size_t rows_of[] = {1, 64, 128, 129, 300, ROWS};
static const size_t cols_of[] = {1, 16, 100, COLS};

/* Magnitudes from 2^-20 to 2^20, zeros, and what is not finite where asked. */
static void fill(float *x, size_t n, bool wild)
{
    uint32_t state = 11;

    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = ldexpf((float)(state >> 8) / 8388608.0f - 1, (int)(state % 41) - 20);
        if (state % 97 == 0)
            x[i] = 0;
    }
    for (size_t i = 5; wild && i < n; i += n / 3 + 1)
        x[i] = i % 2 == 0 ? NAN : -INFINITY;
}

/* One quantisation and everything that it leaves behind. */
typedef struct result {
    plumb_quantized q;
    unsigned char *codes;
    float *d;
    plumb_counts counts;
    plumb_scale_state state;
} result;

static void compare(const result *a, const result *b, size_t bytes, size_t scales,
                    const char *what)
{
    CHECK(a->q.format == b->q.format && a->q.grain == b->q.grain &&
              a->q.rows == b->q.rows && a->q.cols == b->q.cols && a->q.ld == b->q.ld &&
              a->q.along_rows == b->q.along_rows && a->q.d_tensor == b->q.d_tensor &&
              (a->q.d == NULL) == (b->q.d == NULL),
          "%s: another matrix", what);
    CHECK(b->q.codes == b->codes && (b->q.d == NULL || b->q.d == b->d),
          "%s: memory of its own", what);
    CHECK(memcmp(a->codes, b->codes, bytes) == 0, "%s: codes differ", what);
    CHECK(scales == 0 || memcmp(a->d, b->d, scales * sizeof *a->d) == 0,
          "%s: scales differ", what);
    CHECK(memcmp(&a->counts, &b->counts, sizeof a->counts) == 0, "%s: counts differ", what);
    CHECK(memcmp(&a->state, &b->state, sizeof a->state) == 0, "%s: states differ", what);
}

static void try(const plumb_spec *spec, const float *x, size_t rows, size_t cols,
                bool along_rows, int threads, result made[2], const char *what)
{
    const plumb_model m = {.threads = threads};
    plumb_error why = {0};
    size_t bytes, scales;

    CHECK_OK(plumb_quantized_need(spec, rows, cols, along_rows, &bytes, &scales, &why),
             why);
    for (int i = 0; i < 2; i++) {
        result *r = &made[i];

        memset(r->codes, 0x55, bytes);
        memset(r->d, 0x55, scales * sizeof *r->d);
        memset(&r->counts, 0, sizeof r->counts);
        memset(&r->state, 0, sizeof r->state);
        plumb_scale_state_init(&r->state);
        r->state.scale = 7;
        r->state.pending = rows % 2 == 0 ? 1e30f : 3;
        r->q = (plumb_quantized){.codes = r->codes, .d = r->d};
    }
    const plumb_source source = {PLUMB_FP32, x, rows, cols, cols};
    const plumb_draw draw = {3, 5};
    const plumb_copies copies = {.along_columns = along_rows ? NULL : &made[0].q,
                                 .along_rows = along_rows ? &made[0].q : NULL,
                                 .column_counts = &made[0].counts,
                                 .row_counts = &made[0].counts};

    CHECK_OK(
        plumb_quantize_copies(spec, &source, &draw, &made[0].state, true, &copies, &why),
        why);
    CHECK_OK(bands_quantise(&m, spec, x, rows, cols, along_rows, &draw, &made[1].state,
                            &made[1].q, &made[1].counts, &why),
             why);
    compare(&made[0], &made[1], bytes, scales, what);
}

static void all_shapes(const plumb_spec *spec, const char *text, const float *x,
                       result made[2])
{
    for (size_t r = 0; r < sizeof rows_of / sizeof *rows_of; r++) {
        for (size_t c = 0; c < sizeof cols_of / sizeof *cols_of; c++) {
            for (int way = 0; way < 6; way++) {
                char what[160];
                const int threads = 1 + way / 2;

                snprintf(what, sizeof what, "%s, %zu x %zu, %s, %d threads", text,
                         rows_of[r], cols_of[c], way % 2 == 0 ? "columns" : "rows",
                         threads);
                try(spec, x, rows_of[r], cols_of[c], way % 2 == 1, threads, made, what);
            }
        }
    }
}

int main(void)
{
    float *x = malloc(MOST * sizeof *x);
    result made[2] = {0};

    for (int i = 0; i < 2; i++) {
        made[i].codes = malloc(MOST * sizeof(float));
        made[i].d = malloc(MOST * sizeof(float));
    }
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        plumb_spec spec;
        plumb_error why = {0};

        if (!CHECK_OK(plumb_spec_parse(specs[i], NULL, &spec, &why), why))
            continue;
        fill(x, MOST, false);
        all_shapes(&spec, specs[i], x, made);
        fill(x, MOST, true);
        all_shapes(&spec, specs[i], x, made);
    }
    check_done("bands are the whole");
    for (int i = 0; i < 2; i++) {
        free(made[i].codes);
        free(made[i].d);
    }
    free(x);
    return check_exit();
}
