/* Faults on operands change the bytes that they say and no others: every cast of a run is compared
 * before and after the fault, and what differs is worked out again here from bits.
 */
#include <fnmatch.h>

#include "plant.h"

enum { SITES = 256, CALLS = 4, LAST_STEP = 8 };

/* What the fault should have left behind. */
typedef struct watched {
    const char *kind, *glob;
    bool (*right)(const struct watched *w, size_t index, const plant_cast *fresh,
                  const plant_cast *after);
    int64_t step;
    size_t call[SITES];                            /* of the running step */
    plant_cast fresh[LAST_STEP + 1][SITES][CALLS]; /* as cast in each step */
    const void *codes[SITES];                      /* where the last cast of a site lies */
    size_t faulty, wrong;
} watched;

static const plant_cast *fresh_of(const watched *w, size_t index, int64_t step)
{
    return &w->fresh[step][index][w->call[index]];
}

/* --- decode scales ------------------------------------------------------------------------ */

static bool doubled(const watched *w, size_t index, const plant_cast *fresh,
                    const plant_cast *after)
{
    (void)w;
    (void)index;
    return fresh->scales == 1 && after->d[0] == 2 * fresh->d[0] &&
           plant_same_codes(fresh, after);
}

/* MX blocks of dgrad/w run down the rows: rows / 32 of them, and as many beside each other as there are
 * columns.
 */
static bool transposed(const watched *w, size_t index, const plant_cast *fresh,
                       const plant_cast *after)
{
    const size_t down = fresh->q.rows / 32, across = fresh->q.cols;
    bool right = fresh->scales == down * across && plant_same_codes(fresh, after);

    (void)w;
    (void)index;
    for (size_t i = 0; i < down * across && right; i++)
        right = after->d[i] == fresh->d[i % across * down + i / across];
    return right;
}

static bool shifted(const watched *w, size_t index, const plant_cast *fresh,
                    const plant_cast *after)
{
    const size_t count = fresh->scales, across = fresh->q.cols;
    bool right = count == fresh->q.rows / 32 * across && plant_same_codes(fresh, after);

    (void)w;
    (void)index;
    for (size_t i = 0; i < count && right; i++)
        right = after->d[i] == fresh->d[(i + across) % count];
    return right;
}

/* --- codes ---------------------------------------------------------------------------------- */

static bool zeroed(const watched *w, size_t index, const plant_cast *fresh,
                   const plant_cast *after)
{
    bool right = plant_same_scales(fresh, after);

    (void)w;
    (void)index;
    for (size_t i = 0; i < fresh->bytes && right; i++)
        right = after->codes[i] == (i % fresh->q.cols < 16 ? 0 : fresh->codes[i]);
    return right;
}

static bool flipped(const watched *w, size_t index, const plant_cast *fresh,
                    const plant_cast *after)
{
    size_t flips = 0, others = 0;

    (void)index;
    for (size_t i = 0; i < fresh->bytes; i++) {
        flips += after->codes[i] == (fresh->codes[i] ^ 64);
        others += after->codes[i] != fresh->codes[i];
    }
    return plant_same_scales(fresh, after) && flips == (w->step == PLANT_FROM) &&
           others == flips;
}

/* E4M3: three bits of fraction, below them an exponent of 0. */
static bool flushed(const watched *w, size_t index, const plant_cast *fresh,
                    const plant_cast *after)
{
    bool right = plant_same_scales(fresh, after);

    (void)w;
    (void)index;
    for (size_t i = 0; i < fresh->bytes && right; i++) {
        const unsigned char code = fresh->codes[i];

        right = after->codes[i] == ((code & 127) < 8 ? code & 128 : code);
    }
    return right;
}

/* E4M3 by its definition. */
static double e4m3(unsigned code)
{
    const unsigned exponent = code >> 3 & 15, fraction = code & 7;
    const double value =
        exponent == 0 ? fraction * 0x1p-9 : ldexp(8 + fraction, (int)exponent - 10);

    return code & 128 ? -value : value;
}

/* The nearest code of the same sign; of two, the even one. */
static unsigned nearest(double value, unsigned sign)
{
    unsigned best = 0;

    for (unsigned code = 1; code < 127; code++) {
        const double to_best = fabs(e4m3(best) - value), to_code = fabs(e4m3(code) - value);

        if (to_code < to_best || (to_code == to_best && code % 2 == 0))
            best = code;
    }
    return best | sign;
}

