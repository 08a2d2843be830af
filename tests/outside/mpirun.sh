#!/bin/sh
# mpirun.sh - a trainer of two ranks under Open MPI's mpirun: healthy where it is; a rank that dies ends
# the run and is told of; a rank that sleeps in front of a collective is silence; nothing stays behind.
# shellcheck source=tests/outside/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/outside/lib.sh"
if ! command -v mpirun >/dev/null ||
    ! python3 -c 'import ctypes; ctypes.CDLL("libmpi.so.40")' 2>/dev/null; then
    echo "1..0 # SKIP no mpirun of Open MPI 4"
    exit 77
fi
ranks="$PLUMB_SOURCE_DIR/tests/outside/ranks.py"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

alive() { # of all ranks that were started
    find "$place/study/runs" -name pids -exec cat {} + | while read -r pid; do
        [ -r "/proc/$pid/stat" ] && ! grep -q ') Z ' "/proc/$pid/stat" && echo "$pid"
    done
}

none_left() {
    tries=50
    while [ -n "$(alive)" ] && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    [ -z "$(alive)" ] && [ -n "$(find "$place/study/runs" -name pids)" ]
    result $? "$1: no rank is left"
}

ask fine 0 mpirun --oversubscribe -n 2 python3 "$ranks"
says fine "Healthy up to step 30"
none_left fine

ask dead 2 mpirun --oversubscribe -n 2 python3 "$ranks" dead
says dead "after step 4"
says dead "exited on signal 9"
none_left dead

export options="--silence 2 --grace 3"
ask hang 2 mpirun --oversubscribe -n 2 python3 "$ranks" hang
says hang "no line for 2 s after step 4"
none_left hang
finish
