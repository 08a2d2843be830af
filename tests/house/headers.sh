#!/bin/sh
# Each public header compiles alone, and twice, as C11 and as C++17 (where there is a C++
# compiler), with warnings as errors: whoever includes one needs no other.
set -eu
cd "${PLUMB_SOURCE_DIR:-$(dirname "$0")/../..}"

compile() { # COMPILER STANDARD LANGUAGE
    for path in include/plumb/*.h; do
        name=${path##*/}
        # shellcheck disable=SC2046 # flags are a list
        printf '#include "plumb/%s"\n#include "plumb/%s"\nint main(void) { return 0; }\n' \
            "$name" "$name" |
            "$1" "-std=$2" -Wall -Wextra -Wpedantic -Werror -Iinclude \
                $(pkg-config --cflags jansson) -fsyntax-only -x "$3" - || {
            echo "not ok - $path as $2"
            failed=1
        }
    done
}

failed=0
compile cc c11 c
if command -v c++ >/dev/null; then
    compile c++ c++17 c++
else
    echo "# no C++ compiler: C only"
fi
exit "$failed"
