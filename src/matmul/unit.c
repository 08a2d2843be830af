/* The table of matrix units, and one result of any of them.
 *
 * Parameters and their evidence: for Hopper the outputs of an H200 in tests/matmul/hardware, for
 * the others those of the public data set of north-numerical-computing/MATLAB-tensor-core, which
 * tests/matmul runs against this table; two published models (that one, arXiv 2512.07004, and
 * MMA-Sim, arXiv 2511.10909) where there are none.  The floors of the exponent are the first model's
 * (-1024: none), and MMA-Sim has none: an H200 confirms those of hopper-16, the others are
 * reached by no output.
 */
#include "matmul/chain.h"
#include "matmul/mode.h"

#define BIT(format) (1u << PLUMB_##format)
#define FP8         (BIT(E4M3) | BIT(E5M2))
/* 0x7FFFFFFF and the fp16 0x7FFF, widened. */
#define NANS .nan_fp32 = 0x7fffffffu, .nan_fp16 = 0x7fffe000u

static const plumb_unit units[PLUMB_SUM_COUNT] = {
    [PLUMB_SUM_HOPPER_WGMMA] =
        {
            .name = "hopper-wgmma",
            .formats = FP8,
            .terms_8 = 32,
            .fraction_bits = 13,
            .result_bits = 13,
            .rounding = PLUMB_ROUND_TOWARD_ZERO,
            .floor_fp32 = -133,
            .floor_fp16 = -133,
            NANS,
            .evidence = PLUMB_EVIDENCE_HARDWARE,
            .source =
                "H200, all pairs of formats, both results, any C, chains to K = 4096, NaN "
                "and infinities; products of cuBLASLt",
        },
    [PLUMB_SUM_HOPPER_MMA] =
        {
            .name = "hopper-mma",
            .formats = FP8,
            .terms_8 = 16,
            .fraction_bits = 25,
            .result_bits = 23,
            .rounding = PLUMB_ROUND_TOWARD_ZERO,
            .floor_fp32 = -133,
            .floor_fp16 = -21,
            .addend_every = 32,
            .interleaved = true,
            .as_fp16 = true,
            NANS,
            .evidence = PLUMB_EVIDENCE_HARDWARE,
            .source =
                "H200, all pairs of formats, both results, any C, NaN and infinities; "
                "B200, E4M3 and E5M2",
        },
    [PLUMB_SUM_ADA_MMA] =
        {
            .name = "ada-mma",
            .formats = FP8,
            .terms_8 = 16,
            .fraction_bits = 13,
            .result_bits = 13,
            .rounding = PLUMB_ROUND_TOWARD_ZERO,
            .floor_fp32 = -132,
            .floor_fp16 = -132,
            NANS,
            .evidence = PLUMB_EVIDENCE_HARDWARE,
            .source =
                "RTX Ada and L40S, both results, with C; mixed formats from one model",
        },
    [PLUMB_SUM_BLACKWELL_TCGEN05] =
        {
            .name = "blackwell-tcgen05",
            .formats = FP8 | BIT(E3M2) | BIT(E2M3) | BIT(E2M1) | BIT(BF16) | BIT(FP16),
            .terms_8 = 32,
            .terms_16 = 16,
            .fraction_bits = 25,
            .result_bits = 23,
            .rounding = PLUMB_ROUND_TOWARD_ZERO,
            .floor_fp32 = -133,
            .floor_fp16 = -21,
            .block_scales = true,
            .nvfp4_bits = 35,
            NANS,
            .evidence = PLUMB_EVIDENCE_ONE_SOURCE,
            .source = "MMA-Sim; its bf16 and fp16 form on outputs of a B200; whether 35 "
                      "fraction bits or 25 are kept with nvfp4 is not settled",
        },
    [PLUMB_SUM_HOPPER_16] =
        {
            .name = "hopper-16",
            .formats = BIT(BF16) | BIT(FP16) | BIT(TF32),
            .terms_16 = 16,
            .terms_tf32 = 8,
            .fraction_bits = 25,
            .result_bits = 23,
            .rounding = PLUMB_ROUND_TOWARD_ZERO,
            .floor_fp32 = -133,
            .floor_fp16 = -21,
            NANS,
            .evidence = PLUMB_EVIDENCE_HARDWARE,
            .source =
                "H200 through wgmma and mma.sync, bf16, fp16 (both results) and tf32, "
                "any C, subnormals, NaN and infinities",
        },
    [PLUMB_SUM_AMPERE_16] =
        {
            .name = "ampere-16",
            .formats = BIT(BF16) | BIT(FP16) | BIT(TF32),
            .terms_16 = 8,
            .terms_tf32 = 4,
            .fraction_bits = 24,
            .result_bits = 23,
            .rounding = PLUMB_ROUND_TOWARD_ZERO,
            .floor_fp32 = -132,
            .floor_fp16 = -20,
            NANS,
            .evidence = PLUMB_EVIDENCE_HARDWARE,
            .source =
                "A100, A2, RTX Ada and L40S, bf16, fp16 (both results) and tf32, with C; "
                "below 2^-126 the two models disagree",
        },
    [PLUMB_SUM_VOLTA_16] =
        {
            .name = "volta-16",
            .formats = BIT(FP16),
            .terms_16 = 4,
            .fraction_bits = 23,
            .result_bits = 23,
            .rounding = PLUMB_ROUND_TOWARD_ZERO,
            .floor_fp32 = -1024,
            .floor_fp16 = -19,
            NANS,
            .evidence = PLUMB_EVIDENCE_HARDWARE,
            .source = "V100, both results, with C",
        },
};

