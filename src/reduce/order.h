/* reduce/order.h - an order of summation as a program for a machine with a stack.
 *
 * plumb_order_run says which value is pushed and when the two on top are added; what a value is
 * (a number, a piece of a tensor) and how it is rounded is the machine's affair.
 */
#ifndef PLUMB_REDUCE_ORDER_H
#define PLUMB_REDUCE_ORDER_H

#include "plumb/reduce.h"

/* The value +0 that a lane starts with, instead of one of the leaves. */
#define PLUMB_ORDER_ZERO SIZE_MAX

/* Entries that a machine needs for 2^20 leaves, and for any number of them. */
enum { PLUMB_ORDER_DEPTH_RANKS = 22, PLUMB_ORDER_DEPTH = 66 };

typedef struct plumb_order_machine {
    void (*push)(void *context, size_t leaf);
    void (*add)(void *context); /* a, b on top become a + b, with a the lower one */
    void *context;
} plumb_order_machine;

/* leaves >= 1; one value is left on the stack.  first: the leaf with which RING begins. */
void plumb_order_run(plumb_order order, size_t leaves, size_t first,
                     const plumb_order_machine *on);

#endif
