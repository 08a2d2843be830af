#!/bin/sh
# plumb report of a single run: what is written, and only what is asked for; the browser is asked to
# show the page by its absolute path.
set -u
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

mkdir run ./-odd bin
printf '{"step":1,"loss":4.5}\n{"step":2,"loss":"NaN"}\n' >run/metrics.jsonl
cp run/metrics.jsonl ./-odd/

try "a run, no page" 1 "$PLUMB" report run --no-html
shows "a run, no page" "The run fails at step 2: a value is not finite."
shows "a run, no page" "One run alone does not say why"
[ "$(ls run)" = metrics.jsonl ]
result $? "nothing was written"
try "a run" 1 "$PLUMB" report run
shows "a run" "report: run/report.html"
[ "$(ls run)" = "$(printf 'metrics.jsonl\nreport.html')" ]
result $? "the page alone was written"
try "event files" 1 "$PLUMB" report run --no-html --tensorboard
shows "event files" "tensorboard: run/tensorboard"
[ "$(ls run/tensorboard)" = events.out.tfevents.0000000000.plumb ]
result $? "event files are written"
try "JSON of a run" 1 "$PLUMB" report run --no-html --json
shows "JSON of a run" '"verdict": "one run"'
try "an empty directory" 3 "$PLUMB" report bin

cat >bin/xdg-open <<'END'
#!/bin/sh
echo "$1" >opened.part
mv opened.part opened
END
chmod +x bin/xdg-open
here=$(pwd)
try "open" 1 env PATH="$here/bin:$PATH" "$PLUMB" report --open -- -odd
tries=0
while [ ! -e opened ] && [ "$tries" -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
holds opened "the page's path" "$here/-odd/report.html"
try "open what is not written" 3 "$PLUMB" report run --open --no-html
rm bin/xdg-open
try "no browser" 1 env PATH="$here/bin" "$PLUMB" report run --open
says "no browser" "xdg-open could not be started"
finish
