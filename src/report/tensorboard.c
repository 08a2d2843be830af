/* TFRecord framing and protocol buffers, by the published layouts:
 *
 *   record   length u64, masked crc of it u32, bytes, masked crc of them u32   (little-endian)
 *   Event    1 wall_time double, 2 step int64, 3 file_version string, 5 summary Summary
 *   Summary  1 value, repeated: 1 tag string, 2 simple_value float
 */
#include "report/tensorboard.h"

#include <string.h>

#include "log/crc32c.h"

enum { VARINT = 0, WIDE = 1, BYTES = 2, NARROW = 5 }; /* wire types */

static void put_little(report_text *to, uint64_t value, size_t size)
{
    char bytes[8];

    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(unsigned char)(value >> (8 * i));
    report_bytes(to, bytes, size);
}

static void put_varint(report_text *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_little(to, (value & 0x7f) | 0x80, 1);
    put_little(to, value, 1);
}

static void put_key(report_text *to, unsigned field, unsigned type)
{
    put_varint(to, field << 3 | type);
}

static void put_bytes(report_text *to, unsigned field, const char *bytes, size_t size)
{
    put_key(to, field, BYTES);
    put_varint(to, size);
    report_bytes(to, bytes, size);
}

/* A CRC of bytes that hold CRCs is a poor check, so the format stores it rotated and moved. */
static uint32_t masked_crc(const void *bytes, size_t size)
{
    const uint32_t crc = plumb_crc32c(0, bytes, size);

    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

static void put_record(report_text *file, const report_text *event)
{
    report_text length = {0};

    put_little(&length, event->size, 8);
    if (event->failed || length.failed) {
        file->failed = true;
    } else {
        report_bytes(file, length.at, 8);
        put_little(file, masked_crc(length.at, 8), 4);
        report_bytes(file, event->at, event->size);
        put_little(file, masked_crc(event->at, event->size), 4);
    }
    report_text_free(&length);
}

static void put_wall(report_text *event, double wall)
{
    uint64_t bits;

    memcpy(&bits, &wall, sizeof bits);
    put_key(event, 1, WIDE);
    put_little(event, bits, 8);
}

void report_event_version(report_text *file)
{
    static const char version[] = "brain.Event:2";
    report_text event = {0};

    put_wall(&event, 0);
    put_bytes(&event, 3, version, sizeof version - 1);
    put_record(file, &event);
    report_text_free(&event);
}

void report_event_value(report_event *event, const char *tag, double value)
{
    const float narrow = (float)value;
    report_text one = {0};
    uint32_t bits;

    memcpy(&bits, &narrow, sizeof bits);
    put_bytes(&one, 1, tag, strlen(tag));
    put_key(&one, 2, NARROW);
    put_little(&one, bits, 4);
    if (!one.failed)
        put_bytes(&event->values, 1, one.at, one.size);
    event->values.failed |= one.failed;
    report_text_free(&one);
}

void report_event_end(report_text *file, report_event *event, int64_t step, double wall)
{
    report_text bytes = {0};

    file->failed |= event->values.failed;
    if (event->values.size > 0) {
        put_wall(&bytes, wall);
        put_key(&bytes, 2, VARINT);
        put_varint(&bytes, (uint64_t)step);
        put_bytes(&bytes, 5, event->values.at, event->values.size);
        put_record(file, &bytes);
    }
    report_text_free(&bytes);
    report_text_free(&event->values);
}
