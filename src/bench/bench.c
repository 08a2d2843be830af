/* The run: which rows, one after the other, into one document. */
#include "bench/bench.h"
#include "bench/peer.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void bench_add(bench_list *list, const bench_case *row)
{
    if (list->count == list->room) {
        const size_t room = list->room == 0 ? 64 : 2 * list->room;
        bench_case *at = realloc(list->at, room * sizeof *at);

        if (at == NULL) {
            list->failed = true;
            return;
        }
        list->at = at;
        list->room = room;
    }
    list->at[list->count++] = *row;
}

static json_t *new_document(const bench *b)
{
    const time_t now = time(NULL);
    struct tm parts;
    char date[32] = "";

    if (gmtime_r(&now, &parts) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d", &parts);
    return json_pack("{s:s, s:s, s:s, s:s, s:{s:I, s:I}, s:b, s:[]}", "plumb",
                     plumb_build_id(), "date", date, "cpu", b->machine.cpu, "level",
                     bench_level(), "caches", "l2", (json_int_t)b->machine.l2, "l3",
                     (json_int_t)b->machine.l3, "quick", b->options->quick, "rows");
}

static bool wanted(const plumb_bench_options *options, const bench_case *row)
{
    if (options->only != NULL && fnmatch(options->only, row->name, 0) != 0)
        return false;
    return !(options->quick && row->slow);
}

bool bench_at_end(bench *b, void (*end)(void *object), void *object)
{
    if (b->ending == BENCH_ENDS) {
        end(object);
        return false;
    }
    b->ends[b->ending].end = end;
    b->ends[b->ending++].object = object;
    return true;
}

static void end_case(bench *b)
{
    while (b->ending > 0) {
        b->ending--;
        b->ends[b->ending].end(b->ends[b->ending].object);
    }
    while (b->pooled > 0)
        free(b->pool[--b->pooled]);
}

/* One row.  What stops it is written into the row; the others go on. */
static void run_case(bench *b, const bench_case *row)
{
    plumb_error why = {0};

    b->row = json_pack("{s:s, s:s}", "name", row->name, "what", row->what);
    if (row->run(b, row, &why) != PLUMB_OK)
        json_object_set_new(b->row, "error", json_string(why.message));
    end_case(b);
    json_array_append_new(json_object_get(b->document, "rows"), b->row);
    if (b->options->show != NULL)
        b->options->show(b->options->context, b->document, b->row);
}

plumb_status bench_run_cases(const plumb_bench_options *options, const bench_case *cases,
                             size_t count, json_t **document, plumb_error *why)
{
    bench b = {.options = options, .machine = bench_machine_look()};
    size_t ran = 0;

    b.document = new_document(&b);
    if (b.document == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the table");
    for (size_t i = 0; i < count; i++) {
        if (!wanted(options, &cases[i]))
            continue;
        run_case(&b, &cases[i]);
        ran++;
    }
    bench_python_stop(b.python);
    if (ran == 0) {
        json_decref(b.document);
        return plumb_fail(why, PLUMB_NOT_FOUND, "no row fits '%.60s'%s",
                          options->only != NULL ? options->only : "*",
                          options->quick ? " among the quick ones" : "");
    }
    *document = b.document;
    return PLUMB_OK;
}

plumb_status plumb_bench_run(const plumb_bench_options *options, json_t **document,
                             plumb_error *why)
{
    static bench_list_fn *const lists[] = {
        bench_list_machine, bench_list_casts,    bench_list_quantize,
        bench_list_matmul,  bench_list_epilogue, bench_list_accumulators,
        bench_list_threads, bench_list_math,     bench_list_train};
    const bench_machine machine = bench_machine_look();
    bench_list list = {0};
    plumb_status status;

    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        lists[i](&list, &machine);
    if (list.failed)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the list of rows");
    else
        status = bench_run_cases(options, list.at, list.count, document, why);
    free(list.at);
    return status;
}

static bool has_wrong_entry(const json_t *row)
{
    const json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(row, "entries"), i, entry)
    {
        const char *status = json_string_value(json_object_get(entry, "status"));

        if (status != NULL && strcmp(status, "wrong") == 0)
            return true;
    }
    return false;
}

plumb_bench_tally plumb_bench_count(const json_t *document)
{
    plumb_bench_tally tally = {0};
    const json_t *row;
    size_t i;

    json_array_foreach(json_object_get(document, "rows"), i, row)
    {
        tally.wrong += has_wrong_entry(row);
        tally.failed += json_object_get(row, "error") != NULL;
    }
    return tally;
}
