/* Text to train on: files, folders, or the glosses of WordNet.  Bytes as they are, one file
 * behind the other; the last 5 % are never trained on.
 */
#include "train/train.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plumb/math.h"

static const size_t text_limit = (size_t)1 << 30;
static const char wordnet_directory[] = "/usr/share/wordnet";

typedef struct buffer {
    char *at;
    size_t size, room;
} buffer;

static plumb_status append(buffer *b, const char *data, size_t size, plumb_error *why)
{
    if (size > text_limit - b->size)
        return plumb_fail(why, PLUMB_BAD_INPUT, "data: more than %zu bytes of text",
                          text_limit);
    if (b->size + size > b->room) {
        const size_t room = 2 * (b->size + size);
        char *grown = realloc(b->at, room);

        if (grown == NULL)
            return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu bytes of text",
                              room);
        b->at = grown;
        b->room = room;
    }
    memcpy(b->at + b->size, data, size);
    b->size += size;
    return PLUMB_OK;
}

/* --- WordNet ------------------------------------------------------------------------ */

/* A line of data.noun: offsets and words, then " | " and the gloss. */
static plumb_status append_gloss(buffer *b, const char *line, size_t size, plumb_error *why)
{
    const char *bar = memchr(line, '|', size), *end = line + size;

    if (bar == NULL)
        return PLUMB_OK;
    for (bar++; bar < end && *bar == ' ';)
        bar++;
    while (end > bar && (end[-1] == ' ' || end[-1] == '\r'))
        end--;
    const plumb_status status = append(b, bar, (size_t)(end - bar), why);

    return status == PLUMB_OK ? append(b, "\n", 1, why) : status;
}

static plumb_status append_glosses(buffer *b, const char *path, plumb_error *why)
{
    char *data = NULL;
    size_t size = 0;
    plumb_status status = plumb_file_read(path, text_limit, &data, &size, why);

    if (status == PLUMB_NOT_FOUND)
        return plumb_fail(
            why, PLUMB_NOT_FOUND,
            "data: %s is not there; install the package wordnet-base, or name "
            "a text of your own with data",
            path);
    for (size_t at = 0; status == PLUMB_OK && at < size;) {
        const char *newline = memchr(data + at, '\n', size - at);
        const size_t length = newline == NULL ? size - at : (size_t)(newline - data) - at;

        status = append_gloss(b, data + at, length, why);
        at += length + 1;
    }
    free(data);
    return status;
}

plumb_status plumb_text_wordnet(const char *directory, char **text, size_t *size,
                                plumb_error *why)
{
    static const char *const files[] = {"data.noun", "data.verb", "data.adj", "data.adv"};
    buffer b = {0};
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < 4 && status == PLUMB_OK; i++) {
        char *path = plumb_path_join(directory, files[i]);

        status = path == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a path")
                              : append_glosses(&b, path, why);
        free(path);
    }
    if (status != PLUMB_OK) {
        free(b.at);
        return status;
    }
    *text = b.at;
    *size = b.size;
    return PLUMB_OK;
}

/* --- files and folders ---------------------------------------------------------------- */

static plumb_status append_file(buffer *b, const char *path, plumb_error *why)
{
    char *data = NULL;
    size_t size = 0;
    plumb_error cause = {0};
    plumb_status status = plumb_file_read(path, text_limit, &data, &size, &cause);

    if (status == PLUMB_NOT_FOUND)
        return plumb_fail(why, status, "data: '%s' does not exist", path);
    if (status != PLUMB_OK)
        return plumb_fail(why, status, "data: %s", cause.message);
    if (size == 0)
        status = plumb_fail(why, PLUMB_BAD_INPUT, "data: '%s' is empty", path);
    else
        status = append(b, data, size, why);
    free(data);
    return status;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Bytewise, so that the order does not depend on the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static plumb_status append_entry(buffer *b, const char *directory, const char *name,
                                 size_t *files, plumb_error *why)
{
    char *path = plumb_path_join(directory, name);
    struct stat info;
    plumb_status status = PLUMB_OK;

    if (path == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a path");
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        status = append_file(b, path, why);
        ++*files;
    }
    free(path);
    return status;
}

static plumb_status append_folder(buffer *b, const char *path, plumb_error *why)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, visible, by_name);
    plumb_status status = PLUMB_OK;
    size_t files = 0;

    if (count < 0)
        return plumb_fail(why, PLUMB_IO, "data: the folder '%s' cannot be read", path);
    for (int i = 0; i < count; i++) {
        if (status == PLUMB_OK)
            status = append_entry(b, path, entries[i]->d_name, &files, why);
        free(entries[i]);
    }
    free(entries);
    if (status == PLUMB_OK && files == 0)
        return plumb_fail(why, PLUMB_BAD_INPUT, "data: the folder '%s' has no text file",
                          path);
    return status;
}

static plumb_status append_source(buffer *b, const char *source, plumb_error *why)
{
    struct stat info;

    if (strcmp(source, "wordnet") == 0) {
        char *text = NULL;
        size_t size = 0;
        plumb_status status = plumb_text_wordnet(wordnet_directory, &text, &size, why);

        if (status == PLUMB_OK)
            status = append(b, text, size, why);
        free(text);
        return status;
    }
    if (stat(source, &info) == 0 && S_ISDIR(info.st_mode))
        return append_folder(b, source, why);
    return append_file(b, source, why);
}

/* --- the corpus ------------------------------------------------------------------------- */

static double unigram_entropy(const char *text, size_t size)
{
    uint64_t counts[256] = {0};
    double entropy = 0;

    for (size_t i = 0; i < size; i++)
        counts[(unsigned char)text[i]]++;
    for (size_t i = 0; i < 256; i++) {
        const float p = (float)((double)counts[i] / (double)size);
        float log_p;

        if (counts[i] == 0)
            continue;
        plumb_log(&p, 1, &log_p);
        entropy -= (double)p * (double)log_p;
    }
    return entropy;
}

plumb_status corpus_load(const plumb_strings *data, size_t context, corpus *c,
                         plumb_error *why)
{
    buffer b = {0};
    plumb_status status = PLUMB_OK;

    if (data->count == 0)
        status =
            plumb_fail(why, PLUMB_BAD_INPUT, "data: no file, folder or wordnet is named");
    for (size_t i = 0; i < data->count && status == PLUMB_OK; i++)
        status = append_source(&b, data->at[i], why);
    const size_t train = b.size - b.size / 20, needed = 2 * (context + 1);

    if (status == PLUMB_OK && train < needed)
        status =
            plumb_fail(why, PLUMB_BAD_INPUT,
                       "data: '%s' is too small: %zu bytes to train on; a context of %zu "
                       "needs at least %zu",
                       data->at[0], train, context, needed);
    if (status != PLUMB_OK) {
        free(b.at);
        return status;
    }
    *c = (corpus){b.at, b.size, train, unigram_entropy(b.at, train)};
    return PLUMB_OK;
}
