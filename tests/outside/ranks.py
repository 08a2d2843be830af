#!/usr/bin/env python3
"""ranks.py [dead|hang] under mpirun or torchrun: ranks that sum their losses by an all-reduce.

Rank 1 dies, or sleeps before the sum, at step 5.  Open MPI is called as its library stands, so that
no package for Python and no compiler is needed; under torchrun it is torch.distributed with gloo.
"""
import ctypes
import json
import os
import sys
import time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""


def by_mpi():
    """(rank, the sum over ranks)"""
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, double, add = (ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
                          for name in ("ompi_mpi_comm_world", "ompi_mpi_double", "ompi_mpi_op_sum"))
    rank = ctypes.c_int()
    mpi.MPI_Init(None, None)
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))

    def total(value):
        part, whole = ctypes.c_double(value), ctypes.c_double()
        mpi.MPI_Allreduce(ctypes.byref(part), ctypes.byref(whole), 1, double, add, world)
        return whole.value

    return rank.value, total, mpi.MPI_Finalize


def by_torch():
    import torch
    import torch.distributed

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")

    def total(value):
        whole = torch.tensor([value], dtype=torch.float64)
        torch.distributed.all_reduce(whole)
        return whole.item()

    return torch.distributed.get_rank(), total, lambda: None


def main():
    run = os.environ["PLUMB_RUN_DIR"]
    request = json.load(open(os.path.join(run, "request.json")))
    rank, total, finish = by_torch() if "TORCHELASTIC_RUN_ID" in os.environ else by_mpi()
    with open(os.path.join(run, "..", "pids"), "a") as file:
        file.write("%d\n" % os.getpid())
    for step in range(1, min(request.get("stop_at", 30), 30) + 1):
        if rank == 1 and step == 5 and MODE == "dead":
            os.kill(os.getpid(), 9)
        if rank == 1 and step == 5 and MODE == "hang":
            time.sleep(600)
        loss = total((1.0 if "policy" in request else 1.001) / (step + rank))
        if rank == 0:
            with open(os.path.join(run, "metrics.jsonl"), "a") as file:
                file.write(json.dumps({"step": step, "loss": loss}) + "\n")
    finish()


main()
