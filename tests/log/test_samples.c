/* .pls files: what our writer writes comes back; every cut is torn, every flipped bit is
 * noticed; other columns and orders are read by name.
 *
 * Files of foreign writers are put together here, with a CRC of the test's own (bit by bit).
 */
#include "plumb/file.h"
#include "plumb/log.h"

#include "check.h"
#include "file/scratch.h"
#include "log/crc32c.h"

#define PLS "sites-rank00000.pls"

static uint32_t crc(uint32_t start, const unsigned char *bytes, size_t size)
{
    uint32_t state = ~start;

    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            const uint32_t in = (uint32_t)(bytes[i] >> bit) & 1u;
            state = ((state ^ in) & 1u) != 0 ? state >> 1 ^ 0x82f63b78u : state >> 1;
        }
    return ~state;
}

/* The vectors of RFC 3720, B.4, and pieces against the whole. */
static void check_sum(void)
{
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32], many[1000];

    memset(ones, 0xff, 32);
    for (int i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    for (int i = 0; i < 1000; i++)
        many[i] = (unsigned char)(i * i + 7 * i);
    CHECK(plumb_crc32c(0, zeros, 32) == 0x8a9136aa, "zeros");
    CHECK(plumb_crc32c(0, ones, 32) == 0x62a8ab43, "ones");
    CHECK(plumb_crc32c(0, up, 32) == 0x46dd794e, "up");
    CHECK(plumb_crc32c(0, down, 32) == 0x113fdb5c, "down");
    CHECK(plumb_crc32c(0, "123456789", 9) == 0xe3069283, "123456789");
    for (size_t n = 0; n <= 1000; n += 37)
        CHECK(plumb_crc32c(plumb_crc32c(0, many, n), many + n, 1000 - n) ==
                  crc(0, many, 1000),
              "pieces of %zu and %zu", n, 1000 - n);
    check_done("CRC-32C");
}

static plumb_sample sample(uint64_t step, uint32_t site)
{
    const float f = (float)step + (float)site / 8;

    return (plumb_sample){.step = step,
                          .site = site,
                          .scale = f,
                          .least_scale = f / 2,
                          .amax = 2 * f,
                          .decoded_amax = 3 * f,
                          .headroom = 4 * f,
                          .total = 1000 + step,
                          .saturated = 5,
                          .flushed = site,
                          .zero = 7,
                          .nonfinite = 1ull << 40};
}

static bool equal(const plumb_sample *a, const plumb_sample *b)
{
    return a->step == b->step && a->site == b->site && a->scale == b->scale &&
           a->least_scale == b->least_scale && a->amax == b->amax &&
           a->decoded_amax == b->decoded_amax && a->headroom == b->headroom &&
           a->total == b->total && a->saturated == b->saturated &&
           a->flushed == b->flushed && a->zero == b->zero && a->nonfinite == b->nonfinite;
}

static const char *const sites[] = {"layer.0/mlp/x", "layer.1/mlp/x", "head/x"};

static void write_run(void)
{
    const plumb_sample first[] = {sample(20, 2), sample(20, 0), sample(20, 1)};
    const plumb_sample second[] = {sample(10, 1), sample(30, 0)};
    const plumb_sample wrong[] = {sample(40, 3)};
    plumb_run *run;
    plumb_error why = {0};

    scratch_folder("r");
    CHECK_OK(plumb_run_create(scratch_at("r"), &run, &why), why);
    CHECK_OK(plumb_run_samples(run, sites, 3, first, 3, &why), why);
    CHECK_OK(plumb_run_samples(run, sites, 3, second, 2, &why), why);
    CHECK_OK(plumb_run_samples(run, sites, 3, NULL, 0, &why), why);
    CHECK(plumb_run_samples(run, sites, 3, wrong, 1, &why) == PLUMB_BAD_ARGUMENT, "site 3");
    CHECK(plumb_run_samples(run, sites, 2, first, 1, &why) == PLUMB_BAD_ARGUMENT,
          "2 sites");
    plumb_run_end(&run, "reached", 30, NULL);
}

