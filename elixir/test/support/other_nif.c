/* A NIF that knows of Tenon only the one header, and DLPack's struct: takes tensors from Tenon, and gives some. */
#include <erl_nif.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenon/nif.h>

/* As in dlpack.h. */
typedef struct {
    uint32_t major, minor;
    void *context;
    void (*deleter)(void *self);
    uint64_t flags;
    void *data;
    int32_t device_type, device_id, ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} managed_tensor;

static atomic_int deleted, deleted_on_scheduler, signals_open;
static atomic_bool gate_is_closed;
static ErlNifResourceType *source_type, *held_type;

/* ---------------------------------------------------------------------------------------------------------- giving */

typedef struct {
    int count, sleep_ms, kind; /* a negative time: until the gate is open */
} source;

/* The last two refuse to give anything. */
enum { GOOD, BAD_VERSION, BAD_SHAPE, LANES, NOTHING, BUSY, READ_ONLY, NO_DELETER, MISALIGNED, BAD_DTYPE };
enum { REFUSES = BAD_DTYPE + 1, NO_MEMORY };

typedef struct {
    managed_tensor managed;
    int64_t shape[1];
    int sleep_ms;
    float data[];
} block;

static void sleep_for(int milliseconds)
{
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void delete_block(void *self)
{
    block *block = ((managed_tensor *)self)->context;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    signals_open +=
        !sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGCHLD) || !sigismember(&blocked, SIGINT);
    deleted_on_scheduler += enif_thread_type() != ERL_NIF_THR_UNDEFINED;
    if (block->sleep_ms >= 0)
        sleep_for(block->sleep_ms);
    else
        while (gate_is_closed)
            sleep_for(1);
    deleted++;
    free(block);
}

static void answer(ErlNifEnv *env, void *object, void *data)
{
    (void)env;
    source *source = object;
    tenon_nif_request *request = data;
    if (source->kind == NOTHING)
        return;
    if (source->kind == BUSY || source->kind == REFUSES || source->kind == NO_MEMORY) {
        request->status = source->kind == BUSY      ? TENON_NIF_E_BUSY
                          : source->kind == REFUSES ? TENON_NIF_E_READONLY
                                                    : TENON_NIF_E_MEMORY;
        return;
    }
    block *block = calloc(1, sizeof *block + ((size_t)source->count + 1) * sizeof(float));
    managed_tensor *managed = &block->managed;
    block->sleep_ms = source->sleep_ms;
    block->shape[0] = source->kind == BAD_SHAPE ? -1 : source->count;
    for (int i = 0; i < source->count; i++)
        block->data[i] = (float)i;
    managed->major = source->kind == BAD_VERSION ? 9 : 1;
    managed->context = block;
    managed->deleter = source->kind == NO_DELETER ? NULL : delete_block;
    managed->flags = source->kind == READ_ONLY;
    managed->data = block->data;
    managed->device_type = 1;
    managed->ndim = 1;
    managed->byte_offset = source->kind == MISALIGNED;
    managed->dtype.code = source->kind == BAD_DTYPE ? 77 : 2;
    managed->dtype.bits = 32;
    managed->dtype.lanes = source->kind == LANES ? 2 : 1;
    managed->shape = block->shape;
    request->managed = managed;
    request->status = TENON_NIF_OK;
}

static ERL_NIF_TERM make(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    source *source = enif_alloc_resource(source_type, sizeof *source);
    enif_get_int(env, argv[0], &source->count);
    enif_get_int(env, argv[1], &source->sleep_ms);
    enif_get_int(env, argv[2], &source->kind);
    ERL_NIF_TERM term = enif_make_resource(env, source);
    enif_release_resource(source);
    return term;
}

static ERL_NIF_TERM close_gate(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    gate_is_closed = true;
    return enif_make_atom(env, "ok");
}

static ERL_NIF_TERM open_gate(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    gate_is_closed = false;
    return enif_make_atom(env, "ok");
}

static ERL_NIF_TERM counts(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    (void)argv;
    return enif_make_tuple3(env, enif_make_int(env, deleted), enif_make_int(env, deleted_on_scheduler),
                            enif_make_int(env, signals_open));
}

/* ---------------------------------------------------------------------------------------------------------- taking */

static void held_destroy(ErlNifEnv *env, void *object)
{
    (void)env;
    managed_tensor *managed = *(managed_tensor **)object;
    if (managed)
        managed->deleter(managed);
}

/* ref, write -> {:ok, held} | {:error, status} */
static ERL_NIF_TERM hold(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    tenon_nif_request request = TENON_NIF_REQUEST;
    int flags = 0;
    enif_get_int(env, argv[1], &flags);
    request.flags = (uint32_t)flags;
    if (enif_dynamic_resource_call(env, enif_make_atom(env, TENON_NIF_MODULE), enif_make_atom(env, TENON_NIF_TYPE),
                                   argv[0], &request) ||
        request.status)
        return enif_make_tuple2(env, enif_make_atom(env, "error"), enif_make_int(env, request.status));
    managed_tensor **held = enif_alloc_resource(held_type, sizeof *held);
    *held = request.managed;
    ERL_NIF_TERM term = enif_make_resource(env, held);
    enif_release_resource(held);
    return enif_make_tuple2(env, enif_make_atom(env, "ok"), term);
}

static managed_tensor **get_held(ErlNifEnv *env, ERL_NIF_TERM term)
{
    void *object;
    return enif_get_resource(env, term, held_type, &object) ? object : NULL;
}

static ERL_NIF_TERM drop(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    managed_tensor **held = get_held(env, argv[0]);
    held_destroy(env, held);
    *held = NULL;
    return enif_make_atom(env, "ok");
}

static ERL_NIF_TERM sum(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    managed_tensor *managed = *get_held(env, argv[0]);
    double total = 0;
    for (int64_t i = 0; i < managed->shape[0]; i++)
        total += ((float *)managed->data)[i * managed->strides[0]];
    return enif_make_tuple2(env, enif_make_double(env, total), enif_make_uint64(env, managed->flags));
}

static ERL_NIF_TERM fill(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    managed_tensor *managed = *get_held(env, argv[0]);
    double value;
    enif_get_double(env, argv[1], &value);
    for (int64_t i = 0; i < managed->shape[0]; i++)
        ((float *)managed->data)[i * managed->strides[0]] = (float)value;
    return enif_make_atom(env, "ok");
}

static int load(ErlNifEnv *env, void **private_data, ERL_NIF_TERM info)
{
    (void)private_data;
    (void)info;
    ErlNifResourceTypeInit source_init = {.dyncall = answer, .members = 4}, held_init = {held_destroy, .members = 1};
    source_type = enif_init_resource_type(env, "source", &source_init, ERL_NIF_RT_CREATE, NULL);
    held_type = enif_init_resource_type(env, "held", &held_init, ERL_NIF_RT_CREATE, NULL);
    return !source_type || !held_type;
}

static ErlNifFunc functions[] = {{"make", 3, make, 0},
                                 {"close_gate", 0, close_gate, 0},
                                 {"open_gate", 0, open_gate, 0},
                                 {"counts", 0, counts, 0},
                                 {"hold", 2, hold, 0},
                                 {"drop", 1, drop, 0},
                                 {"sum", 1, sum, 0},
                                 {"fill", 2, fill, 0}};

ERL_NIF_INIT(Elixir.Tenon.OtherNif, functions, load, NULL, NULL, NULL)
