/* 9.5 million results of single instructions of an H200, through plumb_unit_dot, as hashes.
 *
 * hardware/README.md says how they were made.  A hash tells that a result differs, and with which
 * kind of operands; hardware/compare.c says which.
 */
#include "hardware/modelled.h"
#include "hardware/table.h"

#include "check.h"

#include <stdlib.h>

static const char *result_name(const operation *op)
{
    return op->half ? "fp16" : "fp32";
}

/* All tiles of one operation, hashed by kind. */
static void hash_kinds(int o, tile *t, uint64_t hash[KINDS], long results[KINDS])
{
    const operation *op = &tile_operations[o];
    const plumb_unit *unit = plumb_unit_get(operation_kind(op));

    for (int kind = 0; kind < KINDS; kind++) {
        hash[kind] = hash_start();
        results[kind] = 0;
    }
    for (int i = 0; i < tile_count(); i++) {
        uint32_t out[RESULTS];

        tile_fill(o, i, t);
        for (int j = 0; j < RESULTS; j++)
            out[j] = modelled(unit, op, t, j);
        hash_bytes(&hash[t->kind], out, sizeof out);
        results[t->kind] += RESULTS;
    }
}

static void check_tiles(void)
{
    static tile t;
    FILE *file = table_open("h200-tiles.csv");
    long all = 0;

    for (int o = 0; o < OPERATIONS; o++) {
        const operation *op = &tile_operations[o];
        uint64_t hash[KINDS];
        long results[KINDS];

        hash_kinds(o, &t, hash, results);
        for (int kind = 0; kind < KINDS; kind++) {
            char line[TABLE_LINE], *field[TABLE_FIELDS];
            if (!CHECK(table_row(file, line, field) == 7, "a row is missing"))
                return;
            CHECK(strcmp(field[0], op->mma ? "mma" : "wgmma") == 0 &&
                      strcmp(field[1], tile_formats[op->a].name) == 0 &&
                      strcmp(field[2], tile_formats[op->b].name) == 0 &&
                      strcmp(field[3], result_name(op)) == 0 &&
                      strcmp(field[4], tile_kind_names[kind]) == 0 &&
                      atol(field[5]) == results[kind],
                  "another row is here: %s %s %s", field[0], field[1], field[4]);
            CHECK(strtoull(field[6], NULL, 16) == hash[kind],
                  "%s %s x %s -> %s, %s: some of %ld results differ", field[0], field[1],
                  field[2], field[3], field[4], results[kind]);
            all += results[kind];
        }
    }
    printf("# %ld results\n", all);
    fclose(file);
    check_done("results of single instructions");
}

int main(void)
{
    check_tiles();
    return check_exit();
}
