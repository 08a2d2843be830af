/* A race with entries made up for the test: whatever is wrong must be named and not timed, and
 * the ratios must be those of the times that the entries pretend to take.
 */
#include "check.h"

#include "bench/bench.h"
#include "bench/peer.h"

#include <math.h>
#include <stdlib.h>

enum { N = 100 };

/* --- kernels ------------------------------------------------------------------------------ */

static unsigned char codes[N], want[N];
static size_t runs_of_wrong;

static void right(void *context)
{
    (void)context;
    for (size_t i = 0; i < N; i++)
        codes[i] = (unsigned char)(7 * i);
}

static void off_at_17(void *context)
{
    right(context);
    codes[17] ^= 1;
    runs_of_wrong++;
}

static void writes_nothing(void *context)
{
    (void)context;
}

static bool never(void *context, char complaint[BENCH_COMPLAINT])
{
    (void)context;
    plumb_print(complaint, BENCH_COMPLAINT, "far from ours");
    return false;
}

/* Times that are known: a millisecond for each run, or *context of them. */
static double takes(void *context, size_t times)
{
    right(NULL);
    return 1e-3 * *(const double *)context * (double)times;
}

/* Every third sample is a hundred times too long, as if something else had run. */
static double takes_with_outliers(void *context, size_t times)
{
    static size_t calls;

    return takes(context, times) * (++calls % 3 == 0 ? 100 : 1);
}

/* --- cases -------------------------------------------------------------------------------- */

static bench_entry *enter(bench_race *race, bench_role role, const char *name,
                          void (*run)(void *))
{
    bench_entry *entry = bench_enter(race, role, name);

    entry->run = run;
    entry->outputs[0] = (bench_output){"codes", codes, want, N, 1};
    return entry;
}

static plumb_status planted(bench *b, const bench_case *row, plumb_error *why)
{
    bench_race race = {.work = N, .unit = "elem"};

    (void)row;
    enter(&race, BENCH_OURS, "good", right);
    enter(&race, BENCH_VARIANT, "one off", off_at_17);
    enter(&race, BENCH_VARIANT, "lazy", writes_nothing);
    enter(&race, BENCH_PEER, "far", right)->check = never;
    enter(&race, BENCH_PEER, "missing", NULL)->absent = "not installed";
    enter(&race, BENCH_LIMIT, "limit", right);
    return bench_race_run(b, &race, why);
}

static plumb_status ours_is_wrong(bench *b, const bench_case *row, plumb_error *why)
{
    bench_race race = {.work = N, .unit = "elem"};

    (void)row;
    enter(&race, BENCH_OURS, "bad", off_at_17);
    enter(&race, BENCH_LIMIT, "limit", right);
    return bench_race_run(b, &race, why);
}

static plumb_status timed(bench *b, const bench_case *row, plumb_error *why)
{
    static double one = 1, three = 3, half = 0.5;
    bench_race race = {.work = N, .unit = "elem"};
    bench_entry *entry = enter(&race, BENCH_OURS, "ours", NULL);

    (void)row;
    entry->seconds = takes;
    entry->context = &one;
    entry = enter(&race, BENCH_LIMIT, "slow", NULL);
    entry->seconds = takes_with_outliers;
    entry->context = &three;
    entry = enter(&race, BENCH_PEER, "quarter of the work", NULL);
    entry->seconds = takes;
    entry->context = &half;
    entry->work = N / 4.0;
    return bench_race_run(b, &race, why);
}

static plumb_status fails(bench *b, const bench_case *row, plumb_error *why)
{
    (void)row;
    return bench_take(b, SIZE_MAX - 64, why) == NULL ? PLUMB_NO_MEMORY : PLUMB_OK;
}

static const bench_case cases[] = {
    {.name = "a/planted", .run = planted},
    {.name = "a/wrong", .run = ours_is_wrong},
    {.name = "b/timed", .run = timed},
    {.name = "b/fails", .run = fails},
    {.name = "c/large", .run = timed, .slow = true},
};

static json_t *run(const char *only, bool quick)
{
    const plumb_bench_options options = {.only = only, .quick = quick};
    json_t *document = NULL;
    plumb_error why = {0};

    CHECK_OK(
        bench_run_cases(&options, cases, sizeof cases / sizeof *cases, &document, &why),
        why);
    return document;
}

