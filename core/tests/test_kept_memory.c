/* Services of a host: names, kept arguments, and results in the function's own memory. */
#include "driver.h"

/* ------------------------------------------------------------------------------------------------------------- runs */

static tenon_status (*tested)(tenon_call *running);
static int done_calls;

static tenon_status count_and_test(tenon_call *running)
{
    done_calls++;
    return tested(running);
}

/* Call `body` with f32[n] for each tensor argument, all of `memory`. */
static int run_with(host_frame *f, const char *text, int64_t n, tenon_status (*body)(tenon_call *))
{
    begin(f, text);
    const tenon_signature *s = f->base.signature;
    for (int32_t i = 0; i < s->nparams; i++) {
        if (s->params[i].kind == TENON_KIND_HANDLE)
            f->args[i] = (tenon_value){.kind = TENON_KIND_HANDLE, .as.handle = {memory, s->params[i].handle}};
        else if (!tenon_frame_set_missing(&f->base, i, !(s->params[i].flags & TENON_PARAMETER_DEFAULT), false))
            take(f, i, n, cpu());
    }
    if (tenon_frame_match(&f->base) || tenon_frame_make_results(&f->base, &client))
        return -1;
    code = count_and_test;
    tested = body;
    return tenon_frame_run(&f->base, &client);
}

static void fails_saying(const char *text, tenon_status (*body)(tenon_call *), tenon_status status, const char *message)
{
    host_frame f;
    assert_int_equal(run_with(&f, text, 5, body), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, status, message);
    end(&f);
}

static int released; /* by count_release */

static void count_release(void *owner)
{
    assert_ptr_equal(owner, &released);
    released++;
}

static tenon_status give(tenon_call *running, int index, void *data, int64_t n)
{
    return tenon_result_own(running, index, data, 1, &n, NULL, &released, count_release);
}

static tenon_status show(tenon_call *running, int index, void *data, int64_t n)
{
    return tenon_result_of(running, index, data, 1, &n, NULL);
}

/* ------------------------------------------------------------------------------------------------------------ names */

static tenon_status find_all(tenon_call *running)
{
    assert_int_equal(tenon_index(running, "self"), 0);
    assert_int_equal(tenon_index(running, "x"), 1);
    assert_int_equal(tenon_index(running, "y"), 2);
    assert_int_equal(tenon_result_index(running, "b"), 1);
    assert_int_equal(tenon_dim_named(running, "n"), 5);
    assert_true(tenon_dtype_equal(tenon_type_named(running, "T"), TENON_F32));
    assert_int_equal(running->host->find(running, TENON_NAME_ARG, "xy", 1), 1); /* a length, not a 0 */
    assert_int_equal(running->host->find(running, 9, "x", 1), -1);
    assert_int_equal(running->host->find(running, TENON_NAME_ARG, NULL, 0), -1);
    return TENON_OK;
}

static tenon_status find_no_argument(tenon_call *running)
{
    assert_int_equal(tenon_index(running, "m"), -1);
    assert_null(tenon_arg(running, -1));
    assert_int_equal(tenon_dim_named(running, "n"), 0); /* the call has failed */
    return TENON_OK;
}

static tenon_status find_no_result(tenon_call *running)
{
    assert_int_equal(tenon_result_index(running, "x"), -1);
    return TENON_OK;
}

static tenon_status find_no_dim(tenon_call *running)
{
    assert_int_equal(tenon_dim_named(running, "x"), 0);
    return TENON_OK;
}

static tenon_status find_no_type(tenon_call *running)
{
    assert_int_equal(tenon_type_named(running, "n").bits, 0);
    return TENON_OK;
}

static tenon_status find_null(tenon_call *running)
{
    assert_int_equal(tenon_index(running, NULL), -1);
    return TENON_OK;
}

