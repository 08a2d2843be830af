/* A step takes no memory: malloc and its family are counted while steps run, for every recipe, one
 * thread and two, with sensors and without, several ranks and micro-batches.
 */
#include "run.h"
#include "train/train.h"

#if defined(__SANITIZE_ADDRESS__) || !defined(__GLIBC__)
enum { COUNTED = 0 };
static size_t calls;
#else
enum { COUNTED = 1 };
static size_t calls; /* of any thread; a race could only lose one of many */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *at, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    calls++;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    calls++;
    return __libc_calloc(count, size);
}

void *realloc(void *at, size_t size)
{
    calls++;
    return __libc_realloc(at, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    calls++;
    return __libc_memalign(alignment, size);
}
#endif

static const char *const runs[] = {
    "recipe=te-delayed",
    "recipe=te-current threads=2",
    "recipe=deepseek-v3 batch.micro_batches=2 batch.ranks=2",
    "recipe=bf16 sensors.every=0",
    "recipe=te-mxfp8 attention.delta=exact from_codes=*/wgrad/x model.norm=layer "
    "model.mlp=gelu model.qk_norm=true model.tied_head=true",
};

/* Steps 2 to 4: the first may start threads. */
static void count(const char *more)
{
    const char *words[TEST_SETTINGS];
    char memory[1024];
    const size_t n = test_settings(more, memory, words);
    trainer *t = calloc(1, sizeof *t);
    plumb_error why = {0};
    step_result r;

    plumb_request_init(&t->request);
    const size_t before = calls;

    CHECK_OK(settings_load(NULL, words, n, &t->settings, &why), why);
    if (CHECK_OK(trainer_create(t, &why), why) &&
        CHECK_OK(trainer_step(t, &r, &why), why)) {
        const size_t taken = calls;

        CHECK(taken > before || !COUNTED, "nothing is counted");
        for (int i = 0; i < 3; i++)
            CHECK_OK(trainer_step(t, &r, &why), why);
        CHECK(calls == taken, "%s: %zu calls in three steps", more, calls - taken);
    }
    trainer_free(t);
    free(t);
}

int main(void)
{
    test_begin();
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        count(runs[i]);
    if (COUNTED)
        check_done("a step takes no memory");
    else
        check_skip("a step takes no memory", "only glibc's malloc is counted");
    test_end();
    return check_exit();
}
