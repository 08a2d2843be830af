/* Rows of values under the same scales, whether their largest magnitudes are known or not, in every
 * variant of every cast: against a call of the reference for each element.  And these magnitudes.
 */
#include "check.h"
#include "kernel/cast_kit.h"

enum { LONG = 3 * 1024 + 7, PAD = 32 };

static const plumb_encode_kernel *reference_of(plumb_format format)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++)
        if (plumb_encode_kernels[i].format == format)
            return &plumb_encode_kernels[i];
    return NULL;
}

/* Round robin through roundings, dithers, saturation, division, starts. */
static plumb_cast some_cast(plumb_format format, size_t turn)
{
    static const float scales[] = {1.7f, 0x1p-3f, 300.0f, 0x1p-140f, INFINITY};
    const bool narrow = plumb_format_get(format)->bytes == 1;

    return (plumb_cast){.format = format,
                        .saturate = turn % 2 == 0,
                        .divide = turn % 5 == 3,
                        .scale = narrow ? scales[turn % 16 < 12 ? 0 : turn % 5] : 1.0f,
                        .decode = turn % 7 == 0 ? 0.3f : 0,
                        .rounding = (plumb_rounding)(turn % 3),
                        .dither = (plumb_dither)(turn / 3 % 3),
                        .seed = 0x123456789abcdefu + turn,
                        .stream = ~(uint64_t)turn,
                        .first = turn % 4 == 3 ? 0xffffffffu * (uint64_t)4 : turn};
}

typedef struct outcome {
    union {
        uint8_t bytes[4 * (LONG + 4) + 2 * PAD];
        float align;
    } codes;
    plumb_counts counts;
    plumb_spectrum spectrum;
} outcome;

static void run_one(const plumb_encode_kernel *k, plumb_encode_job job, size_t start,
                    bool measured, outcome *o)
{
    memset(o, 0, sizeof *o);
    memset(&o->codes, 0x5a, sizeof o->codes);
    o->counts.amax = 0.5f;
    o->spectrum.signal = 3;
    job.codes = o->codes.bytes + start;
    job.counts = &o->counts;
    job.spectrum = measured ? &o->spectrum : NULL;
    k->run(&job);
}

/* Scales of the size that values have, and now and then one that no kernel likes. */
static float block_scale(size_t turn)
{
    static const float odd[] = {0, -2, 0x1p-140f, 0x1p120f, INFINITY, NAN};
    const uint32_t bits = next_random();

    if (turn % 3 == 0 && bits % 64 < 6)
        return odd[bits % 64];
    return float_from((bits & 0x03ffffff) | 0x3c000000);
}

/* The largest magnitudes of blocks by their definition; false if there is a NaN. */
static bool amax_of_blocks(const plumb_encode_job *job, size_t rows, float *amax)
{
    bool numbers = true;

    for (size_t b = 0; b * job->block < job->n; b++)
        amax[b] = 0;
    for (size_t i = 0; i < rows * job->n; i++) {
        const size_t col = i % job->n, at = i / job->n * job->ld + col;
        const float x = job->source == PLUMB_FP32
                            ? ((const float *)job->x)[at]
                            : float_from((uint32_t)((const uint16_t *)job->x)[at] << 16);

        amax[col / job->block] = fmaxf(amax[col / job->block], fabsf(x));
        numbers &= !isnan(x);
    }
    return numbers;
}

/* Rows under the same scales against a call of the reference for each element. */
static void check_rows(const plumb_encode_kernel *k, plumb_encode_job job)
{
    static outcome want, got;
    const size_t from = job.source == PLUMB_FP32 ? 4 : 2,
                 rows = job.rows == 0 ? 1 : job.rows;
    plumb_counts counts = {.amax = 0.5f};
    static uint8_t codes[LONG];

    memset(codes, 0x5a, sizeof codes);
    for (size_t i = 0; i < rows * job.n; i++) {
        const size_t row = i / job.n, col = i % job.n, at = row * job.code_ld + col;
        plumb_cast how = *job.how;
        plumb_encode_job one = {.how = &how, .source = job.source, .n = 1};

        how.scale = job.scales[col / job.block];
        how.first += at;
        one.counts = &counts;
        one.x = (const char *)job.x + (row * job.ld + col) * from;
        one.codes = codes + at;
        reference_of(k->format)->run(&one);
    }
    run_one(k, job, 0, false, &got);
    CHECK(memcmp(codes, got.codes.bytes, LONG) == 0,
          "%s: codes of %zu rows, blocks of %zu, n=%zu", k->name, rows, job.block, job.n);
    CHECK(same_counts(&counts, &got.counts),
          "%s: counts of %zu rows, blocks of %zu, n=%zu, %s", k->name, rows, job.block,
          job.n, job.amax != NULL ? "known" : "unknown");
    run_one(reference_of(k->format), job, 0, true, &want);
    run_one(k, job, 0, true, &got);
    CHECK(memcmp(&want.codes, &got.codes, sizeof want.codes) == 0 &&
              same_counts(&want.counts, &got.counts) &&
              same_spectrum(&want.spectrum, &got.spectrum),
          "%s: %zu rows, blocks of %zu, n=%zu, with a spectrum", k->name, rows, job.block,
          job.n);
}

