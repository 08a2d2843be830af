/* The lane sums for the baseline instruction set: what every other variant must equal. */
#define ISA ref
#include "kernel/lanes_body.h"
