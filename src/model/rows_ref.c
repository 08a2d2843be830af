/* The row loops for the baseline instruction set: what every other variant must equal. */
#define ISA ref
#define CPU PLUMB_CPU_BASELINE
#include "model/rows_body.h"
