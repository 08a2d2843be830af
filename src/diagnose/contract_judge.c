/* plumb contract check, the findings on two runs that are compared, and the table of all.  Pure. */
#include "diagnose/contract.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const plumb_history *history_of(const contract_seen *s, contract_run run)
{
    return &s->outcome[run].history;
}

/* First step at which the numbers differ from those of the run itself; 0: equal. */
static int64_t differs(const contract_seen *s, contract_run run, bool *by_hash)
{
    return plumb_history_differ(history_of(s, run), history_of(s, CONTRACT_BASE), by_hash);
}

static const char *digits(bool by_hash)
{
    return by_hash ? "bit for bit (state_hash)" : "in every printed digit of the loss";
}

/* First step at which the batches differ; 0: equal; -1: not known. */
static int64_t other_batches(const contract_seen *s, contract_run run)
{
    return plumb_history_confounded(history_of(s, run), history_of(s, CONTRACT_BASE));
}

/* --- numbers ----------------------------------------------------------------------------- */

static void judge_repeat(const contract_seen *s, contract_finding *f)
{
    bool by_hash = false;

    if (plumb_came_to_nothing(s, CONTRACT_AGAIN)) {
        plumb_find_nothing(s, CONTRACT_AGAIN, f);
        return;
    }
    const int64_t batches = other_batches(s, CONTRACT_AGAIN);
    const int64_t step = differs(s, CONTRACT_AGAIN, &by_hash);

    if (batches > 0)
        plumb_find(f, CONTRACT_BROKEN, "the batches differ from step %lld on",
                   (long long)batches);
    else if (step > 0)
        plumb_find(f, CONTRACT_BROKEN, "differs from step %lld on, with the same batches%s",
                   (long long)step, batches < 0 ? " or not" : "");
    else
        plumb_find(f, CONTRACT_HOLDS, "equal %s", digits(by_hash));
}

static void judge_seed(const contract_seen *s, contract_finding *f)
{
    bool by_hash = false;

    if (plumb_came_to_nothing(s, CONTRACT_SEED)) {
        plumb_find_nothing(s, CONTRACT_SEED, f);
        return;
    }
    const int64_t step = differs(s, CONTRACT_SEED, &by_hash);

    if (step == 0)
        plumb_find(f, CONTRACT_BROKEN, "another seed gives the same numbers %s",
                   by_hash ? "bit for bit" : "in every printed digit");
    else
        plumb_find(f, CONTRACT_HOLDS, "another seed, other numbers from step %lld on",
                   (long long)step);
}

static void judge_data_seed(const contract_seen *s, contract_finding *f)
{
    bool by_hash = false;

    if (!plumb_offers(s, "data_seed"))
        plumb_find(f, CONTRACT_MISSING, "not offered");
    else if (plumb_came_to_nothing(s, CONTRACT_DATA_SEED))
        plumb_find_nothing(s, CONTRACT_DATA_SEED, f);
    else if (other_batches(s, CONTRACT_SEED) > 0)
        plumb_find(f, CONTRACT_BROKEN, "the seed alone changes the batches, too");
    else if (other_batches(s, CONTRACT_DATA_SEED) == 0 ||
             differs(s, CONTRACT_DATA_SEED, &by_hash) == 0)
        plumb_find(f, CONTRACT_BROKEN, "another data seed gives the same batches");
    else if (other_batches(s, CONTRACT_DATA_SEED) < 0)
        plumb_find(f, CONTRACT_UNKNOWN, "other numbers; of what batches, no hash tells");
    else
        plumb_find(f, CONTRACT_HOLDS, "other batches; and the seed alone leaves them");
}

static void judge_order(const contract_seen *s, contract_finding *f)
{
    bool by_hash = false;

    if (!plumb_offers(s, "micro_order"))
        plumb_find(f, CONTRACT_MISSING, "not offered");
    else if (plumb_came_to_nothing(s, CONTRACT_ORDER))
        plumb_find_nothing(s, CONTRACT_ORDER, f);
    else if (other_batches(s, CONTRACT_ORDER) > 0)
        plumb_find(f, CONTRACT_BROKEN,
                   "another order changes the batches, not only their sums");
    else if (differs(s, CONTRACT_ORDER, &by_hash) == 0)
        plumb_find(f, CONTRACT_UNKNOWN,
                   "the same numbers: one micro-batch a step, or ignored");
    else
        plumb_find(f, CONTRACT_HOLDS, "the same batches, other sums");
}

