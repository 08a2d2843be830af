/* The tally for the baseline instruction set: what every other variant must equal. */
#define ISA ref
#include "reduce/tally_body.h"
