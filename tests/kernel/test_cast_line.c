/* Every cast against the number line (axis.h), codes and counts, in every variant of the machine.
 *
 *   test_kernel_cast_line              a share of the inputs, all formats and roundings
 *   test_kernel_cast_line share        ten times as many
 *   test_kernel_cast_line full FORMAT  every fp32 there is, nearest even
 *   test_kernel_cast_line rest FORMAT  all bf16, all boundaries, every 61st fp32; every rounding
 *
 * Inputs climb, so the oracle only steps from code to code.  What was tried is printed as lines
 * "# line ...", which ./run exhaustive gathers.
 */
#include "check.h"
#include "kernel/axis.h"
#include "kernel/cast.h"

#include <time.h>

enum { CHUNK = 4096 + 7 /* odd, so that tails are walked too */, NEAR = 3 };

static const struct {
    const char *name;
    plumb_rounding rounding;
    plumb_dither dither;
    bool saturate;
} modes[] = {
    {"nearest-saturating", PLUMB_ROUND_NEAREST_EVEN, 0, true},
    {"nearest", PLUMB_ROUND_NEAREST_EVEN, 0, false},
    {"zero-saturating", PLUMB_ROUND_TOWARD_ZERO, 0, true},
    {"zero", PLUMB_ROUND_TOWARD_ZERO, 0, false},
    {"stochastic-saturating", PLUMB_ROUND_STOCHASTIC, PLUMB_DITHER_32, true},
    {"stochastic", PLUMB_ROUND_STOCHASTIC, PLUMB_DITHER_32, false},
    {"stochastic8-saturating", PLUMB_ROUND_STOCHASTIC, PLUMB_DITHER_8, true},
    {"stochastic8c-saturating", PLUMB_ROUND_STOCHASTIC, PLUMB_DITHER_8_CENTRED, true},
};
enum { MODES = sizeof modes / sizeof modes[0] };

/* --- variants ------------------------------------------------------------------- */

static struct variant {
    const plumb_encode_kernel *kernel;
    uint64_t wrong; /* elements, and chunks whose counts differ */
    double cpu;     /* seconds in the cast */
} variants[16];
static int variant_count;

static void find_variants(plumb_format format)
{
    const unsigned have = plumb_cpu_flags();

    variant_count = 0;
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *kernel = &plumb_encode_kernels[i];

        if (kernel->format == format && (kernel->cpu & ~have) == 0)
            variants[variant_count++] = (struct variant){.kernel = kernel};
    }
}

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- chunks --------------------------------------------------------------------- */

typedef struct walk {
    axis a;
    plumb_cast how;
    plumb_format source; /* PLUMB_FP32 or PLUMB_BF16 */
    const char *mode;
    axis_walk line;
    bool measured; /* with the spectrum too */
    plumb_counts want_counts;
    uint64_t inputs;
    uint32_t n;
    float x[CHUNK];
    uint16_t x16[CHUNK];
    uint32_t want[CHUNK], got[CHUNK + 1]; /* room for codes of 4 bytes */
} walk;

static uint64_t wrong_codes(const walk *w, const struct variant *l)
{
    uint64_t wrong = 0;

    if (memcmp(w->want, w->got, w->n * (size_t)w->a.bytes) == 0)
        return 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t want = axis_code_at(&w->a, w->want, i);
        const uint32_t got = axis_code_at(&w->a, w->got, i);

        wrong += want != got;
        if (want != got)
            CHECK(false, "%s %s %s(%a) = %02x, want %02x", l->kernel->name, w->mode,
                  plumb_format_get(w->a.format)->name, (double)w->x[i], got, want);
    }
    return wrong;
}

static void report_counts(const walk *w, const struct variant *l, const plumb_counts *got)
{
    const plumb_counts *want = &w->want_counts;

    CHECK(
        false,
        "%s %s %s miscounted the %u values from %a: total %llu %llu saturated %llu %llu "
        "clipped %llu %llu flushed %llu %llu zero %llu %llu nonfinite %llu %llu amax %a %a "
        "code_amax %a %a",
        l->kernel->name, w->mode, plumb_format_get(w->a.format)->name, w->n,
        (double)w->x[0], (unsigned long long)got->total, (unsigned long long)want->total,
        (unsigned long long)got->saturated, (unsigned long long)want->saturated,
        (unsigned long long)got->clipped, (unsigned long long)want->clipped,
        (unsigned long long)got->flushed, (unsigned long long)want->flushed,
        (unsigned long long)got->zero, (unsigned long long)want->zero,
        (unsigned long long)got->nonfinite, (unsigned long long)want->nonfinite,
        (double)got->amax, (double)want->amax, (double)got->code_amax,
        (double)want->code_amax);
}

/* --- the spectrum ----------------------------------------------------------------- */

