/* Every encoder against the number line.
 *
 * Rounding is monotone, so while x climbs through the positive floats the right code can
 * only step up, and only as x passes the midpoint of two neighbours.  Midpoints come
 * from the decode rule in exact double arithmetic.  One walk up the line therefore checks a
 * kernel, codes and counts, without computing a rounding at all.  Without an argument the
 * walk goes in prime strides and visits all boundaries; with "all" it takes every float.
 */
#include "check.h"
#include "kernel/cast.h"
#include "kernel/number_line.h"

enum { CHUNK = 4096 + 7 /* odd, so that tails are walked too */, NEAR = 3 };

typedef struct walk {
    const plumb_encode_kernel *kernel;
    const line_format *f;
    bool saturate;
    uint32_t sign; /* 0 or 0x80000000 */
    uint32_t code; /* where on the line we are */
    double next;   /* magnitude at which the code steps up */
    uint32_t n;
    float x[CHUNK];
} walk;

/* The code that x must get, as far up the line as x is. */
static uint32_t want_code(walk *w, double magnitude)
{
    if (magnitude != magnitude)
        return w->f->nan;
    while (magnitude >= w->next)
        w->next = line_boundary(w->f, ++w->code);
    uint32_t code = w->code;

    if (code > w->f->largest)
        code = w->saturate ? w->f->largest : w->f->past;
    if (code == w->f->nan)
        return code;
    return w->sign != 0 ? code | w->f->sign : code;
}

static void count(const walk *w, double magnitude, uint32_t code, plumb_counts *tally)
{
    const uint32_t unsigned_code = code & ~w->f->sign;

    if (isfinite(magnitude))
        tally->saturated += w->code > w->f->largest;
    else
        tally->nonfinite++;
    tally->flushed += magnitude > 0 && unsigned_code == 0;
    tally->zero += magnitude == 0;
    if (magnitude > (double)tally->amax)
        tally->amax = (float)magnitude;
    if (unsigned_code <= w->f->largest &&
        line_value(w->f, unsigned_code) > (double)tally->code_amax)
        tally->code_amax = (float)line_value(w->f, unsigned_code);
}

static bool equal_counts(const plumb_counts *a, const plumb_counts *b)
{
    return a->total == b->total && a->saturated == b->saturated &&
           a->flushed == b->flushed && a->zero == b->zero && a->nonfinite == b->nonfinite &&
           a->amax == b->amax && a->code_amax == b->code_amax;
}

static void check_chunk(walk *w)
{
    static uint16_t got[CHUNK + 1];
    const plumb_cast how = {.format = w->f->format, .saturate = w->saturate, .scale = 1.0f};
    plumb_counts counts = {0}, tally = {.total = w->n};

    memset(got, 0xa5, sizeof got);
    w->kernel->run(&how, w->x, w->n, got, &counts);
    CHECK(line_code_at(w->f, got, w->n) == (w->f->bytes == 1 ? 0xa5 : 0xa5a5),
          "%s wrote past the end at n=%u", w->kernel->name, w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        const double magnitude = fabs((double)w->x[i]);
        const uint32_t code = want_code(w, magnitude);

        if (line_code_at(w->f, got, i) != code)
            CHECK(false, "%s%s(%a) = %02x, want %02x", w->kernel->name,
                  w->saturate ? " saturating" : "", (double)w->x[i],
                  line_code_at(w->f, got, i), code);
        count(w, magnitude, code, &tally);
    }
    CHECK(equal_counts(&counts, &tally), "%s miscounted the %u values from %a",
          w->kernel->name, w->n, (double)w->x[0]);
    w->n = 0;
}

static void step(walk *w, uint32_t magnitude)
{
    w->x[w->n++] = float_from(magnitude | w->sign);
    if (w->n == CHUNK)
        check_chunk(w);
}

static void restart(walk *w)
{
    w->code = 0;
    w->next = line_boundary(w->f, 0);
}

static void walk_stride(walk *w, uint32_t stride)
{
    restart(w);
    for (uint64_t bits = 0; bits < 0x80000000u; bits += stride)
        step(w, (uint32_t)bits);
    check_chunk(w);
}

static void walk_boundaries(walk *w)
{
    restart(w);
    for (uint32_t code = 0; code <= w->f->largest; code++) {
        const uint32_t bits = bits_from((float)line_boundary(w->f, code));

        for (uint32_t near = bits - NEAR; near != bits + NEAR + 1; near++)
            step(w, near);
    }
    for (uint32_t bits = 0x7f800000 - NEAR; bits <= 0x7f800000 + NEAR; bits++)
        step(w, bits);
    step(w, 0x7fc00000);
    step(w, 0x7fffffff);
    check_chunk(w);
}

static void walk_all_modes(const plumb_encode_kernel *kernel, const line_format *f,
                           bool all)
{
    for (int mode = 0; mode < 4; mode++) {
        static walk w;

        w = (walk){.kernel = kernel, .f = f, .saturate = mode & 1};
        w.sign = mode & 2 ? 0x80000000u : 0;
        walk_boundaries(&w);
        walk_stride(&w, all ? 1 : 4099 /* prime */);
    }
    check_done(kernel->name);
}

int main(int argc, char **argv)
{
    const bool all = argc > 1 && strcmp(argv[1], "all") == 0;
    const unsigned cpu = plumb_cpu_flags();

    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *kernel = &plumb_encode_kernels[i];

        for (size_t j = 0; j < LINE_FORMATS; j++) {
            if (line_formats[j].format != kernel->format)
                continue;
            if ((kernel->cpu & ~cpu) != 0)
                check_skip(kernel->name, "this CPU cannot run it");
            else
                walk_all_modes(kernel, &line_formats[j], all);
        }
    }
    return check_exit();
}
