/* What the sources of the function host share: library.c opens libraries, values.c turns terms into
 * values, handle.c keeps objects, tensor_lists.c reads and makes lists of tensors, host_services.c and kept_memory.c serve the functions, call.c calls. */
#ifndef TENON_NIF_LIBRARY_H
#define TENON_NIF_LIBRARY_H

#include "nif.h"

typedef struct tenon_nif_library tenon_nif_library;

/* A function of a library, with what can be known before a call. */
typedef struct tenon_nif_function {
    const tenon_nif_library *library;
    tenon_function function;
    tenon_signature *signature;
    tenon_call call;        /* the part that is the same in all of its calls; the state is known later */
    ERL_NIF_TERM *names;    /* of the parameters, as atoms */
    ERL_NIF_TERM **choices; /* the atoms of each enum, of the parameters, then of the results; else NULL. An atom that
                               cannot be made is 0 */
} tenon_nif_function;

/* A library's code and its state. After an upgrade of the NIF its new copy goes on with those that the old one has
 * opened, so that state and handles stay: the layout is not to change. */
struct tenon_nif_opened {
    tenon_nif_opened *next;
    const tenon_module *module;
    void *state;           /* what `load` made */
    _Atomic int load_step; /* a tenon_nif_load_step */
};

/* `load` is called once. It may take long, so no thread waits for it. */
typedef enum tenon_nif_load_step { TENON_NIF_NOT_LOADED, TENON_NIF_LOADING, TENON_NIF_LOADED } tenon_nif_load_step;

/* An open library: never closed, and never changed once a module is bound to it. */
struct tenon_nif_library {
    tenon_nif_library *next;
    tenon_nif_opened *opened;
    int64_t nfunctions;
    tenon_nif_function *functions;
};

/* Where a function runs. */
typedef enum tenon_nif_where { TENON_NIF_AUTO, TENON_NIF_NORMAL, TENON_NIF_DIRTY } tenon_nif_where;

typedef struct tenon_nif_bound {
    const tenon_nif_function *function;
    tenon_nif_where where;
    _Atomic bool slow; /* the last call that was timed took long enough for the scheduler to know */
    ERL_NIF_TERM structs[TENON_MAX_RESULTS]; /* the module of each result that is an object of a class; otherwise 0 */
} tenon_nif_bound;

/* What a module has bound under a key, or NULL. Any thread, without a lock. */
tenon_nif_bound *tenon_nif_lookup(ERL_NIF_TERM module, uint64_t key);
/* The library that the module is bound to, or NULL. The same for every function of the module. */
const tenon_nif_library *tenon_nif_lookup_library(ERL_NIF_TERM module, uint64_t key);

/* ---------------------------------------------------------------------------------------------------------- values */

/* {:error, …}: "saxpy(): argument 'x': expected f32[n] c, got an integer". */
ERL_NIF_TERM tenon_nif_wrong_kind(ErlNifEnv *env, const tenon_signature *signature, const tenon_parameter *param,
                                  ERL_NIF_TERM term);

/* Reads the arguments. If they are too much for a normal scheduler, it sets go_dirty and stops. */
typedef struct tenon_nif_reader {
    ErlNifEnv *env;
    const tenon_nif_function *function;
    tenon_block **blocks;
    bool unlimited;
    size_t bytes; /* so far */
    bool go_dirty;
    ERL_NIF_TERM error; /* {:error, …} */
} tenon_nif_reader;

/* Whether the call may handle so many bytes more here and now. */
bool tenon_nif_may_read(tenon_nif_reader *reader, size_t bytes);

/* The bytes of a binary. False, with go_dirty, if the runtime would copy them first: their number is unknown. */
bool tenon_nif_read_bytes(tenon_nif_reader *reader, ERL_NIF_TERM binary, ErlNifBinary *bytes);

/* The length of a list that is an argument. Each element counts as `item_bytes`; no more of the list is read than this
 * scheduler may. False: reader->go_dirty, or reader->error: the term is not a list, or is improper. */
bool tenon_nif_list_length(tenon_nif_reader *reader, int32_t index, ERL_NIF_TERM term, size_t item_bytes,
                           unsigned *length);

/* The error that there is no memory for the arguments; false. */
bool tenon_nif_no_memory(tenon_nif_reader *reader);

/* The bytes of so many elements, for tenon_nif_may_read. If they are many, a number that it refuses. */
size_t tenon_nif_bytes_of(int64_t numel, tenon_dtype dtype);

