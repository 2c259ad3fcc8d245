/* The sweep: each scenario is repeated with its first, second, third, … allocation failing, until it passes. Whatever
 * fails is TENON_ENOMEM, leaves its output alone, takes nothing, and leaks nothing. */
#include "support.h"

/* One step of a scenario: fails as the rule says, or succeeds. Returns from the scenario on failure. */
#define STEP(out, call)                                                                                                \
    do {                                                                                                               \
        void *before = *(void **)(out);                                                                                \
        tenon_error step_error = {0};                                                                                  \
        tenon_error *err = &step_error;                                                                                \
        tenon_status step_status = (call);                                                                             \
        if (step_status) {                                                                                             \
            assert_int_equal(step_status, TENON_ENOMEM);                                                               \
            assert_non_null(strstr(step_error.message, "no memory"));                                                  \
            assert_ptr_equal(*(void **)(out), before);                                                                 \
            goto done;                                                                                                 \
        }                                                                                                              \
    } while (0)

static bool from_blob(void)
{
    owner o = {0};
    tenon_tensor *t = NULL;
    STEP(&t, owner_tensor(&o, 0, &t, err));
done:
    assert_int_equal(o.released, 0); /* still the caller's, or still alive */
    tenon_tensor_release(t);
    assert_int_equal(o.released, t ? 1 : 0);
    return t;
}

static bool from_view(void)
{
    owner o = {0};
    tenon_tensor *t = NULL, *again = NULL;
    STEP(&t, owner_tensor(&o, 0, &t, err));
    STEP(&again, tenon_tensor_from_view(tenon_tensor_view(t), &o, owner_release, &again, err));
done:
    assert_int_equal(o.released, 0);
    tenon_tensor_release(t);
    tenon_tensor_release(again);
    assert_int_equal(o.released, again ? 2 : t ? 1 : 0);
    return again;
}

static bool alloc(void)
{
    int64_t shape[] = {5, 7};
    tenon_tensor *t = NULL;
    STEP(&t, tenon_tensor_alloc(TENON_F64, 2, shape, TENON_ZEROED, &t, err));
done:
    tenon_tensor_release(t);
    return t;
}

#ifdef __linux__
static bool shared(void)
{
    int64_t shape[] = {5, 7};
    tenon_tensor *t = NULL, *other = NULL;
    int fd = -1;
    STEP(&t, tenon_shared_zeros(TENON_F64, 2, shape, &t, err));
    assert_int_equal(tenon_shared_fd(t, &fd, NULL), TENON_OK);
    STEP(&other, tenon_shared_attach(fd, &other, err));
done:
    tenon_tensor_release(t);
    tenon_tensor_release(other);
    return other;
}
#endif

static bool import_versioned(void)
{
    producer p;
    producer_init(&p);
    tenon_tensor *t = NULL;
    STEP(&t, tenon_tensor_import(&p.managed, &t, err));
done:
    assert_int_equal(p.deleted, 0);
    tenon_tensor_release(t);
    assert_int_equal(p.deleted, t ? 1 : 0);
    return t;
}

static bool import_legacy(void)
{
    producer p;
    producer_init(&p);
    tenon_tensor *t = NULL;
    STEP(&t, tenon_tensor_import_legacy(&p.legacy, &t, err));
done:
    assert_int_equal(p.deleted, 0);
    tenon_tensor_release(t);
    assert_int_equal(p.deleted, t ? 1 : 0);
    return t;
}

static bool out_and_in(void)
{
    owner o = {0};
    tenon_tensor *t = NULL, *back = NULL, *part = NULL;
    tenon_dl_managed *managed = NULL;
    tenon_dl_managed_legacy *legacy = NULL;
    STEP(&t, owner_tensor(&o, 0, &t, err));
    STEP(&managed, tenon_tensor_export(t, &managed, err));
    managed->flags = TENON_READ_ONLY; /* changed, so that the import needs a wrapper */
    STEP(&back, tenon_tensor_import(managed, &back, err));
    managed = NULL;
    STEP(&part, tenon_tensor_select(t, 0, 0, &part, err));
    STEP(&legacy, tenon_tensor_export_legacy(part, &legacy, err));
done:
    if (managed)
        managed->deleter(managed);
    if (legacy)
        legacy->deleter(legacy);
    tenon_tensor_release(t);
    tenon_tensor_release(part);
    assert_int_equal(o.released, t && !back ? 1 : 0);
    tenon_tensor_release(back);
    assert_int_equal(o.released, t ? 1 : 0);
    return legacy;
}

