#!/bin/sh
# The pages in headless Chromium: no error or warning on the console, each picture drawn, hover
# reads values, the heat map switches and zooms.  Exits 77 where there is no Chromium.
#
#   browser.sh PAGES      PAGES DIR writes NAME.html, see pages.c
#
# The page is opened as it is, with browser_before.js and browser_after.js added; the second leaves
# what it found in the document, which --dump-dom prints.
set -u
here=${PLUMB_SOURCE_DIR:-$(dirname "$0")/../..}/tests/report
for name in chromium chromium-browser google-chrome; do
    browser=$(command -v "$name") && break
done
if [ -z "$browser" ]; then
    echo "1..0 # SKIP no chromium here"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
"$1" "$work" || exit 1

sandbox=
[ "$(id -u)" -ne 0 ] || sandbox=--no-sandbox # Chromium refuses to run as root with one

# open_page FILE WIDTH SCHEME (0 dark, 1 light) - the document afterwards in $work/dom
open_page() {
    HOME=$work timeout 100 "$browser" --headless=new $sandbox --disable-gpu --disable-dev-shm-usage \
        --no-first-run --user-data-dir="$work/profile" --window-size="$2,1400" \
        --blink-settings="preferredColorScheme=$3" --virtual-time-budget=10000 \
        --dump-dom "file://$1" >"$work/dom" 2>"$work/noise"
}

count=0
failed=0
for page in "$work"/*.page; do
    name=$(basename "$page" .page)
    {
        sed -n '1,/<head>/p' "$page"
        echo '<script>' && cat "$here/browser_before.js" && echo '</script>'
        sed '1,/<head>/d;/<\/body>/,$d' "$page"
        echo '<script>' && cat "$here/browser_after.js" && echo '</script></body></html>'
    } >"$work/$name.html"
    for how in "1200 1" "1200 0" "390 1"; do
        count=$((count + 1))
        # shellcheck disable=SC2086 # two words
        open_page "$work/$name.html" $how
        sed -n '/<pre id="found">/,/<\/pre>/p' "$work/dom" | sed 's/<[^>]*>//g;/^$/d' >"$work/found"
        if grep -q '^done$' "$work/found" && ! grep -q '^not ok' "$work/found"; then
            echo "ok $count - $name, $how: $(grep -c '^ok' "$work/found") found as they should be"
        else
            echo "not ok $count - $name, $how"
            sed 's/^/# /' "$work/found"
            [ -s "$work/found" ] || tail -n 5 "$work/noise" | sed 's/^/# /'
            failed=1
        fi
    done
done
echo "1..$count"
exit "$failed"
