#!/bin/sh
# lib.sh - for tests that diagnose somebody else's command: TAP, and checks on verdict.json.
#
#   ask NAME WANTED-STATUS COMMAND...   plumb diagnose -- COMMAND in a fresh study
#   field NAME EXPRESSION WANTED        a Python expression over the verdict v
#   says NAME WORDS                     the headline holds the words
#   finish                              exit status of the whole test
set -u
command -v python3 >/dev/null || {
    echo "1..0 # SKIP no python3"
    exit 77
}
export trainer="$PLUMB_SOURCE_DIR/examples/outside/trainer.py"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
number=0
failures=0
export options=

result() { # 0|1 NAME
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        failures=$((failures + 1))
        echo "not ok $number - $2"
    fi
}

ask() {
    name=$1
    wanted=$2
    shift 2
    rm -rf "$place/study"
    # shellcheck disable=SC2086 # options are words
    "$PLUMB" diagnose --study "$place/study" --no-html --quiet --json $options -- "$@" \
        >"$place/out" 2>"$place/err" </dev/null
    got=$?
    [ "$got" -eq "$wanted" ] || sed 's/^/# /' "$place/err"
    [ "$got" -eq "$wanted" ]
    result $? "$name: exit status $got, wanted $wanted"
}

field() {
    found=$(python3 -c "import json,sys
v = json.load(open(sys.argv[1]))
print($2)" "$place/study/verdict.json" 2>&1)
    [ "$found" = "$3" ]
    result $? "$1: $2 is '$found', wanted '$3'"
}

says() {
    headline=$(python3 -c "import json,sys
print(json.load(open(sys.argv[1]))['headline'])" "$place/study/verdict.json")
    case $headline in
    *"$2"*) result 0 "$1: says '$2'" ;;
    *) result 1 "$1: no '$2' in: $headline" ;;
    esac
}

finish() {
    echo "1..$number"
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
