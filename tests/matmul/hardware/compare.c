/* Compares what units.cu wrote with the library, and makes the CSV files beside it.
 *
 *   compare WGMMA MMA            mismatches by operation and kind of tile
 *   compare WGMMA MMA hashes     h200-tiles.csv: hashes of what the GPU wrote
 *   compare WGMMA MMA rows       h200-rows.csv: results that tell wrong rules
 */
#include "modelled.h"

#include <stdio.h>
#include <stdlib.h>

/* A rule broken: the row of the unit that would do so. */
typedef struct broken {
    plumb_unit unit;
    int wanted; /* rows still to be found that it gets wrong */
} broken;

enum { MAX_BROKEN = 32 };

static int break_rules(const operation *op, broken all[MAX_BROKEN])
{
    const plumb_unit unit = *plumb_unit_get(operation_kind(op));
    int n = 0;

    for (int i = 0; i < MAX_BROKEN; i++)
        all[i] = (broken){unit, 3};
    all[n++].unit.fraction_bits--;
    all[n++].unit.fraction_bits++;
    all[n].unit.terms_8 /= 2;
    all[n].unit.terms_16 /= 2;
    all[n++].unit.terms_tf32 /= 2;
    all[n].unit.terms_8 *= 2;
    all[n].unit.terms_16 *= 2;
    all[n++].unit.terms_tf32 *= 2;
    all[n++].unit.rounding = PLUMB_ROUND_NEAREST_EVEN;
    all[n++].unit.result_bits = unit.result_bits < 23 ? unit.result_bits + 1 : 22;
    all[n++].unit.result_bits--;
    for (int down = -1; down <= 1; down += 2) {
        all[n].unit.floor_fp32 += down;
        all[n++].unit.floor_fp16 += down;
    }
    all[n].unit.addend_every = unit.addend_every > 0            ? 0
                               : tile_formats[op->a].bytes == 1 ? unit.terms_8
                               : tile_formats[op->a].bytes == 2 ? unit.terms_16
                                                                : unit.terms_tf32;
    all[n++].unit.interleaved = false;
    all[n++].unit.interleaved = false;
    all[n++].unit.as_fp16 = false;
    all[n].unit.nan_fp32 = 0x7fc00000u;
    all[n++].unit.nan_fp16 = 0x7fc00000u;
    return n;
}

static void print_codes(const format_info *f, const uint8_t *row, int k)
{
    for (int i = 0; i < k; i++)
        for (int byte = f->bytes; byte-- > 0;)
            printf("%02x", row[i * f->bytes + byte]);
    printf(",");
}

static void print_row(const operation *op, int index, const tile *t, int i, uint32_t d)
{
    const format_info *fa = &tile_formats[op->a], *fb = &tile_formats[op->b];
    const int k = STEP / fa->bytes * t->steps, size = STEP * t->steps;

    printf("%s-%s-%d-%d,%s,%s", op->mma ? "mma" : "wgmma", tile_kind_names[t->kind], index,
           i, plumb_unit_get(operation_kind(op))->name, fa->name);
    if (op->a != op->b)
        printf(":%s", fb->name);
    printf(",%s,", op->half ? "fp16" : "fp32");
    print_codes(fa, t->a + i / COLS * size, k);
    print_codes(fb, t->b + i % COLS * size, k);
    printf("%08x,%08x\n", op->half ? half_to_float(t->c[i]) : t->c[i], d);
}

/* A case by hand, one of the first results of a kind, or one that tells a broken rule. */
static bool is_wanted(const operation *op, const tile *t, int i, uint32_t d, int *of_kind,
                      broken *rules, int n)
{
    const int size = STEP * t->steps;
    const bool nothing = (t->a[i / COLS * size] | t->a[i / COLS * size + 1] | t->c[i]) == 0;
    bool wanted = false;

    if (t->steps > 2)
        return false;
    if (t->kind == HAND)
        return i / COLS == i % COLS && i / COLS < COLS && !nothing;
    if (*of_kind < (t->kind == SPECIAL ? 6 : 3)) {
        ++*of_kind;
        wanted = true;
    }
    for (int r = 0; r < n; r++)
        if (rules[r].wanted > 0 && modelled(&rules[r].unit, op, t, i) != d) {
            rules[r].wanted--;
            wanted = true;
        }
    return wanted;
}

