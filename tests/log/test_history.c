/* Reading metrics and events while they grow, and whatever else may lie there. */
#include "plumb/log.h"

#include <inttypes.h>
#include <math.h>
#include <xxhash.h>

#include "check.h"
#include "file/scratch.h"

static void refresh(plumb_history *history, bool final)
{
    plumb_error why = {0};

    CHECK_OK(plumb_history_refresh(scratch_directory, history, final, &why), why);
}

static void growing(void)
{
    plumb_history h = {0};

    refresh(&h, false);
    CHECK(h.count == 0 && h.offset == 0, "an absent file has rows");
    scratch_text("metrics.jsonl", "{\"step\":1,\"loss\":2.5}\n{\"step\":2,\"lo");
    refresh(&h, false);
    CHECK(h.count == 1 && h.at[0].step == 1 && h.at[0].loss == 2.5 && h.offset == 22,
          "%zu rows, %d", h.count, (int)h.offset);
    refresh(&h, false);
    CHECK(h.count == 1 && h.bad_lines == 0, "half a line was taken");
    scratch_append("metrics.jsonl", "ss\":2.25}\n\n{\"step\":3,\"loss\":2}");
    refresh(&h, false);
    CHECK(h.count == 2 && h.at[1].loss == 2.25, "%zu rows", h.count);
    refresh(&h, true);
    CHECK(h.count == 3 && h.at[2].step == 3 && h.lines == 4, "final: %zu rows, %d lines",
          h.count, (int)h.lines);
    refresh(&h, true);
    CHECK(h.count == 3 && h.bad_lines == 0 && h.backward_steps == 0, "read twice");
    plumb_history_free(&h);
    CHECK(h.at == NULL && h.offset == 0, "not zeroed");
    check_done("growing");
}

/* All keys of a line, and the forms in which others write them. */
static void keys(void)
{
    plumb_history h = {0};

    scratch_text(
        "metrics.jsonl",
        "{\"step\":1,\"loss\":null}\n"
        "{\"step\":2.0,\"loss\":NaN,\"grad_norm\":\"Infinity\",\"x\":{\"y\":[1]}}\r\n"
        "{\"step\":3,\"loss\":\"NaN\",\"grad_norm\":-Infinity,\"lr\":0.5}\n"
        "{\"step\":4,\"loss\":1,\"grad_norm_max\":2,\"loss_max\":3,\"update_max\":4,"
        "\"lr\":5,\"grad_norm_max_tensor\":\"w\\u0007\",\"tokens\":64,"
        "\"seconds\":0.5,\"skipped\":true,\"batch_hash\":\"0x1F\","
        "\"state_hash\":\"00000000000000ff\"}\n"
        "{\"step\":5,\"loss\":1,\"batch_hash\":17,\"state_hash\":18446744073709551615}\n"
        "{\"step\":6,\"loss\":1,\"batch_hash\":\"sha:abc\",\"state_hash\":null,"
        "\"tokens\":\"many\",\"grad_norm\":\"big\"}\n");
    refresh(&h, false);
    if (CHECK(h.count == 6 && h.bad_lines == 0, "%zu rows, bad: %s", h.count, h.bad_line)) {
        const plumb_metrics *m = h.at;
        CHECK(isnan(m[0].loss) && !m[0].has_grad_norm && isnan(m[0].grad_norm), "null");
        CHECK(m[1].step == 2 && isnan(m[1].loss) && m[1].has_grad_norm &&
                  m[1].grad_norm == (double)INFINITY,
              "bare NaN");
        CHECK(isnan(m[2].loss) && m[2].grad_norm == -(double)INFINITY &&
                  !m[2].has_details && m[2].lr == 0.5 && isnan(m[2].loss_max),
              "only lr");
        CHECK(m[3].has_details && m[3].grad_norm_max == 2 && m[3].loss_max == 3 &&
                  m[3].update_max == 4 && m[3].lr == 5 &&
                  strcmp(m[3].grad_norm_max_tensor, "w?") == 0 && m[3].tokens == 64 &&
                  m[3].seconds == 0.5 && m[3].skipped,
              "details");
        CHECK(m[3].batch_hash == 31 && m[3].state_hash == 255 && m[3].has_state_hash,
              "hex");
        CHECK(m[4].batch_hash == 17 && m[4].has_batch_hash && m[4].has_state_hash &&
                  m[4].state_hash == XXH3_64bits("18446744073709551615", 20),
              "whole numbers");
        CHECK(m[5].batch_hash == XXH3_64bits("sha:abc", 7) && !m[5].has_state_hash &&
                  m[5].tokens == 0 && !m[5].has_grad_norm && isnan(m[5].grad_norm),
              "other text");
    }
    plumb_history_free(&h);
    check_done("keys");
}

