#!/bin/sh
# plumb format: facts of the formats, every code against a decoder in awk, and how numbers round,
# against values worked out by hand from the specifications.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

wrong() { # NAME WORDS COMMAND...
    name=$1
    words=$2
    shift 2
    try "$name" 3 "$@"
    says "$name" "$words"
    [ "$(wc -l <"$place/err")" -eq 1 ] && [ ! -s "$place/out" ]
    result $? "$name: one sentence, on standard error only"
}

# --- the list and one format ---
try "the list" 0 "$PLUMB" format
cp out list
formats=$(awk 'NR > 3 && NF > 6 && $3 ~ /^[01][+]/ { print $1 }' list)
[ "$(echo "$formats" | wc -l)" -eq 13 ]
result $? "the list has 13 formats"
for format in $formats; do
    try "$format" 0 "$PLUMB" format "$format"
    awk 'length > 100 { exit 1 } END { if (NR > 24) exit 1 }' out
    result $? "$format fits a screen"
done
try e4m3 0 "$PLUMB" format e4m3
shows e4m3 '238 normal, 14 subnormal, 2 zero, 0 infinite, 2 NaN'
shows e4m3 '464, a tie, rounds down; past it the largest if saturating, else NaN'
shows e4m3 '2^-10, a tie, rounds to 0'
shows e4m3 '1 2 4 8 8 8 8 8 8 8 8 8 8 8 8 8 8 7'
shows e4m3 '17.8 binades'
try e5m2 0 "$PLUMB" format e5m2
shows e5m2 '240 normal, 6 subnormal, 2 zero, 2 infinite, 6 NaN'
shows e5m2 '61440, a tie, rounds up; from it on the largest if saturating, else inf'
try e2m1 0 "$PLUMB" format e2m1
shows e2m1 '12 normal, 2 subnormal, 2 zero, 0 infinite, 0 NaN'
try tf32 0 "$PLUMB" format tf32
shows tf32 '520192 normal, 2046 subnormal, 2 zero, 2 infinite, 2046 NaN'

# --- every code: sign, exponent and fraction taken apart by awk ---
# $1 name, then signed, exponent bits, fraction bits, bias, what is special
decode() {
    try "$1 --codes" 0 "$PLUMB" format "$1" --codes
    awk -v signed="$2" -v eb="$3" -v fb="$4" -v bias="$5" -v special="$6" '
        BEGIN { bits = signed + eb + fb; all = 2 ^ bits; half = signed ? all / 2 : all }
        function value(c,  e, f, m) {
            m = c % half; e = int(m / 2 ^ fb); f = m % 2 ^ fb
            if (special == "fnuz" && c == half) return "NaN"
            if (special == "nan" && m == half - 1) return "NaN"
            if (special == "ieee" && e == 2 ^ eb - 1) {
                if (f > 0) return "NaN"
                return c >= half ? "-inf" : "inf" }
            f = fb == 0 ? 2 ^ (e - bias) \
                : e > 0 ? (1 + f / 2 ^ fb) * 2 ^ (e - bias) : f / 2 ^ fb * 2 ^ (1 - bias)
            return c >= half ? -f : f }
        { want = value(NR - 1)
          if (want == "NaN" || want == "inf" || want == "-inf") good = $2 == want
          else { gap = $2 - want; if (gap < 0) gap = -gap
                 size = want < 0 ? -want : want; good = gap <= size * 2 ^ -24 }
          if (!good) { print "code " NR - 1 " is " $2 ", not " want; bad++ } }
        END { exit bad > 0 || NR != all }' out
    result $? "$1: every code has the value of its fields"
    counted=$(awk '{ n[$NF]++ } END {
        printf "codes           %d: %d normal, %d subnormal, %d zero, %d infinite, %d NaN", NR,
            n["normal"], n["subnormal"], n["zero"], n["infinite"], n["NaN"] }' out)
    "$PLUMB" format "$1" | grep -q -x -F -e "$counted"
    result $? "$1: $counted"
}
decode e4m3 1 4 3 7 nan
decode e5m2 1 5 2 15 ieee
decode e4m3fnuz 1 4 3 8 fnuz
decode e5m2fnuz 1 5 2 16 fnuz
decode e3m2 1 3 2 3 none
decode e2m3 1 2 3 1 none
decode e2m1 1 2 1 1 none
decode ue4m3 0 4 3 7 nan
decode e8m0 0 8 0 127 nan

