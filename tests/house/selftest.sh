#!/bin/sh
# The house rules must fail when they are broken: each is broken once in a copy of the tree.
set -eu
root=$(cd "${PLUMB_SOURCE_DIR:-$(dirname "$0")/../..}" && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
failures=0
number=0

result() { # OK|NOT TEXT
    number=$((number + 1))
    [ "$1" = ok ] || failures=$((failures + 1))
    echo "$1 $number - $2"
}

mkdir "$copy/tree"
for part in src include tests cmake; do
    cp -R "$root/$part" "$copy/tree/"
done

# mend FILE: as it is in the tree again, or not there.
mend() {
    rm -f "$copy/tree/$1"
    if [ -e "$root/$1" ]; then
        cp "$root/$1" "$copy/tree/$1"
    else
        rmdir -p --ignore-fail-on-non-empty "$copy/tree/$(dirname "$1")"
    fi
}

# holds RULE: the untouched copy passes.
holds() {
    if sh "$root/tests/house/$1.sh" "$copy/tree" >"$copy/out"; then
        result ok "$1 passes on the tree"
    else
        sed 's/^/# /' "$copy/out"
        result "not ok" "$1 passes on the tree"
    fi
}

# refuses RULE WORDS FILE TEXT: with TEXT at the end of FILE, RULE fails and says WORDS.
refuses() {
    mkdir -p "$(dirname "$copy/tree/$3")"
    printf '%b\n' "$4" >>"$copy/tree/$3"
    if sh "$root/tests/house/$1.sh" "$copy/tree" >"$copy/out"; then
        result "not ok" "$1 passed with '$4' in $3"
    elif grep -q -F "$3" "$copy/out" && grep -q -F -e "$2" "$copy/out"; then
        result ok "$1 refuses: $2"
    else
        sed 's/^/# /' "$copy/out"
        result "not ok" "$1 failed on '$4' in $3 without saying '$2'"
    fi
    mend "$3"
}

holds layers
refuses layers "base stands above format" src/base/size.c '#include "format/decode.h"'
refuses layers "base stands above train" src/base/size.c '#include "plumb/train.h"'
refuses layers "base stands above kernel" src/base/size.c '  #  include <plumb/cast.h>'
refuses layers "does no I/O" src/base/size.c '#include <stdio.h>'
refuses layers "does no I/O" src/kernel/new.c '/* x */\n#include <fcntl.h>'
refuses layers "does no I/O" src/observe/new.c '#include <jansson.h>'
refuses layers "does no I/O" src/quant/new.c '#include <sys/mman.h>'
refuses layers "does no I/O" include/plumb/cast.h '#include <pthread.h>'
refuses layers "format stands above quant" include/plumb/format.h '#include "plumb/quant.h"'
refuses layers "there is no room attic" src/attic/new.c '/* x */'
refuses layers "there is no room tests" src/base/size.c '#include "tests/check.h"'
refuses layers "no .. in includes" src/base/size.c '#include "../tests/check.h"'
refuses layers "must name its file" src/base/size.c '#include HEADER'
refuses layers "does no I/O" src/reduce/new.c '#include <omp.h>'
refuses layers "belongs to model and train" src/log/new.c '#include <omp.h>'
refuses layers "belongs to model and train" src/study/new.c '#pragma omp parallel'
refuses layers "schedule(static) only" src/model/new.c '#pragma omp parallel for'
refuses layers "no reduction" src/train/new.c \
    '#pragma omp parallel for schedule(static) reduction(+ : sum)'

holds tidy
long=$(awk 'BEGIN { for (i = 0; i < 70; i++) printf "    x();\\n" }')
refuses tidy "at most 70 lines" src/base/new.c "/* x */\nvoid f(void)\n{\n$long}"
refuses tidy "at most 600 lines" src/base/new.c \
    "/* x */$(awk 'BEGIN { for (i = 0; i < 600; i++) printf "\\n" }')"
refuses tidy "head comment" src/base/new.c 'int x;'
refuses tidy "head comment" include/plumb/new.h '#ifndef X\n#endif'
refuses tidy "note to oneself" src/base/size.c "/* TO""DO: later */"
refuses tidy "note to oneself" tests/base/new.sh "# FIX""ME"
refuses tidy "tab" src/base/size.c '\tint x;'
refuses tidy "trailing blank" src/base/size.c 'int x; '
refuses tidy "a path of one machine" tests/base/new.c '/* x */\nchar x[] = "/ho''me/me/x";'
refuses tidy "a path of one machine" tests/base/new.sh 'cd /wo''rk/main'
refuses tidy "a path of one machine" tests/base/new.c '/* x */\nchar x[] = "/t''mp/x";'

# header NAME TEXT: include/plumb/format.h with TEXT at its end does not compile alone.
header() {
    printf '%b\n' "$2" >>"$copy/tree/include/plumb/format.h"
    if PLUMB_SOURCE_DIR=$copy/tree sh "$root/tests/house/headers.sh" >"$copy/out" 2>&1; then
        result "not ok" "headers passed: $1"
    else
        result ok "headers refuses: $1"
    fi
    mend include/plumb/format.h
}
header "a type from a header that is not included" 'extern FILE *x;'
header "no guard" 'struct twice { int x; };'
if command -v c++ >/dev/null; then
    header "a word of C++" 'extern int class;'
fi

# archive NAME CALLER OTHER: two archives; one object in CALLER calls the function NAME.
archive() {
    rm -f "$copy"/*.a
    printf 'void %s(void);\nvoid plumb_f(void);\nvoid plumb_f(void) { %s(); }\n' "$1" "$1" \
        >"$copy/f.c"
    cc -w -fno-builtin -c "$copy/f.c" -o "$copy/f.o"
    printf 'int plumb_nothing;\n' >"$copy/g.c"
    cc -c "$copy/g.c" -o "$copy/g.o"
    ar rc "$copy/$2" "$copy/f.o"
    ar rc "$copy/$3" "$copy/g.o"
}
archive memcpy libplumb.a libplumbrun.a
if sh "$root/tests/house/symbols.sh" "$copy" >"$copy/out"; then
    result ok "symbols passes with memcpy"
else
    result "not ok" "symbols refuses memcpy"
fi
for name in fopen open printf getenv pthread_create GOMP_parallel exit abort time expf sinf; do
    archive "$name" libplumb.a libplumbrun.a
    if sh "$root/tests/house/symbols.sh" "$copy" >"$copy/out"; then
        result "not ok" "symbols passed with $name in libplumb"
    else
        result ok "symbols refuses $name in libplumb"
    fi
done
for name in exp powf cos log2f tanh; do
    archive "$name" libplumbrun.a libplumb.a
    if sh "$root/tests/house/symbols.sh" "$copy" >"$copy/out"; then
        result "not ok" "symbols passed with $name in libplumbrun"
    else
        result ok "symbols refuses $name in libplumbrun"
    fi
done
echo "1..$number"
[ "$failures" -eq 0 ]