static void judge_policy(const contract_seen *s, contract_finding *f)
{
    bool by_hash = false;

    if (plumb_came_to_nothing(s, CONTRACT_TWIN)) {
        plumb_find_nothing(s, CONTRACT_TWIN, f);
        return;
    }
    const int64_t step = differs(s, CONTRACT_TWIN, &by_hash);

    if (other_batches(s, CONTRACT_TWIN) > 0)
        plumb_find(f, CONTRACT_BROKEN, "bf16 everywhere sees other batches");
    else if (step > 0)
        plumb_find(f, CONTRACT_HOLDS, "bf16 everywhere, other numbers from step %lld on",
                   (long long)step);
    else if (s->declaration.site_count > 0 && s->low_sites == 0)
        plumb_find(f, CONTRACT_UNKNOWN, "the same numbers, but nothing is in few bits");
    else
        plumb_find(f, CONTRACT_BROKEN, "ignored: bf16 everywhere is equal %s",
                   digits(by_hash));
}

/* One part in bf16: neither the run itself nor all of it in bf16.  False with the finding. */
static bool is_part(const contract_seen *s, contract_run run, const char *what,
                    bool part_is_all, contract_finding *f)
{
    bool by_hash = false;

    if (!s->asked[run])
        return true;
    if (plumb_came_to_nothing(s, run)) {
        plumb_find_nothing(s, run, f);
        return false;
    }
    if (other_batches(s, run) > 0)
        plumb_find(f, CONTRACT_BROKEN, "%s alone in bf16 sees other batches", what);
    else if (differs(s, run, &by_hash) == 0)
        plumb_find(f, CONTRACT_BROKEN, "%s alone in bf16 is equal to the run itself", what);
    else if (!part_is_all &&
             plumb_history_differ(history_of(s, run), history_of(s, CONTRACT_TWIN),
                                  &by_hash) == 0)
        plumb_find(f, CONTRACT_BROKEN, "%s alone in bf16 is equal to bf16 everywhere",
                   what);
    else
        return true;
    return false;
}

static void judge_parts(const contract_seen *s, contract_finding *f)
{
    char what[64], site[PLUMB_SITE_NAME] = "";

    if (s->low_sites < 2) {
        plumb_find(f, CONTRACT_MISSING, "there are no parts: %zu site%s in few bits",
                   s->low_sites, s->low_sites == 1 ? "" : "s");
        return;
    }
    if (s->part_site < s->declaration.site_count)
        plumb_printable(s->declaration.sites[s->part_site].name, site, sizeof site);
    snprintf(what, sizeof what, "class %s", plumb_class_name(s->part_class));
    if (is_part(s, CONTRACT_CLASS, what, s->low_classes < 2, f) &&
        is_part(s, CONTRACT_SITE, site, false, f))
        plumb_find(f, CONTRACT_HOLDS, "%s%s%s", s->asked[CONTRACT_CLASS] ? what : "",
                   s->asked[CONTRACT_CLASS] ? ", and of it " : "", site);
}

static void judge_refusal(const contract_seen *s, contract_finding *f)
{
    const plumb_outcome *o = &s->outcome[CONTRACT_REFUSE];

    if (o->history.count > 0)
        plumb_find(f, CONTRACT_BROKEN, "asked for \"no-such-format\" it trained");
    else if (o->end == PLUMB_END_REFUSED)
        plumb_find(f, CONTRACT_HOLDS, "a format that does not exist is refused");
    else
        plumb_find_nothing(s, CONTRACT_REFUSE, f);
}

/* --- checkpoints ------------------------------------------------------------------------- */

static void judge_resume(const contract_seen *s, contract_finding *f)
{
    const long long step = (long long)s->checkpoint_step;
    const plumb_outcome *o = &s->outcome[CONTRACT_RESUME];

    if (plumb_came_to_nothing(s, CONTRACT_RESUME))
        plumb_find_nothing(s, CONTRACT_RESUME, f);
    else if (o->first_step != step + 1)
        plumb_find(f, CONTRACT_BROKEN, "resumed from step %lld it goes on at step %lld",
                   step, (long long)o->first_step);
    else if (plumb_came_to_nothing(s, CONTRACT_RESUME_TWIN))
        plumb_find_nothing(s, CONTRACT_RESUME_TWIN, f);
    else if (s->outcome[CONTRACT_NO_START].history.count > 0)
        plumb_find(f, CONTRACT_BROKEN, "from a checkpoint that does not exist it trained");
    else
        plumb_find(f, CONTRACT_HOLDS, "of step %lld; goes on at step %lld, in bf16 as well",
                   step, step + 1);
}

