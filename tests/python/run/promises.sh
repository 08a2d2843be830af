#!/bin/sh
# promises.sh [toy] - `plumb contract check` finds every promise of plumb_run.py kept: of trainer.py,
# without PyTorch, or of toy.py where there is PyTorch.
set -eu
here=$PLUMB_SOURCE_DIR/tests/python/run
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

words='steps run.json sites grad_norm state_hash batch_hash repeat seed data_seed policy parts
    refusal micro_order scales end.json'
if [ "${1:-}" = toy ]; then
    for python in python3 /usr/bin/python3 none; do
        "$python" -c 'import torch' 2>/dev/null && break
    done
    [ "$python" != none ] || {
        echo "skipped: no python3 here has PyTorch"
        exit 77
    }
    words="$words stop places checkpoint exact_resume samples"
    set -- "$python" "$here/toy.py"
else
    words="$words skip"
    set -- python3 "$here/trainer.py" \
        --promises=state_hash,batch_hash,data_seed,micro_order,lr_scale,skip
fi

"$PLUMB" contract check --study "$place/study" -- "$@" >"$place/out" 2>"$place/err" </dev/null || {
    cat "$place/out" "$place/err"
    exit 1
}
failed=0
for word in $words; do
    grep -q "^holds  *$word " "$place/out" && continue
    echo "not ok - $word"
    failed=1
done
[ "$failed" -eq 0 ] || cat "$place/out"
exit "$failed"