static bool views(void)
{
    owner o = {0};
    const int32_t axes[] = {2, 0, 1};
    const int64_t shape[] = {6, 4}, wide[] = {5, 2, 3, 4}, strides[] = {1, 1};
    tenon_tensor *made[16] = {NULL}, *copy = NULL;
    size_t n = 0;
    tenon_tensor **t = made;
    STEP(&made[n], owner_tensor(&o, 0, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_slice(*t, 0, 0, 1, 1, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_select(*t, 0, 1, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_permute(*t, axes, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_transpose(*t, 0, 1, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_reshape(*t, 2, shape, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_flatten(*t, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_squeeze(*t, TENON_OMIT, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_expand_dims(*t, 0, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_broadcast_to(*t, 4, wide, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_as_strided(*t, 2, shape, strides, 3, &made[n], err));
    n++;
    STEP(&made[n], tenon_tensor_view_as(*t, TENON_C64, &made[n], err) == TENON_EDTYPE
                       ? tenon_tensor_view_as(*t, TENON_I32, &made[n], err)
                       : TENON_EINVAL);
    n++;
    STEP(&copy, tenon_tensor_contiguous(made[3], &copy, err));
done:
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(o.released, 0);
        tenon_tensor_release(made[i]); /* the owner's own tensor first */
    }
    assert_int_equal(o.released, n ? 1 : 0);
    tenon_tensor_release(copy);
    return copy;
}

static bool complex_parts(void)
{
    float data[8] = {0};
    int64_t shape[] = {4};
    tenon_blob blob = {.data = data, .dtype = TENON_C64, .ndim = 1, .shape = shape};
    tenon_tensor *t = NULL, *real = NULL, *imag = NULL;
    STEP(&t, tenon_tensor_from_blob(&blob, &t, err));
    STEP(&real, tenon_tensor_real(t, &real, err));
    STEP(&imag, tenon_tensor_imag(t, &imag, err));
done:
    tenon_tensor_release(t);
    tenon_tensor_release(real);
    tenon_tensor_release(imag);
    return imag;
}

static tenon_status give_data(tenon_call *call)
{
    static const int64_t shape[] = {24};
    owner *o = call->state;
    return call->host->result_memory(call, 0, o->data, 1, shape, NULL, o, owner_release);
}

static tenon_status run_function(tenon_frame *f)
{
    return f->call.function->call(&f->call);
}

/* Memory that a function gives goes to a tensor; if that cannot be made, the end of the frame releases it. */
static bool given_memory(void)
{
    static const tenon_function entries[] = {{.signature = "class Tree"}, {.signature = "Tree.f(self) -> f32[?] own"}};
    static const tenon_module module = {.function_size = sizeof(tenon_function), .nfunctions = 2, .functions = entries};
    static const tenon_client client = {.run = run_function, .takes_memory = true};
    static const tenon_host host = {TENON_HOST_SERVICES, .name = "test"};
    static const tenon_function function = {.call = give_data};
    owner o = {0};
    tenon_tensor *t = NULL;
    tenon_signature *s = NULL;
    tenon_frame f;
    tenon_call constant;
    tenon_value self = {.kind = TENON_KIND_HANDLE}, result;
    bool given = false;
    STEP(&s, tenon_signature_alloc(entries[1].signature, &module, TENON_HOST_LAYOUT, &s, err));
    tenon_call_init(&constant, &host, &function, &o, s);
    f.args = &self;
    f.results = &result;
    tenon_frame_begin(&f, &client, &constant, s);
    tenon_frame_begin_result(&f, 0);
    assert_int_equal(tenon_frame_match(&f), 0);
    assert_int_equal(tenon_frame_run(&f, &client), 0);
    given = true;
    STEP(&t, tenon_frame_take_memory(&f, 0, NULL, NULL, &t, err));
done:
    if (given)
        tenon_frame_end(&f);
    assert_int_equal(o.released, given && !t);
    tenon_tensor_release(t);
    assert_int_equal(o.released, given);
    tenon_signature_release(s);
    return t;
}

static void sweep(void **state)
{
    static bool (*const scenarios[])(void) = {
#ifdef __linux__
        shared,
#endif
        from_blob, from_view, alloc, import_versioned, import_legacy, out_and_in, views, complex_parts, given_memory};
    (void)state;
    for (size_t i = 0; i < COUNT(scenarios); i++) {
        counting c;
        int64_t failing = 0;
        bool passed = false;
        while (!passed) {
            counting_use(&c);
            c.fail_at = ++failing;
            passed = scenarios[i]();
            assert_true(passed || c.made >= failing);
            assert_int_equal(tenon_stats_read().tensors, 0);
            assert_int_equal(tenon_stats_read().exports, 0);
            assert_int_equal(tenon_stats_read().bytes, 0);
            counting_end(&c);
        }
        assert_true(failing > 1);              /* something was refused, */
        assert_int_equal(failing, c.made + 1); /* and each allocation in its turn */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(sweep, nothing_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
