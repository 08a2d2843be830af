/* Copies of matrices against oracle.h: every grain, rule, format and rounding, both axes, both
 * sources, one copy and two, sizes about every block length, gaps, odd addresses, hostile values,
 * every instruction set.
 */
#include "oracle.h"

#include "check.h"

static uint64_t state = 3;

static uint32_t bits32(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32) ^ (uint32_t)(state >> 13);
}

/* --- contents ------------------------------------------------------------------------------ */

typedef enum contents { MIXED, HOSTILE, ZEROS, TINY, HUGE_VALUES, CONTENTS } contents;

static float draw(contents kind)
{
    static const float special[] = {0.0f,    -0.0f,  INFINITY, -INFINITY, NAN,
                                    FLT_MAX, 1e-45f, -1e-40f,  FLT_MIN,   448};
    const float unit = (float)(bits32() % 20001) - 10000;

    if (kind == ZEROS)
        return bits32() % 2 ? 0.0f : -0.0f;
    if (kind == TINY) /* subnormals, mostly */
        return ldexpf(unit, -135 - (int)(bits32() % 14));
    if (kind == HUGE_VALUES)
        return ldexpf(unit, 100 + (int)(bits32() % 14));
    if (kind == HOSTILE && bits32() % 40 == 0)
        return special[bits32() % 10];
    return bits32() % 50 == 0 ? 0 : ldexpf(unit, (int)(bits32() % 30) - 20);
}

