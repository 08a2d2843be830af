/* The same bytes at every level of instructions.
 *
 *   test_across_levels        baseline against each higher level of this machine, in one process
 *   test_across_levels print  a line of hashes for the machine as it is: qemu.sh compares them
 *
 * Casts of all formats and roundings, quantised matrices of every grain, products with every
 * accumulator, reductions.  Inputs are whole bit patterns, so NaN, infinity and subnormals occur.
 */
#include "check.h"
#include "plumb/matmul.h"
#include "plumb/reduce.h"

#include <math.h>
#include <stdlib.h>

enum { N = 4001, ROWS = 37, INNER = 160, COLS = 41 };

typedef struct digest {
    uint64_t casts, matrices, products, sums;
} digest;

static float wild[N], tame[N * 2];

static void hash(uint64_t *into, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *into = (*into ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

/* wild: any bits; tame: numbers of like size, as in a model. */
static void make_inputs(void)
{
    uint64_t state = 99;

    for (size_t i = 0; i < 2 * N; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t bits = (uint32_t)(state >> 32);

        if (i < N)
            memcpy(&wild[i], &bits, sizeof bits);
        tame[i] = ((float)(bits >> 8) - 0x1p23f) * 0x1p-22f;
    }
}

static void casts(digest *d)
{
    static uint32_t codes[N];
    static float back[N];

    for (int f = 0; f < PLUMB_FORMAT_COUNT; f++)
        for (int mode = 0; mode < 6; mode++) {
            const plumb_cast how = {.format = (plumb_format)f,
                                    .saturate = mode % 2 != 0,
                                    .scale = 1,
                                    .rounding = (plumb_rounding)(mode / 2),
                                    .seed = 1};
            plumb_counts counts = {0};
            plumb_spectrum spectrum = {.signal = 0};

            memset(codes, 0, sizeof codes);
            CHECK(plumb_cast_encode_measured(&how, PLUMB_FP32, wild, N, codes, &counts,
                                             &spectrum) == PLUMB_OK &&
                      plumb_cast_decode(how.format, 0.5f, codes, N, back) == PLUMB_OK,
                  "format %d", f);
            hash(&d->casts, codes, sizeof codes);
            hash(&d->casts, back, sizeof back);
            hash(&d->casts, &counts.saturated, sizeof counts.saturated);
            hash(&d->casts, &counts.flushed, sizeof counts.flushed);
            hash(&d->casts, &spectrum, sizeof spectrum);
        }
}

typedef struct matrix {
    plumb_quantized q;
    uint8_t codes[ROWS * INNER * 2 + COLS * INNER * 2];
    float d[COLS * INNER];
} matrix;

static void quantise(digest *d, matrix *m, const plumb_spec *spec, size_t rows,
                     const float *x)
{
    plumb_error why = {0};
    plumb_counts counts = {0};

    memset(m, 0, sizeof *m);
    m->q.codes = m->codes;
    m->q.d = m->d;
    CHECK_OK(plumb_quantize(spec, x, rows, INNER, false, NULL, false, &m->q, &counts, &why),
             why);
    hash(&d->matrices, m->codes, sizeof m->codes);
    hash(&d->matrices, m->d, sizeof m->d);
}

static const char *const specs[] = {"bf16",         "e4m3",      "e5m2:row", "e4m3:1x128",
                                    "e5m2:128x128", "e2m1:mx32", "e3m2:mx32"};
enum { SPECS = sizeof specs / sizeof specs[0] };

static void products(digest *d)
{
    static matrix a, b;
    static float c[ROWS * COLS];
    _Alignas(64) static unsigned char work[1 << 20];

    for (size_t s = 0; s < SPECS; s++) {
        plumb_spec spec;
        plumb_error why = {0};

        CHECK_OK(plumb_spec_parse(specs[s], NULL, &spec, &why), why);
        quantise(d, &a, &spec, ROWS, tame);
        quantise(d, &b, &spec, COLS, tame + 300);
        for (int kind = 0; kind < 2 * PLUMB_SUM_COUNT; kind++) {
            const plumb_accumulator how = {.kind = (plumb_sum_kind)(kind / 2),
                                           .promote128 = kind % 2 != 0};
            const plumb_operand left = {&a.q, false}, right = {&b.q, false};

            memset(c, 0, sizeof c);
            const plumb_status status = plumb_matmul(&how, &left, &right, c, COLS, false,
                                                     (plumb_tile){0, 0, 0, 0}, work, &why);
            CHECK(status == PLUMB_OK || status == PLUMB_UNSUPPORTED, "%s", why.message);
            hash(&d->products, c, sizeof c);
        }
    }
}

/* Subnormal operands, results and sums: where flushing and its moment show. */
static void tiny_product(digest *d)
{
    static float x[ROWS * INNER], y[COLS * INNER], c[ROWS * COLS];
    _Alignas(64) static unsigned char work[1 << 20];
    plumb_error why = {0};

    for (size_t i = 0; i < ROWS * INNER; i++)
        x[i] = tame[i % N] * 0x1p-63f;
    for (size_t i = 0; i < COLS * INNER; i++)
        y[i] = tame[(i * 3 + 1) % N] * (i % 7 == 0 ? 0x1p-130f : 0x1p-64f);
    const plumb_quantized
        a = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, ROWS, INNER, INNER, x, NULL, 0},
        b = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, COLS, INNER, INNER, y, NULL, 0};
    const plumb_operand left = {&a, false}, right = {&b, false};

    CHECK_OK(plumb_matmul(NULL, &left, &right, c, COLS, false, (plumb_tile){0, 0, 0, 0},
                          work, &why),
             why);
    hash(&d->products, c, sizeof c);
}

