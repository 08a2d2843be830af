/* python3 as a process beside us: NumPy with ml_dtypes, and PyTorch.
 *
 * It is told one line at a time what to do and answers with one; arrays follow a line as raw
 * bytes.  It takes the CPU time of all its threads, and is asked to have only one.
 */
#include "bench/peer.h"

#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char script[] =
    "import ctypes, importlib, os, sys, time\n"
    "for name in 'OMP', 'OPENBLAS', 'MKL': os.environ[name + '_NUM_THREADS'] = '1'\n"
    "inp, out = sys.stdin.buffer, sys.stdout.buffer\n"
    "jobs, results = {}, {}\n"
    "def module(name):\n"
    "    m = importlib.import_module(name)\n"
    "    if name == 'torch': m.set_num_threads(1)\n"
    "    return m\n"
    "def read(n):\n"
    "    return bytearray(inp.read(4 * int(n)))\n"
    "def has(name):\n"
    "    return module(name).__version__\n"
    "def cast_ml_dtypes(slot, name, n):\n"
    "    data, np = read(n), module('numpy')\n"
    "    x = np.frombuffer(data, '<f4')\n"
    "    y = np.empty(x.shape, getattr(module('ml_dtypes'), name))\n"
    "    jobs[slot] = lambda: np.copyto(y, x, casting='unsafe')\n"
    "    results[slot] = lambda: y.tobytes()\n"
    "def bytes_of(t):\n"
    "    return ctypes.string_at(t.data_ptr(), t.numel() * t.element_size())\n"
    "def cast_torch(slot, name, n):\n"
    "    data, torch = read(n), module('torch')\n"
    "    x = torch.frombuffer(data, dtype=torch.float32)\n"
    "    y = torch.empty(x.shape, dtype=getattr(torch, name))\n"
    "    jobs[slot] = lambda: y.copy_(x)\n"
    "    results[slot] = lambda: bytes_of(y)\n"
    "def matmul_torch(slot, name, n):\n"
    "    data, torch, n = [read(int(n) ** 2) for _ in 'ab'], module('torch'), int(n)\n"
    "    t = getattr(torch, name)\n"
    "    a, b = (torch.frombuffer(d, dtype=torch.float32).reshape(n, n).to(t) for d in "
    "data)\n"
    "    c = torch.empty((n, n), dtype=t)\n"
    "    jobs[slot] = lambda: torch.matmul(a, b.t(), out=c)\n"
    "    results[slot] = lambda: bytes_of(c.float())\n"
    "def go(slot, times):\n"
    "    job, start = jobs[slot], time.process_time()\n"
    "    for _ in range(int(times)): job()\n"
    "    return repr(time.process_time() - start)\n"
    "def get(slot):\n"
    "    out.write(b'ok\\n' + results[slot]())\n"
    "def drop():\n"
    "    jobs.clear(); results.clear()\n"
    "for line in iter(inp.readline, b''):\n"
    "    word = line.decode().split()\n"
    "    try:\n"
    "        answer = globals()[word[0]](*word[1:])\n"
    "        if word[0] != 'get': out.write(('ok %s\\n' % (answer or '')).encode())\n"
    "    except Exception:\n"
    "        out.write(b'no\\n')\n"
    "    out.flush()\n";

struct bench_python {
    pid_t process;
    FILE *in, *out; /* of python: we write to in and read from out */
    int slots;
};

/* --- the process ------------------------------------------------------------------------ */

static bool spawn(bench_python *python, int in, int out, int ours_in, int ours_out)
{
    extern char **environ;
    const char *const argv[] = {"python3", "-u", "-c", script, NULL};
    posix_spawn_file_actions_t actions;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0);
    posix_spawn_file_actions_addclose(&actions, ours_in);
    posix_spawn_file_actions_addclose(&actions, ours_out);
    const bool good = posix_spawnp(&python->process, argv[0], &actions, NULL,
                                   (char *const *)argv, environ) == 0;

    posix_spawn_file_actions_destroy(&actions);
    return good;
}