static void test_names(void **state)
{
    (void)state;
    host_frame f;
    const char *text = "KDTree.f(self, x: T[n], y: f32[n]) -> a: f32[n], b: f32[n] where T = f32|f64";
    assert_int_equal(run_with(&f, text, 5, find_all), 0);
    end(&f);
    fails_saying(text, find_no_argument, TENON_EFAILED,
                 "its code calls tenon_index() for 'm', but its signature has no such argument");
    fails_saying(text, find_no_result, TENON_EFAILED,
                 "its code calls tenon_result_index() for 'x', but its signature has no such result");
    fails_saying(text, find_no_dim, TENON_EFAILED,
                 "its code calls tenon_dim_named() for 'x', but its signature has no such dimension");
    fails_saying(text, find_no_type, TENON_EFAILED,
                 "its code calls tenon_type_named() for 'n', but its signature has no such dtype variable");
    fails_saying(text, find_null, TENON_EFAILED,
                 "its code calls tenon_index() for '(null)', but its signature has no such argument");
}

/* ------------------------------------------------------------------------------------------------------------- keep */

static tenon_kept *kept[4];

static tenon_status keep_twice(tenon_call *running)
{
    kept[0] = tenon_arg_keep(running, 0);
    kept[1] = tenon_arg_keep(running, 0);
    assert_null(tenon_arg_keep(running, 2)); /* not given */
    return running->flags & TENON_CALL_FAILED ? TENON_EFAILED : TENON_OK;
}

static tenon_status keep_another(tenon_call *running)
{
    assert_null(tenon_arg_keep(running, 1));
    assert_null(tenon_arg_keep(running, 0)); /* after the failure */
    return TENON_OK;
}

static tenon_status keep_the_number(tenon_call *running)
{
    assert_null(running->host->arg_keep(running, 1));
    return TENON_OK;
}

static tenon_status keep_too_many(tenon_call *running)
{
    for (int i = 0; i < 5; i++)
        kept[i < 4 ? i : 3] = tenon_arg_keep(running, 0);
    assert_null(kept[3]);
    return TENON_OK; /* the host's own error counts */
}

static void test_keep(void **state)
{
    (void)state;
    host_frame f;
    assert_int_equal(run_with(&f, "f(x: f32[n] keep, y: f32[n], z: f32[n]? keep)", 5, keep_twice), 0);
    const tenon_view *view = f.args[0].as.view;
    end(&f);
    assert_ptr_not_equal(kept[0], kept[1]); /* each is a share of its own */
    assert_ptr_equal(kept[0]->view, view);
    tenon_kept_release(kept[0]);
    assert_int_equal(shares[0].releases, 1);
    assert_int_equal(shares[1].releases, 0);
    tenon_kept_release(kept[1]);
    assert_int_equal(shares[1].releases, 1);
    tenon_kept_release(NULL);
    fails_saying("f(x: f32[n] keep, y: f32[n])", keep_another, TENON_EFAILED,
                 "its code keeps argument 'y', which is not 'keep' in its signature");
    assert_int_equal(nshares, 0);
    fails_saying("f(x: f32[n] keep, k: int = 3)", keep_the_number, TENON_EFAILED, "argument 1 is not a tensor");
    fails_saying("f(x: f32[n] keep)", keep_too_many, TENON_EFAILED, "it failed with TENON_EFAILED and gave no reason");
}

/* -------------------------------------------------------------------------------------------------------------- own */

static float given_memory[8];

static tenon_status give_one(tenon_call *running)
{
    tenon_status status = give(running, 0, given_memory, 3);
    assert_ptr_equal(tenon_result(running, 0)->data, given_memory);
    assert_int_equal(give(running, 0, given_memory, 3), TENON_EFAILED); /* only once */
    running->flags &= ~TENON_CALL_FAILED;
    return status;
}

static tenon_status give_transposed(tenon_call *running)
{
    return tenon_result_own(running, 0, given_memory, 2, DIMS(2, 3), DIMS(1, 2), &released, count_release);
}

static tenon_status give_and_fail(tenon_call *running)
{
    assert_int_equal(give(running, 0, given_memory, 3), TENON_OK);
    assert_int_equal(released, 0);
    return tenon_fail(running, TENON_EINVAL, "no");
}

