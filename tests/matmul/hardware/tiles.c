/* Fills tiles: see tiles.h.  Integers decide everything but the products of CANCEL and the sums
 * of INTEGERS, which are exact.
 */
#include "tiles.h"

#include <stdlib.h>

const operation tile_operations[OPERATIONS] = {
    {false, T_E4M3, T_E4M3, false}, {false, T_E4M3, T_E5M2, false},
    {false, T_E5M2, T_E4M3, false}, {false, T_E5M2, T_E5M2, false},
    {false, T_E4M3, T_E4M3, true},  {false, T_E4M3, T_E5M2, true},
    {false, T_E5M2, T_E4M3, true},  {false, T_E5M2, T_E5M2, true},
    {false, T_BF16, T_BF16, false}, {false, T_FP16, T_FP16, false},
    {false, T_FP16, T_FP16, true},  {false, T_TF32, T_TF32, false},
    {true, T_E4M3, T_E4M3, false},  {true, T_E4M3, T_E5M2, false},
    {true, T_E5M2, T_E4M3, false},  {true, T_E5M2, T_E5M2, false},
    {true, T_E4M3, T_E4M3, true},   {true, T_E4M3, T_E5M2, true},
    {true, T_E5M2, T_E4M3, true},   {true, T_E5M2, T_E5M2, true},
    {true, T_BF16, T_BF16, false},  {true, T_FP16, T_FP16, false},
    {true, T_FP16, T_FP16, true},   {true, T_TF32, T_TF32, false},
};

const char *const tile_kind_names[KINDS] = {
    "hand",      "integers", "full",     "near",   "zeros",    "subnormal",
    "same-sign", "spread",   "cancel",   "sparse", "special",  "large",
    "tiny",      "floor",    "low-bits", "ties",   "fp16-ties"};

/* How many tiles of a kind, each with how many steps. */
static const struct plan {
    tile_kind kind;
    int count, steps;
} plans[] = {
    {HAND, 3, 1},       {INTEGERS, 2, 1},  {INTEGERS, 1, 3},   {FULL, 60, 1},
    {FULL, 8, 2},       {FULL, 2, 16},     {NEAR, 40, 1},      {NEAR, 8, 3},
    {NEAR, 4, 32},      {ZEROS, 30, 1},    {ZEROS, 8, 2},      {SUBNORMAL, 20, 1},
    {SAME_SIGN, 30, 1}, {SAME_SIGN, 4, 4}, {SAME_SIGN, 4, 16}, {SAME_SIGN, 4, 128},
    {SPREAD, 50, 1},    {SPREAD, 8, 2},    {CANCEL, 60, 1},    {CANCEL, 10, 2},
    {SPARSE, 120, 1},   {SPARSE, 10, 2},   {SPECIAL, 40, 1},   {SPECIAL, 6, 3},
    {LARGE, 20, 1},     {LARGE, 4, 2},     {TINY, 50, 1},      {TINY, 8, 2},
    {FLOOR, 50, 1},     {FLOOR, 8, 2},     {LOW_BITS, 4, 1},   {TIES, 80, 1},
    {FP16_TIES, 20, 1},
};
enum { PLANS = sizeof plans / sizeof *plans };

int tile_count(void)
{
    int n = 0;

    for (int i = 0; i < PLANS; i++)
        n += plans[i].count;
    return n;
}

/* What the rows of one operand are drawn for. */
typedef struct row_draw {
    const format_info *f;
    tile_kind kind;
    bool half, wide;  /* fp16 results; a format with 8 exponent bits */
    bool first;       /* A, not B */
    int n, k;         /* elements of a step, and of the row */
    int distance;     /* of the pairs of CANCEL */
    uint32_t equal;   /* the code of FLOOR */
    uint32_t density; /* and how many of 8 have it */
} row_draw;

/* --- operands -------------------------------------------------------------------- */

static uint32_t draw_code(uint64_t *s, const format_info *f, int least, int most)
{
    const int field = clamp_field(f, between(s, least, most));
    const uint32_t sign = below(s, 2);

    return code_of(f, sign, field, below(s, all_fraction(f) + 1));
}

