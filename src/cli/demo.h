/* demo.h - what the files of `plumb demo` share: scenarios, how a verdict is scored, draws.
 *
 * A scenario is a run and what was planted in it.  The diagnosis is given the run alone; what was
 * planted is looked at when the verdict stands.
 */
#ifndef PLUMB_CLI_DEMO_H
#define PLUMB_CLI_DEMO_H

#include "cli/cli.h"

enum { DEMO_NAME = 64 };

typedef struct demo_scenario {
    char name[DEMO_NAME];
    json_t *planted; /* summary, planted, verdict, class or classes, sites, mechanism */
    json_t *run;     /* the run file; NULL: NAME.yaml beside the planted file */
} demo_scenario;

enum { DEMO_WORDS = 80 };

typedef struct demo_score {
    char planted[DEMO_WORDS], said[DEMO_WORDS];
    char scope[24], evidence[16]; /* "-": none */
    bool fault;                   /* something was planted that is to be found */
    bool right;                   /* verdict and class are the planted ones */
    bool site_asked, site_right;  /* false where the place is not known or plays no part */
    bool alarm;                   /* clean or a decoy, and called numerics */
    int held, of;
    int64_t failed_at; /* the step at which the failure begins; 0: none */
    double search, horizons, every_site, seconds; /* horizons: search and proof */
} demo_score;

/* One row of the table. */
typedef struct demo_row {
    const demo_scenario *scenario;
    demo_score score;
} demo_row;

/* --- demo_scenarios.c ---------------------------------------------------------------- */

/* Where scenarios lie: beside the installed program, else in the source tree. */
void demo_directory(char *path, size_t size);

/* The shipped scenarios: those of scenarios.yaml in its order, then those with files of their own,
 * by name.  Free with demo_free.
 */
plumb_status demo_load(demo_scenario **scenarios, size_t *count, plumb_error *why);
void demo_free(demo_scenario *scenarios, size_t count);

/* scenarios.yaml itself: {"bases": [...], "scenarios": [...], "draws": [...]}; json_decref. */
plumb_status demo_load_table(json_t **table, plumb_error *why);

/* Scenarios and candidates of scenarios.yaml, each with its run file; NULL with *why. */
json_t *demo_list(plumb_error *why);

/* The run file of a base with settings and rules on top, and faults; NULL with *why. */
json_t *demo_run_file(const json_t *bases, const json_t *entry, plumb_error *why);

/* --- demo_score.c -------------------------------------------------------------------- */

/* In few words: the class, "backward+collective", or the verdict's word where it is not numerics.
 * Of a verdict, and in the same words of what was planted.
 */
void demo_class_words(const json_t *document, char words[DEMO_WORDS]);
demo_score demo_score_verdict(const json_t *planted, const json_t *verdict);

/* --- demo_table.c --------------------------------------------------------------------- */

/* The summary line, the table, what it took; or the same as JSON.  Returns the exit status. */
int demo_show_table(const demo_row *rows, size_t count, bool json);

/* --- demo_draw.c ---------------------------------------------------------------------- */

/* Scenario number index of a seed; free its two documents. */
plumb_status demo_draw(const json_t *table, uint64_t seed, uint64_t index,
                       demo_scenario *scenario, plumb_error *why);

/* --- demo_accuracy.c ------------------------------------------------------------------- */

/* How often class and site were right, with Wilson intervals.  Returns the exit status. */
int demo_show_draws(const demo_row *rows, size_t count, uint64_t seed, bool json);

/* --- demo_wilson.c ---------------------------------------------------------------------- */

/* Wilson's score interval (Wilson 1927, JASA 22, 209-212) of a part k of n at 95 %: the values p
 * whose distance from k / n is at most 1.96 of their own standard deviations.  0 to 1 for n = 0.
 */
void demo_wilson(size_t k, size_t n, double *least, double *most);

#endif
