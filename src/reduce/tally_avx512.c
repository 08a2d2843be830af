/* The tally compiled for AVX-512. */
#define ISA avx512
#include "reduce/tally_body.h"