static const json_t *row_at(const json_t *document, size_t i)
{
    return json_array_get(json_object_get(document, "rows"), i);
}

static const json_t *entry_at(const json_t *row, size_t i)
{
    return json_array_get(json_object_get(row, "entries"), i);
}

static const char *text(const json_t *json, const char *key)
{
    const char *value = json_string_value(json_object_get(json, key));

    return value != NULL ? value : "";
}

static double real(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* --- tests -------------------------------------------------------------------------------- */

static void wrong_results_are_named(void)
{
    json_t *document = run("a/planted", true);
    const json_t *row = row_at(document, 0);
    static const char *const status[] = {"ok", "wrong", "wrong", "wrong", "absent", "ok"};
    static const char *const note[] = {"",
                                       "codes: element 17 is 0x76, the reference has 0x77",
                                       "codes: element 0 is 0xa5, the reference has 0x00",
                                       "far from ours",
                                       "not installed",
                                       ""};

    for (size_t i = 0; i < 6; i++) {
        const json_t *entry = entry_at(row, i);

        CHECK(strcmp(text(entry, "status"), status[i]) == 0, "entry %zu is %s, want %s", i,
              text(entry, "status"), status[i]);
        CHECK(strcmp(text(entry, "note"), note[i]) == 0, "entry %zu says '%s'", i,
              text(entry, "note"));
        CHECK((strcmp(status[i], "ok") == 0) == (real(entry, "rate") > 0),
              "entry %zu has rate %g", i, real(entry, "rate"));
    }
    CHECK(runs_of_wrong == 1, "a wrong kernel ran %zu times, want 1: it must not be timed",
          runs_of_wrong);
    CHECK(plumb_bench_count(document).wrong == 1, "%zu rows are wrong",
          plumb_bench_count(document).wrong);
    json_decref(document);
    check_done("wrong results are named and not timed");
}

static void nothing_is_measured_against_wrong_ours(void)
{
    json_t *document = run("a/wrong", true);
    const json_t *row = row_at(document, 0);

    CHECK(strcmp(text(entry_at(row, 0), "status"), "wrong") == 0, "ours passed");
    CHECK(real(entry_at(row, 1), "rate") > 0, "the limit has no rate");
    CHECK(json_object_get(entry_at(row, 1), "ratio") == NULL, "a ratio to a wrong result");
    CHECK(plumb_bench_count(document).wrong == 1, "not counted as wrong");
    json_decref(document);
    check_done("no ratio to a wrong result");
}

/* What plumb_bench_print_row makes of a row. */
static void print(const json_t *row, char *shown, size_t size)
{
    FILE *file = tmpfile();
    const plumb_screen screen = {.out = file};

    shown[0] = 0;
    if (!CHECK(file != NULL, "no temporary file"))
        return;
    plumb_bench_print_row(&screen, row);
    rewind(file);
    shown[fread(shown, 1, size - 1, file)] = 0;
    fclose(file);
}

static void the_table_says_so(void)
{
    static const char *const lines[] = {
        "    variant                      one off: WRONG, not timed: codes: element 17 is ",
        "    variant                      lazy: WRONG, not timed: codes: element 0 is ",
        "                                 far: WRONG, not timed: far from ours\n",
        "                                 missing: not installed\n",
    };
    json_t *document = run("a/*", true);
    char shown[2000];

    print(row_at(document, 0), shown, sizeof shown);
    CHECK(strncmp(shown, "a/planted  ", 11) == 0, "the row begins '%.11s'", shown);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        CHECK(strstr(shown, lines[i]) != NULL, "no '%s' in\n%s", lines[i], shown);
    print(row_at(document, 1), shown, sizeof shown);
    CHECK(strncmp(shown, "a/wrong                          bad: WRONG, not timed: codes",
                  61) == 0,
          "ours is wrong, and the row says\n%s", shown);
    json_decref(document);
    document = run("b/*", true);
    print(row_at(document, 0), shown, sizeof shown);
    CHECK(strstr(shown, "b/timed ") == shown &&
              strstr(shown, " 100    33.3 kelem/s  slow ") != NULL &&
              strstr(shown, " 3.00\n") != NULL,
          "the row is\n%s", shown);
    print(row_at(document, 1), shown, sizeof shown);
    CHECK(strstr(shown, "b/fails                          not run: no ") == shown,
          "the row is\n%s", shown);
    json_decref(document);
    check_done("the table says what is wrong, absent or not run");
}

static bool near(double got, double want_value)
{
    return fabs(got - want_value) <= 1e-9 * want_value;
}

static void ratios_are_of_rates(void)
{
    json_t *document = run("b/timed", false);
    const json_t *row = row_at(document, 0);

    CHECK(json_integer_value(json_object_get(row, "rounds")) >= 9, "too few rounds");
    CHECK(near(real(entry_at(row, 0), "seconds"), 1e-3), "ours takes %g s",
          real(entry_at(row, 0), "seconds"));
    CHECK(near(real(entry_at(row, 0), "rate"), N / 1e-3), "ours has rate %g",
          real(entry_at(row, 0), "rate"));
    CHECK(near(real(entry_at(row, 1), "ratio"), 3), "over the slow one: %g",
          real(entry_at(row, 1), "ratio"));
    CHECK(near(real(entry_at(row, 2), "rate"), N / 4.0 / 0.5e-3), "a quarter in half: %g",
          real(entry_at(row, 2), "rate"));
    CHECK(near(real(entry_at(row, 2), "ratio"), 2), "a quarter in half the time: %g",
          real(entry_at(row, 2), "ratio"));
    json_decref(document);
    check_done("ratios are those of rates, whatever a third of the samples says");
}

static void rows_are_chosen(void)
{
    const plumb_bench_options none = {.only = "d/*"};
    json_t *document = run("b/*", true);
    plumb_error why = {0};

    CHECK(json_array_size(json_object_get(document, "rows")) == 2, "b/* has %zu rows",
          json_array_size(json_object_get(document, "rows")));
    CHECK(strstr(text(row_at(document, 1), "error"), "memory") != NULL, "error is '%s'",
          text(row_at(document, 1), "error"));
    CHECK(plumb_bench_count(document).failed == 1, "%zu rows failed",
          plumb_bench_count(document).failed);
    json_decref(document);
    document = run("[bc]/*", true);
    CHECK(json_array_size(json_object_get(document, "rows")) == 2, "quick has slow rows");
    json_decref(document);
    CHECK(bench_run_cases(&none, cases, 5, &document, &why) == PLUMB_NOT_FOUND,
          "a glob that fits nothing");
    CHECK(strcmp(why.message, "no row fits 'd/*'") == 0, "it says '%s'", why.message);
    check_done("rows are chosen by glob");
}

static void peers_may_differ_by_rounding_only(void)
{
    float ours[4] = {1, 2, -3, 0}, magnitude[4] = {4, 4, 4, 0}, c[4];
    char complaint[BENCH_COMPLAINT];
    bench_peer_product product = {.n = 2, .c = c, .ours = ours, .magnitude = magnitude};

    memcpy(c, ours, sizeof c);
    CHECK(bench_peer_product_near(&product, complaint), "equal results");
    c[1] = 2 + 0x1p-20f; /* 2 n u 4 = 2^-20 */
    CHECK(bench_peer_product_near(&product, complaint), "a difference of 2 n u");
    c[1] = 2 + 0x1p-19f;
    CHECK(!bench_peer_product_near(&product, complaint), "twice that");
    CHECK(strstr(complaint, "element 1 is 2.00000191, ours 2") != NULL, "it says '%s'",
          complaint);
    memcpy(c, ours, sizeof c);
    c[3] = 1e-30f;
    CHECK(!bench_peer_product_near(&product, complaint), "something where all is zero");
    c[3] = 0;
    c[1] = 2 + 0x1p-8f;
    CHECK(!bench_peer_product_near(&product, complaint), "2^-8 in fp32");
    product.result_unit = 0x1p-8;
    CHECK(bench_peer_product_near(&product, complaint), "half of the last place of bf16");
    c[1] = 2 + 0x1p-6f;
    CHECK(!bench_peer_product_near(&product, complaint), "its last place");
    memcpy(c, ours, sizeof c);
    c[3] = NAN;
    CHECK(!bench_peer_product_near(&product, complaint), "NaN");
    check_done("peers may differ by rounding only");
}

int main(void)
{
    right(NULL);
    memcpy(want, codes, N);
    wrong_results_are_named();
    nothing_is_measured_against_wrong_ours();
    the_table_says_so();
    ratios_are_of_rates();
    rows_are_chosen();
    peers_may_differ_by_rounding_only();
    return check_exit();
}