static void close_both(const int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

/* NULL where there is no python3. */
static bench_python *start(void)
{
    bench_python *python = calloc(1, sizeof *python);
    int to[2], from[2];

    if (python == NULL)
        return NULL;
    if (pipe(to) != 0) {
        free(python);
        return NULL;
    }
    if (pipe(from) != 0) {
        close_both(to);
        free(python);
        return NULL;
    }
    const bool good = spawn(python, to[0], from[1], to[1], from[0]);

    close(to[0]);
    close(from[1]);
    python->in = fdopen(to[1], "w");
    python->out = fdopen(from[0], "r");
    if (!good || python->in == NULL || python->out == NULL) {
        bench_python_stop(python);
        return NULL;
    }
    return python;
}

void bench_python_stop(bench_python *python)
{
    if (python == NULL)
        return;
    if (python->in != NULL)
        fclose(python->in); /* its loop ends */
    if (python->out != NULL)
        fclose(python->out);
    if (python->process > 0)
        waitpid(python->process, NULL, 0);
    free(python);
}

/* The answer to what was sent: true for "ok", whose text is then in answer. */
static bool answered(bench_python *python, char answer[64])
{
    char line[64];

    if (fflush(python->in) != 0 || fgets(line, sizeof line, python->out) == NULL ||
        strncmp(line, "ok", 2) != 0)
        return false;
    const char *text = line + 2 + (line[2] == ' ');

    plumb_print(answer, 64, "%.*s", (int)strcspn(text, "\n"), text);
    return true;
}

/* --- entries ----------------------------------------------------------------------------- */

typedef struct python_job {
    bench_python *python;
    int slot;
    void *result;
    size_t bytes;
    const void *want; /* a cast: exactly this */
    size_t each;
    const bench_peer_product *product; /* a product: near to its ours */
} python_job;

static double go(void *context, size_t times)
{
    const python_job *job = context;
    char answer[64];

    fprintf(job->python->in, "go %d %zu\n", job->slot, times);
    return answered(job->python, answer) ? strtod(answer, NULL) : 0;
}

static bool check(void *context, char complaint[BENCH_COMPLAINT])
{
    python_job *job = context;
    char answer[64];
    size_t at = 0;

    fprintf(job->python->in, "get %d\n", job->slot);
    if (!answered(job->python, answer) ||
        fread(job->result, 1, job->bytes, job->python->out) != job->bytes) {
        plumb_print(complaint, BENCH_COMPLAINT, "python3 gave no result");
        return false;
    }
    if (job->product != NULL)
        return bench_peer_product_near(job->product, complaint);
    if (memcmp(job->result, job->want, job->bytes) == 0)
        return true;
    while (((const char *)job->result)[at] == ((const char *)job->want)[at])
        at++;
    plumb_print(complaint, BENCH_COMPLAINT, "codes: element %zu differs from ours",
                at / job->each);
    return false;
}

/* The version of a package, or false where it cannot be imported. */
static bool importable(bench *b, const char *package, char version[64])
{
    if (b->python == NULL)
        b->python = start();
    if (b->python == NULL)
        return false;
    fprintf(b->python->in, "has %s\n", package);
    return answered(b->python, version);
}

/* A peer called TITLE, and its job; *made is NULL where the package is absent. */
static plumb_status enter(bench *b, bench_race *race, const char *package,
                          const char *title, size_t bytes, python_job **made,
                          plumb_error *why)
{
    bench_entry *entry = bench_enter(race, BENCH_PEER, package);
    char version[64];
    python_job *job;

    *made = NULL;
    if (!importable(b, package, version)) {
        entry->absent = "not installed";
        return PLUMB_OK;
    }
    job = bench_take(b, sizeof *job, why);
    if (job == NULL)
        return PLUMB_NO_MEMORY;
    job->result = bench_take(b, bytes, why);
    if (job->result == NULL)
        return PLUMB_NO_MEMORY;
    job->bytes = bytes;
    job->python = b->python;
    job->slot = b->python->slots++;
    plumb_print(entry->name, sizeof entry->name, "%s %.24s%s", package, version, title);
    entry->seconds = go;
    entry->check = check;
    entry->context = job;
    *made = job;
    return PLUMB_OK;
}

/* Sends x * scale behind the line that was just written. */
static bool send_scaled(bench_python *python, const float *x, size_t n, float scale)
{
    float piece[1024];

    for (size_t i = 0; i < n; i += 1024) {
        const size_t count = n - i < 1024 ? n - i : 1024;

        for (size_t k = 0; k < count; k++)
            piece[k] = x[i + k] * scale;
        fwrite(piece, sizeof *piece, count, python->in);
    }
    return !ferror(python->in);
}

static void forget_jobs(bench *b)
{
    char answer[64];

    if (b->python == NULL)
        return;
    fputs("drop\n", b->python->in);
    answered(b->python, answer);
}

plumb_status bench_enter_python_casts(bench *b, bench_race *race, const plumb_cast *how,
                                      const float *x, size_t n, const void *want,
                                      plumb_error *why)
{
    static const struct {
        plumb_format format;
        const char *package, *type;
    } peers[] = {{PLUMB_E4M3, "ml_dtypes", "float8_e4m3fn"},
                 {PLUMB_E5M2, "ml_dtypes", "float8_e5m2"},
                 {PLUMB_BF16, "ml_dtypes", "bfloat16"},
                 {PLUMB_E4M3, "torch", "float8_e4m3fn"},
                 {PLUMB_E5M2, "torch", "float8_e5m2"},
                 {PLUMB_BF16, "torch", "bfloat16"}};
    const size_t each = (size_t)plumb_format_get(how->format)->bytes;

    forget_jobs(b);
    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        char answer[64];
        python_job *job;

        if (peers[i].format != how->format)
            continue;
        const plumb_status status =
            enter(b, race, peers[i].package, " cast", n * each, &job, why);

        if (status != PLUMB_OK)
            return status;
        if (job == NULL)
            continue;
        job->want = want;
        job->each = each;
        fprintf(b->python->in, "cast_%s %d %s %zu\n", peers[i].package, job->slot,
                peers[i].type, n);
        if (!send_scaled(b->python, x, n, how->scale) || !answered(b->python, answer))
            race->entries[race->count - 1].absent = "does not know the format";
    }
    return PLUMB_OK;
}

