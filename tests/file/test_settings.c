/* Settings: what a run file may say, and the sentence for each thing it may not. */
#include "plumb/file.h"

#include <inttypes.h>

#include "check.h"
#include "file/scratch.h"

typedef struct run_settings {
    int64_t width, heads;
    double rate;
    bool decay;
    char *kind, *out;
    plumb_strings data;
    json_t *rules;
} run_settings;

static const plumb_setting table[] = {
    {"model.width", PLUMB_SETTING_INT, offsetof(run_settings, width), 8, 1024, "64", NULL,
     "width"},
    {"model.heads", PLUMB_SETTING_INT, offsetof(run_settings, heads), 1, 64, "4", NULL,
     "heads"},
    {"rate", PLUMB_SETTING_REAL, offsetof(run_settings, rate), 0, 0.5, "0.001", NULL,
     "learning rate; words enough that this line has to be broken, and more of them still"},
    {"decay", PLUMB_SETTING_BOOL, offsetof(run_settings, decay), 0, 0, "true", NULL,
     "weight decay"},
    {"kind", PLUMB_SETTING_STRING, offsetof(run_settings, kind), 0, 0, "bf16",
     "bf16 fp8 fp32", "kind"},
    {"out", PLUMB_SETTING_STRING, offsetof(run_settings, out), 0, 0, NULL, NULL,
     "where to write"},
    {"data", PLUMB_SETTING_LIST, offsetof(run_settings, data), 0, 0, "[a, b]", NULL,
     "files"},
    {"rules", PLUMB_SETTING_TABLE, offsetof(run_settings, rules), 0, 0, NULL, NULL,
     "policy rules"},
};
enum { COUNT = sizeof table / sizeof table[0] };

static plumb_status load(run_settings *run, const char *text, const char *override,
                         plumb_error *why)
{
    memset(run, 0, sizeof *run);
    if (text != NULL)
        scratch_text("r.yaml", text);
    return plumb_settings_load(table, COUNT, text != NULL ? scratch_at("r.yaml") : NULL,
                               &override, override != NULL, run, why);
}

/* The message for a file, or an override, without the folder in front. */
static const char *message(const char *text, const char *override)
{
    static plumb_error why;
    run_settings run;

    if (load(&run, text, override, &why) == PLUMB_OK) {
        plumb_settings_free(table, COUNT, &run);
        return "(accepted)";
    }
    const char *name = strstr(why.message, "r.yaml");
    return name != NULL ? name : why.message;
}

static const char *manifest(const char *text, const char *override)
{
    static char shown[2000];
    plumb_error why = {0};
    run_settings run;

    if (load(&run, text, override, &why) != PLUMB_OK)
        return strcpy(shown, why.message);
    json_t *json = plumb_settings_to_json(table, COUNT, &run);
    char *dump = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(17));
    snprintf(shown, sizeof shown, "%s", dump);
    free(dump);
    json_decref(json);
    plumb_settings_free(table, COUNT, &run);
    CHECK(run.kind == NULL && run.data.at == NULL && run.rules == NULL, "not zeroed");
    return shown;
}

#define DEFAULTS                                                                           \
    "{\"model.width\":64,\"model.heads\":4,\"rate\":0.001,\"decay\":true,"                 \
    "\"kind\":\"bf16\",\"out\":null,\"data\":[\"a\",\"b\"],\"rules\":null}"

static const struct {
    const char *text, *override, *want;
} accepted[] = {
    {NULL, NULL, DEFAULTS},
    {"", NULL, DEFAULTS},
    {"# nothing\n", NULL, DEFAULTS},
    {"{}", NULL, DEFAULTS},
    {"model:\nrate:\nout: null\nkind: ~\n", NULL, DEFAULTS},
    {DEFAULTS, NULL, DEFAULTS}, /* the manifest is a run file */
    {"%YAML 1.2\n---\nmodel: {width: 8}\n...\n", "rate=0",
     "{\"model.width\":8,\"model.heads\":4,\"rate\":0.0,\"decay\":true,\"kind\":\"bf16\","
     "\"out\":null,\"data\":[\"a\",\"b\"],\"rules\":null}"},
    {"model.width: 1024\nmodel:\n  heads: 64\ndecay: false\nrate: +.5e0\nkind: 'fp8'\n"
     "out: \"a\\tb\"\ndata: x\n",
     "out=a=b",
     "{\"model.width\":1024,\"model.heads\":64,\"rate\":0.5,\"decay\":false,\"kind\":"
     "\"fp8\","
     "\"out\":\"a=b\",\"data\":[\"x\"],\"rules\":null}"},
    {"data: []\nrules:\n- sites: ['*/x', y]\n  use: bf16\n  n: 3\n  r: 1e-2\n  t: true\n"
     "  q: '3'\n  z: null\n  v: yes\n  i: .inf\n",
     NULL,
     "{\"model.width\":64,\"model.heads\":4,\"rate\":0.001,\"decay\":true,\"kind\":"
     "\"bf16\","
     "\"out\":null,\"data\":[],\"rules\":[{\"sites\":[\"*/"
     "x\",\"y\"],\"use\":\"bf16\",\"n\":3,"
     "\"r\":0.01,\"t\":true,\"q\":\"3\",\"z\":null,\"v\":\"yes\",\"i\":\".inf\"}]}"},
    {"data: x", "data=[p, 'q r']",
     "{\"model.width\":64,\"model.heads\":4,\"rate\":0.001,\"decay\":true,\"kind\":"
     "\"bf16\","
     "\"out\":null,\"data\":[\"p\",\"q r\"],\"rules\":null}"},
    {NULL, "rules=[{sites: a, use: e4m3}]",
     "{\"model.width\":64,\"model.heads\":4,\"rate\":0.001,\"decay\":true,\"kind\":"
     "\"bf16\","
     "\"out\":null,\"data\":[\"a\",\"b\"],\"rules\":[{\"sites\":\"a\",\"use\":\"e4m3\"}]}"},
};

