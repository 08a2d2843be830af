/* Planted faults, for demos and tests: what is configured, and who is called when.
 *
 * They reach the run through the site hook, the specs that the model takes and the state objects only;
 * nothing else knows of them, and they share no constant with what detects them.  A run without faults
 * pays a loop over nothing.
 */
#include "train/faults.h"

#include <stdlib.h>
#include <string.h>

#include "quant/spec.h"

const fault_kind *fault_kind_at(size_t index)
{
    const fault_family *const families[] = {
        &faults_of_scales,    &faults_of_operands, &faults_of_copies, &faults_of_casts,
        &faults_of_gradients, &faults_of_ranks,    &faults_of_moments};

    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (index < families[i]->count)
            return &families[i]->at[index];
        index -= families[i]->count;
    }
    return NULL;
}

/* --- sites ------------------------------------------------------------------------------ */

static size_t linears(const trainer *t)
{
    return plumb_linear_site_count(&t->shape);
}

static bool is_linear(const trainer *t, size_t index)
{
    return index < linears(t);
}

static bool is_weight(size_t index)
{
    return fault_role(index) == PLUMB_FPROP_W || fault_role(index) == PLUMB_DGRAD_W;
}

static bool reaches(const trainer *t, fault_reach reach, size_t index)
{
    const bool linear = is_linear(t, index);
    const size_t role = linear ? fault_role(index) : PLUMB_ROLES;
    const plumb_class class_ = t->sites.at[index].class_;

    switch (reach) {
    case FAULT_OPERANDS:
        return t->sites.at[index].gemm != NULL;
    case FAULT_LINEARS:
        return linear;
    case FAULT_WEIGHTS:
        return linear && is_weight(index);
    case FAULT_TURNED:
        return role == PLUMB_DGRAD_W || role == PLUMB_WGRAD_DY || role == PLUMB_WGRAD_X;
    case FAULT_DELTAS:
        return t->sites.at[index].kind == PLUMB_SITE_ATTENTION &&
               strcmp(t->sites.at[index].operand, "ds") == 0;
    case FAULT_SHARDS:
        return linear && !is_weight(index);
    case FAULT_GRADIENTS:
        return role == PLUMB_WGRAD_DY || role == PLUMB_WGRAD_X ||
               class_ == PLUMB_COLLECTIVE;
    case FAULT_COLLECTIVE:
        return class_ == PLUMB_COLLECTIVE;
    default:
        return index >= t->sites.operands &&
               (index - t->sites.operands) % PARAMETER_SITES <= STATE_V;
    }
}

static const char *const reach_words[FAULT_REACHES] = {
    "operand of a product",
    "operand of a linear",
    "weight operand of a linear",
    "second orientation of an operand (dgrad/w, wgrad/dy, wgrad/x)",
    "gradient of softmax (attn/dq/ds, attn/dk/ds)",
    "operand of a linear that ranks have parts of (x, dy)",
    "gradient (wgrad/dy, wgrad/x, collective/grad)",
    "collective/grad",
    "optimizer/m or optimizer/v"};

bool fault_is_live(const trainer *t, size_t index)
{
    return plumb_spec_is_scaled(&t->sites.at[index].effective);
}

size_t fault_parameter_of(const trainer *t, size_t index)
{
    plumb_site s;

    if (index >= t->sites.operands)
        return (index - t->sites.operands) / PARAMETER_SITES;
    plumb_site_get(&t->shape, index, &s);
    return s.parameter;
}

void fault_operand_size(const trainer *t, size_t index, size_t *code_bytes, size_t *scales)
{
    static const bool along_rows[PLUMB_ROLES] = {
        [PLUMB_DGRAD_W] = true, [PLUMB_WGRAD_DY] = true, [PLUMB_WGRAD_X] = true};
    const size_t tokens = t->micro_sequences * t->shape.context;
    const size_t role = fault_role(index);
    const bool dy = role == PLUMB_DGRAD_DY || role == PLUMB_WGRAD_DY;
    plumb_parameter p;

    plumb_parameter_get(&t->shape, fault_parameter_of(t, index), &p);
    plumb_quantized_need(&t->sites.at[index].effective, is_weight(index) ? p.rows : tokens,
                         dy ? p.rows : p.cols, along_rows[role], code_bytes, scales, NULL);
}

size_t fault_calls(const trainer *t, size_t index)
{
    return is_weight(index) ? 1 : t->ranks * t->micro_batches;
}

size_t fault_call(const trainer *t, size_t index)
{
    return is_weight(index) ? 0 : t->faults.rank * t->micro_batches + t->faults.micro;
}

void fault_part(fault *f, plumb_quantized *q, size_t index)
{
    if (f->own[index] == NULL)
        return;
    memcpy(f->own[index], q->codes, q->rows * q->cols);
    q->codes = f->own[index];
}

/* --- creation ----------------------------------------------------------------------------- */

static plumb_status no_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a fault");
}

/* Zeroed memory, which a run's footprint has in it. */
static void *reserve(trainer *t, size_t count, size_t bytes_each)
{
    t->faults.bytes += count * bytes_each;
    return calloc(count, bytes_each);
}