/* The memory goes to the tensor, and its release runs once, with the last reference. */
static void test_own(void **state)
{
    (void)state;
    host_frame f;
    tenon_tensor *tensor = NULL;
    released = 0;
    assert_int_equal(run_with(&f, "f() -> f32[?] own", 5, give_one), 0);
    assert_int_equal(f.made, 0);
    OK(tenon_frame_take_memory(&f.base, 0, NULL, NULL, &tensor, &err));
    end(&f);
    assert_int_equal(released, 0);
    assert_ptr_equal(tenon_tensor_view(tensor)->data, given_memory);
    assert_dims(tenon_tensor_view(tensor), 1, DIMS(3), DIMS(1));
    assert_false(tenon_tensor_view(tensor)->flags & TENON_READ_ONLY);
    tenon_tensor_release(tensor);
    assert_int_equal(released, 1);

    assert_int_equal(run_with(&f, "f() -> f32[?, ?] own", 5, give_transposed), 0);
    OK(tenon_frame_take_memory(&f.base, 0, NULL, NULL, &tensor, &err));
    end(&f);
    assert_dims(tenon_tensor_view(tensor), 2, DIMS(2, 3), DIMS(1, 2));
    tenon_tensor_release(tensor);
    assert_int_equal(released, 2);
}

/* Memory is taken once, and only from a result that the function has set. */
static void test_memory_that_cannot_be_taken(void **state)
{
    (void)state;
    host_frame f;
    tenon_tensor *tensor = NULL, *second = NULL;
    released = 0;
    assert_int_equal(run_with(&f, "f() -> f32[?] own", 5, give_one), 0);
    OK(tenon_frame_take_memory(&f.base, 0, NULL, NULL, &tensor, &err));
    FAILS_SAYING(TENON_EINVAL, "f(): result 0 is not memory that the function has given, or was already taken",
                 tenon_frame_take_memory(&f.base, 0, NULL, NULL, &second, &err));
    assert_null(second);
    end(&f);
    tenon_tensor_release(tensor);
    assert_int_equal(released, 1);

    begin(&f, "f() -> f32[?] own, f32[3]");
    assert_int_equal(tenon_frame_match(&f.base), 0);
    assert_int_equal(tenon_frame_make_results(&f.base, &client), 0);
    for (int32_t i = 0; i < 2; i++) /* not set; of the host */
        FAILS(TENON_EINVAL, tenon_frame_take_memory(&f.base, i, NULL, NULL, &second, &err));
    assert_null(second);
    end(&f);
}

/* If nobody takes the memory, the end of the frame releases it. */
static void test_own_is_released_if_the_call_fails(void **state)
{
    (void)state;
    host_frame f;
    released = 0;
    assert_int_equal(run_with(&f, "f() -> f32[?] own", 5, give_and_fail), -1);
    assert_int_equal(released, 0);
    end(&f);
    assert_int_equal(released, 1);
    assert_int_equal(run_with(&f, "f() -> f32[?] own", 5, give_one), 0); /* the host failed, say */
    end(&f);
    assert_int_equal(released, 2);
}

static tenon_status give_nothing(tenon_call *running)
{
    assert_int_equal(tenon_result_own(running, 0, given_memory, 1, DIMS(3), NULL, NULL, NULL), TENON_EFAILED);
    return TENON_OK;
}

static tenon_status give_by_show(tenon_call *running)
{
    assert_int_equal(show(running, 0, given_memory, 3), TENON_EFAILED);
    return TENON_OK;
}

static tenon_status give_negative(tenon_call *running)
{
    return give(running, 0, given_memory, -3);
}

static tenon_status give_too_many_dims(tenon_call *running)
{
    return tenon_result_own(running, 0, given_memory, 65, NULL, NULL, &released, count_release);
}

static tenon_status give_overflow(tenon_call *running)
{
    return give(running, 0, given_memory, INT64_MAX / 2);
}

static tenon_status give_far_strides(tenon_call *running)
{
    return tenon_result_own(running, 0, given_memory, 1, DIMS(3), DIMS(INT64_MAX / 2), &released, count_release);
}

static tenon_status give_null(tenon_call *running)
{
    return give(running, 0, NULL, 3);
}

static tenon_status give_four(tenon_call *running)
{
    return give(running, 0, given_memory, 4);
}

static tenon_status give_unaligned(tenon_call *running)
{
    return give(running, 0, (char *)given_memory + 1, 3);
}

static tenon_status give_both(tenon_call *running)
{
    assert_int_equal(give(running, 0, given_memory, 3), TENON_OK);
    return give(running, 1, given_memory + 2, 3);
}

static tenon_status give_over_result(tenon_call *running)
{
    return give(running, 1, memory, 3); /* where the host makes its results */
}

