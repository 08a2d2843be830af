/* The casts for the baseline instruction set: what every other variant must equal. */
#define ISA ref
#include "kernel/cast_body.h"