static uint32_t draw_finite(uint64_t *s, const format_info *f)
{
    uint32_t code;

    do
        code = below(s, 2 * code_of(f, 1, 0, 0));
    while (!code_is_finite(f, code));
    return code;
}

static uint32_t draw_special(uint64_t *s, const format_info *f)
{
    const uint32_t sign = below(s, 2);

    if (f->exponent_bits == 4)
        return code_of(f, sign, 15, 7);
    if (below(s, 2) == 0)
        return code_of(f, sign, (int)top_field(f), 0);
    return code_of(f, sign, (int)top_field(f), 1 + below(s, all_fraction(f)));
}

static uint32_t draw_notable(uint64_t *s, const format_info *f)
{
    const uint32_t sign = below(s, 2), all = all_fraction(f);
    const int top = (int)top_field(f) - 1;
    const int down = between(s, 1, f->exponent_bits == 8 && below(s, 2) ? 80 : 13);

    switch (below(s, 14)) {
    case 0:
        return code_of(f, sign, 0, 0);
    case 1:
        return code_of(f, sign, 0, 1);
    case 2:
        return code_of(f, sign, 0, all);
    case 3:
        return code_of(f, sign, 1, 0);
    case 4:
        return f->exponent_bits == 4 ? code_of(f, sign, 15, 6) : code_of(f, sign, top, all);
    case 5:
        return draw_special(s, f);
    case 6:
        return code_of(f, sign, f->bias, all);
    case 7:
    case 8:
        return code_of(f, sign, f->bias, 0);
    case 9:
        return code_of(f, sign, clamp_field(f, f->bias - down), 0);
    case 10:
        return code_of(f, sign, clamp_field(f, f->bias + down), 0);
    case 11:
        return code_of(f, sign, clamp_field(f, f->bias - down), below(s, all + 1));
    default:
        return draw_code(s, f, 0, top);
    }
}

static uint32_t draw_integer(uint64_t *s, const format_info *f)
{
    const int x = between(s, -2, 2);

    return x == 0 ? 0 : code_of(f, x < 0, f->bias + (abs(x) == 2), 0);
}

/* An element by the kind of the tile; the kinds that place few codes begin with zeros. */
static uint32_t draw_element(uint64_t *s, const row_draw *d)
{
    const format_info *f = d->f;
    const int middle = f->bias, top = (int)top_field(f) - 1;
    const int tiny = middle - (d->wide ? 62 : d->half ? 6 : 4);

    switch (d->kind) {
    case INTEGERS:
        return draw_integer(s, f);
    case FULL:
        return draw_finite(s, f);
    case ZEROS:
        return below(s, 3) == 0 ? code_of(f, below(s, 2), 0, 0)
                                : draw_code(s, f, middle - 3, middle + 2);
    case SUBNORMAL:
        return draw_code(s, f, 0, 0);
    case SAME_SIGN:
        return draw_code(s, f, middle - 2, middle) & ~code_of(f, 1, 0, 0);
    case SPREAD:
    case CANCEL:
        return draw_code(s, f, middle - 7, middle + 7);
    case SPECIAL:
        return below(s, 100) == 0 ? draw_special(s, f)
                                  : draw_code(s, f, middle - 4, middle + 3);
    case LARGE:
        return d->wide ? draw_code(s, f, middle + 60, middle + 64)
                       : draw_code(s, f, top - 3, top);
    case TINY:
        return draw_code(s, f, d->wide ? tiny - 14 : 0, d->wide ? tiny + 2 : tiny);
    case FLOOR:
        return below(s, 8) < d->density ? d->equal : 0;
    case SPARSE:
    case TIES:
    case FP16_TIES:
        return 0;
    default:
        return draw_code(s, f, middle - 4, middle + 3);
    }
}

/* Few places, so that those of A and B meet. */
static void place_notable(uint64_t *s, const row_draw *d, uint8_t *row)
{
    const int places[6] = {0, 1, 2, 3, d->n / 2, d->n - 1};
    const uint32_t used = 1 + below(s, 63);

    for (int i = 0; i < 6; i++)
        if (used >> i & 1) {
            const int step = (int)below(s, (uint32_t)(d->k / d->n));
            put_code(d->f, row, places[i] + d->n * step, draw_notable(s, d->f));
        }
}