static void garbage(void)
{
    static const char *const lines[] = {
        "hello",
        "{\"step\":1}",
        "{\"loss\":1}",
        "{\"step\":\"1\",\"loss\":1}",
        "{\"step\":0,\"loss\":1}",
        "{\"step\":-1,\"loss\":1}",
        "{\"step\":1.5,\"loss\":1}",
        "{\"step\":1e300,\"loss\":1}",
        "{\"step\":99999999999999999999,\"loss\":1}",
        "{\"step\":1,\"loss\":\"low\"}",
        "{\"step\":1,\"loss\":true}",
        "[1,2]",
        "{\"step\":1,\"loss\":1}}",
        "\xff\xfe{}",
        "{\"step\":1,\"step\":2,\"loss\":1}",
    };
    enum { COUNT = sizeof lines / sizeof lines[0] };
    plumb_history h = {0};

    scratch_text("metrics.jsonl", "\n");
    for (int i = 0; i < COUNT; i++) {
        scratch_append("metrics.jsonl", lines[i]);
        scratch_append("metrics.jsonl", "\n");
    }
    scratch_append("metrics.jsonl", "{\"step\":7,\"loss\":1}\n");
    refresh(&h, false);
    CHECK(h.count == 1 && h.bad_lines == COUNT && strcmp(h.bad_line, "hello") == 0 &&
              h.bad_line_number == 2,
          "%zu rows, %zu bad, '%s' at %d", h.count, h.bad_lines, h.bad_line,
          (int)h.bad_line_number);
    scratch_put("metrics.jsonl", "{\"step\":8,\0\"loss\":1}\n", 22);
    plumb_history_free(&h);
    refresh(&h, false);
    CHECK(h.count == 0 && h.bad_lines == 1, "a NUL inside a line");
    plumb_history_free(&h);
    check_done("garbage");
}

static void backward(void)
{
    plumb_history h = {0};

    scratch_text("metrics.jsonl", "{\"step\":1,\"loss\":1}\n{\"step\":3,\"loss\":3}\n"
                                  "{\"step\":3,\"loss\":9}\n{\"step\":2,\"loss\":9}\n"
                                  "{\"step\":4,\"loss\":4}\n");
    refresh(&h, false);
    CHECK(h.count == 3 && h.backward_steps == 2 && h.at[1].loss == 3 && h.at[2].step == 4,
          "%zu rows, %zu backward", h.count, h.backward_steps);
    scratch_text("metrics.jsonl", "{\"step\":4,\"loss\":7}\n{\"step\":5,\"loss\":5}\n");
    refresh(&h, false);
    CHECK(h.count == 4 && h.backward_steps == 3 && h.at[3].loss == 5,
          "replaced by a shorter one: %zu rows, %zu backward", h.count, h.backward_steps);
    plumb_history_free(&h);
    check_done("backward and replaced");
}

/* size bytes of 'x', without a newline. */
static void append_run(size_t size)
{
    FILE *file = fopen(scratch_at("metrics.jsonl"), "ab");

    for (size_t i = 0; file != NULL && i < size; i++)
        fputc('x', file);
    if (file != NULL)
        fclose(file);
}

