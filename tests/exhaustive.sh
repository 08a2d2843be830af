#!/bin/sh
# The summary of the last exhaustive run, from what its tests printed.
#
#   sh tests/exhaustive.sh BUILD > tests/exhaustive.txt      (./run exhaustive does it)
#
# One line for each format, rounding and set of inputs; variants that tried the same are one line.
set -eu
build=$1
log=$build/Testing/Temporary/LastTest.log
cd "$(dirname "$0")/.."

echo "Exhaustive tests of the casts: what './run exhaustive' found when it was last run."
echo
echo "date      $(date -u +%Y-%m-%d)"
echo "commit    $(git describe --always --dirty 2>/dev/null || echo unknown)"
echo "machine   $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(cc --version | head -n 1)"
awk '/^# cpu /   { cpu += $(NF - 1) }
     /^# line /  { for (i = 1; i <= NF; i++) if ($i == "mismatches") wrong += $(i - 1)
                   for (i = 1; i <= NF; i++) if ($i == "inputs") inputs += $(i - 1) }
     END { printf "CPU       %d s, the oracles included\ncasts     %.0f\nmismatches %d\n", cpu, inputs, wrong }' "$log"
grep -E '^Test (Passed|Failed)|^Test time|Not Run|Timeout' "$log" | sed 's/\..*//' |
    LC_ALL=C sort | uniq -c | grep -v 'Test time' | sed 's/^ *//; s/^/tests     /'
echo
echo "The oracle is the number line (tests/kernel/axis.c).  A mismatch is a code that differs, or a piece of"
echo "4103 inputs with other counts, or another spectrum.  The seconds are those in the casts alone."
echo "borders: every midpoint and every value of the format, +-3 ulp; 1/61: every 61st fp32, both signs."
echo
awk '/^# line / {
        format = $3
        mode = $4
        rest = $0
        sub(/^# line +[^ ]+ +[^ ]+ +/, "", rest)
        what = rest
        sub(/ +[^ ]+\/(ref|avx[a-z0-9-]*) .*/, "", what)
        match(rest, /[^ ]+\/(ref|avx[a-z0-9-]*)/)
        variant = substr(rest, RSTART, RLENGTH)
        sub(/.*\//, "", variant)
        for (i = 1; i <= NF; i++) {
            if ($i == "inputs") inputs = $(i - 1)
            if ($i == "mismatches") wrong = $(i - 1)
        }
        key = sprintf("%-9s %-24s %-18s", format, mode, what)
        if (!(key in seen)) order[++n] = key
        seen[key] = 1
        names[key] = names[key] " " variant
        count[key] = inputs
        bad[key] += wrong
        seconds[key] += $(NF - 1)
    }
    END {
        for (i = 1; i <= n; i++) {
            key = order[i]
            printf "%s %10s inputs, %d mismatches, %6.1f s,%s\n", key, count[key], bad[key],
                seconds[key], names[key]
        }
    }' "$log"
echo
echo "MPFR:"
sed -n 's/^# mpfr //p' "$log"
