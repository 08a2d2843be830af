#!/bin/sh
# Usage errors: exit status 3, one sentence on standard error that names what was seen, what is
# allowed and the nearest known name; nothing on standard output and nothing left behind.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

# wrong NAME WORDS COMMAND... - one bad command line.
wrong() {
    name=$1
    words=$2
    shift 2
    try "$name" 3 "$@"
    says "$name" "$words"
    [ "$(wc -l <"$place/err")" -eq 1 ] && grep -q '^plumb: ' "$place/err" &&
        [ ! -s "$place/out" ]
    result $? "$name: one sentence, on standard error only"
}

wrong "unknown verb" "did you mean 'diagnose'?" "$PLUMB" diagnoze
wrong "verb unlike any" "'plumb help' lists them" "$PLUMB" zzzzzzzzzz
wrong "unknown option" "did you mean '--study'?" "$PLUMB" diagnose --stuby x
wrong "option unlike any" "'plumb report --help' lists them" "$PLUMB" report --zzzzzzzz
wrong "unknown letter" "unknown option '-z'" "$PLUMB" train -z
wrong "a word too many behind --" "'--plan' is one argument too many" "$PLUMB" report study -- --plan
wrong "value missing" "--seeds needs a value: N" "$PLUMB" diagnose --seeds
wrong "half a number" "allowed: a whole number, 1 to 100" "$PLUMB" diagnose --seeds 2x -- true
wrong "number too large" "--seeds is '101'" "$PLUMB" diagnose --seeds=101 -- true
wrong "number past 64 bits" "--seeds is" "$PLUMB" diagnose --seeds 99999999999999999999 -- true
wrong "negative seed" "allowed: a whole number, 0 to" "$PLUMB" diagnose --seed -1 -- true
wrong "seed past 64 bits" "--seed is" "$PLUMB" diagnose --seed 18446744073709551616 -- true
wrong "not a number" "allowed: a number, 0 to 100" "$PLUMB" diagnose --band nan -- true
wrong "infinity" "--band is 'inf'" "$PLUMB" diagnose --band inf -- true
wrong "number above its range" "--band is '101'" "$PLUMB" diagnose --band 101 -- true
wrong "number below its range" "--lr-scale is '0'" "$PLUMB" diagnose --lr-scale 0 -- true
wrong "hexadecimal" "--band is '0x1'" "$PLUMB" diagnose --band 0x1 -- true
wrong "empty number" "--band is ''" "$PLUMB" diagnose --band= -- true
wrong "flag with a value" "--plan takes no value" "$PLUMB" diagnose --plan=yes -- true
wrong "nothing to diagnose" "needs a run file, or '--' and a command" "$PLUMB" diagnose
wrong "empty command" "needs a run file, or '--' and a command" "$PLUMB" diagnose --
wrong "both" "not both" "$PLUMB" diagnose run.yaml -- true
wrong "two run files" "'b.yaml' is one argument too many" "$PLUMB" diagnose a.yaml b.yaml
wrong "--set with a command" "--set is for run files" "$PLUMB" diagnose --set a=1 -- true
wrong "no such run file" "nowhere.yaml: No such file" "$PLUMB" diagnose nowhere.yaml
echo "name: odd" >"$place/odd {seed}.yaml"
wrong "a placeholder in a path" "holds {seed}" "$PLUMB" diagnose "odd {seed}.yaml"
rm -f "$place/odd {seed}.yaml"
wrong "a folder as run file" "not a file" "$PLUMB" diagnose .
wrong "no command to check" "needs '--' and a command" "$PLUMB" contract check
wrong "nearly a question" "did you mean 'check'?" "$PLUMB" contract chek -- true
wrong "a question too few" "needs an argument" "$PLUMB" contract -- true
wrong "report of nothing" "needs an argument" "$PLUMB" report
wrong "report of no study" "neither a study (verdict.json) nor a run" "$PLUMB" report nowhere
wrong "unknown scenario" "did you mean 'decoy'?" "$PLUMB" demo decoi
wrong "a format in capitals" "did you mean 'e4m3'?" "$PLUMB" format E4M3
wrong "the beginning of a format" "unknown format 'ue'; 'plumb format' lists them" "$PLUMB" format ue
wrong "nearly a choice" "allowed: nt, nn, tn" "$PLUMB" matmul --layout nx a.npy b.npy
wrong "nearly an accumulator" "did you mean 'ada-mma'?" \
    "$PLUMB" matmul --example signed -a ada-nma+promote128
wrong "nearly a spec" "\"e4m2\" is no format; did you mean 'e4m3'?" \
    "$PLUMB" matmul --example signed --spec e4m2:current
wrong "nearly an attribute" "did you mean 'current'?" \
    "$PLUMB" matmul --example signed --spec e4m3:curent
wrong "help of nearly a verb" "did you mean 'matmul'?" "$PLUMB" help matmull
wrong "help of no verb" "unknown command 'nothing'" "$PLUMB" help nothing
wrong "CPU level" "allowed: baseline, avx2, avx512, avx512bf16, amx" env PLUMB_CPU=mmx "$PLUMB" version
wrong "no WordNet" "wordnet-base" "$PLUMB" text --wordnet nowhere
wrong "escape sequences" "unknown command" "$PLUMB" "$(printf 'a\033[2Jb')"
if grep -q "$(printf '\033')" "$place/err"; then
    result 1 "an escape character was printed"
else
    result 0 "no escape character is printed"
fi
try "a command that does not exist" 3 "$PLUMB" diagnose --no-html -- nonexistent
shows "a command that does not exist" "next: plumb help diagnose"
rm -rf plumb-out
rm -f "$place/out" "$place/err"
[ -z "$(ls -A "$place")" ]
result $? "nothing is left behind"
finish
