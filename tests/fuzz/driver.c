/* Replays seeds, then mutates them: the same inputs on every machine.
 *
 *   driver CORPUS [MUTATIONS [SEED]]
 *
 * A crash says which input it was; `driver FILE` replays one file.
 */
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_SEEDS = 200, LONGEST = 1 << 16 };

typedef struct input {
    unsigned char *bytes;
    size_t size;
} input;

static input seeds[MOST_SEEDS];
static size_t seed_count;
static uint64_t state;
static input current; /* for the report of a crash */

/* splitmix64 */
static uint64_t next(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static size_t below(size_t n)
{
    return n > 0 ? (size_t)(next() % n) : 0;
}

static void load(const char *path)
{
    FILE *file = fopen(path, "rb");
    input *const seed = &seeds[seed_count];

    if (file == NULL || seed_count == MOST_SEEDS)
        return;
    seed->bytes = malloc(LONGEST);
    seed->size = seed->bytes != NULL ? fread(seed->bytes, 1, LONGEST / 2, file) : 0;
    seed_count += seed->bytes != NULL;
    fclose(file);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Seeds in order of name, so that mutations do not depend on the file system. */
static void load_folder(const char *path)
{
    DIR *folder = opendir(path);
    char *names[MOST_SEEDS];
    size_t count = 0;
    const struct dirent *entry;

    while (folder != NULL && count < MOST_SEEDS && (entry = readdir(folder)) != NULL) {
        char name[1024];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            names[count++] = strdup(name);
    }
    if (folder != NULL)
        closedir(folder);
    qsort(names, count, sizeof names[0], by_name);
    for (size_t i = 0; i < count; i++) {
        load(names[i]);
        free(names[i]);
    }
}

static void insert(input *in, size_t at, const void *bytes, size_t size)
{
    if (in->size + size > LONGEST)
        return;
    memmove(in->bytes + at + size, in->bytes + at, in->size - at);
    memcpy(in->bytes + at, bytes, size);
    in->size += size;
}

static void delete (input *in, size_t at, size_t size)
{
    if (size > in->size - at)
        size = in->size - at;
    memmove(in->bytes + at, in->bytes + at + size, in->size - at - size);
    in->size -= size;
}

/* Words that mean something to one of the readers. */
static void insert_word(input *in, size_t at)
{
    static const char *const words[] = {
        "NaN",
        "-Infinity",
        "null",
        "true",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\r\n",
        " ",
        "\t",
        "- ",
        "&a ",
        "*a",
        "!!str ",
        "---\n",
        "...\n",
        "%",
        "# ",
        "'",
        "|\n ",
        ">\n ",
        "? ",
        "<<: ",
        "0",
        "-1",
        "1e400",
        "9223372036854775808",
        "18446744073709551616",
        "0x1",
        "1.5",
        "\\u0000",
        "\\ud800",
        "\xff",
        "\xc3\xa9",
        "\xef\xbb\xbf",
        "{\"a\":1}",
        "\"step\":",
        "\"loss\":",
        "\"sites\":",
        "\"use\":",
        "\"event\":",
        "[[[[[[[[[[[[[[[[[[",
    };
    const char *word = words[below(sizeof words / sizeof words[0])];

    insert(in, at, word, strlen(word));
}

static void mutate_once(input *in)
{
    static const unsigned char extremes[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '0', '9', '-'};
    const size_t at = below(in->size), length = 1 + below(16);
    const input *const other = &seeds[below(seed_count)];

    switch (below(8)) {
    case 0:
        if (in->size > 0)
            in->bytes[at] ^= (unsigned char)(1u << below(8));
        break;
    case 1:
        if (in->size > 0)
            in->bytes[at] = extremes[below(sizeof extremes)];
        break;
    case 2:
        delete (in, at, length);
        break;
    case 3:
        in->size = at;
        break;
    case 4: { /* a piece of another seed */
        const size_t from = below(other->size);
        const size_t most = other->size - from;
        insert(in, at, other->bytes + from, below(most) % 200);
        break;
    }
    case 5: { /* a piece of itself, again */
        unsigned char copy[64];
        const size_t size = in->size - at < sizeof copy ? in->size - at : sizeof copy;
        memcpy(copy, in->bytes + at, size);
        insert(in, at, copy, size);
        break;
    }
    default:
        insert_word(in, at);
    }
}

/* Runs on a copy of exactly the right size, so that a sanitizer sees one byte too far. */
static void try_input(const input *in)
{
    uint8_t *exact = malloc(in->size > 0 ? in->size : 1);

    if (exact == NULL)
        return;
    if (in->size > 0)
        memcpy(exact, in->bytes, in->size);
    current = (input){exact, in->size};
    LLVMFuzzerTestOneInput(exact, in->size);
    current = (input){0};
    free(exact);
}

/* Leaves the input that crashed in a file, and lets the signal do what it does. */
static void crashed(int number)
{
    FILE *file = fopen("crash-input", "wb");

    if (file != NULL) {
        fwrite(current.bytes, 1, current.size, file);
        fclose(file);
    }
    fprintf(stderr, "# signal %d on %zu bytes, saved as crash-input\n", number,
            current.size);
    signal(number, SIG_DFL);
    raise(number);
}

int main(int count, char **arguments)
{
    const unsigned long mutations = count > 2 ? strtoul(arguments[2], NULL, 10) : 0;
    struct stat info;
    input work = {malloc(LONGEST), 0};

    if (count < 2 || work.bytes == NULL || stat(arguments[1], &info) != 0) {
        fprintf(stderr, "usage: driver CORPUS|FILE [MUTATIONS [SEED]]\n");
        return 2;
    }
    state = count > 3 ? strtoull(arguments[3], NULL, 10) : 1;
    signal(SIGABRT, crashed);
    signal(SIGSEGV, crashed);
    if (S_ISDIR(info.st_mode))
        load_folder(arguments[1]);
    else
        load(arguments[1]);
    for (size_t i = 0; i < seed_count; i++)
        try_input(&seeds[i]);
    for (unsigned long i = 0; seed_count > 0 && i < mutations; i++) {
        const input *const seed = &seeds[below(seed_count)];
        memcpy(work.bytes, seed->bytes, seed->size);
        work.size = seed->size;
        for (size_t edits = 1 + below(6); edits > 0; edits--)
            mutate_once(&work);
        try_input(&work);
    }
    printf("%s 1 - %zu seeds, %lu mutations\n1..1\n", seed_count > 0 ? "ok" : "not ok",
           seed_count, mutations);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].bytes);
    free(work.bytes);
    return seed_count > 0 ? 0 : 1;
}
