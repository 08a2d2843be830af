/* npy: bytes written by hand as NumPy writes them, hostile headers, and a file cut at every
 * length.  Values are compared with literals, never with what the writer makes of them.
 */
#include "plumb/file.h"

#include <math.h>

#include "check.h"
#include "file/scratch.h"

/* A file of this version with this dictionary and data behind it; its size. */
static size_t put(const char *name, int version, const char *dictionary, const void *data,
                  size_t data_size)
{
    static unsigned char bytes[70000];
    const size_t length = strlen(dictionary), start = version == 1 ? 10 : 12;

    memcpy(bytes, "\x93NUMPY", 6);
    bytes[6] = (unsigned char)version;
    bytes[7] = 0;
    for (size_t i = 8; i < start; i++)
        bytes[i] = (unsigned char)(length >> 8 * (i - 8));
    memcpy(bytes + start, dictionary, length);
    if (data_size > 0)
        memcpy(bytes + start + length, data, data_size);
    scratch_put(name, bytes, start + length + data_size);
    return start + length + data_size;
}

static plumb_status load(const char *name, const plumb_format *codes, plumb_npy *array,
                         plumb_error *why)
{
    why->message[0] = 0;
    const plumb_status status = plumb_npy_load(scratch_at(name), codes, array, why);

    CHECK((status == PLUMB_OK) == (array->x != NULL), "status %d, x %p", (int)status,
          (void *)array->x);
    CHECK((status == PLUMB_OK) == (why->message[0] == 0), "status %d, '%s'", (int)status,
          why->message);
    return status;
}

static const char six_f4[] =
    "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0"
    "\x40"; /* 1 2 3 4 5 6 */

/* What a good file holds: data as NumPy lays it out, values in rows. */
static const struct {
    const char *dictionary, *data;
    size_t data_size;
    plumb_format codes; /* PLUMB_FORMAT_COUNT: none named */
    size_t rows, cols, inexact;
    float x[6];
} good[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n",
     six_f4,
     24,
     PLUMB_FORMAT_COUNT,
     2,
     3,
     0,
     {1, 2, 3, 4, 5, 6}},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }",
     six_f4,
     24,
     PLUMB_FORMAT_COUNT,
     2,
     3,
     0,
     {1, 3, 5, 2, 4, 6}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }",
     six_f4,
     24,
     PLUMB_FORMAT_COUNT,
     1,
     6,
     0,
     {1, 2, 3, 4, 5, 6}},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }",
     six_f4,
     24,
     PLUMB_FORMAT_COUNT,
     1,
     6,
     0,
     {1, 2, 3, 4, 5, 6}},
    {"{ \"shape\":(6 ,1),\"fortran_order\" : False,\n'descr':\"<f4\"}",
     six_f4,
     24,
     PLUMB_FORMAT_COUNT,
     6,
     1,
     0,
     {1, 2, 3, 4, 5, 6}},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1, 2)}",
     "\x3f\x80\0\0\x40\x49\x0f\xdb",
     8,
     PLUMB_FORMAT_COUNT,
     1,
     2,
     0,
     {1, 0x1.921fb6p1f}},
    {"{'descr': '<f2', 'fortran_order': False, 'shape': (1, 4)}",
     "\0\x3c\xff\x7b\x01\x00\x00\xc0",
     8,
     PLUMB_FORMAT_COUNT,
     1,
     4,
     0,
     {1, 65504, 0x1p-24f, -2}},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (4,)}",
     "\0\0\0\0\0\0\xf0\x3f"             /* 1 */
     "\x9a\x99\x99\x99\x99\x99\xb9\x3f" /* 0.1 */
     "\0\0\0\x10\0\0\xf0\x3f"           /* 1 + 2^-24: a tie, to even */
     "\x01\0\0\x10\0\0\xf0\x3f",        /* the next number */
     32,
     PLUMB_FORMAT_COUNT,
     1,
     4,
     3,
     {1, 0x1.99999ap-4f, 1, 0x1.000002p0f}},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 3)}",
     "\x38\x7e\x81",
     3,
     PLUMB_E4M3,
     1,
     3,
     0,
     {1, 448, -0x1p-9f}},
    {"{'descr': '<V1', 'fortran_order': False, 'shape': (1, 3)}",
     "\x38\x7e\x81",
     3,
     PLUMB_E4M3,
     1,
     3,
     0,
     {1, 448, -0x1p-9f}},
    {"{'descr': '<f1', 'fortran_order': False, 'shape': (1, 3)}",
     "\x3c\x7b\x81",
     3,
     PLUMB_E5M2,
     1,
     3,
     0,
     {1, 57344, -0x1p-16f}},
    {"{'descr': '<V2', 'fortran_order': False, 'shape': (1, 2)}",
     "\x80\x3f\x49\xc0",
     4,
     PLUMB_BF16,
     1,
     2,
     0,
     {1, -3.140625f}},
    {"{'descr': '<u2', 'fortran_order': False, 'shape': (1, 2)}",
     "\0\x3c\xff\x7b",
     4,
     PLUMB_FP16,
     1,
     2,
     0,
     {1, 65504}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 7)}",
     NULL,
     0,
     PLUMB_FORMAT_COUNT,
     0,
     7,
     0,
     {0}},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (7, 0)}",
     NULL,
     0,
     PLUMB_FORMAT_COUNT,
     7,
     0,
     0,
     {0}},
};

