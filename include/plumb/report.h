/* plumb/report.h - a study or verdict as people read it: terminal and HTML.
 *
 * Everything is rendered from directories and verdict.json; nothing here runs anything.
 * Pure functions of their input files and width; call from anywhere.
 */
#ifndef PLUMB_REPORT_H
#define PLUMB_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "plumb/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct plumb_screen {
    FILE *out;
    int width;     /* columns, clamped to 40 ... 200; 0: 100 */
    bool color;    /* ANSI colours */
    bool progress; /* a terminal: lines may be rewritten */
    bool unicode;  /* the reader's charset is UTF-8; false: ASCII only */
} plumb_screen;

/* How out wants it: a terminal's width and colours (NO_COLOR, TERM=dumb and COLUMNS are
 * honoured), plain text for pipes and files, ASCII where the locale of the environment has
 * another charset than UTF-8.
 */
plumb_screen plumb_screen_for(FILE *out);

/* The verdict on one screen: headline, question, runs with outcomes, verdict, fix, cost, next.
 * At most about 40 lines at any size of verdict: long lists are folded, long texts cut.
 * Text of the verdict is foreign and made harmless: no control character reaches out.
 *
 * Members that are missing or null are left out; PLUMB_BAD_INPUT names one of the wrong type,
 * and nothing has been written then.  PLUMB_IO when out refuses.
 */
plumb_status plumb_report_terminal(const plumb_screen *screen, const json_t *verdict,
                                   plumb_error *why);

/* One self-contained HTML file that opens offline, written atomically to STUDY/report.html:
 * verdict on top; loss of the arms on one axis, and what its mean hides; sites by steps, of the
 * failing run and of one that holds; headroom and saturation of the failing site, and where its
 * values lie beside the window of its format, or the exponents of each site's values where the run
 * has histograms; the search as a tree; the timeline; the runs with the
 * command to repeat each.  path gets the file's name.
 *
 * At most 2 MB: long series keep the least and largest value of each pixel column, a cell of the
 * sites by steps the worst of its steps, and what is left out is counted.  A run directory that
 * cannot be read leaves a note in the page.
 * Fails like plumb_report_terminal; an older report.html then stays as it was.
 */
plumb_status plumb_report_html(const char *study, const json_t *verdict, char path[4096],
                               plumb_error *why);

/* What one run directory alone shows, in the form of a verdict ("one run"): whether it fails by the
 * predicates that need no twin, and the sites that stand out.  Its exit is 1 where the run fails, 0
 * where it reached its goal, else 2.  PLUMB_NOT_FOUND where there is no run.  json_decref it.
 */
plumb_status plumb_report_run(const char *run_dir, json_t **verdict, plumb_error *why);

/* The page of one run, written to RUN_DIR/report.html; verdict as plumb_report_run gives it. */
plumb_status plumb_report_run_html(const char *run_dir, const json_t *verdict,
                                   char path[4096], plumb_error *why);

/* TensorBoard event files: STUDY/tensorboard/NN-LABEL for each run of the verdict (at most 200; the
 * directory is made anew), RUN_DIR/tensorboard for one run.  path gets the directory's name.
 *
 * Loss, gradient norm and learning rate go by the names of Megatron-LM, torchtitan and Hugging
 * Face's Trainer, site statistics by NAME_STATISTIC; where a run has more than 400,000 values of
 * sites, the most harmed sites are taken.  Scalars only: samples hold no spectra.  Bytes depend on
 * the run directory alone.
 */
plumb_status plumb_report_tensorboard(const char *study, const json_t *verdict,
                                      char path[4096], plumb_error *why);
plumb_status plumb_report_run_tensorboard(const char *run_dir, char path[4096],
                                          plumb_error *why);

/* --- a run while it is written ------------------------------------------------------ */

/* Reads the run directory, never writes; one thread.  twin (may be NULL) is a run whose loss is
 * taken from that of this one: the gap.  PLUMB_NOT_FOUND where a directory is absent; an empty one
 * is a run that has not begun.
 */
typedef struct plumb_watched plumb_watched;

plumb_status plumb_watched_open(const char *run_dir, const char *twin,
                                plumb_watched **watched, plumb_error *why);

/* Reads what was appended.  *changed: a frame would differ.  *ended: end.json is there. */
plumb_status plumb_watched_refresh(plumb_watched *watched, bool *changed, bool *ended,
                                   plumb_error *why);

/* The run in lines of at most the screen's width (40 to 200 columns), at most height of them (0: as
 * many as it takes): loss, gap, gradient norms, the worst site of each step, and the most harmed
 * sites over the steps.  A column has the worst of its steps.  Fresh text, free() it.
 */
plumb_status plumb_watched_frame(const plumb_watched *watched, const plumb_screen *screen,
                                 int height, char **text, plumb_error *why);

/* The last step in one line, for a pipe or a file. */
void plumb_watched_line(const plumb_watched *watched, char *text, size_t size);

/* 1 the run fails, 0 it reached its goal, 2 neither. */
int plumb_watched_exit(const plumb_watched *watched);
void plumb_watched_close(plumb_watched **watched);

#ifdef __cplusplus
}
#endif
#endif
