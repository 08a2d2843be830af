/* Products with a packed B and with epilogues: the bits of the product without, and the bytes, the
 * counts and the amax of a cast of what it stores.
 */
#include "matmul/lanes.h"
#include "draw.h"

#include "check.h"

#include <stdlib.h>

static const float untouched = 12345.0f;

static bool may_run(const plumb_micro *micro)
{
    return (micro->cpu & ~plumb_cpu_flags()) == 0;
}

/* One product: operands, how, and what is known of its result. */
typedef struct trial {
    plumb_accumulator how;
    plumb_quantized qa, qb;
    plumb_operand a, b;
    size_t m, n, k, ldc;
    bool accumulate;
    plumb_tile tile;
    float *want; /* without extras, by the same micro-kernel */
    const plumb_micro *micro;
    char what[DRAW_TEXT];
} trial;

static float *fresh(const trial *t)
{
    float *c = malloc((t->m * t->ldc + 1) * sizeof *c);

    for (size_t i = 0; i < t->m * t->ldc; i++)
        c[i] = untouched;
    return c;
}

static void multiply(const trial *t, float *c, const plumb_extras *extras)
{
    const size_t bytes = plumb_matmul_workspace_bytes(&t->how, t->m, t->n, t->k);
    unsigned char *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    plumb_error why = {0};

    workspace[bytes] = 0x5a;
    CHECK_OK(plumb_matmul_extended_with(t->micro, &plumb_lanes_rows[0], &t->how, &t->a,
                                        &t->b, c, t->ldc, t->accumulate, t->tile, extras,
                                        workspace, &why),
             why);
    CHECK(workspace[bytes] == 0x5a, "%s wrote past its workspace", t->micro->name);
    free(workspace);
}

static bool same(const trial *t, const float *c)
{
    return memcmp(c, t->want, t->m * t->ldc * sizeof *c) == 0;
}

/* B packed into memory of exactly the size, and once more where it holds something else: then the
 * product must see that, if it is one that reads it.
 */
static void check_packed(const trial *t, bool must_read)
{
    float *c = fresh(t), *other = fresh(t);
    size_t bytes = 0;
    plumb_error why = {0};
    plumb_packed packed;
    const plumb_extras extras = {.packed = &packed};

    CHECK_OK(plumb_packed_need_with(t->micro, &t->b, &bytes, &why), why);
    unsigned char *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(memory, 0x11, bytes);
    memory[bytes] = 0x5a;
    plumb_pack_with(t->micro, &t->b, (float *)(void *)memory, &packed);
    CHECK(memory[bytes] == 0x5a, "%s packs past the end, %s", t->micro->name, t->what);
    multiply(t, c, &extras);
    CHECK(same(t, c), "%s, B packed, %s: another result", t->micro->name, t->what);
    if (must_read) {
        memset(memory, 0x41, bytes);
        multiply(t, other, &extras);
        CHECK(!same(t, other), "%s does not read what is packed, %s", t->micro->name,
              t->what);
    }
    free(memory), free(c), free(other);
}

static plumb_cast any_cast(void)
{
    static const plumb_format formats[] = {PLUMB_E4M3, PLUMB_E5M2, PLUMB_BF16,
                                           PLUMB_E2M1, PLUMB_E8M0, PLUMB_FP32};
    const plumb_format format = formats[draw_below(6)];
    const bool wide = format == PLUMB_BF16 || format == PLUMB_FP32;

    return (plumb_cast){.format = format,
                        .saturate = draw_below(2) == 0,
                        .scale = wide ? 1 : draw_float(0x3f800000u + (draw_bits() >> 6)),
                        .rounding = draw_below(3) == 0 ? PLUMB_ROUND_STOCHASTIC
                                                       : PLUMB_ROUND_NEAREST_EVEN,
                        .seed = 7,
                        .stream = 9,
                        .first = draw_below(2) * 5};
}