/* Elements i and i ^ distance: opposite in A, the same in B, but for one pair in sixteen. */
static void pair_elements(uint64_t *s, const row_draw *d, uint8_t *row)
{
    const uint32_t flip = d->first ? code_of(d->f, 1, 0, 0) : 0;

    for (int i = 0; i < d->k; i++)
        if ((i & d->distance) == 0 && (i % 16 < 14 || below(s, 2) == 0))
            put_code(d->f, row, i ^ d->distance, get_code(d->f, row, i) ^ flip);
}

static void draw_low_bits(uint64_t *s, const row_draw *d, uint8_t *row)
{
    for (int i = 0; d->f->lost != 0 && i < d->k * d->f->bytes; i += d->f->bytes) {
        row[i] = (uint8_t)below(s, 256);
        row[i + 1] = (uint8_t)((row[i + 1] & 0xe0) | below(s, 32));
    }
}

/* Products in place 0 between 2^-150 and 2^-126 (narrow formats: 2^-28 and 2^-18), in up to
 * five more places far below.
 */
static void place_ties(uint64_t *s, const row_draw *d, uint8_t *row)
{
    const format_info *f = d->f;
    const uint32_t all = all_fraction(f);
    const int anchor = d->wide ? between(s, d->first ? -70 : -80, -63)
                               : between(s, d->first ? -12 : -16, -9);
    const uint32_t sign = below(s, 2), whole = below(s, 3);

    put_code(f, row, 0, code_of_power(f, sign, anchor, whole ? 0 : below(s, all + 1)));
    for (int i = 1; i < 6; i++) {
        const int e =
            d->wide ? between(s, -87, -74) : between(s, d->first ? -22 : -24, -12);
        const uint32_t minus = below(s, 2), fraction = below(s, 2) ? 0 : below(s, all + 1);
        if (below(s, 2) == 0)
            put_code(f, row, i, code_of_power(f, minus, e, fraction));
    }
}

/* Place 0: 1, 3, 5 or 7 times 2^-12 in A, 2^-13 in B; places 1 to 3: the least subnormals. */
static void place_fp16_ties(uint64_t *s, const row_draw *d, uint8_t *row)
{
    static const int exponents[4] = {0, 1, 2, 2};
    static const uint32_t quarters[4] = {0, 2, 1, 3};
    const format_info *f = d->f;
    const uint32_t odd = d->first ? below(s, 4) : 0, sign = below(s, 2);
    const int e = (d->first ? -12 : -13) + exponents[odd];

    put_code(f, row, 0, code_of_power(f, sign, e, quarters[odd] << (f->fraction_bits - 2)));
    for (int i = 1; i < 4; i++) {
        const uint32_t minus = below(s, 2), fraction = 1 + below(s, 3);
        if (below(s, 2) == 0)
            put_code(f, row, i, code_of(f, minus, 0, fraction));
    }
}

static void fill_row(uint64_t *s, row_draw d, uint8_t *row)
{
    const uint32_t fraction = below(s, 2) ? 0 : below(s, all_fraction(d.f) + 1);
    const int field = d.f->bias - (d.wide ? between(s, 60, 84) : between(s, 3, 14));

    d.equal = code_of(d.f, 0, clamp_field(d.f, field), fraction);
    d.density = 1 + below(s, 8);
    for (int i = 0; i < d.k; i++)
        put_code(d.f, row, i, draw_element(s, &d));
    if (d.kind == SPARSE)
        place_notable(s, &d, row);
    if (d.kind == CANCEL)
        pair_elements(s, &d, row);
    if (d.kind == LOW_BITS)
        draw_low_bits(s, &d, row);
    if (d.kind == TIES)
        place_ties(s, &d, row);
    if (d.kind == FP16_TIES)
        place_fp16_ties(s, &d, row);
}

/* --- C ------------------------------------------------------------------------------ */

/* Exponents of C lie around that of the products. */
static int middle_of_c(const operation *op, tile_kind kind)
{
    const bool wide = tile_formats[op->a].exponent_bits == 8;

    if (kind == TINY || kind == FLOOR)
        return op->half ? -24 : wide ? -135 : -20;
    if (kind == LARGE)
        return wide ? 120 : op->half ? 14 : 20;
    return 0;
}

