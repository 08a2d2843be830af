/* A verdict held against what was planted: every case with the score written out by hand. */
#include "check.h"
#include "cli/demo.h"

static const struct row {
    const char *name, *planted, *verdict;
    bool right, site_right, alarm;
    const char *said;
} rows[] = {
    {"class and site", "{'verdict':'numerics','class':'forward','sites':['layer.1/*/x']}",
     "{'verdict':'numerics','class':'forward','sites':['layer.1/mlp.down/fprop/x']}", true,
     true, false, "forward"},
    {"one of the sites lies elsewhere",
     "{'verdict':'numerics','class':'forward','sites':['layer.1/*/x']}",
     "{'verdict':'numerics','class':'forward','sites':['layer.1/a/x','layer.2/a/x']}", true,
     false, false, "forward"},
    {"no site", "{'verdict':'numerics','class':'forward','sites':['layer.1/*/x']}",
     "{'verdict':'numerics','class':'forward','sites':[]}", true, false, false, "forward"},
    {"another class at the very site",
     "{'verdict':'numerics','class':'forward','sites':['layer.1/a/x']}",
     "{'verdict':'numerics','class':'backward','sites':['layer.1/a/x']}", false, false,
     false, "backward"},
    {"two classes where one was planted",
     "{'verdict':'numerics','class':'forward','sites':['*']}",
     "{'verdict':'numerics','class':null,'classes':['forward','norm'],'sites':['a']}",
     false, false, false, "forward+norm"},
    {"two classes as planted",
     "{'verdict':'numerics','classes':['optimizer','forward'],'sites':['*/v','head/w']}",
     "{'verdict':'numerics','class':null,'classes':['optimizer','forward'],"
     "'sites':['a/v','head/w']}",
     true, true, false, "optimizer+forward"},
    {"one of two classes", "{'verdict':'numerics','classes':['optimizer','forward']}",
     "{'verdict':'numerics','class':'forward','sites':[]}", false, false, false, "forward"},
    {"no class alone", "{'verdict':'numerics','class':'forward','sites':['*']}",
     "{'verdict':'numerics','class':null,'scope':'all classes','sites':['a']}", false,
     false, false, "all classes"},
    {"a fault called healthy", "{'verdict':'numerics','class':'forward','sites':['*']}",
     "{'verdict':'healthy','class':null,'sites':[]}", false, false, false, "healthy"},
    {"a decoy seen through", "{'verdict':'not numerics','class':null,'sites':[]}",
     "{'verdict':'not numerics','class':null,'sites':[]}", true, false, false,
     "not numerics"},
    {"a decoy blamed on the arithmetic",
     "{'verdict':'not numerics','class':null,'sites':[]}",
     "{'verdict':'numerics','class':'forward','sites':['a']}", false, false, true,
     "forward"},
    {"a clean run blamed", "{'verdict':'healthy','class':null,'sites':[]}",
     "{'verdict':'numerics','class':'backward','sites':['a']}", false, false, true,
     "backward"},
    {"a clean run that cannot be told", "{'verdict':'healthy','class':null,'sites':[]}",
     "{'verdict':'cannot tell','class':null,'sites':[]}", false, false, false,
     "cannot tell"},
};

static json_t *parse(const char *text)
{
    char proper[400];
    json_error_t why;
    size_t i = 0;

    for (; text[i] != 0 && i + 1 < sizeof proper; i++)
        proper[i] = text[i] == '\'' ? '"' : text[i];
    proper[i] = 0;
    return json_loads(proper, 0, &why);
}

int main(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        json_t *planted = parse(r->planted), *verdict = parse(r->verdict);

        CHECK(planted != NULL && verdict != NULL, "%s is no JSON", r->name);
        const demo_score s = demo_score_verdict(planted, verdict);

        CHECK(s.right == r->right, "right: %d", s.right);
        CHECK(s.site_right == r->site_right, "site right: %d", s.site_right);
        CHECK(s.alarm == r->alarm, "alarm: %d", s.alarm);
        CHECK(strcmp(s.said, r->said) == 0, "said '%s', want '%s'", s.said, r->said);
        check_done(r->name);
        json_decref(planted);
        json_decref(verdict);
    }
    return check_exit();
}
