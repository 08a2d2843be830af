/* run.json: little is enough, wrong is said, hostile is refused; and the writer's own. */
#include "plumb/log.h"

#include <math.h>

#include "check.h"
#include "file/scratch.h"

static plumb_status read_text(const char *text, plumb_declaration *declaration,
                              plumb_error *why)
{
    scratch_text("run.json", text);
    return plumb_declaration_read(scratch_directory, declaration, why);
}

static void absent(void)
{
    plumb_declaration declaration;
    plumb_error why = {0};

    CHECK(plumb_declaration_read(scratch_directory, &declaration, &why) == PLUMB_NOT_FOUND,
          "%s", why.message);
    plumb_declaration_free(&declaration);
    check_done("absent");
}

static void little(void)
{
    plumb_declaration d;
    plumb_error why = {0};

    CHECK_OK(read_text("{}", &d, &why), why);
    CHECK(d.contract == 1 && strcmp(d.trainer, "") == 0 && strcmp(d.version, "") == 0 &&
              strcmp(d.config_hash, "") == 0 && d.world_size == 1 &&
              d.schedule_steps == 0 && d.feature_count == 0 && d.site_count == 0 &&
              isnan(d.unigram_entropy) && d.warmup_steps == 0,
          "defaults of {}");
    CHECK(!plumb_declaration_has(&d, "checkpoint"), "a feature from nowhere");
    plumb_declaration_free(&d);
    CHECK_OK(read_text("{\"sites\":[{\"name\":\"a\",\"class\":\"forward\"}]}", &d, &why),
             why);
    const plumb_declared_site *s = d.sites;
    CHECK(d.site_count == 1 && strcmp(s->name, "a") == 0 && s->class_ == PLUMB_FORWARD &&
              s->layer == -1 && s->gemm == NULL && s->operand == NULL &&
              strcmp(s->own, "unknown") == 0 && s->shares_storage_with == NULL &&
              s->use_count == 1 && strcmp(s->uses[0], "bf16") == 0,
          "defaults of a site");
    plumb_declaration_free(&d);
    check_done("little");
}

static void much(void)
{
    plumb_declaration d;
    plumb_error why = {0};

    CHECK_OK(read_text(
                 "{\"contract\":1,\"trainer\":\"my trainer\",\"version\":\"1.2\\u0007\","
                 "\"config_hash\":\"abc\",\"world_size\":8,\"schedule_steps\":1000,"
                 "\"warmup_steps\":10,\"unigram_entropy\":3.5,\"mine\":{\"x\":[1]},"
                 "\"features\":[\"checkpoint\",\"lr_scale\",\"clip_scale\"],\"sites\":["
                 "{\"name\":\"a\",\"class\":\"backward\",\"layer\":0,\"gemm\":\"dgrad\","
                 "\"operand\":\"dy\",\"own\":\"e4m3:delayed\",\"uses\":[\"bf16\",\"e5m2\"],"
                 "\"shares_storage_with\":\"b\"},{\"name\":\"b\",\"class\":\"norm\"}]}",
                 &d, &why),
             why);
    CHECK(strcmp(d.trainer, "my trainer") == 0 && strcmp(d.version, "1.2?") == 0 &&
              strcmp(d.config_hash, "abc") == 0 && d.world_size == 8 &&
              d.schedule_steps == 1000 && d.warmup_steps == 10 && d.unigram_entropy == 3.5,
          "head");
    CHECK(plumb_declaration_has(&d, "lr_scale") && !plumb_declaration_has(&d, "skip"),
          "features");
    const plumb_declared_site *s = d.sites;
    CHECK(d.site_count == 2 && s->class_ == PLUMB_BACKWARD && s->layer == 0 &&
              strcmp(s->gemm, "dgrad") == 0 && strcmp(s->operand, "dy") == 0 &&
              strcmp(s->own, "e4m3:delayed") == 0 && s->use_count == 2 &&
              strcmp(s->uses[1], "e5m2") == 0 && strcmp(s->shares_storage_with, "b") == 0 &&
              s[1].class_ == PLUMB_NORM,
          "sites");
    plumb_declaration_free(&d);
    check_done("much");
}

static const struct {
    const char *text, *part;
} refused[] = {
    {"[]", "not a JSON object"},
    {"{\"contract\":\"1\"}", "'contract' must be the number 1"},
    {"{\"world_size\":0}", "'world_size' must be a whole number from 1 to"},
    {"{\"schedule_steps\":-1}", "'schedule_steps' must be a whole number from 0 to"},
    {"{\"schedule_steps\":1.5}", "'schedule_steps' must be a whole number"},
    {"{\"unigram_entropy\":\"x\"}", "'unigram_entropy' must be a number"},
    {"{\"features\":\"checkpoint\"}", "'features' must be a list of names"},
    {"{\"features\":[1]}", "'features' must be a list of names"},
    {"{\"features\":[\"chekpoint\"]}",
     "unknown feature 'chekpoint'; did you mean 'checkpoint'?"},
    {"{\"features\":[\"telepathy\"]}", "unknown feature 'telepathy'; allowed: checkpoint"},
    {"{\"sites\":{}}", "'sites' must be a list of at most 100000"},
    {"{\"sites\":[3]}", "site 1 has no name"},
    {"{\"sites\":[{\"class\":\"norm\"}]}", "site 1 has no name"},
    {"{\"sites\":[{\"name\":\"a b\",\"class\":\"norm\"}]}",
     "site 1: 'name' must be a string"},
    {"{\"sites\":[{\"name\":\"\",\"class\":\"norm\"}]}", "site 1: 'name' must be a string"},
    {"{\"sites\":[{\"name\":\"\\u001b[2J\",\"class\":\"norm\"}]}",
     "site 1: 'name' must be a string"},
    {"{\"sites\":[{\"name\":\"a\"}]}", "site 'a' has no class; allowed: collective "
                                       "optimizer backward forward loss norm softmax"},
    {"{\"sites\":[{\"name\":\"a\",\"class\":\"Forward\"}]}",
     "site 'a' has the class 'Forward'; allowed: collective"},
    {"{\"sites\":[{\"name\":\"a\",\"class\":\"norm\",\"layer\":-2}]}", "'layer' must be"},
    {"{\"sites\":[{\"name\":\"a\",\"class\":\"norm\",\"gemm\":1}]}",
     "'gemm' must be a string"},
    {"{\"sites\":[{\"name\":\"a\",\"class\":\"norm\",\"uses\":\"bf16\"}]}",
     "'uses' must be a list"},
    {"{\"sites\":[{\"name\":\"a\",\"class\":\"norm\",\"uses\":[1]}]}",
     "'uses' must be names"},
    {"{\"sites\":[{\"name\":\"a\",\"class\":\"norm\"},{\"name\":\"a\",\"class\":\"norm\"}]"
     "}",
     "two sites are named 'a'"},
    {"{\"sites\":[{\"name\":\"a\",\"class\":\"norm\",\"shares_storage_with\":\"b\"}]}",
     "site 'a' shares storage with 'b', which is no site"},
};