static void judge_checkpoint(const contract_seen *s, contract_finding *f)
{
    const bool promised = plumb_offers(s, "checkpoint");

    if (s->ref != NULL)
        judge_resume(s, f);
    else if (promised)
        plumb_find(f, CONTRACT_UNKNOWN, "none in three steps, though asked for at step %d",
                   CONTRACT_CHECKPOINT);
    else
        plumb_find(f, CONTRACT_MISSING, "not offered");
}

static void judge_exact_resume(const contract_seen *s, contract_finding *f)
{
    const bool further = s->asked[CONTRACT_FURTHER];
    const plumb_history *resumed = history_of(s, CONTRACT_RESUME);
    const plumb_history *whole = history_of(s, further ? CONTRACT_FURTHER : CONTRACT_BASE);
    const contract_state bad =
        plumb_offers(s, "exact_resume") ? CONTRACT_BROKEN : CONTRACT_MISSING;
    bool by_hash = false;

    if (s->ref == NULL || resumed->count == 0) {
        plumb_find(f, s->ref == NULL ? CONTRACT_MISSING : bad, "%s",
                   s->ref == NULL ? "no checkpoint to resume" : "it does not resume");
        return;
    }
    const int64_t batches = plumb_history_confounded(resumed, whole);
    const int64_t step = plumb_history_differ(resumed, whole, &by_hash);

    if (batches > 0)
        plumb_find(f, CONTRACT_BROKEN, "step %lld has another batch than without the break",
                   (long long)batches);
    else if (step > 0)
        plumb_find(f, bad, "step %lld differs from the same without the break",
                   (long long)step);
    else if (whole->count == 0 || whole->at[whole->count - 1].step <= s->checkpoint_step)
        plumb_find(f, CONTRACT_UNKNOWN, "no step to compare");
    else
        plumb_find(f, CONTRACT_HOLDS, "step %lld is equal %s",
                   (long long)(s->checkpoint_step + 1), digits(by_hash));
}

/* --- interventions -------------------------------------------------------------------------- */

/* "lr_scale obeyed" and the like behind what text holds; the state gets worse with each. */
static void add_scale(const contract_seen *s, contract_run run, const char *name,
                      bool must_show, contract_finding *f)
{
    const size_t used = strlen(f->text);
    const plumb_history *h = history_of(s, CONTRACT_BASE);
    bool by_hash = false;
    const char *word = "obeyed";
    contract_state state = CONTRACT_HOLDS;

    if (!plumb_offers(s, name))
        return;
    if (plumb_came_to_nothing(s, run) || other_batches(s, run) > 0)
        word = "breaks the run", state = CONTRACT_BROKEN;
    else if (differs(s, run, &by_hash) == 0 && must_show && h->count > 1)
        word = "ignored", state = CONTRACT_BROKEN;
    else if (differs(s, run, &by_hash) == 0)
        word = "shows nothing in three steps";
    snprintf(f->text + used, sizeof f->text - used, "%s%s %s", used > 0 ? ", " : "", name,
             word);
    f->state = state < f->state ? state : f->state;
}

static void judge_scales(const contract_seen *s, contract_finding *f)
{
    plumb_find(f, CONTRACT_HOLDS, "%s", "");
    add_scale(s, CONTRACT_LR, "lr_scale", true, f);
    if (!plumb_offers(s, "lr_scale"))
        f->state = CONTRACT_MISSING;
    add_scale(s, CONTRACT_WARMUP, "warmup_scale", false, f);
    add_scale(s, CONTRACT_CLIP, "clip_scale", false, f);
    if (f->text[0] == 0)
        plumb_find(f, CONTRACT_MISSING, "not offered");
}

