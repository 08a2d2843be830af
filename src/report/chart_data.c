/* Which runs and which site are drawn, and their numbers. */
#include "report/chart.h"

#include "plumb/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the page for each heat map: two of sites, one of layers. */
enum { RUNS_TRIED = 200, HEAT_BYTES = 420000, SHADOW_BYTES = 60000 };

const char *const report_role_class[REPORT_ROLES] = {"own", "twin", "healed", "fix",
                                                     "mask"};
const char *const report_role_name[REPORT_ROLES] = {"own run", "bf16 twin", "cast back",
                                                    "with the fix", "lower rate"};

const char *report_outcome_class(report_outcome outcome)
{
    static const char *const classes[] = {"held", "failed", "broken", "open"};

    return classes[outcome];
}

/* --- runs ------------------------------------------------------------------------ */

static const report_run *first_of(const report_verdict *v, const char *phase,
                                  report_outcome outcome)
{
    for (size_t i = 0; i < v->run_count; i++)
        if (report_is_phase(&v->runs[i], phase) && v->runs[i].outcome == outcome)
            return &v->runs[i];
    return NULL;
}

static const report_run *last_healed(const report_verdict *v, const char *phase)
{
    for (size_t i = v->run_count; i-- > 0;)
        if (report_is_phase(&v->runs[i], phase) && v->runs[i].outcome == REPORT_HELD)
            return &v->runs[i];
    return NULL;
}

/* The first run of the phase that has the wanted outcome, else the first of the phase. */
static const report_run *prefer(const report_verdict *v, const char *phase,
                                report_outcome wanted)
{
    const report_run *found = first_of(v, phase, wanted);

    for (size_t i = 0; i < v->run_count && found == NULL; i++)
        if (report_is_phase(&v->runs[i], phase))
            found = &v->runs[i];
    return found;
}

/* A run of the proof with the fix in it: other seeds of the twin and of the run are there too. */
static bool has_fix(const report_verdict *v, const report_run *run)
{
    return report_is_phase(run, "proof") && run->outcome == REPORT_HELD &&
           (!v->fix.has || v->fix.rules == NULL || json_equal(run->rules, v->fix.rules));
}

static void pick_runs(const report_verdict *v, const report_run *run[REPORT_ROLES])
{
    static const char *const narrowing[] = {"operand", "layer", "class"};

    run[REPORT_OWN] = prefer(v, "repeat", REPORT_FAILED);
    if (run[REPORT_OWN] == NULL && v->run_count > 0)
        run[REPORT_OWN] = &v->runs[0];
    run[REPORT_TWIN] = prefer(v, "twin", REPORT_HELD);
    for (size_t i = 0; i < 3 && run[REPORT_HEALED] == NULL; i++)
        run[REPORT_HEALED] = last_healed(v, narrowing[i]);
    for (size_t i = 0; i < v->run_count && run[REPORT_FIX] == NULL; i++)
        if (has_fix(v, &v->runs[i]))
            run[REPORT_FIX] = &v->runs[i];
    run[REPORT_MASK] = prefer(v, "mask", REPORT_HELD);
}

static plumb_status load_arms(const char *study, report_charts *c, plumb_error *why)
{
    char path[4096];

    for (int role = 0; role < REPORT_ROLES; role++) {
        const report_run *run = c->run[role];

        if (run == NULL)
            continue;
        if (report_run_directory(study, run, path) &&
            report_series_run(path, c->arm[role], why) == PLUMB_NO_MEMORY)
            return PLUMB_NO_MEMORY;
        if (c->arm[role][REPORT_LOSS].count == 0)
            c->run[role] = NULL;
    }
    return PLUMB_OK;
}

/* --- the site -------------------------------------------------------------------- */

static bool is_culprit(const report_verdict *v, const char *site)
{
    for (size_t i = 0; i < json_array_size(v->sites); i++)
        if (strcmp(report_string_at(v->sites, i), site) == 0)
            return true;
    return false;
}

/* The culprit that moved first; else the first culprit; else what moved first. */
static const char *pick_site(const report_verdict *v)
{
    const char *moved = v->first_moved.has ? v->first_moved.site : NULL;
    const char *culprit = report_string_at(v->sites, 0);

    if (moved != NULL && (culprit == NULL || is_culprit(v, moved)))
        return moved;
    return culprit;
}

