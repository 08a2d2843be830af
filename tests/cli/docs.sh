#!/bin/sh
# What the pages show is what the program prints: every "$ COMMAND" in a ```console block is run
# and the page made anew; it must come out as it is.
#
# To renew the pages: sh tests/cli/docs.sh --write [PAGE]... (with PLUMB and PLUMB_SOURCE_DIR
# set).  docs/performance.md, whose times are never the same twice, is renewed only by name.
# shellcheck source=tests/cli/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/cli/lib.sh"

plumb() {
    "${PLUMB:?}" "$@"
}
PATH=$(dirname "$PLUMB"):$PATH # for those who start it
ln -s "$PLUMB_SOURCE_DIR/examples" examples

# renew < PAGE > THE PAGE ANEW
renew() {
    inside=false
    while IFS= read -r line; do
        case $line in
        '```console') inside=true ;;
        '```') inside=false ;;
        '$ '*)
            if $inside; then
                printf '%s\n' "$line"
                eval "${line#\$ }" </dev/null 2>&1
                echo $? >>statuses
                continue
            fi
            ;;
        *) $inside && continue ;;
        esac
        printf '%s\n' "$line"
    done
}

write=false
if [ "${1:-}" = --write ]; then
    write=true
    shift
fi
trained='docs/eval.md docs/contract-check.md' # train on the default text
[ -r /usr/share/wordnet/data.noun ] || trained=
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- README.md docs/formats.md docs/accumulators.md docs/truncation.md $trained
for page in "$@"; do
    : >statuses
    renew <"$PLUMB_SOURCE_DIR/$page" >new
    [ -s statuses ] && ! grep -q -v -x 0 statuses
    result $? "$page: $(wc -l <statuses) commands, all of which work"
    if $write; then
        cat new >"$PLUMB_SOURCE_DIR/$page"
    fi
    diff "$PLUMB_SOURCE_DIR/$page" new
    result $? "$page shows what they print"
done
finish