static void judge_skip(const contract_seen *s, contract_finding *f)
{
    bool by_hash = false;

    if (!plumb_offers(s, "skip")) {
        plumb_find(f, CONTRACT_MISSING, "not offered");
        return;
    }
    if (plumb_came_to_nothing(s, CONTRACT_SKIP)) {
        plumb_find_nothing(s, CONTRACT_SKIP, f);
        return;
    }
    const int64_t batches = other_batches(s, CONTRACT_SKIP);
    const int64_t step = batches >= 0 ? batches : differs(s, CONTRACT_SKIP, &by_hash);

    if (step != 2)
        plumb_find(f, CONTRACT_BROKEN, "asked to skip the batch of step 2: %s",
                   step == 0 ? "ignored" : "that of step 1 changes");
    else
        plumb_find(f, CONTRACT_HOLDS, "step 2 takes another batch, step 1 the same");
}

static void judge_samples(const contract_seen *s, contract_finding *f)
{
    bool by_hash = false;

    if (!plumb_offers(s, "observe"))
        plumb_find(f, CONTRACT_MISSING, "not offered");
    else if (plumb_came_to_nothing(s, CONTRACT_SENSORS))
        plumb_find_nothing(s, CONTRACT_SENSORS, f);
    else if (s->samples_trouble[0] != 0)
        plumb_find(f, CONTRACT_BROKEN, "%s", s->samples_trouble);
    else if (s->samples == 0)
        plumb_find(f, CONTRACT_BROKEN, "promised, and none of three steps");
    else if (s->foreign_samples > 0)
        plumb_find(f, CONTRACT_BROKEN, "%zu of their sites are not declared",
                   s->foreign_samples);
    else if (other_batches(s, CONTRACT_SENSORS) > 0 ||
             (differs(s, CONTRACT_SENSORS, &by_hash) > 0 &&
              differs(s, CONTRACT_AGAIN, &by_hash) == 0))
        plumb_find(f, CONTRACT_BROKEN, "sensors change the numbers");
    else
        plumb_find(f, CONTRACT_HOLDS,
                   "%zu samples of sites; numbers with sensors off are equal", s->samples);
}

/* --- the table --------------------------------------------------------------------------------- */

static contract_judge *const judges[PLUMB_LACK_COUNT] = {
    [PLUMB_LACK_STEPS] = plumb_judge_steps,
    [PLUMB_LACK_DECLARATION] = plumb_judge_declaration,
    [PLUMB_LACK_SITES] = plumb_judge_sites,
    [PLUMB_LACK_PLACES] = plumb_judge_places,
    [PLUMB_LACK_USES] = plumb_judge_uses,
    [PLUMB_LACK_CONFIG_HASH] = plumb_judge_config_hash,
    [PLUMB_LACK_GRAD_NORM] = plumb_judge_grad_norm,
    [PLUMB_LACK_STATE_HASH] = plumb_judge_state_hash,
    [PLUMB_LACK_BATCH_HASH] = plumb_judge_batch_hash,
    [PLUMB_LACK_REPEAT] = judge_repeat,
    [PLUMB_LACK_SEED] = judge_seed,
    [PLUMB_LACK_DATA_SEED] = judge_data_seed,
    [PLUMB_LACK_POLICY] = judge_policy,
    [PLUMB_LACK_PARTS] = judge_parts,
    [PLUMB_LACK_REFUSAL] = judge_refusal,
    [PLUMB_LACK_CHECKPOINT] = judge_checkpoint,
    [PLUMB_LACK_EXACT_RESUME] = judge_exact_resume,
    [PLUMB_LACK_MICRO_ORDER] = judge_order,
    [PLUMB_LACK_SCALES] = judge_scales,
    [PLUMB_LACK_SKIP] = judge_skip,
    [PLUMB_LACK_SAMPLES] = judge_samples,
    [PLUMB_LACK_END] = plumb_judge_end,
    [PLUMB_LACK_STOP] = plumb_judge_stop,
    [PLUMB_LACK_FORWARD] = plumb_judge_forward,
};

void plumb_contract_judge(const contract_seen *seen,
                          contract_finding found[PLUMB_LACK_COUNT])
{
    const bool nothing = seen->outcome[CONTRACT_BASE].history.count == 0;

    for (int gap = 0; gap < PLUMB_LACK_COUNT; gap++) {
        found[gap] = (contract_finding){.state = CONTRACT_UNKNOWN};
        if (nothing && gap > PLUMB_LACK_USES)
            plumb_find(&found[gap], CONTRACT_UNKNOWN, "no step was logged");
        else
            judges[gap](seen, &found[gap]);
    }
}
