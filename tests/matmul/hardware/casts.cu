/* What cvt of a GPU makes of every fp32 and fp16.
 *
 *   casts OUTPUT
 *
 * Lines of text: name, bits of the source, bits of the result, for each source whose result is
 * not that of the source before it (sources in order of their bits, the first always).
 */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

enum cast {
    E4M3_FP32,
    E5M2_FP32,
    FP16_FP32,
    BF16_FP32,
    E4M3_FP16,
    E5M2_FP16,
    FP16_E4M3,
    FP16_E5M2,
    CASTS
};

static const struct {
    const char *name;
    uint64_t sources;
} casts[CASTS] = {
    {"e4m3.fp32", 1ull << 32}, {"e5m2.fp32", 1ull << 32}, {"fp16.fp32", 1ull << 32},
    {"bf16.fp32", 1ull << 32}, {"e4m3.fp16", 1 << 16},    {"e5m2.fp16", 1 << 16},
    {"fp16.e4m3", 256},        {"fp16.e5m2", 256},
};

template <int CAST> static __device__ uint32_t convert(uint32_t x)
{
    uint16_t r = 0;
    uint32_t w = 0;

    if constexpr (CAST == E4M3_FP32)
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
            : "=h"(r)
            : "f"(0.0f), "f"(__uint_as_float(x)));
    if constexpr (CAST == E5M2_FP32)
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
            : "=h"(r)
            : "f"(0.0f), "f"(__uint_as_float(x)));
    if constexpr (CAST == FP16_FP32)
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(__uint_as_float(x)));
    if constexpr (CAST == BF16_FP32)
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(__uint_as_float(x)));
    if constexpr (CAST == E4M3_FP16)
        asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(r) : "r"(x));
    if constexpr (CAST == E5M2_FP16)
        asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(r) : "r"(x));
    if constexpr (CAST == FP16_E4M3) {
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(w) : "h"((uint16_t)x));
        return w & 0xffff;
    }
    if constexpr (CAST == FP16_E5M2) {
        asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(w) : "h"((uint16_t)x));
        return w & 0xffff;
    }
    return r;
}

enum { ROOM = 1 << 20 };

template <int CAST>
static __global__ void scan(uint64_t sources, uint2 *list, unsigned *count)
{
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < sources;
         i += (uint64_t)gridDim.x * blockDim.x) {
        const uint32_t x = (uint32_t)i, to = convert<CAST>(x);
        if (i != 0 && to == convert<CAST>(x - 1))
            continue;
        const unsigned at = atomicAdd(count, 1u);
        if (at < ROOM)
            list[at] = make_uint2(x, to);
    }
}

template <int CAST> static void write(FILE *file)
{
    unsigned *count, n = 0;
    uint2 *list;
    std::vector<uint2> host(ROOM);

    cudaMalloc(&count, sizeof n);
    cudaMalloc(&list, ROOM * sizeof *list);
    cudaMemset(count, 0, sizeof n);
    scan<CAST><<<1024, 256>>>(casts[CAST].sources, list, count);
    cudaMemcpy(&n, count, sizeof n, cudaMemcpyDeviceToHost);
    cudaMemcpy(host.data(), list, ROOM * sizeof *list, cudaMemcpyDeviceToHost);
    printf("%s: %u changes, %s\n", casts[CAST].name, n,
           cudaGetErrorString(cudaGetLastError()));
    n = std::min(n, (unsigned)ROOM);
    std::sort(host.begin(), host.begin() + n, [](uint2 a, uint2 b) { return a.x < b.x; });
    for (unsigned i = 0; i < n; i++)
        fprintf(file, "%s %08x %04x\n", casts[CAST].name, host[i].x, host[i].y);
    cudaFree(count);
    cudaFree(list);
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "w") : NULL;

    if (file == NULL)
        return 2;
    write<E4M3_FP32>(file);
    write<E5M2_FP32>(file);
    write<FP16_FP32>(file);
    write<BF16_FP32>(file);
    write<E4M3_FP16>(file);
    write<E5M2_FP16>(file);
    write<FP16_E4M3>(file);
    write<FP16_E5M2>(file);
    return fclose(file) != 0;
}
