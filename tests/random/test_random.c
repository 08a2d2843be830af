/* Philox against its published vectors, FNV against its own; then what is drawn from the
 * bits: ranges, uniformity, moments, and that elements do not depend on each other.
 */
#include "plumb/random.h"

#include <math.h>
#include <stdlib.h>

#include "check.h"

/* Random123's kat_vectors, philox4x32 10. */
static void known_answers(void)
{
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof kat / sizeof kat[0]; i++) {
        const uint32_t *c = kat[i].counter, *k = kat[i].key;
        uint32_t got[4];

        plumb_random_bits((uint64_t)k[1] << 32 | k[0], (uint64_t)c[3] << 32 | c[2],
                          (uint64_t)c[1] << 32 | c[0], got);
        CHECK(memcmp(got, kat[i].want, sizeof got) == 0, "vector %zu: %08x %08x %08x %08x",
              i, got[0], got[1], got[2], got[3]);
    }
    check_done("philox4x32-10 known answers");
}

/* key = seed, counter = (index, stream), low word first: the third vector again. */
static void layout(void)
{
    static const uint32_t want[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    uint32_t got[4];

    plumb_random_bits(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u, got);
    CHECK(memcmp(got, want, sizeof got) == 0, "%08x %08x %08x %08x", got[0], got[1], got[2],
          got[3]);
    check_done("seed, stream and index in their places");
}

static void streams(void)
{
    CHECK(plumb_random_stream("") == 0xcbf29ce484222325u, "FNV-1a of nothing");
    CHECK(plumb_random_stream("a") == 0xaf63dc4c8601ec8cu, "FNV-1a of a");
    CHECK(plumb_random_stream("foobar") == 0x85944171f73967e8u, "FNV-1a of foobar");
    CHECK(plumb_random_stream("\xff") == 0xaf64724c8602eb6eu, "FNV-1a of byte 255: %llx",
          (unsigned long long)plumb_random_stream("\xff"));
    check_done("streams");
}

/* The published outputs of SplitMix64 for seeds 0 and 1234567, and that steps and streams do
 * not meet.
 */
static void streams_of_steps(void)
{
    static const struct {
        uint64_t stream, step, want;
    } known[] = {
        {0, 1, 0xe220a8397b1dcdafu},        {0, 2, 0x6e789e6aa1b965f4u},
        {0, 3, 0x06c45d188009454fu},        {1234567, 1, 6457827717110365317u},
        {1234567, 2, 3203168211198807973u}, {1234567, 3, 9817491932198370423u},
    };
    const uint64_t site = plumb_random_stream("layer.0/mlp.up/dgrad/dy");

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        CHECK(plumb_random_stream_at(known[i].stream, known[i].step) == known[i].want,
              "stream %llu, step %llu", (unsigned long long)known[i].stream,
              (unsigned long long)known[i].step);
    for (uint64_t i = 1; i < 2000; i++) {
        CHECK(plumb_random_stream_at(site, i) != plumb_random_stream_at(site, i - 1) &&
                  plumb_random_stream_at(site, i) != plumb_random_stream_at(site, 0),
              "two steps share a stream, %llu", (unsigned long long)i);
        CHECK(plumb_random_stream_at(site + i, 7) != plumb_random_stream_at(site, 7),
              "two sites share a stream, %llu", (unsigned long long)i);
    }
    check_done("streams of steps");
}

__extension__ typedef unsigned __int128 wide;

static void below(void)
{
    static const uint64_t limits[] = {
        1, 2, 3, 1000003, (uint64_t)1 << 32, UINT64_MAX, 0x8000000000000001u};

    for (size_t j = 0; j < sizeof limits / sizeof limits[0]; j++) {
        for (uint64_t i = 0; i < 2000; i++) {
            uint32_t w[4];

            plumb_random_bits(9, 8, i, w);
            const uint64_t word = (uint64_t)w[1] << 32 | w[0];
            const uint64_t want = (uint64_t)((wide)word * limits[j] >> 64);
            const uint64_t got = plumb_random_below(9, 8, i, limits[j]);

            CHECK(got == want && got < limits[j], "below %llu: %llu",
                  (unsigned long long)limits[j], (unsigned long long)got);
        }
    }
    check_done("below");
}

/* Chi-squared over 16 cells of each of the four words: mean 15, deviation 5.5. */
static void uniformity(void)
{
    enum { N = 160000 };
    unsigned cells[4][16] = {{0}};

    for (uint64_t i = 0; i < N; i++) {
        uint32_t w[4];

        plumb_random_bits(1, plumb_random_stream("uniform"), i, w);
        for (int j = 0; j < 4; j++)
            cells[j][w[j] >> 28]++;
    }
    for (int j = 0; j < 4; j++) {
        double chi = 0;

        for (int c = 0; c < 16; c++) {
            const double d = (double)cells[j][c] - N / 16;
            chi += d * d / (N / 16);
        }
        CHECK(chi > 2 && chi < 45, "word %d: chi-squared %.1f of 15 degrees", j, chi);
    }
    check_done("uniformity");
}

static void permutations(void)
{
    enum { N = 1000 };
    static size_t p[N + 1], again[N + 1], other[N + 1];
    static bool seen[N];
    size_t fixed = 0, same = 0;

    p[N] = 77;
    plumb_random_permutation(5, 6, N, p);
    plumb_random_permutation(5, 6, N, again);
    plumb_random_permutation(5, 7, N, other);
    CHECK(p[N] == 77, "wrote past the end");
    for (size_t i = 0; i < N; i++) {
        CHECK(p[i] < N && !seen[p[i]], "element %zu: %zu is out of range or twice", i,
              p[i]);
        if (p[i] < N)
            seen[p[i]] = true;
        fixed += p[i] == i;
        same += p[i] == other[i];
    }
    CHECK(memcmp(p, again, N * sizeof p[0]) == 0, "not reproducible");
    CHECK(fixed < 10 && same < 10, "%zu fixed points, %zu shared with another stream",
          fixed, same);
    plumb_random_permutation(5, 6, 0, p);
    plumb_random_permutation(5, 6, 1, p);
    CHECK(p[0] == 0, "permutation of one");
    check_done("a permutation is a permutation");
}

/* All 6 orders of three, each about a sixth of the time. */
static void shuffle_is_fair(void)
{
    enum { N = 6000 };
    unsigned orders[27] = {0};

    for (uint64_t s = 0; s < N; s++) {
        size_t p[3];

        plumb_random_permutation(3, s, 3, p);
        orders[9 * p[0] + 3 * p[1] + p[2]]++;
    }
    for (size_t i = 0; i < 27; i++)
        CHECK(orders[i] == 0 || (orders[i] > 850 && orders[i] < 1150),
              "order %zu: %u times", i, orders[i]);
    check_done("the shuffle is fair");
}

enum { NORMALS = 1 << 20 };

/* Box-Muller in double and libm, from the same words. */
static double normal_of(uint64_t seed, uint64_t stream, size_t i)
{
    uint32_t w[4];

    plumb_random_bits(seed, stream, i / 4, w);
    const uint32_t *pair = &w[i % 4 / 2 * 2];
    const double u = ((double)(pair[0] >> 9) + 0.5) * 0x1p-23;
    const double angle = (double)(pair[1] >> 8) * 0x1p-24 * 6.283185307179586;

    return sqrt(-2 * log(u)) * (i % 2 ? sin(angle) : cos(angle));
}

static void normals(float *x)
{
    double sum[5] = {0};

    plumb_random_normal(11, 12, 1, NORMALS, x);
    for (size_t i = 0; i < NORMALS; i++) {
        double power = 1;

        for (int k = 0; k < 5; k++, power *= (double)x[i])
            sum[k] += power;
        if (i % 97 == 0) {
            const double want = normal_of(11, 12, i);
            CHECK(fabs((double)x[i] - want) < 4e-6 + 1e-6 * fabs(want),
                  "element %zu: %.9g, want %.9g", i, (double)x[i], want);
        }
    }
    CHECK(fabs(sum[1] / NORMALS) < 5e-3, "mean %g", sum[1] / NORMALS);
    CHECK(fabs(sum[2] / NORMALS - 1) < 7e-3, "variance %g", sum[2] / NORMALS);
    CHECK(fabs(sum[3] / NORMALS) < 2e-2, "third moment %g", sum[3] / NORMALS);
    CHECK(fabs(sum[4] / NORMALS - 3) < 5e-2, "fourth moment %g", sum[4] / NORMALS);
    check_done("normal deviates");
}

/* Element i does not depend on n, on the CPU's level, or on deviation but as a factor. */
static void independence(const float *x)
{
    static const char *const levels[] = {"baseline", "avx2", "avx512"};
    enum { MOST = 777 };
    float part[MOST + 1];

    for (size_t l = 0; l < 3; l++) {
        unsigned mask = 0;

        plumb_cpu_parse(levels[l], &mask);
        plumb_cpu_limit(mask);
        for (size_t n = 0; n <= MOST; n += 37) {
            part[n] = 99;
            plumb_random_normal(11, 12, 1, n, part);
            CHECK(memcmp(part, x, n * sizeof *x) == 0, "n = %zu differs at %s", n,
                  levels[l]);
            CHECK(part[n] == 99, "wrote past the end, n = %zu", n);
        }
    }
    plumb_random_normal(11, 12, 0.02f, MOST, part);
    for (size_t i = 0; i < MOST; i++)
        CHECK(part[i] == x[i] * 0.02f, "deviation at %zu", i);
    check_done("normal deviates do not depend on n or on the CPU");
}

int main(void)
{
    float *x = malloc(NORMALS * sizeof *x);

    if (x == NULL)
        return 1;
    known_answers();
    layout();
    streams();
    streams_of_steps();
    below();
    uniformity();
    permutations();
    shuffle_is_fair();
    normals(x);
    independence(x);
    free(x);
    return check_exit();
}
