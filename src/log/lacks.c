/* What a trainer may lack, as data: the table of section 11 of docs/run-contract.md, which a test
 * holds to this one.  A row says what the verdict loses and what the trainer has to do about it.
 */
#include "plumb/log.h"

const plumb_lack_row plumb_lacks[PLUMB_LACK_COUNT] = {
    [PLUMB_LACK_STEPS] =
        {"steps", "a line of `step` and `loss` for each step",
         "nothing can be said of the run",
         "append it to `metrics.jsonl` and flush it, before the next step"},
    [PLUMB_LACK_DECLARATION] =
        {"run.json", "`run.json`",
         "no class, layer or site: only \"numerics\" or \"not numerics\"",
         "write it before step 1, also where `stop_at` is 0 (section 3)"},
    [PLUMB_LACK_SITES] = {"sites", "`sites`",
                          "no class and no place; the fix is \"bf16 everywhere\"",
                          "list what a policy can switch; of a global switch, one site"},
    [PLUMB_LACK_PLACES] = {"places", "`layer`, `gemm`, `operand`",
                           "the search stops at the class",
                           "give each site of a layer these three fields"},
    [PLUMB_LACK_USES] =
        {"uses", "`uses` beyond `bf16`",
         "a mechanism (scale, format, saturation) is never caused, at best compared",
         "offer the site's format with another scale rule, and obey it"},
    [PLUMB_LACK_CONFIG_HASH] =
        {"config_hash", "`config_hash`",
         "kept runs of an edited trainer are used: take another `--study` then",
         "hash sources and settings into `run.json`"},
    [PLUMB_LACK_GRAD_NORM] = {"grad_norm", "`grad_norm`",
                              "failures show only in the loss, later",
                              "log the global norm before clipping, in each line"},
    [PLUMB_LACK_STATE_HASH] =
        {"state_hash", "`state_hash`",
         "\"reproducible\" is said of printed digits; an ignored policy shows later",
         "hash weights and optimizer state after the update, in each line"},
    [PLUMB_LACK_BATCH_HASH] =
        {"batch_hash", "`batch_hash`",
         "other data look like other arithmetic: equal batches are assumed",
         "hash the token ids of the global batch, in each line"},
    [PLUMB_LACK_REPEAT] =
        {"repeat", "the same numbers from the same request",
         "a difference between two arms may be chance",
         "seed everything from the request; choose deterministic kernels"},
    [PLUMB_LACK_SEED] = {"seed", "`PLUMB_SEED` obeyed",
                         "a fix is proved on one seed only, whatever is asked",
                         "seed the initialisation and all random bits with it"},
    [PLUMB_LACK_DATA_SEED] =
        {"data_seed", "`data_seed`",
         "order of data and random bits of the arithmetic vary together",
         "seed the order of the data with it, and with nothing else"},
    [PLUMB_LACK_POLICY] = {"policy", "`PLUMB_POLICY` obeyed",
                           "all: whether it is the arithmetic cannot be told",
                           "run bf16 where its rules say so (section 4)"},
    [PLUMB_LACK_PARTS] =
        {"parts", "a class or a site alone in bf16",
         "the search stops at \"bf16 everywhere\"",
         "match globs with names of sites; the last rule that matches wins"},
    [PLUMB_LACK_REFUSAL] =
        {"refusal", "status 3 for what cannot be done",
         "an arm that ran something else counts as an answer",
         "end with status 3 before step 1, and say why on standard error"},
    [PLUMB_LACK_CHECKPOINT] =
        {"checkpoint", "`checkpoint`",
         "every arm starts at step 1 and costs more; weights are not judged in bf16",
         "obey `checkpoint_at` and `start`; report each by its event (section 7)"},
    [PLUMB_LACK_EXACT_RESUME] =
        {"exact_resume", "`exact_resume`",
         "checkpoints are still tried, and used where they prove right",
         "keep data position, random state, scales and amax history, too"},
    [PLUMB_LACK_MICRO_ORDER] = {"micro_order", "`micro_order`",
                                "the noise band is assumed (0.10 nats), not measured",
                                "permute the micro-batches of each step by this seed"},
    [PLUMB_LACK_SCALES] = {"scales", "`lr_scale`, `warmup_scale`, `clip_scale`",
                           "the verdict says that masking was not tested",
                           "multiply the learning rate of the schedule by `lr_scale`"},
    [PLUMB_LACK_SKIP] = {"skip", "`skip`", "a poisoned batch is suspected, never caused",
                         "replace the batches of these steps by later ones"},
    [PLUMB_LACK_SAMPLES] = {"samples", "`.pls` files", "no \"what moved first\"",
                            "obey `observe_every`: write site statistics (section 8)"},
    [PLUMB_LACK_END] = {"end.json", "`end.json`",
                        "a run that ends early has \"died\", whatever it meant",
                        "write it last, whatever the reason (section 9)"},
    [PLUMB_LACK_STOP] = {"stop", "an end where and when it is asked for",
                         "plumb ends it by force, and what it had not written is lost",
                         "stop after `stop_at`; look for the file `stop` after each step"},
    [PLUMB_LACK_FORWARD] = {"forward", "steps that only go forward",
                            "what a second try of the same steps did is not seen",
                            "let no launcher restart it, or report the event `restart`"},
};
