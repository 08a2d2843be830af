/* Exponent histograms of one run, the formats that its sites ran in, and which sites are shown. */
#include "report/spectra.h"

#include <stdlib.h>
#include <string.h>

#include "report/heat.h"

static plumb_status no_memory(plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "no memory for exponent histograms");
}

/* The format that a spec begins with. */
static plumb_format format_of(const char *spec)
{
    char name[32];
    plumb_format format;

    plumb_print(name, sizeof name, "%.*s", (int)strcspn(spec, ":/ "), spec);
    return plumb_format_parse(name, &format) ? format : PLUMB_FORMAT_COUNT;
}

/* By name: what the run declares as its own, then what it says it really ran in. */
static json_t *specs_of(const char *run_dir)
{
    json_t *specs = json_object(), *events = NULL;
    plumb_declaration declared;
    const json_t *event;
    size_t i;

    if (plumb_declaration_read(run_dir, &declared, NULL) == PLUMB_OK) {
        for (i = 0; i < declared.site_count; i++)
            json_object_set_new(specs, declared.sites[i].name,
                                json_string(declared.sites[i].own));
        plumb_declaration_free(&declared);
    }
    if (plumb_events_read(run_dir, &events, NULL, NULL) == PLUMB_OK) {
        json_array_foreach(events, i, event)
        {
            const char *name = json_string_value(json_object_get(event, "event"));

            if (name != NULL && strcmp(name, "effective") == 0)
                json_object_update(specs, json_object_get(event, "sites"));
        }
    }
    json_decref(events);
    return specs;
}

plumb_status report_spectra_load(const char *run_dir, report_spectra *spectra,
                                 plumb_error *why)
{
    *spectra = (report_spectra){0};
    if (plumb_histograms_read(run_dir, &spectra->read, why) != PLUMB_OK ||
        spectra->read.count == 0)
        return PLUMB_OK;
    spectra->format = calloc(spectra->read.site_count, sizeof *spectra->format);
    if (spectra->format == NULL)
        return no_memory(why);
    json_t *specs = specs_of(run_dir);

    for (size_t i = 0; i < spectra->read.site_count; i++) {
        const char *spec =
            json_string_value(json_object_get(specs, spectra->read.site_names[i]));

        spectra->format[i] = spec != NULL ? format_of(spec) : PLUMB_FORMAT_COUNT;
    }
    json_decref(specs);
    return PLUMB_OK;
}

void report_spectra_free(report_spectra *spectra)
{
    plumb_histograms_free(&spectra->read);
    free(spectra->format);
    *spectra = (report_spectra){0};
}

bool report_spectra_has(const report_spectra *spectra, const char *site)
{
    for (size_t i = 0; i < spectra->read.count; i++)
        if (strcmp(spectra->read.site_names[spectra->read.at[i].sample.site], site) == 0)
            return true;
    return false;
}

/* Sites without a row have no place; the others close ranks.  Puts `first` in where it was left out. */
static size_t close_ranks(const report_spectra *s, const char *first, size_t *row)
{
    bool *there = calloc(s->read.site_count, sizeof *there);
    size_t shown = 0;

    for (size_t i = 0; there != NULL && i < s->read.count; i++)
        there[s->read.at[i].sample.site] = true;
    for (size_t i = 0; there != NULL && i < s->read.site_count; i++) {
        const bool wanted = row[i] != SIZE_MAX || strcmp(s->read.site_names[i], first) == 0;

        row[i] = there[i] && wanted ? shown++ : SIZE_MAX;
    }
    free(there);
    return shown;
}

plumb_status report_spectra_choose(const report_spectra *spectra, const char *first,
                                   size_t rows, size_t *row, size_t *shown,
                                   plumb_error *why)
{
    const plumb_histograms *h = &spectra->read;
    plumb_samples samples = {.site_names = h->site_names,
                             .site_count = h->site_count,
                             .at = malloc((h->count + 1) * sizeof *samples.at),
                             .count = h->count};

    *shown = 0;
    if (samples.at == NULL)
        return no_memory(why);
    for (size_t i = 0; i < h->count; i++)
        samples.at[i] = h->at[i].sample;
    const plumb_status status =
        report_heat_choose(&samples, h->site_count < rows ? h->site_count : rows, row, why);

    free(samples.at);
    if (status == PLUMB_OK)
        *shown = close_ranks(spectra, first, row);
    return status;
}
