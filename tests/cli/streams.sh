#!/bin/sh
# Where output goes wrong: closed, full, or a reader that has had enough.  An answer that could
# not be printed is exit status 3; a reader that leaves is no error.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

mkdir study
cat >study/verdict.json <<'END'
{"plumb": "0.1.0", "question": "q", "command": ["true"], "verdict": "healthy", "exit": 0,
 "headline": "Nothing is wrong.", "class": null, "scope": null, "sites": [], "failure": null,
 "mechanism": null, "first_moved": null, "fix": null, "mask": null, "band": null,
 "statements": [], "runs": [],
 "cost": {"horizon_steps": 50, "search": 1, "proof": 0, "seconds": 1, "planned": 1},
 "limits": [], "next": "plumb help"}
END

cp study/verdict.json verdict.json

closed() {
    "$@" >&-
}
full() {
    "$@" >/dev/full
}
no_errors() {
    "$@" 2>&-
}
no_streams() {
    "$@" <&- >&- 2>&-
}
head_of() { # its own exit status, not that of head
    { "$@"; echo $? >status; } | head -n 1 >/dev/null
    return "$(cat status)"
}

try "report" 0 "$PLUMB" report study
shows "report" "Nothing is wrong."
[ -s study/report.html ]
result $? "report.html is written"
try "closed standard output" 3 closed "$PLUMB" report study
says "closed standard output" "standard output could not be written"
if [ -w /dev/full ]; then
    try "full disk" 3 full "$PLUMB" report study
    says "full disk" "standard output could not be written"
    [ "$(wc -l <err)" -eq 1 ]
    result $? "full disk: said once"
fi
try "all streams closed" 3 no_streams "$PLUMB" report study
cmp -s study/verdict.json verdict.json
result $? "no output ran into a file of the study"
# Progress goes to standard error while the study's files are open.
try "a command that is no trainer" 2 "$PLUMB" diagnose --study other -- false
question=$(sed -n 2p err)
[ -n "$question" ]
result $? "progress without a terminal is lines: $question"
rm -rf other
try "closed standard error" 2 no_errors "$PLUMB" diagnose --study other -- false
! grep -r -q -F -e "$question" other
result $? "no progress ran into a file of the study"
if [ -r /usr/share/wordnet/data.noun ]; then
    try "a reader that leaves" 0 head_of "$PLUMB" text
    [ ! -s err ]
    result $? "a reader that leaves is no error"
fi
rm -f study/report.html
try "no html" 0 "$PLUMB" report --no-html study
[ ! -e study/report.html ]
result $? "no html: none is written"
try "JSON" 0 "$PLUMB" report --json --no-html study
shows "JSON" '"verdict": "healthy"'

# A study that cannot be written still shows its verdict, and says what is missing.  Root may
# write everywhere, so a directory in the way of the file stands in for a read-only one too.
mkdir study/report.html
try "report.html in the way" 0 "$PLUMB" report study
shows "report.html in the way" "Nothing is wrong."
says "report.html in the way" "report.html"
rmdir study/report.html
chmod a-w study
if ! (: >study/probe) 2>/dev/null; then
    try "read-only study" 0 "$PLUMB" report study
    shows "read-only study" "Nothing is wrong."
    says "read-only study" "report.html"
fi
chmod u+w study

for code in 1 2 3; do
    sed "s/\"exit\": 0/\"exit\": $code/" study/verdict.json >code.json && mkdir -p coded
    mv code.json coded/verdict.json
    try "exit status of a verdict" "$code" "$PLUMB" report coded
done
sed 's/"exit": 0/"exit": 7/' study/verdict.json >coded/verdict.json
try "an exit status that is none" 3 "$PLUMB" report coded
says "an exit status that is none" "'exit' must be 0, 1, 2 or 3"
words=$(printf 'word %.0s' $(seq 90))
sed "s/\"exit\": 0/\"exit\": 3/; s/Nothing is wrong/$words the end/" study/verdict.json >coded/verdict.json
try "a long refusal" 3 "$PLUMB" report coded
shows "a long refusal" "the end."
echo '[1]' >coded/verdict.json
try "not an object" 3 "$PLUMB" report coded
echo '{"verdict": ' >coded/verdict.json
try "half a verdict" 3 "$PLUMB" report coded
says "half a verdict" "verdict.json"
finish
