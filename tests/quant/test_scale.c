/* Scale rules at their edges, and delayed scaling as a state machine: every expected value
 * worked by hand from TransformerEngine's formulas.
 */
#include "plumb/quant.h"

#include "check.h"

#include <float.h>
#include <math.h>

static const plumb_spec e4m3 = {.format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT};
static const plumb_spec e5m2 = {.format = PLUMB_E5M2, .rule = PLUMB_SCALE_CURRENT};
static const plumb_spec pow2 = {
    .format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT, .power_of_two = true};
static const plumb_spec margin3 = {
    .format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT, .margin = 3};
static const plumb_spec margin32 = {
    .format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT, .margin = 32};
static const plumb_spec floored = {
    .format = PLUMB_E4M3, .rule = PLUMB_SCALE_CURRENT, .amax_floor = 0.5f};

static void from_amax(void)
{
    const struct {
        const char *what;
        const plumb_spec *spec;
        float amax, otherwise, want;
    } cases[] = {
        {"448 / 7", &e4m3, 7, 9, 64},
        {"57344 / 7", &e5m2, 7, 9, 8192},
        {"a third, one rounding", &e4m3, 3, 9, 0x1.2aaaaap7f}, /* 149.333328 */
        {"amax 0", &e4m3, 0, 9, 9},
        {"amax infinite", &e4m3, INFINITY, 9, 9},
        {"amax NaN", &e4m3, NAN, 9, 9},
        {"least subnormal", &e4m3, 0x1p-149f, 9, FLT_MAX},
        {"just overflowing: 448 / 448 2^-128", &e4m3, 448 * 0x1p-128f, 9, FLT_MAX},
        {"just not: 448 / 448 2^-127", &e4m3, 448 * 0x1p-127f, 9, 0x1p127f},
        {"448 / FLT_MAX is 7/8 ulp above 1.75 2^-120", &e4m3, FLT_MAX, 9, 0x1.c00002p-120f},
        {"pow2 masks", &pow2, 3, 9, 128},
        {"pow2 keeps a power", &pow2, 7, 9, 64},
        {"pow2 just below a power", &pow2, 0x1.c00002p2f, 9, 32},
        {"pow2 of FLT_MAX", &pow2, 0x1p-149f, 9, 0x1p127f},
        {"pow2 leaves the other value alone", &pow2, 0, 9, 9},
        {"margin", &margin3, 7, 9, 8},
        {"margin that underflows", &margin32, FLT_MAX, 9, FLT_MIN},
        {"floor", &floored, 0.25f, 9, 896},
        {"floor for amax 0", &floored, 0, 9, 896},
        {"above the floor", &floored, 7, 9, 64},
        {"floor and NaN", &floored, NAN, 9, 9},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float got =
            plumb_scale_from_amax(cases[i].spec, cases[i].amax, cases[i].otherwise);

        CHECK(got == cases[i].want, "%s: %a, want %a", cases[i].what, (double)got,
              (double)cases[i].want);
    }
    check_done("scale from amax");
}

/* One step: amaxes of micro-batches (negative: none), then what must hold after the update. */
struct step {
    float amax, scale;
    int count;
};

static void run(const char *what, const plumb_spec *spec, const struct step *steps,
                size_t n)
{
    plumb_scale_state state;

    plumb_scale_state_init(&state);
    CHECK(state.scale == 1 && state.pending == -1 && state.count == 0, "%s: at first",
          what);
    for (size_t i = 0; i < n; i++) {
        state.pending = steps[i].amax;
        plumb_scale_state_update(&state, spec);
        CHECK(state.scale == steps[i].scale, "%s, step %zu: scale %a, want %a", what, i,
              (double)state.scale, (double)steps[i].scale);
        CHECK(state.count == steps[i].count, "%s, step %zu: %d entries, want %d", what, i,
              state.count, steps[i].count);
        CHECK(state.pending == -1, "%s, step %zu: pending %g", what, i,
              (double)state.pending);
        if (steps[i].amax > 0)
            CHECK(state.history[0] == steps[i].amax, "%s, step %zu: newest %g", what, i,
                  (double)state.history[0]);
    }
}

#define RUN(what, spec, steps) run(what, spec, steps, sizeof(steps) / sizeof *(steps))

