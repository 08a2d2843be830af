/* The validation loss: of the text that was kept back, in two arithmetics, once, at the end of the
 * schedule, and without moving anything of the run.
 */
#include "run.h"

/* The event of a run, or false. */
static bool validation(const test_run *r, double *own, double *bf16)
{
    json_t *events = NULL;
    size_t bad;
    bool found = false;

    if (plumb_events_read(r->dir, &events, &bad, NULL) == PLUMB_OK) {
        const json_t *event = test_event(events, "validation");

        found = event != NULL && plumb_json_to_real(json_object_get(event, "loss"), own) &&
                plumb_json_to_real(json_object_get(event, "loss_bf16"), bf16);
    }
    json_decref(events);
    return found;
}

static test_run whole(const char *path, const char *more)
{
    char all[256];
    test_run r = test_request();

    r.request.stop_at = 40; /* the schedule's end */
    snprintf(all, sizeof all, "validation.batches=2 %s", more);
    test_go(&r, path, all);
    CHECK(r.status == 0, "%s: status %d: %s", more, r.status, r.said);
    return r;
}

static void two_arithmetics(void)
{
    char path[128];
    double own = 0, bf16 = 0;
    test_run plain = whole(NULL, "recipe=bf16");

    CHECK(validation(&plain, &own, &bf16) && own == bf16,
          "a bf16 run: %.17g in its own arithmetic, %.17g in bf16", own, bf16);
    CHECK(fabs(own - plain.history.at[39].loss) < 0.5,
          "validation %g after training loss %g", own, plain.history.at[39].loss);
    test_free(&plain);

    test_run rounded = whole(NULL, "recipe=te-delayed");

    CHECK(validation(&rounded, &own, &bf16) && own != bf16 && fabs(own - bf16) < 0.1,
          "te-delayed: %g and %g", own, bf16);
    test_free(&rounded);

    /* A fault of the arithmetic belongs to it, and to it alone. */
    snprintf(path, sizeof path, "%s/wrong.yaml", test_root);
    test_write(path, "faults: [{kind: scale-factor, sites: \"layer.0/mlp.down/fprop/x\", "
                     "from: 40, factor: 64}]\n");
    test_run wrong = whole(path, "recipe=te-current");

    CHECK(validation(&wrong, &own, &bf16) && fabs(own - bf16) > 0.1,
          "a wrong scale shows as %g and %g", own, bf16);
    test_free(&wrong);
    check_done("in its own arithmetic and in bf16");
}

/* A text whose end is like nothing before: only who reads the end is surprised. */
static void unseen_text(void)
{
    char path[128], setting[160];
    double own = 0, bf16 = 0;
    char *text = malloc(20001);

    if (text == NULL)
        return;
    for (int i = 0; i < 20000; i++)
        text[i] = (char)(i < 19000 ? 'a' + i % 2 : 'z');
    text[20000] = 0;
    snprintf(path, sizeof path, "%s/ends-in-z", test_root);
    test_write(path, text);
    free(text);
    snprintf(setting, sizeof setting, "data=%s", path);
    test_run r = whole(NULL, setting);

    CHECK(r.history.at[39].loss < 2, "training loss %g", r.history.at[39].loss);
    CHECK(validation(&r, &own, &bf16) && own > r.history.at[39].loss + 2,
          "validation %g after training loss %g", own, r.history.at[39].loss);
    test_free(&r);
    check_done("of text that was never trained on");
}

static void moves_nothing(void)
{
    double own, bf16;
    test_run with = whole(NULL, "recipe=te-delayed");
    test_run without = whole(NULL, "recipe=te-delayed validation.batches=0");
    test_run stopped = test_plain("recipe=te-delayed validation.batches=2");

    CHECK(test_differ(&with, &without) == 0, "validation moves step %lld",
          (long long)test_differ(&with, &without));
    CHECK(!validation(&without, &own, &bf16), "validation though it was turned off");
    CHECK(!validation(&stopped, &own, &bf16), "validation before the end of the schedule");
    test_free(&with);
    test_free(&without);
    test_free(&stopped);
    check_done("once, and moves nothing");
}

int main(void)
{
    test_begin();
    two_arithmetics();
    unseen_text();
    moves_nothing();
    test_end();
    return check_exit();
}
