#!/bin/sh
# plumb matmul: files in, product out, difference told.  What must come out was worked out by hand
# from the rules in plumb/matmul.h, or is what a chip gave (the vectors in ../shared, where they
# are at hand); npy files are written here, byte by byte.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

wrong() { # NAME WORDS COMMAND...
    name=$1
    words=$2
    shift 2
    try "$name" 3 "$@"
    says "$name" "$words"
    [ "$(wc -l <err)" -eq 1 ] && [ ! -s out ]
    result $? "$name: one sentence, on standard error only"
}

# bytes HEX... - hexadecimal digits, spaces ignored, as bytes
bytes() {
    # shellcheck disable=SC2059
    printf "$(echo "$*" | tr -d ' \n' | awk '{
        d = "0123456789abcdef"; $0 = tolower($0)
        for (i = 1; i < length($0); i += 2)
            printf "\\%03o", 16 * (index(d, substr($0, i, 1)) - 1) + index(d, substr($0, i + 1, 1)) - 1 }')"
}

# npy FILE DESCR ROWS COLS FORTRAN HEX...
npy() {
    file=$1
    dictionary="{'descr': '$2', 'fortran_order': $5, 'shape': ($3, $4), }"
    shift 5
    {
        bytes 93 4e 55 4d 50 59 01 00 "$(printf %02x ${#dictionary})" 00
        printf %s "$dictionary"
        bytes "$@"
    } >"$file"
}

# product WANTED-HEX ARGUMENTS... - the bits of all of C, written with --out
product() {
    wanted=$1
    shift
    rm -f c.npy
    "$PLUMB" matmul "$@" --out c.npy >out 2>err
    got=$(od -A n -v -t x4 -j 128 c.npy 2>>err | tr -s ' \n' ' ' | sed 's/^ //; s/ $//')
    [ "$got" = "$wanted" ] || sed 's/^/# /' err
    [ "$got" = "$wanted" ]
    result $? "$*: $got, wanted $wanted"
}

zeros() { # N - N zero bytes in hex
    printf "%0$((2 * $1))d" 0
}

