/* Equal bytes of sums, counts and energies: every variant of the tally against the reference, every
 * mask of the CPU, aligned or not, in pieces or whole; sizes about the widths of vectors and pieces.
 */
#include "plumb/reduce.h"

#include "oracle.h"
#include "reduce/tally.h"

#include <stdlib.h>

enum { MOST = 1100, RANKS = 3 };

static const size_t sizes[] = {0,  1,  2,  7,   8,   9,   15,  16,   17,   31,   32,
                               33, 63, 65, 511, 512, 513, 527, 1023, 1024, 1025, 1099};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static const char *const wires[] = {"fp32", "bf16", "fp16", "e4m3", "e5m2:overflow"};
enum { WIRES = sizeof wires / sizeof wires[0] };

static const float special[] = {0,         -0.0f,     INFINITY,   -INFINITY, NAN,
                                0x1p-149f, 0x1p-126f, 3.4028e38f, 448,       0x1p24f};
enum { SPECIALS = sizeof special / sizeof special[0] };

/* Ordinary values, with something special every few. */
static void fill(float *x, size_t n, uint64_t *state, bool specials)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = oracle_float(state, -30, 30);
        if (specials && oracle_bits(state) % 8 == 0)
            x[i] = special[oracle_bits(state) % SPECIALS];
    }
}

static void tallies_of(size_t n, uint64_t *state, bool specials)
{
    float old[600], x[600], result[600];

    fill(old, n + 1, state, specials);
    fill(x, n + 1, state, specials);
    for (size_t i = 0; i < n + 1; i++)
        result[i] = oracle_bits(state) % 3 == 0 ? old[i] : old[i] + x[i];
    for (size_t shift = 0; shift < 2; shift++) {
        plumb_sum_counts want[3];

        for (size_t k = 0; k < plumb_tally_kernel_count; k++) {
            const plumb_tally_kernel *kernel = &plumb_tally_kernels[k];
            plumb_sum_counts got[3] = {{0}};

            if ((kernel->cpu & ~plumb_cpu_flags()) != 0)
                continue;
            kernel->additions(1, old + shift, x + shift, result + shift, n, false, &got[0]);
            kernel->additions(0.999f, old + shift, x + shift, result + shift, n, true,
                              &got[1]);
            kernel->leaves(x + shift, result + shift, n, &got[2]);
            if (k == 0)
                memcpy(want, got, sizeof want);
            CHECK(memcmp(want, got, sizeof want) == 0, "%s: n = %zu, shift %zu",
                  kernel->name, n, shift);
            CHECK(got[0].additions == n && got[0].energy == 0, "n = %zu", n);
        }
    }
}

static void tallies(void)
{
    uint64_t state = 1;

    CHECK(plumb_tally_kernels[0].cpu == PLUMB_CPU_BASELINE,
          "the reference is not the first");
    for (size_t i = 0; i < SIZES; i++)
        for (int round = 0; round < 20 && sizes[i] <= 512; round++)
            tallies_of(sizes[i], &state, round % 2 == 1);
    check_done("variants of the tally");
}

/* Everything that a call gives back. */
typedef struct outcome {
    float out[MOST], state[MOST];
    double sum;
    float scale;
    plumb_counts casts;
    plumb_sum_counts sums;
} outcome;

static outcome run(const char *wire, plumb_order order, float *const *x, size_t n)
{
    plumb_reduction how = {.order = order};
    const float *const shares[RANKS] = {x[0], x[1], x[2]};
    plumb_error why = {0};
    outcome o;

    memset(&o, 0, sizeof o);
    CHECK_OK(plumb_spec_parse(wire, NULL, &how.wire, &why), why);
    CHECK_OK(
        plumb_allreduce(&how, shares, RANKS, n, o.out, &o.casts, &o.sums, &o.scale, &why),
        why);
    const plumb_cast cast = {.format = how.wire.format,
                             .saturate = true,
                             .scale = how.wire.rule == PLUMB_SCALE_CURRENT ? 0.75f : 1};

    if (n > 0)
        memcpy(o.state, x[0], n * sizeof(float));
    CHECK_OK(plumb_accumulate(&cast, 0.9f, o.state, x[1], n, &o.casts, &o.sums, &why), why);
    if (order != PLUMB_ORDER_RING)
        CHECK_OK(plumb_sum_ordered(&(plumb_summation){.order = order, .cast = cast}, x[2],
                                   n, &o.sum, &o.casts, &o.sums, &why),
                 why);
    return o;
}

static void masks_of(const char *wire, plumb_order order, size_t n, bool specials,
                     uint64_t *state)
{
    static const unsigned masks[] = {PLUMB_CPU_BASELINE, PLUMB_CPU_AVX2,
                                     PLUMB_CPU_AVX2 | PLUMB_CPU_AVX512};
    float *aligned[RANKS], *shifted[RANKS];
    outcome want;

    for (size_t r = 0; r < RANKS; r++) {
        aligned[r] = aligned_alloc(64, 4608);
        shifted[r] = (float *)aligned_alloc(64, 4608) + 1;
        fill(aligned[r], n, state, specials);
        memcpy(shifted[r], aligned[r], n * sizeof(float));
    }
    for (int m = 0; m < 3; m++) {
        plumb_cpu_limit(masks[m]);
        const outcome got = run(wire, order, aligned, n),
                      again = run(wire, order, shifted, n);

        if (m == 0)
            want = got;
        CHECK(memcmp(&want, &got, sizeof want) == 0, "%s, order %d, n = %zu, mask %u", wire,
              (int)order, n, masks[m]);
        CHECK(memcmp(&want, &again, sizeof want) == 0, "%s, order %d, n = %zu, unaligned",
              wire, (int)order, n);
    }
    plumb_cpu_limit(~0u);
    for (size_t r = 0; r < RANKS; r++) {
        free(aligned[r]);
        free(shifted[r] - 1);
    }
}

static void masks(void)
{
    uint64_t state = 2;

    for (int w = 0; w < WIRES; w++)
        for (int order = 0; order < PLUMB_ORDER_LANES; order++)
            for (size_t i = 0; i < SIZES; i++)
                masks_of(wires[w], (plumb_order)order, sizes[i], i % 3 == 2, &state);
    check_done("masks of the CPU");
}

/* What an element becomes does not depend on its neighbours. */
static void whole_and_parts(void)
{
    uint64_t state = 3;
    float x[RANKS][MOST], whole[MOST], part[MOST];

    for (size_t r = 0; r < RANKS; r++)
        fill(x[r], MOST, &state, true);
    for (int order = 0; order < PLUMB_ORDER_LANES; order++) {
        const plumb_reduction how = {.order = (plumb_order)order,
                                     .wire = {.format = PLUMB_BF16}};
        const float *const shares[RANKS] = {x[0], x[1], x[2]};

        if (order == PLUMB_ORDER_RING)
            continue;
        plumb_allreduce(&how, shares, RANKS, MOST, whole, NULL, NULL, NULL, NULL);
        for (size_t i = 0; i < MOST; i += 97) {
            const size_t n = MOST - i < 97 ? MOST - i : 97;
            const float *const from[RANKS] = {x[0] + i, x[1] + i, x[2] + i};

            plumb_allreduce(&how, from, RANKS, n, part + i, NULL, NULL, NULL, NULL);
        }
        CHECK(memcmp(whole, part, sizeof whole) == 0, "order %d", order);
    }
    check_done("whole and parts");
}

int main(void)
{
    tallies();
    masks();
    whole_and_parts();
    return check_exit();
}