const plumb_unit *plumb_unit_get(plumb_sum_kind kind)
{
    if ((unsigned)kind >= PLUMB_SUM_COUNT || units[kind].name == NULL)
        return NULL;
    return &units[kind];
}

const char *plumb_evidence_name(plumb_evidence evidence)
{
    static const char *const names[] = {"hardware vectors", "two sources", "one source"};

    return (unsigned)evidence < sizeof names / sizeof *names ? names[evidence] : NULL;
}

/* Names of the formats in the mask: "e4m3, e5m2". */
static void list_formats(uint32_t mask, char *text, size_t size)
{
    *text = 0;
    for (int i = 0; i < PLUMB_FORMAT_COUNT; i++) {
        if ((mask >> i & 1) != 0)
            plumb_append(text, size, "%s%s", *text != 0 ? ", " : "",
                         plumb_format_get((plumb_format)i)->name);
    }
}

static bool within(int x, int least, int most)
{
    return x >= least && x <= most;
}

static plumb_status check_unit(const plumb_unit *unit, int terms, plumb_error *why)
{
    const int every = unit->addend_every;

    if (!within(terms, 1, PLUMB_UNIT_MAX_TERMS))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT, "%s: %d terms, allowed are 1 to %d",
                          unit->name, terms, PLUMB_UNIT_MAX_TERMS);
    if (!within(unit->fraction_bits, 1, PLUMB_UNIT_MAX_FRACTION))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "%s: %d fraction bits, allowed are 1 to %d", unit->name,
                          unit->fraction_bits, PLUMB_UNIT_MAX_FRACTION);
    if (!within(unit->result_bits, 1, 23) || !within(unit->floor_fp32, -1024, 127) ||
        !within(unit->floor_fp16, -1024, 15))
        return plumb_fail(
            why, PLUMB_BAD_ARGUMENT,
            "%s: result bits %d, floors %d and %d; allowed are 1 to 23, -1024 "
            "to 127 and -1024 to 15",
            unit->name, unit->result_bits, unit->floor_fp32, unit->floor_fp16);
    if (unit->rounding != PLUMB_ROUND_TOWARD_ZERO &&
        unit->rounding != PLUMB_ROUND_NEAREST_EVEN)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "%s: rounding %d, allowed are toward zero and nearest even",
                          unit->name, (int)unit->rounding);
    if (!within(unit->nvfp4_bits, 0, PLUMB_UNIT_MAX_NVFP4))
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "%s: %d fraction bits with nvfp4, allowed are 0 to %d",
                          unit->name, unit->nvfp4_bits, PLUMB_UNIT_MAX_NVFP4);
    if (!within(every, 0, PLUMB_UNIT_MAX_TERMS) || every % terms != 0 ||
        (unit->interleaved && (every == 0 || every % 4 != 0)))
        return plumb_fail(
            why, PLUMB_BAD_ARGUMENT,
            "%s: C every %d products%s; allowed are 0 and multiples of the %d "
            "terms up to %d, with interleaving multiples of 4",
            unit->name, every, unit->interleaved ? ", interleaved" : "", terms,
            PLUMB_UNIT_MAX_TERMS);
    return PLUMB_OK;
}

