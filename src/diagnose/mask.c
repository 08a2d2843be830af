/* The mask: the unchanged run at a lower learning rate.  If it survives, the fault is hidden,
 * not removed, and the verdict says so.  A failure that only the twin shows cannot be asked so: at
 * the lower rate there is no twin.
 */
#include "diagnose/experiment.h"

#include <stdio.h>

plumb_status plumb_stage_mask(plumb_experiment *x, plumb_error *why)
{
    if (!x->offers_lr_scale)
        return PLUMB_OK;
    if (x->failure.predicate == PLUMB_FAILS_GAP && !x->weights_fail)
        return plumb_limit(x,
                           "The failure shows only against the twin, so masking by a lower "
                           "learning rate was not tested.");
    plumb_outcome outcome;
    char text[160];
    const double scale = x->settings->lr_scale > 0 ? x->settings->lr_scale : 0.3;
    const plumb_question question = {.phase = "mask",
                                     .label = "the run itself, lower learning rate",
                                     .stop_at = x->horizon,
                                     .lr_scale = scale};
    plumb_status status =
        plumb_question_now(x, why, "Would a lower learning rate hide it?");

    if (status == PLUMB_OK)
        status = plumb_ask(x, &question, &outcome, why);
    if (status != PLUMB_OK)
        return status;
    x->mask = plumb_survived(x, &outcome);
    plumb_describe_end(&outcome, text, sizeof text);
    if (x->mask)
        snprintf(x->mask_text, sizeof x->mask_text,
                 "At %g of the learning rate the unchanged run survives to step %lld too: "
                 "masked, "
                 "not a fix.",
                 scale, (long long)outcome.last_step);
    else
        snprintf(x->mask_text, sizeof x->mask_text,
                 "At %g of the learning rate the unchanged run still %s.", scale, text);
    plumb_outcome_free(&outcome);
    return plumb_state(x, "compared", "%s", x->mask_text);
}
