/* The tally compiled for AVX2. */
#define ISA avx2
#include "reduce/tally_body.h"
