#!/bin/sh
# What a reviewer would otherwise have to say.
#
#   tidy.sh [ROOT]       lists violations and exits 1 when there are any
#
# Functions of at most 70 lines, files of at most 600; every C file says at its head what it
# is; no notes to oneself, no tabs, no trailing blanks, no paths of one machine.
set -eu
cd "${1:-${PLUMB_SOURCE_DIR:-$(dirname "$0")/../..}}"
{
    find src include tests examples docs cmake -type f 2>/dev/null
    find . -maxdepth 1 -type f \( -name '*.md' -o -name CMakeLists.txt -o -name run \)
} | grep -E '\.(c|h|sh|py|md|txt|cmake|yaml|in)$|/run$' | LC_ALL=C sort | tr '\n' '\0' |
    xargs -0 awk '
function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    bad = 1
}
FNR == 1 {
    is_c = FILENAME ~ /\.[ch]$/
    is_code = is_c || FILENAME ~ /\.(sh|py)$|\/run$/
    start = 0
}
FNR == 1 && is_c && !/^\/\*/ { complain("the head comment is missing") }
FNR == 601 && is_code { complain("files have at most 600 lines") }
is_c && /^\{/ { start = FNR }
is_c && /^\}/ && start {
    if (FNR - start + 1 > 70)
        complain("functions have at most 70 lines, this one " FNR - start + 1)
    start = 0
}
/\t/ { complain("tab") }
/[ \r]$/ { complain("trailing blank") }
/TO[D]O|FIX[M]E|(^|[^X])X[X]X([^X]|$)/ { complain("a note to oneself: file an issue, or do it") }
/(^|[^A-Za-z0-9_.}])\/(home|root|work)\/|[ "=]\/tmp\/[A-Za-z]/ {
    complain("a path of one machine")
}
END { exit bad }'
