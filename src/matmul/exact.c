/* Exact sums in base 2^32: adding leaves carries where they arise, rounding propagates them. */
#include "matmul/exact.h"

enum { ADDS = 1 << 28 /* of less than 2^33 to a limb of 63 bits */ };

static void trim(plumb_whole *x)
{
    while (x->count > 0 && x->limb[x->count - 1] == 0)
        x->count--;
}

plumb_whole plumb_whole_from(bool negative, uint64_t high, uint64_t low, int e)
{
    plumb_whole x = {.limb = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
                              (uint32_t)(high >> 32)},
                     .count = 4,
                     .e = e,
                     .negative = negative};

    trim(&x);
    return x;
}

void plumb_whole_scale(plumb_whole *x, float d)
{
    const uint32_t bits = bits_of(d), fraction = bits & 0x7fffffu;
    const int field = (int)(bits >> 23 & 0xff);
    uint32_t m = field == 0 ? fraction : fraction | 0x800000u;
    uint64_t carry = 0;

    if (m == 0) {
        x->count = 0;
        return;
    }
    const int zeros = __builtin_ctz(m);

    m >>= zeros;
    x->e += (field == 0 ? 1 : field) - 150 + zeros;
    x->negative ^= bits >> 31 != 0;
    for (int i = 0; m > 1 && i < x->count; i++) {
        carry += (uint64_t)x->limb[i] * m;
        x->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0)
        x->limb[x->count++] = (uint32_t)carry;
}

static int lowest(const plumb_exact *sum)
{
    return PLUMB_EXACT_LIMBS - sum->below;
}

/* Carries of limbs below 2^63 reach two limbs further; the one above has the sign. */
static int highest(const plumb_exact *sum)
{
    return sum->last + 3 < PLUMB_EXACT_LIMBS ? sum->last + 3 : PLUMB_EXACT_LIMBS - 1;
}

/* Every limb in use but the highest to 0 .. 2^32 - 1; the highest has the sign. */
static void propagate(plumb_exact *sum)
{
    const int top = highest(sum);
    int64_t carry = 0;

    for (int i = lowest(sum); i < top; i++) {
        const int64_t limb = sum->limb[i] + carry;

        sum->limb[i] = limb & 0xffffffff;
        carry = (limb - sum->limb[i]) / (INT64_C(1) << 32);
    }
    sum->limb[top] += carry;
    sum->added = 0;
}

/* Limbs first to last have been added to. */
static void touch(plumb_exact *sum, int first, int last)
{
    const int below = PLUMB_EXACT_LIMBS - first;

    sum->below = (uint8_t)(below > sum->below ? below : sum->below);
    sum->last = (uint8_t)(last > sum->last ? last : sum->last);
    if (++sum->added == ADDS)
        propagate(sum);
}

void plumb_exact_add(plumb_exact *sum, const plumb_whole *x)
{
    const int offset = x->e - PLUMB_EXACT_LOWEST, bit = offset % 32;

    if (x->count == 0)
        return;
    int64_t *limb = &sum->limb[offset / 32];
    for (int i = 0; i < x->count; i++) {
        const uint64_t shifted = (uint64_t)x->limb[i] << bit;
        const int64_t low = (int64_t)(shifted & 0xffffffff),
                      high = (int64_t)(shifted >> 32);

        limb[i] += x->negative ? -low : low;
        limb[i + 1] += x->negative ? -high : high;
    }
    touch(sum, offset / 32, offset / 32 + x->count);
}

int plumb_double_parts(double x, uint64_t *m)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    *m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    return (int)(bits >> 52 & 0x7ff) - 1075;
}

void plumb_exact_add_double(plumb_exact *sum, double x, int e)
{
    uint64_t m;
    const int offset = e + plumb_double_parts(x, &m) - PLUMB_EXACT_LOWEST;
    int64_t *limb = &sum->limb[offset / 32];
    const uint64_t low = (m & 0xffffffff) << offset % 32, high = (m >> 32) << offset % 32;
    const int64_t part[3] = {(int64_t)(low & 0xffffffff),
                             (int64_t)((low >> 32) + (high & 0xffffffff)),
                             (int64_t)(high >> 32)};

    for (int i = 0; i < 3; i++)
        limb[i] += x < 0 ? -part[i] : part[i];
    touch(sum, offset / 32, offset / 32 + 2);
}

void plumb_exact_add_float(plumb_exact *sum, float x)
{
    plumb_whole one = plumb_whole_from(false, 0, 1, 0);

    sum->nan |= x != x;
    sum->up |= x == INFINITY;
    sum->down |= x == -INFINITY;
    if (x - x != 0)
        return;
    plumb_whole_scale(&one, x);
    plumb_exact_add(sum, &one);
}

static void negate(plumb_exact *sum)
{
    for (int i = lowest(sum); i <= highest(sum); i++)
        sum->limb[i] = -sum->limb[i];
    propagate(sum);
}

float plumb_exact_round(plumb_exact *sum, const plumb_result *to)
{
    if (sum->nan || (sum->up && sum->down))
        return float_of(0x7fc00000u);
    if (sum->up || sum->down)
        return sum->up ? INFINITY : -INFINITY;
    propagate(sum);
    const int first = lowest(sum);
    int top = highest(sum);
    const bool negative = sum->limb[top] < 0;
    if (negative)
        negate(sum);

    while (top > 1 && sum->limb[top] == 0)
        top--;
    const uint64_t m = (uint64_t)sum->limb[top] << 32 | (uint64_t)sum->limb[top - 1];
    bool tail = false;
    for (int i = first; i < top - 1; i++)
        tail |= sum->limb[i] != 0;
    return plumb_round(negative, m, 32 * (top - 1) + PLUMB_EXACT_LOWEST, tail, to);
}
