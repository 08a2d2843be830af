#!/bin/sh
# `plumb bench`: form of the table and of the JSON, which rows are run, and that results are
# checked.  Nothing here depends on a time.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

try 'a few rows' 0 "$PLUMB" bench --quick --only 'cast/e[45]m[23]/L2'
shows 'a few rows' 'limit of this machine, or peer'
shows 'a few rows' '4:1 copy'
grep -q '^cast/e4m3/L2  *[0-9.]*  *[0-9.]* Gelem/s  *4:1 copy  *[0-9.]*$' out
result $? 'a row has our rate, the limit, its name and the ratio'
[ "$(grep -c '^cast/' out)" -eq 2 ]
result $? 'two rows'
[ "$(awk 'length > 100' out | wc -l)" -eq 0 ]
result $? 'at most 100 columns'
! grep -q WRONG out && [ ! -s err ]
result $? 'nothing is wrong'

try 'the baseline' 0 env PLUMB_CPU=baseline "$PLUMB" bench --quick --only 'quantize/1x128/L2'
shows 'the baseline' 'baseline; L2'
try 'variants of a sum' 0 "$PLUMB" bench --quick --variants --only 'sums/L2'
shows 'variants of a sum' 'lanes/ref'

try 'the trainer' 0 env OMP_WAIT_POLICY=passive TMPDIR="$place" \
    "$PLUMB" bench --quick --only 'train/*'
grep -q '^train/step/te-current/0.4M  *[0-9.]*  *[0-9.]* ktoken/s  *its products' out
result $? 'tokens a second, beside products and casts'
shows 'the trainer' 'without sensors and log'
grep -q '^train/memory/te-current/0.4M  *[0-9.]*  *[0-9.]* GB  *sum of its arrays' out
result $? 'bytes, which are not a rate'
! ls -d "$place"/plumb-bench-* 2>/dev/null
result $? 'no log is left behind'

# Without python3 in the way nothing is installed there; what is absent says so.
try 'peers' 0 env PATH=/nonexistent "$PLUMB" bench --quick --peers --only 'cast/e4m3/L2'
shows 'peers' 'ml_dtypes: not installed'
try 'peers that multiply' 0 "$PLUMB" bench --quick --peers --only 'gemm/e4m3/512'
shows 'peers that multiply' 'oneDNN'
shows 'peers that multiply' 'torch'

try 'JSON' 0 "$PLUMB" bench --quick --json --only 'exp/*'
python3 - "$place/out" <<'END'
import json, sys
table = json.load(open(sys.argv[1]))
assert table["quick"] is True and table["cpu"] and table["date"], table
(row,) = table["rows"]
assert row["name"] == "exp/L2" and row["unit"] == "elem" and row["rounds"] >= 9, row
ours, limit = row["entries"]
assert ours["role"] == "ours" and ours["status"] == "ok" and ours["rate"] > 0, ours
assert limit["role"] == "limit" and limit["ratio"] > 0, limit
assert limit["ratio_low"] <= limit["ratio"] <= limit["ratio_high"], limit
END
result $? 'JSON has name, unit, rates and ratios'

try 'a glob that fits nothing' 3 "$PLUMB" bench --only 'cats/*'
says 'a glob that fits nothing' "no row fits 'cats/*'"
try 'large rows are not quick' 3 "$PLUMB" bench --quick --only 'gemm/e4m3/4096'
says 'large rows are not quick' 'among the quick ones'
try 'no words' 3 "$PLUMB" bench cast
try 'no command' 3 "$PLUMB" bench -- true
finish
