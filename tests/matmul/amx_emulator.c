/* The AMX instructions of the canonical product, after the operation sections of Intel's Software
 * Developer's Manual, volume 2: LDTILECFG, STTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILELOADDT1,
 * TILESTORED and TDPBF16PS, for palette 1.
 *
 * Tiles belong to a thread.  Multiplying and adding is left to the FMA of the CPU, in the mode that
 * the manual states for TDPBF16PS: nearest even, denormals are zero, flush to zero.
 */
#define _GNU_SOURCE
#include "amx_emulator.h"

#include "plumb/base.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <xmmintrin.h>

enum { TILES = 8, MAX_ROWS = 16, MAX_BYTES = 64 };

typedef struct tile {
    unsigned rows, bytes; /* as configured; 0: not */
    uint8_t row[MAX_ROWS][MAX_BYTES];
} tile;

static _Thread_local struct {
    bool configured;
    uint8_t config[64];
    tile tiles[TILES];
    size_t multiplications;
} state;

static atomic_bool emulated;
static atomic_int fault;

static void die(const char *what)
{
    fprintf(stderr, "not ok - AMX emulator: %s\n", what);
    abort();
}

static void want(bool holds, const char *what)
{
    if (!holds)
        die(what);
}

/* --- decoding ------------------------------------------------------------------ */

enum prefix { NONE, P66, PF3, PF2 };

typedef struct instruction {
    unsigned opcode, prefix;
    bool memory;
    unsigned reg, rm, vvvv;
    uint8_t *address; /* base + displacement; of a configuration with the index, too */
    ptrdiff_t index;  /* scaled: the stride of a tile */
    size_t length;
} instruction;

static const int registers[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};

static int64_t displacement(const uint8_t *at, size_t bytes)
{
    int32_t wide;

    if (bytes == 1)
        return (int8_t)*at;
    if (bytes == 0)
        return 0;
    memcpy(&wide, at, sizeof wide);
    return wide;
}

/* ModRM with memory: [base + index * scale + displacement], or relative to the next instruction. */
static void decode_memory(const greg_t *g, const uint8_t *at, unsigned x, unsigned b,
                          instruction *to)
{
    const unsigned mod = at[4] >> 6, rm = at[4] & 7;
    const bool sib = rm == 4;
    const unsigned base = sib ? at[5] & 7 : rm;
    const bool no_base = mod == 0 && base == 5;
    const size_t bytes = mod == 1 ? 1 : mod == 2 || no_base ? 4 : 0;
    int64_t address = displacement(at + 5 + sib, bytes);

    to->length = 5 + sib + bytes;
    if (!no_base)
        address += g[registers[base | b << 3]];
    else if (!sib)
        address += (int64_t)(uintptr_t)(at + to->length);
    if (sib && ((at[5] >> 3 & 7) | x << 3) != 4)
        to->index =
            (ptrdiff_t)(g[registers[(at[5] >> 3 & 7) | x << 3]] * (1 << (at[5] >> 6)));
    to->address = (uint8_t *)(uintptr_t)address;
}

/* VEX.128.0F38.W0; the bits R, X, B and vvvv are stored inverted. */
static bool decode(const greg_t *g, const uint8_t *at, instruction *to)
{
    if (at[0] != 0xc4 || (at[1] & 0x1f) != 2 || (at[2] & 0x84) != 0)
        return false;
    const unsigned r = ~at[1] >> 7 & 1, x = ~at[1] >> 6 & 1, b = ~at[1] >> 5 & 1;

    *to = (instruction){.opcode = at[3],
                        .prefix = at[2] & 3,
                        .memory = at[4] >> 6 != 3,
                        .reg = (at[4] >> 3 & 7) | r << 3,
                        .rm = (at[4] & 7) | b << 3,
                        .vvvv = ~at[2] >> 3 & 15,
                        .length = 5};
    if (to->memory)
        decode_memory(g, at, x, b, to);
    return true;
}

/* --- execution ------------------------------------------------------------------- */

static void release(void)
{
    state.configured = false;
    memset(state.config, 0, sizeof state.config);
    memset(state.tiles, 0, sizeof state.tiles);
}

static void load_config(const uint8_t *from)
{
    uint16_t bytes[16];

    release();
    memcpy(state.config, from, sizeof state.config);
    want(state.config[0] <= 1, "LDTILECFG of a palette above 1");
    want(state.config[1] == 0, "a start row is not emulated");
    for (size_t i = 2; i < 16; i++)
        want(state.config[i] == 0, "LDTILECFG with a reserved byte that is not 0");
    memcpy(bytes, state.config + 16, sizeof bytes);
    for (size_t t = 0; t < 16; t++) {
        const unsigned rows = state.config[48 + t];

        want(rows <= MAX_ROWS && bytes[t] <= MAX_BYTES, "LDTILECFG of too large a tile");
        want((rows == 0) == (bytes[t] == 0),
             "LDTILECFG of rows without bytes, or bytes alone");
        want(t < TILES || rows == 0, "LDTILECFG of a tile above 7");
        if (t < TILES)
            state.tiles[t].rows = rows, state.tiles[t].bytes = bytes[t];
    }
    state.configured = state.config[0] == 1;
}

static tile *tile_of(unsigned number)
{
    want(number < TILES, "a tile above 7");
    want(state.configured, "a tile is used, but none is configured");
    want(state.tiles[number].rows > 0, "a tile is used that was not configured");
    return &state.tiles[number];
}

static void load(tile *to, const instruction *from)
{
    memset(to->row, 0, sizeof to->row);
    for (unsigned r = 0; r < to->rows; r++)
        memcpy(to->row[r], from->address + r * from->index, to->bytes);
}

