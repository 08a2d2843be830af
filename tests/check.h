/* check.h - the test harness: CHECK records a failure and carries on, output is TAP.
 *
 *   CHECK(got == want, "%s(%a) = %02x, want %02x", ...);
 *   check_done("name");            one TAP line for what was checked since the last one
 *   check_skip("name", "reason");  says so, and counts as skipped
 *   return check_exit();           0, 1, or 77 when everything was skipped
 *
 * Only the first 10 failures of a test are printed in full.
 */
#ifndef PLUMB_CHECK_H
#define PLUMB_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct {
    unsigned long checks, failures, total_failures;
    unsigned tests, skipped;
} check_state;

__attribute__((format(printf, 4, 5), unused)) static bool
check_that(bool holds, const char *file, int line, const char *format, ...)
{
    check_state.checks++;
    if (holds)
        return true;
    if (check_state.failures++ < 10) {
        va_list arguments;

        printf("# %s:%d: ", file, line);
        va_start(arguments, format);
        vprintf(format, arguments);
        va_end(arguments);
        printf("\n");
    }
    check_state.total_failures++;
    return false;
}

#define CHECK(cond, ...) check_that((cond), __FILE__, __LINE__, __VA_ARGS__)

/* A status that must be PLUMB_OK, with the message of plumb_error `why`. */
#define CHECK_OK(call, why) CHECK((call) == PLUMB_OK, "%s: %s", #call, (why).message)

static inline void check_done(const char *name)
{
    check_state.tests++;
    if (check_state.checks == 0) {
        printf("not ok %u - %s # checked nothing\n", check_state.tests, name);
        check_state.total_failures++;
    } else {
        printf("%s %u - %s (%lu checks, %lu failed)\n",
               check_state.failures ? "not ok" : "ok", check_state.tests, name,
               check_state.checks, check_state.failures);
    }
    check_state.checks = check_state.failures = 0;
}

static inline void check_skip(const char *name, const char *reason)
{
    check_state.tests++;
    check_state.skipped++;
    printf("ok %u - %s # SKIP %s\n", check_state.tests, name, reason);
}

static inline int check_exit(void)
{
    printf("1..%u\n", check_state.tests);
    if (check_state.total_failures > 0)
        return 1;
    return check_state.tests > 0 && check_state.skipped == check_state.tests ? 77 : 0;
}

#endif
