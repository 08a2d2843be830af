/* plumb contract check, the findings on one run at a time: what the trainer declares, logs and says of
 * its end.  Pure.  A judge reads contract_seen and writes one finding; where a run came to nothing, what
 * it said of itself is the finding.
 */
#include "diagnose/contract.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plumb_find(contract_finding *f, contract_state state, const char *format, ...)
{
    va_list arguments;

    f->state = state;
    va_start(arguments, format);
    vsnprintf(f->text, sizeof f->text, format, arguments);
    va_end(arguments);
}

/* --- reading the runs ------------------------------------------------------------------ */

static const plumb_history *history_of(const contract_seen *s, contract_run run)
{
    return &s->outcome[run].history;
}

bool plumb_offers(const contract_seen *s, const char *feature)
{
    return plumb_declaration_has(&s->declaration, feature);
}

bool plumb_came_to_nothing(const contract_seen *s, contract_run run)
{
    return s->outcome[run].history.count == 0;
}

/* What became of a run that was to log steps and did not. */
void plumb_find_nothing(const contract_seen *s, contract_run run, contract_finding *f)
{
    char text[200];

    plumb_describe_end(&s->outcome[run], text, sizeof text);
    plumb_find(f, CONTRACT_BROKEN, "%s: %s", plumb_contract_label(run), text);
}

/* How many rows of the run itself hold the hash, and whether it is ever another one. */
static size_t count_hashes(const plumb_history *h, bool of_state, bool *changes)
{
    size_t count = 0;
    uint64_t first = 0;

    *changes = false;
    for (size_t i = 0; i < h->count; i++) {
        const plumb_metrics *row = &h->at[i];
        const uint64_t hash = of_state ? row->state_hash : row->batch_hash;

        if (!(of_state ? row->has_state_hash : row->has_batch_hash))
            continue;
        if (count++ == 0)
            first = hash;
        *changes |= hash != first;
    }
    return count;
}

/* A run that reached its goal has one thing to say: that it went on past it. */
static bool went_on(const plumb_outcome *outcome)
{
    return outcome->end == PLUMB_END_REACHED && outcome->message[0] != 0;
}

/* --- the log ----------------------------------------------------------------------------- */

void plumb_judge_steps(const contract_seen *s, contract_finding *f)
{
    const plumb_outcome *o = &s->outcome[CONTRACT_BASE];
    char text[240];

    if (!s->asked[CONTRACT_BASE])
        plumb_describe_end(&s->outcome[CONTRACT_LOOK], text, sizeof text);
    else
        plumb_describe_end(o, text, sizeof text);
    if (!s->asked[CONTRACT_BASE] || o->history.count == 0)
        plumb_find(f, CONTRACT_BROKEN, "%s", text);
    else if (o->history.bad_lines > 0) {
        plumb_printable(o->history.bad_line, text, 60);
        plumb_find(f, CONTRACT_BROKEN,
                   "%zu lines are no JSON object with step and loss; line %lld: %s",
                   o->history.bad_lines, (long long)o->history.bad_line_number, text);
    } else if (o->first_step != 1)
        plumb_find(f, CONTRACT_BROKEN, "the first line is of step %lld, not 1",
                   (long long)o->first_step);
    else if (o->failure.predicate != PLUMB_FAILS_NOT)
        plumb_find(f, CONTRACT_UNKNOWN, "the run %s", text);
    else if (o->last_step < CONTRACT_STEPS)
        plumb_find(f, CONTRACT_BROKEN, "%s", text);
    else
        plumb_find(f, CONTRACT_HOLDS, "steps 1 to %d, each with its loss", CONTRACT_STEPS);
}