/* Convert a term to a value of the parameter's kind, which is not a tensor. False: reader->go_dirty or reader->error. */
bool tenon_nif_to_value(tenon_nif_reader *reader, int32_t index, ERL_NIF_TERM term, tenon_value *value);

/* A number, a bool, a string, bytes, a dtype, or a list of numbers or strings as a term; nil for any other kind. */
ERL_NIF_TERM tenon_nif_make_value(ErlNifEnv *env, const tenon_value *value);
/* A result that is neither a tensor nor a handle, and that the driver has checked, as a term. */
ERL_NIF_TERM tenon_nif_from_value(ErlNifEnv *env, const tenon_nif_function *function, int32_t index,
                                  const tenon_value *value);

/* A binary with this string, which ends with 0; nil for NULL. */
ERL_NIF_TERM tenon_nif_make_text(ErlNifEnv *env, const char *text);
ERL_NIF_TERM tenon_nif_make_string(ErlNifEnv *env, const char *text, size_t length);

/* {name, role, class, parameters, results}; each parameter and result is a map: see Tenon.Signature. */
ERL_NIF_TERM tenon_nif_describe_signature(ErlNifEnv *env, const tenon_signature *signature);

/* --------------------------------------------------------------------------------------------------------- handles */

/* A resource: an object of a library's, and whether it is closed. The reaper destroys the object, once the resource is
 * gone or closed, no call runs, and no result of(self) is left. */
typedef struct tenon_nif_handle tenon_nif_handle;
/* The object. Its shares keep it alive. */
typedef struct tenon_nif_held tenon_nif_held;

/* Open the type, at load and at each upgrade. */
bool tenon_nif_handle_init(ErlNifEnv *env);
/* Takes `object` on success. `item` is the result of the signature. One count: enif_release_resource. NULL: no memory. */
tenon_nif_handle *tenon_nif_handle_new(const tenon_nif_library *library, const tenon_parameter *item, void *object,
                                       void (*destroy)(void *));
/* The handle of argument `index`, or NULL with *error if the term is not one of this library and type. */
tenon_nif_handle *tenon_nif_handle_find(ErlNifEnv *env, const tenon_nif_function *function, int32_t index,
                                        ERL_NIF_TERM term, ERL_NIF_TERM *error);
/* The object inside. An object of a class is valid between enter and leave only. */
void *tenon_nif_handle_object(const tenon_nif_handle *handle);

/* A call on an object of a class begins and ends. Neither waits: if the object is occupied, the call is tried again
 * later. Each TENON_NIF_ENTERED needs its leave. */
typedef enum tenon_nif_entry { TENON_NIF_ENTERED, TENON_NIF_OCCUPIED, TENON_NIF_CLOSED } tenon_nif_entry;
tenon_nif_entry tenon_nif_handle_enter(tenon_nif_handle *handle);
void tenon_nif_handle_leave(tenon_nif_handle *handle);
/* Whether the term is an object in a call, so that a call that needs it alone need not begin. */
bool tenon_nif_is_occupied(ErlNifEnv *env, ERL_NIF_TERM term);
/* {:error, :released} for a closed object, which is one of the arguments that were given. */
ERL_NIF_TERM tenon_nif_closed(ErlNifEnv *env, const tenon_nif_function *function, const ERL_NIF_TERM *given,
                              const tenon_nif_handle *handle);

/* Another share of the object, during a call. Release: tenon_nif_held_release, on any thread. */
tenon_nif_held *tenon_nif_handle_share(const tenon_nif_handle *handle);
void tenon_nif_held_release(void *share);
/* The state that all storages of the object's memory have in common. */
_Atomic uint64_t *tenon_nif_held_access(tenon_nif_held *held);

/* ------------------------------------------------------------------------------------------------------- the frame */

/* A tensor argument. */
typedef struct tenon_nif_operand {
    tenon_view view;
    tenon_nif_tensor *pinned; /* or NULL: a binary */
} tenon_nif_operand;

/* Each storage is taken once. */
typedef struct tenon_nif_taken {
    tenon_nif_storage *storage;
    const char *name; /* of the first argument on it, for messages */
    int64_t item;     /* of that argument, if it is a list; otherwise -1 */
    bool written;
} tenon_nif_taken;

/* "xs[3]", or "x" if the item is -1. */
typedef struct tenon_nif_name {
    char text[TENON_NAME_SIZE + 24];
} tenon_nif_name;
tenon_nif_name tenon_nif_name_item(const char *argument, int64_t item);

