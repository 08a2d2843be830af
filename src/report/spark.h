/* spark.h - a line of a terminal as a picture: sparklines and rows of a heat map.
 *
 * A column stands for one or more points and has the worst of them, never their mean.
 */
#ifndef REPORT_SPARK_H
#define REPORT_SPARK_H

#include "report/series.h"
#include "report/text.h"

/* At most so many columns, the largest value of each (least: the smallest), low to high; an axis
 * that spans a factor of 30 is logarithmic.  '!' where a value is not finite.
 */
void report_spark(report_text *text, const report_series *series, size_t columns,
                  bool least, bool unicode);

/* A cell of harm 0 ... 1; less than 0: no sample. */
void report_spark_cell(report_text *text, double harm, bool unicode);

#endif
