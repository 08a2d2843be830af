/* The arguments of a cast, then its values.  Every variant must give the codes and counts of the
 * number line (tests/kernel/axis.h) and the spectrum of the reference, within its bounds; what
 * the header refuses must write nothing.
 *
 *   0 format   1 rounding   2 dither   3 flags   4-7 scale   8-11 decode   12 where codes begin
 *   13-20 seed and first   then the source, fp32 or bf16
 */
#include "plumb/cast.h"

#include "arguments.h"
#include "kernel/axis.h"
#include "kernel/cast.h"

enum { MOST = 200 };

typedef struct call {
    plumb_cast how;
    plumb_format source;
    size_t n, offset; /* of codes, in elements */
    float x[MOST];
    uint16_t x16[MOST];
} call;

static void take_call(arguments *a, call *c)
{
    memset(c, 0, sizeof *c);
    c->how.format = (plumb_format)(take_byte(a) % (PLUMB_FORMAT_COUNT + 2));
    c->how.rounding = (plumb_rounding)(take_byte(a) % 4);
    c->how.dither = (plumb_dither)(take_byte(a) % 4);
    const uint8_t flags = take_byte(a);

    c->how.saturate = flags & 1;
    c->how.divide = flags & 2;
    c->source = flags & 4 ? PLUMB_BF16 : flags & 8 && flags & 16 ? PLUMB_E5M2 : PLUMB_FP32;
    c->how.scale = take_float(a);
    if (flags & 32)
        c->how.scale = 1;
    c->how.decode = take_float(a);
    c->offset = take_byte(a) % 5;
    c->how.seed = take_word(a);
    c->how.first = take_word(a);
    for (; c->n < MOST && a->left > 0; c->n++) {
        const uint32_t bits = c->source == PLUMB_BF16 ? (uint32_t)take_byte(a) << 16 |
                                                            (uint32_t)take_byte(a) << 24
                                                      : take_word(a);

        c->x[c->n] = float_from(bits);
        c->x16[c->n] = (uint16_t)(bits >> 16);
    }
}

static bool allowed(const call *c)
{
    const plumb_format_info *info = plumb_format_get(c->how.format);

    return info != NULL && c->source != PLUMB_E5M2 &&
           (info->bits <= 8 || c->how.scale == 1.0f) &&
           c->how.rounding <= PLUMB_ROUND_STOCHASTIC &&
           c->how.dither <= PLUMB_DITHER_8_CENTRED;
}

static const void *source_of(const call *c)
{
    return c->source == PLUMB_BF16 ? (const void *)c->x16 : c->x;
}

static void refused(const call *c)
{
    uint8_t *block = guarded(4 * MOST);
    plumb_counts counts = {0}, no_counts = {0};
    plumb_spectrum spectrum = {.signal = 0};

    FUZZ_CHECK(plumb_cast_encode_measured(&c->how, c->source, source_of(c), c->n,
                                          block + GUARD, &counts, &spectrum) != PLUMB_OK);
    for (size_t i = 0; i < 4 * MOST; i++)
        FUZZ_CHECK(block[GUARD + i] == GUARD_BYTE);
    FUZZ_CHECK(axis_same_counts(&counts, &no_counts) && spectrum.signal == 0);
    free(block);
}

static void expect(const call *c, const axis *a, uint8_t *codes, plumb_counts *counts)
{
    for (size_t i = 0; i < c->n; i++) {
        const float v = c->how.divide ? c->x[i] / c->how.scale : c->x[i] * c->how.scale;

        axis_store(a, codes, i, axis_code(a, &c->how, c->x[i], v, i, counts));
    }
}

static void run(const plumb_encode_kernel *kernel, const call *c, const axis *a,
                const uint8_t *want, const plumb_counts *want_counts,
                plumb_spectrum *spectrum)
{
    const size_t each = (size_t)a->bytes, start = c->offset * each;
    uint8_t *block = guarded(start + c->n * each);
    plumb_counts counts = {0};
    const plumb_encode_job job = {.how = &c->how,
                                  .source = c->source,
                                  .x = source_of(c),
                                  .n = c->n,
                                  .codes = block + GUARD + start,
                                  .counts = &counts,
                                  .spectrum = spectrum};

    kernel->run(&job);
    check_guards(block, start + c->n * each);
    for (size_t i = 0; i < start; i++)
        FUZZ_CHECK(block[GUARD + i] == GUARD_BYTE);
    FUZZ_CHECK(memcmp(block + GUARD + start, want, c->n * each) == 0);
    FUZZ_CHECK(axis_same_counts(&counts, want_counts));
    free(block);
}

static void all_variants(const call *c)
{
    static uint8_t want[4 * MOST];
    plumb_counts counts = {0};
    plumb_spectrum first, this;
    bool any = false;
    axis a;

    axis_of(c->how.format, &a);
    expect(c, &a, want, &counts);
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        if (k->format != c->how.format || (k->cpu & ~plumb_cpu_flags()) != 0)
            continue;
        run(k, c, &a, want, &counts, NULL);
        this = (plumb_spectrum){.signal = 0};
        run(k, c, &a, want, &counts, &this);
        if (!any)
            first = this;
        FUZZ_CHECK(memcmp(&first, &this, sizeof this) == 0);
        any = true;
    }
    FUZZ_CHECK(any);
}

/* The face gives what the kernels give. */
static void face(const call *c)
{
    static uint8_t want[4 * MOST], got[4 * MOST];
    plumb_counts counts = {0}, got_counts = {0};
    axis a;

    axis_of(c->how.format, &a);
    expect(c, &a, want, &counts);
    FUZZ_CHECK(plumb_cast_encode_measured(&c->how, c->source, source_of(c), c->n, got,
                                          &got_counts, NULL) == PLUMB_OK);
    FUZZ_CHECK(memcmp(want, got, c->n * (size_t)a.bytes) == 0);
    FUZZ_CHECK(axis_same_counts(&counts, &got_counts));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arguments a = {data, size};
    static call c;

    take_call(&a, &c);
    if (!allowed(&c)) {
        refused(&c);
        return 0;
    }
    all_variants(&c);
    face(&c);
    return 0;
}
