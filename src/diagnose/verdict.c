/* The verdict document: sentences as they come, and the whole of verdict.json, which is
 * written anew after every run, so that a killed diagnosis leaves what it knew.
 */
#include "diagnose/experiment.h"

#include "log/request.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static plumb_status tell(plumb_experiment *x, plumb_progress_kind kind, const char *text)
{
    const plumb_progress progress = {.kind = kind, .text = text, .seconds_left = -1};

    if (x->progress != NULL && !x->progress(x->progress_context, &progress))
        return PLUMB_INTERRUPTED;
    return PLUMB_OK;
}

plumb_status plumb_state(plumb_experiment *x, const char *level, const char *format, ...)
{
    char text[1024], line[1100];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_t *json = json_pack("{s:s,s:o}", "level", level, "text", plumb_text_json(text));

    if (json == NULL || json_array_append_new(x->statements, json) != 0)
        return PLUMB_NO_MEMORY;
    snprintf(line, sizeof line, "%s [%s]", text, level);
    return tell(x, PLUMB_PROGRESS_ANSWER, line);
}

plumb_status plumb_limit(plumb_experiment *x, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_t *json = plumb_text_json(text);

    return json_array_append_new(x->limits, json) == 0 ? PLUMB_OK : PLUMB_NO_MEMORY;
}

plumb_status plumb_settle(plumb_experiment *x, const char *verdict, int exit,
                          const char *format, ...)
{
    char text[sizeof x->headline];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    plumb_printable(text, x->headline, sizeof x->headline);
    x->verdict = verdict;
    x->exit = exit;
    x->settled = true;
    return PLUMB_OK;
}

plumb_status plumb_question_now(plumb_experiment *x, plumb_error *why, const char *format,
                                ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (tell(x, PLUMB_PROGRESS_QUESTION, text) != PLUMB_OK)
        return plumb_fail(why, PLUMB_INTERRUPTED, "interrupted");
    return PLUMB_OK;
}

/* --- pieces of the document -------------------------------------------------------- */

static json_t *text_or_null(const char *text)
{
    return text != NULL && text[0] != 0 ? plumb_text_json(text) : json_null();
}

static json_t *failure_json(const plumb_failure *failure)
{
    char text[400];

    if (failure->predicate == PLUMB_FAILS_NOT)
        return json_null();
    plumb_describe_failure(failure, text, sizeof text);
    return json_pack("{s:s,s:I,s:I,s:o,s:o,s:o}", "predicate",
                     plumb_predicate_name(failure->predicate), "step",
                     (json_int_t)failure->step, "decided", (json_int_t)failure->decided,
                     "value", plumb_json_real(failure->value), "threshold",
                     plumb_json_real(failure->threshold), "text", plumb_text_json(text));
}

static double in_horizons(const plumb_experiment *x, int64_t steps)
{
    return x->horizon > 0 ? (double)steps / (double)x->horizon : 0;
}

static json_t *record_json(const plumb_experiment *x, const plumb_record *r)
{
    const bool failed = r->failure.predicate != PLUMB_FAILS_NOT;
    json_t *json = json_object();

    json_object_set_new(json, "id", json_string(r->id));
    json_object_set_new(json, "label", plumb_text_json(r->label));
    json_object_set_new(json, "phase", json_string(r->phase));
    json_object_set_new(json, "text", plumb_text_json(r->text));
    json_object_set_new(json, "seed", plumb_seed_json(r->seed));
    if (r->rules != NULL)
        json_object_set(json, "rules", r->rules);
    else
        json_object_set_new(json, "rules", json_null());
    json_object_set_new(json, "start_step", json_integer(r->start_step));
    json_object_set_new(json, "last_step", json_integer(r->last_step));
    json_object_set_new(json, "stop_at", json_integer(r->stop_at));
    json_object_set_new(json, "end", json_string(plumb_end_name(r->end)));
    json_object_set_new(json, "predicate",
                        failed ? json_string(plumb_predicate_name(r->failure.predicate))
                               : json_null());
    json_object_set_new(json, "fail_step",
                        failed ? json_integer(r->failure.step) : json_null());
    json_object_set_new(json, "gap", isfinite(r->gap) ? json_real(r->gap) : json_null());
    json_object_set_new(json, "seconds", json_real(r->seconds));
    json_object_set_new(json, "horizons", json_real(in_horizons(x, r->steps_run)));
    json_object_set_new(json, "reused", json_boolean(r->reused));
    json_object_set_new(json, "command", text_or_null(r->command));
    return json;
}

static bool is_proof(const char *phase)
{
    return strcmp(phase, "proof") == 0 || strcmp(phase, "mask") == 0;
}

/* A run that is asked for twice is run once. */
static bool asked_before(const plumb_experiment *x, size_t record)
{
    for (size_t i = 0; i < record; i++)
        if (strcmp(x->records[i].id, x->records[record].id) == 0)
            return true;
    return false;
}

/* What people do without a search: cast each site back alone, from step 1, and watch it fail. */
static double every_site(const plumb_experiment *x)
{
    int64_t sites = 0;

    for (size_t i = 0; i < x->declaration.site_count; i++)
        sites += x->low[i];
    return in_horizons(x, sites * x->failure.decided);
}