static size_t owner_of(const trainer *t, size_t index)
{
    return index < t->sites.operands ? plumb_site_owner(&t->shape, t->sites.specs, index)
                                     : index;
}

/* The owner of shared codes comes first. */
static bool is_hit(const fault *f, const trainer *t, const plumb_rules *sites, size_t index)
{
    if (!reaches(t, f->kind->reach, index))
        return false;
    return plumb_rule_matches(&sites->at[0], t->sites.at[index].name) ||
           (f->kind->joint && fault_is_live(t, index) && f->hits[owner_of(t, index)]);
}

/* What a site needs: something to carry over; codes of its own; scratch for its scales. */
static plumb_status take(fault *f, trainer *t, size_t index, plumb_error *why)
{
    const bool operand = index < t->sites.operands && f->kind->operand != NULL;
    const size_t bytes = f->kind->keep == NULL ? 0 : f->kind->keep(t, index);

    if (bytes > 0) {
        f->keep[index] = (fault_keep){reserve(t, bytes, 1), bytes};
        if (f->keep[index].data == NULL)
            return no_memory(why);
    }
    if (operand && is_linear(t, index) && f->kind->reach != FAULT_OPERANDS &&
        owner_of(t, index) != index && !(f->kind->joint && f->hits[owner_of(t, index)])) {
        size_t code_bytes, scales;

        fault_operand_size(t, index, &code_bytes, &scales);
        f->own[index] = reserve(t, code_bytes, 1);
        if (f->own[index] == NULL)
            return no_memory(why);
    }
    return PLUMB_OK;
}

/* Most scales of an operand: one for each 16 elements of the largest. */
static size_t most_scales(const trainer *t)
{
    const size_t tokens = t->micro_sequences * t->shape.context, s = t->shape.context;
    size_t most = tokens * t->shape.heads * s;

    for (size_t i = 0; i < t->parameter_count; i++) {
        plumb_parameter p;

        plumb_parameter_get(&t->shape, i, &p);
        const size_t widest = p.rows > p.cols ? p.rows : p.cols;
        const size_t size = (tokens > p.rows ? tokens : p.rows) * widest;

        most = size > most ? size : most;
    }
    return most / 16 + tokens + t->shape.ff * 2 + 3 * t->shape.width + PLUMB_VOCABULARY;
}

static plumb_status build(const fault_request *r, size_t number, trainer *t, fault *f,
                          plumb_error *why)
{
    const size_t count = t->sites.count;
    char place[FAULT_PLACE];
    size_t hits = 0;

    *f = (fault){.kind = r->kind, .from = r->from};
    memcpy(f->value, r->value, sizeof f->value);
    f->hits = reserve(t, count, sizeof *f->hits);
    f->keep = reserve(t, count, sizeof *f->keep);
    f->before = reserve(t, t->sites.operands, sizeof *f->before);
    f->own = reserve(t, t->sites.operands, sizeof *f->own);
    f->scratch = reserve(t, most_scales(t), sizeof *f->scratch);
    if (f->hits == NULL || f->keep == NULL || f->before == NULL || f->own == NULL ||
        f->scratch == NULL)
        return no_memory(why);
    for (size_t i = 0; i < count; i++) {
        if (!is_hit(f, t, &r->sites, i))
            continue;
        f->hits[i] = true;
        hits++;
        const plumb_status status = fault_is_live(t, i) ? take(f, t, i, why) : PLUMB_OK;

        if (status != PLUMB_OK)
            return status;
    }
    fault_place(t, number, place);
    if (hits == 0)
        return plumb_fail(why, PLUMB_BAD_INPUT,
                          "%s.sites matches no %s, which is what kind %s acts on", place,
                          reach_words[r->kind->reach], r->kind->name);
    return PLUMB_OK;
}

plumb_status faults_create(trainer *t, plumb_error *why)
{
    const json_t *json = t->settings.faults;
    const size_t count = json == NULL ? 0 : json_array_size(json);

    if (count == 0)
        return PLUMB_OK;
    t->faults.at = reserve(t, count, sizeof *t->faults.at);
    if (t->faults.at == NULL)
        return no_memory(why);
    t->faults.count = count;
    for (size_t i = 0; i < count; i++) {
        fault_request r = {0};
        plumb_status status = fault_read(t, json_array_get(json, i), i, &r, why);

        if (status == PLUMB_OK)
            status = build(&r, i, t, &t->faults.at[i], why);
        plumb_rules_free(&r.sites);
        if (status != PLUMB_OK)
            return status;
    }
    return PLUMB_OK;
}

static void fault_free(fault *f, size_t sites, size_t operands)
{
    for (size_t i = 0; i < sites && f->keep != NULL; i++)
        free(f->keep[i].data);
    for (size_t i = 0; i < operands && f->own != NULL; i++)
        free(f->own[i]);
    free(f->hits);
    free(f->keep);
    free(f->before);
    free(f->own);
    free(f->scratch);
}

