/* The healthy end; what moved first; and the last sentence: class, place, mechanism, fix and what it survived. */
#include "diagnose/experiment.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

plumb_status plumb_stage_healthy(plumb_experiment *x, plumb_error *why)
{
    double last = NAN;
    char early[80] = "";

    (void)why;
    if (x->failure.predicate != PLUMB_FAILS_NOT)
        return PLUMB_OK;
    const double largest =
        plumb_history_gap(&x->own.history, &x->twin.history, 0.9, PLUMB_GAP_SKIP, &last);

    if (x->own.last_step < x->look_to)
        snprintf(early, sizeof early, ", where the run ended of itself (asked for %lld)",
                 (long long)x->look_to);
    return plumb_settle(x, "healthy", 0,
                        "Healthy up to step %lld%s: the smoothed gap to the bf16 twin is "
                        "%+.4f nats at the end and at most %.4f; a lasting gap over %.3f "
                        "would have been called a failure.",
                        (long long)x->own.last_step, early, last, largest, x->band);
}

/* --- what moved first ------------------------------------------------------------------------ */

static bool fix_changes_format(const plumb_experiment *x)
{
    const plumb_trial same[] = {PLUMB_TRIAL_CURRENT, PLUMB_TRIAL_SATURATE};

    for (size_t i = 0; i < 2; i++)
        if (x->trial_rules[same[i]] != NULL && x->fix.rules != NULL &&
            json_equal(x->fix.rules, x->trial_rules[same[i]]))
            return false;
    return true;
}

static void describe_range(const plumb_movement *m, char *text, size_t size)
{
    if (isinf(m->most))
        snprintf(text, size, "%.3g or more", m->least);
    else if (!(m->least > 0))
        snprintf(text, size, "at most %.3g", m->most);
    else
        snprintf(text, size, "%.3g to %.3g", m->least, m->most);
}

static plumb_status publish(plumb_experiment *x, const plumb_samples *own,
                            const plumb_movement *m, bool culprit)
{
    char site[PLUMB_SITE_NAME], range[80], text[400];
    const int64_t lead = x->failure.step - m->step;

    plumb_printable(own->site_names[m->site], site, sizeof site);
    describe_range(m, range, sizeof range);
    snprintf(text, sizeof text,
             "%s of %s left its %s range (%s) at step %lld with %.3g, %lld step%s before "
             "the failure",
             m->statistic, site, m->against_clean ? "healthy" : "allowed", range,
             (long long)m->step, m->value, (long long)lead, lead == 1 ? "" : "s");
    if (culprit || json_is_null(x->first_moved)) {
        json_decref(x->first_moved);
        x->first_moved = json_pack(
            "{s:o,s:s,s:I,s:I,s:o,s:o,s:o,s:o}", "site", plumb_text_json(site), "statistic",
            m->statistic, "step", (json_int_t)m->step, "lead", (json_int_t)lead, "value",
            plumb_json_real(m->value), "least", plumb_json_real(m->least), "most",
            plumb_json_real(m->most), "text", plumb_text_json(text));
        if (x->first_moved == NULL)
            return PLUMB_NO_MEMORY;
    }
    return plumb_state(x, m->against_clean ? "compared" : "seen", "%s%s.",
                       culprit ? "First at the place itself: " : "First of all: ", text);
}

/* The sites that the fix names, which may be more than the place. */
static void mark_fixed(const plumb_experiment *x, const plumb_samples *own, bool *marks)
{
    plumb_rules rules = {0};

    if (plumb_rules_from_json(x->fix.rules, "rules of the fix", &rules, NULL) != PLUMB_OK)
        return;
    for (size_t site = 0; site < own->site_count; site++)
        for (size_t r = 0; r < rules.count; r++)
            marks[site] |= plumb_rule_matches(&rules.at[r], own->site_names[site]);
    plumb_rules_free(&rules);
}

static plumb_status find_moved(plumb_experiment *x, const plumb_samples *own,
                               const plumb_samples *clean, plumb_error *why)
{
    plumb_movement m, any;
    bool found, found_any;
    bool *place = calloc(own->site_count + 1, sizeof *place);
    bool *changed = calloc(own->site_count + 1, sizeof *changed);
    plumb_status status = PLUMB_OK;

    if (place == NULL || changed == NULL) {
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for site statistics");
        goto done;
    }
    plumb_mark_sites(x, own, &x->culprits, place);
    if (fix_changes_format(x))
        mark_fixed(x, own, changed);
    status = plumb_moved_first(own, clean, place, changed, NULL, plumb_seen_before(x), &m,
                               &found, why);
    if (status == PLUMB_OK && found)
        status = publish(x, own, &m, true);
    if (status == PLUMB_OK)
        status = plumb_moved_first(own, clean, NULL, changed, place, plumb_seen_before(x),
                                   &any, &found_any, why);
    if (status == PLUMB_OK && found_any && (!found || any.step < m.step))
        status = publish(x, own, &any, false);
    if (status == PLUMB_OK && !found_any)
        status = plumb_state(x, "compared",
                             "No site statistic left its healthy range before the "
                             "failure.");
done:
    free(place);
    free(changed);
    return status;
}

