/* One call: pin the arguments, match them, make the results, enter the objects, take the storages, run the function, and
 * give back. */
#include "library.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------- arguments */

/* {:raise, %ArgumentError{}} for a wrong option, as elsewhere in Elixir. The function that was called raises it. */
static bool raise_argument(tenon_nif_frame *f, const char *what, ERL_NIF_TERM key)
{
    ErlNifEnv *env = f->reader.env;
    const tenon_nif_atom_table *a = &tenon_nif_atoms;
    char name[256] = "", message[600];
    if (key && !enif_get_atom(env, key, name, sizeof name, ERL_NIF_LATIN1))
        snprintf(name, sizeof name, "?");
    tenon_nif_mend_utf8(name, strlen(name));
    snprintf(message, sizeof message, "%s(): %s%s", f->function->signature->name, what, name);
    ERL_NIF_TERM keys[] = {a->__struct__, a->__exception__, a->message};
    ERL_NIF_TERM values[] = {enif_make_atom(env, "Elixir.ArgumentError"), a->yes, tenon_nif_make_text(env, message)};
    ERL_NIF_TERM exception;
    enif_make_map_from_arrays(env, keys, values, 3, &exception);
    f->reader.error = enif_make_tuple2(env, enif_make_atom(env, "raise"), exception);
    return false;
}

/* The keyword list after the positional arguments. */
static bool take_options(tenon_nif_frame *f, ERL_NIF_TERM list)
{
    ErlNifEnv *env = f->reader.env;
    const tenon_signature *s = f->function->signature;
    ERL_NIF_TERM item;
    for (int32_t i = s->npositional; i < s->nparams; i++)
        f->given[i] = 0;
    for (int count = 0; enif_get_list_cell(env, list, &item, &list); count++) {
        const ERL_NIF_TERM *pair;
        int arity;
        if (count == TENON_MAX_PARAMETERS)
            return raise_argument(f, "expected at most 64 options", 0);
        if (!enif_get_tuple(env, item, &arity, &pair) || arity != 2 || !enif_is_atom(env, pair[0]))
            return raise_argument(f, "expected a keyword list as the last argument", 0);
        int32_t i = s->npositional;
        while (i < s->nparams && f->function->names[i] != pair[0])
            i++;
        if (i == s->nparams)
            return raise_argument(f, "unknown option :", pair[0]);
        if (!f->given[i]) /* of two the first one counts, as in Keyword.get */
            f->given[i] = pair[1];
    }
    if (!enif_is_empty_list(env, list))
        return raise_argument(f, "expected a keyword list as the last argument", 0);
    for (int32_t i = s->npositional; i < s->nparams; i++)
        if (!f->given[i] && !(s->params[i].flags & TENON_PARAMETER_DEFAULT))
            return raise_argument(f, "missing option :", f->function->names[i]);
    return true;
}

/* {binary, type, shape}, or with a fourth element {binary, type, shape, Nx.Tensor}: its bytes for the length of the
 * call. */
