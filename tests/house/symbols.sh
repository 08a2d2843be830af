#!/bin/sh
# What the archives ask of the outside, read from the objects themselves, so that a prototype
# written by hand hides nothing.
#
#   symbols.sh DIRECTORY       where libplumb.a and libplumbrun.a lie
#
# libplumb: only what is listed here: no I/O, no environment, no threads, no libm but what IEEE
# makes exact.  libplumbrun: no libm function whose bits differ between machines.
set -eu
directory=${1:-$(dirname "$PLUMB")}

for archive in libplumb.a libplumbrun.a; do
    [ -s "$directory/$archive" ] || {
        echo "there is no $directory/$archive"
        exit 1
    }
done

# External symbols that the archive uses and does not define.
outside() {
    nm -P -g "$1" | awk '
        $2 == "U" { used[$1] }
        $2 ~ /^[A-TV-Z]$/ { defined[$1] }
        END { for (name in used) if (!(name in defined)) print name }' | LC_ALL=C sort
}

if outside "$directory/libplumb.a" | grep -q '^__asan_\|^__ubsan_'; then
    echo "# a sanitizer build asks for more; nothing to see here"
    exit 77
fi
failed=0
for name in $(outside "$directory/libplumb.a"); do
    case $name in
    malloc | calloc | realloc | free | aligned_alloc) ;;
    mem* | str* | fnmatch | qsort | bsearch) ;;
    vsnprintf) ;; # formats into memory
    sqrt | sqrtf | fma | fmaf | rint | rintf | ldexp | ldexpf | frexp | frexpf | scalbn*) ;;
    floor | floorf | ceil | ceilf | trunc | truncf | nearbyint | nearbyintf) ;;
    __errno_location | __ctype_* | __stack_chk_fail | _GLOBAL_OFFSET_TABLE_) ;;
    __isoc23_str* | __*_chk) ;;
    __cpu_model | __cpu_features2 | __cpu_indicator_init | __popcountdi2 | __assert_fail) ;;
    *)
        echo "libplumb.a asks for $name, which is not on the list"
        failed=1
        ;;
    esac
done
inexact='exp|exp2|exp10|expm1|log|log2|log10|log1p|sin|cos|sincos|tan|sinh|cosh|tanh|asin|acos'
inexact="$inexact|atan|atan2|pow|cbrt|hypot|erf|erfc|tgamma|lgamma"
if outside "$directory/libplumbrun.a" | grep -E "^($inexact)f?\$"; then
    echo "libplumbrun.a asks for the libm functions above, whose bits differ between machines"
    failed=1
fi
exit "$failed"