void plumb_judge_declaration(const contract_seen *s, contract_finding *f)
{
    char trainer[60] = "";

    if (s->trouble[0] != 0)
        plumb_find(f, CONTRACT_BROKEN, "%s", s->trouble);
    else if (!s->declared)
        plumb_find(f, CONTRACT_MISSING, "none is written");
    else if (s->late)
        plumb_find(f, CONTRACT_BROKEN, "it is written, but not where stop_at is 0");
    else if (went_on(&s->outcome[CONTRACT_LOOK]))
        plumb_find(f, CONTRACT_BROKEN, "asked to stop at 0 it logged steps: it trained");
    else {
        plumb_printable(s->declaration.trainer, trainer, sizeof trainer);
        plumb_find(f, CONTRACT_HOLDS, "%s%sof %lld rank%s", trainer,
                   trainer[0] != 0 ? ", " : "", (long long)s->declaration.world_size,
                   s->declaration.world_size == 1 ? "" : "s");
    }
}

void plumb_judge_sites(const contract_seen *s, contract_finding *f)
{
    const size_t count = s->declaration.site_count;

    if (count == 0)
        plumb_find(f, CONTRACT_MISSING, "none is declared");
    else if (s->low_sites == 0)
        plumb_find(f, CONTRACT_UNKNOWN, "none of %zu runs in fewer bits than bf16: %s",
                   count, "is this the run that fails?");
    else
        plumb_find(f, CONTRACT_HOLDS, "%zu, of which %zu in few bits, in %zu class%s",
                   count, s->low_sites, s->low_classes, s->low_classes == 1 ? "" : "es");
}

void plumb_judge_places(const contract_seen *s, contract_finding *f)
{
    const plumb_declaration *d = &s->declaration;
    size_t placed = 0, layers = 0;

    for (size_t i = 0; i < d->site_count; i++) {
        if (!plumb_format_is_low(d->sites[i].own))
            continue;
        layers += d->sites[i].layer >= 0;
        placed += d->sites[i].gemm != NULL && d->sites[i].operand != NULL;
    }
    if (layers == 0 || placed == 0)
        plumb_find(f, CONTRACT_MISSING, "%s",
                   layers == 0 ? "no layers" : "no gemm and operand");
    else
        plumb_find(f, CONTRACT_HOLDS,
                   "of %zu sites in few bits %zu have a layer, %zu a GEMM", s->low_sites,
                   layers, placed);
}

void plumb_judge_uses(const contract_seen *s, contract_finding *f)
{
    const plumb_declaration *d = &s->declaration;
    size_t more = 0;

    for (size_t i = 0; i < d->site_count; i++)
        for (size_t k = 0; k < d->sites[i].use_count; k++)
            if (strcmp(d->sites[i].uses[k], "bf16") != 0 &&
                plumb_format_is_low(d->sites[i].uses[k])) {
                more++;
                break;
            }
    if (more == 0)
        plumb_find(f, CONTRACT_MISSING, "every site offers bf16 alone");
    else
        plumb_find(f, CONTRACT_HOLDS, "%zu of %zu sites offer other formats, too", more,
                   d->site_count);
}

void plumb_judge_config_hash(const contract_seen *s, contract_finding *f)
{
    const char *hash = s->declaration.config_hash;

    if (hash == NULL || hash[0] == 0)
        plumb_find(f, CONTRACT_MISSING, "not declared");
    else
        plumb_find(f, CONTRACT_HOLDS, "declared");
}

void plumb_judge_grad_norm(const contract_seen *s, contract_finding *f)
{
    const plumb_history *h = history_of(s, CONTRACT_BASE);
    size_t count = 0;

    for (size_t i = 0; i < h->count; i++)
        count += h->at[i].has_grad_norm;
    if (count == 0)
        plumb_find(f, CONTRACT_MISSING, "in no line");
    else if (count < h->count)
        plumb_find(f, CONTRACT_BROKEN, "in %zu of %zu lines", count, h->count);
    else
        plumb_find(f, CONTRACT_HOLDS, "in every line");
}

bool plumb_hash_is_constant(const plumb_history *history)
{
    bool changes;
    const size_t count = count_hashes(history, true, &changes);

    return count > 1 && count == history->count && !changes;
}