static void store(const tile *from, const instruction *to)
{
    for (unsigned r = 0; r < from->rows; r++)
        memcpy(to->address + r * to->index, from->row[r], from->bytes);
}

static float bf16_at(const uint8_t *row, unsigned i)
{
    const uint32_t bits = (uint32_t)(row[2 * i] | row[2 * i + 1] << 8) << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* One row of results.  Out of line, so that nothing of it happens before the mode is set. */
__attribute__((noinline, target("fma"))) static void
dot_row(const uint8_t *a, const tile *b, unsigned pairs, unsigned columns, uint8_t *row)
{
    const int broken = atomic_load(&fault);

    for (unsigned n = 0; n < columns; n++) {
        float even = 0, odd = 0, c;

        memcpy(&c, row + 4 * n, sizeof c);
        if (broken == AMX_FROM_RESULT)
            even = c, c = 0;
        for (unsigned k = 0; k < pairs; k++) {
            float *second = broken == AMX_ONE_CHAIN ? &even : &odd;

            even = fmaf(bf16_at(a, 2 * k), bf16_at(b->row[k], 2 * n), even);
            *second = fmaf(bf16_at(a, 2 * k + 1), bf16_at(b->row[k], 2 * n + 1), *second);
        }
        c = broken == AMX_SUMS_APART ? c + even + odd : c + (even + odd);
        memcpy(row + 4 * n, &c, sizeof c);
    }
}

static void multiply(const instruction *in)
{
    static const unsigned modes[AMX_FAULTS] = {
        [AMX_KEEPS_TINY] = 0x1f80, [AMX_READS_TINY] = 0x9f80, [AMX_TRUNCATES] = 0xffc0};
    tile *c = tile_of(in->reg);
    const tile *a = tile_of(in->rm), *b = tile_of(in->vvvv);
    const unsigned before = _mm_getcsr(), mode = modes[atomic_load(&fault)];

    want(a != b && a != c && b != c, "TDPBF16PS with one tile twice");
    want(a->bytes % 4 == 0 && b->bytes % 4 == 0, "TDPBF16PS of half a pair");
    want(a->rows == c->rows && b->bytes == c->bytes && a->bytes / 4 == b->rows,
         "TDPBF16PS of tiles that do not fit");
    _mm_setcsr(mode != 0 ? mode : 0x9fc0);
    for (unsigned m = 0; m < c->rows; m++)
        dot_row(a->row[m], b, a->bytes / 4, c->bytes / 4, c->row[m]);
    _mm_setcsr(before);
    state.multiplications++;
}

/* False for anything else. */
static bool execute(const instruction *in)
{
    const unsigned what = in->opcode << 3 | (in->memory ? 4 : 0) | in->prefix;
    const bool with_sib = in->memory && (in->rm & 7) == 4;

    switch (what) {
    case 0x49 << 3 | 4 | NONE:
        load_config(in->address + in->index);
        return true;
    case 0x49 << 3 | 4 | P66:
        memcpy(in->address + in->index, state.config, sizeof state.config);
        return true;
    case 0x49 << 3 | NONE:
        release();
        return true;
    case 0x49 << 3 | PF2: {
        tile *t = tile_of(in->reg);

        memset(t->row, 0, sizeof t->row);
        return true;
    }
    case 0x4b << 3 | 4 | PF2:
    case 0x4b << 3 | 4 | P66:
        want(with_sib, "a tile is loaded without an index byte");
        load(tile_of(in->reg), in);
        return true;
    case 0x4b << 3 | 4 | PF3:
        want(with_sib, "a tile is stored without an index byte");
        store(tile_of(in->reg), in);
        return true;
    case 0x5c << 3 | PF3:
        multiply(in);
        return true;
    default:
        return false;
    }
}

static void on_illegal(int number, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    greg_t *g = u->uc_mcontext.gregs;
    instruction in;

    (void)number, (void)info;
    want(decode(g, (const uint8_t *)(uintptr_t)g[REG_RIP], &in) && execute(&in),
         "an illegal instruction that is none of AMX");
    g[REG_RIP] += (greg_t)in.length;
}

/* --- in front of the library --------------------------------------------------------- */

unsigned __real_plumb_cpu_flags(void);
unsigned __wrap_plumb_cpu_flags(void);
void __real_plumb_cpu_limit(unsigned mask);
void __wrap_plumb_cpu_limit(unsigned mask);

static atomic_uint allowed = ATOMIC_VAR_INIT(~0u);

unsigned __wrap_plumb_cpu_flags(void)
{
    return __real_plumb_cpu_flags() |
           (atomic_load(&emulated) ? atomic_load(&allowed) & PLUMB_CPU_AMX : 0);
}

void __wrap_plumb_cpu_limit(unsigned mask)
{
    atomic_store(&allowed, mask);
    __real_plumb_cpu_limit(mask);
}

__attribute__((constructor)) static void install(void)
{
    const struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
    const unsigned have = __real_plumb_cpu_flags();

    if ((have & PLUMB_CPU_AMX) == 0 && (have & PLUMB_CPU_AVX512BF16) != 0 &&
        sigaction(SIGILL, &action, NULL) == 0)
        atomic_store(&emulated, true);
}

bool amx_emulated(void)
{
    return atomic_load(&emulated);
}

bool amx_configured(void)
{
    return state.configured;
}

size_t amx_multiplications(void)
{
    return state.multiplications;
}

void amx_break(amx_fault how)
{
    atomic_store(&fault, (int)how);
}