static void sums(digest *d)
{
    const float s = plumb_sum(tame, N), dot = plumb_dot(tame, tame + 7, N);
    const double q = plumb_sum_squares(tame, N), e = plumb_dot_f64(tame, tame + 3, N);
    const float amax = plumb_cast_amax(tame, N);

    hash(&d->sums, &s, sizeof s);
    hash(&d->sums, &dot, sizeof dot);
    hash(&d->sums, &q, sizeof q);
    hash(&d->sums, &e, sizeof e);
    hash(&d->sums, &amax, sizeof amax);
}

static digest take(void)
{
    digest d = {0xcbf29ce484222325u, 0xcbf29ce484222325u, 0xcbf29ce484222325u,
                0xcbf29ce484222325u};

    casts(&d);
    products(&d);
    tiny_product(&d);
    sums(&d);
    return d;
}

static int print(void)
{
    const digest d = take();

    if (check_state.failures > 0)
        return 1;
    fprintf(stderr, "levels %u\n", plumb_cpu_flags());
    printf("casts %016llx matrices %016llx products %016llx sums %016llx\n",
           (unsigned long long)d.casts, (unsigned long long)d.matrices,
           (unsigned long long)d.products, (unsigned long long)d.sums);
    return 0;
}

int main(int argc, char **argv)
{
    const unsigned have = plumb_cpu_flags();
    digest first = {0};

    make_inputs();
    if (argc > 1 && strcmp(argv[1], "print") == 0)
        return print();
    for (size_t l = 0; plumb_cpu_level_name(l) != NULL; l++) {
        const char *level = plumb_cpu_level_name(l);
        unsigned mask = 0;

        plumb_cpu_parse(level, &mask);
        if ((mask & ~have) != 0) {
            check_skip(level, "this CPU does not have it");
            continue;
        }
        plumb_cpu_limit(mask);
        const digest d = take();

        if (l == 0)
            first = d;
        CHECK(d.casts == first.casts, "casts differ from baseline");
        CHECK(d.matrices == first.matrices, "quantised matrices differ from baseline");
        CHECK(d.products == first.products, "products differ from baseline");
        CHECK(d.sums == first.sums, "sums differ from baseline");
        check_done(level);
    }
    return check_exit();
}
