/* peer.h - other software, found when the program runs and never needed to build it.
 *
 * Shared libraries are opened with dlopen and called by their documented C interface; Python
 * packages are imported by a python3 that runs beside us and is told what to do over a pipe,
 * so that it takes its turn in a race like everybody else.  What is not installed says so.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "bench/bench.h"
#include "plumb/cast.h"

/* --- products ------------------------------------------------------------------------- */

/* c = a b^T, all [n, n]; and what it must come near to. */
typedef struct bench_peer_product {
    size_t n;
    float *a, *b, *c;
    const float *ours;
    const float *magnitude; /* product of |a| and |b| */
    double result_unit;     /* unit roundoff of the format of c, where that is not fp32 */
} bench_peer_product;

/* Two fp32 sums of n terms in any order, each within n u of the exact one times the sum of
 * the magnitudes (u = 2^-24; Higham, Accuracy and Stability, 3.1), differ by no more than
 * 2 n u times that; the magnitudes were summed in fp32 themselves, hence 1 % more.  Results of
 * fewer bits were rounded once more.  False, with the complaint, where c is farther from ours.
 */
bool bench_peer_product_near(const bench_peer_product *product,
                             char complaint[BENCH_COMPLAINT]);

/* Every peer that multiplies, present or absent. */
plumb_status bench_enter_peer_products(bench *b, bench_race *race,
                                       const bench_peer_product *product, plumb_error *why);

plumb_status bench_enter_blas(bench *b, bench_race *race, const bench_peer_product *product,
                              plumb_error *why);
plumb_status bench_enter_onednn(bench *b, bench_race *race,
                                const bench_peer_product *product, plumb_error *why);
plumb_status bench_enter_python_products(bench *b, bench_race *race,
                                         const bench_peer_product *product,
                                         plumb_error *why);

/* --- shared libraries ------------------------------------------------------------------- */

/* The first of the names (up to NULL) that the loader finds, or NULL.  Stays loaded. */
void *bench_library(const char *const *names);

/* A function of it.  False, with *function untouched, where it has none of that name:
 * bench_symbol(library, "f", &f, sizeof f).
 */
bool bench_symbol(void *library, const char *name, void *function, size_t size);

/* --- python3 ---------------------------------------------------------------------------- */

/* Entries for the casts of ml_dtypes and PyTorch: x * scale is given to them, want is what
 * must come out.
 */
plumb_status bench_enter_python_casts(bench *b, bench_race *race, const plumb_cast *how,
                                      const float *x, size_t n, const void *want,
                                      plumb_error *why);

/* Ends it.  Accepts NULL. */
void bench_python_stop(bench_python *python);

#endif