static void bad(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        plumb_declaration d;
        plumb_error why = {0};

        CHECK(read_text(refused[i].text, &d, &why) == PLUMB_BAD_INPUT &&
                  strstr(why.message, refused[i].part) != NULL &&
                  strstr(why.message, "run.json") != NULL,
              "%s: '%s'", refused[i].text, why.message);
        CHECK(d.sites == NULL && d.trainer == NULL, "%s: not freed", refused[i].text);
    }
    plumb_declaration d;
    CHECK(read_text("{\"contract\":2}", &d, NULL) == PLUMB_UNSUPPORTED, "contract 2");
    check_done("refused");
}

static void long_names(void)
{
    char name[200], text[400];
    plumb_declaration d;

    memset(name, 'x', 128);
    name[128] = 0;
    snprintf(text, sizeof text, "{\"sites\":[{\"name\":\"%s\",\"class\":\"norm\"}]}", name);
    CHECK(read_text(text, &d, NULL) == PLUMB_BAD_INPUT, "128 bytes");
    snprintf(text, sizeof text, "{\"sites\":[{\"name\":\"%s\",\"class\":\"norm\"}]}",
             name + 1);
    CHECK(read_text(text, &d, NULL) == PLUMB_OK, "127 bytes");
    plumb_declaration_free(&d);
    check_done("long names");
}

static void too_many(void)
{
    const size_t size = 100001 * 40 + 100;
    char *text = malloc(size);
    size_t used = (size_t)sprintf(text, "{\"sites\":[");
    plumb_declaration d;

    for (int i = 0; i < 100001; i++)
        used += (size_t)sprintf(text + used, "%s{\"name\":\"s%d\",\"class\":\"norm\"}",
                                i > 0 ? "," : "", i);
    strcpy(text + used, "]}");
    CHECK(read_text(text, &d, NULL) == PLUMB_BAD_INPUT, "100001 sites");
    char *last = strstr(text, ",{\"name\":\"s100000\"");
    strcpy(last, "]}");
    CHECK(read_text(text, &d, NULL) == PLUMB_OK && d.site_count == 100000, "100000 sites");
    plumb_declaration_free(&d);
    free(text);
    check_done("too many sites");
}

static void declared(void)
{
    char bf16[] = "bf16", name[] = "head/fprop/x", own[] = "e4m3", trainer[] = "t",
         feature[] = "skip", *uses[] = {bf16}, *features[] = {feature};
    plumb_declared_site site = {.name = name,
                                .class_ = PLUMB_FORWARD,
                                .layer = 2,
                                .own = own,
                                .uses = uses,
                                .use_count = 1};
    const plumb_declaration d = {.trainer = trainer,
                                 .world_size = 1,
                                 .features = features,
                                 .feature_count = 1,
                                 .sites = &site,
                                 .site_count = 1,
                                 .unigram_entropy = (double)NAN};
    json_t *extra = json_pack("{s:i,s:s}", "mine", 3, "trainer", "not me");
    plumb_run *run;
    plumb_error why = {0};
    size_t size;

    scratch_folder("w");
    CHECK_OK(plumb_run_create(scratch_at("w"), &run, &why), why);
    CHECK_OK(plumb_run_declare(run, &d, extra, &why), why);
    CHECK_OK(plumb_run_end(&run, "reached", 0, &why), why);
    char *text = scratch_get("w/run.json", &size);
    json_t *got = json_loads(text, 0, NULL);
    json_t *want = json_pack("{s:i,s:s,s:i,s:[s],s:[{s:s,s:s,s:i,s:s,s:[s]}],s:i}",
                             "contract", 1, "trainer", "t", "world_size", 1, "features",
                             "skip", "sites", "name", name, "class", "forward", "layer", 2,
                             "own", "e4m3", "uses", "bf16", "mine", 3);
    CHECK(json_equal(got, want), "%s", text);
    json_decref(got);
    json_decref(want);
    json_decref(extra);
    free(text);
    check_done("declared by our writer");
}

int main(void)
{
    scratch_make();
    absent();
    little();
    much();
    bad();
    long_names();
    too_many();
    declared();
    scratch_remove();
    return check_exit();
}