static void sequences(void)
{
    const plumb_spec window3 = {
        .format = PLUMB_E4M3, .rule = PLUMB_SCALE_DELAYED, .history = 3};
    plumb_spec recent = window3, one = window3, wide = window3, margin = window3;
    const struct step of_max[] = {{7, 64, 1},    {14, 32, 2},   {7, 32, 3},
                                  {3.5f, 32, 3}, {7, 64, 3}, /* 14 has left: 7 3.5 7 */
                                  {0, 64, 3},                /* neither rolls nor moves */
                                  {-1, 64, 3},   {3.5f, 64, 3}, {3.5f, 64, 3},
                                  {3.5f, 128, 3}};
    const struct step of_infinity[] = {{7, 64, 1},
                                       {INFINITY, 64, 2},
                                       {3.5f, 64, 3},
                                       {3.5f, 64, 3}, /* infinity is still in the window */
                                       {3.5f, 128, 3}};
    const struct step of_recent[] = {{7, 64, 1},  {14, 32, 2},        {3.5f, 128, 3},
                                     {0, 128, 3}, {INFINITY, 128, 3}, {14, 32, 3}};
    const struct step of_one[] = {{7, 64, 1}, {3.5f, 128, 1}, {28, 16, 1}};
    const struct step of_wide[] = {{7, 64, 1}, {3.5f, 64, 2}};
    const struct step of_margin[] = {{7, 16, 1}, {NAN, 16, 1}};

    recent.most_recent = true;
    one.history = 1;
    wide.history = PLUMB_MAX_HISTORY;
    margin.margin = 2;
    RUN("maximum of 3", &window3, of_max);
    RUN("infinity in a window of 3", &window3, of_infinity);
    RUN("most recent", &recent, of_recent);
    RUN("window of 1", &one, of_one);
    RUN("window of 1024", &wide, of_wide);
    RUN("margin 2", &margin, of_margin);
    check_done("delayed scaling, golden sequences");
}

static void long_window(void)
{
    const plumb_spec spec = {
        .format = PLUMB_E4M3, .rule = PLUMB_SCALE_DELAYED, .history = PLUMB_MAX_HISTORY};
    plumb_scale_state state;

    plumb_scale_state_init(&state);
    state.pending = 14;
    plumb_scale_state_update(&state, &spec);
    for (int i = 1; i < PLUMB_MAX_HISTORY; i++) {
        state.pending = 7;
        plumb_scale_state_update(&state, &spec);
        CHECK(state.scale == 32, "after %d updates the 14 is gone", i + 1);
    }
    state.pending = 7;
    plumb_scale_state_update(&state, &spec);
    CHECK(state.scale == 64 && state.count == PLUMB_MAX_HISTORY, "the 14 stays too long");
    check_done("a full window of 1024");
}

static void damaged_state(void)
{
    const plumb_spec spec = {
        .format = PLUMB_E4M3, .rule = PLUMB_SCALE_DELAYED, .history = 4};
    static const int counts[] = {-5, 5000, 2147483647, -2147483647 - 1};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        plumb_scale_state state;

        plumb_scale_state_init(&state);
        state.count = counts[i];
        state.history[0] = NAN;
        state.pending = 7;
        plumb_scale_state_update(&state, &spec);
        CHECK(state.count >= 1 && state.count <= 4, "count %d became %d", counts[i],
              state.count);
        CHECK(state.scale == 64, "scale %g", (double)state.scale);
    }
    static const int windows[] = {0, -3, PLUMB_MAX_HISTORY + 1, 2147483647};
    struct {
        plumb_scale_state state;
        float after;
    } kept;

    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        plumb_spec odd = spec;

        plumb_scale_state_init(&kept.state);
        odd.history = windows[i];
        kept.state.count = PLUMB_MAX_HISTORY;
        kept.state.pending = 7;
        kept.after = 12345;
        plumb_scale_state_update(&kept.state, &odd);
        CHECK(kept.state.scale == 64 && kept.after == 12345, "a window of %d", windows[i]);
    }
    check_done("a damaged state");
}

int main(void)
{
    from_amax();
    sequences();
    long_window();
    damaged_state();
    return check_exit();
}
