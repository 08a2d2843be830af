/* fake.h - a trainer that is a formula, in place of a study: runs are made up in memory, with a
 * planted fault that is known exactly.
 */
#ifndef TESTS_DIAGNOSE_FAKE_H
#define TESTS_DIAGNOSE_FAKE_H

#include "diagnose/experiment.h"

enum { FAKE_SITES = 13, FAKE_STEPS = 200 };

extern const char *const fake_names[FAKE_SITES];

typedef struct fake {
    /* what is planted */
    unsigned culprits; /* bit i: site i must run in a use that heals */
    bool current_heals, saturate_heals;
    int64_t fails_at; /* 0: never; NaN from there on */
    int64_t delay;    /* by so many steps a culprit in bf16 puts it off; 0: 2 */
    double gap;       /* instead of NaN: so many nats above the twin from there on */
    double chance; /* what is left of `gap` where site 0 alone is cast back; 0: all of it */
    double residue; /* so many nats a healed arm is off with fewer than three sites cast */
    double drift;   /* a run that fails is so many nats off its twin before */
    int64_t drifts_from;     /* from there on */
    double rate_hides_below; /* a learning rate scale under which nothing fails */
    bool twin_fails, deaf, flaky, confounded, refuses, one_seed, silent, no_sites;
    bool without_lr_scale;
    bool
        refuses_current; /* a rule that uses e4m3:current is refused, whatever was declared */
    int orders_die;      /* micro_order is offered, and so many of its two runs die */
    double order_drift;   /* micro_order is offered, and each moves a run by so many nats */
    bool arms_confounded; /* only arms of the search see other batches */
    bool fails_when_repeated; /* the first run is healthy */
    bool dies_when_repeated;  /* before its first step */
    int64_t repeat_late;      /* so many steps later the repeat fails */
    bool never_returns;       /* without the fix the failure does not come back */
    bool fix_cures;           /* nor in a run from a checkpoint that was made under a fix */
    unsigned other_culprits;  /* on other seeds than the first; 0: the same */
    uint64_t own_seed;        /* what the trainer takes when nothing is asked; 0: 1 */
    bool seedless;            /* it takes no other */
    int64_t interrupt_after;  /* runs; 0: never */
    int lucky_repeat;         /* this one of the repeats does not fail */
    int64_t checkpoint;       /* offered after this step; 0: none are */
    double adapts; /* weights made without a healed culprit are so many nats worse in
                                 bf16, after step adapted_from; needs `checkpoint` */
    int64_t adapted_from;
    bool one_id;      /* every run is the same by its id */
    bool arms_forget; /* arms of the search leave no checkpoint */
    bool shared;      /* b.second.dy reads the codes of b.first.dy */
    int suspect; /* number from 1 of the site that the statistics of the first run show to be
                        decoded twice as large; 0: no statistics */
    int rank;    /* that reports violations */
    int64_t violates; /* from this step on an event says so, unless a culprit is healed */
    unsigned gap_culprits;   /* to be rid of the gap these are enough; 0: all of them */
    bool resumes_apart;      /* what goes on from a checkpoint has other numbers */
    unsigned early_culprits; /* more of them in runs that begin before the checkpoint */
    /* what came of it */
    int runs, data_seeds; /* of them such as were asked for a data seed */
    int64_t wished;       /* the last checkpoint that the repeat was asked for; 0: none */
    char directory[64];
} fake;

void fake_begin(fake *f);
void fake_end(fake *f);
plumb_runner fake_runner(fake *f);

#endif