/* wgrad/x reads the codes of fprop/x, which are divided already, and has a scale of its own. */
static bool inflated(const watched *w, size_t index, const plant_cast *fresh,
                     const plant_cast *after)
{
    bool right = fresh->scales == 1 && after->d[0] == 64 * fresh->d[0];

    (void)w;
    if (index % PLUMB_ROLES == PLUMB_WGRAD_X)
        return right && plant_same_codes(fresh, after);
    for (size_t i = 0; i < fresh->bytes && right; i++)
        right = after->codes[i] ==
                nearest(fabs(e4m3(fresh->codes[i])) / 64, fresh->codes[i] & 128u);
    return right;
}

/* --- copies --------------------------------------------------------------------------------- */

static bool stale_copy(const watched *w, size_t index, const plant_cast *fresh,
                       const plant_cast *after)
{
    const plant_cast *before = fresh_of(w, index, w->step - 1);

    (void)fresh;
    return plant_same_codes(before, after) && plant_same_scales(before, after);
}

static bool stale_decode(const watched *w, size_t index, const plant_cast *fresh,
                         const plant_cast *after)
{
    return plant_same_codes(fresh, after) &&
           plant_same_scales(fresh_of(w, index, w->step - 1), after);
}

/* Renewed in step 2 and each fourth after it. */
static bool cached(const watched *w, size_t index, const plant_cast *fresh,
                   const plant_cast *after)
{
    return plant_same_codes(fresh_of(w, index, w->step - (w->step - 2) % 4), after) &&
           plant_same_scales(fresh, after);
}

static bool frozen(const watched *w, size_t index, const plant_cast *fresh,
                   const plant_cast *after)
{
    const plant_cast *first = fresh_of(w, index, PLANT_FROM - 1);

    (void)fresh;
    return plant_same_codes(first, after) && plant_same_scales(first, after);
}

/* --- a run ------------------------------------------------------------------------------------ */

static bool in_glob(const watched *w, const plant_look *look, size_t index)
{
    return fnmatch(w->glob, look->t->sites.at[index].name, 0) == 0;
}

/* Whoever shared its codes with a site that is hit has them still. */
static void owner_is_whole(const watched *w, const plant_look *look, size_t index)
{
    const trainer *t = look->t;
    const size_t owner = plumb_site_owner(&t->shape, t->sites.specs, index);
    const plant_cast *fresh = &w->fresh[w->step][owner][w->call[index]];

    if (owner != index && !in_glob(w, look, owner))
        CHECK(memcmp(w->codes[owner], fresh->codes, fresh->bytes) == 0,
              "%s: step %lld, %s has lost its codes", w->kind, (long long)w->step,
              t->sites.at[owner].name);
}

static void see(plant_look *look, size_t index, const plant_cast *before,
                const plumb_quantized *q, const plumb_scale_state *state)
{
    watched *w = look->more;
    plant_cast after = plant_copy(q);
    const bool same = plant_same_codes(before, &after) && plant_same_scales(before, &after);

    (void)state;
    if (index < SITES && w->call[index] < CALLS) {
        w->fresh[w->step][index][w->call[index]] = plant_copy(&before->q);
        w->codes[index] = q->codes;
        if (in_glob(w, look, index) && w->step >= PLANT_FROM) {
            w->faulty += !same;
            CHECK(w->right(w, index, before, &after), "%s: step %lld, %s, cast %zu",
                  w->kind, (long long)w->step, look->t->sites.at[index].name,
                  w->call[index]);
            owner_is_whole(w, look, index);
        } else {
            w->wrong += !same;
        }
        w->call[index]++;
    }
    plant_copy_free(&after);
}

static void watched_free(watched *w)
{
    for (int step = 0; step <= LAST_STEP; step++) {
        for (int i = 0; i < SITES; i++) {
            for (int j = 0; j < CALLS; j++)
                plant_copy_free(&w->fresh[step][i][j]);
        }
    }
    free(w);
}

/* glob: where bytes may differ; the sites of the fault, and those that are hit with them. */
static void watch(const char *kind, const char *glob,
                  bool right(const watched *, size_t, const plant_cast *,
                             const plant_cast *))
{
    trainer *t = plant_example_make(kind, true);
    watched *w = calloc(1, sizeof *w);
    plant_look look = {.see = see, .more = w};

    w->kind = kind;
    w->glob = glob;
    w->right = right;
    plant_look_at(&look, t);
    for (w->step = 1; w->step <= LAST_STEP; w->step++) {
        memset(w->call, 0, sizeof w->call);
        plant_step(t);
    }
    CHECK(w->faulty > 0, "%s changes nothing", kind);
    CHECK(w->wrong == 0, "%s changes %zu casts elsewhere", kind, w->wrong);
    watched_free(w);
    plant_drop(t);
    check_done(kind);
}

