/* Event files, read back by a reader of its own: a bit-by-bit CRC-32C, records, protocol buffers.
 * Values are held against what the fixture wrote.
 */
#include "plumb/report.h"

#include "check.h"
#include "fixture.h"
#include "plumb/file.h"
#include "plumb/log.h"

#include <stdlib.h>
#include <unistd.h>

/* --- the reader ---------------------------------------------------------------------- */

/* RFC 3720: reflected, polynomial 0x1EDC6F41, all ones before and after. */
static uint32_t crc32c(const unsigned char *bytes, size_t size)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    return ~crc;
}

/* TensorFlow's core/lib/hash/crc32c.h: rotated right by 15 bits, plus a constant. */
static uint32_t masked(const unsigned char *bytes, size_t size)
{
    const uint32_t crc = crc32c(bytes, size);

    return (uint32_t)(((uint64_t)crc >> 15 | (uint64_t)crc << 17) + 0xa282ead8u);
}

static uint64_t little(const unsigned char *at, int size)
{
    uint64_t value = 0;

    for (int i = size; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

static uint64_t varint(const unsigned char **at, const unsigned char *end)
{
    uint64_t value = 0;

    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        const unsigned char byte = *(*at)++;

        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
    return UINT64_MAX;
}

/* One field of a message: where its bytes are, or its number. */
typedef struct field {
    uint64_t number, value;
    const unsigned char *at, *end;
} field;

static bool next_field(const unsigned char **at, const unsigned char *end, field *f)
{
    if (*at >= end)
        return false;
    const uint64_t key = varint(at, end);

    *f = (field){.number = key >> 3};
    switch (key & 7) {
    case 0:
        f->value = varint(at, end);
        return true;
    case 1:
    case 5:
        f->value = little(*at, (key & 7) == 1 ? 8 : 4);
        *at += (key & 7) == 1 ? 8 : 4;
        return *at <= end;
    case 2:
        f->value = varint(at, end);
        f->at = *at;
        f->end = *at + f->value;
        *at = f->end;
        return f->value <= (uint64_t)(end - f->at);
    default:
        return false;
    }
}

/* --- what is looked for ------------------------------------------------------------------ */

typedef struct wanted {
    const char *tag;
    uint64_t step;
    double value; /* as found */
    int found;
} wanted;

typedef struct totals {
    size_t records, values, versions;
} totals;

static void read_value(const field *value, uint64_t step, wanted *list, size_t count)
{
    const unsigned char *at = value->at;
    field f, tag = {0};
    float number = 0;

    while (next_field(&at, value->end, &f)) {
        const uint32_t bits = (uint32_t)f.value;

        if (f.number == 1)
            tag = f;
        else if (f.number == 2)
            memcpy(&number, &bits, sizeof number);
    }
    for (size_t i = 0; i < count; i++)
        if (list[i].step == step && tag.value == strlen(list[i].tag) &&
            memcmp(tag.at, list[i].tag, tag.value) == 0) {
            list[i].value = (double)number;
            list[i].found++;
        }
}

static void read_event(const unsigned char *at, const unsigned char *end, totals *seen,
                       wanted *list, size_t count)
{
    field f, summary = {0};
    uint64_t step = 0;

    while (next_field(&at, end, &f)) {
        if (f.number == 2)
            step = f.value;
        if (f.number == 3)
            seen->versions += f.value == 13 && memcmp(f.at, "brain.Event:2", 13) == 0;
        if (f.number == 5)
            summary = f;
    }
    for (at = summary.at; summary.at != NULL && next_field(&at, summary.end, &f);) {
        seen->values++;
        read_value(&f, step, list, count);
    }
}

static void read_file(const char *path, totals *seen, wanted *list, size_t count)
{
    char *data = NULL;
    size_t size = 0;

    *seen = (totals){0};
    if (!CHECK(plumb_file_read(path, 64 << 20, &data, &size, NULL) == PLUMB_OK, "no %s",
               path))
        return;
    const unsigned char *at = (const unsigned char *)data, *end = at + size;
    while (end - at >= 16) {
        const uint64_t length = little(at, 8);

        if (!CHECK(length <= (uint64_t)(end - at) - 16, "a record of %llu bytes",
                   (unsigned long long)length))
            break;
        CHECK(little(at + 8, 4) == masked(at, 8), "record %zu: crc of the length",
              seen->records);
        CHECK(little(at + 12 + length, 4) == masked(at + 12, length),
              "record %zu: crc of the bytes", seen->records);
        read_event(at + 12, at + 12 + length, seen, list, count);
        seen->records++;
        at += 16 + length;
    }
    CHECK(at == end, "%td bytes behind the last record", end - at);
    free(data);
}

/* --- tests ------------------------------------------------------------------------------- */

/* Where the fixture's own run is at step 3 (fixture.c). */
static void own_run(const char *run_dir)
{
    char path[4096];
    plumb_error why = {0};
    totals seen;
    wanted list[] = {
        {.tag = "train/loss", .step = 3},
        {.tag = "lm loss", .step = 3},
        {.tag = "loss_metrics/global_avg_loss", .step = 3},
        {.tag = "layer.2/mlp.down/dgrad/dy_underflows%", .step = 9},
        {.tag = "layer.2/mlp.down/dgrad/dy_headroom", .step = 9},
        {.tag = "layer.2/mlp.down/dgrad/dy_overflows%", .step = 20},
        {.tag = "grad_norm", .step = 3},
    };
    enum { COUNT = sizeof list / sizeof list[0] };
    plumb_history history = {0};

    CHECK_OK(plumb_report_run_tensorboard(run_dir, path, &why), why);
    CHECK_OK(plumb_history_refresh(run_dir, &history, true, &why), why);
    strncat(path, "/events.out.tfevents.0000000000.plumb", sizeof path - strlen(path) - 1);
    read_file(path, &seen, list, COUNT);
    CHECK(seen.versions == 1, "%zu versions", seen.versions);
    CHECK(seen.records == 1 + 2 * history.count, "%zu records of %zu steps", seen.records,
          history.count);
    for (size_t i = 0; i + 1 < COUNT; i++)
        CHECK(list[i].found == 1, "%s: found %d times", list[i].tag, list[i].found);
    CHECK(list[COUNT - 1].found == 0, "a gradient norm that the run does not have");
    for (size_t i = 0; i < 3; i++)
        CHECK(list[i].value == (double)(float)history.at[2].loss, "%s is %g, not %g",
              list[i].tag, list[i].value, history.at[2].loss);
    CHECK(list[3].value == (double)(float)(100 * (30.0 + 9 * 9) / 65536), "underflows %g",
          list[3].value);
    CHECK(list[4].value > 0.5 && list[4].value < 0.8, "headroom %g", list[4].value);
    CHECK(list[5].value > 0 && list[5].value < 100, "overflows %g", list[5].value);
    plumb_history_free(&history);
    check_done("one run");
}

static void whole_study(const char *study, const json_t *verdict)
{
    char path[4096], file[4400];
    plumb_error why = {0};
    totals seen;

    for (int round = 0; round < 2; round++) { /* a second time over the first */
        CHECK_OK(plumb_report_tensorboard(study, verdict, path, &why), why);
        snprintf(file, sizeof file, "%s/03-bf16-twin/events.out.tfevents.0000000000.plumb",
                 path);
        read_file(file, &seen, NULL, 0);
        CHECK(seen.versions == 1 && seen.values > 30, "%zu values", seen.values);
    }
    check_done("a study");
}

static void refusals(const char *study)
{
    char path[4096];
    plumb_error why = {0};

    CHECK(plumb_report_run_tensorboard("/nonexistent/run", path, &why) == PLUMB_NOT_FOUND,
          "an absent run");
    json_t *verdict =
        json_loads("{\"runs\":[{\"id\":\"../runs/a0\"},{\"id\":\"zz\"}]}", 0, NULL);
    CHECK_OK(plumb_report_tensorboard(study, verdict, path, &why), why);
    strncat(path, "/01-run", sizeof path - strlen(path) - 1);
    CHECK(access(path, F_OK) != 0, "read outside of runs/");
    json_decref(verdict);
    check_done("runs that are not there");
}

int main(void)
{
    char study[256], run_dir[300];
    json_t *verdict = fixture_verdict("numerics.json");

    if (CHECK(verdict != NULL && fixture_directory(study) &&
                  fixture_study(study, verdict, 1),
              "no fixture")) {
        snprintf(run_dir, sizeof run_dir, "%s/runs/%s/run", study,
                 json_string_value(json_object_get(
                     json_array_get(json_object_get(verdict, "runs"), 0), "id")));
        own_run(run_dir);
        whole_study(study, verdict);
        refusals(study);
        fixture_remove(study);
    }
    json_decref(verdict);
    return check_exit();
}
