/* The table that a user reads.  A row is one line, ours beside its first limit; further limits,
 * variants and peers have lines below it.
 */
#include "bench/bench.h"

#include <math.h>
#include <string.h>

static double real_of(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);

    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    return text != NULL ? text : "";
}

static bool is(const json_t *entry, const char *key, const char *value)
{
    return strcmp(text_of(entry, key), value) == 0;
}

static const json_t *first_of(const json_t *row, const char *role)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(row, "entries"), i,
                       entry) if (is(entry, "role", role)) return entry;
    return NULL;
}

/* Three digits, nothing where there is no number. */
static void print_number(char text[16], double value)
{
    int decimals = 0;

    for (double digit = 99.95; value < digit && decimals < 5; digit /= 10)
        decimals++;
    if (isnan(value))
        text[0] = 0;
    else
        plumb_print(text, 16, "%.*f", decimals, value);
}

/* The columns, without blanks at the end. */
static void print_columns(FILE *out, const char *name, const char *ours, const char *other,
                          const char *unit, const char *who, const char *ratio)
{
    char line[256];
    size_t length;

    plumb_print(line, sizeof line, "%-32s %7s %7s %-8s %-34s %7s", name, ours, other, unit,
                who, ratio);
    length = strlen(line);
    while (length > 0 && line[length - 1] == ' ')
        length--;
    fprintf(out, "%.*s\n", (int)length, line);
}

/* What makes the numbers of a line short. */
static const struct {
    double below, unit;
    char letter;
} prefixes[] = {{1e6, 1e3, 'k'}, {INFINITY, 1e9, 'G'}};

/* Either side may be NULL. */
static void print_line(FILE *out, const char *name, const json_t *row, const json_t *ours,
                       const json_t *other)
{
    const char *measure = text_of(row, "measure");
    const double left = real_of(ours, measure), right = real_of(other, measure);
    char of_ours[16], of_other[16], ratio[16], unit[16];
    size_t i = 0;

    while (fmax(left, right) > prefixes[i].below)
        i++;
    print_number(of_ours, left / prefixes[i].unit);
    print_number(of_other, right / prefixes[i].unit);
    print_number(ratio, real_of(other, "ratio"));
    plumb_print(unit, sizeof unit, "%c%s%s", prefixes[i].letter, text_of(row, "unit"),
                strcmp(measure, "rate") == 0 ? "/s" : "");
    print_columns(out, name, of_ours, of_other, unit, text_of(other, "name"), ratio);
}

/* What is wrong or absent has a sentence instead of numbers. */
static bool print_trouble(FILE *out, const char *name, const json_t *entry)
{
    if (entry == NULL || is(entry, "status", "ok"))
        return false;
    fprintf(out, "%-32s %s: %s%s\n", name, text_of(entry, "name"),
            is(entry, "status", "wrong") ? "WRONG, not timed: " : "",
            text_of(entry, "note"));
    return true;
}

void plumb_bench_print_head(const plumb_screen *screen, const json_t *document)
{
    const json_t *caches = json_object_get(document, "caches");

    fprintf(screen->out,
            "plumb %s, %s\n"
            "%s; %s; L2 %.3g MiB, L3 %.3g MiB\n"
            "CPU time, medians; ratio: our rate over the one beside it\n\n",
            text_of(document, "plumb"), text_of(document, "date"), text_of(document, "cpu"),
            text_of(document, "level"), real_of(caches, "l2") / 0x1p20,
            real_of(caches, "l3") / 0x1p20);
    print_columns(screen->out, "what", "ours", "other", "",
                  "limit of this machine, or peer", "ratio");
}

void plumb_bench_print_row(const plumb_screen *screen, const json_t *row)
{
    const json_t *ours = first_of(row, "ours"), *limit = first_of(row, "limit"), *entry;
    const char *name = text_of(row, "name");
    FILE *out = screen->out;
    size_t i;

    if (json_object_get(row, "error") != NULL) {
        fprintf(out, "%-32s not run: %s\n", name, text_of(row, "error"));
        return;
    }
    if (!print_trouble(out, name, ours))
        print_line(out, name, row, ours, limit);
    json_array_foreach(json_object_get(row, "entries"), i, entry)
    {
        const char *role = is(entry, "role", "variant") ? "    variant" : "";

        if (entry != ours && entry != limit && !print_trouble(out, role, entry))
            print_line(out, role, row, NULL, entry);
    }
    fflush(out);
}