static void huge_lines(void)
{
    plumb_history h = {0};

    scratch_text("metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
    append_run(3 << 20);
    refresh(&h, false);
    CHECK(h.count == 1 && h.bad_lines == 1 && h.skipping && h.offset == 20 + (3 << 20),
          "%zu rows, %zu bad, offset %d", h.count, h.bad_lines, (int)h.offset);
    append_run(1000);
    refresh(&h, false);
    scratch_append("metrics.jsonl", "\n{\"step\":2,\"loss\":1}\n");
    append_run((1 << 20) + 1);
    scratch_append("metrics.jsonl", "\n{\"step\":3,\"loss\":1}\n");
    refresh(&h, false);
    CHECK(h.count == 3 && h.bad_lines == 2 && h.bad_line_number == 2 && h.lines == 5 &&
              !h.skipping,
          "%zu rows, %zu bad, %d lines", h.count, h.bad_lines, (int)h.lines);
    append_run(2 << 20);
    refresh(&h, true);
    refresh(&h, true);
    CHECK(h.count == 3 && h.bad_lines == 3, "the end: %zu bad", h.bad_lines);
    plumb_history_free(&h);

    /* exactly 1 MB is a line like any other */
    char *line = malloc((1 << 20) + 1);
    memset(line, ' ', 1 << 20);
    memcpy(line, "{\"step\":1,\"loss\":1", 18);
    line[(1 << 20) - 1] = '}';
    line[1 << 20] = 0;
    scratch_text("metrics.jsonl", line);
    scratch_append("metrics.jsonl", "\r\n");
    free(line);
    refresh(&h, false);
    CHECK(h.count == 1 && h.bad_lines == 0, "a line of 1 MB");
    plumb_history_free(&h);
    check_done("huge lines");
}

/* The same rows however the bytes arrive. */
static void byte_by_byte(void)
{
    static const char text[] =
        "{\"step\":1,\"loss\":1}\r\nrubbish\n\n{\"step\":2,\"loss\":NaN}\n"
        "{\"step\":2,\"loss\":1}\n{\"step\":9,\"loss\":1}\n{\"step\":10";
    plumb_history h = {0};

    for (size_t n = 0; n < sizeof text; n++) {
        scratch_put("metrics.jsonl", text, n);
        refresh(&h, n == sizeof text - 1);
    }
    CHECK(h.count == 3 && h.bad_lines == 2 && h.bad_line_number == 2 &&
              h.backward_steps == 1 && h.lines == 7 && h.at[2].step == 9,
          "%zu rows, %zu bad, %zu backward, %d lines", h.count, h.bad_lines,
          h.backward_steps, (int)h.lines);
    plumb_history_free(&h);
    check_done("byte by byte");
}

static void many(void)
{
    FILE *file = fopen(scratch_at("metrics.jsonl"), "wb");
    plumb_history h = {0};
    bool same = true;

    for (int i = 1; i <= 20000; i++)
        fprintf(file, "{\"step\":%d,\"loss\":%d.5}\n", i, i);
    fclose(file);
    refresh(&h, false);
    for (size_t i = 0; i < h.count; i++)
        same = same && h.at[i].step == (int64_t)i + 1 && h.at[i].loss == (double)i + 1.5;
    CHECK(h.count == 20000 && same, "%zu rows", h.count);
    plumb_history_free(&h);
    remove(scratch_at("metrics.jsonl"));
    scratch_folder("metrics.jsonl");
    CHECK(plumb_history_refresh(scratch_directory, &h, false, NULL) != PLUMB_OK,
          "a folder");
    check_done("many rows");
}

static void events(void)
{
    json_t *got;
    size_t bad;
    plumb_error why = {0};

    CHECK_OK(plumb_events_read(scratch_directory, &got, &bad, &why), why);
    CHECK(json_is_array(got) && json_array_size(got) == 0 && bad == 0, "absent");
    json_decref(got);
    scratch_text("events.jsonl", "{\"event\":\"checkpoint\",\"step\":5,\"ref\":\"a/b\"}\n"
                                 "nonsense\n[]\n{\"event\":3}\n{\"step\":1}\n\n"
                                 "{\"event\":\"x\",\"value\":NaN}\n{\"event\":\"alive\"}");
    CHECK_OK(plumb_events_read(scratch_directory, &got, &bad, &why), why);
    char *text = json_dumps(got, JSON_COMPACT);
    CHECK(bad == 4 &&
              strcmp(text,
                     "[{\"event\":\"checkpoint\",\"step\":5,\"ref\":\"a/b\"},"
                     "{\"event\":\"x\",\"value\":\"NaN\"},{\"event\":\"alive\"}]") == 0,
          "%zu bad: %s", bad, text);
    free(text);
    json_decref(got);
    CHECK_OK(plumb_events_read(scratch_directory, &got, NULL, &why), why);
    json_decref(got);
    check_done("events");
}

/* Of every rank, in the order of ranks; only names of the contract's form are files of ranks. */
static void events_of_ranks(void)
{
    json_t *got;
    plumb_error why = {0};

    scratch_folder("ranks");
    CHECK_OK(plumb_events_read_ranks(scratch_at("ranks"), "x", &got, &why), why);
    CHECK(json_is_array(got) && json_array_size(got) == 0, "absent");
    json_decref(got);
    scratch_text("ranks/events-rank00010.jsonl",
                 "{\"event\":\"x\",\"rank\":3}\nnonsense\n");
    scratch_text("ranks/events-rank00002.jsonl",
                 "{\"event\":\"y\"}\n{\"event\":\"x\",\"step\":4}");
    scratch_text("ranks/events.jsonl", "{\"event\":\"x\"}\n{\"event\":\"alive\"}\n");
    scratch_text("ranks/events-rank00000.jsonl", "{\"event\":\"x\"}\n");
    scratch_text("ranks/events-rank2.jsonl", "{\"event\":\"x\"}\n");
    scratch_text("ranks/events-rank~~~~~.jsonl", "");
    scratch_text("ranks/events-rank0000b.jsonl", "{\"event\":\"x\"}\n");
    scratch_text("ranks/events-rank00003.jsonl~", "{\"event\":\"x\"}\n");
    CHECK_OK(plumb_events_read_ranks(scratch_at("ranks"), "x", &got, &why), why);
    char *text = json_dumps(got, JSON_COMPACT);
    CHECK(strcmp(text, "[{\"event\":\"x\",\"rank\":0},"
                       "{\"event\":\"x\",\"step\":4,\"rank\":2},"
                       "{\"event\":\"x\",\"rank\":10}]") == 0,
          "%s", text);
    free(text);
    json_decref(got);
    check_done("events of ranks");
}

int main(void)
{
    scratch_make();
    growing();
    keys();
    garbage();
    backward();
    huge_lines();
    byte_by_byte();
    many();
    events();
    events_of_ranks();
    scratch_remove();
    return check_exit();
}