static uint16_t to_bf16(float *x)
{
    uint32_t bits;

    memcpy(&bits, x, sizeof bits);
    if (isnan(*x))
        bits |= 0x00400000u;
    bits &= 0xffff0000u;
    memcpy(x, &bits, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* A matrix with `gap` elements behind each row, poison in them, off the usual alignment. */
typedef struct matrix {
    plumb_source source;
    void *memory;
    float *values; /* [rows, cols], contiguous */
} matrix;

static matrix make(plumb_format format, size_t rows, size_t cols, size_t gap, contents kind)
{
    const size_t ld = cols + gap, n = rows * ld + 1;
    matrix m = {.source = {.format = format, .rows = rows, .cols = cols, .ld = ld}};

    m.memory = malloc(n * sizeof(float));
    m.values = malloc((rows * cols + 1) * sizeof(float));
    float *floats = (float *)m.memory + 1;
    uint16_t *halves = (uint16_t *)m.memory + 1;

    for (size_t i = 0; i < rows * ld; i++) {
        float x = i % ld < cols ? draw(kind) : (float)NAN;

        if (format == PLUMB_BF16)
            halves[i] = to_bf16(&x);
        else
            floats[i] = x;
        if (i % ld < cols)
            m.values[i / ld * cols + i % ld] = x;
    }
    m.source.x = format == PLUMB_BF16 ? (const void *)halves : (const void *)floats;
    return m;
}

static void unmake(matrix *m)
{
    free(m->memory);
    free(m->values);
}

/* --- a copy and what it must be ---------------------------------------------------------------- */

static const plumb_draw draws = {0x0123456789abcdef, 77};

typedef struct made {
    plumb_quantized q;
    uint8_t *codes;
    float *d;
    size_t bytes, scales;
    plumb_counts counts;
} made;

static made take(const plumb_spec *spec, const matrix *m, bool along_rows)
{
    made c = {0};
    plumb_error why = {0};

    CHECK_OK(plumb_quantized_need(spec, m->source.rows, m->source.cols, along_rows,
                                  &c.bytes, &c.scales, &why),
             why);
    c.codes = malloc(c.bytes + 2);
    c.d = malloc((c.scales + 1) * sizeof *c.d);
    c.codes[0] = c.codes[c.bytes + 1] = 0x5a;
    c.d[c.scales] = 12345;
    c.q = (plumb_quantized){.codes = c.codes + 1, .d = c.d, .d_tensor = 99};
    return c;
}

static void give(made *c)
{
    free(c->codes);
    free(c->d);
}

static uint32_t random_word(uint64_t stream, uint64_t index)
{
    uint32_t words[4];

    plumb_random_bits(draws.seed, stream, index / 4, words);
    return words[index % 4];
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* A decoded code: two products, each rounded. */
static float decoded(const oracle_format *f, unsigned code, float d, float d_tensor)
{
    const float first = (float)oracle_value(f, code) * d;

    return first * d_tensor;
}

typedef struct expected {
    const char *text;
    const plumb_spec *spec;
    bool along_rows;
    float delayed, of_tensor;
    oracle_cast how;
    oracle_scale *scales; /* of each block, once it was asked for */
    bool *known;
} expected;

static oracle_scale scale_of(const expected *e, const matrix *m, size_t row, size_t col,
                             size_t *index)
{
    const size_t rows = m->source.rows, cols = m->source.cols;
    const oracle_block b = oracle_block_of(e->spec, rows, cols, e->along_rows, row, col);

    if (!e->known[b.d]) {
        const float amax = oracle_amax(m->values, cols, b.row, b.row_end, b.col, b.col_end);

        e->scales[b.d] = oracle_scale_of(e->spec, amax, e->delayed, e->of_tensor);
        e->known[b.d] = true;
    }
    *index = b.d;
    return e->scales[b.d];
}

static void check_element(const expected *e, const matrix *m, const made *got, size_t row,
                          size_t col, const float *back, oracle_tally *tally)
{
    const size_t cols = m->source.cols, i = row * cols + col;
    size_t index;
    const oracle_scale s = scale_of(e, m, row, col, &index);
    const bool turned = e->along_rows && e->spec->rule != PLUMB_SCALE_NONE &&
                        e->spec->grain != PLUMB_GRAIN_TENSOR &&
                        e->spec->grain != PLUMB_GRAIN_128X128;
    const uint32_t bits =
        e->how.rounding != PLUMB_ROUND_STOCHASTIC
            ? 0
            : random_word(turned ? draws.stream ^ 0x9e3779b97f4a7c15u : draws.stream,
                          turned ? col * m->source.rows + row : i);
    const float x = m->values[i], product = s.divide ? x / s.factor : x * s.factor;
    const float d_tensor = e->spec->grain == PLUMB_GRAIN_NVFP4 ? 1 / e->of_tensor : 1;
    const uint8_t *codes = got->codes + 1;
    bool over;
    const unsigned code = oracle_encode(&e->how, product, bits, &over);

    oracle_count(tally, e->how.format, x, product, code, over, (double)(s.d * d_tensor));
    CHECK(codes[i] == code, "%s %s [%zu, %zu] of %zu x %zu: %a has code %02x, want %02x",
          e->text, e->along_rows ? "rows" : "columns", row, col, m->source.rows, cols,
          (double)x, codes[i], code);
    if (got->q.d != NULL)
        CHECK(same_float(got->d[index], s.d), "%s %s: d[%zu] = %a, want %a", e->text,
              e->along_rows ? "rows" : "columns", index, (double)got->d[index],
              (double)s.d);
    if (oracle_finite(e->how.format, code)) {
        const float want = decoded(e->how.format, code, s.d, d_tensor);

        CHECK(same_float(back[i], want), "%s: [%zu, %zu] decodes to %a, want %a", e->text,
              row, col, (double)back[i], (double)want);
    } else {
        CHECK(!isfinite(back[i]), "%s: [%zu, %zu] decodes to %a", e->text, row, col,
              (double)back[i]);
    }
}

static void check_counts(const expected *e, const plumb_counts *got,
                         const plumb_counts *want)
{
    CHECK(got->total == want->total && got->saturated == want->saturated &&
              got->clipped == want->clipped && got->flushed == want->flushed &&
              got->zero == want->zero && got->nonfinite == want->nonfinite &&
              got->amax == want->amax && got->code_amax == want->code_amax,
          "%s: counts %llu %llu %llu %llu %llu %llu %a %a, want %llu %llu %llu %llu %llu "
          "%llu "
          "%a %a",
          e->text, (unsigned long long)got->total, (unsigned long long)got->saturated,
          (unsigned long long)got->clipped, (unsigned long long)got->flushed,
          (unsigned long long)got->zero, (unsigned long long)got->nonfinite,
          (double)got->amax, (double)got->code_amax, (unsigned long long)want->total,
          (unsigned long long)want->saturated, (unsigned long long)want->clipped,
          (unsigned long long)want->flushed, (unsigned long long)want->zero,
          (unsigned long long)want->nonfinite, (double)want->amax, (double)want->code_amax);
}

/* Sums of n squares in fp64: each addition errs by 2^-53 of what it has at most. */
static bool close_to(double got, long double want, uint64_t n)
{
    if (!isfinite(got) || !isfinite((double)want))
        return !isfinite(got) == !isfinite((double)want);
    return fabsl((long double)got - want) <=
           want * (long double)(n + 8) * (long double)DBL_EPSILON + 1e-300L;
}

static void check_spectrum(const expected *e, const plumb_spectrum *got,
                           const oracle_tally *want)
{
    const uint64_t n = want->counts.total;

    CHECK(memcmp(got->exponent, want->exponent, sizeof got->exponent) == 0,
          "%s: the histogram of exponents", e->text);
    CHECK(close_to(got->signal, want->signal, n), "%s: signal %a, want %La", e->text,
          got->signal, want->signal);
    CHECK(close_to(got->error, want->error, n), "%s: error %a, want %La", e->text,
          got->error, want->error);
}

static void check_copy(const char *text, const plumb_spec *spec, const matrix *m,
                       bool along_rows, float delayed, made *got,
                       const plumb_spectrum *spectrum)
{
    const size_t rows = m->source.rows, cols = m->source.cols;
    expected e = {.text = text, .spec = spec, .along_rows = along_rows, .delayed = delayed};
    float *back = malloc((rows * cols + 1) * sizeof *back);

    e.scales = calloc(rows * cols + 1, sizeof *e.scales);
    e.known = calloc(rows * cols + 1, sizeof *e.known);
    oracle_tally tally = {0};
    plumb_error why = {0};

    e.of_tensor = oracle_tensor_scale(oracle_amax(m->values, cols, 0, rows, 0, cols));
    e.how = (oracle_cast){oracle_format_of(spec->format), spec->saturate, spec->rounding,
                          spec->dither};
    CHECK(got->codes[0] == 0x5a && got->codes[got->bytes + 1] == 0x5a &&
              got->d[got->scales] == 12345,
          "%s: written outside the copy", text);
    CHECK(got->bytes == rows * cols && got->q.rows == rows && got->q.cols == cols &&
              got->q.ld == cols && got->q.along_rows == along_rows &&
              got->q.grain == spec->grain && got->q.format == spec->format &&
              (got->q.d == NULL) == (spec->rule == PLUMB_SCALE_NONE) &&
              got->scales == plumb_quantized_scale_count(&got->q),
          "%s: fields", text);
    CHECK(got->q.d_tensor == (spec->grain == PLUMB_GRAIN_NVFP4 ? 1 / e.of_tensor : 1),
          "%s: d_tensor %a", text, (double)got->q.d_tensor);
    CHECK_OK(plumb_dequantize(&got->q, back, &why), why);
    for (size_t row = 0; row < rows; row++) {
        for (size_t col = 0; col < cols; col++)
            check_element(&e, m, got, row, col, back, &tally);
    }
    check_counts(&e, &got->counts, &tally.counts);
    if (spectrum != NULL)
        check_spectrum(&e, spectrum, &tally);
    free(back);
    free(e.scales);
    free(e.known);
}

/* --- one source, all the ways to copy it ---------------------------------------------------------- */

enum { COLUMNS = 1, ROWS = 2, BOTH = 3 };

static void one(const char *text, const matrix *m, int which, bool measured)
{
    plumb_spec spec = {0};
    plumb_error why = {0};
    plumb_spectrum spectrum = {0};
    plumb_scale_state delayed;

    if (!CHECK(plumb_spec_parse(text, NULL, &spec, &why) == PLUMB_OK, "%s", why.message))
        return;
    made columns = take(&spec, m, false), rows = take(&spec, m, true);
    const plumb_copies copies = {.along_columns = which & COLUMNS ? &columns.q : NULL,
                                 .along_rows = which & ROWS ? &rows.q : NULL,
                                 .column_counts = &columns.counts,
                                 .row_counts = &rows.counts,
                                 .spectrum = measured ? &spectrum : NULL};

    plumb_scale_state_init(&delayed);
    delayed.scale = 0.75f;
    delayed.pending = 0.5f;
    CHECK_OK(
        plumb_quantize_copies(&spec, &m->source, &draws, &delayed, true, &copies, &why),
        why);
    if (which & COLUMNS)
        check_copy(text, &spec, m, false, delayed.scale, &columns,
                   measured ? &spectrum : NULL);
    if (which & ROWS)
        check_copy(text, &spec, m, true, delayed.scale, &rows,
                   measured && which == ROWS ? &spectrum : NULL);
    if (spec.rule != PLUMB_SCALE_DELAYED)
        CHECK(delayed.pending == 0.5f, "%s: the state of another rule was raised", text);
    give(&columns);
    give(&rows);
}

static const char *const texts[] = {
    "e4m3:tensor",
    "e5m2:tensor:overflow",
    "e4m3:tensor:none",
    "e4m3:tensor:static=0.3",
    "e4m3:tensor:delayed",
    "e4m3:tensor:divide:floor=1e-4",
    "e4m3:row",
    "e5m2:row:pow2",
    "e4m3:row:divide:pow2",
    "e4m3:row:static=2",
    "e4m3:1x128",
    "e4m3:1x128:pow2:overflow",
    "e4m3:1x128:divide:floor=1e-4:margin=2",
    "e5m2:1x128:static=3",
    "e4m3:1x128:none",
    "e4m3:128x128",
    "e5m2:128x128:floor=100",
    "e4m3:mx32",
    "e4m3:mx32:mx-floor",
    "e5m2:mx32:mx-floor:overflow",
    "e5m2:mx32:mx-ceil",
    "e4m3:mx32:mx-even",
};

/* What the first version of the casts could not do. */
static const char *const texts_of_all_formats[] = {
    "e4m3fnuz:1x128",
    "e5m2fnuz:row:overflow",
    "e4m3fnuz:mx32:mx-even:overflow",
    "e3m2:mx32",
    "e2m3:mx32:mx-even",
    "e2m1:mx32:mx-floor:overflow",
    "e2m1:tensor",
    "e2m1:nvfp4",
    "e4m3:mx32:toward-zero",
    "e4m3:tensor:stochastic",
    "e5m2:128x128:stochastic",
    "e4m3:1x128:none:stochastic8",
    "e5m2:1x128:stochastic8-centred",
    "e3m2:row:stochastic",
    "e2m1:nvfp4:stochastic8",
    "e2m1:nvfp4:stochastic",
    "e4m3:mx32:stochastic",
};

static void shapes(const char *const *all, size_t count, const char *name)
{
    static const size_t sizes[][2] = {
        {0, 5},   {5, 0},   {1, 1},   {1, 16},  {17, 15},   {15, 17},   {16, 16}, {31, 33},
        {33, 31}, {32, 32}, {3, 127}, {127, 3}, {128, 129}, {129, 128}, {2, 300}, {300, 2}};
    unsigned turn = 0;

    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++, turn++) {
            for (int source = 0; source < 2; source++) {
                matrix m =
                    make(source == 0 ? PLUMB_FP32 : PLUMB_BF16, sizes[j][0], sizes[j][1],
                         turn % 3 == 0 ? 3 : 0, turn % 2 == 0 ? MIXED : HOSTILE);

                one(all[i], &m, BOTH, true);
                one(all[i], &m, COLUMNS, turn % 2 == 0);
                one(all[i], &m, ROWS, turn % 2 == 1);
                unmake(&m);
            }
        }
    }
    check_done(name);
}

static void all_contents(const char *const *all, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        for (contents kind = MIXED; kind < CONTENTS; kind++) {
            matrix m = make(i % 2 ? PLUMB_FP32 : PLUMB_BF16, 33, 150, 0, kind);

            one(all[i], &m, BOTH, true);
            unmake(&m);
        }
    }
    check_done(name);
}