# --- numbers ---
# rounds FORMAT NUMBER MODE WORDS - the line of this mode, its spaces made one.  MODE last: the
# last line, which is the other neighbour of a stochastic rounding.
rounds() {
    "$PLUMB" format "$1" "$2" >out 2>err
    wanted="$3 $4"
    if [ "$3" = last ]; then
        wanted=$4
        tail -n 1 out >line
    else
        grep -F -e "  $3" out >line
    fi
    line=$(tr -s ' ' <line | sed 's/^ //')
    [ "$line" = "$wanted" ]
    result $? "$1 $2, $3: '$line'"
}
rounds e4m3 0.1 'nearest even, saturating' '0x1d 0.1015625 +1.56e-02'
rounds e4m3 0.1 'nearest even, overflow' '0x1d 0.1015625 +1.56e-02'
rounds e4m3 0.1 'toward zero' '0x1c 0.09375 -6.25e-02'
rounds e4m3 464 'nearest even, saturating' '0x7e 448 -3.45e-02 clipped'
rounds e4m3 464 'nearest even, overflow' '0x7e 448 -3.45e-02 clipped'
rounds e4m3 465 'nearest even, saturating' '0x7e 448 -3.66e-02 clipped, saturated'
rounds e4m3 465 'nearest even, overflow' '0x7f NaN clipped, saturated'
rounds e4m3 1e-4 'nearest even, saturating' '0x00 0 -1.00e+00 flushed'
rounds e4m3 448 'nearest even, saturating' '0x7e 448 0'
rounds e4m3 -465 'nearest even, saturating' '0xfe -448 -3.66e-02 clipped, saturated'
rounds e4m3 0 'nearest even, saturating' '0x00 0 zero'
rounds e4m3 -0 'nearest even, saturating' '0x80 -0 zero'
rounds e4m3 nan 'nearest even, saturating' '0x7f NaN non-finite'
rounds e4m3 -inf 'nearest even, saturating' '0xfe -448 non-finite'
rounds e4m3 inf 'nearest even, overflow' '0x7f NaN non-finite'
rounds e5m2 61440 'nearest even, overflow' '0x7c inf clipped, saturated'
rounds e5m2 61439 'nearest even, overflow' '0x7b 57344 -6.67e-02 clipped'
rounds e2m1 5 'nearest even, saturating' '0x6 4 -2.00e-01'
rounds e2m1 0x1.4p1 'nearest even, saturating' '0x4 2 -2.00e-01'
rounds bf16 0x1.010p0 'nearest even, saturating' '0x3f80 1 -3.89e-03'
rounds fp16 65520 'nearest even, overflow' '0x7c00 inf clipped, saturated'
# Stochastic: 0.25 lies on a code; 0.1 a fifth of the way from 0.1015625 down to 0.09375.
rounds e4m3 0.25 'stochastic, saturating' '100 % 0x28 0.25 0'
rounds e4m3 0.1 'stochastic, saturating' '80 % 0x1d 0.1015625 +1.56e-02'
rounds e4m3 0.1 last '20 % 0x1c 0.09375 -6.25e-02'
rounds e4m3 456 'stochastic, saturating' '25 % 0x7e 448 -1.75e-02 clipped, saturated'
rounds e4m3 456 last '75 % 0x7e 448 -1.75e-02 clipped'
rounds e4m3 0x1p-11 'stochastic, saturating' '25 % 0x01 0.001953125 +3.00e+00'
rounds e4m3 0x1p-11 last '75 % 0x00 0 -1.00e+00 flushed'
rounds e4m3 -0x1p-11 'stochastic, saturating' '25 % 0x81 -0.001953125 +3.00e+00'
rounds e4m3fnuz -0x1p-12 'stochastic, saturating' '25 % 0x81 -0.0009765625 +3.00e+00'
# Without a sign: rounded to zero, or to what lies below the format, which is zero too.
rounds ue4m3 -0x1p-11 'stochastic, saturating' '25 % 0x00 0 -1.00e+00 clipped, saturated'
rounds ue4m3 -0x1p-11 last '75 % 0x00 0 -1.00e+00 flushed'
rounds ue4m3 -1 'stochastic, saturating' '100 % 0x00 0 -1.00e+00 clipped, saturated'
# 32 random bits decide, so a chance below 2^-32 is none.
rounds e4m3 1e-45 'stochastic, saturating' '100 % 0x00 0 -1.00e+00 flushed'
rounds e4m3 1000 'stochastic, saturating' '100 % 0x7e 448 -5.52e-01 clipped, saturated'

