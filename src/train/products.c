/* What a run file says of products rather than of their operands: what adds them up, and which operands
 * are made from codes that another product reads.
 */
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

static plumb_status apply(const plumb_rule *rule, size_t number, site_table *t,
                          plumb_error *why)
{
    plumb_accumulator how;
    plumb_error detail = {0};
    size_t hits = 0, runs = 0;

    if (plumb_accumulator_parse(rule->use, &how, &detail) != PLUMB_OK)
        return plumb_fail(why, PLUMB_BAD_INPUT, "accumulators: rule %zu: %s", number,
                          detail.message);
    for (size_t i = 0; i < plumb_product_count(&t->shape); i++) {
        char name[PLUMB_SITE_NAME];

        plumb_product_name(&t->shape, i, name);
        if (!plumb_rule_matches(rule, name))
            continue;
        const plumb_accumulator is = plumb_product_accumulator(
            &how, t->at[2 * i].own.format, t->at[2 * i + 1].own.format);

        t->accumulators[i] = how;
        hits++;
        runs += is.kind == how.kind;
    }
    if (runs > 0)
        return PLUMB_OK;
    return plumb_fail(why, PLUMB_BAD_INPUT, "accumulators: rule %zu: '%.100s' %s", number,
                      rule->globs[0],
                      hits == 0 ? "matches no product of this model"
                                : "matches no product whose operands it takes");
}

static plumb_status read_accumulators(const settings *s, site_table *t, plumb_error *why)
{
    plumb_rules rules = {0};
    plumb_status status =
        plumb_rules_from_json(s->accumulators, "accumulators", &rules, why);

    for (size_t i = 0; i < rules.count && status == PLUMB_OK; i++)
        status = rules.at[i].raise
                     ? plumb_fail(why, PLUMB_BAD_INPUT,
                                  "accumulators: rule %zu: 'raise' is for formats", i + 1)
                     : apply(&rules.at[i], i + 1, t, why);
    plumb_rules_free(&rules);
    return status;
}

static plumb_status mark_from_codes(const char *glob, site_table *t, plumb_error *why)
{
    const plumb_rule rule = {.globs = &glob, .glob_count = 1};
    size_t hits = 0;

    for (size_t i = 0; i < plumb_linear_site_count(&t->shape); i++) {
        const size_t role = i % PLUMB_ROLES;

        if (role != PLUMB_DGRAD_W && role != PLUMB_WGRAD_DY && role != PLUMB_WGRAD_X)
            continue;
        if (plumb_rule_matches(&rule, t->at[i].name)) {
            t->from_codes[i] = true;
            hits++;
        }
    }
    return hits > 0
               ? PLUMB_OK
               : plumb_fail(why, PLUMB_BAD_INPUT,
                            "from_codes: '%.100s' matches no second operand of a linear; "
                            "allowed: globs over dgrad/w, wgrad/dy and wgrad/x",
                            glob);
}

plumb_status products_create(const settings *s, site_table *t, plumb_error *why)
{
    plumb_status status = PLUMB_OK;

    t->accumulators = calloc(plumb_product_count(&t->shape), sizeof *t->accumulators);
    t->from_codes = calloc(t->operands, sizeof *t->from_codes);
    if (t->accumulators == NULL || t->from_codes == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the products");
    if (s->accumulators != NULL)
        status = read_accumulators(s, t, why);
    for (size_t i = 0; i < s->from_codes.count && status == PLUMB_OK; i++)
        status = mark_from_codes(s->from_codes.at[i], t, why);
    return status;
}

json_t *products_effective(const site_table *t)
{
    json_t *products = json_object();

    for (size_t i = 0; i < plumb_product_count(&t->shape); i++) {
        const plumb_accumulator how =
            plumb_product_accumulator(&t->accumulators[i], t->at[2 * i].effective.format,
                                      t->at[2 * i + 1].effective.format);
        char name[PLUMB_SITE_NAME], text[PLUMB_ACCUMULATOR_TEXT];

        if (how.kind == PLUMB_SUM_FP32 && !how.promote128 && how.output == PLUMB_FP32)
            continue;
        plumb_product_name(&t->shape, i, name);
        plumb_accumulator_print(&how, text);
        json_object_set_new(products, name, json_string(text));
    }
    return products;
}
