/* Runs the matrix instructions of a Hopper GPU on the tiles of tiles.h and writes what comes out.
 *
 *   units wgmma|mma OUTPUT
 *
 * OUTPUT: for each operation of that kind, in order, the hash of its operands (8 bytes) and 512
 * results of every tile (4 bytes each, or 2).  Prints whether operands lie where they should, and
 * whether wgmma gives the same with its own zero (scale-d 0) as with C = +0.
 */
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

#include "tiles.h"

struct place {
    size_t a, b;
    int steps;
};

static void require(cudaError_t status, const char *what)
{
    if (status == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    exit(1);
}

/* --- wgmma: both operands in shared memory, without swizzle --------------------------------- */

/* Blocks of 8 rows x 16 bytes, the two of a row beside each other, groups of 8 rows apart. */
enum { BESIDE = 128, APART = 256 };

static __device__ int block_offset(int row, int byte)
{
    return row / 8 * APART + byte / 16 * BESIDE + row % 8 * 16 + byte % 16;
}

static __device__ uint64_t descriptor(const void *at)
{
    const uint64_t address = __cvta_generic_to_shared(at);

    return (address & 0x3ffff) >> 4 | (uint64_t)(BESIDE >> 4) << 16 |
           (uint64_t)(APART >> 4) << 32;
}

#define WGMMA_FLOAT(shape, types, tail)                                                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                               \
                 "wgmma.mma_async.sync.aligned." shape ".f32." types                       \
                 " {%0, %1, %2, %3}, %4, %5, p, 1, 1" tail ";\n}"                          \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                          \
                 : "l"(a), "l"(b), "r"(with_d))
#define WGMMA_HALF(shape, types, tail)                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                               \
                 "wgmma.mma_async.sync.aligned." shape ".f16." types                       \
                 " {%0, %1}, %2, %3, p, 1, 1" tail ";\n}"                                  \
                 : "+r"(h[0]), "+r"(h[1])                                                  \
                 : "l"(a), "l"(b), "r"(with_d))

template <int OP>
static __device__ void wgmma(float *d, uint32_t *h, uint64_t a, uint64_t b, int with_d)
{
    if constexpr (OP == 0)
        WGMMA_FLOAT("m64n8k32", "e4m3.e4m3", "");
    if constexpr (OP == 1)
        WGMMA_FLOAT("m64n8k32", "e4m3.e5m2", "");
    if constexpr (OP == 2)
        WGMMA_FLOAT("m64n8k32", "e5m2.e4m3", "");
    if constexpr (OP == 3)
        WGMMA_FLOAT("m64n8k32", "e5m2.e5m2", "");
    if constexpr (OP == 4)
        WGMMA_HALF("m64n8k32", "e4m3.e4m3", "");
    if constexpr (OP == 5)
        WGMMA_HALF("m64n8k32", "e4m3.e5m2", "");
    if constexpr (OP == 6)
        WGMMA_HALF("m64n8k32", "e5m2.e4m3", "");
    if constexpr (OP == 7)
        WGMMA_HALF("m64n8k32", "e5m2.e5m2", "");
    if constexpr (OP == 8)
        WGMMA_FLOAT("m64n8k16", "bf16.bf16", ", 0, 0");
    if constexpr (OP == 9)
        WGMMA_FLOAT("m64n8k16", "f16.f16", ", 0, 0");
    if constexpr (OP == 10)
        WGMMA_HALF("m64n8k16", "f16.f16", ", 0, 0");
    if constexpr (OP == 11)
        WGMMA_FLOAT("m64n8k8", "tf32.tf32", "");
}

/* --- mma.sync: both operands in registers, the same bytes for every width of element ---------- */

