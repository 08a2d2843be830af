/* Whether a run fails, and where two runs part: pure functions of their logs.
 *
 * Predicates are causal: what is decided at a step rests on that step and those before, so
 * judging a run while it grows gives what judging the whole of it would.  Two runs are
 * compared only at steps that both have logged.
 */
#include "study/judge.h"

#include <math.h>

static const plumb_predicate persistent[STUDY_PERSISTENT] = {
    PLUMB_FAILS_RISE, PLUMB_FAILS_ENTROPY, PLUMB_FAILS_GAP};

const char *plumb_predicate_name(plumb_predicate predicate)
{
    switch (predicate) {
    case PLUMB_FAILS_NOT:
        return "none";
    case PLUMB_FAILS_NONFINITE:
        return "nonfinite";
    case PLUMB_FAILS_RISE:
        return "rise";
    case PLUMB_FAILS_ENTROPY:
        return "entropy";
    case PLUMB_FAILS_GAP:
        return "gap";
    case PLUMB_FAILS_ARITHMETIC:
        return "arithmetic";
    case PLUMB_FAILS_INVARIANT:
        return "invariant";
    case PLUMB_FAILS_COUNT:
        break;
    }
    return "unknown";
}

static double smoothing_or_default(double smoothing)
{
    return smoothing > 0 && smoothing < 1 ? smoothing : 0.9;
}

void study_judge_init(study_judge *judge, const plumb_predicates *predicates)
{
    *judge = (study_judge){.never = predicates == NULL, .last_step = INT64_MIN};
    if (predicates == NULL)
        return;
    judge->rules = *predicates;
    judge->rules.smoothing = smoothing_or_default(predicates->smoothing);
    if (!(predicates->rise > 0))
        judge->rules.rise = 0.5;
    if (predicates->persistence <= 0)
        judge->rules.persistence = 10;
}

bool study_row_nonfinite(const plumb_metrics *row)
{
    return !isfinite(row->loss) || (row->has_grad_norm && !isfinite(row->grad_norm));
}

/* The average starts with its first value, so that early steps are not pulled to zero. */
static double smooth(bool begun, double average, double smoothing, double value)
{
    return begun ? smoothing * average + (1 - smoothing) * value : value;
}

/* The index of `step` in a history ordered by step, searching on from *next; SIZE_MAX when
 * it was not logged.  *next is left at the first row that may still matter.
 */
static size_t row_of(const plumb_history *history, size_t *next, int64_t step)
{
    while (*next < history->count && history->at[*next].step < step)
        ++*next;
    return *next < history->count && history->at[*next].step == step ? *next : SIZE_MAX;
}

/* True when the twin has this step, so that the gap is a new value. */
static bool read_gap(study_judge *judge, const plumb_metrics *row)
{
    const plumb_history *twin = judge->rules.twin;

    if (twin == NULL || judge->unpaired)
        return false;
    const size_t index = row_of(twin, &judge->twin_next, row->step);
    if (index == SIZE_MAX)
        return false;
    if (study_row_nonfinite(&twin->at[index])) {
        judge->unpaired = true;
        return false;
    }
    judge->gap = smooth(judge->paired, judge->gap, judge->rules.smoothing,
                        row->loss - twin->at[index].loss);
    judge->paired = true;
    return true;
}

/* Counts a row for persistent predicate k, and records the failure once it has held long
 * enough.
 */
static void hold(study_judge *judge, size_t k, int64_t step, double value, double threshold)
{
    if (!(value > threshold)) {
        judge->state[k].held = 0;
        return;
    }
    if (judge->state[k].held++ == 0)
        judge->state[k].step = step;
    if (judge->state[k].held >= judge->rules.persistence &&
        judge->failure.predicate == PLUMB_FAILS_NOT)
        judge->failure =
            (plumb_failure){persistent[k], judge->state[k].step, step, value, threshold};
}

static void read_row(study_judge *judge, const plumb_metrics *row)
{
    const plumb_predicates *rules = &judge->rules;

    if (study_row_nonfinite(row)) {
        judge->failure =
            (plumb_failure){PLUMB_FAILS_NONFINITE, row->step, row->step,
                            isfinite(row->loss) ? row->grad_norm : row->loss, 0};
        return;
    }
    judge->smooth = smooth(judge->begun, judge->smooth, rules->smoothing, row->loss);
    judge->least = judge->begun ? fmin(judge->least, judge->smooth) : judge->smooth;
    judge->begun = true;
    hold(judge, 0, row->step, judge->smooth, judge->least + rules->rise);
    if (rules->entropy > 0 && rules->entropy_after > 0 && row->step >= rules->entropy_after)
        hold(judge, 1, row->step, judge->smooth, rules->entropy);
    if (read_gap(judge, row))
        hold(judge, 2, row->step, judge->gap, rules->band);
}

