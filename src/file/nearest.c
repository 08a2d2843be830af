/* The known word that somebody probably meant. */
#include "plumb/file.h"

#include <string.h>

enum { LONGEST = 128 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Damerau and Levenshtein's distance in its restricted form (no part is edited twice):
 * insertions, deletions, substitutions, and swaps of two neighbours count 1 each.
 */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const size_t edit = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = least(edit, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *const oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[m];
}

const char *plumb_nearest(const char *word, const char *const *candidates, size_t count)
{
    const size_t length = strlen(word);
    size_t nearest = length / 3 + 1;
    const char *found = NULL;

    if (length > LONGEST)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        const size_t other = strlen(candidates[i]);

        if (other > LONGEST)
            continue;
        const size_t apart = distance(word, length, candidates[i], other);
        if (apart < nearest) {
            nearest = apart;
            found = candidates[i];
        }
    }
    return found;
}