static bool view_binary(tenon_nif_frame *f, const tenon_parameter *param, const ERL_NIF_TERM *parts, tenon_view *view)
{
    tenon_nif_reader *r = &f->reader;
    const tenon_signature *s = f->function->signature;
    const char *name = param->name;
    ErlNifBinary bytes;
    tenon_dtype dtype;
    tenon_error err;
    int32_t ndim;
    int64_t shape[TENON_MAX_NDIM], numel;
    if (!enif_is_binary(r->env, parts[0])) {
        r->error = tenon_nif_wrong_kind(r->env, s, param, parts[0]);
        return false;
    }
    if (!tenon_nif_get_type(r->env, parts[1], &dtype)) {
        r->error = tenon_nif_bad_type(r->env, parts[1], s->name, name);
        return false;
    }
    if (!tenon_nif_get_dims(r->env, parts[2], &ndim, shape)) {
        r->error = tenon_nif_bad_dims(r->env, parts[2], s->name, name, "a shape");
        return false;
    }
    if (tenon_shape_numel(ndim, shape, &numel, NULL) == TENON_OK &&
        !tenon_nif_may_read(r, tenon_nif_bytes_of(numel, dtype)))
        return false;
    if (!tenon_nif_read_bytes(r, parts[0], &bytes))
        return false;
    int64_t *dims = tenon_block_alloc(&f->base.blocks, (size_t)ndim * 2 * sizeof *dims, 0);
    void *data = bytes.data;
    if (dims && (uintptr_t)data % tenon_dtype_alignment(dtype)) { /* part of a larger binary */
        data = tenon_block_alloc(&f->base.blocks, bytes.size, 64);
        if (data)
            memcpy(data, bytes.data, bytes.size);
    }
    static char nothing; /* an empty binary may have no address */
    tenon_dl_tensor source = {.data = bytes.size ? data : &nothing, .device = {TENON_CPU, 0}, .ndim = ndim};
    source.dtype = dtype;
    source.shape = shape;
    if (!dims || !data ? tenon_error_set(&err, TENON_ENOMEM, "no memory")
                       : tenon_view_init(view, &source, TENON_READ_ONLY, dims, &err)) {
        r->error = tenon_nif_core_error(r->env, &err, s->name, name);
        return false;
    }
    int64_t expected = tenon_view_nbytes(view);
    if (expected == (int64_t)bytes.size)
        return true;
    ERL_NIF_TERM reason = enif_make_tuple3(r->env, tenon_nif_atoms.size_mismatch, enif_make_int64(r->env, expected),
                                           enif_make_uint64(r->env, bytes.size));
    r->error = tenon_nif_error(r->env, reason, s->name, name,
                               "%s(): argument '%s': the shape takes %lld bytes, and the binary has %zu", s->name, name,
                               (long long)expected, bytes.size);
    return false;
}

/* Add a tensor's storage to those that the call takes, unless it is one of them. */
static void note_storage(tenon_nif_frame *f, tenon_nif_storage *storage, const char *name, bool written)
{
    int64_t i = 0;
    while (i < f->ntaken && f->storages[i].storage->state != storage->state)
        i++;
    if (i == f->ntaken)
        f->storages[f->ntaken++] = (tenon_nif_taken){storage, name, -1, written};
    f->storages[i].written |= written;
}

static bool is_nx(ErlNifEnv *env, ERL_NIF_TERM term)
{
    ERL_NIF_TERM module;
    return enif_get_map_value(env, term, tenon_nif_atoms.__struct__, &module) &&
           enif_is_identical(module, enif_make_atom(env, "Elixir.Nx.Tensor"));
}

/* A %Tenon.Tensor{}, pinned. */
static bool view_tensor(tenon_nif_frame *f, const tenon_parameter *param, ERL_NIF_TERM term, bool written,
                        tenon_view *view, tenon_nif_tensor **pinned)
{
    tenon_nif_reader *r = &f->reader;
    const tenon_signature *s = f->function->signature;
    *pinned = enif_is_map(r->env, term) ? tenon_nif_tensor_pin(r->env, term, s->name, param->name, &r->error) : NULL;
    if (!*pinned) {
        if (is_nx(r->env, term))
            r->error = enif_make_atom(r->env, "nx");
        else if (!tenon_nif_is_tensor(r->env, term))
            r->error = tenon_nif_wrong_kind(r->env, s, param, term);
        return false;
    }
    *view = *tenon_tensor_view((*pinned)->tensor);
    if (written && !tenon_nif_may_write((*pinned)->storage))
        view->flags |= TENON_READ_ONLY;
    return tenon_nif_may_read(r, (size_t)tenon_view_nbytes(view));
}

bool tenon_nif_view_argument(tenon_nif_frame *f, const tenon_parameter *param, ERL_NIF_TERM term, tenon_view *view,
                             tenon_nif_tensor **pinned)
{
    const ERL_NIF_TERM *parts;
    int arity;
    bool written = param->spec->flags & TENON_SPEC_WRITE;
    *pinned = NULL;
    if (enif_get_tuple(f->reader.env, term, &arity, &parts) && (arity == 3 || arity == 4))
        return view_binary(f, param, parts, view);
    return view_tensor(f, param, term, written, view, pinned);
}

