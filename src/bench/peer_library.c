/* Shared libraries as peers, and what every product of a peer must come near to. */
#include "bench/peer.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

void *bench_library(const char *const *names)
{
    void *library = NULL;

    for (; library == NULL && *names != NULL; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

bool bench_symbol(void *library, const char *name, void *function, size_t size)
{
    void *symbol = dlsym(library, name);

    if (symbol == NULL)
        return false;
    memcpy(function, &symbol, size);
    return true;
}

bool bench_peer_product_near(const bench_peer_product *p, char complaint[BENCH_COMPLAINT])
{
    const double share = 2.02 * (double)p->n * 0x1p-24;

    for (size_t i = 0; i < p->n * p->n; i++) {
        const double difference = fabs((double)p->c[i] - (double)p->ours[i]);
        const double sums = share * (double)p->magnitude[i];
        const double allowed = sums + p->result_unit * (fabs((double)p->ours[i]) + sums);

        if (difference <= allowed)
            continue;
        plumb_print(complaint, BENCH_COMPLAINT,
                    "C: element %zu is %.9g, ours %.9g; they may differ by %.2g", i,
                    (double)p->c[i], (double)p->ours[i], allowed);
        return false;
    }
    return true;
}

plumb_status bench_enter_peer_products(bench *b, bench_race *race,
                                       const bench_peer_product *product, plumb_error *why)
{
    plumb_status status = bench_enter_blas(b, race, product, why);

    if (status == PLUMB_OK)
        status = bench_enter_onednn(b, race, product, why);
    if (status == PLUMB_OK)
        status = bench_enter_python_products(b, race, product, why);
    return status;
}