/* --- casts by another spec --------------------------------------------------------------------- */

/* The first cast of a site in step `from`, which every run has the same values for. */
typedef struct first_cast {
    const char *name;
    int64_t step;
    plant_cast cast;
    uint32_t before; /* sum of all casts of the steps before */
} first_cast;

static void note(plant_look *look, size_t index, const plant_cast *before,
                 const plumb_quantized *q, const plumb_scale_state *state)
{
    first_cast *f = look->more;

    (void)q;
    (void)state;
    for (size_t i = 0; i < before->bytes && f->step < PLANT_FROM; i++)
        f->before = f->before * 31 + before->codes[i];
    if (f->step == PLANT_FROM && f->cast.codes == NULL &&
        strcmp(look->t->sites.at[index].name, f->name) == 0)
        f->cast = plant_copy(&before->q);
}

static first_cast cast_of(const char *kind, bool faulty, const char *name)
{
    trainer *t = plant_example_make(kind, faulty);
    first_cast f = {.name = name};
    plant_look look = {.see = note, .more = &f};

    plant_look_at(&look, t);
    for (f.step = 1; f.step <= PLANT_FROM; f.step++)
        plant_step(t);
    plant_drop(t);
    CHECK(f.cast.codes != NULL, "%s: no cast of %s", kind, name);
    return f;
}

/* Each code of the clean run and of the faulty one, with the scales of their blocks. */
static void compare(const char *kind, const char *name,
                    bool right(unsigned clean, unsigned faulty, float d, float faulty_d),
                    size_t least)
{
    first_cast clean = cast_of(kind, false, name), faulty = cast_of(kind, true, name);
    const size_t blocks = clean.cast.scales, rows = clean.cast.q.rows;
    const size_t width = clean.cast.q.cols / (blocks / rows == 0 ? 1 : blocks / rows);
    size_t wrong = 0, differ = 0;

    CHECK(clean.before == faulty.before, "%s: begins too early", kind);
    for (size_t i = 0; i < clean.cast.bytes; i++) {
        const size_t block = blocks == 1 ? 0 : i / width;

        wrong += !right(clean.cast.codes[i], faulty.cast.codes[i], clean.cast.d[block],
                        faulty.cast.d[block]);
        differ += clean.cast.codes[i] != faulty.cast.codes[i] ||
                  clean.cast.d[block] != faulty.cast.d[block];
    }
    CHECK(wrong == 0 && differ >= least, "%s: %zu of %zu wrong, %zu differ", kind, wrong,
          clean.cast.bytes, differ);
    plant_copy_free(&clean.cast);
    plant_copy_free(&faulty.cast);
    check_done(kind);
}

/* E5M2: 57344 stands for 0.1, and no value may be past what it was, or a step of the new scale off. */
static bool floored(unsigned clean, unsigned faulty, float d, float faulty_d)
{
    const double was =
        fabs(ldexp(4 + (clean & 3), (int)(clean >> 2 & 31) - 17)) * (double)d;
    const double is =
        fabs(ldexp(4 + (faulty & 3), (int)(faulty >> 2 & 31) - 17)) * (double)faulty_d;
    const bool normal = (clean & 124) != 0 && (faulty & 124) != 0;

    return fabs((double)faulty_d * 57344 / 0.1 - 1) < 1e-6 && d < faulty_d &&
           (!normal || fabs(is - was) <= 0.25 * was);
}

/* Down to the power of two below: half the scale where the largest code says that 256 is not reached; the
 * largest value is held where it is passed.
 */
static bool floor_rounded(unsigned clean, unsigned faulty, float d, float faulty_d)
{
    if (faulty_d != d && 2 * faulty_d != d)
        return false;
    if (faulty_d == d)
        return clean == faulty;
    const double twice = 2 * fabs(e4m3(clean)), is = fabs(e4m3(faulty));

    return fabs(e4m3(clean)) <= 256 &&
           (twice >= 480 ? is == 448 : fabs(is - twice) <= 0.07 * twice + 0x1p-9);
}

static bool unsaturated(unsigned clean, unsigned faulty, float d, float faulty_d)
{
    return d == faulty_d &&
           (clean == faulty || ((clean & 127) == 126 && (faulty & 127) == 127));
}

/* The same code, or the next one towards zero. */
static bool truncated(unsigned clean, unsigned faulty, float d, float faulty_d)
{
    return d == faulty_d && (clean == faulty || faulty == clean - 1) &&
           ((clean ^ faulty) & 128) == 0;
}