static bool same_spectrum(const walk *w, const struct variant *l, const plumb_spectrum *got,
                          const plumb_spectrum *want)
{
    return CHECK(memcmp(got, want, sizeof *got) == 0,
                 "%s %s: spectrum of the %u values from %a differs from the reference",
                 l->kernel->name, w->mode, w->n, (double)w->x[0]);
}

/* (x - value)^2, or 0 where either is not finite; decode is 1. */
static long double squared_error(const walk *w, uint32_t i)
{
    const uint32_t stored = axis_code_at(&w->a, w->want, i);
    const uint32_t magnitude = (stored & ~w->a.sign) >> w->a.shift;
    const double value = axis_value(&w->a, magnitude);

    if (!isfinite(w->x[i]) || magnitude > w->a.largest ||
        (stored == w->a.nan && w->a.nan != w->a.largest))
        return 0;
    const long double d = (long double)w->x[i] - (stored & w->a.sign ? -value : value);

    return d * d;
}

/* Counts of exponents exactly; each energy has at most one rounding for each of its terms in a
 * lane, two more for the term and four to join the lanes, and all terms have one sign.
 */
static bool right_spectrum(const walk *w, const plumb_spectrum *got)
{
    const long double slack = ((long double)w->n / 16 + 8) * 0x1p-53L;
    uint64_t exponent[256] = {0};
    long double signal = 0, error = 0;

    for (uint32_t i = 0; i < w->n; i++) {
        exponent[bits_from(w->x[i]) >> 23 & 0xff]++;
        signal += isfinite(w->x[i]) ? (long double)w->x[i] * (long double)w->x[i] : 0;
        error += squared_error(w, i);
    }
    return CHECK(memcmp(exponent, got->exponent, sizeof exponent) == 0,
                 "exponents of the %u values from %a", w->n, (double)w->x[0]) &
           CHECK(fabsl((long double)got->signal - signal) <= signal * slack,
                 "signal %a, want %La", got->signal, signal) &
           CHECK(fabsl((long double)got->error - error) <= error * slack,
                 "%s: error %a, want %La", w->mode, got->error, error);
}

/* Once without the spectrum, and once with it where it is wanted. */
static void run_variant(walk *w, struct variant *l, plumb_spectrum *spectrum)
{
    plumb_counts counts = {0};
    const plumb_encode_job job = {
        .how = &w->how,
        .source = w->source,
        .x = w->source == PLUMB_FP32 ? (const void *)w->x : w->x16,
        .n = w->n,
        .codes = w->got,
        .counts = &counts,
        .spectrum = spectrum,
    };

    memset(w->got, 0xa5, (w->n + 1) * (size_t)w->a.bytes);
    const double start = cpu_now();

    l->kernel->run(&job);
    l->cpu += cpu_now() - start;
    CHECK((axis_code_at(&w->a, w->got, w->n) & 0xff) == 0xa5,
          "%s wrote past the end at n=%u", l->kernel->name, w->n);
    l->wrong += wrong_codes(w, l);
    if (!axis_same_counts(&counts, &w->want_counts)) {
        report_counts(w, l, &counts);
        l->wrong++;
    }
}

static void check_chunk(walk *w)
{
    static plumb_spectrum first, this;

    for (int i = 0; i < variant_count; i++) {
        run_variant(w, &variants[i], NULL);
        if (!w->measured)
            continue;
        this = (plumb_spectrum){.signal = 0};
        run_variant(w, &variants[i], &this);
        if (i == 0)
            first = this;
        else
            variants[i].wrong += !same_spectrum(w, &variants[i], &this, &first);
    }
    if (w->measured)
        variants[0].wrong += !right_spectrum(w, &first);
    w->inputs += w->n;
    w->how.first += w->n;
    w->line.drawn = 0;
    w->n = 0;
    w->want_counts = (plumb_counts){0};
}

/* The n inputs first, first + stride, ... into the chunk, which has room for them. */
static void add(walk *w, uint32_t first, uint32_t stride, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t bits = (first + stride * i) | w->line.sign;

        w->x[w->n + i] = float_from(bits);
        w->x16[w->n + i] = (uint16_t)(bits >> 16);
    }
    axis_walk_expect(&w->line, first, stride, n,
                     (uint8_t *)w->want + w->n * (size_t)w->a.bytes, &w->want_counts);
    w->n += n;
}

/* --- walks ---------------------------------------------------------------------- */

static void restart(walk *w, uint32_t sign)
{
    axis_walk_start(&w->line, &w->a, &w->how, sign);
}

static void walk_stride(walk *w, uint32_t stride)
{
    for (uint64_t bits = 0; bits < 0x80000000u;) {
        const uint64_t left = (0x80000000u - bits + stride - 1) / stride;
        const uint32_t n = left < CHUNK ? (uint32_t)left : CHUNK;

        add(w, (uint32_t)bits, stride, n);
        check_chunk(w);
        bits += (uint64_t)n * stride;
    }
}