static void round_trip(void)
{
    const plumb_sample want[] = {sample(10, 1), sample(20, 0), sample(20, 1), sample(20, 2),
                                 sample(30, 0)};
    plumb_samples got;
    plumb_error why = {0};

    write_run();
    CHECK_OK(plumb_samples_read(scratch_at("r"), &got, &why), why);
    CHECK(got.site_count == 3 && strcmp(got.site_names[2], "head/x") == 0 && !got.torn,
          "header");
    if (CHECK(got.count == 5, "%zu rows", got.count))
        for (size_t i = 0; i < 5; i++)
            CHECK(equal(&got.at[i], &want[i]), "row %zu: step %d, site %u", i,
                  (int)got.at[i].step, got.at[i].site);
    plumb_samples_free(&got);
    CHECK(plumb_samples_read(scratch_at("nowhere"), &got, &why) == PLUMB_NOT_FOUND,
          "absent");
    check_done("round trip");
}

/* Cut at n bytes: the chunks before the cut are whole, and torn says whether any is missing. */
static void cuts(void)
{
    size_t size;
    char *bytes = scratch_get("r/" PLS, &size);
    /* 20 + text; chunks of 32 + 3 * 72 and 32 + 2 * 72 bytes */
    const size_t header = size - (32 + 216) - (32 + 144), one = header + 32 + 216;

    scratch_folder("c");
    for (size_t n = 0; n <= size; n++) {
        plumb_samples got;
        plumb_error why = {0};
        const size_t rows = n < one ? 0 : n < size ? 3 : 5;
        const bool whole = n == header || n == one || n == size;

        scratch_put("c/" PLS, bytes, n);
        const plumb_status status = plumb_samples_read(scratch_at("c"), &got, &why);
        CHECK(status == PLUMB_OK && got.count == rows && got.torn == !whole,
              "%zu of %zu bytes: %zu rows, torn %d, %s", n, size, got.count, got.torn,
              why.message);
        plumb_samples_free(&got);
    }
    free(bytes);
    check_done("cut anywhere");
}

/* A flipped bit is an error, or at least makes the file torn (a length that then reaches past
 * the end, or the last chunk's own check).
 */
