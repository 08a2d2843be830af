/* The row loops compiled for AVX-512. */
#define ISA avx512
#define CPU PLUMB_CPU_AVX512
#include "model/rows_body.h"
