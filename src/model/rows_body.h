/* The loops of rows.h: the definition, compiled once for each instruction set. */
#include "kernel/body.h"
#include "model/rows.h"

/* Which of two NaNs an operation hands on is the compiler's choice.  What reaches a gradient
 * without a product in between has only the one.
 */
INLINE float one_nan(float x)
{
    const uint32_t bits = bits_of(x);

    return float_of(choose((bits & MAGNITUDE) > INF, NAN_BITS, bits));
}

/* 0 times what is not finite is NaN, and stays so in a sum. */
static bool finite(const float *x, size_t rows, size_t cols, size_t ld)
{
    float lane[LANES] = {0}, sum = 0;

    for (size_t row = 0; row < rows; row++, x += ld) {
        size_t i = 0;

        for (; cols - i >= LANES; i += LANES)
            for (size_t l = 0; l < LANES; l++)
                lane[l] += 0.0f * x[i + l];
        for (size_t l = 0; l < cols - i; l++)
            lane[l] += 0.0f * x[i + l];
    }
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum == 0;
}

static float largest(const float *x, size_t n)
{
    float lane[LANES];
    size_t i = 0;

    for (size_t l = 0; l < LANES; l++)
        lane[l] = x[0];
    for (; n - i >= LANES; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; l < n - i; l++)
        lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 1; l < LANES; l++)
        lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

static void shift(float *x, size_t n, float scale)
{
    const float most = largest(x, n);

    for (size_t j = 0; j < n; j++)
        x[j] = (x[j] - most) * scale;
}

static void divide(float *x, size_t n, float by)
{
    for (size_t j = 0; j < n; j++)
        x[j] /= by;
}

static void softmax_backward(const float *restrict p, size_t n, float sum, float scale,
                             float *restrict dp)
{
    for (size_t j = 0; j < n; j++)
        dp[j] = p[j] * (dp[j] - sum) * scale;
}

INLINE void turn(float *restrict x, float *restrict y, const float *restrict cosine,
                 const float *restrict sine, size_t half, float sign)
{
    for (size_t j = 0; j < half; j++) {
        const float s = sign * sine[j], a = x[j], b = y[j];

        x[j] = a * cosine[j] - b * s;
        y[j] = a * s + b * cosine[j];
    }
}

static void rotate(float *x, const float *cosine, const float *sine, size_t half)
{
    turn(x, x + half, cosine, sine, half, 1);
}

static void rotate_back(float *x, const float *cosine, const float *sine, size_t half)
{
    turn(x, x + half, cosine, sine, half, -1);
}

static void negate(const float *restrict x, size_t n, float *restrict y)
{
    for (size_t j = 0; j < n; j++)
        y[j] = -x[j];
}

static void swiglu(const float *restrict gate, const float *restrict up,
                   const float *restrict e, size_t n, float *restrict h)
{
    for (size_t j = 0; j < n; j++)
        h[j] = gate[j] * (1.0f / (1.0f + e[j])) * up[j];
}

static void swiglu_backward(const float *restrict gate, const float *restrict up,
                            const float *restrict d, const float *restrict e, size_t n,
                            float *restrict d_gate, float *restrict d_up)
{
    for (size_t j = 0; j < n; j++) {
        const float s = 1.0f / (1.0f + e[j]);

        d_gate[j] = d[j] * up[j] * (s * (1.0f + gate[j] * (1.0f - s)));
        d_up[j] = d[j] * (gate[j] * s);
    }
}

static void normalise(const float *restrict x, float r, const float *restrict g, size_t n,
                      float *restrict y)
{
    for (size_t j = 0; j < n; j++)
        y[j] = x[j] * r * g[j];
}

static void multiply(const float *restrict a, const float *restrict b, size_t n,
                     float *restrict y)
{
    for (size_t j = 0; j < n; j++)
        y[j] = a[j] * b[j];
}

static void norm_set(const float *restrict weighted, const float *restrict x, float r,
                     float along, size_t n, float *restrict dx)
{
    for (size_t j = 0; j < n; j++)
        dx[j] = one_nan(weighted[j] * r - x[j] * along);
}

static void norm_add(const float *restrict weighted, const float *restrict x, float r,
                     float along, size_t n, float *restrict dx)
{
    for (size_t j = 0; j < n; j++)
        dx[j] = one_nan(dx[j] + (weighted[j] * r - x[j] * along));
}

static void add_products(const float *restrict a, const float *restrict b, float r,
                         size_t n, float *restrict sum)
{
    for (size_t j = 0; j < n; j++)
        sum[j] = one_nan(sum[j] + a[j] * b[j] * r);
}

#define TEXT_(name) #name
#define TEXT(name)  TEXT_(name)

const rows_kernel ENTRY(rows_) = {
    .cpu = CPU,
    .name = "rows/" TEXT(ISA),
    .finite = finite,
    .shift = shift,
    .divide = divide,
    .softmax_backward = softmax_backward,
    .rotate = rotate,
    .rotate_back = rotate_back,
    .negate = negate,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
    .normalise = normalise,
    .multiply = multiply,
    .norm_set = norm_set,
    .norm_add = norm_add,
    .add_products = add_products,
};