static void values(void)
{
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        for (int version = 1; version <= 3; version++) {
            const bool named = good[i].codes != PLUMB_FORMAT_COUNT;
            plumb_error why = {0};
            plumb_npy array;

            put("v.npy", version, good[i].dictionary, good[i].data, good[i].data_size);
            if (load("v.npy", named ? &good[i].codes : NULL, &array, &why) != PLUMB_OK) {
                CHECK(false, "%s: %s", good[i].dictionary, why.message);
                continue;
            }
            CHECK(array.rows == good[i].rows && array.cols == good[i].cols &&
                      array.inexact == good[i].inexact,
                  "%s: %zu x %zu, %zu inexact", good[i].dictionary, array.rows, array.cols,
                  array.inexact);
            for (size_t j = 0; j < array.rows * array.cols; j++)
                CHECK(array.x[j] == good[i].x[j], "%s: [%zu] is %a, not %a",
                      good[i].dictionary, j, (double)array.x[j], (double)good[i].x[j]);
            plumb_npy_free(&array);
        }
    check_done("values of each type, order and version");
}

/* Headers that must be refused, and a word of the sentence. */
static const struct {
    const char *dictionary, *word;
} wrong[] = {
    {"", "no dictionary"},
    {"[]", "no dictionary"},
    {"{}", "missing"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6)} 0", "follows"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6)", "no ',' between"},
    {"{'descr': '<f4', 'fortran_order': False}", "missing"},
    {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 6)}", "twice"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6), 'x': 1}", "none of"},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (1, 6)}", "no ','"},
    {"{'descr' '<f4', 'fortran_order': False, 'shape': (1, 6)}", "no ':'"},
    {"{descr: '<f4', 'fortran_order': False, 'shape': (1, 6)}", "no key"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1, 6)}", "True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': [1, 6]}", "tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, -6)}", "other than sizes"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 6)}", "other than sizes"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6.0)}", "other than sizes"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 6)}", "two dimensions"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "scalar"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 18446744073709551622)}",
     "other than sizes"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775809, 2)}",
     "no file can hold"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387910, 1)}",
     "no file can hold"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 5)}", "are 20"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 7)}", "are 28"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 0)}", "are 0"},
    {"{'descr': '<i8', 'fortran_order': False, 'shape': (1, 3)}", "'<i8'; allowed"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1, 3)}", "'<c8'; allowed"},
    {"{'descr': '<f16', 'fortran_order': False, 'shape': (1, 3)}", "'<f16'; allowed"},
    {"{'descr': '|u0', 'fortran_order': False, 'shape': (1, 3)}", "'|u0'; allowed"},
    {"{'descr': '|O', 'fortran_order': False, 'shape': (1, 3)}", "no type"},
    {"{'descr': '', 'fortran_order': False, 'shape': (1, 3)}", "no type"},
    {"{'descr': '<', 'fortran_order': False, 'shape': (1, 3)}", "no type"},
    {"{'descr': '<f4x', 'fortran_order': False, 'shape': (1, 3)}", "no type"},
    {"{'descr': '<f\\x34', 'fortran_order': False, 'shape': (1, 6)}", "short string"},
    {"{'descr': '<f4, 'fortran_order': False, 'shape': (1, 6)}", "no type"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 6)}", "list"},
    {"{'descr': __import__('os').abort(), 'fortran_order': False, 'shape': (1, 6)}",
     "short string"},
};

