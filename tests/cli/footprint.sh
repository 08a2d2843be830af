#!/bin/sh
# `plumb footprint`: one screen, the important line first, a next step last; the same as JSON.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

i=0
while [ "$i" -lt 400 ]; do
    echo "line $i of a text that is long enough to learn a little from"
    i=$((i + 1))
done >text
cat >run.yaml <<'END'
data: text
model: {layers: 3, width: 32, heads: 2, ff: 40, context: 16}
batch: {sequences: 8, micro_batches: 2}
recipe: te-current
END

try footprint 0 "$PLUMB" footprint run.yaml
head -n 1 out | grep -q 'B, and about .* a step: .* tokens a second; it fits'
result $? "the first line says what it takes and whether it fits"
tail -n 1 out | grep -q -x 'next: plumb train run.yaml'
result $? "the last line says what is next"
awk 'length > 80 { exit 1 } END { if (NR > 24) exit 1 }' out
result $? "80 x 24"
for part in weights master gradients optimizer activations temporaries records GEMM cast rest; do
    shows footprint "  $part "
done
[ "$(find . -type f | sort | tr '\n' ' ')" = "./err ./out ./run.yaml ./text " ]
result $? "nothing was written"

try measured 0 "$PLUMB" footprint run.yaml --measure 2
[ "$(grep -c 'measured .* of it' out)" -eq 5 ]
result $? "bytes, GEMM, cast, rest and step are measured"
awk 'length > 80 { exit 1 } END { if (NR > 24) exit 1 }' out
result $? "80 x 24 with measures"

try json 0 "$PLUMB" footprint run.yaml --json
shows json '"activations": '
shows json '"gemm": '
try 'what fits nowhere' 1 "$PLUMB" footprint run.yaml --set model.width=4096 \
    --set model.ff=16384 --set model.layers=64 --set batch.sequences=4096 --set batch.ranks=64
shows 'what fits nowhere' 'IT DOES NOT FIT'
shows 'what fits nowhere' 'one layer alone is too large'
try 'an unknown key' 3 "$PLUMB" footprint run.yaml --set model.widht=8
says 'an unknown key' "did you mean 'model.width'"
try 'a command' 3 "$PLUMB" footprint -- true
says 'a command' 'true: No such file'
finish
