#!/bin/sh
# contract.sh [all] - plumb contract check over trainers that keep the contract but for one thing:
# that one is found and no other, with the right exit status; a command that is no trainer, that
# hangs or floods its log ends in time.
# shellcheck disable=SC2016 # the commands expand their own variables
# shellcheck source=tests/outside/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/outside/lib.sh"

# Runs are small and many: where memory serves as a disk, they do not wait for one.
if [ -w /dev/shm ]; then
    rm -rf "$place"
    place=$(mktemp -d -p /dev/shm)
fi
export poor="$PLUMB_SOURCE_DIR/tests/outside/poor.py"

# check NAME WANTED-STATUS COMMAND...: its report in $place/report
check() {
    name=$1
    wanted=$2
    shift 2
    # shellcheck disable=SC2086 # options are words
    "$PLUMB" contract check --study "$place/study" --quiet --json $options -- "$@" \
        >"$place/report" 2>"$place/err" </dev/null
    got=$?
    [ "$got" -eq "$wanted" ] || sed 's/^/# /' "$place/err"
    [ "$got" -eq "$wanted" ]
    result $? "$name: exit status $got, wanted $wanted"
}

# gaps NAME WANTED: what does not hold, as "check=state ..." in alphabetical order
gaps() {
    found=$(python3 -c 'import json,sys
words = {"does not hold": "broken", "cannot tell": "unknown", "missing": "missing"}
print(" ".join(sorted("%s=%s" % (c["check"], words[c["state"]]) for c in
    json.load(open(sys.argv[1]))["checks"] if c["state"] != "holds")))' "$place/report" 2>&1)
    [ "$found" = "$2" ]
    result $? "$1: gaps are '$found', wanted '$2'"
}

# but WHAT WANTED-STATUS GAPS: the trainer that keeps all but one thing
but() {
    check "$1" "$2" python3 -S "$poor" --but "$1"
    gaps "$1" "$3"
}

# told NAME WORDS: the report holds the words
told() {
    if grep -q -F -e "$2" "$place/report"; then
        result 0 "$1: says '$2'"
    else
        result 1 "$1: no '$2' in: $(cat "$place/report")"
    fi
}

first() {
    but nothing 0 ""
    told nothing "weights good in their own arithmetic only"
    longest=$(find "$place/study/runs" -name metrics.jsonl -exec wc -l {} + | sort -n |
        awk '$2 != "total" { n = $1 } END { print n + 0 }')
    [ "$longest" -ge 3 ] && [ "$longest" -lt 59 ]
    result $? "no run goes on to its schedule's end"
    but no-run-json 0 "config_hash=missing data_seed=missing micro_order=missing parts=missing places=missing run.json=missing samples=missing scales=missing sites=missing skip=missing uses=missing"
    but deaf 1 "parts=broken policy=broken refusal=broken"
    but momentum 1 "exact_resume=broken"
    but restart 1 "forward=broken"
    export options="--grace 0.5 --silence 3"
    but stubborn 1 "stop=broken"
    check hang 2 python3 -S "$poor" --but hang
    told hang "no line for 3 s"
    export options="--grace 0.5"
    check dies 2 python3 -S "$poor" --but dies
    told dies "no GPU found"
    check missing 3 "$place/no-such-command"
    told missing "No such file or directory"
    check refuses 3 sh -c 'echo "no such data file" >&2; exit 3'
    told refuses "no such data file"
    check true 2 true
    check escapes 2 sh -c 'printf "\033[31m\377red\n" >"$PLUMB_RUN_DIR/metrics.jsonl"'
    export options=
}

# Without a state_hash another order of sums does not show in the losses of three steps.
rest() {
    but all-or-nothing 1 "parts=broken"
    but seedless 1 "seed=broken"
    but state-lie 1 "micro_order=unknown state_hash=broken"
    but garbage 1 "steps=broken"
    export options="--grace 0.5 --silence 3"
    but hang-resumed 1 "checkpoint=broken exact_resume=broken"
    export options=
    but slow 0 ""
    but no-config 0 "config_hash=missing"
    but no-sites 0 "parts=missing places=missing sites=missing uses=missing"
    but no-grad_norm 0 "grad_norm=missing"
    but gaps 1 "grad_norm=broken"
    but no-state_hash 0 "micro_order=unknown state_hash=missing"
    but no-batch_hash 0 "batch_hash=missing data_seed=unknown"
    but constant 1 "micro_order=unknown state_hash=broken"
    but chance 1 "exact_resume=broken repeat=broken"
    but one-seed 1 "data_seed=broken"
    but no-data_seed 0 "data_seed=missing"
    but anything 1 "refusal=broken"
    but status 1 "refusal=broken"
    but no-checkpoint 0 "checkpoint=missing exact_resume=missing"
    but checkpoint-lie 0 "checkpoint=unknown exact_resume=missing"
    but every-three 0 ""
    but forgetful 1 "checkpoint=broken"
    but any-start 1 "checkpoint=broken"
    but data-position 1 "exact_resume=broken"
    but no-exact_resume 0 ""
    but no-micro_order 0 "micro_order=missing"
    but order-data 1 "micro_order=broken"
    but no-lr_scale 0 "scales=missing"
    but lr-deaf 1 "scales=broken"
    but no-skip 0 "skip=missing"
    but skip-deaf 1 "skip=broken"
    but no-observe 0 "samples=missing"
    but blind 1 "samples=broken"
    but foreign 1 "samples=broken"
    but torn 1 "samples=broken"
    but sensors-move 1 "samples=broken"
    but no-end 0 "end.json=missing"
    but end-lie 1 "end.json=broken"
    but past 1 "run.json=broken stop=broken"
    but trains-anyway 1 "run.json=broken"
    but late 1 "run.json=broken"
    but bad-run-json 1 "config_hash=missing data_seed=missing micro_order=missing parts=missing places=missing run.json=broken samples=missing scales=missing sites=missing skip=missing uses=missing"
    but restart-event 1 "forward=broken"
    but same-batch 1 "batch_hash=unknown skip=broken"
    export options="--grace 0.5"
    check flood 2 python3 -S "$poor" --but flood
    told flood "its log was flooded"
    export options=
    check outside 0 python3 "$trainer"
    check plumb 0 "$PLUMB" train "$PLUMB_SOURCE_DIR/examples/demo/frozen-scale.yaml"
    gaps plumb ""
}

if [ "${1:-}" = all ]; then
    rest
else
    first
fi
finish
