/* oneDNN: matmul in fp32 and bf16 (results fp32), one thread, both operands as they lie.
 *
 * Versions 2 and 3 differ in how a matmul is described: in 2 descriptors are structs that
 * the caller owns, in 3 handles.  Only addresses of them pass here, so a block larger than
 * any of them stands for both.
 */
#include "bench/peer.h"

#include <dlfcn.h>
#include <string.h>

/* Values of oneDNN's public headers. */
enum { CPU = 1, IN_ORDER = 1, BF16 = 2, F32 = 3, SOURCE = 1, RESULT = 17, WEIGHTS = 33 };
enum { DIMENSIONS = 12, LARGEST_DESCRIPTOR = 16384 };

typedef union descriptor {
    void *handle;                           /* version 3 */
    _Alignas(16) unsigned char owned[2048]; /* version 2: a memory descriptor */
} descriptor;

typedef struct argument {
    int kind;
    void *memory;
} argument;

typedef int describe_fn(void *descriptor, int dimensions, const int64_t *sizes, int type,
                        const int64_t *strides);

typedef struct dnn_peer {
    struct {
        int major, minor, patch;
    } version;
    int (*engine_create)(void **engine, int kind, size_t index);
    int (*stream_create)(void **stream, void *engine, unsigned flags);
    int (*stream_wait)(void *stream);
    int (*memory_create)(void **memory, const void *descriptor, void *engine, void *data);
    int (*primitive_create)(void **primitive, const void *description);
    int (*engine_destroy)(void *engine);
    int (*stream_destroy)(void *stream);
    int (*memory_destroy)(void *memory);
    int (*description_destroy)(void *description);
    int (*primitive_destroy)(void *primitive);
    int (*primitive_execute)(void *primitive, void *stream, int count,
                             const argument *arguments);
    describe_fn *describe;
    /* version 2 */
    int (*matmul_init)(void *matmul, const void *a, const void *b, const void *bias,
                       const void *c);
    int (*description_create)(void **description, const void *matmul,
                              const void *attributes, void *engine, const void *hint);
    /* version 3 */
    int (*matmul_create)(void **description, void *engine, const void *a, const void *b,
                         const void *bias, const void *c, const void *attributes);
    int (*descriptor_destroy)(void *descriptor);
    void *engine, *stream;
} dnn_peer;

typedef struct matmul {
    const dnn_peer *dnn;
    const bench_peer_product *product;
    descriptor of[3];
    argument arguments[3];
    void *description, *primitive;
} matmul;

static void multiply(void *context)
{
    const matmul *m = context;

    m->dnn->primitive_execute(m->primitive, m->dnn->stream, 3, m->arguments);
    m->dnn->stream_wait(m->dnn->stream);
}

static bool near(void *context, char complaint[BENCH_COMPLAINT])
{
    const matmul *m = context;

    return bench_peer_product_near(m->product, complaint);
}

static bool load(dnn_peer *dnn)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so", NULL};
    void *library = bench_library(names);
    const void *(*version)(void);

    if (library == NULL || !bench_symbol(library, "dnnl_version", &version, sizeof version))
        return false;
    memcpy(&dnn->version, version(), sizeof dnn->version);
#define NEED(member, name) bench_symbol(library, name, &dnn->member, sizeof dnn->member)
    const bool common = NEED(engine_create, "dnnl_engine_create") &&
                        NEED(stream_create, "dnnl_stream_create") &&
                        NEED(stream_wait, "dnnl_stream_wait") &&
                        NEED(memory_create, "dnnl_memory_create") &&
                        NEED(primitive_create, "dnnl_primitive_create") &&
                        NEED(engine_destroy, "dnnl_engine_destroy") &&
                        NEED(stream_destroy, "dnnl_stream_destroy") &&
                        NEED(memory_destroy, "dnnl_memory_destroy") &&
                        NEED(description_destroy, "dnnl_primitive_desc_destroy") &&
                        NEED(primitive_destroy, "dnnl_primitive_destroy") &&
                        NEED(primitive_execute, "dnnl_primitive_execute");
    const bool of_version =
        dnn->version.major == 2
            ? NEED(describe, "dnnl_memory_desc_init_by_strides") &&
                  NEED(matmul_init, "dnnl_matmul_desc_init") &&
                  NEED(description_create, "dnnl_primitive_desc_create")
            : NEED(describe, "dnnl_memory_desc_create_with_strides") &&
                  NEED(descriptor_destroy, "dnnl_memory_desc_destroy") &&
                  NEED(matmul_create, "dnnl_matmul_primitive_desc_create");
#undef NEED
    return common && of_version && dnn->engine_create(&dnn->engine, CPU, 0) == 0 &&
           dnn->stream_create(&dnn->stream, dnn->engine, IN_ORDER) == 0;
}

