/* assets.h - the style sheet and the script of the page: page.css and page.js, made into strings
 * when the build is configured.  Neither contains anything foreign, and neither loads anything.
 */
#ifndef REPORT_ASSETS_H
#define REPORT_ASSETS_H

extern const char report_style[];
extern const char report_script[];
extern const char report_spectra_script[];

#endif
