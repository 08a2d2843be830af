/* plumb contract check, the sum: what a diagnosis of this trainer can find, and the report.  Pure. */
#include "diagnose/contract.h"

#include <stdlib.h>
#include <string.h>

/* What a diagnosis can find, deepest last, and the rows that must hold for it. */
static const struct {
    const char *what;
    int needs[6]; /* of plumb_lack; ends with -1 */
} depths[] = {
    {"numerics or not", {PLUMB_LACK_STEPS, PLUMB_LACK_POLICY, -1}},
    {"the class",
     {PLUMB_LACK_STEPS, PLUMB_LACK_POLICY, PLUMB_LACK_SITES, PLUMB_LACK_PARTS, -1}},
    {"the layer and the operand",
     {PLUMB_LACK_POLICY, PLUMB_LACK_SITES, PLUMB_LACK_PLACES, PLUMB_LACK_PARTS, -1}},
    {"the mechanism",
     {PLUMB_LACK_POLICY, PLUMB_LACK_SITES, PLUMB_LACK_PARTS, PLUMB_LACK_USES, -1}},
    {"a fix that holds on further seeds",
     {PLUMB_LACK_POLICY, PLUMB_LACK_REPEAT, PLUMB_LACK_SEED, -1}},
    {"what only masks it", {PLUMB_LACK_STEPS, PLUMB_LACK_SCALES, -1}},
    {"what moved first", {PLUMB_LACK_STEPS, PLUMB_LACK_SAMPLES, -1}},
    {"weights good in their own arithmetic only",
     {PLUMB_LACK_POLICY, PLUMB_LACK_CHECKPOINT, PLUMB_LACK_EXACT_RESUME, -1}},
};
enum { DEPTHS = sizeof depths / sizeof *depths };

/* The first row that is needed and does not hold; -1 if there is none. */
static int lacking(size_t depth, const contract_finding *found)
{
    for (const int *need = depths[depth].needs; *need >= 0; need++)
        if (found[*need].state != CONTRACT_HOLDS)
            return *need;
    return -1;
}

/* Adds the depths to finds, or with what they need to lacks. */
static bool add_depths(const contract_finding *found, json_t *finds, json_t *lacks)
{
    bool good = finds != NULL && lacks != NULL;

    for (size_t i = 0; good && i < DEPTHS; i++) {
        const int lack = lacking(i, found);

        if (lack < 0)
            good = json_array_append_new(finds, json_string(depths[i].what)) == 0;
        else
            good = json_array_append_new(lacks,
                                         json_pack("{s:s,s:s}", "what", depths[i].what,
                                                   "needs", plumb_lacks[lack].name)) == 0;
    }
    return good;
}

static int exit_of(const contract_seen *seen, const contract_finding *found)
{
    const plumb_end look = seen->outcome[CONTRACT_LOOK].end;

    if (!seen->asked[CONTRACT_BASE])
        return look == PLUMB_END_NO_START || look == PLUMB_END_REFUSED ? 3 : 2;
    if (seen->outcome[CONTRACT_BASE].history.count == 0)
        return 2;
    for (int gap = 0; gap < PLUMB_LACK_COUNT; gap++)
        if (found[gap].state == CONTRACT_BROKEN)
            return 1;
    return 0;
}

static char *headline_of(int code, const contract_finding *found, const json_t *finds)
{
    char text[600] = "";
    const json_t *what;
    size_t i;

    if (code == 3)
        return plumb_text("It cannot be run as asked: %s.", found[PLUMB_LACK_STEPS].text);
    if (code == 2)
        return plumb_text("Cannot tell: %s.", found[PLUMB_LACK_STEPS].text);
    json_array_foreach(finds, i, what)
        plumb_append(text, sizeof text, "%s%s",
                     i == 0                           ? ""
                     : i + 1 < json_array_size(finds) ? "; "
                                                      : "; and ",
                     json_string_value(what));
    if (json_array_size(finds) == 0)
        return plumb_text("A diagnosis of this trainer can find nothing but whether it "
                          "fails.");
    return plumb_text("A diagnosis of this trainer can find: %s.", text);
}

/* --- the document -------------------------------------------------------------------- */

static const char *const states[CONTRACT_STATES] = {"does not hold", "cannot tell",
                                                    "missing", "holds"};

static json_t *checks_of(const contract_finding *found)
{
    json_t *checks = json_array();

    for (int state = 0; state < CONTRACT_STATES; state++)
        for (int gap = 0; gap < PLUMB_LACK_COUNT; gap++) {
            const plumb_lack_row *row = &plumb_lacks[gap];
            const bool holds = found[gap].state == CONTRACT_HOLDS;

            if ((int)found[gap].state != state)
                continue;
            json_array_append_new(checks, json_pack("{s:s,s:s,s:s,s:o,s:s?,s:s?}", "check",
                                                    row->name, "what", row->what, "state",
                                                    states[state], "text",
                                                    plumb_text_json(found[gap].text),
                                                    "cost", holds ? NULL : row->cost,
                                                    "close", holds ? NULL : row->close));
        }
    return checks;
}

static json_t *runs_of(const contract_seen *seen, double *seconds)
{
    json_t *runs = json_array();

    *seconds = 0;
    for (int run = 0; run < CONTRACT_RUNS; run++) {
        const plumb_outcome *o = &seen->outcome[run];

        if (!seen->asked[run])
            continue;
        *seconds += o->seconds;
        json_array_append_new(
            runs, json_pack("{s:s,s:s,s:s,s:I,s:I,s:f,s:o}", "label",
                            plumb_contract_label((contract_run)run), "id", o->id, "end",
                            plumb_end_name(o->end), "first_step", (json_int_t)o->first_step,
                            "last_step", (json_int_t)o->last_step, "seconds", o->seconds,
                            "message", plumb_text_json(o->message)));
    }
    return runs;
}

static json_t *command_of(const char *const *command)
{
    json_t *words = json_array();

    for (size_t i = 0; command[i] != NULL; i++)
        json_array_append_new(words, plumb_text_json(command[i]));
    return words;
}

/* The diagnosis; where nothing was logged, what would show why. */
static char *next_of(int code, const plumb_contract_settings *settings)
{
    char *words = plumb_shell_words(settings->command);
    char *next = NULL;

    if (code >= 2)
        next = plumb_text("plumb help contract");
    else if (words != NULL)
        next = plumb_text("%s %s",
                          settings->prefix != NULL ? settings->prefix : "plumb diagnose --",
                          words);
    free(words);
    return next;
}

json_t *plumb_contract_report(const contract_seen *seen,
                              const contract_finding found[PLUMB_LACK_COUNT],
                              const plumb_contract_settings *settings)
{
    json_t *finds = json_array(), *lacks = json_array(), *report = NULL;
    const int code = exit_of(seen, found);
    double seconds;
    json_t *runs = runs_of(seen, &seconds);

    if (add_depths(found, finds, lacks)) {
        char *headline = headline_of(code, found, finds);
        char *next = next_of(code, settings);

        if (headline != NULL && next != NULL)
            report = json_pack("{s:s,s:o,s:i,s:o,s:O,s:O,s:o,s:O,s:f,s:o}", "plumb",
                               plumb_build_id(), "command", command_of(settings->command),
                               "exit", code, "headline", plumb_text_json(headline), "finds",
                               finds, "not", lacks, "checks", checks_of(found), "runs",
                               runs, "seconds", seconds, "next", plumb_text_json(next));
        free(headline);
        free(next);
    }
    json_decref(finds);
    json_decref(lacks);
    json_decref(runs);
    return report;
}