/* Reads the site's statistics of one run, and its heat map; false when it has none. */
static bool read_site(const char *run_dir, const char *site, report_site_series *series,
                      report_heat *heat)
{
    plumb_samples samples = {0};
    plumb_error why;

    if (plumb_samples_read(run_dir, &samples, &why) == PLUMB_OK) {
        report_series_site(&samples, site, series, &why);
        if (series->headroom.count > 0)
            report_heat_sites(&samples, HEAT_BYTES, heat, &why);
    }
    plumb_samples_free(&samples);
    return series->headroom.count > 0;
}

static bool try_site(const char *study, const report_run *run, const char *site,
                     report_site_series *series, report_heat *heat)
{
    char path[4096];

    return report_run_directory(study, run, path) && read_site(path, site, series, heat);
}

/* What the directory says besides its samples: the deviation from bf16, and the site's format. */
static void load_words(const char *run_dir, report_charts *c)
{
    plumb_declaration declared;
    json_t *events = NULL;
    plumb_error why;

    if (plumb_events_read(run_dir, &events, NULL, &why) == PLUMB_OK)
        report_heat_shadow(events, SHADOW_BYTES, &c->shadow, &why);
    json_decref(events);
    if (plumb_declaration_read(run_dir, &declared, &why) != PLUMB_OK)
        return;
    for (size_t i = 0; i < declared.site_count && !c->has_format; i++) {
        char name[32];

        if (strcmp(declared.sites[i].name, c->site) != 0)
            continue;
        plumb_print(name, sizeof name, "%.*s", (int)strcspn(declared.sites[i].own, ":/ "),
                    declared.sites[i].own);
        c->has_format = plumb_format_parse(name, &c->format);
    }
    plumb_declaration_free(&declared);
}

/* All that is read of the failing run beside its samples. */
static void load_run(const char *run_dir, report_charts *c)
{
    plumb_error why;

    load_words(run_dir, c);
    report_spectra_load(run_dir, &c->ill_spectra, &why);
}

static void load_well_spectra(const char *study, report_charts *c)
{
    char path[4096];
    plumb_error why;

    if (report_run_directory(study, c->well, path))
        report_spectra_load(path, &c->well_spectra, &why);
}

/* The failing run with statistics: an unchanged one if there is one. */
static void load_ill(const char *study, report_charts *c)
{
    const report_verdict *v = c->verdict;

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < v->run_count && i < RUNS_TRIED; i++) {
            const report_run *run = &v->runs[i];
            const bool unchanged =
                !report_is_search(run) && !report_is_phase(run, "proof") &&
                !report_is_phase(run, "mask") && !report_is_phase(run, "twin");

            if (unchanged != (round == 0) || (round == 1 && run->outcome != REPORT_FAILED))
                continue;
            if (try_site(study, run, c->site, &c->ill_series, &c->ill_heat)) {
                char path[4096];

                c->ill = run;
                if (report_run_directory(study, run, path))
                    load_run(path, c);
                return;
            }
        }
    }
}

/* The fixed arm; else the twin; else the arm that healed. */
static void load_well(const char *study, report_charts *c)
{
    const report_verdict *v = c->verdict;
    static const report_role roles[] = {REPORT_FIX, REPORT_TWIN, REPORT_HEALED};
    static const char *const phases[] = {"proof", "twin", "operand"};

    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < v->run_count && i < RUNS_TRIED; i++) {
            const report_run *run = &v->runs[i];

            if (roles[k] == REPORT_FIX
                    ? !has_fix(v, run)
                    : !report_is_phase(run, phases[k]) || run->outcome != REPORT_HELD)
                continue;
            if (try_site(study, run, c->site, &c->well_series, &c->well_heat)) {
                c->well = run;
                c->well_role = roles[k];
                load_well_spectra(study, c);
                return;
            }
        }
    }
}

plumb_status report_charts_load(const char *study, const report_verdict *verdict,
                                report_charts *charts, plumb_error *why)
{
    const char *site = pick_site(verdict);

    *charts = (report_charts){.verdict = verdict};
    pick_runs(verdict, charts->run);
    const plumb_status status = load_arms(study, charts, why);

    if (status != PLUMB_OK) {
        report_charts_free(charts);
        return status;
    }
    if (site != NULL && strlen(site) < sizeof charts->site) {
        plumb_print(charts->site, sizeof charts->site, "%s", site);
        load_ill(study, charts);
        load_well(study, charts);
    }
    return PLUMB_OK;
}

/* The site of a run that is looked at: the one with the least headroom before a value is not
 * finite; where there is none, the first.
 */