# --- units, on E4M3 codes (38 is 1, b8 is -1, 04 and 08 are 2^-7 and 2^-6, 7e is 448) ---
# dot A-HEX B-HEX, then product
dot() {
    npy a.npy '|u1' 1 $((${#1} / 2)) False "$1"
    npy b.npy '<V1' 1 $((${#2} / 2)) False "$2"
    shift 2
    product "$@" a.npy b.npy --codes e4m3
}
dot 38b808 383804 39000000 -a hopper-wgmma
dot 38b804 383804 00000000 -a hopper-wgmma
dot 38b804 383804 38800000 -a blackwell-tcgen05
dot 38b804 383804 38800000 -a exact
dot 38b804 383804 38800000 -a fp32
dot 38b80e 383804 39000000 -a ada-mma
dot 383838380c 3838383808 40800000 -a hopper-wgmma
dot 383838380c 3838383808 40800300 -a blackwell-tcgen05
dot "38b8$(zeros 14)04" "3838$(zeros 14)04" 00000000 -a hopper-wgmma
dot "38b8$(zeros 14)04" "3838$(zeros 14)04" 38800000 -a ada-mma
dot 7e7e 7e7e 48c40000 -a hopper-wgmma
dot 7f 00 7fffffff -a hopper-wgmma
dot 7f 00 7fc00000 -a fp32
try "NaN of two patterns" 0 "$PLUMB" matmul a.npy b.npy --codes e4m3 -a hopper-wgmma
shows "NaN of two patterns" 'hopper-wgmma gives the bits of exact'
# Every 128 of K begins anew: 1 and 2^-14 meet in one chain, or in fp32.
dot "38$(zeros 127)04" "38$(zeros 127)04" 3f800000 -a hopper-wgmma
dot "38$(zeros 127)04" "38$(zeros 127)04" 3f800200 -a hopper-wgmma+promote128

# --- what chips gave: each row of the data is one element of the diagonal ---
vectors=$PLUMB_SOURCE_DIR/../shared/data/matrix-unit-vectors
little() { # COLUMN BYTES - its codes, least byte first
    awk -F, -v column="$1" -v size="$2" '{
        for (i = 1; i < length($column); i += 2 * size)
            for (j = size - 1; j >= 0; j--)
                printf "%s", substr($column, i + 2 * j, 2) }'
}
chip() { # FILE ACCUMULATOR CODES DESCR BYTES-PER-CODE
    if [ ! -r "$vectors/$1" ]; then
        echo "# skipped: $1 is not here"
        return
    fi
    tail -n 48 "$vectors/$1" | tr -d '\r' >rows
    k=$(head -n 1 rows | awk -F, -v each="$5" '{ print length($1) / 2 / each }')
    npy a.npy "$4" 48 "$k" False "$(little 1 "$5" <rows)"
    npy b.npy "$4" 48 "$k" False "$(little 2 "$5" <rows)"
    rm -f c.npy
    "$PLUMB" matmul a.npy b.npy --codes "$3" -a "$2" --out c.npy >out 2>err
    od -A n -v -t x4 -j 128 -w4 c.npy | awk '(NR - 1) % 49 == 0 { print $1 }' >seen
    cut -d, -f4 rows | tr 'A-F' 'a-f' >wanted
    cmp -s seen wanted
    result $? "$1: 48 of 48 rows are what the chip gave"
}
chip h100-e4m3-fp32.csv hopper-wgmma e4m3 '|u1' 1
chip h100-e5m2-fp32.csv hopper-wgmma e5m2 '<f1' 1

# --- layouts: the bytes of a matrix in Fortran order are its transpose ---
A="0000803f 00000040 00004040 00008040 0000a040 0000c040" # 1 2 3, 4 5 6
B="0000803f 00000000 000080bf 00000040 00000040 00000040" # 1 0 -1, 2 2 2
C="c0000000 41400000 c0000000 41f00000"                   # -2 12, -2 30
npy a.npy '<f4' 2 3 False "$A"
npy b.npy '<f4' 2 3 False "$B"
npy at.npy '<f4' 3 2 True "$A"
npy bt.npy '<f4' 3 2 True "$B"
product "$C" a.npy b.npy --spec fp32
product "$C" a.npy b.npy --spec fp32 --layout nt
product "$C" a.npy bt.npy --spec fp32 --layout nn
product "$C" at.npy bt.npy --spec fp32 --layout tn
product "$C" a.npy b.npy -a exact --spec fp32
product "$C" a.npy b.npy -a hopper-16
product "$C" a.npy b.npy -a volta-16
product "$C" a.npy b.npy -a blackwell-tcgen05 --spec-a e5m2:none --spec-b e3m2:none
od -A n -v -t x1 -j 10 -N 59 c.npy | tr -d ' \n' >seen
bytes "$(cat seen)" >seen.text
[ "$(cat seen.text)" = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }" ]
result $? "the result's header: $(cat seen.text)"
npy none.npy '<f4' 2 0 False ''
product "00000000 00000000 00000000 00000000" none.npy none.npy -a hopper-wgmma

# --- differences, by hand: C is -2 12 -2 30, the reference -2 12 -1 32 ---
npy c-other.npy '<f4' 2 2 False "000000c0 00004041 000080bf 00000042"
try "a file to compare with" 0 "$PLUMB" matmul a.npy b.npy --spec fp32 --compare c-other.npy
# sqrt(1 + 4) / sqrt(4 + 144 + 1 + 1024) = 6.53e-02; (1 - 2) / (2 + 12 + 1 + 32) = -2.13e-02
shows "a file to compare with" 'fp32                           6.53e-02  -2.13e-02   50.00 %  [1,1] 30, not 32'
npy c-nan.npy '<f4' 2 2 False "000000c0 0000c07f 000080bf 0000f041"
try "NaN in the reference" 0 "$PLUMB" matmul a.npy b.npy --spec fp32 --compare c-nan.npy
shows "NaN in the reference" '[0,1] 12, not nan'
shows "NaN in the reference" 'non-finite   0 in fp32, 1 in the reference'
shows "NaN in the reference" 'fp32: 0 of 4 results are not finite, but 1 of c-nan.npy'
shows "NaN in the reference" ' inf '
try "itself" 0 "$PLUMB" matmul a.npy b.npy --spec fp32 --compare fp32
[ "$(head -n 1 out)" = 'fp32 gives the bits of fp32' ]
result $? "itself: $(head -n 1 out)"
shows "itself" ' 0.00e+00  +0.00e+00  100.00 %  none'

# --- operands: which spec, what was lost ---
npy wide.npy '<f8' 1 2 False "9a9999999999b93f 000000000000f03f"
try "fp64" 0 "$PLUMB" matmul wide.npy wide.npy
shows "fp64" '(<f8), 1 x 2, as e4m3:tensor:current'
shows "fp64" '1 rounded from fp64'
npy big.npy '<f4' 1 2 False "0000e043 00804744" # 448 798
try "no scale" 0 "$PLUMB" matmul big.npy big.npy --spec e4m3:none
shows "no scale" '1 saturated'
try "hopper-16" 0 "$PLUMB" matmul a.npy b.npy -a hopper-16
shows "hopper-16" 'as bf16:'
shows "hopper-16" 'hopper-16: hardware vectors | H200 through wgmma'
try "volta-16" 0 "$PLUMB" matmul a.npy b.npy -a volta-16
shows "volta-16" 'as fp16:'
try "1x128" 0 "$PLUMB" matmul a.npy b.npy --spec e4m3:1x128 --spec-b e4m3:128x128
shows "1x128" 'as e4m3:1x128:current'
shows "1x128" 'as e4m3:128x128:current'

# --- examples ---
try "example" 0 "$PLUMB" matmul --example same-sign -k 256 -a hopper-wgmma -a hopper-wgmma+promote128
cp out example
[ "$(wc -l <out)" -le 24 ] && awk 'length > 100 { exit 1 }' out
result $? "example fits a screen"
for level in baseline avx2 avx512 avx512bf16 amx; do
    PLUMB_CPU=$level "$PLUMB" matmul --example same-sign -k 256 -a hopper-wgmma \
        -a hopper-wgmma+promote128 | cmp -s - example
    result $? "$level: the same numbers"
done
for layout in nn tn; do
    try "example $layout" 0 "$PLUMB" matmul --example signed -k 300 --layout "$layout"
done
# Operands that are rounded by chance must not share their bits: the same numbers on both sides come
# out differently.
"$PLUMB" matmul --example signed -k 64 --spec fp32 --out same.npy >out
try "stochastic" 0 "$PLUMB" matmul same.npy same.npy --spec e4m3:stochastic --json
[ "$(grep '"relative_error"' out | head -n 2 | sort -u | wc -l)" -eq 2 ]
result $? "stochastic: A and B are rounded on their own"
# By chance half of what toward-zero flushes becomes zero, as the numbers lie about evenly below the
# least value: unless the bits that round a number are those that made it.
flushed() {
    "$PLUMB" matmul --example same-sign --spec "e2m1:tensor:$1" -a fp32 --compare fp32 |
        sed -n '3s/.* \([0-9]*\) flushed$/\1/p'
}
all=$(flushed toward-zero)
some=$(flushed stochastic)
[ $((some * 100)) -gt $((all * 48)) ] && [ $((some * 100)) -lt $((all * 52)) ]
result $? "stochastic: $some of $all numbers below the least value become zero"
try "JSON" 0 "$PLUMB" matmul --example same-sign -k 64 -a hopper-wgmma --json
shows "JSON" '"accumulator": "hopper-wgmma"'
shows "JSON" '"evidence": "hardware vectors"'
try "the list" 0 "$PLUMB" matmul --list
for unit in hopper-wgmma hopper-mma ada-mma blackwell-tcgen05 hopper-16 ampere-16 volta-16; do
    grep -q "^$unit " out
    result $? "the list has $unit"
done
try "the list as JSON" 0 "$PLUMB" matmul --list --json
[ "$(grep -c '"evidence"' out)" -eq 7 ]
result $? "JSON has seven units"

# --- mistakes ---
rm -f c.npy
wrong "no such file" "nowhere.npy: No such file" "$PLUMB" matmul nowhere.npy b.npy
wrong "one file" "needs two files, got only 'a.npy'" "$PLUMB" matmul a.npy
wrong "nothing" "needs two files" "$PLUMB" matmul
wrong "file and example" "needs two files" "$PLUMB" matmul a.npy b.npy --example signed
wrong "three files" "one argument too many" "$PLUMB" matmul a.npy b.npy c.npy
wrong "K differs" "K would be 3 and 2" "$PLUMB" matmul a.npy bt.npy --out c.npy
wrong "layout" "--layout is 'nnn'; allowed: nt, nn, tn" "$PLUMB" matmul a.npy b.npy --layout nnn
wrong "accumulator" "hopper-wgmm" "$PLUMB" matmul a.npy b.npy -a hopper-wgmm
try "nothing to add" 0 "$PLUMB" matmul --example signed --k 0
shows "nothing to add" "fp32: no products to add (K = 0), so there is nothing to compare"
wrong "a unit for other operands" "volta-16 does not multiply e4m3 by e4m3" \
    "$PLUMB" matmul --example signed --spec e4m3 -a volta-16
says "a unit for other operands" "; try --spec fp16"
wrong "units without a format in common" "; no format goes with all of these units" \
    "$PLUMB" matmul --example signed -a volta-16 -a hopper-wgmma
# An npy file of 2^32 rows of nothing is 128 bytes long.
empty() { # FILE SHAPE
    printf '\223NUMPY\001\000v\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': $2, }" >"$1"
}
empty tall.npy "(4294967296, 0)"
empty flat.npy "(1, 0)"
wrong "a result without end" "a result of 4294967296 x 1 is too large; allowed: 268435456 elements" \
    "$PLUMB" matmul tall.npy flat.npy
wrong "reference" "\"hopper\" is no accumulator; did you mean 'hopper-wgmma'?" "$PLUMB" matmul a.npy b.npy --compare hopper
wrong "reference of another shape" "a.npy is 2 x 3, the result 2 x 2" \
    "$PLUMB" matmul a.npy b.npy --compare a.npy
wrong "format of the unit" "volta-16" "$PLUMB" matmul a.npy b.npy -a volta-16 --spec e4m3
wrong "spec" "e4m4" "$PLUMB" matmul a.npy b.npy --spec e4m4
wrong "example's name" "--example is 'x'; allowed: signed, same-sign" "$PLUMB" matmul --example x
wrong "codes of an example" "--codes is for files" "$PLUMB" matmul --example signed --codes e4m3
wrong "codes of no format" "--codes is 'e9', which is no format" \
    "$PLUMB" matmul a.npy b.npy --codes e9
npy u.npy '|u1' 1 2 False 3838
npy bf.npy '<V2' 1 2 False "803f803f"
wrong "codes unnamed" "their format must be named, with --codes FORMAT" "$PLUMB" matmul u.npy u.npy
wrong "ml_dtypes unnamed" "'<V2'" "$PLUMB" matmul bf.npy bf.npy
wrong "codes that are numbers" "'<f4' are numbers, not codes of e4m3" \
    "$PLUMB" matmul a.npy b.npy --codes e4m3
wrong "codes of another width" "no codes of the named format" "$PLUMB" matmul bf.npy bf.npy --codes e4m3
wrong "a reference of codes" "u.npy holds codes; a reference is read as numbers" \
    "$PLUMB" matmul a.npy b.npy --compare u.npy
odd=$(printf 'odd\377.npy')
cp a.npy "$odd"
wrong "a name that is no UTF-8" "not UTF-8" "$PLUMB" matmul "$odd" "$odd" --json
npy int.npy '<i8' 1 1 False "0100000000000000"
wrong "integers" "numpy.save(path, a.astype('f4'))" "$PLUMB" matmul int.npy int.npy
head -c 90 a.npy >cut.npy
wrong "cut short" "cut.npy: 21 bytes of data, but 2 x 3 elements of '<f4' are 24" \
    "$PLUMB" matmul cut.npy b.npy
wrong "results of two" "--out writes one result" \
    "$PLUMB" matmul a.npy b.npy -a fp32 -a exact --out c.npy
wrong "nowhere to write" "nowhere/c.npy" "$PLUMB" matmul a.npy b.npy --out nowhere/c.npy
limited() {
    (ulimit -f 1 && "$PLUMB" matmul --example signed --k 1 --out c.npy)
}
wrong "past the limit of a file" "cannot write c.npy: File too large" limited
[ -z "$(find . -name 'c.npy*')" ]
result $? "no result was left behind"
finish
