/* Casts to a format with all counts, back again, and the largest magnitude: every variant of
 * the tables in kernel/cast.h, against a copy of the same bytes.
 */
#include "bench/bench.h"
#include "bench/peer.h"
#include "kernel/cast.h"

#include <math.h>
#include <string.h>

/* Normal values of this deviation, times the scale, stay below 448: 5.9 * 16 * 4. */
static const float deviation = 16, scale_8 = 4;

static size_t bytes_of(plumb_format format)
{
    return (size_t)plumb_format_get(format)->bytes;
}

static plumb_cast cast_for(plumb_format format)
{
    return (plumb_cast){.format = format,
                        .saturate = true,
                        .scale = plumb_format_get(format)->bits <= 8 ? scale_8 : 1};
}

/* --- encode ---------------------------------------------------------------------------- */

/* A way to cast: from what, how, and what is asked beside the counts. */
typedef struct manner {
    const char *name; /* behind that of the row; "" for the plain way */
    const char *what;
    plumb_format source;
    plumb_rounding rounding;
    bool spectrum;
    bool hostile;     /* values as a diverging run has them */
    bool every;       /* for every format; else for E4M3 and E5M2 */
    bench_place last; /* of the formats that training uses: places from L2 to this one */
} manner;

static const manner manners[] = {
    {"", "from fp32, scaled, all counts", PLUMB_FP32, PLUMB_ROUND_NEAREST_EVEN, false,
     false, true, BENCH_MEMORY},
    {"/spectrum", "the same with exponent histogram and energies", PLUMB_FP32,
     PLUMB_ROUND_NEAREST_EVEN, true, false, false, BENCH_MEMORY},
    {"/hostile", "every 16th value special or out of range", PLUMB_FP32,
     PLUMB_ROUND_NEAREST_EVEN, false, true, false, BENCH_L2},
    {"/stochastic", "32 random bits for each value", PLUMB_FP32, PLUMB_ROUND_STOCHASTIC,
     false, false, false, BENCH_L2},
    {"/from-bf16", "from bf16, scaled, all counts", PLUMB_BF16, PLUMB_ROUND_NEAREST_EVEN,
     false, false, false, BENCH_L3},
};

typedef struct encoding {
    const char *name;
    plumb_encode_fn *run;
    plumb_encode_job job;
} encoding;

static void encode(void *context)
{
    const encoding *e = context;

    memset(e->job.counts, 0, sizeof *e->job.counts);
    if (e->job.spectrum != NULL)
        memset(e->job.spectrum, 0, sizeof *e->job.spectrum);
    e->run(&e->job);
}

static size_t find_encoders(const plumb_encode_job *job, encoding each[BENCH_VARIANTS])
{
    size_t count = 0;

    for (size_t i = 0; i < plumb_encode_kernel_count && count < BENCH_VARIANTS; i++) {
        const plumb_encode_kernel *kernel = &plumb_encode_kernels[i];

        if (kernel->format == job->how->format && bench_may_run(kernel->cpu))
            each[count++] = (encoding){kernel->name, kernel->run, *job};
    }
    return count;
}

/* What a diverging run looks like: specials, overflow and underflow among the values. */
static void make_hostile(float *x, size_t n)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e4f, -1e30f, 1e-9f, -1e-20f, 0};

    for (size_t i = 0; i < n; i += 16)
        x[i] = odd[i / 16 % (sizeof odd / sizeof *odd)];
}

/* n values of the source format.  *x32 is set to them where they are fp32. */
static const void *take_source(bench *b, const manner *m, size_t n, const float **x32,
                               plumb_error *why)
{
    static const plumb_cast to_bf16 = {.format = PLUMB_BF16, .scale = 1};
    float *x = bench_take_normal(b, n, deviation, why);

    *x32 = NULL;
    if (x == NULL)
        return NULL;
    if (m->hostile)
        make_hostile(x, n);
    if (m->source == PLUMB_FP32)
        return *x32 = x;

    uint16_t *narrow = bench_take(b, n * sizeof *narrow, why);

    if (narrow != NULL)
        plumb_cast_encode(&to_bf16, x, n, narrow, NULL);
    return narrow;
}

