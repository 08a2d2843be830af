#!/bin/sh
# plumb's formats beside those of other libraries, which pip installs into a virtual environment of
# the build.
#
#   peers.sh DUMP BUILD [--write]     the program made from dump.c, and a folder to work in
#
# Skipped where there is no network or no venv; what was installed once is used again.
set -eu
dump=$1
build=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)

skip() {
    echo "skipped: $*"
    exit 77
}

command -v python3 >/dev/null || skip "there is no python3"
mkdir -p "$build"
if ! cmp -s "$here/requirements.txt" "$build/installed"; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        skip "the pinned peers need Python 3.11 or later"
    rm -rf "$build/venv"
    python3 -m venv --system-site-packages "$build/venv" >"$build/log" 2>&1 ||
        skip "python3 cannot make a virtual environment (apt install python3-venv)"
    "$build/venv/bin/pip" install --timeout 15 --retries 1 -r "$here/requirements.txt" \
        >>"$build/log" 2>&1 || skip "pip could not install $(grep -c == "$here/requirements.txt") packages"
    cp "$here/requirements.txt" "$build/installed"
fi
mkdir -p "$build/tables"
"$dump" "$build/tables"
exec "$build/venv/bin/python" "$here/peers.py" "$build/tables" "$@"
