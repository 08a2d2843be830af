/* The table of row loops and the choice among them. */
#include "model/rows.h"

const rows_kernel *const rows_kernels[] = {
    &rows_ref,
#if defined(__x86_64__)
    &rows_avx2,
    &rows_avx512,
#endif
};
const size_t rows_kernel_count = sizeof rows_kernels / sizeof rows_kernels[0];

const rows_kernel *rows_best(void)
{
    const unsigned cpu = plumb_cpu_flags();
    size_t i = rows_kernel_count - 1;

    while ((rows_kernels[i]->cpu & ~cpu) != 0)
        i--;
    return rows_kernels[i];
}