static plumb_status run_encode(bench *b, const bench_case *row, plumb_error *why)
{
    const manner *m = row->extra;
    const size_t width = bytes_of(row->format), source = bytes_of(m->source);
    const size_t n = bench_elements(b, row->place, source, width);
    plumb_cast how = cast_for(row->format);
    void *codes = bench_take(b, n * width, why), *want = bench_take(b, n * width, why);
    const float *x32;
    const void *x = take_source(b, m, n, &x32, why);
    plumb_counts counts[2] = {{0}};
    plumb_spectrum spectrum[2] = {{{0}, 0, 0}};
    plumb_encode_job job = {.how = &how,
                            .source = m->source,
                            .x = x,
                            .n = n,
                            .codes = codes,
                            .counts = &counts[0],
                            .spectrum = &spectrum[0]};
    encoding each[BENCH_VARIANTS];
    bench_race race = {
        .work = (double)n, .unit = "elem", .bytes = (double)(n * (source + width))};
    const bench_output outputs[] = {
        {"codes", codes, want, n * width, width},
        {"counts", &counts[0], &counts[1], sizeof counts[0], sizeof counts[0].total},
        {"spectrum", &spectrum[0], &spectrum[1], sizeof spectrum[0], sizeof(double)}};

    if (x == NULL || codes == NULL || want == NULL)
        return PLUMB_NO_MEMORY;
    how.rounding = m->rounding;
    if (!m->spectrum)
        job.spectrum = NULL;
    const size_t count = find_encoders(&job, each);
    encoding reference = each[0];

    reference.job.codes = want;
    reference.job.counts = &counts[1];
    reference.job.spectrum = m->spectrum ? &spectrum[1] : NULL;
    encode(&reference);
    bench_enter_variants(b, &race, each, sizeof *each, count, encode, outputs,
                         m->spectrum ? 3 : 2);
    plumb_status status =
        bench_enter_copy(b, &race, x, codes, n, (int)source, (int)width, why);

    if (status == PLUMB_OK && b->options->peers && m->name[0] == 0)
        status = bench_enter_python_casts(b, &race, &how, x32, n, want, why);
    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

/* --- decode ---------------------------------------------------------------------------- */

typedef struct decoding {
    const char *name;
    plumb_decode_fn *run;
    plumb_format format;
    const void *codes;
    size_t n;
    float *x;
} decoding;

static void decode(void *context)
{
    const decoding *d = context;

    d->run(d->format, 0.25f, d->codes, d->n, d->x);
}

/* Every code, so that specials and subnormals are among them, in no regular order. */
static void fill_codes(unsigned char *codes, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (unsigned char)(i * 167 + i / 256 * 91);
}

static plumb_status run_decode(bench *b, const bench_case *row, plumb_error *why)
{
    const size_t width = bytes_of(row->format), n = bench_elements(b, row->place, width, 4);
    unsigned char *codes = bench_take(b, n * width, why);
    float *x = bench_take(b, n * sizeof *x, why), *want = bench_take(b, n * sizeof *x, why);
    decoding each[BENCH_VARIANTS];
    bench_race race = {
        .work = (double)n, .unit = "elem", .bytes = (double)(n * (4 + width))};
    const bench_output output = {"values", x, want, n * sizeof *x, sizeof *x};
    size_t count = 0;

    if (codes == NULL || x == NULL || want == NULL)
        return PLUMB_NO_MEMORY;
    fill_codes(codes, n * width);
    for (size_t i = 0; i < plumb_decode_kernel_count && count < BENCH_VARIANTS; i++) {
        const plumb_decode_kernel *kernel = &plumb_decode_kernels[i];

        if (kernel->format == row->format && bench_may_run(kernel->cpu))
            each[count++] = (decoding){kernel->name, kernel->run, row->format, codes, n, x};
    }
    each[0].run(row->format, 0.25f, codes, n, want);
    bench_enter_variants(b, &race, each, sizeof *each, count, decode, &output, 1);
    const plumb_status status = bench_enter_copy(b, &race, codes, x, n, (int)width, 4, why);

    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

/* --- amax ------------------------------------------------------------------------------ */

typedef struct looking {
    const char *name;
    plumb_amax_fn *run;
    const float *x;
    size_t n;
    float *amax;
} looking;

static void look(void *context)
{
    const looking *l = context;

    *l->amax = l->run(l->x, l->n);
}

static plumb_status run_amax(bench *b, const bench_case *row, plumb_error *why)
{
    const size_t n = bench_elements(b, row->place, 4, 0);
    float *x = bench_take_normal(b, n, deviation, why);
    float amax[2];
    looking each[BENCH_VARIANTS];
    bench_race race = {.work = (double)n, .unit = "elem", .bytes = 4.0 * (double)n};
    const bench_output output = {"amax", &amax[0], &amax[1], sizeof *amax, sizeof *amax};
    size_t count = 0;

    if (x == NULL)
        return PLUMB_NO_MEMORY;
    for (size_t i = 0; i < plumb_amax_kernel_count && count < BENCH_VARIANTS; i++) {
        const plumb_amax_kernel *kernel = &plumb_amax_kernels[i];

        if (bench_may_run(kernel->cpu))
            each[count++] = (looking){kernel->name, kernel->run, x, n, &amax[0]};
    }
    x[n - 1] = 8 * deviation; /* seen only by who reads to the end */
    amax[1] = each[0].run(x, n);
    bench_enter_variants(b, &race, each, sizeof *each, count, look, &output, 1);
    const plumb_status status = bench_enter_read(b, &race, x, n * sizeof *x, why);

    return status == PLUMB_OK ? bench_race_run(b, &race, why) : status;
}

/* --- the list -------------------------------------------------------------------------- */

/* The formats that training uses are shown in more places than L2. */
static bool is_usual(plumb_format format)
{
    return format == PLUMB_E4M3 || format == PLUMB_E5M2 || format == PLUMB_BF16;
}

static void add(bench_list *list, const char *verb, plumb_format format, const manner *m,
                bench_place last, bench_case_fn *run)
{
    const char *name = plumb_format_get(format)->name;

    for (bench_place place = last + 1; place-- > 0;) {
        bench_case row = {.run = run,
                          .slow = place == BENCH_MEMORY,
                          .format = format,
                          .place = place,
                          .extra = m};

        plumb_print(row.name, sizeof row.name, "%s/%s%s/%s", verb, name,
                    m == NULL ? "" : m->name, bench_place_name(place));
        plumb_print(row.what, sizeof row.what, "%s",
                    m == NULL ? "to fp32, scaled" : m->what);
        bench_add(list, &row);
    }
}

static void add_manners(bench_list *list, plumb_format format)
{
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++) {
        const manner *m = &manners[i];

        if (m->every || format == PLUMB_E4M3 || format == PLUMB_E5M2)
            add(list, "cast", format, m, is_usual(format) ? m->last : BENCH_L2, run_encode);
    }
}

void bench_list_casts(bench_list *list, const bench_machine *machine)
{
    (void)machine;
    /* The rows of one format lie together in the tables. */
    for (size_t i = 0; i < plumb_encode_kernel_count; i++)
        if (i == 0 || plumb_encode_kernels[i].format != plumb_encode_kernels[i - 1].format)
            add_manners(list, plumb_encode_kernels[i].format);
    for (size_t i = 0; i < plumb_decode_kernel_count; i++) {
        const plumb_format format = plumb_decode_kernels[i].format;

        if (i == 0 || format != plumb_decode_kernels[i - 1].format)
            add(list, "decode", format, NULL, is_usual(format) ? BENCH_MEMORY : BENCH_L2,
                run_decode);
    }
    for (bench_place place = BENCH_PLACES; place-- > 0;) {
        bench_case row = {.what = "largest magnitude of fp32",
                          .run = run_amax,
                          .slow = place == BENCH_MEMORY,
                          .place = place};

        plumb_print(row.name, sizeof row.name, "amax/%s", bench_place_name(place));
        bench_add(list, &row);
    }
}