plumb_status plumb_unit_takes(const plumb_unit *unit, plumb_format a, plumb_format b,
                              plumb_error *why)
{
    const plumb_format_info *fa = plumb_format_get(a), *fb = plumb_format_get(b);
    const uint32_t possible = FP8 | BIT(E4M3FNUZ) | BIT(E5M2FNUZ) | BIT(E3M2) | BIT(E2M3) |
                              BIT(E2M1) | BIT(BF16) | BIT(FP16) | BIT(TF32);
    char takes[128];

    if (fa == NULL || fb == NULL)
        return plumb_fail(why, PLUMB_BAD_FORMAT, "unknown format %d",
                          (int)(fa == NULL ? a : b));
    const uint32_t known = unit->formats & possible;
    const bool mixed = a != b && (fa->bits > 8 || fb->bits > 8);

    if ((known >> a & 1) == 0 || (known >> b & 1) == 0 || mixed) {
        list_formats(known, takes, sizeof takes);
        return plumb_fail(why, PLUMB_UNSUPPORTED,
                          "%s does not multiply %s by %s: it takes %s, and two different "
                          "ones only of at most 8 bits",
                          unit->name, fa->name, fb->name, takes);
    }
    return check_unit(unit,
                      fa->bits <= 8    ? unit->terms_8
                      : fa->bits == 16 ? unit->terms_16
                                       : unit->terms_tf32,
                      why);
}

/* One group of an operand as terms, padded with zeros. */
typedef struct group {
    int16_t m[PLUMB_UNIT_MAX_TERMS], e[PLUMB_UNIT_MAX_TERMS];
} group;

static plumb_terms read_group(const plumb_chain *chain, plumb_format format,
                              const void *codes, size_t first, size_t count, group *g)
{
    const plumb_format_info *info = plumb_format_get(format);
    bool special = false;

    for (size_t i = 0; i < chain->group; i++) {
        const size_t slot = plumb_chain_slot(chain, i);
        plumb_parts parts = {0, PLUMB_E_ZERO};

        if (i < count)
            parts =
                plumb_chain_operand(chain, info, plumb_load_code(info, codes, first + i));
        g->m[slot] = (int16_t)parts.m;
        g->e[slot] = (int16_t)parts.e;
        special |= plumb_parts_special(parts);
    }
    return (plumb_terms){g->m, g->e, special};
}

plumb_status plumb_unit_dot(const plumb_unit *unit, plumb_format output,
                            plumb_format a_format, const void *a, plumb_format b_format,
                            const void *b, size_t k, float c, float *d, plumb_error *why)
{
    const plumb_status status = plumb_unit_takes(unit, a_format, b_format, why);

    if (status != PLUMB_OK)
        return status;
    if (output != PLUMB_FP32 && output != PLUMB_FP16)
        return plumb_fail(why, PLUMB_BAD_ARGUMENT,
                          "results are fp32 or fp16, not format %d", (int)output);
    const plumb_chain chain = plumb_chain_make(unit, output, a_format, b_format);
    const unsigned before = plumb_mode_enter(false);
    float sum = output == PLUMB_FP16 ? plumb_round_fp16(c) : c;

    for (size_t i = 0; i < k; i += chain.group) {
        const size_t count = k - i < chain.group ? k - i : chain.group;
        group ga, gb;
        const plumb_terms ta = read_group(&chain, a_format, a, i, count, &ga);
        const plumb_terms tb = read_group(&chain, b_format, b, i, count, &gb);

        sum = plumb_chain_run(&chain, ta, tb, chain.group, sum);
    }
    *d = sum != sum ? float_of(chain.nan) : sum;
    plumb_mode_leave(before);
    return PLUMB_OK;
}