#define EACH(function, texts, name) function(texts, sizeof texts / sizeof *texts, name)

/* --- the old entry, instruction sets, refusals --------------------------------------------------- */

static void one_copy(void)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int along_rows = 0; along_rows < 2; along_rows++) {
            matrix m = make(PLUMB_FP32, 130, 40, 0, HOSTILE);
            plumb_spec spec = {0};
            plumb_error why = {0};
            plumb_scale_state delayed;

            CHECK_OK(plumb_spec_parse(texts[i], NULL, &spec, &why), why);
            made copy = take(&spec, &m, along_rows);
            plumb_scale_state_init(&delayed);
            CHECK_OK(plumb_quantize(&spec, m.source.x, 130, 40, along_rows, &delayed, true,
                                    &copy.q, &copy.counts, &why),
                     why);
            check_copy(texts[i], &spec, &m, along_rows, 1, &copy, NULL);
            give(&copy);
            unmake(&m);
        }
    }
    check_done("plumb_quantize");
}

static uint64_t fold(uint64_t hash, const void *data, size_t size)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

/* Everything that a pair leaves behind, as a number. */
static uint64_t hash_of(const char *text, const matrix *m)
{
    plumb_spec spec = {0};
    plumb_error why = {0};
    plumb_spectrum spectrum = {0};
    plumb_scale_state delayed;
    uint64_t hash = 14695981039346656037u;

    CHECK_OK(plumb_spec_parse(text, NULL, &spec, &why), why);
    made c = take(&spec, m, false), r = take(&spec, m, true);
    const plumb_copies copies = {&c.q, &r.q, &c.counts, &r.counts, &spectrum};

    plumb_scale_state_init(&delayed);
    CHECK_OK(
        plumb_quantize_copies(&spec, &m->source, &draws, &delayed, true, &copies, &why),
        why);
    hash = fold(fold(hash, c.codes, c.bytes + 2), r.codes, r.bytes + 2);
    if (c.q.d != NULL)
        hash = fold(fold(hash, c.d, c.scales * sizeof *c.d), r.d, r.scales * sizeof *r.d);
    hash = fold(hash, &c.counts.total, 6 * sizeof c.counts.total);
    hash = fold(hash, &r.counts.total, 6 * sizeof r.counts.total);
    hash =
        fold(fold(hash, &c.counts.amax, sizeof(float)), &r.counts.code_amax, sizeof(float));
    hash = fold(hash, &spectrum, sizeof spectrum);
    give(&c);
    give(&r);
    return hash;
}

