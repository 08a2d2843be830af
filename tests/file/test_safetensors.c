/* safetensors: bytes written by hand, hostile headers, and a file cut at every length. */
#include "plumb/file.h"

#include "check.h"
#include "file/scratch.h"

/* A file with this header and data_size bytes 0, 1, 2, ... behind it. */
static size_t put(const char *name, const char *header, size_t length, size_t data_size)
{
    static unsigned char bytes[70000];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((unsigned long long)length >> (8 * i));
    const size_t size = strlen(header);
    memcpy(bytes + 8, header, size);
    for (size_t i = 0; i < data_size; i++)
        bytes[8 + size + i] = (unsigned char)i;
    scratch_put(name, bytes, 8 + size + data_size);
    return 8 + size + data_size;
}

static plumb_status open_header(const char *header, size_t data_size, plumb_error *why)
{
    plumb_safetensors *file;

    put("h", header, strlen(header), data_size);
    const plumb_status status = plumb_safetensors_open(scratch_at("h"), &file, why);
    CHECK((status == PLUMB_OK) == (file != NULL), "status %d and file %p", (int)status,
          (void *)file);
    plumb_safetensors_close(&file);
    return status;
}

/* data_size, then a header that must open (good) or not. */
static const struct {
    bool good;
    size_t data;
    const char *header;
} headers[] = {
    {true, 0, "{}"},
    {true, 0, "{\"__metadata__\":{\"a\":\"b\"}}"},
    {true, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"},
    {true, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}   "},
    {true, 0, "{\"a\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[0,0]}}"},
    {true, 6,
     "{\"b\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[2,6]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"},
    {false, 1, "{}"},
    {false, 0, "[]"},
    {false, 0, ""},
    {false, 0, "{\"__metadata__\":{\"a\":1}}"},
    {false, 0, "{\"__metadata__\":3}"},
    {false, 4, "{\"a\":3}"},
    {false, 4, "{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}"},
    {false, 4, "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}"},
    {false, 4, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}"},
    {false, 8, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}"},
    {false, 8, "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"},
    {false, 4,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"},
    {false, 9,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[5,9]}}"},
    {false, 8,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
     "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}"},
    {false, 4,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}"},
    {false, 4,
     "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,2],\"data_offsets\":[0,4]}"
     "}"},
    {false, 4,
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,4]}}"},
};

static void by_hand(void)
{
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        plumb_error why = {0};
        const plumb_status status = open_header(headers[i].header, headers[i].data, &why);

        CHECK(status == (headers[i].good ? PLUMB_OK : PLUMB_BAD_INPUT), "%s: %d, '%s'",
              headers[i].header, (int)status, why.message);
    }
    check_done("headers by hand");
}

static void lengths(void)
{
    static const unsigned long long table[] = {3,          1000,  100000001,
                                               1ull << 40, ~0ull, ~0ull - 7};

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        plumb_safetensors *file;
        put("l", "{}", (size_t)table[i], 0);
        CHECK(plumb_safetensors_open(scratch_at("l"), &file, NULL) == PLUMB_BAD_INPUT,
              "length %llu", table[i]);
    }
    check_done("header lengths");
}

/* Both tensors of a file whose header is followed by some spaces, so that the data lie at
 * every place relative to a multiple of 4.
 */
static void values_at(const char *spaces)
{
    char header[300];
    plumb_safetensors *file;
    plumb_error why = {0};

    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
             "\"b\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[2,10]},"
             "\"__metadata__\":{\"k\":\"v\"}}%s",
             spaces);
    put("v", header, strlen(header), 10);
    if (!CHECK_OK(plumb_safetensors_open(scratch_at("v"), &file, &why), why))
        return;
    CHECK(plumb_safetensors_count(file) == 2, "%zu tensors", plumb_safetensors_count(file));
    CHECK(plumb_safetensors_at(file, 2) == NULL &&
              plumb_safetensors_find(file, "c") == NULL,
          "a third tensor");
    const plumb_named_view *a = plumb_safetensors_find(file, "a");
    const plumb_named_view *b = plumb_safetensors_find(file, "b");
    if (CHECK(a != NULL && b != NULL, "not found")) {
        CHECK(a->view.type == PLUMB_TYPE_U8 && a->view.ndim == 1 && a->view.shape[0] == 2 &&
                  memcmp(a->view.data, "\0\1", 2) == 0,
              "a is wrong");
        CHECK(b->view.ndim == 2 && b->view.shape[0] == 1 && b->view.shape[1] == 2 &&
                  (uintptr_t)b->view.data % 4 == 0 &&
                  memcmp(b->view.data, "\2\3\4\5\6\7\10\11", 8) == 0,
              "b is wrong or askew");
    }
    const json_t *k = json_object_get(plumb_safetensors_metadata(file), "k");
    CHECK(k != NULL && strcmp(json_string_value(k), "v") == 0, "metadata");
    plumb_safetensors_close(&file);
    plumb_safetensors_close(&file);
}

