/* Status codes and messages: one sentence each, without allocation. */
#include "plumb/base.h"

#include <stdarg.h>
#include <string.h>

/* The only thing of stdio that libplumb uses: it formats into memory.  Declared by hand (C11
 * 7.1.4), so that no file above the first line of src/ORDER includes stdio.h.
 */
int vsnprintf(char *text, size_t size, const char *format, va_list arguments);

void plumb_print(char *text, size_t size, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, size, format, arguments);
    va_end(arguments);
}

void plumb_append(char *text, size_t size, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

plumb_status plumb_fail(plumb_error *why, plumb_status status, const char *format, ...)
{
    if (why != NULL) {
        va_list arguments;

        why->status = status;
        va_start(arguments, format);
        vsnprintf(why->message, sizeof why->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

const char *plumb_status_name(plumb_status status)
{
    switch (status) {
    case PLUMB_OK:
        return "ok";
    case PLUMB_BAD_ARGUMENT:
        return "bad argument";
    case PLUMB_BAD_FORMAT:
        return "bad format";
    case PLUMB_BAD_SHAPE:
        return "bad shape";
    case PLUMB_BAD_INPUT:
        return "bad input";
    case PLUMB_NOT_FOUND:
        return "not found";
    case PLUMB_NO_MEMORY:
        return "out of memory";
    case PLUMB_IO:
        return "input/output error";
    case PLUMB_BUSY:
        return "busy";
    case PLUMB_INTERRUPTED:
        return "interrupted";
    case PLUMB_UNSUPPORTED:
        return "unsupported";
    }
    return "unknown status";
}

const char *plumb_build_id(void)
{
    return sizeof PLUMB_GIT_ID > 1 ? PLUMB_VERSION " (" PLUMB_GIT_ID ")" : PLUMB_VERSION;
}