static tenon_status alloc_one(tenon_call *running)
{
    assert_null(tenon_result_alloc(running, 0, 1, DIMS(3)));
    return TENON_OK;
}

/* Whatever is refused stays the function's: its release does not run. */
static void test_mistakes_with_own(void **state)
{
    (void)state;
    released = 0;
    const char *one = "f() -> f32[?] own";
    fails_saying(one, give_nothing, TENON_EFAILED,
                 "its code calls tenon_result_own() for index 0 without a release function");
    fails_saying(one, give_by_show, TENON_EFAILED, "result 0 is 'own': tenon_result_own() needs a release function");
    fails_saying(one, give_negative, TENON_EFAILED, "result 0: expected f32[?], but the function gave shape [-3]");
    fails_saying(one, give_too_many_dims, TENON_EFAILED,
                 "result 0: expected f32[?], but the function gave 65 dimensions");
    fails_saying(one, give_overflow, TENON_EOVERFLOW, "the shape of result 0 is too large for any memory");
    fails_saying("f() -> z: f32[?] own", give_null, TENON_EFAILED, "result 'z': data is NULL, but f32[3] has elements");
    fails_saying("f(x: f32[n]) -> f32[n] own", give_four, TENON_EFAILED,
                 "result 0: expected f32[n], but the function gave shape [4]");
    fails_saying(one, give_unaligned, TENON_EFAILED,
                 "result 0: expected f32[?] own, but the memory is aligned to 1 bytes only");
    fails_saying("f() -> f32[?, ?] own c", give_transposed, TENON_EFAILED,
                 "result 0: expected f32[?, ?] own c, but the strides that the function gave are not in that order");
    fails_saying("f() -> f32[?] own cuda", give_four, TENON_EDEVICE,
                 "result 0: expected f32[?] own cuda, but the memory is on cpu");
    fails_saying("f() -> f32[2]", give_four, TENON_EFAILED, "result 0 is neither 'own' nor 'of(...)' in its signature");
    fails_saying(one, alloc_one, TENON_EFAILED,
                 "result 0 is 'own': its code must call tenon_result_own() instead of tenon_result_alloc()");
    fails_saying("f(x: f32[n]) -> f32[n], f32[?] own", give_over_result, TENON_EFAILED,
                 "result 0 and result 1 share memory");
    assert_int_equal(released, 0);
    fails_saying("f() -> f32[?] own, f32[?] own", give_both, TENON_EFAILED, "result 0 and result 1 share memory");
    assert_int_equal(released, 1); /* only the one that was taken */
    host_frame f;
    assert_int_equal(run_with(&f, one, 5, give_far_strides), -1);
    assert_int_equal(f.refused.status, TENON_EOVERFLOW);
    end(&f);
    assert_int_equal(released, 1);
    assert_int_equal(run_with(&f, "f() -> f32[?] own unaligned", 5, give_unaligned), 0);
    end(&f);
    assert_int_equal(released, 2);
}

/* --------------------------------------------------------------------------------------------------------------- of */

static tenon_status show_object(tenon_call *running)
{
    return show(running, 0, given_memory, 3);
}

static tenon_status show_part(tenon_call *running)
{
    return tenon_result_of(running, 0, memory + 4, 1, DIMS(3), DIMS(-2));
}

static tenon_status show_before(tenon_call *running)
{
    return tenon_result_of(running, 0, memory + 4, 1, DIMS(4), DIMS(-2));
}

static tenon_status show_after(tenon_call *running)
{
    return show(running, 0, memory + 3, 3);
}

static tenon_status show_elsewhere(tenon_call *running)
{
    return show(running, 0, given_memory, 3);
}

static tenon_status show_empty(tenon_call *running)
{
    return show(running, 0, NULL, 0);
}

static tenon_status show_by_give(tenon_call *running)
{
    return give(running, 0, memory, 3);
}

static tenon_status show_twice(tenon_call *running)
{
    tenon_status status = show(running, 0, memory, 3);
    return status ? status : show(running, 1, memory + 1, 3);
}