static void good(void)
{
    for (size_t i = 0; i < sizeof accepted / sizeof accepted[0]; i++) {
        const char *got = manifest(accepted[i].text, accepted[i].override);
        CHECK(strcmp(got, accepted[i].want) == 0, "case %zu: %s", i, got);
    }
    check_done("accepted");
}

static const struct {
    const char *text, *override, *want;
} refused[] = {
    {"rate: 0\nmodle:\n  width: 3\n", NULL,
     "r.yaml:3: unknown key 'modle.width'; did you mean 'model.width'?"},
    {"model:\n  heads: 0\n", NULL, "r.yaml:2: model.heads is 0; allowed: 1 to 64"},
    {"model: {heads: 65}", NULL, "r.yaml:1: model.heads is 65; allowed: 1 to 64"},
    {"model: {heads: 4.0}", NULL, "r.yaml:1: model.heads is 4.0; allowed: 1 to 64"},
    {"model: {heads: 4 5}", NULL,
     "r.yaml:1: model.heads is '4 5'; allowed: a whole number, 1 to 64"},
    {"model: {heads: 0x4}", NULL,
     "r.yaml:1: model.heads is '0x4'; allowed: a whole number, 1 to 64"},
    {"rate: nan", NULL, "r.yaml:1: rate is 'nan'; allowed: a number, 0 to 0.5"},
    {"rate: .inf", NULL, "r.yaml:1: rate is '.inf'; allowed: a number, 0 to 0.5"},
    {"rate: -0.001", NULL, "r.yaml:1: rate is -0.001; allowed: 0 to 0.5"},
    {"rate: 0.51", NULL, "r.yaml:1: rate is 0.51; allowed: 0 to 0.5"},
    {"decay: yes", NULL, "r.yaml:1: decay is 'yes'; allowed: true, false"},
    {"kind: fp16", NULL, "r.yaml:1: kind is 'fp16'; allowed: bf16, fp8, fp32"},
    {"kind: fp", NULL, "r.yaml:1: kind is 'fp'; allowed: bf16, fp8, fp32"},
    {"kind: [fp8]", NULL, "r.yaml:1: kind is a list; allowed: one value"},
    {"rate: {a: 1}", NULL, "r.yaml:1: rate is a mapping; allowed: one value"},
    {"model: 3", NULL, "r.yaml:1: 'model' is a group of settings, not a value"},
    {"zzz: 1", NULL, "r.yaml:1: unknown key 'zzz'"},
    {"data: {a: b}", NULL, "r.yaml:1: data must be a string or a list of strings"},
    {"data: [[a]]", NULL, "r.yaml:1: data must be a string or a list of strings"},
    {"rules: [1]", NULL, "r.yaml:1: rules must be a list of mappings"},
    {"rules: x", NULL, "r.yaml:1: rules must be a list of mappings"},
    {"rate: 0\nrate: 0\n", NULL, "r.yaml:2: key 'rate' is given twice (see line 1)"},
    {"model: {width: 9}\nmodel.width: 9\n", NULL,
     "r.yaml:2: model.width is given twice (see line 1)"},
    {"rules: [{a: 1, a: 2}]", NULL, "r.yaml:1: key 'a' is given twice (see line 1)"},
    {"rate: &x 0", NULL, "r.yaml:1: anchors (&name) are not allowed"},
    {"kind: *x", NULL, "r.yaml:1: aliases (*name) are not allowed"},
    {"rate: !!float 0", NULL, "r.yaml:1: tags (!name) are not allowed"},
    {"!x\nrate: 0", NULL, "r.yaml:2: tags (!name) are not allowed"},
    {"rate: 0\n---\nrate: 0\n", NULL, "r.yaml:2: a second document (---) in the file"},
    {"- a\n- b\n", NULL, "r.yaml:1: not a mapping of settings"},
    {"rules: [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]", NULL,
     "r.yaml:1: nested deeper than 16"},
    {"rate: 0\nkind: a\x01"
     "b\n",
     NULL, "r.yaml:2: a control character"},
    {NULL, "model.width=0", "--set model.width=0: model.width is 0; allowed: 8 to 1024"},
    {NULL, "modl.width=9",
     "--set modl.width=9: unknown key 'modl.width'; did you mean 'model.width'?"},
    {NULL, "rate", "--set rate: must be key=value"},
    {NULL, "=3", "--set =3: must be key=value"},
    {NULL, "rate=", "--set rate=: rate is ''; allowed: a number, 0 to 0.5"},
    {NULL, "rate= 0", "--set rate= 0: rate is ' 0'; allowed: a number, 0 to 0.5"},
    {NULL, "data=[a", "--set data=[a: flow sequence without a closing bracket"},
};