static void values(void)
{
    static const char *const spaces[] = {"", " ", "  ", "   "};

    for (size_t i = 0; i < 4; i++)
        values_at(spaces[i]);
    check_done("values");
}

/* A header that claims a byte more than a file of exactly one page has. */
static void page(void)
{
    char header[4096 - 8 + 1];
    plumb_safetensors *file;

    memset(header, ' ', sizeof header - 1);
    memcpy(header, "{}", 2);
    header[sizeof header - 1] = 0;
    put("p", header, sizeof header - 1, 0);
    CHECK(plumb_safetensors_open(scratch_at("p"), &file, NULL) == PLUMB_OK, "one page");
    plumb_safetensors_close(&file);
    put("p", header, sizeof header, 0);
    CHECK(plumb_safetensors_open(scratch_at("p"), &file, NULL) == PLUMB_BAD_INPUT,
          "a byte past the page");
    check_done("one page");
}

static plumb_status save(const char *name, json_t *metadata)
{
    static float f[6] = {1, 2, 3, 4, 5, 6};
    static unsigned char u[3] = {7, 8, 9};
    const plumb_named_view tensors[] = {
        {"layer.0/w", {f, PLUMB_TYPE_F32, 2, {2, 3}}},
        {"step", {u, PLUMB_TYPE_U8, 1, {3}}},
        {"none", {NULL, PLUMB_TYPE_F64, 1, {0}}},
    };

    return plumb_safetensors_save(scratch_at(name), tensors, 3, metadata, NULL);
}

static void saved(void)
{
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    plumb_safetensors *file;
    plumb_error why = {0};
    size_t size;
    static const char want[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"layer.0/w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"step\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]},"
        "\"none\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[27,27]}}";

    CHECK(save("s", metadata) == PLUMB_OK, "not saved");
    char *bytes = scratch_get("s", &size);
    CHECK(memcmp(bytes + 8, want, strlen(want)) == 0, "header: %.300s", bytes + 8);
    CHECK((unsigned char)bytes[0] == (strlen(want) + 7) / 8 * 8 && bytes[1] == 0,
          "length %d", bytes[0]);
    CHECK(memcmp(bytes + size - 3, "\7\10\11", 3) == 0, "last bytes");
    CHECK_OK(plumb_safetensors_open(scratch_at("s"), &file, &why), why);
    const plumb_named_view *w = plumb_safetensors_find(file, "layer.0/w");
    CHECK(w != NULL && ((const float *)w->view.data)[5] == 6, "values");
    plumb_safetensors_close(&file);
    int opened = 0;
    for (size_t n = 0; n < size; n++) {
        scratch_put("cut", bytes, n);
        opened += plumb_safetensors_open(scratch_at("cut"), &file, NULL) == PLUMB_OK;
        plumb_safetensors_close(&file);
    }
    CHECK(opened == 0, "%d of %zu cut files opened", opened, size);
    free(bytes);
    json_decref(metadata);
    check_done("saved, and cut anywhere");
}

static void refused(void)
{
    float f = 1;
    const plumb_named_view twice[] = {{"a", {&f, PLUMB_TYPE_F32, 1, {1}}},
                                      {"a", {&f, PLUMB_TYPE_F32, 1, {1}}}};
    const plumb_named_view huge = {"a", {&f, PLUMB_TYPE_F32, 2, {SIZE_MAX / 2, 4}}};
    const plumb_named_view name = {"__metadata__", {&f, PLUMB_TYPE_F32, 1, {1}}};

    CHECK(plumb_safetensors_save(scratch_at("r"), twice, 2, NULL, NULL) ==
              PLUMB_BAD_ARGUMENT,
          "one name twice");
    CHECK(plumb_safetensors_save(scratch_at("r"), &huge, 1, NULL, NULL) == PLUMB_BAD_SHAPE,
          "impossible shape");
    CHECK(plumb_safetensors_save(scratch_at("r"), &name, 1, NULL, NULL) ==
              PLUMB_BAD_ARGUMENT,
          "reserved name");
    check_done("refused to save");
}

int main(void)
{
    scratch_make();
    by_hand();
    lengths();
    values();
    page();
    saved();
    refused();
    scratch_remove();
    return check_exit();
}
