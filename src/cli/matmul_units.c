/* `plumb matmul --list`: every accumulator, its parameters and what they rest on. */
#include "cli/matmul.h"

static void list_formats(uint32_t set, char *text, size_t size)
{
    text[0] = 0;
    for (unsigned i = 0; i < PLUMB_FORMAT_COUNT; i++)
        if ((set >> i & 1) != 0)
            plumb_append(text, size, "%s%s", text[0] != 0 ? " " : "",
                         plumb_format_get((plumb_format)i)->name);
}

/* Products of one fused addition; wider operands come in smaller groups. */
static void print_terms(const plumb_unit *unit, char *text, size_t size)
{
    const bool narrow = (unit->formats >> PLUMB_E4M3 & 1) != 0;
    const bool tf32 = (unit->formats >> PLUMB_TF32 & 1) != 0;

    if (narrow)
        plumb_print(text, size, "%d", unit->terms_8);
    else if (tf32)
        plumb_print(text, size, "%d, tf32 %d", unit->terms_16, unit->terms_tf32);
    else
        plumb_print(text, size, "%d", unit->terms_16);
}

static void print_unit(const plumb_unit *unit)
{
    char formats[160], terms[32];

    list_formats(unit->formats, formats, sizeof formats);
    print_terms(unit, terms, sizeof terms);
    printf("%-18s %-10s %4d %6d  %-17s %s\n", unit->name, terms, unit->fraction_bits,
           unit->result_bits, plumb_evidence_name(unit->evidence), formats);
}

static json_t *unit_json(const plumb_unit *unit)
{
    char formats[160];

    list_formats(unit->formats, formats, sizeof formats);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:i, s:s, s:s}",
        "name", unit->name, "formats", formats, "terms_8", unit->terms_8, "terms_16",
        unit->terms_16, "terms_tf32", unit->terms_tf32, "fraction_bits",
        unit->fraction_bits, "result_bits", unit->result_bits, "floor_fp32",
        unit->floor_fp32, "floor_fp16", unit->floor_fp16, "addend_every",
        unit->addend_every, "interleaved", unit->interleaved, "as_fp16", unit->as_fp16,
        "block_scales", unit->block_scales, "nvfp4_bits", unit->nvfp4_bits, "evidence",
        plumb_evidence_name(unit->evidence), "source", unit->source);
}

int matmul_print_units(bool json)
{
    json_t *list = json ? json_array() : NULL;

    if (!json)
        printf("accumulators: fp32 (the canonical order), exact (one rounding at the end), "
               "and "
               "GPU units\n\n%-18s %-10s %4s %6s  %-17s operands\n",
               "unit", "terms", "kept", "result", "evidence");
    for (int kind = 0; kind < PLUMB_SUM_COUNT; kind++) {
        const plumb_unit *unit = plumb_unit_get((plumb_sum_kind)kind);

        if (unit != NULL && json)
            json_array_append_new(list, unit_json(unit));
        else if (unit != NULL)
            print_unit(unit);
    }
    if (json)
        return cli_print_json(list);
    printf("\nterms: products in one fused addition; kept: fraction bits of each of them; "
           "result: of the sum\nWith +promote128 behind the name (a fresh sum every 128 of "
           "K), +fp16 (fp16 results), or both.\n\n"
           "next: plumb matmul --example same-sign --accumulator hopper-wgmma\n");
    return CLI_HEALTHY;
}