plumb_status plumb_stage_moved(plumb_experiment *x, plumb_error *why)
{
    plumb_samples own = {0}, clean = {0};
    plumb_error trouble = {0};
    plumb_status status = PLUMB_OK;

    if (!x->offers_observe || x->own.run_dir == NULL || x->fixed.run_dir == NULL)
        return PLUMB_OK;
    if (plumb_samples_read(x->own.run_dir, &own, &trouble) != PLUMB_OK ||
        plumb_samples_read(x->fixed.run_dir, &clean, &trouble) != PLUMB_OK)
        status = plumb_limit(x, "What moved first is not known: %s", trouble.message);
    else if (own.count > 0 && clean.count > 0)
        status = find_moved(x, &own, &clean, why);
    plumb_samples_free(&own);
    plumb_samples_free(&clean);
    return status;
}

/* --- the last sentence -------------------------------------------------------------------------- */

static const plumb_record *fixed_record(const plumb_experiment *x)
{
    for (size_t i = x->record_count; i > 0; i--)
        if (x->fixed.history.count > 0 && strcmp(x->records[i - 1].id, x->fixed.id) == 0)
            return &x->records[i - 1];
    return NULL;
}

static void where(const plumb_experiment *x, char *text, size_t size)
{
    char what[200];

    if (x->culprits.count == 0) {
        snprintf(text, size, "the low precision as a whole (no sites are declared)");
        return;
    }
    if (x->all_classes) {
        snprintf(text, size, "all classes together");
        return;
    }
    plumb_set_describe(x, &x->culprits, what, sizeof what);
    if (x->class_count == 2)
        snprintf(text, size, "%s and %s together, %s", plumb_class_name(x->classes[0]),
                 plumb_class_name(x->classes[1]), what);
    else
        snprintf(text, size, "class %s, %s", plumb_class_name(x->classes[0]), what);
}

/* The fix in few words, where the place has just been named. */
static void brief_fix(const plumb_experiment *x, char *text, size_t size)
{
    const json_t *rule = json_array_get(x->fix.rules, 0);
    const size_t sites = json_array_size(json_object_get(rule, "sites"));
    char use[PLUMB_SPEC_TEXT];

    if (json_array_size(x->fix.rules) != 1 || sites != x->culprits.count || sites == 0) {
        snprintf(text, size, "%s", x->fix.text);
        return;
    }
    plumb_printable(json_string_value(json_object_get(rule, "use")), use, sizeof use);
    snprintf(text, size, "%s there", use);
}

plumb_status plumb_stage_conclude(plumb_experiment *x, plumb_error *why)
{
    char place[300], brief[400];
    const plumb_record *record = fixed_record(x);
    const plumb_fix *f = &x->fix;

    (void)why;
    where(x, place, sizeof place);
    if (record != NULL && record->command != NULL && f->held > 0) {
        free(x->next);
        x->next = plumb_text("%s", record->command);
    }
    if (f->held == 0)
        return plumb_settle(
            x, "cannot tell", 2,
            "The failure needs the low precision, but no change that healed in "
            "the search held from the start.");
    plumb_status status =
        plumb_state(x, f->returned_at > 0 ? "caused" : "compared",
                    "The failure is in %s: %s removes it%s.", place, f->text,
                    f->returned_at > 0 ? ", and without it the failure returns" : "");

    if (status == PLUMB_OK)
        status = plumb_limit(x,
                             "Nothing is claimed beyond step %lld, the seeds run and the "
                             "data seen.",
                             (long long)x->horizon);
    if (status != PLUMB_OK)
        return status;
    const bool named =
        x->mechanism.name != NULL && strcmp(x->mechanism.name, "not isolated") != 0;
    brief_fix(x, brief, sizeof brief);
    return plumb_settle(
        x, "numerics", 1,
        "The FP8 arithmetic, in %s%s%s. With %s the run holds to step %lld on "
        "%d of %d seed%s%s.",
        place, named ? ": " : "", named ? x->mechanism.name : "", brief,
        (long long)f->past_step, f->held, f->of, f->of == 1 ? "" : "s",
        f->returned_at > 0 ? "; without, it fails again" : "");
}