static void headers(void)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        plumb_error why = {0};
        plumb_npy array;

        put("w.npy", 1, wrong[i].dictionary, six_f4, 24);
        const plumb_status status = load("w.npy", NULL, &array, &why);

        CHECK(status == PLUMB_BAD_INPUT, "%s: %d", wrong[i].dictionary, (int)status);
        CHECK(strstr(why.message, wrong[i].word) != NULL &&
                  strstr(why.message, "w.npy") != NULL,
              "%s: '%s'", wrong[i].dictionary, why.message);
    }
    check_done("headers that are refused, with a sentence");
}

/* The ten or twelve bytes before the dictionary. */
static void starts(void)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *word;
    } table[] = {
        {"", 0, "no npy file"},
        {"\x93NUMPY\1\0\2", 9, "no npy file"},
        {"\x93NUMPX\1\0\2\0{}", 12, "no npy file"},
        {"\x93NUMPY\0\0\2\0{}", 12, "version 0.0"},
        {"\x93NUMPY\4\0\2\0\0\0{}", 14, "version 4.0"},
        {"\x93NUMPY\1\1\2\0{}", 12, "version 1.1"},
        {"\x93NUMPY\1\0\3\0{}", 12, "ends inside"},
        {"\x93NUMPY\2\0\2\0\0", 11, "ends inside"},
        {"\x93NUMPY\2\0\2\0\0\0", 12, "ends inside"},
        {"\x93NUMPY\2\0\1\0\1\0{}", 14, "allowed: 65536"},
        {"\x93NUMPY\3\0\xff\xff\xff\xff{}", 14, "allowed: 65536"},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        plumb_error why = {0};
        plumb_npy array;

        scratch_put("s.npy", table[i].bytes, table[i].size);
        CHECK(load("s.npy", NULL, &array, &why) == PLUMB_BAD_INPUT &&
                  strstr(why.message, table[i].word) != NULL,
              "start %zu: '%s'", i, why.message);
    }
    check_done("starts that are refused");
}

static void codes(void)
{
    static const struct {
        const char *descr;
        bool named;
        plumb_format format;
        plumb_status status;
    } table[] = {
        {"|u1", false, PLUMB_E4M3, PLUMB_UNSUPPORTED},
        {"<V2", false, 0, PLUMB_UNSUPPORTED},
        {"<f1", false, 0, PLUMB_UNSUPPORTED},
        {"<u2", false, 0, PLUMB_UNSUPPORTED},
        {"<V2", true, PLUMB_E4M3, PLUMB_BAD_FORMAT},
        {"|u1", true, PLUMB_BF16, PLUMB_BAD_FORMAT},
        {"<f2", true, PLUMB_FP16, PLUMB_BAD_FORMAT},
        {"<f4", true, PLUMB_FP32, PLUMB_BAD_FORMAT},
        {"|u1", true, (plumb_format)99, PLUMB_BAD_FORMAT},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        char dictionary[100];
        plumb_error why = {0};
        plumb_npy array;

        snprintf(dictionary, sizeof dictionary,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (1, %d)}",
                 table[i].descr, 24 / (table[i].descr[2] - '0'));
        put("c.npy", 1, dictionary, six_f4, 24);
        const plumb_status status =
            load("c.npy", table[i].named ? &table[i].format : NULL, &array, &why);

        CHECK(status == table[i].status && strstr(why.message, table[i].descr) != NULL,
              "'%s': %d '%s'", table[i].descr, (int)status, why.message);
    }
    check_done("codes are named, and only codes");
}

