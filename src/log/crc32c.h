/* log/crc32c.h - CRC-32C (Castagnoli; RFC 3720, appendix B.4): the check of .pls chunks. */
#ifndef PLUMB_LOG_CRC32C_H
#define PLUMB_LOG_CRC32C_H

#include "plumb/base.h"

/* Start with 0; the result of one piece is the start of the next. */
uint32_t plumb_crc32c(uint32_t crc, const void *data, size_t size);

#endif
