/* Matrix units from the text of plumb/matmul.h in another style than the library's: on values,
 * with trunc, ldexp and ilogb in fp64, where everything below is exact; exact sums by MPFR.
 *
 * The parameters are typed here a second time, from the published tables.
 */
#include "oracle.h"

#include <math.h>
#include <string.h>

#ifdef ORACLE_MPFR
#include <mpfr.h>
#endif

typedef struct rule {
    int terms_8, terms_16, terms_tf32, kept, result_bits, floor_fp32, floor_fp16;
    bool after; /* C is added to 32 products; k mod 4 in {0, 1} first */
} rule;

static const rule rules[PLUMB_SUM_COUNT] = {
    [PLUMB_SUM_HOPPER_WGMMA] = {32, 0, 0, 13, 13, -133, -133, false},
    [PLUMB_SUM_HOPPER_MMA] = {16, 0, 0, 25, 23, -133, -21, true},
    [PLUMB_SUM_ADA_MMA] = {16, 0, 0, 13, 13, -132, -132, false},
    [PLUMB_SUM_BLACKWELL_TCGEN05] = {32, 16, 0, 25, 23, -133, -21, false},
    [PLUMB_SUM_HOPPER_16] = {0, 16, 8, 25, 23, -133, -21, false},
    [PLUMB_SUM_AMPERE_16] = {0, 8, 4, 24, 23, -132, -20, false},
    [PLUMB_SUM_VOLTA_16] = {0, 4, 0, 23, 23, -1024, -19, false},
};

