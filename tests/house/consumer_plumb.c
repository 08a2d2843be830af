/* A user of libplumb alone: E4M3 codes of four values, found through pkg-config. */
#include <plumb/cast.h>
#include <plumb/policy.h>

#include <stdio.h>

int main(void)
{
    const plumb_cast how = {.format = PLUMB_E4M3, .saturate = true, .scale = 1};
    const float x[4] = {0.0f, 1.0f, -2.0f, 1000.0f};
    plumb_counts counts = {0};
    unsigned char codes[4];

    if (plumb_cast_encode(&how, x, 4, codes, &counts) != PLUMB_OK ||
        plumb_preset_find("te-delayed") == NULL)
        return 1;
    printf("%02x %02x %02x %02x, %d saturated\n", codes[0], codes[1], codes[2], codes[3],
           (int)counts.saturated);
    return codes[0] == 0x00 && codes[1] == 0x38 && codes[2] == 0xc0 && codes[3] == 0x7e &&
                   counts.saturated == 1
               ? 0
               : 1;
}