#define MMA_FLOAT(shape, types)                                                            \
    asm volatile("mma.sync.aligned." shape ".row.col.f32." types ".f32 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                           \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#define MMA_HALF(shape, types)                                                             \
    asm volatile("mma.sync.aligned." shape ".row.col.f16." types ".f16 {%0, %1}, "         \
                 "{%2, %3, %4, %5}, {%6, %7}, {%0, %1};"                                   \
                 : "+r"(h[0]), "+r"(h[1])                                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <int OP>
static __device__ void mma(float *d, uint32_t *h, const uint32_t *a, const uint32_t *b)
{
    if constexpr (OP == 12)
        MMA_FLOAT("m16n8k32", "e4m3.e4m3");
    if constexpr (OP == 13)
        MMA_FLOAT("m16n8k32", "e4m3.e5m2");
    if constexpr (OP == 14)
        MMA_FLOAT("m16n8k32", "e5m2.e4m3");
    if constexpr (OP == 15)
        MMA_FLOAT("m16n8k32", "e5m2.e5m2");
    if constexpr (OP == 16)
        MMA_HALF("m16n8k32", "e4m3.e4m3");
    if constexpr (OP == 17)
        MMA_HALF("m16n8k32", "e4m3.e5m2");
    if constexpr (OP == 18)
        MMA_HALF("m16n8k32", "e5m2.e4m3");
    if constexpr (OP == 19)
        MMA_HALF("m16n8k32", "e5m2.e5m2");
    if constexpr (OP == 20)
        MMA_FLOAT("m16n8k16", "bf16.bf16");
    if constexpr (OP == 21)
        MMA_FLOAT("m16n8k16", "f16.f16");
    if constexpr (OP == 22)
        MMA_HALF("m16n8k16", "f16.f16");
    if constexpr (OP == 23)
        MMA_FLOAT("m16n8k8", "tf32.tf32");
}

static __device__ uint32_t word(const uint8_t *at)
{
    return *(const uint32_t *)at;
}

/* --- a tile: one block of four warps, 16 rows each -------------------------------------------- */

enum addend { C_GIVEN, C_ZERO, C_NONE };

/* Result i of this thread; both instructions agree. */
static __device__ int element(int i)
{
    const int lane = threadIdx.x % 32;

    return (threadIdx.x / 32 * 16 + lane / 4 + 8 * (i / 2)) * COLS + lane % 4 * 2 + i % 2;
}

template <int OP>
static __global__ void run_tile(const place *places, const uint8_t *all_a,
                                const uint8_t *all_b, const uint32_t *c, uint32_t *out,
                                addend how)
{
    __shared__ __align__(128) uint8_t shared_a[ROWS * 32], shared_b[COLS * 32];
    const place at = places[blockIdx.x];
    const uint8_t *a = all_a + at.a, *b = all_b + at.b;
    const int stride = 32 * at.steps, lane = threadIdx.x % 32,
              row = threadIdx.x / 32 * 16 + lane / 4;
    uint32_t start[4], h[2];
    float d[4];

    for (int i = 0; i < 4; i++) {
        start[i] = how == C_GIVEN ? c[(size_t)blockIdx.x * RESULTS + element(i)] : 0;
        d[i] = __uint_as_float(start[i]);
    }
    for (int i = 0; i < 2; i++)
        h[i] = (start[2 * i] & 0xffff) | start[2 * i + 1] << 16;
    for (int step = 0; step < at.steps; step++) {
        if constexpr (OP < 12) {
            __syncthreads();
            for (int i = threadIdx.x; i < ROWS * 32; i += blockDim.x)
                shared_a[block_offset(i / 32, i % 32)] =
                    a[i / 32 * stride + 32 * step + i % 32];
            for (int i = threadIdx.x; i < COLS * 32; i += blockDim.x)
                shared_b[block_offset(i / 32, i % 32)] =
                    b[i / 32 * stride + 32 * step + i % 32];
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncthreads();
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
            wgmma<OP>(d, h, descriptor(shared_a), descriptor(shared_b),
                      how != C_NONE || step > 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        } else {
            const uint8_t *from = a + row * stride + 32 * step + 4 * (lane % 4);
            const uint8_t *to = b + lane / 4 * stride + 32 * step + 4 * (lane % 4);
            const uint32_t ra[4] = {word(from), word(from + 8 * stride), word(from + 16),
                                    word(from + 8 * stride + 16)};
            const uint32_t rb[2] = {word(to), word(to + 16)};

            mma<OP>(d, h, ra, rb);
        }
    }
    constexpr bool half =
        (OP >= 4 && OP < 8) || OP == 10 || (OP >= 16 && OP < 20) || OP == 22;
    for (int i = 0; i < 4; i++)
        out[(size_t)blockIdx.x * RESULTS + element(i)] =
            half ? h[i / 2] >> (i % 2 ? 16 : 0) & 0xffff : __float_as_uint(d[i]);
}

typedef void (*tile_kernel)(const place *, const uint8_t *, const uint8_t *,
                            const uint32_t *, uint32_t *, addend);

static const tile_kernel kernels[OPERATIONS] = {
    run_tile<0>,  run_tile<1>,  run_tile<2>,  run_tile<3>,  run_tile<4>,  run_tile<5>,
    run_tile<6>,  run_tile<7>,  run_tile<8>,  run_tile<9>,  run_tile<10>, run_tile<11>,
    run_tile<12>, run_tile<13>, run_tile<14>, run_tile<15>, run_tile<16>, run_tile<17>,
    run_tile<18>, run_tile<19>, run_tile<20>, run_tile<21>, run_tile<22>, run_tile<23>,
};

/* --- the host ------------------------------------------------------------------------------- */

static double integer_result(const operation *op, const tile *t, int i)
{
    const format_info *fa = &tile_formats[op->a], *fb = &tile_formats[op->b];
    const uint32_t c = op->half ? half_to_float(t->c[i]) : t->c[i];
    const int k = 32 / fa->bytes * t->steps;
    float sum;

    memcpy(&sum, &c, sizeof sum);
    for (int j = 0; j < k; j++)
        sum += (float)(code_value(fa, get_code(fa, t->a + i / COLS * 32 * t->steps, j)) *
                       code_value(fb, get_code(fb, t->b + i % COLS * 32 * t->steps, j)));
    return sum;
}

struct batch {
    std::vector<place> places;
    std::vector<uint8_t> a, b;
    std::vector<uint32_t> c;
    std::vector<double> integers; /* of the tiles of integers */
    std::vector<size_t> where;
    uint64_t hash = hash_start();
};

static void make_batch(int operation_index, batch *all)
{
    tile *t = new tile;

    for (int i = 0; i < tile_count(); i++) {
        tile_fill(operation_index, i, t);
        const size_t na = (size_t)ROWS * 32 * t->steps, nb = (size_t)COLS * 32 * t->steps;
        all->places.push_back({all->a.size(), all->b.size(), t->steps});
        all->a.insert(all->a.end(), t->a, t->a + na);
        all->b.insert(all->b.end(), t->b, t->b + nb);
        all->c.insert(all->c.end(), t->c, t->c + RESULTS);
        hash_operands(&all->hash, t);
        for (int j = 0; t->kind == INTEGERS && j < RESULTS; j++) {
            all->where.push_back((size_t)i * RESULTS + j);
            all->integers.push_back(
                integer_result(&tile_operations[operation_index], t, j));
        }
    }
    delete t;
}

template <class T> static T *to_device(const std::vector<T> &v)
{
    void *at;

    require(cudaMalloc(&at, v.size() * sizeof(T)), "cudaMalloc");
    require(cudaMemcpy(at, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice),
            "cudaMemcpy");
    return (T *)at;
}

static void run(int operation_index, FILE *file)
{
    const operation *op = &tile_operations[operation_index];
    batch all;
    make_batch(operation_index, &all);
    const size_t n = all.c.size();
    std::vector<uint32_t> out(n), zero(n), none(n);
    place *places = to_device(all.places);
    uint8_t *a = to_device(all.a), *b = to_device(all.b);
    uint32_t *c = to_device(all.c), *d = to_device(out);

    for (int how = C_GIVEN; how <= C_NONE; how++) {
        std::vector<uint32_t> *to = how == C_GIVEN ? &out : how == C_ZERO ? &zero : &none;
        kernels[operation_index]<<<(unsigned)all.places.size(), 128>>>(places, a, b, c, d,
                                                                       (addend)how);
        require(cudaGetLastError(), "launch");
        require(cudaDeviceSynchronize(), "run");
        require(cudaMemcpy(to->data(), d, n * 4, cudaMemcpyDeviceToHost), "copy");
    }
    size_t wrong = 0, differ = 0;
    for (size_t i = 0; i < all.where.size(); i++) {
        const uint32_t x = out[all.where[i]], bits = op->half ? half_to_float(x) : x;
        float y;
        memcpy(&y, &bits, sizeof y);
        wrong += y != all.integers[i];
    }
    for (size_t i = 0; i < n; i++)
        differ += zero[i] != none[i];
    printf(
        "%2d %-5s %s x %s -> %s: %zu results, operands %016llx, %zu of %zu integers wrong, "
        "%zu differ without C\n",
        operation_index, op->mma ? "mma" : "wgmma", tile_formats[op->a].name,
        tile_formats[op->b].name, op->half ? "fp16" : "fp32", n,
        (unsigned long long)all.hash, wrong, all.where.size(), differ);
    fwrite(&all.hash, 8, 1, file);
    for (size_t i = 0; i < n; i++)
        fwrite(&out[i], op->half ? 2 : 4, 1, file);
    cudaFree(places);
    cudaFree(a);
    cudaFree(b);
    cudaFree(c);
    cudaFree(d);
}

int main(int argc, char **argv)
{
    if (argc != 3 || (strcmp(argv[1], "wgmma") != 0 && strcmp(argv[1], "mma") != 0)) {
        fprintf(stderr, "units wgmma|mma OUTPUT\n");
        return 2;
    }
    const bool mma = strcmp(argv[1], "mma") == 0;
    FILE *file = fopen(argv[2], "wb");
    int driver = 0, runtime = 0;
    cudaDeviceProp device;

    if (file == NULL) {
        perror(argv[2]);
        return 1;
    }
    require(cudaGetDeviceProperties(&device, 0), "device");
    require(cudaDriverGetVersion(&driver), "driver");
    require(cudaRuntimeGetVersion(&runtime), "runtime");
    printf("%s, compute capability %d.%d, driver's CUDA %d, runtime %d\n", device.name,
           device.major, device.minor, driver, runtime);
    for (int i = 0; i < OPERATIONS; i++)
        if (tile_operations[i].mma == mma)
            run(i, file);
    return fclose(file) != 0;
}
