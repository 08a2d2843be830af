/* STUDY/index.sqlite: the runs of a study as a table, for people and quick look-ups.
 *
 * The directories are the truth.  The index is thrown away and written again when it is
 * absent, damaged or disagrees with them, so nothing is lost with it.  The lock of the study
 * admits one writer; SQLite's own locks are not used, since they do not work on every network
 * file system.
 */
#include "study/parts.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct study_index {
    sqlite3 *base;
};

static const char schema[] =
    "PRAGMA journal_mode=DELETE;"
    "CREATE TABLE runs (id TEXT PRIMARY KEY, label TEXT NOT NULL, \"end\" TEXT NOT NULL,"
    " predicate TEXT NOT NULL, fail_step INTEGER, first_step INTEGER NOT NULL,"
    " last_step INTEGER NOT NULL, seconds REAL NOT NULL, message TEXT NOT NULL);";

static void index_path(const char *directory, char path[STUDY_PATH])
{
    plumb_print(path, STUDY_PATH, "%s/index.sqlite", directory);
}

static study_index *open_base(const char *path, int flags)
{
    study_index *index = calloc(1, sizeof *index);

    if (index == NULL)
        return NULL;
    if (sqlite3_open_v2(path, &index->base, flags | SQLITE_OPEN_NOMUTEX, "unix-none") !=
        SQLITE_OK)
        study_index_close(&index);
    return index;
}

void study_index_close(study_index **index)
{
    if (*index == NULL)
        return;
    sqlite3_close((*index)->base);
    free(*index);
    *index = NULL;
}

/* One row of one text column; false on error or no row. */
static bool ask_text(study_index *index, const char *question, char *text, size_t size)
{
    sqlite3_stmt *statement = NULL;
    bool found = false;

    if (sqlite3_prepare_v2(index->base, question, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW) {
        const unsigned char *got = sqlite3_column_text(statement, 0);

        plumb_print(text, size, "%s", got == NULL ? "" : (const char *)got);
        found = true;
    }
    sqlite3_finalize(statement);
    return found;
}

static bool agrees(study_index *index, char (*ids)[STUDY_ID], size_t count)
{
    char text[64], want[64];

    if (!ask_text(index, "PRAGMA integrity_check", text, sizeof text) ||
        strcmp(text, "ok") != 0)
        return false;
    plumb_print(want, sizeof want, "%zu", count);
    if (!ask_text(index, "SELECT count(*) FROM runs", text, sizeof text) ||
        strcmp(text, want) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!study_index_has(index, ids[i]))
            return false;
    return true;
}

bool study_index_open(const char *directory, char (*ids)[STUDY_ID], size_t count,
                      study_index **index)
{
    char path[STUDY_PATH];

    index_path(directory, path);
    *index = open_base(path, SQLITE_OPEN_READWRITE);
    if (*index != NULL && !agrees(*index, ids, count))
        study_index_close(index);
    return *index != NULL;
}

plumb_status study_index_create(const char *directory, study_index **index,
                                plumb_error *why)
{
    char path[STUDY_PATH], journal[STUDY_PATH];

    index_path(directory, path);
    plumb_print(journal, sizeof journal, "%s/index.sqlite-journal", directory);
    unlink(journal); /* belongs to the base that goes */
    unlink(path);
    *index = open_base(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (*index == NULL)
        return plumb_fail(why, PLUMB_IO, "cannot create %s", path);
    if (sqlite3_exec((*index)->base, schema, NULL, NULL, NULL) != SQLITE_OK) {
        plumb_fail(why, PLUMB_IO, "cannot write %s: %s", path,
                   sqlite3_errmsg((*index)->base));
        study_index_close(index);
        return PLUMB_IO;
    }
    return PLUMB_OK;
}

bool study_index_put(study_index *index, const study_record *record)
{
    static const char put[] = "INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?)";
    const bool failed = record->failure.predicate != PLUMB_FAILS_NOT;
    sqlite3_stmt *s = NULL;

    bool good = sqlite3_prepare_v2(index->base, put, -1, &s, NULL) == SQLITE_OK;
    good = good && sqlite3_bind_text(s, 1, record->id, -1, SQLITE_STATIC) == SQLITE_OK &&
           sqlite3_bind_text(s, 2, record->label, -1, SQLITE_STATIC) == SQLITE_OK &&
           sqlite3_bind_text(s, 3, plumb_end_name(record->judged), -1, SQLITE_STATIC) ==
               SQLITE_OK &&
           sqlite3_bind_text(s, 4, plumb_predicate_name(record->failure.predicate), -1,
                             SQLITE_STATIC) == SQLITE_OK &&
           (failed ? sqlite3_bind_int64(s, 5, record->failure.step)
                   : sqlite3_bind_null(s, 5)) == SQLITE_OK &&
           sqlite3_bind_int64(s, 6, record->first_step) == SQLITE_OK &&
           sqlite3_bind_int64(s, 7, record->last_step) == SQLITE_OK &&
           sqlite3_bind_double(s, 8, record->seconds) == SQLITE_OK &&
           sqlite3_bind_text(s, 9, record->message, -1, SQLITE_STATIC) == SQLITE_OK;
    good = good && sqlite3_step(s) == SQLITE_DONE;
    sqlite3_finalize(s);
    return good;
}

/* Runs a statement with the id as its only parameter; the result of its first step. */
static int step_with_id(study_index *index, const char *text, const char *id)
{
    sqlite3_stmt *s = NULL;
    int result = sqlite3_prepare_v2(index->base, text, -1, &s, NULL);

    if (result == SQLITE_OK)
        result = sqlite3_bind_text(s, 1, id, -1, SQLITE_STATIC);
    if (result == SQLITE_OK)
        result = sqlite3_step(s);
    sqlite3_finalize(s);
    return result;
}

bool study_index_drop(study_index *index, const char *id)
{
    return step_with_id(index, "DELETE FROM runs WHERE id=?", id) == SQLITE_DONE;
}

bool study_index_has(study_index *index, const char *id)
{
    return step_with_id(index, "SELECT 1 FROM runs WHERE id=?", id) == SQLITE_ROW;
}
