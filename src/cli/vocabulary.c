/* The closed lists that words on a command line come from, read from the registries of the
 * libraries: completion offers them, and a word that is in none of them gets the nearest.
 */
#include "cli/cli.h"

#include "plumb/matmul.h"
#include "plumb/policy.h"
#include "plumb/train.h"

#include <string.h>

enum { MOST_WORDS = 256 };

static const char *nth_format(size_t i, const char **about)
{
    *about = NULL;
    return i < PLUMB_FORMAT_COUNT ? plumb_format_get((plumb_format)i)->name : NULL;
}

static const char *nth_unit(size_t i, const char **about)
{
    const plumb_unit *unit = i < PLUMB_SUM_COUNT ? plumb_unit_get((plumb_sum_kind)i) : NULL;

    *about = unit != NULL ? plumb_evidence_name(unit->evidence) : NULL;
    return i < PLUMB_SUM_COUNT ? plumb_sum_kind_name((plumb_sum_kind)i) : NULL;
}

static const char *nth_recipe(size_t i, const char **about)
{
    *about = i < plumb_preset_count ? plumb_presets[i].summary : NULL;
    return i < plumb_preset_count ? plumb_presets[i].name : NULL;
}

static const char *nth_verb(size_t i, const char **about)
{
    *about = i < cli_verb_count ? cli_verbs[i]->summary : NULL;
    return i < cli_verb_count ? cli_verbs[i]->name : NULL;
}

static const char *nth_setting(size_t i, const char **about)
{
    size_t count;
    const plumb_setting *table = plumb_train_settings(&count);

    *about = i < count ? table[i].help : NULL;
    return i < count ? table[i].key : NULL;
}

static const cli_vocabulary vocabularies[] = {
    {"FORMAT", "format", "plumb format", nth_format},
    {"UNIT", "accumulator", "plumb matmul --list", nth_unit},
    {"RECIPE", "recipe", "plumb explain", nth_recipe},
    {"COMMAND", "command", "plumb help", nth_verb},
    {"SETTING", "setting", "plumb train --settings", nth_setting},
    {"WORD", "word", "plumb explain", cli_word},
    {"SCENARIO", "scenario", "plumb demo --list", cli_scenario},
};

const cli_vocabulary *cli_vocabulary_find(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++)
        if (strlen(vocabularies[i].name) == length &&
            memcmp(vocabularies[i].name, name, length) == 0)
            return &vocabularies[i];
    return NULL;
}

int cli_unknown(const char *name, const char *word)
{
    const cli_vocabulary *vocabulary = cli_vocabulary_find(name, strlen(name));
    const char *words[MOST_WORDS], *about;
    char hint[PLUMB_HINT];
    size_t count = 0;

    while (count < MOST_WORDS && (words[count] = vocabulary->nth(count, &about)) != NULL)
        count++;
    if (*plumb_hint(word, words, count, hint) != 0)
        return cli_complain("unknown %s '%.60s'%s", vocabulary->what, word, hint);
    return cli_complain("unknown %s '%.60s'; '%s' lists them", vocabulary->what, word,
                        vocabulary->list);
}