static bool take_tensor(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM term)
{
    const tenon_parameter *param = &f->function->signature->params[index];
    tenon_nif_operand *o = &f->operands[f->noperands++]; /* even if it is not accepted: it may be pinned */
    bool taken = tenon_nif_view_argument(f, param, term, &o->view, &o->pinned);
    if (o->pinned)
        note_storage(f, o->pinned->storage, param->name, param->spec->flags & TENON_SPEC_WRITE);
    if (!taken)
        return false;
    tenon_frame_set_view(&f->base, index, &o->view);
    return tenon_device_on_host(o->view.device) || tenon_frame_join_device(&f->base, index, o->view.device) >= 0;
}

static bool take_object(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM term)
{
    tenon_nif_reader *r = &f->reader;
    tenon_value *value = &f->base.args[index];
    tenon_nif_handle *handle = tenon_nif_handle_find(r->env, f->function, index, term, &r->error);
    if (!handle)
        return false;
    value->kind = TENON_KIND_HANDLE;
    value->flags = 0;
    value->as.handle.object = tenon_nif_handle_object(handle);
    value->as.handle.type = f->base.signature->params[index].handle;
    if (index == 0)
        f->self = handle; /* if this is a method */
    f->objects[f->nobjects++] = handle;
    return true;
}

static bool take_arguments(tenon_nif_frame *f, const ERL_NIF_TERM *terms)
{
    const tenon_signature *s = f->function->signature;
    f->wrong = 0;
    for (int32_t i = 0; i < s->npositional; i++)
        f->given[i] = terms[i];
    if (s->nparams > s->npositional && !take_options(f, terms[s->npositional]))
        return false;
    for (int32_t i = 0; i < s->nparams; i++) {
        const tenon_parameter *param = &s->params[i];
        ERL_NIF_TERM term = f->given[i];
        bool done = true;
        bool is_nil = term == tenon_nif_atoms.nil; /* atoms are equal words; enif_is_identical compares whole terms */
        if (tenon_frame_set_missing(&f->base, i, term != 0, is_nil))
            continue;
        if (param->kind == TENON_KIND_TENSOR)
            done = take_tensor(f, i, term);
        else if (param->flags & TENON_PARAMETER_CLASS)
            done = take_object(f, i, term);
        else if (param->kind == TENON_KIND_TENSORS)
            done = tenon_nif_take_list(f, i, term);
        else
            done = tenon_nif_to_value(&f->reader, i, term, &f->base.args[i]);
        if (!done) {
            f->wrong = i;
            return false;
        }
    }
    return true;
}

const char *tenon_nif_phrase(tenon_nif_frame *f, ERL_NIF_TERM term)
{
    enum { LONGEST = 64 };
    char *phrase = tenon_block_alloc(&f->base.blocks, LONGEST, 0);
    if (phrase)
        tenon_nif_describe(f->reader.env, term, phrase, LONGEST);
    return phrase;
}

/* The client's `describe`. */
static const char *describe(tenon_frame *base, int32_t index)
{
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    return f->given[index] ? tenon_nif_phrase(f, f->given[index]) : NULL;
}

static ERL_NIF_TERM mismatch(const tenon_nif_frame *f, const tenon_error *err)
{
    ErlNifEnv *env = f->reader.env;
    const char *argument = f->base.bindings.argument;
    ERL_NIF_TERM reason = err->status == TENON_EREADONLY  ? tenon_nif_atoms.readonly
                          : err->status == TENON_EOVERLAP ? tenon_nif_atoms.overlap
                          : err->status == TENON_ENOMEM
                              ? tenon_nif_failed(env, err->status)
                              : enif_make_tuple2(env, tenon_nif_atoms.mismatch, tenon_nif_argument(env, argument));
    return tenon_nif_error(env, reason, f->function->signature->name, argument, "%s", err->message);
}

