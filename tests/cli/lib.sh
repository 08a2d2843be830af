#!/bin/sh
# lib.sh - for the shell tests of the program: TAP, a place to work in, small checks.
#
#   try NAME WANTED-STATUS COMMAND...    output in $place/out and $place/err
#   says NAME WORDS                      the last try's standard error holds the words
#   shows NAME WORDS                     the same for standard output
#   finish                               exit status of the whole test
place=$(mktemp -d)
trap 'chmod -R u+w "$place"; rm -rf "$place"' EXIT
cd "$place" || exit 1
number=0
failures=0

result() { # 0|1 NAME
    number=$((number + 1))
    if [ "$1" -eq 0 ]; then
        echo "ok $number - $2"
    else
        failures=$((failures + 1))
        echo "not ok $number - $2"
    fi
}

try() {
    name=$1
    wanted=$2
    shift 2
    "$@" >"$place/out" 2>"$place/err" </dev/null
    got=$?
    [ "$got" -eq "$wanted" ]
    result $? "$name: exit status $got, wanted $wanted"
}

holds() { # FILE NAME WORDS
    if grep -q -F -e "$3" "$1"; then
        result 0 "$2: '$3'"
    else
        sed 's/^/# /' "$1"
        result 1 "$2: no '$3'"
    fi
}

says() {
    holds "$place/err" "$@"
}

shows() {
    holds "$place/out" "$@"
}

finish() {
    echo "1..$number"
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