/* The hashes of rows: there, in every row, and of something. */
static void judge_hash(const contract_seen *s, bool of_state, contract_finding *f)
{
    const plumb_history *h = history_of(s, CONTRACT_BASE);
    const bool promised = plumb_offers(s, of_state ? "state_hash" : "batch_hash");
    bool changes;
    const size_t count = count_hashes(h, of_state, &changes);

    if (of_state && s->constant_hash)
        plumb_find(f, CONTRACT_BROKEN, "the same at every step: it is not of the weights");
    else if (count == 0)
        plumb_find(f, promised ? CONTRACT_BROKEN : CONTRACT_MISSING, "%s",
                   promised ? "promised, and in no line" : "in no line");
    else if (count < h->count)
        plumb_find(f, CONTRACT_BROKEN, "in %zu of %zu lines", count, h->count);
    else if (h->count > 1 && !changes)
        plumb_find(f, CONTRACT_UNKNOWN, "the same at every step: is it the same batch?");
    else
        plumb_find(f, CONTRACT_HOLDS, "in every line%s",
                   promised ? "" : ", though not declared");
}

void plumb_judge_state_hash(const contract_seen *s, contract_finding *f)
{
    judge_hash(s, true, f);
}

void plumb_judge_batch_hash(const contract_seen *s, contract_finding *f)
{
    judge_hash(s, false, f);
}

/* --- the end --------------------------------------------------------------------------------- */

void plumb_judge_end(const contract_seen *s, contract_finding *f)
{
    const char *reason = s->reason[CONTRACT_BASE];

    if (reason[0] == 0)
        plumb_find(f, CONTRACT_MISSING, "none is written, or with another reason");
    else if (strcmp(reason, "reached") != 0 && !went_on(&s->outcome[CONTRACT_BASE]) &&
             s->outcome[CONTRACT_BASE].failure.predicate == PLUMB_FAILS_NOT)
        plumb_find(f, CONTRACT_BROKEN, "at its goal it gives the reason \"%s\"", reason);
    else
        plumb_find(f, CONTRACT_HOLDS, "%s", reason);
}

void plumb_judge_stop(const contract_seen *s, contract_finding *f)
{
    const plumb_outcome *base = &s->outcome[CONTRACT_BASE],
                        *stop = &s->outcome[CONTRACT_STOP];
    const char *reason = s->reason[CONTRACT_STOP];

    if (went_on(base))
        plumb_find(f, CONTRACT_BROKEN, "it went on past step %d, where it was to stop",
                   CONTRACT_STEPS);
    else if (plumb_came_to_nothing(s, CONTRACT_STOP))
        plumb_find_nothing(s, CONTRACT_STOP, f);
    else if (strcmp(reason, "reached") == 0 || strcmp(reason, "nonfinite") == 0)
        plumb_find(f, CONTRACT_UNKNOWN, "it had ended before it could be asked to");
    else if (stop->signal == 9)
        plumb_find(f, CONTRACT_BROKEN, "asked to end, it had to be killed after %g s",
                   s->grace);
    else if (strcmp(reason, "stopped") == 0)
        plumb_find(f, CONTRACT_HOLDS, "asked to, it ends in time and says so");
    else
        plumb_find(f, CONTRACT_HOLDS, "asked to, it ends in time, without saying so");
}

void plumb_judge_forward(const contract_seen *s, contract_finding *f)
{
    if (s->restart_said)
        plumb_find(f, CONTRACT_BROKEN, "it reports a restart at step %lld",
                   (long long)s->restart_step);
    else if (s->went_back > 0)
        plumb_find(f, CONTRACT_BROKEN,
                   "in %zu of %zu runs steps are gone through again: %s", s->went_back,
                   s->runs, "a restart that nothing tells of");
    else
        plumb_find(f, CONTRACT_HOLDS, "in %zu runs no step came twice", s->runs);
}