/* The client's `refuse`: the error is the result of the call. */
static void refuse(tenon_frame *base, tenon_refusal why, int32_t index, const tenon_error *err)
{
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    ErlNifEnv *env = f->reader.env;
    const tenon_signature *s = base->signature;
    if (why == TENON_REFUSED_ARGUMENT) {
        f->reader.error = mismatch(f, err);
    } else if (why == TENON_REFUSED_BY_CODE) {
        f->reader.error = tenon_nif_failure(env, s->name, err);
    } else if (why == TENON_REFUSED_DEVICE) {
        ERL_NIF_TERM reason =
            enif_make_tuple3(env, tenon_nif_atoms.device_mismatch, tenon_nif_make_device(env, base->call.device),
                             tenon_nif_make_device(env, s->params[index].items ? tenon_nif_list_device(f, index)
                                                                               : base->args[index].as.view->device));
        f->reader.error = tenon_nif_error(env, reason, s->name, s->params[index].name, "%s", err->message);
    } else {
        ERL_NIF_TERM reason = err->status == TENON_ENOMEM
                                  ? tenon_nif_failed(env, err->status)
                                  : enif_make_tuple2(env, tenon_nif_atoms.mismatch, enif_make_atom(env, "result"));
        f->reader.error = tenon_nif_error(env, reason, s->name, NULL, "%s", err->message);
    }
}

/* An argument could not be taken. If an earlier one does not match, that is the mistake. */
static void find_first_mistake(tenon_nif_frame *f)
{
    const tenon_nif_reader *r = &f->reader;
    if (!r->go_dirty && !enif_is_atom(r->env, r->error) && !enif_is_exception(r->env, r->error))
        tenon_frame_refuse_earlier(&f->base, f->wrong);
}

/* -------------------------------------------------------------------------------------------------------- results */

/* Before the function runs, the call may still move to a dirty scheduler. */
bool tenon_nif_may_make(tenon_nif_frame *f, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    tenon_error err;
    int64_t numel;
    if (!tenon_shape_numel(ndim, shape, &numel, &err))
        return tenon_nif_may_read(&f->reader, tenon_nif_bytes_of(numel, dtype));
    refuse(&f->base, TENON_REFUSED_RESULT, index, &err);
    return false;
}

/* The client's `make_result`. */
static int make_result(tenon_frame *base, int32_t index, tenon_dtype dtype, int32_t ndim, const int64_t *shape)
{
    if (!tenon_nif_may_make(tenon_nif_frame_of(base), index, dtype, ndim, shape))
        return -1;
    return tenon_nif_open_result(base, index, dtype, ndim, shape) ? tenon_frame_refuse_failure(base, TENON_EFAILED) : 0;
}

/* %Module.Class{ref: …}, or the reference of a handle that is not an object of a class. */
static ERL_NIF_TERM handle_term(const tenon_nif_frame *f, int32_t index)
{
    ErlNifEnv *env = f->reader.env;
    ERL_NIF_TERM reference = enif_make_resource(env, f->handles[index]), module = f->bound->structs[index], term;
    ERL_NIF_TERM keys[] = {tenon_nif_atoms.__struct__, tenon_nif_atoms.ref}, values[] = {module, reference};
    if (!module)
        return reference;
    enif_make_map_from_arrays(env, keys, values, 2, &term);
    return term;
}