static void bad(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *got = message(refused[i].text, refused[i].override);
        CHECK(strcmp(got, refused[i].want) == 0, "got '%s', want '%s'", got,
              refused[i].want);
    }
    static const char *const broken[] = {
        "rate: [1", "rate: 'a",   "\trate: 0", "rate: 0\n  b: 1",
        "{",        "? [a]\n: b", "\xff\xfe",  "a: \"\\xzz\"",
        "%",        "@"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        const char *got = message(broken[i], NULL);
        CHECK(strncmp(got, "r.yaml:", 7) == 0 && got[7] >= '1' && got[7] <= '9',
              "'%s' for %s", got, broken[i]);
    }
    check_done("refused");
}

static void limits(void)
{
    enum { BIG = (1 << 20) + 2 };
    static char text[BIG];
    char long_value[4200];
    plumb_error why;
    run_settings run;

    memset(text, '#', BIG - 1);
    CHECK(strstr(message(text, NULL), "allowed: at most 1048576") != NULL, "%s",
          message(text, NULL));
    memset(long_value, 'x', sizeof long_value - 1);
    memcpy(long_value, "out=", 4);
    long_value[sizeof long_value - 1] = 0;
    CHECK(load(&run, NULL, long_value, &why) == PLUMB_BAD_INPUT, "a string of 4195 bytes");
    long_value[4 + 4096] = 0;
    CHECK_OK(load(&run, NULL, long_value, &why), why);
    plumb_settings_free(table, COUNT, &run);
    CHECK(plumb_settings_load(table, COUNT, scratch_at("absent.yaml"), NULL, 0, &run,
                              &why) == PLUMB_NOT_FOUND,
          "absent file");
    check_done("limits");
}

static void help(void)
{
    char *text = plumb_settings_describe(table, COUNT), first[8];

    for (size_t i = 0; i < COUNT; i++) {
        plumb_print(first, sizeof first, "%s",
                    table[i].help); /* a line may end further on */
        CHECK(strstr(text, table[i].key) != NULL && strstr(text, first) != NULL,
              "%s is not described", table[i].key);
    }
    CHECK(strstr(text, "(8 to 1024)") != NULL &&
              strstr(text, "(bf16, fp8, fp32)") != NULL && strstr(text, "[0.001]") != NULL,
          "%s", text);
    for (const char *line = text; *line != 0;) {
        const size_t length = strcspn(line, "\n");

        CHECK(length < 80, "%zu columns: %.*s", length, (int)length, line);
        line += length + (line[length] == '\n');
    }
    free(text);
    check_done("help");
}

static void nearest(void)
{
    static const char *const words[] = {"model.width", "model.heads", "rate", "checkpoint"};
    static const struct {
        const char *word, *want;
    } cases[] = {{"modle.width", "model.width"},
                 {"model.head", "model.heads"},
                 {"raet", "rate"},
                 {"rat", "rate"},
                 {"chekpiont", "checkpoint"},
                 {"tear", NULL},
                 {"ra", NULL},
                 {"", NULL},
                 {"rate", "rate"},
                 {"xxxxxxxxxxxx", NULL},
                 {"raxx", NULL},
                 {"RATE", "rate"},
                 {"*.haeds", "model.heads"},
                 {"check", "checkpoint"},
                 {"ch", NULL}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = plumb_nearest(cases[i].word, words, 4);
        CHECK(cases[i].want == NULL ? got == NULL
                                    : got != NULL && strcmp(got, cases[i].want) == 0,
              "%s: %s", cases[i].word, got != NULL ? got : "none");
    }
    check_done("nearest");
}

int main(void)
{
    scratch_make();
    good();
    bad();
    limits();
    help();
    nearest();
    scratch_remove();
    return check_exit();
}
