/* OpenBLAS: cblas_sgemm on the decoded operands, one thread. */
#include "bench/peer.h"

#include <string.h>

/* CBLAS, as every implementation has it. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta,
                      float *c, int ldc);

typedef struct blas_peer {
    sgemm_fn *sgemm;
    const bench_peer_product *product;
} blas_peer;

static void multiply(void *context)
{
    const blas_peer *blas = context;
    const bench_peer_product *p = blas->product;
    const int n = (int)p->n;

    blas->sgemm(ROW_MAJOR, NO_TRANS, TRANS, n, n, n, 1, p->a, n, p->b, n, 0, p->c, n);
}

static bool near(void *context, char complaint[BENCH_COMPLAINT])
{
    const blas_peer *blas = context;

    return bench_peer_product_near(blas->product, complaint);
}

/* "OpenBLAS 0.3.21 SkylakeX": the second word of its configuration, and the kernels chosen. */
static void name_it(void *library, char *name, size_t size)
{
    char *(*config)(void), *(*core)(void);
    const char *version = "";

    if (bench_symbol(library, "openblas_get_config", &config, sizeof config)) {
        version = strchr(config(), ' ');
        version = version == NULL ? "" : version + 1;
    }
    if (!bench_symbol(library, "openblas_get_corename", &core, sizeof core))
        core = NULL;
    plumb_print(name, size, "OpenBLAS %.*s sgemm %s", (int)strcspn(version, " "), version,
                core == NULL ? "" : core());
}

plumb_status bench_enter_blas(bench *b, bench_race *race, const bench_peer_product *product,
                              plumb_error *why)
{
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so", NULL};
    bench_entry *entry = bench_enter(race, BENCH_PEER, "OpenBLAS sgemm");
    blas_peer *blas = bench_take(b, sizeof *blas, why);
    void *library = bench_library(names);
    void (*set_threads)(int);

    if (blas == NULL)
        return PLUMB_NO_MEMORY;
    blas->product = product;
    entry->run = multiply;
    entry->check = near;
    entry->context = blas;
    if (library == NULL ||
        !bench_symbol(library, "cblas_sgemm", &blas->sgemm, sizeof blas->sgemm) ||
        !bench_symbol(library, "openblas_set_num_threads", &set_threads,
                      sizeof set_threads)) {
        entry->absent = "not installed";
        return PLUMB_OK;
    }
    set_threads(1);
    name_it(library, entry->name, sizeof entry->name);
    return PLUMB_OK;
}
