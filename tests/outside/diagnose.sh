#!/bin/sh
# diagnose.sh - faults planted in a trainer that shares no code with plumb are found: class,
# site, fix; a global switch gives numerics without a class; a rate that is too high is not
# numerics; a healthy run is healthy.
# shellcheck source=tests/outside/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/outside/lib.sh"

ask frozen 1 python3 "$trainer" --fault frozen
field frozen "v['verdict']" numerics
field frozen "v['class']" forward
field frozen "v['sites']" "['blk1.fc2:act']"
field frozen "v['mechanism']['name']" "stale scale"
field frozen "v['mechanism']['level']" caused
field frozen "v['fix']['rules'][0]['use']" e4m3:current
field frozen "[v['fix']['held'], v['fix']['of']]" "[2, 2]"
field frozen "v['fix']['returned_at'] == v['failure']['step']" True
field frozen "v['mask']['survived']" True
field frozen "v['failure']['predicate']" nonfinite

ask gradient 1 python3 "$trainer" --fault gradient
field gradient "v['class']" backward
field gradient "v['sites']" "['blk1.fc2:gd']"
field gradient "v['fix']['rules'][0]['use']" bf16
field gradient "v['failure']['step'] > 40" True

ask switch 1 python3 "$trainer" --fault frozen --switch
field switch "v['verdict']" numerics
field switch "v['class']" None
field switch "v['sites']" "[]"
field switch "v['fix']['rules'][0]['sites']" "*"
field switch "[v['fix']['held'], v['fix']['of']]" "[2, 2]"

ask rate 1 python3 "$trainer" --rate 8
field rate "v['verdict']" "not numerics"
field rate "v['fix']" None

ask clean 0 python3 "$trainer"
field clean "v['verdict']" healthy

# Asked again, nothing is run again.
ask once 1 python3 "$trainer" --fault frozen
before=$(find "$place/study/runs" -name outcome.json | wc -l)
"$PLUMB" diagnose --study "$place/study" --no-html --quiet --json -- \
    python3 "$trainer" --fault frozen >"$place/again" 2>/dev/null </dev/null
after=$(find "$place/study/runs" -name outcome.json | wc -l)
[ "$before" -eq "$after" ]
result $? "asked again: $before runs, then $after"
field again "all(r['reused'] for r in v['runs'][1:])" True
finish