static void instruction_sets(const char *const *all, size_t count, const char *name)
{
    static const unsigned masks[] = {PLUMB_CPU_BASELINE, PLUMB_CPU_AVX2,
                                     PLUMB_CPU_AVX2 | PLUMB_CPU_AVX512};

    for (size_t i = 0; i < count; i++) {
        matrix m = make(i % 2 ? PLUMB_FP32 : PLUMB_BF16, 67, 139, 5, HOSTILE);
        uint64_t first = 0;

        for (size_t j = 0; j < sizeof masks / sizeof *masks; j++) {
            plumb_cpu_limit(masks[j]);
            const uint64_t hash = hash_of(all[i], &m);

            if (j == 0)
                first = hash;
            CHECK(hash == first, "%s: mask %u gives other bytes", all[i], masks[j]);
        }
        plumb_cpu_limit(~0u);
        unmake(&m);
    }
    check_done(name);
}

/* As many rows as there are addresses, none with an element: done at once. */
static void empty_rows(void)
{
    static const char *const grains[] = {"e4m3:tensor", "e4m3:1x128", "e4m3:128x128",
                                         "e4m3:mx32",   "e2m1:nvfp4", "e4m3:tensor:none"};
    const plumb_source source = {PLUMB_FP32, NULL, SIZE_MAX / 8, 0, 0};

    for (size_t i = 0; i < sizeof grains / sizeof *grains; i++) {
        float columns = 5, rows = 5, back;
        plumb_quantized q = {.d = &columns}, r = {.d = &rows};
        const plumb_copies copies = {.along_columns = &q, .along_rows = &r};
        plumb_spec spec = {0};
        plumb_error why = {0};

        CHECK_OK(plumb_spec_parse(grains[i], NULL, &spec, &why), why);
        CHECK_OK(plumb_quantize_copies(&spec, &source, NULL, NULL, true, &copies, &why),
                 why);
        CHECK_OK(plumb_dequantize(&q, &back, &why), why);
        CHECK(i == 0 ? columns == 1 && rows == 1 : columns == 5 && rows == 5,
              "%s: d %g and %g", grains[i], (double)columns, (double)rows);
    }
    check_done("rows without elements");
}

