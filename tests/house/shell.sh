#!/bin/sh
# Every shell script is clean by shellcheck, and dash can read it.  Skipped without shellcheck.
set -eu
cd "${PLUMB_SOURCE_DIR:-$(dirname "$0")/../..}"
command -v shellcheck >/dev/null || {
    echo "# shellcheck is not installed"
    exit 77
}
scripts="run .ci/run $(find tests examples -name '*.sh')"
# SC2317 takes functions that are called through "$@" for unreachable.
# shellcheck disable=SC2086 # a list on purpose
shellcheck -e SC2317 $scripts
for script in $scripts; do
    sh -n "$script"
done