/* Results whose exact value is not zero but rounds to it: +0, of either sign. */
static bool is_lost(const operation *op, const tile *t, int i, uint32_t d)
{
    const int size = STEP * t->steps, k = STEP / tile_formats[op->a].bytes * t->steps;
    double sum = float_from(op->half ? half_to_float(t->c[i]) : t->c[i]);

    for (int j = 0; j < k; j++)
        sum += code_value(&tile_formats[op->a],
                          get_code(&tile_formats[op->a], t->a + i / COLS * size, j)) *
               code_value(&tile_formats[op->b],
                          get_code(&tile_formats[op->b], t->b + i % COLS * size, j));
    return (d & 0x7fffffff) == 0 && sum < 0;
}

typedef struct session {
    FILE *file[2];
    const char *mode;
    int o;
    tile t;
    uint32_t out[RESULTS];
    uint64_t hash[KINDS];
    long results[KINDS], missed[KINDS];
    int shown[KINDS], lost;
    broken rules[MAX_BROKEN];
    int broken;
} session;

static void read_tile(session *s, bool half)
{
    FILE *file = s->file[tile_operations[s->o].mma];

    for (int i = 0; i < RESULTS; i++) {
        uint32_t x = 0;

        if (fread(&x, half ? 2 : 4, 1, file) != 1) {
            printf("a file is too short\n");
            exit(1);
        }
        s->out[i] = half ? half_to_float(x) : x;
    }
}

static void one_tile(session *s, int index)
{
    const operation *op = &tile_operations[s->o];
    const tile *t = &s->t;

    tile_fill(s->o, index, &s->t);
    read_tile(s, op->half);
    hash_bytes(&s->hash[t->kind], s->out, sizeof s->out);
    s->results[t->kind] += RESULTS;
    for (int i = 0; i < RESULTS; i++) {
        const bool lost = s->lost > 0 && t->steps == 1 && t->kind != SPECIAL &&
                          is_lost(op, t, i, s->out[i]);

        s->lost -= lost;
        if (*s->mode == 'r') {
            if (is_wanted(op, t, i, s->out[i], &s->shown[t->kind], s->rules, s->broken) ||
                lost)
                print_row(op, index, t, i, s->out[i]);
        } else if (*s->mode == 0) {
            s->missed[t->kind] +=
                modelled(plumb_unit_get(operation_kind(op)), op, t, i) != s->out[i];
        }
    }
}

static void print_kinds(const session *s)
{
    const operation *op = &tile_operations[s->o];

    for (int kind = 0; kind < KINDS && *s->mode != 'r'; kind++) {
        printf("%s,%s,%s,%s,%s,%ld,", op->mma ? "mma" : "wgmma", tile_formats[op->a].name,
               tile_formats[op->b].name, op->half ? "fp16" : "fp32", tile_kind_names[kind],
               s->results[kind]);
        if (*s->mode == 'h')
            printf("%016llx\n", (unsigned long long)s->hash[kind]);
        else
            printf("%ld\n", s->missed[kind]);
    }
}

int main(int argc, char **argv)
{
    static session s;

    if (argc < 3 || (s.file[0] = fopen(argv[1], "rb")) == NULL ||
        (s.file[1] = fopen(argv[2], "rb")) == NULL) {
        printf("compare WGMMA MMA [hashes|rows]\n");
        return 2;
    }
    s.mode = argc > 3 ? argv[3] : "";
    puts(*s.mode == 'r'   ? "id,unit,format,output,a,b,c,d"
         : *s.mode == 'h' ? "instruction,a,b,result,kind,results,hash"
                          : "instruction,a,b,result,kind,results,mismatches");
    for (s.o = 0; s.o < OPERATIONS; s.o++) {
        uint64_t theirs = 0, mine = hash_start();

        if (fread(&theirs, sizeof theirs, 1, s.file[tile_operations[s.o].mma]) != 1)
            return 1;
        for (int kind = 0; kind < KINDS; kind++) {
            s.hash[kind] = hash_start();
            s.results[kind] = s.missed[kind] = s.shown[kind] = 0;
        }
        s.lost = 3;
        s.broken = break_rules(&tile_operations[s.o], s.rules);
        for (int i = 0; i < tile_count(); i++) {
            one_tile(&s, i);
            hash_operands(&mine, &s.t);
        }
        print_kinds(&s);
        if (theirs != mine) {
            printf("operands of operation %d differ\n", s.o);
            return 1;
        }
    }
    return 0;
}