void faults_free(trainer *t)
{
    for (size_t i = 0; i < t->faults.count; i++)
        fault_free(&t->faults.at[i], t->sites.count, t->sites.operands);
    free(t->faults.at);
    t->faults = (faults){0};
}

bool faults_hit(const trainer *t, size_t number, size_t index)
{
    return t->faults.at[number].hits[index];
}

/* --- in a run ------------------------------------------------------------------------------- */

void faults_hook(void *context, size_t index, plumb_quantized *q, plumb_scale_state *state)
{
    trainer *t = context;

    for (size_t i = 0; i < t->faults.count; i++) {
        fault *f = &t->faults.at[i];

        if (f->kind->operand != NULL && f->hits[index] && fault_is_live(t, index) &&
            t->faults.step >= f->from - f->kind->lead)
            f->kind->operand(f, t, index, q, state);
    }
}

/* Functions of a fault's sites that are called with the site alone. */
static void at_sites(fault *f, trainer *t, void act(fault *, trainer *, size_t))
{
    for (size_t i = 0; act != NULL && i < t->sites.operands; i++) {
        if (f->hits[i] && fault_is_live(t, i))
            act(f, t, i);
    }
}

void faults_call(trainer *t, size_t rank, size_t micro)
{
    t->faults.rank = rank;
    t->faults.micro = micro;
    for (size_t i = 0; i < t->faults.count && micro == 0; i++)
        at_sites(&t->faults.at[i], t, t->faults.at[i].kind->rank);
}

/* True where a gradient fault acts on a parameter now. */
static bool hits_parameter(const fault *f, const trainer *t, size_t parameter)
{
    for (size_t i = 0; i < t->sites.count && fault_begun(f, t); i++) {
        if (f->hits[i] && fault_is_live(t, i) && fault_parameter_of(t, i) == parameter)
            return true;
    }
    return false;
}

void faults_gradient(trainer *t, float *gradient)
{
    for (size_t i = 0; i < t->faults.count; i++) {
        fault *f = &t->faults.at[i];

        for (size_t j = 0; f->kind->micro != NULL && j < t->parameter_count; j++) {
            const plumb_parameter *p = &t->parameters[j];

            if (hits_parameter(f, t, j))
                f->kind->micro(f, t, p, gradient + p->offset);
        }
    }
}

void faults_shares(trainer *t, size_t parameter)
{
    const size_t index = parameter_site(&t->sites, parameter, STATE_GRAD);

    for (size_t i = 0; i < t->faults.count; i++) {
        fault *f = &t->faults.at[i];

        if (f->kind->shares != NULL && f->hits[index] && fault_is_live(t, index) &&
            t->faults.step >= f->from - f->kind->lead)
            f->kind->shares(f, t, index, &t->parameters[parameter]);
    }
}

void faults_sum(trainer *t, size_t parameter)
{
    const plumb_parameter *p = &t->parameters[parameter];
    const size_t index = parameter_site(&t->sites, parameter, STATE_GRAD);

    for (size_t i = 0; i < t->faults.count; i++) {
        fault *f = &t->faults.at[i];

        if (f->kind->sum != NULL && f->hits[index] && fault_is_live(t, index) &&
            fault_begun(f, t))
            f->kind->sum(f, t, p, t->share[0] + p->offset);
    }
}

/* The moments are those that the step left behind. */
static void moments(fault *f, trainer *t)
{
    for (size_t i = t->sites.operands; f->kind->moment != NULL && i < t->sites.count; i++) {
        const plumb_parameter *p = &t->parameters[fault_parameter_of(t, i)];
        const size_t which = (i - t->sites.operands) % PARAMETER_SITES;

        if (f->hits[i] && fault_is_live(t, i) && t->step >= f->from)
            f->kind->moment(f, t, p, (which == STATE_M ? t->m : t->v) + p->offset);
    }
}

void faults_start(trainer *t)
{
    t->faults.step = t->step + 1;
    for (size_t i = 0; i < t->faults.count; i++) {
        for (size_t j = 0; j < t->sites.operands; j++)
            t->faults.at[i].before[j] = -1;
        at_sites(&t->faults.at[i], t, t->faults.at[i].kind->start);
    }
}

void faults_between(trainer *t)
{
    t->faults.step = t->step + 1;
    for (size_t i = 0; i < t->faults.count; i++) {
        fault *f = &t->faults.at[i];

        for (size_t j = 0; j < t->sites.operands; j++)
            f->before[j] = -1;
        at_sites(f, t, f->kind->state);
        moments(f, t);
    }
}

bool faults_kept(const trainer *t, size_t index, char name[FAULT_NAME],
                 unsigned char **data, size_t *bytes)
{
    for (size_t i = 0; i < t->faults.count; i++) {
        for (size_t j = 0; j < t->sites.count; j++) {
            const fault_keep *keep = &t->faults.at[i].keep[j];

            if (keep->bytes == 0 || index-- > 0)
                continue;
            plumb_print(name, FAULT_NAME, "fault.%zu/%s", i, t->sites.at[j].name);
            *data = keep->data;
            *bytes = keep->bytes;
            return true;
        }
    }
    return false;
}
