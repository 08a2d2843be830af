/* Which class?  Every class that has few bits somewhere goes back to bf16, alone, cheapest
 * first, until one heals beyond doubt; dearer ones are then no answer that anybody wants.  One that
 * heals with a gap to the twin near the band may do so by chance, so the others are tried as well,
 * and the one nearest to the twin is taken.  If none heals, pairs; if no pair does, all together,
 * which the twin has shown to heal.
 */
#include "diagnose/experiment.h"

#include <stdio.h>
#include <string.h>

typedef struct survey {
    plumb_set sets[PLUMB_CLASS_COUNT];
    plumb_answer answers[PLUMB_CLASS_COUNT];
    bool tried[PLUMB_CLASS_COUNT];
    int present, tries, healers;
} survey;

/* Of the band: a gap up to this leaves no doubt. */
static const double no_doubt = 0.5;

static plumb_status count(plumb_experiment *x, survey *s, plumb_error *why)
{
    for (int c = 0; c < PLUMB_CLASS_COUNT; c++) {
        if (!plumb_set_by_class(x, (plumb_class)c, &s->sets[c]))
            return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a class of sites");
        s->present += s->sets[c].count > 0;
    }
    return PLUMB_OK;
}

static plumb_status try_set(plumb_experiment *x, const plumb_set *set, const char *what,
                            plumb_answer *answer, plumb_error *why)
{
    char label[120];
    json_t *rules = plumb_rules_over(x, set, "bf16", true);

    snprintf(label, sizeof label, "%s back to bf16", what);
    const plumb_status status =
        rules == NULL ? plumb_fail(why, PLUMB_NO_MEMORY, "no memory for rules")
                      : plumb_ask_arm(x, "class", label, rules, answer, why);

    json_decref(rules);
    return status;
}

static plumb_status try_singles(plumb_experiment *x, survey *s, plumb_error *why)
{
    for (int c = 0; c < PLUMB_CLASS_COUNT; c++) {
        if (s->sets[c].count == 0)
            continue;
        plumb_answer *answer = &s->answers[c];
        const plumb_status status =
            try_set(x, &s->sets[c], plumb_class_name((plumb_class)c), answer, why);

        if (status != PLUMB_OK)
            return status;
        s->tried[c] = true;
        s->tries++;
        s->healers += answer->heals;
        if (answer->heals && answer->gap <= no_doubt * x->band)
            break;
    }
    return PLUMB_OK;
}

static plumb_status adopt(plumb_experiment *x, const survey *s, int a, int b,
                          plumb_error *why)
{
    const plumb_set none = {0};

    x->classes[0] = (plumb_class)a;
    x->class_count = 1;
    if (b >= 0) {
        x->classes[1] = (plumb_class)b;
        x->class_count = 2;
    }
    x->scope = b >= 0 ? "pair" : "class";
    if (!plumb_set_join(&s->sets[a], b >= 0 ? &s->sets[b] : &none, &x->culprits))
        return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a class of sites");
    return PLUMB_OK;
}

static plumb_status say_singles(plumb_experiment *x, const survey *s)
{
    char text[400] = "";
    size_t n = 0;

    for (int c = 0; c < PLUMB_CLASS_COUNT && n < sizeof text; c++) {
        if (!s->tried[c])
            continue;
        const char *join = n > 0 ? ", " : "", *name = plumb_class_name((plumb_class)c);

        if (!s->answers[c].heals && s->answers[c].failure.step == 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s gave no answer", join,
                                  name);
        else if (s->answers[c].heals)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s heals", join, name);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s does not (step %lld)",
                                  join, name, (long long)s->answers[c].failure.step);
    }
    return plumb_state(x, "compared", "One class at a time back to bf16: %s%s.", text,
                       s->tries < s->present ? "; dearer ones were not tried" : "");
}

