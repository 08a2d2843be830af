/* assets.h - the page's style sheet and script, as text that contains nothing foreign. */
#ifndef REPORT_ASSETS_H
#define REPORT_ASSETS_H

/* Pieces in their order, NULL last: C11 promises string literals of 4095 characters only. */
extern const char *const report_style[];
extern const char *const report_script[];

#endif
