/* The experiment, as a table of contents.  Each stage asks its question, reads the answer from
 * run directories and goes on or settles the verdict; verdict.json is written after every run.
 */
#include "diagnose/experiment.h"

#include <math.h>
#include <stdlib.h>

typedef plumb_status stage(plumb_experiment *x, plumb_error *why);

static stage *const stages[] = {
    plumb_stage_look,        /* what does the command declare? */
    plumb_stage_plan,        /* what will it cost? */
    plumb_stage_own,         /* does it fail? */
    plumb_stage_twin,        /* and in bf16? */
    plumb_stage_band,        /* what gap is noise? */
    plumb_stage_weights,     /* and its weights in other arithmetic? */
    plumb_stage_invariants,  /* and what must hold in any run? */
    plumb_stage_repeat,      /* and again, as far as arms may begin? */
    plumb_stage_healthy,     /* if nothing was found: that is the verdict */
    plumb_stage_start,       /* may the arms begin at a checkpoint? */
    plumb_stage_repeat_rest, /* and the whole, where no arm begins? */
    plumb_stage_guess,       /* is it the site that looks worst? */
    plumb_stage_classes,     /* which class? */
    plumb_stage_narrow,      /* where inside it? */
    plumb_stage_mechanism,   /* by what mechanism? */
    plumb_stage_proof,       /* what fix holds? */
    plumb_stage_mask,        /* what only hides it? */
    plumb_stage_moved,       /* what moved first? */
    plumb_stage_conclude,
};

static plumb_status begin(plumb_experiment *x, plumb_error *why)
{
    const char *const start[] = {"plumb", "diagnose", "--study", x->runner.directory,
                                 "--",    NULL};
    char *again = plumb_shell_words(start);
    char *words = plumb_shell_words(x->settings->command);

    x->verdict = "cannot tell";
    x->exit = 2;
    x->mask = -1;
    x->declaration.unigram_entropy = NAN;
    x->statements = json_array();
    x->limits = json_array();
    x->first_moved = json_null();
    if (again != NULL && words != NULL)
        x->next = plumb_text("%s %s", again, words);
    free(again);
    free(words);
    if (x->statements == NULL || x->limits == NULL || x->next == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a verdict");
    plumb_settle(x, "cannot tell", 2,
                 "Not finished: the same command goes on where this one stopped.");
    x->settled = false;
    return PLUMB_OK;
}

static void end(plumb_experiment *x)
{
    plumb_declaration_free(&x->declaration);
    free(x->low);
    plumb_outcome_free(&x->own);
    plumb_outcome_free(&x->again);
    plumb_outcome_free(&x->twin);
    plumb_outcome_free(&x->start_twin);
    plumb_outcome_free(&x->fixed);
    free(x->start);
    plumb_set_free(&x->culprits);
    for (int t = 0; t < PLUMB_TRIAL_COUNT; t++)
        json_decref(x->trial_rules[t]);
    json_decref(x->fix.rules);
    json_decref(x->fix.seeds);
    free(x->fix.text);
    json_decref(x->statements);
    json_decref(x->limits);
    json_decref(x->first_moved);
    free(x->next);
    for (size_t i = 0; i < x->record_count; i++) {
        free(x->records[i].label);
        free(x->records[i].text);
        free(x->records[i].command);
        json_decref(x->records[i].rules);
    }
    free(x->records);
}

plumb_status plumb_diagnose_with(const plumb_runner *runner,
                                 const plumb_diagnose_settings *settings,
                                 plumb_progress_fn *progress, void *context,
                                 json_t **verdict, plumb_error *why)
{
    plumb_diagnose_settings s = *settings;
    plumb_experiment x = {.runner = *runner,
                          .settings = &s,
                          .progress = progress,
                          .progress_context = context};

    *verdict = NULL;
    if (s.command == NULL || s.command[0] == NULL)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "no command to diagnose");
    if (!s.has_seed)
        s.seed = 1;
    if (s.seeds <= 0)
        s.seeds = 1;
    plumb_status status = begin(&x, why);

    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (status == PLUMB_OK && !x.settled)
            status = stages[i](&x, why);
    if (status == PLUMB_INTERRUPTED)
        status = plumb_settle(
            &x, "cannot tell", 2,
            "Interrupted: what is known so far is below; the same command goes "
            "on where this one stopped.");
    if (status == PLUMB_OK)
        status = plumb_verdict_save(&x, why);
    if (status == PLUMB_OK)
        *verdict = plumb_verdict_build(&x);
    if (status == PLUMB_NO_MEMORY)
        plumb_fail(why, status, "no memory for the diagnosis");
    end(&x);
    return status;
}

static plumb_status run_in_study(void *self, const plumb_arm *arm, plumb_watch *watch,
                                 void *context, plumb_outcome *outcome, plumb_error *why)
{
    return plumb_study_run(self, arm, watch, context, outcome, why);
}

plumb_status plumb_diagnose(plumb_study *study, const plumb_diagnose_settings *settings,
                            plumb_progress_fn *progress, void *context, json_t **verdict,
                            plumb_error *why)
{
    const plumb_runner runner = {run_in_study, study, plumb_study_directory(study)};

    return plumb_diagnose_with(&runner, settings, progress, context, verdict, why);
}
