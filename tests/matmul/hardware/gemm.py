"""FP8 products of torch._scaled_mm (cuBLASLt) on a GPU, as hashes for tests/matmul.

    gemm.py > h200-gemm.csv

One line a product: shape, formats of A [M, K] and B [N, K], use_fast_accum, scales of both, the
FNV-1a hash of C in fp32, and the kernel.  Operands follow from their place alone (test_hardware.c
makes the same): blocks of 128 differ much in size, so that fp32 sums of them round.
"""

import numpy
import torch

U64 = numpy.uint64
TYPES = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def mix(x):
    x = (x ^ x >> U64(30)) * U64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> U64(27)) * U64(0x94D049BB133111EB)
    return x ^ x >> U64(31)


def codes(which, rows, k, name):
    bits = 3 if name == "e4m3" else 2
    place = numpy.arange(rows * k, dtype=U64) + (U64(which) << U64(40))
    block = numpy.arange(rows * k, dtype=U64) % U64(k) // U64(128) + (U64(9) << U64(40))
    x = mix(place)
    field = U64(4 if name == "e4m3" else 12) + mix(block) % U64(11) - (x >> U64(8)) % U64(5)
    code = (x & U64(1)) << U64(7) | field << U64(bits) | x >> U64(16) & U64((1 << bits) - 1)
    return torch.from_numpy(code.astype(numpy.uint8).reshape(rows, k))


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & (1 << 64) - 1
    return value


def kernels(call):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
        call()
        torch.cuda.synchronize()
    names = [e.key.split("<")[0].split()[-1] for e in p.key_averages()]
    return " + ".join(n for n in names if "nvjet" in n or "cutlass" in n or "cublasLt" in n)


def product(m, n, k, fa, fb, fast, sa, sb):
    a = codes(1, m, k, fa).cuda().view(TYPES[fa])
    b = codes(2, n, k, fb).cuda().view(TYPES[fb]).t()
    scales = [torch.tensor(s, dtype=torch.float32, device="cuda") for s in (sa, sb)]

    def call():
        return torch._scaled_mm(
            a, b, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.float32,
            use_fast_accum=fast
        )

    c = call().cpu().numpy()
    print(f"{m},{n},{k},{fa},{fb},{int(fast)},{sa},{sb},{fnv1a(c.tobytes()):016x},"
          f"{kernels(call)}", flush=True)


def main():
    print(f"# torch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}")
    print("m,n,k,a,b,fast,scale_a,scale_b,hash,kernel")
    for m, n, k in [(16, 16, 128), (64, 64, 208), (64, 48, 1040), (64, 64, 4096), (16, 16, 8192),
                    (128, 96, 512)]:
        for fast in (True, False):
            product(m, n, k, "e4m3", "e4m3", fast, 1, 1)
    for fast in (True, False):
        product(64, 64, 1040, "e4m3", "e5m2", fast, 1, 1)
        product(64, 64, 1040, "e5m2", "e4m3", fast, 1, 1)
        product(64, 64, 1040, "e4m3", "e4m3", fast, 0.3, 1.7)


main()
