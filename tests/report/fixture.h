/* fixture.h - a study as diagnose leaves it, made by hand for the tests of the report. */
#ifndef TEST_REPORT_FIXTURE_H
#define TEST_REPORT_FIXTURE_H

#include <jansson.h>

#include "plumb/base.h"

/* The verdict of tests/report/NAME. */
json_t *fixture_verdict(const char *name);

/* Writes STUDY/runs/ID/run for every run of the verdict: a loss that falls from 5.6, and NaN
 * in the step where the run fails; site statistics for the own run and the first that holds of
 * the proof.  steps_each stretches every run to so many lines a step of the verdict (1: as it
 * says).
 */
bool fixture_study(const char *study, const json_t *verdict, int64_t steps_each);

/* A fresh directory below TMPDIR or /tmp; fixture_remove takes it away. */
bool fixture_directory(char path[256]);
void fixture_remove(const char *path);

/* A whole file, NULL when it cannot be read; free() it. */
char *fixture_read(const char *path);

#endif
