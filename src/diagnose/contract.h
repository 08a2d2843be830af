/* contract.h - what the runs of a contract check showed, and what follows from it.
 *
 * contract.c asks for the runs, contract_judge.c holds each row of plumb_lacks (plumb/log.h) against
 * them, contract_sum.c says what a diagnosis can find and writes the report.  The latter two run
 * nothing: they are functions of this struct alone.
 */
#ifndef DIAGNOSE_CONTRACT_H
#define DIAGNOSE_CONTRACT_H

#include "diagnose/experiment.h"

enum { CONTRACT_STEPS = 3, CONTRACT_CHECKPOINT = 2, CONTRACT_TEXT = 300 };

/* The runs, in the order in which they are asked for. */
typedef enum contract_run {
    CONTRACT_LOOK,
    CONTRACT_BASE,
    CONTRACT_AGAIN,
    CONTRACT_SEED,
    CONTRACT_DATA_SEED,
    CONTRACT_ORDER,
    CONTRACT_TWIN,
    CONTRACT_CLASS,
    CONTRACT_SITE,
    CONTRACT_REFUSE,
    CONTRACT_FURTHER, /* where the first checkpoint comes after the last step of the others */
    CONTRACT_RESUME,
    CONTRACT_RESUME_TWIN,
    CONTRACT_NO_START,
    CONTRACT_LR,
    CONTRACT_WARMUP,
    CONTRACT_CLIP,
    CONTRACT_SKIP,
    CONTRACT_SENSORS,
    CONTRACT_STOP,
    CONTRACT_RUNS
} contract_run;

typedef struct contract_seen {
    plumb_declaration declaration;
    bool declared;
    bool late;         /* declared only by a run that trains */
    char trouble[256]; /* why it could not be read; "" where there is none */

    bool asked[CONTRACT_RUNS];
    plumb_outcome outcome[CONTRACT_RUNS];
    char reason[CONTRACT_RUNS][16]; /* of end.json; "" without one */

    char *ref; /* of the checkpoint that was resumed; NULL: none */
    int64_t checkpoint_step, resumed_to;

    bool constant_hash; /* state_hash is the same at every step; it is forgotten then */
    size_t low_sites, low_classes;
    plumb_class part_class; /* of the class and of the site that are asked for alone */
    size_t part_sites, part_site;

    char samples_trouble[256];
    size_t samples, foreign_samples; /* rows; of sites that are not declared */

    size_t runs, went_back; /* runs with lines of steps gone through before */
    int64_t restart_step;   /* of the first event `restart`; -1: none */
    bool restart_said;
    double grace;
} contract_seen;

typedef enum contract_state {
    CONTRACT_BROKEN, /* promised, or needed by any verdict, and not so */
    CONTRACT_UNKNOWN,
    CONTRACT_MISSING, /* not offered: less is enough */
    CONTRACT_HOLDS,
    CONTRACT_STATES
} contract_state;

typedef struct contract_finding {
    contract_state state;
    char text[CONTRACT_TEXT]; /* what was seen */
} contract_finding;

/* One finding for each row of plumb_lacks.  Pure. */
void plumb_contract_judge(const contract_seen *seen,
                          contract_finding found[PLUMB_LACK_COUNT]);

/* The report (plumb/diagnose.h); NULL without memory.  Pure. */
json_t *plumb_contract_report(const contract_seen *seen,
                              const contract_finding found[PLUMB_LACK_COUNT],
                              const plumb_contract_settings *settings);

/* What a run is called, for people. */
const char *plumb_contract_label(contract_run run);

/* --- contract_said.c: what the trainer says of itself, and how it reads -------------------- */

/* Writes a finding. */
void plumb_find(contract_finding *f, contract_state state, const char *format, ...)
    PLUMB_PRINTF(3, 4);

/* The finding is what became of a run that was to log steps and did not. */
void plumb_find_nothing(const contract_seen *s, contract_run run, contract_finding *f);
bool plumb_came_to_nothing(const contract_seen *s, contract_run run);
bool plumb_offers(const contract_seen *s, const char *feature);

/* The state_hash of two rows or more is the same in all. */
bool plumb_hash_is_constant(const plumb_history *history);

typedef void contract_judge(const contract_seen *s, contract_finding *f);

contract_judge plumb_judge_steps, plumb_judge_declaration, plumb_judge_sites,
    plumb_judge_places, plumb_judge_uses, plumb_judge_config_hash, plumb_judge_grad_norm,
    plumb_judge_state_hash, plumb_judge_batch_hash, plumb_judge_end, plumb_judge_stop,
    plumb_judge_forward;

/* The whole check over any source of runs; plumb_contract_check calls it with a study. */
plumb_status plumb_contract_check_with(const plumb_runner *runner,
                                       const plumb_contract_settings *settings,
                                       plumb_progress_fn *progress, void *context,
                                       json_t **report, plumb_error *why);

#endif