static plumb_status try_pairs(plumb_experiment *x, survey *s, plumb_error *why)
{
    for (int b = 1; b < PLUMB_CLASS_COUNT; b++)
        for (int a = 0; a < b; a++) {
            plumb_set both;
            char what[60];
            plumb_answer answer = {0};

            if (s->sets[a].count == 0 || s->sets[b].count == 0)
                continue;
            if (!plumb_set_join(&s->sets[a], &s->sets[b], &both))
                return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for a pair of classes");
            snprintf(what, sizeof what, "%s and %s", plumb_class_name((plumb_class)a),
                     plumb_class_name((plumb_class)b));
            const plumb_status status = try_set(x, &both, what, &answer, why);

            plumb_set_free(&both);
            if (status != PLUMB_OK)
                return status;
            if (answer.heals)
                return adopt(x, s, a, b, why);
        }
    return PLUMB_OK;
}

static plumb_status take_all(plumb_experiment *x, survey *s, plumb_error *why)
{
    x->all_classes = true;
    x->scope = "all classes";
    for (int c = 0; c < PLUMB_CLASS_COUNT; c++) {
        plumb_set more;

        if (!plumb_set_join(&x->culprits, &s->sets[c], &more))
            return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for all classes");
        plumb_set_free(&x->culprits);
        x->culprits = more;
    }
    return plumb_state(x, "compared",
                       "No class and no pair of classes heals; all of them together do.");
}

/* Only two classes have few bits, so the twin has shown that both together heal. */
static plumb_status adopt_both(plumb_experiment *x, survey *s, plumb_error *why)
{
    int pair[2], found = 0;

    for (int c = 0; c < PLUMB_CLASS_COUNT && found < 2; c++)
        if (s->sets[c].count > 0)
            pair[found++] = c;
    const plumb_status status = adopt(x, s, pair[0], pair[1], why);

    if (status != PLUMB_OK)
        return status;
    return plumb_state(x, "compared", "Neither class heals alone; %s and %s together do.",
                       plumb_class_name((plumb_class)pair[0]),
                       plumb_class_name((plumb_class)pair[1]));
}

/* Of the classes that heal the one with the smallest gap; -1: none heals. */
static int nearest(const survey *s)
{
    int best = -1;

    for (int c = 0; c < PLUMB_CLASS_COUNT; c++)
        if (s->answers[c].heals && (best < 0 || s->answers[c].gap < s->answers[best].gap))
            best = c;
    return best;
}

static plumb_status decide(plumb_experiment *x, survey *s, plumb_error *why)
{
    plumb_status status = say_singles(x, s);

    if (status != PLUMB_OK)
        return status;
    const int best = nearest(s);

    if (best >= 0 && s->healers > 1)
        status = plumb_limit(x,
                             "%d classes heal alone; the search goes on in %s, which is "
                             "nearest to the twin.",
                             s->healers, plumb_class_name((plumb_class)best));
    if (status != PLUMB_OK || best >= 0)
        return status == PLUMB_OK ? adopt(x, s, best, -1, why) : status;
    if (s->present == 2)
        return adopt_both(x, s, why);
    status = try_pairs(x, s, why);
    if (status == PLUMB_OK && x->class_count == 0)
        status = take_all(x, s, why);
    return status;
}

plumb_status plumb_stage_classes(plumb_experiment *x, plumb_error *why)
{
    survey s = {0};

    if (x->class_count > 0) /* the guess was right */
        return PLUMB_OK;
    plumb_status status = count(x, &s, why);

    if (status == PLUMB_OK && s.present == 1) {
        for (int c = 0; c < PLUMB_CLASS_COUNT && status == PLUMB_OK; c++)
            if (s.sets[c].count > 0)
                status = adopt(x, &s, c, -1, why);
        if (status == PLUMB_OK)
            status = plumb_state(
                x, "compared",
                "%s is the only class with fewer bits than bf16, so the twin is "
                "its arm: it heals.",
                plumb_class_name(x->classes[0]));
    } else if (status == PLUMB_OK && s.present > 1) {
        status = plumb_question_now(x, why, "Which class, back in bf16, heals it?");
        if (status == PLUMB_OK)
            status = try_singles(x, &s, why);
        if (status == PLUMB_OK)
            status = decide(x, &s, why);
    }
    for (int c = 0; c < PLUMB_CLASS_COUNT; c++)
        plumb_set_free(&s.sets[c]);
    return status;
}
