/* Delta debugging against oracles that are known in full: every subset of 10 parts as the needed
 * set, the number of questions, no question twice, the budget, an oracle that fails.
 */
#include "diagnose/ddmin.h"

#include "check.h"

enum { MOST = 16 };

typedef struct planted {
    unsigned needed; /* heals when all of these parts are in */
    unsigned asked[4096];
    size_t count;
    bool twice, fails;
} planted;

static plumb_status oracle(void *context, const size_t *parts, size_t count, bool *heals,
                           plumb_error *why)
{
    planted *p = context;
    unsigned set = 0;

    for (size_t i = 0; i < count; i++)
        set |= 1u << parts[i];
    for (size_t i = 0; i < p->count; i++)
        p->twice |= p->asked[i] == set;
    p->asked[p->count++] = set;
    *heals = (set & p->needed) == p->needed;
    return p->fails ? plumb_fail(why, PLUMB_IO, "disk full") : PLUMB_OK;
}

static unsigned run(planted *p, size_t parts, size_t budget, bool *exhausted)
{
    size_t kept[MOST], count = 0;
    unsigned set = 0;
    plumb_error why = {0};

    CHECK_OK(plumb_ddmin(parts, oracle, p, budget, kept, &count, exhausted, &why), why);
    for (size_t i = 0; i < count; i++) {
        set |= 1u << kept[i];
        CHECK(i == 0 || kept[i] > kept[i - 1], "not ascending");
    }
    return set;
}

static void every_subset(void)
{
    for (unsigned needed = 1; needed < 1u << 10; needed++) {
        planted p = {.needed = needed};
        bool exhausted;
        const unsigned set = run(&p, 10, 500, &exhausted);

        CHECK(set == needed, "needed %03x, kept %03x", needed, set);
        CHECK(!p.twice, "a question was asked twice for %03x", needed);
        CHECK(!exhausted, "500 questions were not enough for %03x", needed);
    }
    check_done("exactly the needed parts are kept");
}

static void few_questions(void)
{
    for (unsigned part = 0; part < 16; part++) {
        planted p = {.needed = 1u << part};
        bool exhausted;

        CHECK(run(&p, 16, 100, &exhausted) == 1u << part, "part %u not found", part);
        CHECK(p.count <= 5, "%zu questions for one part of 16", p.count);
    }
    check_done("one part of 16 is found by halving");
}

/* Any two parts of 16.  The numbers are those of the published algorithm as it stands here, and
 * pin its order: the wager on one part, which is lost here; doubling the cut; staying as fine after a
 * complement healed.
 */
static void two_parts(void)
{
    size_t most = 0, total = 0;

    for (unsigned a = 0; a < 16; a++)
        for (unsigned b = 0; b < a; b++) {
            planted p = {.needed = 1u << a | 1u << b};
            bool exhausted;

            CHECK(run(&p, 16, 100, &exhausted) == p.needed, "pair %u %u", a, b);
            most = p.count > most ? p.count : most;
            total += p.count;
        }
    CHECK(most <= 29, "%zu questions for the hardest pair", most);
    CHECK(total <= 2427, "%zu questions for all pairs", total);
    printf("# pairs of 16: at most %zu questions, %zu in all\n", most, total);
    check_done("pairs of 16");
}

static void budget(void)
{
    planted p = {.needed = 0x3ff};
    bool exhausted;
    const unsigned set = run(&p, 10, 5, &exhausted);

    CHECK(exhausted, "the budget was not noticed");
    CHECK(p.count == 5, "%zu questions on a budget of 5", p.count);
    CHECK((set & p.needed) == p.needed, "what is kept does not heal");
    check_done("budget");
}

static void edges(void)
{
    planted p = {.needed = 1}, broken = {.needed = 1, .fails = true};
    bool exhausted;
    size_t kept[4], count;
    plumb_error why = {0};

    CHECK(run(&p, 1, 10, &exhausted) == 1 && p.count == 0, "one part was asked for");
    CHECK(plumb_ddmin(4, oracle, &broken, 10, kept, &count, &exhausted, &why) == PLUMB_IO,
          "the oracle's failure was lost");
    check_done("one part; an oracle that fails");
}

int main(void)
{
    every_subset();
    few_questions();
    two_parts();
    budget();
    edges();
    return check_exit();
}
