/* Look before spending: run the command with PLUMB_STOP_AT=0 and read what it declares.  Less is
 * enough: whatever is missing is said in the limits with what it costs.
 */
#include "diagnose/experiment.h"

#include <math.h>
#include <stdlib.h>

static plumb_status settle_start(plumb_experiment *x, const plumb_outcome *outcome)
{
    char message[470]; /* the headline has 512 */

    plumb_printable(outcome->message, message, sizeof message);
    if (outcome->end == PLUMB_END_NO_START) {
        free(x->next); /* the same command would end here again */
        x->next = plumb_text("plumb help diagnose");
        return plumb_settle(x, "cannot tell", 3, "%s.",
                            message[0] != 0 ? message : "no reason was given");
    }
    return plumb_settle(x, "cannot tell", 3, "The command cannot do as asked: %s.",
                        message[0] != 0 ? message : "no reason was given");
}

static plumb_status note_features(plumb_experiment *x)
{
    static const struct {
        const char *name, *cost;
    } wanted[] = {
        {"batch_hash", "that the arms saw the same batches is assumed, not checked"},
        {"state_hash", "\"reproducible\" is said of the printed digits"},
        {"checkpoint", "every arm starts at step 1, the failure is not reverted from the "
                       "fixed run but by repeating the unchanged one, and weights are not "
                       "judged in other "
                       "arithmetic"},
        {"micro_order", "the noise band is not measured"},
        {"lr_scale", "masking by a lower learning rate was not tested"},
        {"observe", "nothing is known of what moved first"},
    };
    plumb_status status = PLUMB_OK;

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && status == PLUMB_OK; i++)
        if (!plumb_declaration_has(&x->declaration, wanted[i].name))
            status = plumb_limit(x, "The trainer does not offer %s: %s.", wanted[i].name,
                                 wanted[i].cost);
    return status;
}

static plumb_status read_declaration(plumb_experiment *x, const plumb_outcome *outcome,
                                     plumb_error *why)
{
    plumb_error trouble = {0};
    plumb_declaration *d = &x->declaration;
    const plumb_status status = plumb_declaration_read(outcome->run_dir, d, &trouble);

    if (status == PLUMB_NO_MEMORY)
        return plumb_fail(why, status, "%s", trouble.message);
    x->declared = status == PLUMB_OK;
    x->takes_data_seed = !x->declared || plumb_declaration_has(d, "data_seed");
    if (!x->declared) {
        *d = (plumb_declaration){.unigram_entropy = NAN};
        return plumb_limit(x,
                           "The run declares nothing (%s): no classes, no sites, no "
                           "checkpoints; plumb can only switch everything to bf16 at once.",
                           trouble.message);
    }
    x->offers_checkpoint = plumb_declaration_has(d, "checkpoint");
    x->offers_micro_order = plumb_declaration_has(d, "micro_order");
    x->offers_lr_scale = plumb_declaration_has(d, "lr_scale");
    x->offers_observe = plumb_declaration_has(d, "observe");
    return note_features(x);
}

static plumb_status mark_low(plumb_experiment *x, plumb_error *why)
{
    const plumb_declaration *d = &x->declaration;

    x->low = calloc(d->site_count + 1, sizeof *x->low);
    if (x->low == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for %zu sites", d->site_count);
    for (size_t i = 0; i < d->site_count; i++)
        x->low[i] = plumb_format_is_low(d->sites[i].own);
    if (x->declared && d->site_count == 0)
        return plumb_limit(
            x, "The run declares no sites: the verdict can name no class and no "
               "place, and the fix is everything in bf16.");
    return PLUMB_OK;
}

static void set_range(plumb_experiment *x)
{
    const plumb_declaration *d = &x->declaration;
    const int64_t schedule = d->schedule_steps;

    x->look_to = x->settings->steps > 0 ? x->settings->steps
                 : schedule > 0         ? schedule
                                        : 1000;
    if (schedule > 0 && x->look_to > schedule)
        x->look_to = schedule;
    x->predicates = (plumb_predicates){0};
    if (isfinite(d->unigram_entropy) && d->unigram_entropy > 0) {
        x->predicates.entropy = d->unigram_entropy;
        x->predicates.entropy_after =
            d->warmup_steps > 0 ? 2 * d->warmup_steps + 50 : x->look_to / 2;
    }
}

plumb_status plumb_stage_look(plumb_experiment *x, plumb_error *why)
{
    plumb_outcome outcome;
    plumb_status status = plumb_question_now(x, why, "What does the command declare?");

    if (status != PLUMB_OK)
        return status;
    const plumb_question question = {
        .phase = "check", .label = "look at the trainer", .unjudged = true, .anew = true};

    status = plumb_ask(x, &question, &outcome, why);
    if (status != PLUMB_OK)
        return status;
    if (outcome.end == PLUMB_END_NO_START || outcome.end == PLUMB_END_REFUSED)
        status = settle_start(x, &outcome);
    else
        status = read_declaration(x, &outcome, why);
    if (status == PLUMB_OK && !x->settled && !x->declared &&
        outcome.end == PLUMB_END_SILENT && outcome.history.count == 0)
        status = plumb_settle(
            x, "cannot tell", 2,
            "The command was silent when asked to declare itself and stop: %s.",
            outcome.message);
    plumb_outcome_free(&outcome);
    if (status == PLUMB_OK)
        status = mark_low(x, why);
    set_range(x);
    return status;
}