/* False: f->reader.error is the result of the call. */
static bool result_term(tenon_nif_frame *f, int32_t index, ERL_NIF_TERM *out)
{
    ErlNifEnv *env = f->reader.env;
    if (f->made[index]) {
        f->returned_bytes += (uint64_t)tenon_view_nbytes(tenon_tensor_view(f->made[index]));
        *out = f->reader.error = tenon_nif_make_owned(env, f->made[index], f->function->signature->name);
        f->made[index] = NULL;
        return enif_is_map(env, *out);
    }
    if (f->handles[index]) {
        *out = handle_term(f, index);
        return true;
    }
    bool is_given = f->function->signature->results[index].flags & (TENON_PARAMETER_OWN | TENON_PARAMETER_OF);
    if (is_given && !(f->base.results[index].flags & TENON_VALUE_UNSET))
        return tenon_nif_library_result_term(f, index, out);
    if (f->function->signature->results[index].kind == TENON_KIND_TENSORS)
        return tenon_nif_list_term(f, index, out);
    int there = tenon_frame_has_result(&f->base, index);
    if (there >= 0)
        *out = there ? tenon_nif_from_value(env, f->function, index, &f->base.results[index]) : tenon_nif_atoms.nil;
    return there >= 0;
}

static ERL_NIF_TERM all_results(tenon_nif_frame *f)
{
    int32_t count = f->function->signature->nresults;
    ERL_NIF_TERM terms[TENON_MAX_RESULTS];
    for (int32_t i = 0; i < count; i++)
        if (!result_term(f, i, &terms[i]))
            return f->reader.error;
    if (count == 0)
        return tenon_nif_atoms.ok;
    ErlNifEnv *env = f->reader.env;
    return tenon_nif_ok(env, count == 1 ? terms[0] : enif_make_tuple_from_array(env, terms, (unsigned)count));
}

/* --------------------------------------------------------------------------------------------------------- the call */

/* All calls enter their objects in the same order, so that of two calls with the same objects one can always go on. False:
 * f->reader.error is :waiting, or says which object is closed. */
static bool enter_objects(tenon_nif_frame *f)
{
    f->nobjects = tenon_frame_sort_objects(f->objects, f->nobjects);
    for (; f->nentered < f->nobjects; f->nentered++) {
        tenon_nif_handle *handle = f->objects[f->nentered];
        tenon_nif_entry entry = tenon_nif_handle_enter(handle);
        if (entry != TENON_NIF_ENTERED) {
            f->reader.error = entry == TENON_NIF_OCCUPIED
                                  ? tenon_nif_atoms.waiting
                                  : tenon_nif_closed(f->reader.env, f->function, f->given, handle);
            return false;
        }
    }
    return true;
}

/* False: f->reader.error says which storage was not granted. */
static bool take_storages(tenon_nif_frame *f)
{
    if (f->lists && f->taken == f->storages && !tenon_nif_list_storages(f)) /* a conversion may have come here before */
        return false;
    for (; f->nheld < f->ntaken; f->nheld++) {
        const tenon_nif_taken *t = &f->taken[f->nheld];
        tenon_nif_access access = t->written ? tenon_nif_write_begin(t->storage) : tenon_nif_read_begin(t->storage);
        if (access != TENON_NIF_GRANTED) {
            tenon_nif_name name = tenon_nif_name_item(t->name, t->item);
            f->reader.error = tenon_nif_access_error(f->reader.env, access, f->function->signature->name, name.text);
            return false;
        }
    }
    return true;
}

/* The client's `convert`: the copy is made under the rules of a read. */
static int convert(tenon_frame *base, int32_t index, int64_t bytes)
{
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    (void)index;
    return tenon_nif_may_read(&f->reader, (uint64_t)bytes) && take_storages(f) ? 0 : -1;
}

static void give_back(tenon_nif_frame *f)
{
    for (int64_t i = 0; i < f->nheld; i++) {
        const tenon_nif_taken *t = &f->taken[i];
        if (t->written)
            tenon_nif_write_end(t->storage);
        else
            tenon_nif_read_end(t->storage);
    }
    for (int32_t i = 0; i < f->nentered; i++)
        tenon_nif_handle_leave(f->objects[i]);
    for (int32_t i = 0; i < f->noperands; i++)
        if (f->operands[i].pinned)
            tenon_nif_tensor_unpin(f->operands[i].pinned);
    for (int32_t i = 0; i < f->function->signature->nresults; i++) {
        tenon_tensor_release(f->made[i]);
        if (f->handles[i])
            enif_release_resource(f->handles[i]); /* a term may hold it */
    }
    if (f->lists)
        tenon_nif_release_lists(f);
    tenon_frame_end(&f->base);
}