static void check_shown(const char *text, tenon_status (*body)(tenon_call *), bool read_only)
{
    host_frame f;
    tenon_tensor *tensor = NULL;
    released = 0;
    assert_int_equal(run_with(&f, text, 5, body), 0);
    OK(tenon_frame_take_memory(&f.base, 0, &released, count_release, &tensor, &err));
    end(&f);
    assert_int_equal((tenon_tensor_view(tensor)->flags & TENON_READ_ONLY) != 0, read_only);
    assert_int_equal(released, 0);
    tenon_tensor_release(tensor); /* the host's share of the owner */
    assert_int_equal(released, 1);
}

static void test_of(void **state)
{
    (void)state;
    check_shown("KDTree.f(self) -> f32[?] of(self)", show_object, true);
    check_shown("KDTree.f(self) -> f32[?] of(self) rw", show_object, false);
    check_shown("f(x: f32[n]) -> f32[?] of(x)", show_part, false);
    check_shown("f(x: f32[n]) -> f32[?] of(x)", show_empty, false);
    check_shown("f(x: f32[n]) -> f32[?] of(x), f32[?] of(x)", show_twice, false);
    fails_saying("f(x: f32[n]) -> f32[?] of(x)", show_before, TENON_EFAILED,
                 "result 0 is not inside the memory of argument 'x'");
    fails_saying("f(x: f32[n]) -> f32[?] of(x)", show_after, TENON_EFAILED,
                 "result 0 is not inside the memory of argument 'x'");
    fails_saying("f(x: f32[n]) -> f32[?] of(x)", show_elsewhere, TENON_EFAILED,
                 "result 0 is not inside the memory of argument 'x'");
    fails_saying("f(x: f32[n]) -> f32[?] of(x)", show_by_give, TENON_EFAILED,
                 "result 0 is 'of(...)': its code must call tenon_result_of()");
    fails_saying("f(x: f32[n]? = None) -> f32[?] of(x)", show_part, TENON_EFAILED,
                 "result 0 is memory of argument 'x', which was not passed");
    fails_saying("f(x: f32[n]) -> f32[n] of(x)", alloc_one, TENON_EFAILED,
                 "result 0 is 'of(...)': its code must call tenon_result_of() instead of tenon_result_alloc()");
}

/* A view of x allows what the caller's x allows. */
static void test_of_is_read_only_if_its_owner_is(void **state)
{
    (void)state;
    host_frame f;
    roomy_view room;
    begin(&f, "f(x: f32[n]) -> f32[?] of(x)");
    int64_t shape[] = {5};
    tenon_view *view =
        (tenon_view *)(uintptr_t)view_on(&room, TENON_CPU, memory, TENON_F32, 1, shape, NULL, TENON_READ_ONLY);
    tenon_frame_set_view(&f.base, 0, view);
    assert_int_equal(tenon_frame_match(&f.base), 0);
    code = show_part;
    assert_int_equal(tenon_frame_run(&f.base, &client), 0);
    assert_true(f.results[0].as.view->flags & TENON_READ_ONLY);
    end(&f);
}

/* ------------------------------------------------------------------------------------------------- hosts without it */

static const tenon_client bare_client = {.refuse = refuse,
                                         .describe = describe,
                                         .make_result = make_result,
                                         .open_result = make_result,
                                         .take_handle = take_handle,
                                         .run = run};

static void fails_on_bare(const char *text, tenon_status (*body)(tenon_call *), const char *message)
{
    host_frame f;
    begin(&f, text);
    f.base.client = &bare_client;
    if (f.base.signature->nparams)
        take(&f, 0, 5, cpu());
    assert_int_equal(tenon_frame_match(&f.base), 0);
    code = body;
    assert_int_equal(tenon_frame_run(&f.base, &bare_client), -1);
    refused(&f, TENON_REFUSED_BY_CODE, -1, TENON_EFAILED, message);
    end(&f);
}

static tenon_status keep_first(tenon_call *running)
{
    return tenon_arg_keep(running, 0) ? TENON_OK : TENON_EFAILED;
}

static void test_a_client_without_the_services(void **state)
{
    (void)state;
    fails_on_bare("f(x: f32[n] keep)", keep_first, "this host (test) cannot keep arguments");
    fails_on_bare("f() -> f32[?] own", give_four, "this host (test) cannot take results that are 'own' or 'of(...)'");
    fails_on_bare("f(x: f32[n]) -> f32[?] of(x)", show_part,
                  "this host (test) cannot take results that are 'own' or 'of(...)'");
}

