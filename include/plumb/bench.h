/* plumb/bench.h - how fast the numeric core is, beside the limits of this machine and beside
 * other software.
 *
 * A row is one piece of work; its entries are ours (the fastest variant that this CPU may run,
 * out of the same tables that dispatch and tests walk), what this machine can do at most (a
 * copy of the same bytes, the peak of its multiply-adds), and peers found at run time.  The
 * entries of a row take turns in one process, so that whatever slows the machine down slows
 * all of them; times are CPU time of the thread (CLOCK_THREAD_CPUTIME_ID), medians over at
 * least 9 rounds; a ratio is the median of the ratios of each round.
 *
 * Every result is checked before it is timed: ours against the reference variant bit for bit,
 * peers against ours within what their arithmetic allows.  What is wrong is not timed.
 */
#ifndef PLUMB_BENCH_H
#define PLUMB_BENCH_H

#include <jansson.h>

#include "plumb/report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called with each row of the document as soon as it is there. */
typedef void plumb_bench_fn(void *context, const json_t *document, const json_t *row);

typedef struct plumb_bench_options {
    const char *only;     /* glob (fnmatch) of row names; NULL: all */
    bool quick;           /* short samples, nothing out of cache, no large products */
    bool peers;           /* what is installed: OpenBLAS, oneDNN, ml_dtypes, PyTorch */
    bool variants;        /* the other variants of a kernel too, not only the fastest */
    plumb_bench_fn *show; /* may be NULL */
    void *context;
} plumb_bench_options;

/* Runs the rows and returns the document; json_decref it.
 *
 *   plumb, date, cpu, level, caches {l2, l3}, quick, rows
 *   row:    name, what, measure ("rate", or "size", which is not timed), unit ("elem", "FLOP",
 *           "B", "token"), work, bytes (moved; 0: not counted), entries; or error, a sentence,
 *           when it could not be run
 *   entry:  name, role ("ours", "variant", "limit", "peer"), status ("ok", "wrong", "absent"),
 *           note (why, if not ok), seconds (median, for all of the work), rate (work of the
 *           entry per second), ratio (rate of ours over this), ratio_low, ratio_high (quartiles);
 *           or size, and ratio (size of ours over this)
 *
 * Starts threads and, with peers, python3; loads shared libraries.  PLUMB_NOT_FOUND when no
 * row fits `only`.  Not to be called from two threads: it switches the instruction set with
 * plumb_cpu_limit to get references, and back.
 */
plumb_status plumb_bench_run(const plumb_bench_options *options, json_t **document,
                             plumb_error *why);

/* Rows whose results are wrong, and rows that could not be run. */
typedef struct plumb_bench_tally {
    size_t wrong, failed;
} plumb_bench_tally;
plumb_bench_tally plumb_bench_count(const json_t *document);

/* The head of the table, and one row of it: what, ours, limit, ratio; then a line for each
 * other entry.
 */
void plumb_bench_print_head(const plumb_screen *screen, const json_t *document);
void plumb_bench_print_row(const plumb_screen *screen, const json_t *row);

#ifdef __cplusplus
}
#endif
#endif
