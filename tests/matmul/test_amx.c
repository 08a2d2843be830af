/* The kernel for AMX under the emulator: that it runs there, releases its tiles, and is refused by
 * its own trial where the instructions compute anything but what the manual says.
 *
 * That its bits are right is asked by all tests that walk the micro-kernels or the levels.
 */
#include "amx_emulator.h"
#include "matmul/micro.h"

#include "check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const plumb_micro *amx_row(void)
{
    for (size_t i = 0; i < plumb_micro_count; i++)
        if (plumb_micros[i].cpu == PLUMB_CPU_AMX)
            return &plumb_micros[i];
    return NULL;
}

static void runs(const plumb_micro *amx)
{
    const size_t before = amx_multiplications();

    CHECK(plumb_micro_agrees(amx), "the bits of the reference are others");
    /* Four tiles of results, two chains. */
    CHECK(amx_multiplications() == before + 8, "%zu multiplications",
          amx_multiplications() - before);
    CHECK(!amx_configured(), "tiles were not released");
    check_done("a product is made of tiles");
}

static void trial(const plumb_micro *amx)
{
    for (size_t i = 0; i < plumb_micro_count; i++)
        if ((plumb_micros[i].cpu & ~plumb_cpu_flags()) == 0)
            CHECK(plumb_micro_agrees(&plumb_micros[i]), "%s fails", plumb_micros[i].name);
    for (int fault = AMX_RIGHT + 1; fault < AMX_FAULTS; fault++) {
        amx_break((amx_fault)fault);
        CHECK(!plumb_micro_agrees(amx), "the trial misses fault %d", fault);
    }
    amx_break(AMX_RIGHT);
    check_done("what the trial tells apart");
}

/* A millisecond would be much for a program that multiplies once. */
static void cost(const plumb_micro *amx)
{
    double least = 1;

    for (int i = 0; i < 20; i++) {
        const clock_t start = clock();

        plumb_micro_agrees(amx);
        const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
        least = seconds < least ? seconds : least;
    }
    printf("# a trial takes %.0f us\n", least * 1e6);
}

/* The answer stands for the process: in a child each. */
static void choice(amx_fault fault, bool chosen)
{
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        amx_break(fault);
        const bool first = plumb_micro_best() == amx_row();
        amx_break(AMX_RIGHT);
        const bool second = plumb_micro_best() == amx_row();
        _exit(first == chosen && second == chosen ? 0 : 1);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "fault %d: the kernel must %sbe chosen", (int)fault,
          chosen ? "" : "not ");
}

int main(void)
{
    const plumb_micro *amx = amx_row();

    if (!amx_emulated()) {
        check_skip("AMX by emulation", "this CPU has AMX, or not what it builds on");
        return check_exit();
    }
    choice(AMX_RIGHT, true);
    choice(AMX_ONE_CHAIN, false);
    check_done("the choice");
    runs(amx);
    trial(amx);
    cost(amx);
    return check_exit();
}