/* --- delta ------------------------------------------------------------------------------------- */

static void replace(char *text, size_t size, const char *word, const char *by)
{
    char rest[2000];
    char *at = strstr(text, word);

    if (!CHECK(at != NULL, "no '%s' in the example", word))
        return;
    snprintf(rest, sizeof rest, "%s", at + strlen(word));
    snprintf(at, size - (size_t)(at - text), "%s%s", by, rest);
}

/* In all layers and from the first step on it is the setting of that name. */
static void delta_is_a_setting(void)
{
    char faulty[2100], clean[2200];

    CHECK(plant_example("stale-delta", faulty, sizeof faulty), "no example");
    snprintf(clean, sizeof clean, "%sattention: {delta: output}\n", faulty);
    replace(faulty, sizeof faulty, "\"layer.1/attn/d?/ds\"", "\"layer.*/attn/d?/ds\"");
    replace(faulty, sizeof faulty, "from: 3", "from: 1");
    trainer *a = plant_make(faulty, true, NULL), *b = plant_make(clean, false, NULL);

    for (int step = 1; step <= 4; step++)
        CHECK(plant_step(a) == plant_step(b), "step %d", step);
    plant_drop(a);
    plant_drop(b);
}

enum { MOST_CASTS = 4000 };

typedef struct sequence {
    bool on;
    size_t count, site[MOST_CASTS];
    uint32_t sum[MOST_CASTS];
} sequence;

static void add_up(plant_look *look, size_t index, const plant_cast *before,
                   const plumb_quantized *q, const plumb_scale_state *state)
{
    sequence *s = look->more;

    (void)q;
    (void)state;
    if (!s->on || !CHECK(s->count < MOST_CASTS, "too many casts"))
        return;
    s->site[s->count] = index;
    for (size_t i = 0; i < before->bytes; i++)
        s->sum[s->count] = s->sum[s->count] * 31 + before->codes[i];
    s->count++;
}

static void delta_of_a_layer(void)
{
    sequence *both = calloc(2, sizeof *both);
    char name[PLUMB_SITE_NAME] = "";
    size_t i = 0;

    for (int faulty = 0; faulty < 2; faulty++) {
        trainer *t = plant_example_make("stale-delta", faulty != 0);
        plant_look look = {.see = add_up, .more = &both[faulty]};

        plant_look_at(&look, t);
        for (int step = 1; step <= PLANT_FROM; step++) {
            both[faulty].on = step == PLANT_FROM;
            plant_step(t);
        }
        while (faulty != 0 && i < both[1].count && both[0].sum[i] == both[1].sum[i])
            i++;
        if (i < both[1].count)
            memcpy(name, t->sites.at[both[1].site[i]].name, sizeof name);
        plant_drop(t);
    }
    CHECK(both[0].count == both[1].count && strcmp(name, "layer.1/attn/dq/ds") == 0,
          "cast %zu of step %d is the first that differs: '%s'", i, PLANT_FROM, name);
    free(both);
    check_done("stale-delta");
}

int main(void)
{
    plant_begin();
    watch("scale-factor", "layer.1/mlp.down/dgrad/dy", doubled);
    watch("transposed-scales", "layer.0/attn.qkv/dgrad/w", transposed);
    watch("shifted-scales", "layer.*/mlp.down/wgrad/dy", shifted);
    watch("zeroed-columns", "layer.1/mlp.up/dgrad/w", zeroed);
    watch("bit-flip", "layer.0/attn.out/fprop/w", flipped);
    watch("flushed-subnormals", "layer.*/fprop/w", flushed);
    watch("inflated-amax", "layer.0/mlp.down/*/x", inflated);
    watch("stale-copy", "layer.1/*/wgrad/x", stale_copy);
    watch("stale-decode-scale", "layer.1/*/wgrad/dy", stale_decode);
    watch("cached-weight", "layer.1/mlp.down/fprop/w", cached);
    watch("frozen-weight", "layer.1/mlp.down/*/w", frozen);
    compare("scale-floor", "layer.1/mlp.down/dgrad/dy", floored, 1000);
    compare("floor-rounded-scale", "layer.0/attn.qkv/fprop/x", floor_rounded, 100);
    compare("unsaturated-cast", "layer.1/mlp.down/fprop/x", unsaturated, 0);
    compare("truncating-cast", "layer.0/attn.qkv/fprop/w", truncated, 1000);
    delta_is_a_setting();
    delta_of_a_layer();
    plant_end();
    return check_exit();
}
