/* The limits of AVX2 and FMA. */
#define ISA             avx2
#define BYTES           32
#define reals           __m256
#define splat(x)        _mm256_set1_ps(x)
#define fma_of(a, b, c) _mm256_fmadd_ps(a, b, c)
#include "bench/limit_body.h"