[ "$("$PLUMB" format e4m3 -- 0.1 -inf | head -n 1)" = \
    'e4m3: 0.1 becomes 0.1015625, -inf becomes -448 (non-finite)' ]
result $? "numbers behind --"
try "headline" 0 "$PLUMB" format e4m3 0.1 465 1e-4
[ "$(head -n 1 out)" = \
    'e4m3: 0.1 becomes 0.1015625, 465 becomes 448 (clipped, saturated), 1e-4 becomes 0 (flushed)' ]
result $? "headline: $(head -n 1 out)"
try "many" 0 "$PLUMB" format e2m1 1 2 3 4 5 6
[ "$(head -n 1 out)" = 'e2m1: 1 becomes 1, 2 becomes 2, 3 becomes 3, and 3 more' ]
result $? "many: $(head -n 1 out)"
for text in 0.1 16777217 0x1.000001p0 1e40 1e-50 0.5000000000000000000000000000001; do
    try "$text" 0 "$PLUMB" format fp32 "$text"
    shows "$text" "$text is no fp32 number"
done
for text in 0.5 16777216 0x1.000002p0 1e-0 +3 .5 5. 0x1p-149 -0 inf NAN; do
    try "$text" 0 "$PLUMB" format fp32 "$text"
    ! grep -q 'no fp32' out
    result $? "$text is an fp32 number"
done
# 1 + 2^-24 + 2^-80: rounding to fp64 first would make a tie of it and give 1.
try "one rounding" 0 "$PLUMB" format fp32 0x1.00000100000000000001p0
shows "one rounding" '0x3f800001'
german=$(locale -a 2>/dev/null | grep -i -m 1 '^de_DE' || true)
LC_ALL=${german:-C} "$PLUMB" format e4m3 0.1 >other 2>&1
"$PLUMB" format e4m3 0.1 | cmp -s - other
result $? "the locale changes nothing (${german:-no German one here})"

# --- JSON ---
try "JSON of a format" 0 "$PLUMB" format e4m3 0.1 465 --json
shows "JSON of a format" '"largest": 448.0'
shows "JSON of a format" '"probability": 0.80000'
shows "JSON of a format" '"value": "NaN"'
try "JSON of the list" 0 "$PLUMB" format --json
[ "$(grep -c '"unit_roundoff"' out)" -eq 13 ]
result $? "JSON of the list has 13 formats"

# --- mistakes ---
wrong "unknown format" "did you mean 'e4m3'?" "$PLUMB" format e4m4
wrong "format unlike any" "'plumb format' lists them" "$PLUMB" format quad
wrong "no number" "'0.1x' is no number" "$PLUMB" format e4m3 0.1x
wrong "comma" "'0,1' is no number" "$PLUMB" format e4m3 0,1
wrong "half a hexadecimal" "'0x' is no number" "$PLUMB" format e4m3 0x
wrong "empty" "'' is no number" "$PLUMB" format e4m3 ''
wrong "space" "' 1' is no number" "$PLUMB" format e4m3 ' 1'
wrong "no number as JSON" "'x' is no number" "$PLUMB" format e4m3 x --json
wrong "codes of a wide format" "bf16 has 16 bits" "$PLUMB" format bf16 --codes
wrong "codes of nothing" "--codes needs a format" "$PLUMB" format --codes
wrong "codes and numbers" "leave out '0.1'" "$PLUMB" format e4m3 0.1 --codes
wrong "letters are options still" "unknown option '-x'" "$PLUMB" format e4m3 -x
finish
