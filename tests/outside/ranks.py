#!/usr/bin/env python3
"""mpirun -n 2 python3 ranks.py [dead|hang]: ranks that sum their losses by MPI_Allreduce.

Rank 1 dies, or sleeps before the sum, at step 5.  Open MPI is called as its library stands, so that
no package for Python and no compiler is needed.
"""
import ctypes
import json
import os
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)


def handle(name):
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


def main():
    world, double, add = map(handle, ("ompi_mpi_comm_world", "ompi_mpi_double", "ompi_mpi_op_sum"))
    run, number = os.environ["PLUMB_RUN_DIR"], ctypes.c_int()
    request = json.load(open(os.path.join(run, "request.json")))
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(world, ctypes.byref(number))
    rank = number.value
    with open(os.path.join(run, "..", "pids"), "a") as file:
        file.write("%d\n" % os.getpid())
    for step in range(1, min(request.get("stop_at", 30), 30) + 1):
        if rank == 1 and step == 5 and MODE == "dead":
            os.kill(os.getpid(), 9)
        if rank == 1 and step == 5 and MODE == "hang":
            time.sleep(600)
        part = ctypes.c_double((1.0 if "policy" in request else 1.001) / (step + rank))
        total = ctypes.c_double()
        mpi.MPI_Allreduce(ctypes.byref(part), ctypes.byref(total), 1, double, add, world)
        if rank == 0:
            with open(os.path.join(run, "metrics.jsonl"), "a") as file:
                file.write(json.dumps({"step": step, "loss": total.value}) + "\n")
    mpi.MPI_Finalize()


main()