static json_t *cost_json(const plumb_experiment *x)
{
    double search = 0, proof = 0, seconds = 0;

    for (size_t i = 0; i < x->record_count; i++) {
        const plumb_record *r = &x->records[i];

        if (asked_before(x, i))
            continue;
        *(is_proof(r->phase) ? &proof : &search) += in_horizons(x, r->steps_run);
        seconds += r->seconds;
    }
    return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f}", "horizon_steps", (json_int_t)x->horizon,
                     "search", search, "proof", proof, "every_site", every_site(x),
                     "seconds", seconds, "planned", x->planned);
}

static const char *fix_level(const plumb_experiment *x)
{
    return x->fix.held > 0 && x->fix.returned_at > 0 ? "caused" : "compared";
}

static const char *mechanism_level(const plumb_experiment *x)
{
    const plumb_mechanism *m = &x->mechanism;

    if (!m->by_counterfactual)
        return x->story.known ? "seen" : "compared";
    /* The counterfactual is the fix, or it is one more arm that was only compared. */
    const bool is_fix = x->fix.rules != NULL && m->trial >= 0 &&
                        x->trial_rules[m->trial] != NULL &&
                        json_equal(x->fix.rules, x->trial_rules[m->trial]);

    return is_fix ? fix_level(x) : "compared";
}

static json_t *mechanism_json(const plumb_experiment *x)
{
    if (x->mechanism.name == NULL)
        return json_null();
    return json_pack("{s:s,s:o,s:s}", "name", x->mechanism.name, "text",
                     plumb_text_json(x->mechanism.text), "level", mechanism_level(x));
}

static json_t *fix_json(const plumb_experiment *x)
{
    const plumb_fix *f = &x->fix;

    if (f->rules == NULL || f->text == NULL)
        return json_null();
    return json_pack("{s:O,s:o,s:i,s:i,s:O,s:I,s:o,s:s}", "rules", f->rules, "text",
                     plumb_text_json(f->text), "held", f->held, "of", f->of, "seeds",
                     f->seeds, "past_step", (json_int_t)f->past_step, "returned_at",
                     f->returned_at > 0 ? json_integer(f->returned_at) : json_null(),
                     "level", fix_level(x));
}

static json_t *classes_json(const plumb_experiment *x)
{
    json_t *names = json_array();

    for (int i = 0; i < x->class_count; i++)
        json_array_append_new(names, json_string(plumb_class_name(x->classes[i])));
    return names;
}

static json_t *sites_json(const plumb_experiment *x)
{
    json_t *names = json_array();

    for (size_t i = 0; i < x->culprits.count; i++)
        json_array_append_new(
            names, plumb_text_json(x->declaration.sites[x->culprits.at[i]].name));
    return names;
}

static json_t *command_json(const plumb_experiment *x)
{
    json_t *words = json_array();

    for (size_t i = 0; x->settings->command[i] != NULL; i++)
        json_array_append_new(words, plumb_text_json(x->settings->command[i]));
    return words;
}

static void add_findings(const plumb_experiment *x, json_t *v)
{
    json_object_set_new(v, "class",
                        x->class_count == 1 ? json_string(plumb_class_name(x->classes[0]))
                                            : json_null());
    if (x->class_count == 2)
        json_object_set_new(v, "classes", classes_json(x));
    json_object_set_new(v, "scope", text_or_null(x->scope));
    json_object_set_new(v, "sites", sites_json(x));
    json_object_set_new(v, "failure", failure_json(&x->failure));
    json_object_set_new(v, "mechanism", mechanism_json(x));
    json_object_set(v, "first_moved", x->first_moved);
    json_object_set_new(v, "fix", fix_json(x));
    json_object_set_new(
        v, "mask",
        x->mask < 0 ? json_null()
                    : json_pack("{s:s,s:b}", "text", x->mask_text, "survived", x->mask));
    json_object_set_new(v, "band",
                        x->band > 0
                            ? json_pack("{s:f,s:s}", "nats", x->band, "text", x->band_text)
                            : json_null());
}

json_t *plumb_verdict_build(const plumb_experiment *x)
{
    json_t *v = json_object(), *runs = json_array();
    char *words = plumb_shell_words(x->settings->command);
    const char *question = x->settings->question;

    json_object_set_new(v, "plumb", json_string(plumb_build_id()));
    json_object_set_new(v, "question", text_or_null(question != NULL ? question : words));
    json_object_set_new(v, "command", command_json(x));
    json_object_set_new(v, "verdict", json_string(x->verdict));
    json_object_set_new(v, "exit", json_integer(x->exit));
    json_object_set_new(v, "headline", plumb_text_json(x->headline));
    add_findings(x, v);
    json_object_set(v, "statements", x->statements);
    for (size_t i = 0; i < x->record_count; i++)
        json_array_append_new(runs, record_json(x, &x->records[i]));
    json_object_set_new(v, "runs", runs);
    json_object_set_new(v, "cost", cost_json(x));
    json_object_set(v, "limits", x->limits);
    json_object_set_new(v, "next", text_or_null(x->next));
    free(words);
    return v;
}

plumb_status plumb_verdict_save(const plumb_experiment *x, plumb_error *why)
{
    json_t *v = plumb_verdict_build(x);
    char *path = plumb_path_join(x->runner.directory, "verdict.json");
    plumb_status status;

    if (v == NULL || path == NULL)
        status = plumb_fail(why, PLUMB_NO_MEMORY, "no memory for the verdict");
    else
        status = plumb_json_save(path, v, why);
    free(path);
    json_decref(v);
    return status;
}