bool study_judge_read(study_judge *judge, const plumb_history *history)
{
    while (!judge->never && judge->next < history->count &&
           judge->failure.predicate == PLUMB_FAILS_NOT) {
        const plumb_metrics *row = &history->at[judge->next++];

        if (row->step <= judge->last_step) /* a restart: the row repeats what was seen */
            continue;
        judge->last_step = row->step;
        read_row(judge, row);
    }
    return judge->failure.predicate != PLUMB_FAILS_NOT;
}

plumb_failure plumb_history_judge(const plumb_history *history,
                                  const plumb_predicates *predicates)
{
    study_judge judge;

    study_judge_init(&judge, predicates);
    study_judge_read(&judge, history);
    return judge.failure;
}

int64_t plumb_history_pending(const plumb_history *history,
                              const plumb_predicates *predicates)
{
    study_judge judge;
    int64_t first = 0;

    study_judge_init(&judge, predicates);
    if (study_judge_read(&judge, history))
        return 0;
    for (size_t k = 0; k < STUDY_PERSISTENT; k++)
        if (judge.state[k].held > 0 && (first == 0 || judge.state[k].step < first))
            first = judge.state[k].step;
    return first;
}

/* --- two runs --------------------------------------------------------------------- */

/* Walks the steps that two histories share, passing over rows that repeat a step. */
typedef struct pair {
    const plumb_history *a, *b;
    size_t i, j;
    int64_t step; /* of the last pair; INT64_MIN at first */
} pair;

static bool next_pair(pair *walk, const plumb_metrics **a, const plumb_metrics **b)
{
    for (; walk->i < walk->a->count; walk->i++) {
        const int64_t step = walk->a->at[walk->i].step;

        if (step <= walk->step)
            continue;
        const size_t index = row_of(walk->b, &walk->j, step);
        if (index == SIZE_MAX)
            continue;
        walk->step = step;
        *a = &walk->a->at[walk->i++];
        *b = &walk->b->at[index];
        return true;
    }
    return false;
}

double plumb_history_gap(const plumb_history *a, const plumb_history *b, double smoothing,
                         int64_t skip, double *last)
{
    const double keep = smoothing_or_default(smoothing);
    pair walk = {a, b, 0, 0, INT64_MIN};
    const plumb_metrics *x, *y;
    double gap = NAN, largest = NAN;
    bool begun = false;

    while (next_pair(&walk, &x, &y) && isfinite(x->loss) && isfinite(y->loss)) {
        gap = smooth(begun, gap, keep, x->loss - y->loss);
        begun = true;
        if (x->step > skip)
            largest = fmax(largest, fabs(gap)); /* fmax passes over NaN */
    }
    if (last != NULL)
        *last = gap;
    return largest;
}

static bool same_loss(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

int64_t plumb_history_differ(const plumb_history *a, const plumb_history *b, bool *by_hash)
{
    pair walk = {a, b, 0, 0, INT64_MIN};
    const plumb_metrics *x, *y;
    bool hashed = false, all_hashed = true;
    int64_t step = 0;

    while (step == 0 && next_pair(&walk, &x, &y)) {
        hashed = x->has_state_hash && y->has_state_hash;
        all_hashed = all_hashed && hashed;
        if (hashed ? x->state_hash != y->state_hash : !same_loss(x->loss, y->loss))
            step = x->step;
    }
    if (by_hash != NULL)
        *by_hash = step != 0 ? hashed : hashed && all_hashed;
    return step;
}

int64_t plumb_history_confounded(const plumb_history *a, const plumb_history *b)
{
    pair walk = {a, b, 0, 0, INT64_MIN};
    const plumb_metrics *x, *y;
    int64_t answer = -1;

    while (next_pair(&walk, &x, &y)) {
        if (!x->has_batch_hash || !y->has_batch_hash)
            continue;
        if (x->batch_hash != y->batch_hash)
            return x->step;
        answer = 0;
    }
    return answer;
}