static void near(walk *w, uint32_t bits)
{
    const uint32_t first = bits > NEAR ? bits - NEAR : 1;

    if (w->n + 2 * NEAR + 1 > CHUNK)
        check_chunk(w);
    if (bits < AXIS_INFINITY)
        add(w, first, 1, bits + NEAR - first + 1);
}

/* Around each midpoint and each value, of every `each`th code. */
static void walk_boundaries(walk *w, uint32_t each)
{
    add(w, 0, 1, 1);
    for (uint32_t code = 0; code <= w->a.largest; code += each) {
        near(w, axis_step(&w->a, PLUMB_ROUND_NEAREST_EVEN, code));
        near(w, axis_step(&w->a, PLUMB_ROUND_TOWARD_ZERO, code));
    }
    if (w->n + 5 > CHUNK)
        check_chunk(w);
    add(w, AXIS_INFINITY - 1, 1, 3);
    add(w, 0x7fc00000, 0x3fffff, 2);
    check_chunk(w);
}

static void report(const walk *w, const char *what)
{
    for (int i = 0; i < variant_count; i++) {
        printf("# line %-8s %-23s %-20s %-16s %11llu inputs %llu mismatches %.1f s\n",
               plumb_format_get(w->a.format)->name, w->mode, what, variants[i].kernel->name,
               (unsigned long long)w->inputs, (unsigned long long)variants[i].wrong,
               variants[i].cpu);
        variants[i].wrong = 0;
        variants[i].cpu = 0;
    }
}

static void prepare(walk *w, plumb_format format, size_t mode, plumb_format source,
                    bool measured)
{
    find_variants(format);
    axis_of(format, &w->a);
    w->source = source;
    w->measured = measured;
    w->mode = modes[mode].name;
    w->inputs = w->n = 0;
    w->want_counts = (plumb_counts){0};
    w->how = (plumb_cast){.format = format,
                          .saturate = modes[mode].saturate,
                          .scale = 1.0f,
                          .rounding = modes[mode].rounding,
                          .dither = modes[mode].dither,
                          .seed = 11,
                          .stream = 0x123456789abcdefu,
                          .first = 1};
}

/* --- what is tried -------------------------------------------------------------- */

static walk the;

static void every_float(plumb_format format)
{
    for (size_t mode = 0; mode < MODES && modes[mode].rounding == PLUMB_ROUND_NEAREST_EVEN;
         mode++) {
        prepare(&the, format, mode, PLUMB_FP32, false);
        for (uint32_t sign = 0; sign < 2; sign++) {
            restart(&the, sign << 31);
            walk_stride(&the, 1);
        }
        report(&the, "all fp32");
    }
    check_done(plumb_format_get(format)->name);
}

static void one_mode(plumb_format format, size_t mode, uint32_t stride, uint32_t each)
{
    char what[64];

    prepare(&the, format, mode, PLUMB_BF16, true);
    for (uint32_t sign = 0; sign < 2; sign++) {
        restart(&the, sign << 31);
        walk_stride(&the, 0x10000);
    }
    report(&the, "all bf16");
    prepare(&the, format, mode, PLUMB_FP32, true);
    for (uint32_t sign = 0; sign < 2; sign++) {
        restart(&the, sign << 31);
        walk_stride(&the, 0x10000);
        restart(&the, sign << 31);
        walk_stride(&the, stride);
        restart(&the, sign << 31);
        if (format != PLUMB_FP32)
            walk_boundaries(&the, each);
    }
    snprintf(what, sizeof what, "1/%u, borders 1/%u", (unsigned)stride, (unsigned)each);
    report(&the, what);
}

static void every_mode(plumb_format format, uint32_t stride, uint32_t each)
{
    for (size_t mode = 0; mode < MODES; mode++)
        one_mode(format, mode, stride, each);
    check_done(plumb_format_get(format)->name);
}

/* Every stride-th fp32 of all formats, with all boundaries but of the formats with many. */
static void share(uint32_t stride)
{
    for (int f = 0; f < PLUMB_FORMAT_COUNT; f++) {
        const plumb_format_info *info = plumb_format_get((plumb_format)f);

        every_mode((plumb_format)f, stride,
                   info->bits > 16  ? 256
                   : info->bits > 8 ? 16
                                    : 1);
    }
}

int main(int argc, char **argv)
{
    plumb_format format;

    if (argc == 1 || strcmp(argv[1], "share") == 0) {
        share(argc == 1 ? 40009 : 4099); /* primes */
        return check_exit();
    }
    if (argc != 3 || !plumb_format_parse(argv[2], &format)) {
        fprintf(stderr, "usage: %s [share | full FORMAT | rest FORMAT]\n", argv[0]);
        return 2;
    }
    if (strcmp(argv[1], "full") == 0)
        every_float(format);
    else
        every_mode(format, 61, 1);
    printf("# cpu cast_line %s %s %.0f s\n", argv[1], argv[2], cpu_now());
    return check_exit();
}