/* Tiles of up to ten rows, whether the largest of each block is known or not; scales that fit the
 * block exactly, clip a little of it, or are odd.
 */
static void one_tile(const plumb_encode_kernel *k, size_t turn)
{
    static const size_t lengths[] = {1, 16, 32, 128, 1};
    static float x[LONG], scales[LONG], decodes[LONG], amax[LONG];
    static uint16_t half[LONG];
    plumb_cast how = some_cast(k->format, turn);
    plumb_encode_job job = {.how = &how,
                            .source = turn % 8 < 5 ? PLUMB_FP32 : PLUMB_BF16,
                            .n = turn % 3 == 0 ? 1 + next_random() % 40
                                               : next_random() % 250,
                            .block = lengths[turn % 5],
                            .scales = scales,
                            .decodes = decodes,
                            .rows = turn % 11};

    job.ld = job.n + turn % 7;
    job.code_ld = job.n + turn % 4;
    job.x = job.source == PLUMB_FP32 ? (const void *)(x + 1) : half + 1;
    how.rounding = turn % 4 == 3 ? how.rounding : PLUMB_ROUND_NEAREST_EVEN;
    for (size_t j = 0; j < LONG; j++) {
        x[j] = turn % 6 == 0 ? any_float() : (float)(int32_t)next_random() * 0x1p-30f;
        x[j] = next_random() % 16 == 0 ? 0 : x[j];
        half[j] = (uint16_t)(bits_from(x[j]) >> 16);
    }
    const bool numbers = amax_of_blocks(&job, job.rows == 0 ? 1 : job.rows, amax);
    const float largest = plumb_format_get(k->format)->largest;

    for (size_t b = 0; b * job.block < job.n; b++) {
        const float fit = how.divide ? amax[b] / largest : largest / amax[b];
        const float wide = fit * (how.divide ? 1 - 0x1p-8f : 1 + 0x1p-8f);

        scales[b] = turn % 9 < 5 ? fit : turn % 9 < 8 ? wide : block_scale(turn);
        scales[b] = amax[b] == 0 && turn % 2 == 0 ? 1 : scales[b];
        decodes[b] = turn % 5 ? 1 / scales[b] : block_scale(turn);
    }
    job.amax = numbers && turn % 4 != 1 ? amax : NULL;
    check_rows(k, job);
}

static void tiles(void)
{
    for (size_t i = 0; i < plumb_encode_kernel_count; i++) {
        const plumb_encode_kernel *k = &plumb_encode_kernels[i];

        for (size_t turn = 0; turn < 200; turn++)
            if (can_run(k->cpu) && plumb_format_get(k->format)->bytes == 1)
                one_tile(k, turn);
    }
    check_done("rows under the same scales");
}

/* Each block by itself, of one row or several, with some NaN and infinities about. */
static void one_amax_of_blocks(const plumb_amax_kernel *k, size_t turn)
{
    static const size_t lengths[] = {128, 32, 16, 7, 48, 1000, 1};
    static float x[LONG], want[LONG], got[LONG];
    static uint16_t half[LONG];
    const size_t rows = turn % 3 == 0 ? 1 : 1 + turn % 20;
    const size_t most = (LONG - turn) / rows - 2;
    const size_t n = turn < 60 && turn * 9 % 300 < most ? turn * 9 % 300 : most;
    const plumb_encode_job job = {.source = turn % 5 < 3 ? PLUMB_FP32 : PLUMB_BF16,
                                  .x = turn % 5 < 3 ? (const void *)x : half,
                                  .n = n,
                                  .block = lengths[turn % 7],
                                  .ld = n + turn % 3};
    const size_t count = (n + job.block - 1) / job.block;

    for (size_t j = 0; j < LONG; j++) {
        const bool any = next_random() % 512 < turn % 4;
        const float value = any ? any_float() : (float)(int32_t)next_random();

        half[j] = (uint16_t)(bits_from(value) >> 16);
        x[j] = float_from((uint32_t)half[j] << 16);
    }
    const bool numbers = amax_of_blocks(&job, rows, want);

    got[count] = 99;
    CHECK(k->run_blocks(job.source, job.x, rows, job.ld, n, job.block, got) == numbers,
          "%s: numbers in %zu rows, n=%zu", k->name, rows, n);
    CHECK(memcmp(want, got, count * sizeof *want) == 0 && got[count] == 99,
          "%s: blocks of %zu x %zu, n=%zu", k->name, rows, job.block, n);
}

static void amax_blocks(void)
{
    for (size_t i = 0; i < plumb_amax_kernel_count; i++)
        for (size_t turn = 0; turn < 210 && can_run(plumb_amax_kernels[i].cpu); turn++)
            one_amax_of_blocks(&plumb_amax_kernels[i], turn);
    check_done("amax of blocks");
}

int main(void)
{
    tiles();
    amax_blocks();
    return check_exit();
}
