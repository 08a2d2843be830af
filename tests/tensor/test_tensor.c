/* Element types by name and size; sizes of views, above all those that do not fit. */
#include "plumb/tensor.h"

#include "check.h"

static void types(void)
{
    static const struct {
        plumb_type type;
        const char *name;
        size_t bytes;
    } want[] = {
        {PLUMB_TYPE_F32, "F32", 4},         {PLUMB_TYPE_BF16, "BF16", 2},
        {PLUMB_TYPE_F8_E4M3, "F8_E4M3", 1}, {PLUMB_TYPE_F8_E5M2, "F8_E5M2", 1},
        {PLUMB_TYPE_U8, "U8", 1},           {PLUMB_TYPE_I32, "I32", 4},
        {PLUMB_TYPE_I64, "I64", 8},         {PLUMB_TYPE_F64, "F64", 8},
    };
    plumb_type type = PLUMB_TYPE_I32;

    CHECK(sizeof want / sizeof want[0] == PLUMB_TYPE_COUNT, "a type is not tested");
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        CHECK(plumb_type_bytes(want[i].type) == want[i].bytes, "bytes of %s", want[i].name);
        CHECK(strcmp(plumb_type_name(want[i].type), want[i].name) == 0, "name of %s",
              want[i].name);
        CHECK(plumb_type_parse(want[i].name, &type) && type == want[i].type, "parse %s",
              want[i].name);
    }
    type = PLUMB_TYPE_I32;
    CHECK(!plumb_type_parse("f32", &type) && type == PLUMB_TYPE_I32, "f32 was accepted");
    CHECK(!plumb_type_parse("F8", &type), "F8 was accepted");
    CHECK(!plumb_type_parse("", &type), "an empty name was accepted");
    CHECK(plumb_type_bytes(PLUMB_TYPE_COUNT) == 0, "a type past the end has a size");
    CHECK(plumb_type_bytes((plumb_type)-1) == 0, "a type before the start has a size");
    CHECK(plumb_type_name(PLUMB_TYPE_COUNT) == NULL, "a type past the end has a name");
    check_done("types");
}

static void expect(plumb_view view, bool holds, size_t elements, size_t bytes)
{
    size_t got_elements = 3, got_bytes = 5;
    const bool got = plumb_view_size(&view, &got_elements, &got_bytes);

    if (!holds) {
        elements = 3;
        bytes = 5;
    }
    CHECK(got == holds && got_elements == elements && got_bytes == bytes,
          "ndim %d, shape %zu %zu: %d, %zu elements, %zu bytes", view.ndim, view.shape[0],
          view.shape[1], got, got_elements, got_bytes);
}

static void views(void)
{
    expect((plumb_view){.type = PLUMB_TYPE_I64, .ndim = 0}, true, 1, 8);
    expect((plumb_view){.type = PLUMB_TYPE_F32, .ndim = 2, .shape = {3, 5}}, true, 15, 60);
    expect((plumb_view){.type = PLUMB_TYPE_U8, .ndim = 2, .shape = {0, SIZE_MAX}}, true, 0,
           0);
    expect(
        (plumb_view){.type = PLUMB_TYPE_BF16, .ndim = 8, .shape = {2, 2, 2, 2, 2, 2, 2, 2}},
        true, 256, 512);
    check_done("sizes of views");

    expect((plumb_view){.type = PLUMB_TYPE_U8, .ndim = 2, .shape = {SIZE_MAX, 2}}, false, 0,
           0);
    expect((plumb_view){.type = PLUMB_TYPE_F64, .ndim = 1, .shape = {SIZE_MAX / 4}}, false,
           0, 0);
    expect((plumb_view){.type = PLUMB_TYPE_U8, .ndim = 9}, false, 0, 0);
    expect((plumb_view){.type = PLUMB_TYPE_U8, .ndim = -1}, false, 0, 0);
    expect((plumb_view){.type = PLUMB_TYPE_COUNT, .ndim = 0}, false, 0, 0);
    check_done("views that do not fit leave the outputs alone");
}

int main(void)
{
    types();
    views();
    return check_exit();
}