static uint32_t draw_c(uint64_t *s, const operation *op, tile_kind kind)
{
    const uint32_t sign = below(s, 2), fraction = below(s, 1u << 23);
    const int middle = middle_of_c(op, kind), half = op->half;
    const int any = half ? between(s, -26, 15) : between(s, -149, 127);
    const int low = half ? between(s, -24, -14) : between(s, -149, -125);
    const int near = middle + between(s, -14, 14);

    switch (below(s, kind == SPECIAL || kind == SPARSE ? 12 : 10)) {
    case 0:
        return 0;
    case 1:
        return 0x80000000u;
    case 2:
        return float_of(sign, any, fraction);
    case 3:
        return float_of(sign, between(s, -20, 20), fraction);
    case 6:
        return float_of(sign, low, fraction);
    case 7:
        return float_of(sign, near, 0);
    case 8:
        return float_of(sign, middle + between(s, -2, 8), fraction | 0x7ff000);
    case 9:
        return float_of(sign, middle + between(s, 0, 4), fraction);
    case 10:
        return sign << 31 | 0x7f800000;
    case 11:
        return sign << 31 | 0x7f800000 | (1 + below(s, 0x7fffff));
    default:
        return float_of(sign, near, fraction);
    }
}

/* None, or few times the least result. */
static uint32_t draw_small_c(uint64_t *s, const operation *op)
{
    const uint32_t sign = below(s, 2), few = below(s, 2) ? below(s, 8) : 0;

    return op->half ? sign << 15 | few : sign << 31 | few << below(s, 4);
}

/* The opposite of the product of the first elements, which is exact in fp64. */
static uint32_t opposite_c(const operation *op, const tile *t, int i)
{
    const format_info *fa = &tile_formats[op->a], *fb = &tile_formats[op->b];
    const uint8_t *a = t->a + i / COLS * STEP * t->steps;
    const uint8_t *b = t->b + i % COLS * STEP * t->steps;

    return float_bits(
        (float)-(code_value(fa, get_code(fa, a, 0)) * code_value(fb, get_code(fb, b, 0))));
}

static void fill_c(uint64_t *s, const operation *op, tile *t)
{
    for (int i = 0; i < RESULTS; i++) {
        uint32_t c = draw_c(s, op, t->kind);

        if (t->kind == INTEGERS)
            c = float_bits((float)between(s, -9, 9));
        if (t->kind == CANCEL && below(s, 4) == 0)
            c = opposite_c(op, t, i);
        t->c[i] = op->half ? half_of(c) : c;
        if (t->kind == TIES || t->kind == FP16_TIES)
            t->c[i] = draw_small_c(s, op);
    }
}

/* --- cases by hand -------------------------------------------------------------------- */

typedef struct hand_case {
    const char *id, *a, *b; /* codes of E4M3 or bf16 */
    uint32_t c;
} hand_case;

#define NONE_15 "000000000000000000000000000000"

static const hand_case e4m3_cases[] = {
    {"V1", "38b808", "383804", 0},
    {"V2", "38b804", "383804", 0},
    {"V3", "38b80e", "383804", 0},
    {"V4", "38b88e", "383804", 0},
    {"V5", "3cbc08", "3c3c04", 0},
    {"V6", "383838380c", "3838383808", 0},
    {"V7", "b8b8b8b88c", "3838383808", 0},
    {"V8", "00", "00", 0x3f800001},
    {"V8b", "38", "38", 0x397fffff},
    {"V8c", "38", "38", 0xb97fffff},
    {"V9", "38", "38", 0x46000000},
    {"V9b", "38", "38", 0x46800000},
    {"V10", "7e7e", "7e7e", 0},
    {"V11", "01", "01", 0},
    {"V12", "7f", "00", 0},
    {"V13", "38" NONE_15 "04b8", "38" NONE_15 "0438", 0},
    {"V14", "38b8" NONE_15 "04", "3838" NONE_15 "04", 0},
    {"V15", "7efe20", "7e7e38", 0},
    {"V16", "7efe50", "7e7e38", 0},
};