static float nan_of(const plumb_accumulator *how)
{
    const uint32_t bits = how->kind == PLUMB_SUM_EXACT ? 0x7fc00000u
                          : how->output == PLUMB_FP16  ? 0x7fffe000u
                                                       : 0x7fffffffu;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* x, exact in fp64, to `bits` fraction bits. */
static float rounded(double x, int bits, int emin, double infinity, bool nearest)
{
    if (x == 0 || isinf(x))
        return (float)x;
    const int last = (ilogb(x) > emin ? ilogb(x) : emin) - bits;
    const double scaled = ldexp(x, -last);
    const double y = ldexp(nearest ? nearbyint(scaled) : trunc(scaled), last);

    return fabs(y) >= infinity ? (float)copysign((double)INFINITY, y) : (float)y;
}

float oracle_fp16(double x)
{
    return isnan(x) ? NAN : x == 0 ? (float)x : rounded(x, 10, -14, 0x1p16, true);
}

/* One product of a group, with its exponent as the unit sees it. */
typedef struct term {
    double x;
    int e;
} term;

static term term_at(const rule *r, const plumb_operand *a, const plumb_operand *b, size_t i,
                    size_t j, size_t k, bool inside)
{
    const float x = oracle_at(a, i, k), y = oracle_at(b, j, k);
    /* With C added after, operands are widened to fp16: E4M3 subnormals are normal there. */
    const int ea = r->after ? -14 : oracle_emin(a->matrix->format);
    const int eb = r->after ? -14 : oracle_emin(b->matrix->format);
    double product = (double)x * (double)y;
    int e = 0;

    if (inside)
        product *= (double)oracle_scale(a, i, k) * (double)oracle_scale(b, j, k);
    if (isfinite(product) && product != 0) {
        e = (ilogbf(x) > ea ? ilogbf(x) : ea) + (ilogbf(y) > eb ? ilogbf(y) : eb);
        if (inside)
            e += ilogbf(oracle_scale(a, i, k)) + ilogbf(oracle_scale(b, j, k));
    }
    return (term){product, e};
}

static float fused(const rule *r, const plumb_accumulator *how, const term *terms, int n,
                   float c)
{
    const bool half = how->output == PLUMB_FP16;
    const int emin = half ? -14 : -126;
    int most = half ? r->floor_fp16 : r->floor_fp32;
    double special = isfinite(c) ? 0 : (double)c, sum = 0;

    for (int i = 0; i < n; i++) {
        special += isfinite(terms[i].x) ? 0 : terms[i].x;
        if (terms[i].x != 0 && terms[i].e > most)
            most = terms[i].e;
    }
    if (isnan(special))
        return nan_of(how);
    if (special != 0)
        return (float)special;
    if (c != 0 && ilogbf(c) > most)
        most = ilogbf(c);
    if (c != 0 && emin > most)
        most = emin;
    for (int i = 0; i < n; i++)
        sum += trunc(ldexp(terms[i].x, r->kept - most));
    sum += trunc(ldexp((double)c, r->kept - most));
    sum = ldexp(sum, most - r->kept);
    if (sum == 0)
        return 0;
    const float d =
        half ? oracle_fp16(sum) : rounded(sum, r->result_bits, -126, 0x1p128, false);
    return d == 0 ? 0 : d;
}

static float ieee_add(const plumb_accumulator *how, float c, float x)
{
    const double sum = (double)c + (double)x; /* fp32 sums of fp32 are innocuous in fp64 */

    if (isnan(sum))
        return nan_of(how);
    return how->output == PLUMB_FP16 ? oracle_fp16(sum) : (float)sum;
}

/* Exponent of a ue4m3 value, subnormals and zero at that of the least normal; any for NaN. */
static int ue4m3_exponent(float d)
{
    return d >= 0x1p-6f ? ilogbf(d) : -6;
}

/* nvfp4 inside the unit: 64 products as four exact sums times scales, 35 fraction bits. */
static float nvfp4_sum(const plumb_accumulator *how, const plumb_operand *a,
                       const plumb_operand *b, size_t i, size_t j, size_t k, size_t end,
                       float c)
{
    const rule *r = &rules[how->kind];
    rule wide = *r;

    wide.kept = 35;
    for (; k < end; k += 64) {
        term terms[4] = {{0, 0}};
        int n = 0, most = -1000;

        for (size_t q = k; q < k + 64 && q < end; q += 16, n++) {
            const float da = oracle_scale(a, i, q), db = oracle_scale(b, j, q);
            double x = 0;

            for (size_t p = q; p < q + 16; p++)
                x += (double)oracle_at(a, i, p) * (double)oracle_at(b, j, p);
            terms[n].x = x * (double)da * (double)db;
            terms[n].e = ue4m3_exponent(da) + ue4m3_exponent(db);
            if (isfinite(terms[n].x) && terms[n].e > most)
                most = terms[n].e;
        }
        /* Zero sums have an exponent too: it goes in as the floor. */
        wide.floor_fp32 = most > r->floor_fp32 ? most : r->floor_fp32;
        wide.floor_fp16 = most > r->floor_fp16 ? most : r->floor_fp16;
        c = fused(&wide, how, terms, n, c);
    }
    return c;
}

static bool is_nvfp4(const plumb_operand *o)
{
    return o->matrix->d != NULL && o->matrix->grain == PLUMB_GRAIN_NVFP4 &&
           o->matrix->format == PLUMB_E2M1;
}

/* c and the products [k, end). */
static float unit_sum(const plumb_accumulator *how, const plumb_operand *a,
                      const plumb_operand *b, size_t i, size_t j, size_t k, size_t end,
                      bool inside, float c)
{
    const rule *r = &rules[how->kind];
    const plumb_format format = a->matrix->format;
    const int n = format == PLUMB_TF32                           ? r->terms_tf32
                  : format == PLUMB_BF16 || format == PLUMB_FP16 ? r->terms_16
                                                                 : r->terms_8;
    const term none = {0, 0};

    if (how->kind == PLUMB_SUM_BLACKWELL_TCGEN05 && is_nvfp4(a) && is_nvfp4(b))
        return nvfp4_sum(how, a, b, i, j, k, end, c);
    while (k < end) {
        term terms[64];
        float sum = r->after ? 0 : c;

        if (r->after) {
            for (size_t half = 0; half < 2; half++) {
                int count = 0;
                for (size_t p = 0; p < 32; p++) {
                    if ((p % 4 >= 2) == (half == 1))
                        terms[count++] =
                            k + p < end ? term_at(r, a, b, i, j, k + p, inside) : none;
                }
                sum = fused(r, how, terms, count, sum);
            }
            c = ieee_add(how, c, sum);
            k += 32;
        } else {
            for (int p = 0; p < n; p++)
                terms[p] = k + (size_t)p < end
                               ? term_at(r, a, b, i, j, k + (size_t)p, inside)
                               : none;
            c = fused(r, how, terms, n, c);
            k += (size_t)n;
        }
    }
    return c;
}

/* --- exact ----------------------------------------------------------------- */

#ifdef ORACLE_MPFR
bool oracle_has_exact(void)
{
    return true;
}

enum { PRECISION = 3000 };

static float class_of(float x)
{
    return x == 0 || !isfinite(x) ? x : copysignf(1, x);
}

static float get(mpfr_t sum, plumb_format output)
{
    if (mpfr_zero_p(sum))
        return 0;
    if (output == PLUMB_FP32)
        return mpfr_get_flt(sum, MPFR_RNDN);
    const long top = mpfr_get_exp(sum) - 1, last = (top > -14 ? top : -14) - 10;
    if (top > 20)
        return mpfr_sgn(sum) > 0 ? INFINITY : -INFINITY;
    mpfr_mul_2si(sum, sum, -last, MPFR_RNDN);
    mpfr_rint(sum, sum, MPFR_RNDN);
    const double x = ldexp(mpfr_get_d(sum, MPFR_RNDN), (int)last);
    return fabs(x) >= 0x1p16 ? (float)copysign((double)INFINITY, x) : (float)x;
}

static float exact_sum(const plumb_accumulator *how, const plumb_operand *a,
                       const plumb_operand *b, size_t i, size_t j, size_t k, size_t end,
                       bool scales, float c)
{
    float special = isfinite(c) ? 0 : c;
    mpfr_t sum, x;

    mpfr_inits2(PRECISION, sum, x, (mpfr_ptr)NULL);
    mpfr_set_flt(sum, isfinite(c) ? c : 0, MPFR_RNDN);
    for (; k < end; k++) {
        float factor[6] = {oracle_at(a, i, k),     oracle_at(b, j, k),
                           oracle_scale(a, i, k),  oracle_scale(b, j, k),
                           oracle_tensor_scale(a), oracle_tensor_scale(b)};
        float class = 1;

        for (int f = 0; f < (scales ? 6 : 2); f++)
            class *= class_of(factor[f]);
        special += isfinite(class) ? 0 : class;
        if (!isfinite(class))
            continue;
        mpfr_set_ui(x, 1, MPFR_RNDN);
        for (int f = 0; f < (scales ? 6 : 2); f++)
            mpfr_mul_d(x, x, (double)factor[f], MPFR_RNDN);
        mpfr_add(sum, sum, x, MPFR_RNDN);
    }
    const float result = isnan(special) ? nan_of(how)
                         : special != 0 ? special
                                        : get(sum, how->output);
    mpfr_clears(sum, x, (mpfr_ptr)NULL);
    return result;
}
#else
bool oracle_has_exact(void)
{
    return false;
}

static float exact_sum(const plumb_accumulator *how, const plumb_operand *a,
                       const plumb_operand *b, size_t i, size_t j, size_t k, size_t end,
                       bool scales, float c)
{
    (void)a, (void)b, (void)i, (void)j, (void)k, (void)end, (void)scales, (void)c;
    return nan_of(how);
}
#endif

/* --- products ---------------------------------------------------------------- */

static bool is_mx_or_plain(const plumb_operand *o)
{
    return o->matrix->d == NULL || o->matrix->grain == PLUMB_GRAIN_MX32;
}

static float stored(const plumb_accumulator *how, float x)
{
    if (how->output == PLUMB_FP16)
        x = oracle_fp16((double)x);
    return isnan(x) ? nan_of(how) : x;
}

float oracle_emulated(const plumb_accumulator *how, const plumb_operand *a,
                      const plumb_operand *b, size_t i, size_t j, bool accumulate,
                      float old)
{
    const size_t depth = a->transposed ? a->matrix->rows : a->matrix->cols;
    const bool exact = how->kind == PLUMB_SUM_EXACT;
    const bool scaled = a->matrix->d != NULL || b->matrix->d != NULL;
    size_t joint = oracle_joint(a, b);
    const bool chunks =
        how->kind == PLUMB_SUM_BLACKWELL_TCGEN05 && is_nvfp4(a) && is_nvfp4(b);
    const bool tensor = (a->matrix->d != NULL && a->matrix->grain == PLUMB_GRAIN_NVFP4) ||
                        (b->matrix->d != NULL && b->matrix->grain == PLUMB_GRAIN_NVFP4);
    const bool inside = chunks || (how->kind == PLUMB_SUM_BLACKWELL_TCGEN05 &&
                                   joint == 32 && is_mx_or_plain(a) && is_mx_or_plain(b));
    const float start = accumulate ? old : 0;
    float c = 0;

    if (exact && !how->promote128)
        return stored(how, exact_sum(how, a, b, i, j, 0, depth, true, start));
    if (inside)
        joint = 0;
    const bool at_end = scaled && !inside && joint == 0;
    if (joint == 0 && !how->promote128) {
        c = unit_sum(how, a, b, i, j, 0, depth, inside,
                     at_end || tensor            ? 0
                     : how->output == PLUMB_FP16 ? oracle_fp16((double)start)
                                                 : start);
        if (!at_end && !tensor)
            return stored(how, c);
    }
    const size_t block = joint > 0 ? joint : 128;
    for (size_t k = 0; (joint > 0 || how->promote128) && k < depth; k += block) {
        const size_t end = k + block < depth ? k + block : depth;
        const float sum = exact ? exact_sum(how, a, b, i, j, k, end, false, 0)
                                : unit_sum(how, a, b, i, j, k, end, inside, 0);
        const float d = joint > 0 ? oracle_scale(a, i, k) * oracle_scale(b, j, k) : 1;

        c = fmaf(sum, d, c);
    }
    if (at_end)
        c = fmaf(c, oracle_scale(a, i, 0) * oracle_scale(b, j, 0), 0);
    if (tensor)
        c = fmaf(c, oracle_tensor_scale(a) * oracle_tensor_scale(b), 0);
    return stored(how, accumulate ? old + c : c);
}
