/* The elementary functions for the baseline instruction set: what every other variant must equal. */
#define ISA ref
#include "kernel/math_body.h"