static bool worst_site(const char *run_dir, char site[PLUMB_SITE_NAME])
{
    plumb_samples samples = {0};
    plumb_error why;
    const plumb_sample *worst = NULL;

    site[0] = 0;
    if (plumb_samples_read(run_dir, &samples, &why) != PLUMB_OK)
        return false;
    for (size_t i = 0; i < samples.count; i++) {
        const plumb_sample *s = &samples.at[i];

        if (worst == NULL || (s->headroom > 0 && s->headroom < worst->headroom))
            worst = s;
    }
    if (worst != NULL)
        plumb_print(site, PLUMB_SITE_NAME, "%s", samples.site_names[worst->site]);
    plumb_samples_free(&samples);
    return site[0] != 0;
}

plumb_status report_charts_load_run(const char *run_dir, const report_verdict *verdict,
                                    report_charts *charts, plumb_error *why)
{
    *charts = (report_charts){.verdict = verdict};
    const plumb_status status = report_series_run(run_dir, charts->arm[REPORT_OWN], why);

    if (status != PLUMB_OK)
        return status;
    if (charts->arm[REPORT_OWN][REPORT_LOSS].count > 0 && verdict->run_count > 0)
        charts->run[REPORT_OWN] = &verdict->runs[0];
    if (verdict->run_count > 0 && worst_site(run_dir, charts->site) &&
        read_site(run_dir, charts->site, &charts->ill_series, &charts->ill_heat))
        charts->ill = &verdict->runs[0];
    load_run(run_dir, charts);
    return PLUMB_OK;
}

void report_charts_free(report_charts *charts)
{
    for (int role = 0; role < REPORT_ROLES; role++)
        for (int field = 0; field < REPORT_FIELDS; field++)
            report_series_free(&charts->arm[role][field]);
    report_site_series_free(&charts->ill_series);
    report_site_series_free(&charts->well_series);
    report_heat_free(&charts->ill_heat);
    report_heat_free(&charts->well_heat);
    report_heat_free(&charts->shadow);
    report_spectra_free(&charts->ill_spectra);
    report_spectra_free(&charts->well_spectra);
    *charts = (report_charts){0};
}

/* --- ranges ---------------------------------------------------------------------- */

static void thin(report_series *series, double first, double last, size_t columns,
                 plumb_status *status, plumb_error *why)
{
    if (*status == PLUMB_OK)
        *status = report_series_thin(series, first, last, columns, why);
}

static double last_step(const report_series *series)
{
    return series->count > 0 ? series->at[series->count - 1].step : 0;
}

plumb_status report_charts_thin(report_charts *charts, size_t columns, plumb_error *why)
{
    report_site_series *const site[] = {&charts->ill_series, &charts->well_series};
    plumb_status status = PLUMB_OK;
    double last = 0;

    for (int role = 0; role < REPORT_ROLES; role++)
        last = fmax(last, last_step(&charts->arm[role][REPORT_LOSS]));
    for (int role = 0; role < REPORT_ROLES; role++)
        for (int field = 0; field < REPORT_FIELDS; field++)
            thin(&charts->arm[role][field], 0, last,
                 field == REPORT_LOSS ? columns : columns / 2, &status, why);
    last = fmax(last_step(&site[0]->headroom), last_step(&site[1]->headroom));
    for (int i = 0; i < 2; i++) {
        thin(&site[i]->headroom, 0, last, columns, &status, why);
        thin(&site[i]->saturated, 0, last, columns, &status, why);
        thin(&site[i]->flushed, 0, last, columns, &status, why);
        thin(&site[i]->zero, 0, last, columns, &status, why);
    }
    return status;
}

bool report_charts_has_loss(const report_charts *charts)
{
    for (int role = 0; role < REPORT_ROLES; role++)
        if (charts->run[role] != NULL)
            return true;
    return false;
}

bool report_charts_has_tails(const report_charts *charts)
{
    for (int role = 0; role < REPORT_ROLES; role++)
        for (int field = REPORT_LOSS + 1; field < REPORT_FIELDS; field++)
            if (charts->arm[role][field].count > 0)
                return true;
    return false;
}

bool report_charts_has_site(const report_charts *charts)
{
    return charts->ill != NULL || charts->well != NULL;
}

bool report_charts_has_window(const report_charts *charts)
{
    return charts->ill != NULL && charts->has_format &&
           !report_spectra_has(&charts->ill_spectra, charts->site) &&
           charts->format != PLUMB_FP32 && charts->format != PLUMB_BF16;
}
