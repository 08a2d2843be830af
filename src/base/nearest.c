/* The known word that somebody probably meant: the one function behind every "did you mean". */
#include "plumb/base.h"

#include <string.h>

enum { LONGEST = 128, LEAST_BEGINNING = 3 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Of letters the case does not count: E4M3 is e4m3. */
static bool same(char a, char b)
{
    return lower(a) == lower(b);
}

/* Damerau and Levenshtein's distance in its restricted form (no part is edited twice):
 * insertions, deletions, substitutions, and swaps of two neighbours count 1 each.  A '*' in a
 * stands for anything, as in a glob.
 */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][LONGEST + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        const size_t cost = a[i - 1] == '*' ? 0 : 1;

        row[0] = above[0] + cost;
        for (size_t j = 1; j <= m; j++) {
            const size_t edit = above[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : cost);

            row[j] = least(edit, least(above[j], row[j - 1]) + cost);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        size_t *const oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[m];
}

static const char *begun(const char *word, const char *const *candidates, size_t count)
{
    const size_t length = strlen(word);

    for (size_t i = 0; length >= LEAST_BEGINNING && i < count; i++)
        if (strncmp(word, candidates[i], length) == 0)
            return candidates[i];
    return NULL;
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
    return found != NULL ? found : begun(word, candidates, count);
}

const char *plumb_hint(const char *word, const char *const *candidates, size_t count,
                       char text[PLUMB_HINT])
{
    const char *nearest = plumb_nearest(word, candidates, count);

    text[0] = 0;
    if (nearest != NULL)
        plumb_print(text, PLUMB_HINT, "; did you mean '%s'?", nearest);
    return text;
}