static bool same_counts(const plumb_counts *x, const plumb_counts *y)
{
    return x->total == y->total && x->saturated == y->saturated &&
           x->clipped == y->clipped && x->flushed == y->flushed && x->zero == y->zero &&
           x->nonfinite == y->nonfinite &&
           draw_float_bits(x->amax) == draw_float_bits(y->amax) &&
           draw_float_bits(x->code_amax) == draw_float_bits(y->code_amax);
}

/* What a cast of the stored tile gives, element by element. */
static void cast_stored(const trial *t, const plumb_cast *cast, size_t ld,
                        unsigned char *codes, plumb_counts *counts, float *amax)
{
    const plumb_tile all = {0, t->m, 0, t->n};
    const plumb_tile in = t->tile.row_end > 0 || t->tile.col_end > 0 ? t->tile : all;
    const size_t bytes = (size_t)plumb_format_get(cast->format)->bytes;

    for (size_t i = in.row; i < in.row_end; i++) {
        for (size_t j = in.col; j < in.col_end; j++) {
            plumb_cast one = *cast;
            const float *x = t->want + i * t->ldc + j;

            one.first += i * t->n + j;
            plumb_cast_encode(&one, x, 1, codes + (i * ld + j) * bytes, counts);
            *amax = plumb_cast_amax(x, 1) > *amax ? plumb_cast_amax(x, 1) : *amax;
        }
    }
}

static void check_epilogue(const trial *t, bool drop_c)
{
    const plumb_cast cast = any_cast();
    const size_t ld = t->n + draw_below(5), room = t->m * ld * 4 + 1;
    unsigned char *codes = malloc(room), *want = malloc(room);
    plumb_counts counts = {.total = 3}, due = {.total = 3};
    float *c = fresh(t), amax = 0.5f, due_amax = 0.5f;
    const plumb_epilogue epilogue = {&amax, &cast, codes, ld, &counts};
    const plumb_extras extras = {.epilogue = &epilogue};

    memset(codes, 0xa5, room), memset(want, 0xa5, room);
    cast_stored(t, &cast, ld, want, &due, &due_amax);
    multiply(t, drop_c ? NULL : c, &extras);
    CHECK(drop_c || same(t, c), "%s with an epilogue, %s: another C", t->micro->name,
          t->what);
    CHECK(memcmp(codes, want, room) == 0, "%s, cast to format %d by %a, %s: other codes",
          t->micro->name, cast.format, (double)cast.scale, t->what);
    CHECK(same_counts(&counts, &due), "%s, cast to format %d, %s: other counts",
          t->micro->name, cast.format, t->what);
    CHECK(draw_float_bits(amax) == draw_float_bits(due_amax), "%s, %s: amax %a, want %a",
          t->micro->name, t->what, (double)amax, (double)due_amax);
    free(codes), free(want), free(c);
}

static void check_trial(trial *t, bool plain)
{
    const bool fp32 = t->how.kind == PLUMB_SUM_FP32;

    for (size_t i = 0; i < plumb_micro_count; i++) {
        if (!may_run(&plumb_micros[i]))
            continue;
        t->micro = &plumb_micros[i];
        t->want = fresh(t);
        multiply(t, t->want, NULL);
        check_packed(t, plain && t->tile.row_end == 0);
        check_epilogue(t, fp32 && !t->accumulate && draw_below(2) == 0);
        free(t->want);
    }
    draw_free(&t->qa);
    draw_free(&t->qb);
}

static plumb_operand any_operand(size_t outer, size_t depth, enum mood mood,
                                 plumb_quantized *q)
{
    const plumb_format format =
        draw_below(2) == 0 ? (plumb_format)draw_below(PLUMB_E8M0) : PLUMB_E4M3;
    const size_t grain = draw_below(9);

    return draw_operand(format, grain < 8,
                        (plumb_grain)(grain < 6 ? grain : PLUMB_GRAIN_MX32), outer, depth,
                        mood, q);
}

