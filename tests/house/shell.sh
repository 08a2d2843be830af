#!/bin/sh
# Every shell script is clean by shellcheck, and dash can read it.  Skipped without shellcheck.
set -eu
cd "${PLUMB_SOURCE_DIR:-$(dirname "$0")/../..}"
command -v shellcheck >/dev/null || {
    echo "# shellcheck is not installed"
    exit 77
}
scripts="run .ci/run $(find tests examples -name '*.sh')"
# shellcheck disable=SC2086 # a list on purpose
shellcheck $scripts
for script in $scripts; do
    sh -n "$script"
done