/* Bytes of packed codes are no codes; reading them would make other numbers. */
static void packed(void)
{
    static const struct {
        const char *data;
        plumb_format format;
        const char *says; /* NULL: all are codes */
    } table[] = {
        {"\x0f\x07", PLUMB_E2M1, NULL},
        {"\x07\x10", PLUMB_E2M1, "byte 1 of the data is 0x10, no code of e2m1"},
        {"\x3f\x20", PLUMB_E3M2, NULL},
        {"\x80\x20", PLUMB_E2M3, "byte 0 of the data is 0x80, no code of e2m3"},
        {"\x7e\xff", PLUMB_UE4M3, "byte 1 of the data is 0xff, no code of ue4m3"},
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        plumb_error why = {0};
        plumb_npy array;

        put("p.npy", 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}",
            table[i].data, 2);
        const plumb_status status = load("p.npy", &table[i].format, &array, &why);

        if (table[i].says == NULL)
            CHECK(status == PLUMB_OK && array.cols == 2, "%zu: '%s'", i, why.message);
        else
            CHECK(status == PLUMB_BAD_INPUT && array.x == NULL &&
                      strstr(why.message, table[i].says) != NULL,
                  "%zu: %d '%s'", i, (int)status, why.message);
        plumb_npy_free(&array);
    }
    check_done("codes that are packed");
}

static void cut(void)
{
    static unsigned char bytes[200];
    const size_t size =
        put("whole.npy", 2, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
            six_f4, 24);
    size_t got;
    char *whole = scratch_get("whole.npy", &got);

    CHECK(whole != NULL && got == size && size < sizeof bytes, "%zu bytes", got);
    for (size_t n = 0; n <= size + 1; n++) {
        plumb_error why = {0};
        plumb_npy array;

        memcpy(bytes, whole, n <= size ? n : size);
        scratch_put("cut.npy", bytes, n);
        CHECK((load("cut.npy", NULL, &array, &why) == PLUMB_OK) == (n == size),
              "%zu of %zu bytes", n, size);
        plumb_npy_free(&array);
    }
    free(whole);
    check_done("cut at every length, and one byte too many");
}

static void missing(void)
{
    plumb_error why = {0};
    plumb_npy array;

    CHECK(load("nowhere.npy", NULL, &array, &why) == PLUMB_NOT_FOUND, "%s", why.message);
    scratch_folder("folder");
    CHECK(load("folder", NULL, &array, &why) == PLUMB_BAD_INPUT, "%s", why.message);
    check_done("no file");
}

/* The bytes that numpy.save writes for the same matrix, but for the order of the keys' values,
 * which NumPy fixes as here.
 */
static void saved(void)
{
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    const char *dictionary = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    plumb_error why = {0};
    size_t size;

    CHECK_OK(plumb_npy_save(scratch_at("out.npy"), x, 2, 3, &why), why);
    char *got = scratch_get("out.npy", &size);

    if (CHECK(got != NULL && size == 128 + 24, "%zu bytes", size)) {
        CHECK(memcmp(got, "\x93NUMPY\1\0\x76\0", 10) == 0, "the first ten bytes");
        CHECK(memcmp(got + 10, dictionary, strlen(dictionary)) == 0, "%.118s", got + 10);
        CHECK(strspn(got + 10 + strlen(dictionary), " ") == 117 - strlen(dictionary) &&
                  got[127] == '\n',
              "padding");
        CHECK(memcmp(got + 128, six_f4, 24) == 0, "data");
    }
    free(got);
    CHECK(plumb_npy_save(scratch_at("big.npy"), x, SIZE_MAX / 2, 3, &why) ==
              PLUMB_BAD_SHAPE,
          "a size that overflows");
    CHECK(plumb_npy_save(scratch_at("nowhere/out.npy"), x, 2, 3, &why) == PLUMB_IO,
          "no such folder");
    check_done("saved as NumPy saves");
}

int main(void)
{
    scratch_make();
    values();
    headers();
    starts();
    codes();
    packed();
    cut();
    missing();
    saved();
    scratch_remove();
    return check_exit();
}