static const hand_case bf16_cases[] = {
    {"H1", "3f80bf803380", "3f803f803f80", 0},
    {"H2", "3f80bf803300", "3f803f803f80", 0},
    {"H3", "3f80bf803280", "3f803f803f80", 0},
    {"H4", "3f8033803300", "3f803f803f80", 0},
    {"H5", "3f80338033003300", "3f803f803f803f80", 0},
    {"H6", "3f80bfff", "33803380", 0x3f800000},
    {"H7", "7f00", "4000", 0},
    {"H8", "7180f1803f80", "718071803f80", 0},
    {"H9", "1c80", "1a00", 0},
    {"H10", "1a001a00", "1a001a00", 0},
    {"floor", "19801980198019801980198019801980", "19801980198019801980198019801980", 0},
};

static uint32_t hex_digit(char c)
{
    return (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void put_hex(const format_info *f, uint8_t *row, const char *text)
{
    const int digits = 2 * f->bytes;

    for (int i = 0; text[i * digits] != 0; i++) {
        uint32_t code = 0;
        for (int d = 0; d < digits; d++)
            code = code << 4 | hex_digit(text[i * digits + d]);
        put_code(f, row, i, code);
    }
}

/* Cases 8 index to 8 index + 7: each has a row of A, with its C, and a row of B. */
static void fill_hand(const operation *op, int index, tile *t)
{
    const bool narrow = op->a == T_E4M3 && op->b == T_E4M3;
    const hand_case *cases = narrow ? e4m3_cases : bf16_cases;
    const size_t n = narrow            ? sizeof e4m3_cases / sizeof *e4m3_cases
                     : op->a == T_BF16 ? sizeof bf16_cases / sizeof *bf16_cases
                                       : 0;

    for (int i = 0; i < COLS && (size_t)(COLS * index + i) < n; i++) {
        const hand_case *one = &cases[COLS * index + i];

        put_hex(&tile_formats[op->a], t->a + STEP * i, one->a);
        put_hex(&tile_formats[op->b], t->b + STEP * i, one->b);
        for (int j = 0; j < COLS; j++)
            t->c[i * COLS + j] = op->half ? half_of(one->c) : one->c;
    }
}

/* --- a tile --------------------------------------------------------------------------- */

void tile_fill(int operation_index, int index, tile *t)
{
    const operation *op = &tile_operations[operation_index];
    const struct plan *plan = plans;
    uint64_t s = (uint64_t)operation_index << 32 | (uint64_t)index << 8 | 77;
    int number = index;

    for (; number >= plan->count; plan++)
        number -= plan->count;
    t->kind = plan->kind;
    t->steps = plan->steps;
    memset(t->a, 0, (size_t)(ROWS * STEP * t->steps));
    memset(t->b, 0, (size_t)(COLS * STEP * t->steps));
    memset(t->c, 0, sizeof t->c);
    if (t->kind == HAND) {
        fill_hand(op, number, t);
        return;
    }
    const int n = STEP / tile_formats[op->a].bytes, distances[4] = {1, 2, n / 2, n / 4};
    row_draw draw = {.kind = t->kind, .half = op->half, .n = n, .k = n * t->steps};

    draw.wide = tile_formats[op->a].exponent_bits == 8;
    draw.distance = distances[below(&s, 4)];
    for (int i = 0; i < ROWS + COLS; i++) {
        const size_t size = (size_t)(STEP * t->steps);

        draw.first = i < ROWS;
        draw.f = &tile_formats[draw.first ? op->a : op->b];
        fill_row(&s, draw,
                 draw.first ? t->a + (size_t)i * size : t->b + (size_t)(i - ROWS) * size);
    }
    fill_c(&s, op, t);
}

void hash_bytes(uint64_t *hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *hash = (*hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

void hash_operands(uint64_t *hash, const tile *t)
{
    hash_bytes(hash, t->a, (size_t)(ROWS * STEP * t->steps));
    hash_bytes(hash, t->b, (size_t)(COLS * STEP * t->steps));
    hash_bytes(hash, t->c, sizeof t->c);
}