/* A host that has none of the slots, as the public functions of host.h allow. */
static const tenon_host empty = {.size = sizeof(tenon_host), .name = "empty", .fail = tenon_frame_host_fail};

static tenon_status use_slots(tenon_call *running)
{
    const tenon_host *real = running->host;
    running->host = &empty;
    assert_int_equal(tenon_index(running, "x"), -1);
    assert_null(tenon_arg_keep(running, 0));
    assert_int_equal(give(running, 0, given_memory, 3), TENON_EFAILED);
    running->host = real;
    return TENON_OK;
}

static tenon_status body_of_parts(void *context, int64_t begin_at, int64_t end_at)
{
    int64_t *seen = context;
    seen[0] += begin_at;
    seen[1] += end_at;
    return begin_at == 0 && end_at == 7 ? TENON_EINVAL : TENON_OK;
}

static tenon_status run_parts(tenon_call *running)
{
    int64_t seen[2] = {0, 0};
    const tenon_host *real = running->host;
    running->host = &empty;
    assert_int_equal(tenon_parallel_for(running, 10, 2, body_of_parts, seen), TENON_OK);
    assert_int_equal(seen[0], 0);
    assert_int_equal(seen[1], 10);
    assert_int_equal(tenon_parallel_for(running, 0, 1, body_of_parts, seen), TENON_OK);
    assert_int_equal(seen[1], 10);
    assert_int_equal(tenon_parallel_for(running, 7, 1, body_of_parts, seen), TENON_EINVAL);
    running->host = real;
    return TENON_OK;
}

static void test_hosts_without_slots(void **state)
{
    (void)state;
    fails_saying("f(x: f32[n] keep) -> f32[?] own", use_slots, TENON_EFAILED,
                 "this host (empty) has no access by name");
    host_frame f;
    assert_int_equal(run_with(&f, "f()", 5, run_parts), 0); /* in one part, on this thread */
    end(&f);
}

/* ---------------------------------------------------------------------------------------------------------- helpers */

static void test_objects_in_order(void **state)
{
    (void)state;
    char all[5];
    void *objects[] = {all + 3, all + 1, all + 3, all, all + 1, all + 4};
    assert_int_equal(tenon_frame_sort_objects(objects, 6), 4);
    assert_ptr_equal(objects[0], all);
    assert_ptr_equal(objects[1], all + 1);
    assert_ptr_equal(objects[2], all + 3);
    assert_ptr_equal(objects[3], all + 4);
    assert_int_equal(tenon_frame_sort_objects(objects, 0), 0);
    assert_int_equal(tenon_frame_sort_objects(objects, 1), 1);
}

/* A method is planned as a function is: self does not matter. */
static void test_methods_are_planned(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int plan;
    } all[] = {{"KDTree.f(self, x: f32[n] c, k: int = 1) -> f32[n]", TENON_PLAN_PLAIN},
               {"KDTree.f(self, x: f32[n] c, other: handle('KDTree'))", TENON_PLAN_WIDE},
               {"f(x: f32[n] c, other: handle('KDTree'))", TENON_PLAN_WIDE},
               {"f(x: f32[n] c, other: handle('Other'))", TENON_PLAN_NONE},
               {"KDTree.f(self, x: f32[n] c) -> f32[n] own", TENON_PLAN_WIDE}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tenon_signature *s = compiled_in_module(all[i].text);
        assert_int_equal(s->plan, all[i].plan);
        tenon_signature_release(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
                                       cmocka_unit_test(test_keep),
                                       cmocka_unit_test(test_own),
                                       cmocka_unit_test(test_memory_that_cannot_be_taken),
                                       cmocka_unit_test(test_own_is_released_if_the_call_fails),
                                       cmocka_unit_test(test_mistakes_with_own),
                                       cmocka_unit_test(test_of),
                                       cmocka_unit_test(test_of_is_read_only_if_its_owner_is),
                                       cmocka_unit_test(test_a_client_without_the_services),
                                       cmocka_unit_test(test_hosts_without_slots),
                                       cmocka_unit_test(test_objects_in_order),
                                       cmocka_unit_test(test_methods_are_planned),
                                       cmocka_unit_test(test_nothing_is_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
