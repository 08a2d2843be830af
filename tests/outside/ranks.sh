#!/bin/sh
# ranks.sh mpirun|torchrun - a trainer of two ranks under a launcher: healthy where it is; a rank that
# dies ends the run and is told of; a rank that sleeps in front of a collective is silence; nothing
# stays behind.
# shellcheck source=tests/outside/lib.sh
. "${PLUMB_SOURCE_DIR:?}/tests/outside/lib.sh"

skip() {
    echo "1..0 # SKIP $1"
    exit 77
}

# launch ARGUMENTS of ranks.py: under the launcher
ranks="$PLUMB_SOURCE_DIR/tests/outside/ranks.py"
case $1 in
mpirun)
    command -v mpirun >/dev/null || skip "no mpirun"
    python3 -c 'import ctypes; ctypes.CDLL("libmpi.so.40")' 2>/dev/null || skip "no Open MPI 4"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    launcher="mpirun --oversubscribe -n 2 python3"
    silence=2
    death="exited on signal 9"
    ;;
torchrun)
    # Debian's PyTorch 1.13 does not find its own "no redirection" under Python 3.11: -r and -t.
    python=
    for one in python3 /usr/bin/python3; do
        $one -c 'import torch.distributed.run' 2>/dev/null && python=$one && break
    done
    [ -n "$python" ] || skip "no PyTorch"
    launcher="$python -m torch.distributed.run --nproc_per_node 2 --max_restarts 0 -r=1 -t=1"
    silence=30
    death="after step 4"
    ;;
esac

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

# shellcheck disable=SC2086 # the launcher is words
ask_ranks() {
    mode=$1
    shift
    ask "$mode" "$1" $launcher "$ranks" "$mode"
}

ask_ranks fine 0
says fine "Healthy up to step 30"
none_left fine

ask_ranks dead 2
says dead "after step 4"
says dead "$death"
none_left dead

export options="--silence $silence --grace 3"
ask_ranks hang 2
says hang "no line for $silence s after step 4"
none_left hang
finish