/* PyTorch in one type. */
static plumb_status enter_torch(bench *b, bench_race *race,
                                const bench_peer_product *product, const char *type,
                                double result_unit, plumb_error *why)
{
    const size_t count = product->n * product->n;
    char title[32], answer[64];
    python_job *job;

    plumb_print(title, sizeof title, " %s", type);
    const plumb_status status =
        enter(b, race, "torch", title, count * sizeof(float), &job, why);

    if (status != PLUMB_OK || job == NULL)
        return status;
    bench_peer_product *mine = bench_take(b, sizeof *mine, why);

    if (mine == NULL)
        return PLUMB_NO_MEMORY;
    *mine = *product;
    mine->c = job->result;
    mine->result_unit = result_unit;
    job->product = mine;
    fprintf(b->python->in, "matmul_torch %d %s %zu\n", job->slot, type, product->n);
    if (!send_scaled(b->python, product->a, count, 1) ||
        !send_scaled(b->python, product->b, count, 1) || !answered(b->python, answer))
        race->entries[race->count - 1].absent = "does not multiply this type";
    return PLUMB_OK;
}

plumb_status bench_enter_python_products(bench *b, bench_race *race,
                                         const bench_peer_product *product,
                                         plumb_error *why)
{
    forget_jobs(b);
    const plumb_status status = enter_torch(b, race, product, "float32", 0, why);

    if (status != PLUMB_OK || race->entries[race->count - 1].absent != NULL)
        return status;
    return enter_torch(b, race, product, "bfloat16", 0x1p-8, why);
}