/* The state of one call, on the stack. It is not filled with zeros. */
typedef struct tenon_nif_frame {
    tenon_frame base;
    tenon_nif_bound *bound;
    const tenon_nif_function *function;
    tenon_nif_reader reader;
    uint64_t returned_bytes; /* of the tensors that the results have */
    bool dirty;
    int32_t noperands;
    int32_t wrong; /* the argument that could not be taken */
    int64_t ntaken;
    int64_t nheld;                /* of the taken ones, those that were granted */
    tenon_nif_taken *taken;       /* `storages`, or with those of lists: sorted, in a block */
    struct tenon_nif_list *lists; /* the lists of tensors, arguments and results; NULL: none */
    int32_t nobjects;
    int32_t nentered;      /* of the objects, those that the call has entered */
    ERL_NIF_TERM warnings; /* of a checked call, the last one first; 0: none */
    tenon_nif_handle *self;
    tenon_value args[TENON_MAX_PARAMETERS];
    tenon_value results[TENON_MAX_RESULTS];
    tenon_tensor *made[TENON_MAX_RESULTS];
    tenon_nif_handle *handles[TENON_MAX_RESULTS];
    tenon_view views[TENON_MAX_RESULTS];
    ERL_NIF_TERM given[TENON_MAX_PARAMETERS]; /* 0: left out */
    tenon_nif_operand operands[TENON_MAX_PARAMETERS];
    tenon_nif_taken storages[TENON_MAX_PARAMETERS];
    void *objects[TENON_MAX_PARAMETERS]; /* tenon_nif_handle: the arguments that are objects of classes */
} tenon_nif_frame;

static inline tenon_nif_frame *tenon_nif_frame_of(tenon_frame *base)
{
    return (tenon_nif_frame *)(void *)base; /* it is the first member */
}

/* The view of a tensor, an argument or an item of one, for which `param` has the name, the type and the spec. *pinned is
 * its tensor, or NULL; it is set even on failure. False: reader.go_dirty or reader.error. */
bool tenon_nif_view_argument(tenon_nif_frame *f, const tenon_parameter *param, ERL_NIF_TERM term, tenon_view *view,
                             tenon_nif_tensor **pinned);
/* Whether a result of this size may be made here and now. False: reader.go_dirty or reader.error. */
bool tenon_nif_may_make(tenon_nif_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
/* A phrase for a term in messages, which lives as long as the call; NULL if there is no memory. */
const char *tenon_nif_phrase(tenon_nif_frame *f, ERL_NIF_TERM term);

/* tensor_lists.c. Those that return false have set reader.go_dirty or reader.error. */
bool tenon_nif_take_list(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM term);
/* Merge the storages of the lists into f->taken. */
bool tenon_nif_list_storages(tenon_nif_frame *f);
/* The device of the item of argument `index` that was read last. */
tenon_device tenon_nif_list_device(const tenon_nif_frame *f, int32_t index);
bool tenon_nif_list_term(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM *out);
void tenon_nif_release_lists(tenon_nif_frame *f);
/* The client's functions. */
const char *tenon_nif_describe_item(tenon_frame *base, int32_t index, int64_t item);
int tenon_nif_make_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view);
int tenon_nif_open_item(tenon_frame *base, int32_t index, int64_t item, tenon_dtype dtype, int32_t ndim,
                        const int64_t *shape, tenon_view *view);

/* What the host does for a function while it runs, and the client's functions for that. */
extern const tenon_host tenon_nif_host;
int tenon_nif_open_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape);
/* The memory of a tensor result. False: the call has failed. */
bool tenon_nif_alloc_result(tenon_frame *base, tenon_dtype dtype, int32_t ndim, const int64_t *shape,
                            tenon_tensor **out);
int tenon_nif_take_handle(tenon_frame *base, int32_t index, void *object, void (*destroy)(void *));
int tenon_nif_take_bytes(tenon_frame *base, int32_t index, const void *data, size_t length);
/* Whether the environment has TENON_CHECK (see tenon_frame_check_wanted): calls run in the checked mode. */
bool tenon_nif_is_checked(void);
tenon_kept *tenon_nif_keep_argument(tenon_frame *base, int32_t index);
/* A result that is "own" or "of(...)", and set, as a term. False: f->reader.error is the result of the call. */
bool tenon_nif_library_result_term(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM *out);
/* Call a module's `load`, once. False: `err` says why. */
bool tenon_nif_call_load(tenon_nif_opened *code, tenon_error *err);

#endif