/* One thread: the builds of distributions run on the OpenMP of this process. */
static void one_thread(void)
{
    void *process = dlopen(NULL, RTLD_NOW);
    void (*set_threads)(int);

    if (process != NULL &&
        bench_symbol(process, "omp_set_num_threads", &set_threads, sizeof set_threads))
        set_threads(1);
}

static void end_dnn(void *object)
{
    const dnn_peer *dnn = object;

    if (dnn->stream != NULL)
        dnn->stream_destroy(dnn->stream);
    if (dnn->engine != NULL)
        dnn->engine_destroy(dnn->engine);
}

static void end_matmul(void *object)
{
    const matmul *m = object;

    if (m->primitive != NULL)
        m->dnn->primitive_destroy(m->primitive);
    if (m->description != NULL)
        m->dnn->description_destroy(m->description);
    for (int i = 0; i < 3; i++) {
        if (m->arguments[i].memory != NULL)
            m->dnn->memory_destroy(m->arguments[i].memory);
        if (m->dnn->version.major != 2 && m->of[i].handle != NULL)
            m->dnn->descriptor_destroy(m->of[i].handle);
    }
}

/* The operation itself.  False when this oneDNN does not do it on this CPU. */
static bool describe_matmul(matmul *m)
{
    static _Alignas(16) unsigned char operation[LARGEST_DESCRIPTOR];
    const dnn_peer *dnn = m->dnn;
    const descriptor *of = m->of;

    if (dnn->version.major != 2)
        return dnn->matmul_create(&m->description, dnn->engine, of[0].handle, of[1].handle,
                                  NULL, of[2].handle, NULL) == 0;
    return dnn->matmul_init(operation, &of[0], &of[1], NULL, &of[2]) == 0 &&
           dnn->description_create(&m->description, operation, NULL, dnn->engine, NULL) ==
               0;
}

/* c = a b^T of matrices of n x n at data[0] to data[2]. */
static bool make_primitive(matmul *m, size_t n, int type, void *const data[3])
{
    const int64_t sizes[DIMENSIONS] = {(int64_t)n, (int64_t)n};
    const int64_t rows[DIMENSIONS] = {(int64_t)n, 1}, turned[DIMENSIONS] = {1, (int64_t)n};
    const int types[3] = {type, type, F32}, kinds[3] = {SOURCE, WEIGHTS, RESULT};
    const dnn_peer *dnn = m->dnn;
    int bad = 0;

    for (int i = 0; i < 3 && bad == 0; i++) {
        m->arguments[i].kind = kinds[i];
        bad = dnn->describe(&m->of[i], 2, sizes, types[i], i == 1 ? turned : rows);
        if (bad == 0)
            bad = dnn->memory_create(&m->arguments[i].memory,
                                     dnn->version.major != 2 ? m->of[i].handle
                                                             : (void *)&m->of[i],
                                     dnn->engine, data[i]);
    }
    return bad == 0 && describe_matmul(m) &&
           dnn->primitive_create(&m->primitive, m->description) == 0;
}

static plumb_status enter(bench *b, bench_race *race, const dnn_peer *dnn,
                          const bench_peer_product *product, int type, plumb_error *why)
{
    const size_t count = product->n * product->n;
    bench_entry *entry = bench_enter(race, BENCH_PEER, "");
    matmul *m = bench_take(b, sizeof *m, why);
    void *data[3] = {product->a, product->b, product->c};

    if (m == NULL)
        return PLUMB_NO_MEMORY;
    plumb_print(entry->name, sizeof entry->name, "oneDNN %d.%d.%d %s", dnn->version.major,
                dnn->version.minor, dnn->version.patch, type == F32 ? "fp32" : "bf16");
    for (int i = 0; type == BF16 && i < 2; i++) {
        const plumb_cast how = {.format = PLUMB_BF16, .scale = 1};
        const float *x = data[i];

        data[i] = bench_take(b, count * sizeof(uint16_t), why);
        if (data[i] == NULL)
            return PLUMB_NO_MEMORY;
        plumb_cast_encode(&how, x, count, data[i], NULL);
    }
    m->dnn = dnn;
    m->product = product;
    entry->run = multiply;
    entry->check = near;
    entry->context = m;
    if (!bench_at_end(b, end_matmul, m) || !make_primitive(m, product->n, type, data))
        entry->absent = "not offered on this CPU";
    return PLUMB_OK;
}

plumb_status bench_enter_onednn(bench *b, bench_race *race,
                                const bench_peer_product *product, plumb_error *why)
{
    dnn_peer *dnn = bench_take(b, sizeof *dnn, why);
    plumb_status status;

    if (dnn == NULL)
        return PLUMB_NO_MEMORY;
    if (!load(dnn) || !bench_at_end(b, end_dnn, dnn)) {
        bench_enter(race, BENCH_PEER, "oneDNN")->absent = "not installed";
        return PLUMB_OK;
    }
    one_thread();
    status = enter(b, race, dnn, product, F32, why);
    return status == PLUMB_OK ? enter(b, race, dnn, product, BF16, why) : status;
}