static void expect_refused(const char *what, plumb_status want, const plumb_spec *spec,
                           const plumb_source *source, const plumb_draw *draw,
                           plumb_scale_state *delayed, const plumb_copies *copies)
{
    plumb_error why = {0};
    const plumb_status status =
        plumb_quantize_copies(spec, source, draw, delayed, true, copies, &why);

    CHECK(status == want && why.message[0] != 0, "%s: %s, \"%s\"", what,
          plumb_status_name(status), why.message);
}

static void refusals(void)
{
    float x[6] = {1, 2, 3, 4, 5, 6}, d[6];
    uint8_t codes[6] = {0x5a, 0x5a, 0x5a, 0x5a, 0x5a, 0x5a};
    plumb_spec spec = {.format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT};
    plumb_quantized q = {.codes = codes, .d = d}, hollow = {.d = d},
                    bare = {.codes = codes};
    const plumb_copies copies = {.along_columns = &q}, no_codes = {.along_rows = &hollow},
                       no_scales = {.along_columns = &bare};
    plumb_source source = {PLUMB_FP32, x, 2, 3, 3}, other = source;

    expect_refused("no codes", PLUMB_BAD_ARGUMENT, &spec, &source, NULL, NULL, &no_codes);
    expect_refused("no scales", PLUMB_BAD_ARGUMENT, &spec, &source, NULL, NULL, &no_scales);
    other.format = PLUMB_FP16;
    expect_refused("fp16", PLUMB_BAD_FORMAT, &spec, &other, NULL, NULL, &copies);
    other = (plumb_source){PLUMB_FP32, x, 2, 3, 2};
    expect_refused("ld", PLUMB_BAD_SHAPE, &spec, &other, NULL, NULL, &copies);
    other = (plumb_source){PLUMB_FP32, x, 2, 3, SIZE_MAX / 2};
    expect_refused("ld that wraps", PLUMB_BAD_SHAPE, &spec, &other, NULL, NULL, &copies);
    other = (plumb_source){PLUMB_FP32, x, SIZE_MAX / 2, 3, 3};
    expect_refused("rows that wrap", PLUMB_BAD_SHAPE, &spec, &other, NULL, NULL, &copies);
    spec.rounding = PLUMB_ROUND_STOCHASTIC;
    expect_refused("no draw", PLUMB_BAD_ARGUMENT, &spec, &source, NULL, NULL, &copies);
    CHECK(plumb_quantize(&spec, x, 2, 3, false, NULL, true, &q, NULL, NULL) ==
              PLUMB_BAD_ARGUMENT,
          "plumb_quantize took a stochastic spec");
    spec.rounding = PLUMB_ROUND_NEAREST_EVEN;
    spec.rule = PLUMB_SCALE_DELAYED;
    expect_refused("no state", PLUMB_BAD_ARGUMENT, &spec, &source, NULL, NULL, &copies);
    spec = (plumb_spec){
        .format = PLUMB_E4M3, .grain = PLUMB_GRAIN_NVFP4, .rule = PLUMB_SCALE_CURRENT};
    expect_refused("nvfp4 of e4m3", PLUMB_BAD_ARGUMENT, &spec, &source, NULL, NULL,
                   &copies);
    spec.format = PLUMB_E8M0;
    expect_refused("e8m0", PLUMB_BAD_FORMAT, &spec, &source, NULL, NULL, &copies);
    spec.format = PLUMB_UE4M3;
    expect_refused("ue4m3", PLUMB_BAD_FORMAT, &spec, &source, NULL, NULL, &copies);
    CHECK(codes[0] == 0x5a && codes[5] == 0x5a, "a refused call wrote codes");
    spec = (plumb_spec){.format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT};
    CHECK(plumb_quantize_copies(&spec, &source, NULL, NULL, true, &(plumb_copies){0},
                                NULL) == PLUMB_OK,
          "no copies at all");
    check_done("refusals");
}

int main(void)
{
    EACH(shapes, texts, "every grain, rule, axis and source");
    EACH(shapes, texts_of_all_formats, "every format and rounding");
    EACH(all_contents, texts, "zeros, subnormals, huge values");
    EACH(all_contents, texts_of_all_formats, "the same in every format and rounding");
    EACH(instruction_sets, texts, "every instruction set");
    EACH(instruction_sets, texts_of_all_formats, "the same in every format and rounding");
    one_copy();
    empty_rows();
    refusals();
    return check_exit();
}