static void random_trials(void)
{
    static const size_t depths[] = {0, 1, 32, 33, 128, 255, 257, 300, 520};
    static const size_t widths[] = {1, 5, 16, 31, 33, 70, 130};
    static const plumb_sum_kind kinds[] = {PLUMB_SUM_FP32, PLUMB_SUM_FP32, PLUMB_SUM_FP32,
                                           PLUMB_SUM_EXACT};

    for (int i = 0; i < 250; i++) {
        const enum mood mood = (enum mood)draw_below(MOODS);
        trial t = {.how = {kinds[draw_below(4)], draw_below(4) == 0,
                           draw_below(4) == 0 ? PLUMB_FP16 : PLUMB_FP32},
                   .m = 1 + draw_below(14),
                   .n = widths[draw_below(7)],
                   .k = depths[draw_below(9)],
                   .accumulate = draw_below(3) == 0};

        t.ldc = t.n + draw_below(3);
        t.tile = draw_tile(t.m, t.n);
        t.a = any_operand(t.m, t.k, mood, &t.qa);
        t.b = any_operand(t.n, t.k, mood, &t.qb);
        draw_describe(t.what, &t.a, &t.b, mood);
        check_trial(&t, false);
    }
    check_done("random products with extras");
}

/* Past every blocking limit; 8-bit operands whose packed B every micro-kernel reads. */
static void large_trials(void)
{
    static const plumb_grain grains[] = {PLUMB_GRAIN_TENSOR, PLUMB_GRAIN_MX32,
                                         PLUMB_GRAIN_128X128};

    for (size_t g = 0; g < 3; g++) {
        trial t = {.m = 205, .n = 397, .k = 289, .ldc = 397};

        t.a = draw_operand(PLUMB_E4M3, true, grains[g], t.m, t.k, PLAIN, &t.qa);
        t.b = draw_operand(PLUMB_E4M3, true, grains[g], t.n, t.k, PLAIN, &t.qb);
        draw_describe(t.what, &t.a, &t.b, PLAIN);
        check_trial(&t, true);
    }
    check_done("large products with extras");
}

static void refusals(void)
{
    float x[6] = {0}, c[4] = {untouched}, codes[4] = {untouched};
    plumb_quantized q = {PLUMB_FP32, PLUMB_GRAIN_TENSOR, false, 2, 2, 2, x, NULL, 0};
    const plumb_operand a = {&q, false};
    const plumb_packed packed = {.n = 2, .k = 3};
    const plumb_cast good = {.format = PLUMB_E4M3, .scale = 1},
                     bad = {.format = PLUMB_BF16, .scale = 2};
    const plumb_epilogue narrow = {.cast = &good, .codes = codes, .ld = 1},
                         scaled = {.cast = &bad, .codes = codes, .ld = 2},
                         fine = {.cast = &good, .codes = codes, .ld = 2}, none = {0};
    const plumb_accumulator exact = {.kind = PLUMB_SUM_EXACT};
    const struct {
        const char *what;
        plumb_status due;
        plumb_extras extras;
        const plumb_accumulator *how;
        float *c;
        bool accumulate;
    } refused[] = {
        {"packed shape", PLUMB_BAD_SHAPE, {&packed, NULL}, NULL, c, false},
        {"ld of codes", PLUMB_BAD_SHAPE, {NULL, &narrow}, NULL, c, false},
        {"cast", PLUMB_BAD_ARGUMENT, {NULL, &scaled}, NULL, c, false},
        {"no c, no cast", PLUMB_BAD_ARGUMENT, {NULL, &none}, NULL, NULL, false},
        {"no c to add to", PLUMB_BAD_ARGUMENT, {NULL, &fine}, NULL, NULL, true},
        {"no c for exact sums", PLUMB_BAD_ARGUMENT, {NULL, &fine}, &exact, NULL, false},
    };
    _Alignas(64) static unsigned char workspace[1 << 20];

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        CHECK(plumb_matmul_extended(refused[i].how, &a, &a, refused[i].c, 2,
                                    refused[i].accumulate, (plumb_tile){0},
                                    &refused[i].extras, workspace, NULL) == refused[i].due,
              "%s", refused[i].what);
    CHECK(c[0] == untouched && codes[0] == untouched, "a refused product wrote something");
    check_done("refusals");
}

int main(void)
{
    random_trials();
    large_trials();
    refusals();
    return check_exit();
}
