/* Delta debugging over parts.  First the wager that one part is all there is: of two halves one is
 * asked, and where it does not heal the other is believed to, until one part is left, which is
 * asked.  An arm that does not heal fails early and costs little, so the wager is cheap, and where
 * it is lost its answers serve what follows.  Then the current set is cut into n pieces; a piece
 * that heals alone becomes the current set, else a complement that heals, else n doubles.  Answers
 * are remembered as bit rows, so that a subset which comes up again costs nothing.
 */
#include "diagnose/ddmin.h"

#include <stdlib.h>
#include <string.h>

typedef struct hunt {
    plumb_oracle *oracle;
    void *context;
    size_t part_count, budget;
    unsigned char *asked; /* budget rows: part_count membership bytes, then the answer */
    size_t asked_count;
    bool exhausted;
} hunt;

static unsigned char *remembered(const hunt *h, const unsigned char *row)
{
    for (size_t i = 0; i < h->asked_count; i++) {
        unsigned char *old = h->asked + i * (h->part_count + 1);

        if (memcmp(old, row, h->part_count) == 0)
            return old;
    }
    return NULL;
}

static plumb_status ask(hunt *h, const size_t *parts, size_t count, bool *heals,
                        plumb_error *why)
{
    unsigned char *row = h->asked + h->asked_count * (h->part_count + 1);

    *heals = false;
    if (h->asked_count == h->budget) {
        h->exhausted = true;
        return PLUMB_OK;
    }
    memset(row, 0, h->part_count + 1);
    for (size_t i = 0; i < count; i++)
        row[parts[i]] = 1;
    const unsigned char *old = remembered(h, row);

    if (old != NULL) {
        *heals = old[h->part_count] != 0;
        return PLUMB_OK;
    }
    const plumb_status status = h->oracle(h->context, parts, count, heals, why);

    if (status == PLUMB_OK) {
        row[h->part_count] = *heals;
        h->asked_count++;
    }
    return status;
}

/* Piece i of n of set, or everything else; returns how many parts were written. */
static size_t cut(const size_t *set, size_t count, size_t i, size_t n, bool complement,
                  size_t *out)
{
    const size_t from = count * i / n, to = count * (i + 1) / n;
    size_t written = 0;

    for (size_t k = 0; k < count; k++)
        if ((k >= from && k < to) != complement)
            out[written++] = set[k];
    return written;
}

/* The first piece (or complement) that heals replaces the set.  *found says if one did. */
static plumb_status reduce(hunt *h, size_t *set, size_t *count, size_t n, bool complement,
                           size_t *piece, bool *found, plumb_error *why)
{
    *found = false;
    for (size_t i = 0; i < n && !h->exhausted; i++) {
        const size_t size = cut(set, *count, i, n, complement, piece);
        bool heals;
        const plumb_status status = ask(h, piece, size, &heals, why);

        if (status != PLUMB_OK)
            return status;
        if (heals) {
            memcpy(set, piece, size * sizeof *set);
            *count = size;
            *found = true;
            return PLUMB_OK;
        }
    }
    return PLUMB_OK;
}

/* set becomes the least set that was seen to heal on the way to one part. */
static plumb_status wager(hunt *h, size_t *set, size_t *count, size_t *piece,
                          plumb_error *why)
{
    size_t from = 0, left = *count; /* what is believed to heal: set[from .. from + left) */

    while (left > 1 && !h->exhausted) {
        bool heals;
        const size_t half = cut(set + from, left, 0, 2, false, piece);
        const plumb_status status = ask(h, piece, half, &heals, why);

        if (status != PLUMB_OK)
            return status;
        if (heals) {
            memmove(set, piece, half * sizeof *set);
            *count = left = half;
            from = 0;
        } else {
            from += half;
            left -= half;
        }
    }
    if (*count == 1 || h->exhausted)
        return PLUMB_OK;
    bool heals;
    const plumb_status status = ask(h, set + from, 1, &heals, why);

    if (status == PLUMB_OK && heals) {
        set[0] = set[from];
        *count = 1;
    }
    return status;
}

static plumb_status minimise(hunt *h, size_t *set, size_t *count, size_t *piece,
                             plumb_error *why)
{
    size_t n = 2;

    while (*count > 1 && !h->exhausted) {
        bool found;
        plumb_status status = reduce(h, set, count, n, false, piece, &found, why);

        if (status != PLUMB_OK)
            return status;
        if (found) {
            n = 2;
            continue;
        }
        if (n > 2) { /* with two pieces each is the other's complement */
            status = reduce(h, set, count, n, true, piece, &found, why);
            if (status != PLUMB_OK)
                return status;
        }
        if (found)
            n = n - 1;
        else if (n < *count)
            n = 2 * n < *count ? 2 * n : *count;
        else
            break;
    }
    return PLUMB_OK;
}

plumb_status plumb_ddmin(size_t part_count, plumb_oracle *oracle, void *context,
                         size_t budget, size_t *kept, size_t *kept_count, bool *exhausted,
                         plumb_error *why)
{
    hunt h = {oracle, context, part_count, budget, NULL, 0, false};
    size_t *piece = calloc(part_count + 1, sizeof *piece);
    size_t bytes, rows;
    plumb_status status = PLUMB_OK;

    if (plumb_add_size(budget, 1, &rows) && plumb_mul_size(rows, part_count + 1, &bytes))
        h.asked = malloc(bytes);
    if (piece == NULL || h.asked == NULL)
        status =
            plumb_fail(why, PLUMB_NO_MEMORY, "no memory to search %zu parts", part_count);
    for (size_t i = 0; i < part_count; i++)
        kept[i] = i;
    *kept_count = part_count;
    if (status == PLUMB_OK)
        status = wager(&h, kept, kept_count, piece, why);
    if (status == PLUMB_OK)
        status = minimise(&h, kept, kept_count, piece, why);
    *exhausted = h.exhausted;
    free(piece);
    free(h.asked);
    return status;
}
