#!/bin/sh
# The river: includes point upstream only (docs: src/ORDER, CONTRIBUTING.md).
#
#   layers.sh [ROOT]     lists violations and exits 1 when there are any
#
# A file of room X may include its own folder, folders above X in src/ORDER, and public
# headers of X and of rooms above it.  A public header may include those of its own room and
# of rooms above.  Above the first dashed line only headers of the C library that do no I/O
# and start no threads are allowed; OpenMP belongs to model and train, with a static schedule.
set -eu
cd "${1:-${PLUMB_SOURCE_DIR:-$(dirname "$0")/../..}}"
find src include/plumb -name '*.[ch]' | LC_ALL=C sort | awk '
function complain(text) {
    printf "%s:%d: %s\n", file, line, text
    bad = 1
}
# The room that a public header is the manual of.
function room_of_header(header) {
    sub(/\.h$/, "", header)
    return header == "cast" || header == "math" ? "kernel" : header
}
function check_room(to, what) {
    if (!(to in rank))
        complain(what ": there is no room " to " in src/ORDER")
    else if (rank[to] > rank[room])
        complain(what ": " room " stands above " to " in src/ORDER")
}
function check_project(path,    part) {
    if (path ~ /\.\./)
        complain(path ": no .. in includes")
    else if (path ~ /^plumb\//)
        check_room(room_of_header(substr(path, 7)), path)
    else if (split(path, part, "/") > 1)
        check_room(part[1], path)
    else
        complain(path ": write it as \"" room "/" path "\"")
}
function check_include(text,    path) {
    if (text !~ /^[<"][^<>"]+[>"]/) {
        complain("an include must name its file")
        return
    }
    path = substr(text, 2)
    sub(/[>"].*/, "", path)
    if (text ~ /^"/ || path ~ /^plumb\//)
        check_project(path)
    else if (rank[room] < first_line && !(path in pure))
        complain(path ": libplumb does no I/O and starts no threads")
    else if (path == "omp.h" && room != "model" && room != "train")
        complain("omp.h: OpenMP belongs to model and train")
}
function check_file(    text) {
    line = 0
    while ((getline text < file) > 0) {
        line++
        if (text ~ /^[ \t]*#[ \t]*include/) {
            sub(/^[ \t]*#[ \t]*include[ \t]*/, "", text)
            check_include(text)
        } else if (text ~ /^[ \t]*#[ \t]*pragma[ \t]+omp/) {
            if (room != "model" && room != "train")
                complain("OpenMP belongs to model and train")
            else if (text ~ /omp.*[ \t]for/ && text !~ /schedule\(static/)
                complain("schedule(static) only: results must not depend on threads")
            if (text ~ /reduction/ && text !~ /reduction\((max|min)/)
                complain("no reduction: the order of a sum must be stated")
        }
    }
    close(file)
}
BEGIN {
    split("assert cpuid ctype errno fenv float fnmatch immintrin inttypes limits math stdalign " \
          "stdarg stdatomic stdbool stddef stdint stdlib string xmmintrin " \
          "sanitizer/asan_interface", names)
    for (i in names)
        pure[names[i] ".h"]
    while ((getline text < "src/ORDER") > 0) {
        place++
        if (text ~ /^----/ && !first_line)
            first_line = place
        else if (text ~ /^[a-z]+$/)
            rank[text] = place
    }
}
{
    file = $0
    split(file, part, "/")
    line = 1
    room = part[1] == "src" ? part[2] : room_of_header(part[3])
    if (room in rank)
        check_file()
    else
        complain("there is no room " room " in src/ORDER")
}
END { exit bad }'