static tenon_status run_code(tenon_frame *base)
{
    return base->call.function->call(&base->call);
}

/* The client's `warn`: Tenon.Library prints it. */
static int warn(tenon_frame *base, int32_t index, const char *message)
{
    (void)index;
    tenon_nif_frame *f = tenon_nif_frame_of(base);
    ErlNifEnv *env = f->reader.env;
    char text[1200];
    snprintf(text, sizeof text, "%s(): %s", base->signature->name, message);
    tenon_nif_mend_utf8(text, strlen(text));
    f->warnings =
        enif_make_list_cell(env, tenon_nif_make_text(env, text), f->warnings ? f->warnings : enif_make_list(env, 0));
    return 0;
}

/* A loop must not hold a scheduler that runs processes; on a dirty one it has the threads of OpenMP. */
static int thread_count(tenon_frame *base)
{
    int type = enif_thread_type();
    (void)base;
    return type == ERL_NIF_THR_DIRTY_CPU_SCHEDULER || type == ERL_NIF_THR_DIRTY_IO_SCHEDULER ? 0 : 1;
}

/* The client's `converted`, which a checked call reports as `warn` does. */
static int converted(tenon_frame *base, int32_t index, int64_t bytes)
{
    const tenon_parameter *param = &base->signature->params[index];
    char message[TENON_SPEC_TEXT + 160];
    if (!tenon_nif_is_checked())
        return 0;
    snprintf(message, sizeof message, "argument '%s' was converted to %s, a copy of %lld bytes", param->name,
             param->spec->text, (long long)bytes);
    return warn(base, index, message);
}

static const tenon_client call_client = {
    .refuse = refuse,
    .describe = describe,
    .make_result = make_result,
    .open_result = tenon_nif_open_result,
    .take_handle = tenon_nif_take_handle,
    .run = run_code,
    .keep_argument = tenon_nif_keep_argument,
    .takes_memory = true,
    .warn = warn,
    .convert = convert,
    .converted = converted,
    .format_dtype = tenon_nif_type_name,
    .describe_item = tenon_nif_describe_item,
    .make_item = tenon_nif_make_item,
    .open_item = tenon_nif_open_item,
    .thread_count = thread_count,
    .take_bytes = tenon_nif_take_bytes,
};

static int run(tenon_nif_frame *f)
{
    return tenon_nif_is_checked() ? tenon_frame_run_checked(&f->base, 0) : tenon_frame_run(&f->base, &call_client);
}

/* The result of the call; with reader.go_dirty it means nothing. */
static ERL_NIF_TERM call_in(tenon_nif_frame *f, const ERL_NIF_TERM *terms)
{
    if (!take_arguments(f, terms)) {
        find_first_mistake(f);
        return f->reader.error;
    }
    bool done = tenon_frame_match(&f->base) == 0 && tenon_frame_make_results(&f->base, &call_client) == 0 &&
                enter_objects(f) && take_storages(f) && run(f) == 0;
    return done ? all_results(f) : f->reader.error;
}

/* A normal scheduler wants to know how long it was held, by reading the arguments or by the function. Looking at the
 * clock takes as long as a small function: those that were fast are timed now and then only. */
static bool is_timed(const tenon_nif_frame *f)
{
    static _Thread_local uint8_t calls;
    return !f->dirty && (atomic_load_explicit(&f->bound->slow, memory_order_relaxed) || calls++ % 16 == 0);
}

static void report_time(tenon_nif_frame *f, ErlNifTime began)
{
    ErlNifTime micros = enif_monotonic_time(ERL_NIF_USEC) - began;
    if ((micros > 1) != atomic_load_explicit(&f->bound->slow, memory_order_relaxed))
        atomic_store_explicit(&f->bound->slow, micros > 1, memory_order_relaxed);
    tenon_nif_report(f->reader.env, (uint64_t)micros);
}