static void flips(void)
{
    size_t size;
    char *bytes = scratch_get("r/" PLS, &size);
    int unnoticed = 0;

    for (size_t bit = 0; bit < 8 * size; bit += 3) {
        plumb_samples got;

        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        scratch_put("c/" PLS, bytes, size);
        if (plumb_samples_read(scratch_at("c"), &got, NULL) == PLUMB_OK && !got.torn)
            unnoticed++;
        plumb_samples_free(&got);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    CHECK(unnoticed == 0, "%d of %zu flipped bits unnoticed", unnoticed, 8 * size / 3);
    free(bytes);
    check_done("flipped bits");
}

/* The same damage is an error in the middle and a torn end in the last chunk. */
static void damage(void)
{
    size_t size;
    char *bytes = scratch_get("r/" PLS, &size);
    const size_t first = size - (32 + 144) - 1, last = size - 1;
    plumb_samples got;

    bytes[first] = (char)(bytes[first] ^ 1);
    scratch_put("c/" PLS, bytes, size);
    CHECK(plumb_samples_read(scratch_at("c"), &got, NULL) == PLUMB_BAD_INPUT,
          "in the middle");
    bytes[first] = (char)(bytes[first] ^ 1);
    bytes[last] = (char)(bytes[last] ^ 1);
    scratch_put("c/" PLS, bytes, size);
    CHECK(plumb_samples_read(scratch_at("c"), &got, NULL) == PLUMB_OK, "in the last chunk");
    CHECK(got.torn && got.count == 3, "%zu rows", got.count);
    plumb_samples_free(&got);
    free(bytes);
    check_done("damaged chunks");
}

/* A run of one rank, whose file then stands in another's place. */
static void put_rank(const char *as, const char *const *names, size_t name_count,
                     const plumb_sample *rows, size_t count)
{
    plumb_run *run;
    plumb_error why = {0};
    char name[64];
    size_t size;

    scratch_folder("one");
    CHECK_OK(plumb_run_create(scratch_at("one"), &run, &why), why);
    CHECK_OK(plumb_run_samples(run, names, name_count, rows, count, &why), why);
    plumb_run_end(&run, "reached", 30, NULL);
    char *bytes = scratch_get("one/" PLS, &size);
    snprintf(name, sizeof name, "ranks/%s", as);
    scratch_put(name, bytes, size);
    free(bytes);
    plumb_dir_remove(scratch_at("one"), NULL);
}

/* The same site and step of several ranks is one row; sites are known by name, not by number. */
static void ranks(void)
{
    static const char *const others[] = {"head/x", "layer.7/only-here"};
    plumb_sample a = sample(10, 2), b = sample(10, 0), alone = sample(20, 1);
    plumb_samples got;
    plumb_error why = {0};

    scratch_folder("ranks");
    a.scale = 4, a.amax = 1, a.decoded_amax = 5, a.headroom = 2;
    b.scale = 2, b.amax = 3, b.decoded_amax = 4, b.headroom = 0.5F;
    put_rank("sites-rank00000.pls", sites, 3, &a, 1);
    put_rank("sites-rank00007.pls", others, 2, &b, 1);
    put_rank("sites-rank00031.pls", others, 2, &alone, 1);
    CHECK_OK(plumb_samples_read(scratch_at("ranks"), &got, &why), why);
    CHECK(got.count == 2 && got.site_count == 4 &&
              strcmp(got.site_names[3], "layer.7/only-here") == 0,
          "%zu rows of %zu sites", got.count, got.site_count);
    const plumb_sample want = {.step = 10,
                               .site = 2,
                               .scale = 4,
                               .least_scale = b.least_scale,
                               .amax = 3,
                               .decoded_amax = 5,
                               .headroom = 0.5F,
                               .total = a.total + b.total,
                               .saturated = a.saturated + b.saturated,
                               .flushed = a.flushed + b.flushed,
                               .zero = a.zero + b.zero,
                               .nonfinite = a.nonfinite + b.nonfinite};

    CHECK(got.count == 2 && equal(&got.at[0], &want), "the ranks are not joined");
    alone.site = 3;
    CHECK(got.count == 2 && equal(&got.at[1], &alone), "what one rank alone has");
    plumb_samples_free(&got);

    scratch_text("ranks/sites-rank00031.pls", "something else");
    CHECK(plumb_samples_read(scratch_at("ranks"), &got, &why) == PLUMB_BAD_INPUT &&
              strstr(why.message, "sites-rank00031.pls: ") != NULL,
          "%s", why.message);
    scratch_text("ranks/sites-rank00031.pls", "PLUMB");
    CHECK_OK(plumb_samples_read(scratch_at("ranks"), &got, &why), why);
    CHECK(got.torn && got.count == 1, "%zu rows beside a torn file", got.count);
    plumb_samples_free(&got);
    check_done("ranks");
}

/* --- files of others ------------------------------------------------------------ */

static unsigned char file[4096];
static size_t used;

static void put(uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        file[used++] = (unsigned char)(value >> (8 * i));
}

static void begin(const char *text)
{
    used = 0;
    memcpy(file, "PLUMBPLS", 8);
    used = 8;
    put(1, 4);
    put(strlen(text), 4);
    put(crc(0, (const unsigned char *)text, strlen(text)), 4);
    memcpy(file + used, text, strlen(text));
    used += strlen(text);
}

/* A chunk with this payload and a right CRC. */
static void chunk(uint32_t length, uint32_t rows, uint64_t first, uint64_t last,
                  const char *payload, size_t size)
{
    const size_t start = used;

    put(length, 4);
    put(0, 4);
    put(rows, 4);
    put(0, 4);
    put(first, 8);
    put(last, 8);
    memcpy(file + used, payload, size);
    used += size;
    const size_t end = used;
    used = start + 4;
    put(crc(0, file + start + 8, end - start - 8), 4);
    used = end;
}

static plumb_status read_file(plumb_samples *got, plumb_error *why)
{
    scratch_put("c/" PLS, file, used);
    return plumb_samples_read(scratch_at("c"), got, why);
}

#define HEADER                                                                             \
    "{\"sites\":[\"a\",\"b\"],\"columns\":[[\"site\",\"u32\"],[\"mine\",\"f64\"],"         \
    "[\"step\",\"u64\"],[\"amax\",\"f32\"]]}"

static void foreign(void)
{
    static const char payload[] = "\1\0\0\0"
                                  "\0\0\0\0" /* site 1, 0 */
                                  "12345678"
                                  "abcdefgh" /* mine */
                                  "\5\0\0\0\0\0\0\0"
                                  "\6\0\0\0\0\0\0\0"
                                  "\0\0\x80\x3f"
                                  "\0\0\0\x40"; /* 1.0f, 2.0f */
    plumb_samples got;
    plumb_error why = {0};

    begin(HEADER);
    chunk(48, 2, 5, 6, payload, 48);
    CHECK_OK(read_file(&got, &why), why);
    CHECK(got.count == 2 && got.site_count == 2 && !got.torn, "%zu rows", got.count);
    if (got.count == 2)
        CHECK(got.at[0].step == 5 && got.at[0].site == 1 && got.at[0].amax == 1 &&
                  got.at[0].total == 0 && got.at[1].step == 6 && got.at[1].amax == 2,
              "values");
    plumb_samples_free(&got);
    check_done("foreign columns");
}

/* --- histograms ------------------------------------------------------------------- */

#define SPECTRA "spectra-rank00000.pls"

static plumb_histogram histogram(uint64_t step, uint32_t site)
{
    plumb_histogram h = {.sample = sample(step, site), .first = -40 + (int32_t)step};

    for (int k = 0; k < PLUMB_BINS; k++)
        h.bin[k] = (float)(100 * k + (int)step) + (float)site / 4;
    return h;
}

static bool same_bins(const plumb_histogram *a, const plumb_histogram *b)
{
    return equal(&a->sample, &b->sample) && a->first == b->first &&
           memcmp(a->bin, b->bin, sizeof a->bin) == 0;
}

static void histograms(void)
{
    const plumb_histogram rows[] = {histogram(30, 1), histogram(10, 2), histogram(30, 0)};
    const plumb_histogram want[] = {histogram(10, 2), histogram(30, 0), histogram(30, 1)};
    const plumb_sample beside[] = {sample(30, 1)};
    plumb_histograms got;
    plumb_samples samples;
    plumb_run *run;
    plumb_error why = {0};

    scratch_folder("h");
    CHECK_OK(plumb_run_create(scratch_at("h"), &run, &why), why);
    CHECK_OK(plumb_run_histograms(run, sites, 3, rows, 2, &why), why);
    CHECK_OK(plumb_run_samples(run, sites, 3, beside, 1, &why), why);
    CHECK_OK(plumb_run_histograms(run, sites, 3, rows + 2, 1, &why), why);
    CHECK(plumb_run_histograms(run, sites, 2, rows, 1, &why) == PLUMB_BAD_ARGUMENT,
          "2 sites");
    plumb_run_end(&run, "reached", 30, NULL);
    CHECK_OK(plumb_histograms_read(scratch_at("h"), &got, &why), why);
    CHECK(got.site_count == 3 && strcmp(got.site_names[1], sites[1]) == 0 && !got.torn &&
              got.count == 3,
          "%zu rows", got.count);
    for (size_t i = 0; i < got.count && i < 3; i++)
        CHECK(same_bins(&got.at[i], &want[i]), "row %zu", i);
    plumb_histograms_free(&got);
    CHECK_OK(plumb_samples_read(scratch_at("h"), &samples, &why), why);
    CHECK(samples.count == 1 && equal(&samples.at[0], beside), "the samples beside");
    plumb_samples_free(&samples);
    CHECK(plumb_histograms_read(scratch_at("r"), &got, &why) == PLUMB_NOT_FOUND, "absent");
    check_done("histograms");
}

/* A file as another trainer writes it, byte by byte: two bins, in any order. */
static void foreign_bins(void)
{
    static const char header[] =
        "{\"sites\":[\"a\"],\"columns\":[[\"step\",\"u64\"],[\"site\",\"u32\"],"
        "[\"bin_47\",\"f32\"],[\"bin_3\",\"f32\"],[\"first\",\"i32\"],[\"bin_48\",\"f32\"]]"
        "}";
    static const char payload[] = "\7\0\0\0\0\0\0\0"
                                  "\0\0\0\0"
                                  "\0\0\0\x3f"       /* 0.5 */
                                  "\0\0\xc0\x3f"     /* 1.5 */
                                  "\xf6\xff\xff\xff" /* -10 */
                                  "\0\0\x80\x3f";    /* a bin that nobody knows */
    plumb_histograms got;
    plumb_error why = {0};

    begin(header);
    chunk(28, 1, 7, 7, payload, 28);
    scratch_put("c/" SPECTRA, file, used);
    CHECK_OK(plumb_histograms_read(scratch_at("c"), &got, &why), why);
    if (CHECK(got.count == 1, "%zu rows", got.count)) {
        const plumb_histogram *h = &got.at[0];
        float sum = 0;

        for (int k = 0; k < PLUMB_BINS; k++)
            sum += h->bin[k];
        CHECK(h->sample.step == 7 && h->first == -10 && h->bin[47] == 0.5f &&
                  h->bin[3] == 1.5f && sum == 2,
              "first %d, bins %g and %g of %g", h->first, (double)h->bin[47],
              (double)h->bin[3], (double)sum);
    }
    plumb_histograms_free(&got);
    begin("{\"sites\":[\"a\"],\"columns\":[[\"step\",\"u64\"],[\"site\",\"u32\"],"
          "[\"bin_0\",\"u32\"]]}");
    scratch_put("c/" SPECTRA, file, used);
    CHECK(plumb_histograms_read(scratch_at("c"), &got, &why) == PLUMB_BAD_INPUT &&
              strstr(why.message, "bin_0 must be f32") != NULL,
          "bins of u32: %s", why.message);
    check_done("histograms of others");
}

static void hostile(void)
{
    static const char zeros[64] = {0};
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "{\"sites\":[\"a\"],\"columns\":[]}",
        "{\"sites\":[\"a\"],\"columns\":[[\"step\",\"u64\"]]}",
        "{\"sites\":[],\"columns\":[[\"step\",\"u64\"],[\"site\",\"u32\"]]}",
        "{\"sites\":[\"a b\"],\"columns\":[[\"step\",\"u64\"],[\"site\",\"u32\"]]}",
        "{\"sites\":[1],\"columns\":[[\"step\",\"u64\"],[\"site\",\"u32\"]]}",
        "{\"sites\":[\"a\"],\"columns\":[[\"step\",\"u32\"],[\"site\",\"u32\"]]}",
        "{\"sites\":[\"a\"],\"columns\":[[\"step\",\"u64\"],[\"site\",\"u16\"]]}",
        "{\"sites\":[\"a\"],\"columns\":[[\"step\"],[\"site\",\"u32\"]]}",
    };
    plumb_samples got;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        begin(texts[i]);
        CHECK(read_file(&got, NULL) == PLUMB_BAD_INPUT, "header %s", texts[i]);
    }
    begin(HEADER);
    file[8] = 2;
    CHECK(read_file(&got, NULL) == PLUMB_BAD_INPUT, "version 2");
    begin(HEADER);
    chunk(48, 0, 0, 0, zeros, 48);
    CHECK(read_file(&got, NULL) == PLUMB_BAD_INPUT, "no rows");
    begin(HEADER);
    chunk(48, 3, 0, 0, zeros, 48);
    CHECK(read_file(&got, NULL) == PLUMB_BAD_INPUT, "3 rows in 48 bytes");
    begin(HEADER);
    chunk(49, 2, 0, 0, zeros, 49);
    CHECK(read_file(&got, NULL) == PLUMB_BAD_INPUT, "49 bytes");
    begin(HEADER);
    chunk(24, 1, 1, 1, zeros, 24);
    CHECK(read_file(&got, NULL) == PLUMB_BAD_INPUT, "step 0 outside 1 to 1");
    begin(HEADER);
    chunk(24, 1, 0, 0, "\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    CHECK(read_file(&got, NULL) == PLUMB_BAD_INPUT, "site 2 of 2");
    begin(HEADER);
    chunk(0xffffffffu, 0x0aaaaaaau, 0, 0, zeros, 24);
    CHECK(read_file(&got, NULL) == PLUMB_OK && got.torn && got.count == 0, "4 GB chunk");
    plumb_samples_free(&got);
    scratch_text("c/" PLS, "PLUMBPLX and more and more and more");
    CHECK(plumb_samples_read(scratch_at("c"), &got, NULL) == PLUMB_BAD_INPUT, "magic");
    check_done("hostile");
}

int main(void)
{
    scratch_make();
    check_sum();
    round_trip();
    cuts();
    flips();
    damage();
    ranks();
    foreign();
    histograms();
    foreign_bins();
    hostile();
    scratch_remove();
    return check_exit();
}
