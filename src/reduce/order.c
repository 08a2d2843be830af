/* The orders of plumb/reduce.h, each as pushes and additions.  The shape of a tree depends on the
 * number of leaves alone.
 */
#include "reduce/order.h"

enum { LANES = 16 };

typedef plumb_order_machine machine;

static void push(const machine *m, size_t leaf)
{
    m->push(m->context, leaf);
}

static void add(const machine *m)
{
    m->add(m->context);
}

/* From `first` round to the leaf before it. */
static void ring(const machine *m, size_t leaves, size_t first)
{
    push(m, first);
    for (size_t k = 1; k < leaves; k++) {
        push(m, k < leaves - first ? first + k : k - (leaves - first));
        add(m);
    }
}

/* After item k of a binomial tree is on the stack: as a counter carries when k becomes k + 1. */
static void carry(const machine *m, size_t k)
{
    for (; (k & 1) != 0; k >>= 1)
        add(m);
}

static void tree(const machine *m, size_t leaves)
{
    for (size_t k = 0; k < leaves; k++) {
        push(m, k);
        carry(m, k);
    }
    for (size_t left = leaves & (leaves - 1); left != 0; left &= left - 1)
        add(m);
}

static void pairwise(const machine *m, size_t first, size_t leaves)
{
    if (leaves == 1) {
        push(m, first);
        return;
    }
    pairwise(m, first, leaves / 2);
    pairwise(m, first + leaves / 2, leaves - leaves / 2);
    add(m);
}

/* Joining l with l + 8, then with l + 4, ... is a binomial tree over the lanes with the bits of
 * their numbers reversed.
 */
static void lanes(const machine *m, size_t leaves)
{
    static const unsigned char reversed[LANES] = {0, 8, 4, 12, 2, 10, 6, 14,
                                                  1, 9, 5, 13, 3, 11, 7, 15};

    for (size_t k = 0; k < LANES; k++) {
        push(m, PLUMB_ORDER_ZERO);
        for (size_t leaf = reversed[k]; leaf < leaves; leaf += LANES) {
            push(m, leaf);
            add(m);
        }
        carry(m, k);
    }
}

void plumb_order_run(plumb_order order, size_t leaves, size_t first,
                     const plumb_order_machine *on)
{
    switch (order) {
    case PLUMB_ORDER_TREE:
        tree(on, leaves);
        break;
    case PLUMB_ORDER_PAIRWISE:
        pairwise(on, 0, leaves);
        break;
    case PLUMB_ORDER_LANES:
        lanes(on, leaves);
        break;
    case PLUMB_ORDER_RING:
        ring(on, leaves, first);
        break;
    default:
        ring(on, leaves, 0);
        break;
    }
}
