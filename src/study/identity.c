/* What defines a run, as 32 hex digits of XXH3-128.
 *
 * Every field is fed with its length or as eight bytes, lowest first, so two different runs
 * cannot spell the same text and the id does not depend on the machine.  Where a run lies,
 * what people call it and the predicates it is judged by are not part of it.
 */
#include "study/parts.h"

#include <string.h>
#include <xxhash.h>

static void feed_number(XXH3_state_t *state, uint64_t value)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
    XXH3_128bits_update(state, bytes, sizeof bytes);
}

static void feed_real(XXH3_state_t *state, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    feed_number(state, bits);
}

static void feed_text(XXH3_state_t *state, const char *text)
{
    feed_number(state, text == NULL ? UINT64_MAX : strlen(text));
    if (text != NULL)
        XXH3_128bits_update(state, text, strlen(text));
}

static void feed_optional(XXH3_state_t *state, bool has, uint64_t value)
{
    feed_number(state, has);
    feed_number(state, has ? value : 0);
}

static void feed_request(XXH3_state_t *state, const plumb_request *request)
{
    feed_optional(state, request->has_seed, request->seed);
    feed_optional(state, request->has_data_seed, request->data_seed);
    feed_optional(state, request->has_micro_order, request->micro_order);
    feed_number(state, (uint64_t)request->stop_at);
    feed_text(state, request->start);
    feed_number(state, request->checkpoint_count);
    for (size_t i = 0; i < request->checkpoint_count; i++)
        feed_number(state, (uint64_t)request->checkpoint_at[i]);
    feed_real(state, request->lr_scale);
    feed_real(state, request->warmup_scale);
    feed_real(state, request->clip_scale);
    feed_number(state, (uint64_t)request->skip.first);
    feed_number(state, request->skip.first == 0 ? 0 : (uint64_t)request->skip.last);
    feed_number(state, (uint64_t)request->observe_every);
}

static void feed_rules(XXH3_state_t *state, const plumb_rules *rules)
{
    const size_t count = rules == NULL ? 0 : rules->count;

    feed_number(state, count);
    for (size_t i = 0; i < count; i++) {
        const plumb_rule *rule = &rules->at[i];

        feed_number(state, rule->glob_count);
        for (size_t k = 0; k < rule->glob_count; k++)
            feed_text(state, rule->globs[k]);
        feed_text(state, rule->use);
        feed_number(state, rule->raise);
    }
}

plumb_status study_identity(const char *const *command, const plumb_arm *arm,
                            char id[STUDY_ID], plumb_error *why)
{
    XXH3_state_t *state = XXH3_createState();
    XXH128_canonical_t digest;

    if (state == NULL)
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory to hash the request of a run");
    XXH3_128bits_reset(state);
    feed_number(state, PLUMB_CONTRACT_VERSION);
    for (size_t i = 0; command[i] != NULL; i++)
        feed_text(state, command[i]);
    feed_text(state, NULL);
    feed_text(state, arm->config_hash);
    feed_request(state, arm->request);
    feed_rules(state, arm->rules);
    feed_number(state, (uint64_t)(int64_t)arm->repeat);
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
    XXH3_freeState(state);
    for (size_t i = 0; i < sizeof digest.digest; i++)
        plumb_print(id + 2 * i, 3, "%02x", (unsigned)digest.digest[i]);
    return PLUMB_OK;
}

bool study_is_id(const char *name)
{
    return strlen(name) == STUDY_ID - 1 && strspn(name, "0123456789abcdef") == STUDY_ID - 1;
}
