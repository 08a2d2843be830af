/* plumb/policy.h - sites, and the ordered rules that say in what precision each runs.
 *
 * Pure functions; call from anywhere.  Rules are data owned by the caller; reading them
 * from JSON or YAML is done below (plumb/log.h, plumb/train.h).
 */
#ifndef PLUMB_POLICY_H
#define PLUMB_POLICY_H

#include "plumb/quant.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tensor classes, cheapest to cast back first; the last three for policies that do
 * those in few bits.
 */
typedef enum plumb_class {
    PLUMB_COLLECTIVE = 0,
    PLUMB_OPTIMIZER,
    PLUMB_BACKWARD,
    PLUMB_FORWARD,
    PLUMB_LOSS,
    PLUMB_NORM,
    PLUMB_SOFTMAX,
    PLUMB_CLASS_COUNT
} plumb_class;

const char *plumb_class_name(plumb_class class_);
bool plumb_class_parse(const char *name, plumb_class *class_);

enum { PLUMB_SITE_NAME = 128 };

/* {"sites": glob or list, "use": name, "raise": bool} */
typedef struct plumb_rule {
    const char *const *globs; /* POSIX fnmatch without flags: '*' crosses '/' */
    size_t glob_count;
    const char *use; /* a spec text (plumb/quant.h), or "own" */
    bool raise;      /* touch only sites whose own format has fewer bits */
} plumb_rule;

/* True when one of the rule's globs matches the site. */
bool plumb_rule_matches(const plumb_rule *rule, const char *site);

/* What the site runs in: the last rule that matches wins; no match, or "own", gives *own.
 * A raise rule whose use has no more bits than own's format is passed over as if it did
 * not match.  A bare 8-bit format keeps own's scale rule where own is an 8-bit format,
 * else per-tensor current, saturating.  *winner gets the index of the deciding rule, or
 * SIZE_MAX; may be NULL.
 *
 * PLUMB_BAD_INPUT when the winning rule's use does not parse (or, with raise, when it would
 * have to be parsed to see whether it wins), with the number of the rule, from 1, and text.
 */
plumb_status plumb_policy_resolve(const plumb_rule *rules, size_t rule_count,
                                  const char *site, const plumb_spec *own,
                                  plumb_spec *effective, size_t *winner, plumb_error *why);

/* A named recipe: rules over the sites of a decoder-only transformer (plumb/train.h names
 * them), to be followed by the user's own rules.  Presets: bf16, te-delayed, te-current,
 * deepseek-v3, te-mxfp8, ocp-mx, torchao-rowwise, each with its source in policy/presets.c.  NULL if
 * there is none.
 */
typedef struct plumb_preset {
    const char *name;
    const char *summary;
    const plumb_rule *rules;
    size_t rule_count;
} plumb_preset;

extern const plumb_preset plumb_presets[];
extern const size_t plumb_preset_count;
const plumb_preset *plumb_preset_find(const char *name);

#ifdef __cplusplus
}
#endif
#endif