/* Whether an object is in another call, so that this one would only read its arguments in vain. Options are not looked
 * at: the call finds out. */
static bool must_wait(ErlNifEnv *env, const tenon_signature *s, const ERL_NIF_TERM *terms)
{
    for (int32_t i = 0; i < s->npositional; i++)
        if ((s->params[i].flags & TENON_PARAMETER_SERIAL) && tenon_nif_is_occupied(env, terms[i]))
            return true;
    return false;
}

/* In the key of a function: its arguments are not converted. Tenon.Library.Compiler sets it. */
#define EXACT_CALL (UINT64_C(1) << 56)

static ERL_NIF_TERM call_anywhere(ErlNifEnv *env, const ERL_NIF_TERM argv[], bool dirty, bool *go_dirty)
{
    const ERL_NIF_TERM *terms;
    ErlNifUInt64 key;
    int count;
    if (!enif_get_uint64(env, argv[1], &key) || !enif_get_tuple(env, argv[2], &count, &terms))
        return enif_make_badarg(env);
    tenon_nif_bound *bound = tenon_nif_lookup(argv[0], key & ~EXACT_CALL);
    if (!bound)
        return enif_make_atom(env, "unbound");
    const tenon_nif_function *function = bound->function;
    const tenon_signature *s = function->signature;
    if (count != s->npositional + (s->nparams > s->npositional))
        return enif_make_badarg(env);
    uint64_t flags = function->function.flags;
    bool must = bound->where == TENON_NIF_DIRTY || (bound->where == TENON_NIF_AUTO && (flags & TENON_RELEASE_LOCK));
    bool never = bound->where == TENON_NIF_NORMAL || (bound->where == TENON_NIF_AUTO && (flags & TENON_KEEP_LOCK));
    if (s->nserial && must_wait(env, s, terms))
        return tenon_nif_atoms.waiting;
    if (must && !dirty) {
        *go_dirty = true;
        return 0;
    }
    tenon_nif_frame f;
    f.base.args = f.args;
    f.base.results = f.results;
    tenon_frame_begin(&f.base, &call_client, &function->call, s);
    f.base.call.state = function->library->opened->state;
    f.base.call.flags = (dirty ? TENON_CALL_UNLOCKED : 0) | (key & EXACT_CALL ? TENON_FRAME_EXACT : 0);
    f.bound = bound;
    f.function = function;
    f.dirty = dirty;
    f.noperands = f.nobjects = f.nentered = 0;
    f.ntaken = f.nheld = 0;
    f.taken = f.storages;
    f.lists = NULL;
    f.warnings = 0;
    f.returned_bytes = 0;
    f.reader = (tenon_nif_reader){.env = env, .function = function, .blocks = &f.base.blocks};
    f.reader.unlimited = dirty || never;
    for (int32_t i = 0; i < s->nresults; i++) {
        tenon_frame_begin_result(&f.base, i);
        f.made[i] = NULL;
        f.handles[i] = NULL;
    }
    bool timed = is_timed(&f);
    ErlNifTime began = timed ? enif_monotonic_time(ERL_NIF_USEC) : 0;
    ERL_NIF_TERM result = call_in(&f, terms);
    give_back(&f);
    if (timed)
        report_time(&f, began);
    *go_dirty = f.reader.go_dirty;
    result = tenon_nif_charged(env, result, f.returned_bytes);
    return f.warnings ? enif_make_tuple3(env, enif_make_atom(env, "warn"), f.warnings, result) : result;
}

static ERL_NIF_TERM call_dirty(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    bool ignored = false;
    (void)argc;
    return call_anywhere(env, argv, true, &ignored);
}

TENON_NIF(call)
{
    bool go_dirty = false;
    ERL_NIF_TERM result = call_anywhere(env, argv, false, &go_dirty);
    return go_dirty ? tenon_nif_dirty(env, "call", call_dirty, argc, argv) : result;
}
