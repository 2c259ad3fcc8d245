/* The grammar of classes, constructors, methods, keep, own and of. */
#include "class_module.h"

/* Expect a mistake at the '^' in `text`, which is not part of the signature. */
static void check_mistake(const char *text, const tenon_module *module, const char *message)
{
    char without[512], wanted[1024];
    size_t at = strcspn(text, "^");
    snprintf(without, sizeof without, "%.*s%s", (int)at, text, text[at] ? text + at + 1 : "");
    snprintf(wanted, sizeof wanted, "tenon_signature_alloc(): %s\n  %s\n  %*s^", message, without, (int)at, "");
    tenon_signature *signature = NULL;
    FAILS_SAYING(TENON_EPARSE, wanted, tenon_signature_alloc(without, module, TENON_HOST_LAYOUT, &signature, &err));
    assert_null(signature);
}

static void no(const char *text, const char *message)
{
    tenon_module module = class_module();
    check_mistake(text, &module, message);
}

/* ----------------------------------------------------------------------------------------------------------- roles */

static void test_roles(void **state)
{
    (void)state;
    static const struct {
        const char *text, *name, *class_name, *method;
        int32_t role;
    } all[] = {{"f(x: f32[n])", "f", NULL, NULL, TENON_ROLE_FUNCTION},
               {" class KDTree ", "KDTree", "KDTree", NULL, TENON_ROLE_CLASS},
               {"KDTree(points: f32[n, d] c keep, leaf: int = 16)", "KDTree", "KDTree", NULL, TENON_ROLE_CONSTRUCTOR},
               {"Free()", "Free", "Free", NULL, TENON_ROLE_CONSTRUCTOR},
               {"KDTree . query (self , x: f32[m])", "KDTree.query", "KDTree", "query", TENON_ROLE_METHOD},
               {"KDTree.clear(self)", "KDTree.clear", "KDTree", "clear", TENON_ROLE_METHOD},
               {"KDTree.clear(self,)", "KDTree.clear", "KDTree", "clear", TENON_ROLE_METHOD},
               {"KDTree.__len__(self) -> int", "KDTree.__len__", "KDTree", "__len__", TENON_ROLE_METHOD},
               {"KDTree.__repr__(self) -> str", "KDTree.__repr__", "KDTree", "__repr__", TENON_ROLE_METHOD},
               {"KDTree.__getitem__(self, i: int) -> f32[?] of(self)", "KDTree.__getitem__", "KDTree", "__getitem__",
                TENON_ROLE_METHOD},
               {"KDTree.make(n: int) -> handle('KDTree')", "KDTree.make", "KDTree", "make", TENON_ROLE_STATIC},
               {"KDTree.none()", "KDTree.none", "KDTree", "none", TENON_ROLE_STATIC},
               {"KDTree.make(*, selfish: int)", "KDTree.make", "KDTree", "make", TENON_ROLE_STATIC},
               {"KDTree.size : int", "KDTree.size", "KDTree", "size", TENON_ROLE_PROPERTY},
               {"KDTree.points: f32[?, 3] of(self)", "KDTree.points", "KDTree", "points", TENON_ROLE_PROPERTY},
               {"KDTree.LEAF = 16", "KDTree.LEAF", "KDTree", "LEAF", TENON_ROLE_CONSTANT},
               {"LEAF=16", "LEAF", NULL, NULL, TENON_ROLE_CONSTANT}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tenon_signature *s = compiled_in_module(all[i].text);
        assert_int_equal(s->role, all[i].role);
        assert_string_equal(s->name, all[i].name);
        assert_int_equal(s->has_self, s->role == TENON_ROLE_METHOD || s->role == TENON_ROLE_PROPERTY);
        assert_int_equal(s->constant != NULL, s->role == TENON_ROLE_CONSTANT);
        const char *found[] = {s->class_name, s->method};
        const char *wanted[] = {all[i].class_name, all[i].method};
        for (int k = 0; k < 2; k++) {
            assert_int_equal(found[k] == NULL, wanted[k] == NULL);
            if (found[k])
                assert_string_equal(found[k], wanted[k]);
        }
        tenon_signature_release(s);
    }
}

static void check_object(const tenon_parameter *item, const char *name, uint32_t flags)
{
    assert_int_equal(item->kind, TENON_KIND_HANDLE);
    assert_string_equal(item->handle, name);
    assert_int_equal(item->flags, flags);
    assert_int_equal(item->owner, -1);
    assert_null(item->spec);
}

static void test_objects(void **state)
{
    (void)state;
    const uint32_t serial = TENON_PARAMETER_CLASS | TENON_PARAMETER_SERIAL;
    tenon_signature *s = compiled_in_module("KDTree(a: handle('KDTree'), b: handle('Free'), c: handle('Other'))");
    assert_int_equal(s->nparams, 3);
    assert_int_equal(s->nresults, 1);
    assert_false(s->named_results);
    check_object(&s->results[0], "KDTree", serial);
    assert_null(s->results[0].name);
    assert_string_equal(s->results[0].type, "handle('KDTree')");
    check_object(&s->params[0], "KDTree", serial);
    check_object(&s->params[1], "Free", TENON_PARAMETER_CLASS);
    check_object(&s->params[2], "Other", 0);
    assert_int_equal(s->nserial, 1);
    tenon_signature_release(s);

    s = compiled_in_module(
        "KDTree.join(self, other: handle('KDTree'), *, k: int = 1) -> handle('Free'), handle('Any')");
    assert_int_equal(s->nparams, 3);
    assert_int_equal(s->npositional, 2);
    assert_int_equal(s->nrequired, 2);
    check_object(&s->params[0], "KDTree", serial);
    assert_string_equal(s->params[0].name, "self");
    assert_string_equal(s->params[0].type, "handle('KDTree')");
    check_object(&s->results[0], "Free", TENON_PARAMETER_CLASS);
    check_object(&s->results[1], "Any", 0);
    assert_int_equal(s->nserial, 2);
    tenon_signature_release(s);

    s = compiled_in_module("Free.get(self) -> int");
    check_object(&s->params[0], "Free", TENON_PARAMETER_CLASS);
    assert_int_equal(s->nserial, 0);
    tenon_signature_release(s);

    /* Without a module there are no classes: a handle is only a handle. */
    OK(tenon_signature_alloc("g(a: handle('KDTree'))", NULL, TENON_HOST_LAYOUT, &s, &err));
    check_object(&s->params[0], "KDTree", 0);
    tenon_signature_release(s);
}

/* ------------------------------------------------------------------------------- static methods, properties, constants */

static void test_static_methods(void **state)
{
    (void)state;
    tenon_signature *s = compiled_in_module("KDTree.make(n: int, x: f32[n] c) -> handle('KDTree')");
    assert_int_equal(s->nparams, 2);
    assert_int_equal(s->nserial, 0);
    check_object(&s->results[0], "KDTree", TENON_PARAMETER_CLASS | TENON_PARAMETER_SERIAL);
    tenon_signature_release(s);
    s = compiled_in_module("KDTree.sum(x: f32[n] c) -> float");
    assert_int_equal(s->plan, TENON_PLAN_PLAIN);
    tenon_signature_release(s);
}

static void test_properties(void **state)
{
    (void)state;
    tenon_signature *s = compiled_in_module("KDTree.name: str?");
    assert_int_equal(s->nparams, 1);
    assert_int_equal(s->nrequired, 1);
    assert_int_equal(s->nserial, 1);
    assert_string_equal(s->params[0].name, "self");
    check_object(&s->params[0], "KDTree", TENON_PARAMETER_CLASS | TENON_PARAMETER_SERIAL);
    assert_int_equal(s->nresults, 1);
    assert_int_equal(s->results[0].kind, TENON_KIND_STR);
    assert_int_equal(s->results[0].flags, TENON_PARAMETER_OPTIONAL);
    tenon_signature_release(s);
    s = compiled_in_module("Free.points: f32[?, 3] of(self) rw");
    assert_int_equal(s->nserial, 0);
    assert_int_equal(s->results[0].flags, TENON_PARAMETER_OPEN | TENON_PARAMETER_OF);
    assert_int_equal(s->results[0].owner, 0);
    assert_true(s->open_results);
    tenon_signature_release(s);
}

static void test_constants(void **state)
{
    (void)state;
    static const struct {
        const char *text, *type, *literal;
        uint32_t kind;
    } all[] = {{"KDTree.LEAF = 16", "int", "16", TENON_KIND_INT},
               {"LEAF = -9223372036854775808", "int", "-9223372036854775808", TENON_KIND_INT},
               {"KDTree.EPS = 1e-5", "float", "1e-5", TENON_KIND_FLOAT},
               {"HALF = .5 ", "float", ".5", TENON_KIND_FLOAT},
               {"KDTree.NAME = 'tree'", "str", "'tree'", TENON_KIND_STR},
               {"FAST = True", "bool", "True", TENON_KIND_BOOL}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tenon_signature *s = compiled_in_module(all[i].text);
        assert_int_equal(s->nparams, 0);
        assert_int_equal(s->nresults, 0);
        assert_int_equal(s->constant->kind, all[i].kind);
        assert_int_equal(s->constant->value.kind, all[i].kind);
        assert_int_equal(s->constant->flags, 0);
        assert_string_equal(s->constant->type, all[i].type);
        assert_string_equal(s->constant->literal, all[i].literal);
        assert_string_equal(s->constant->name, s->method ? s->method : s->name);
        tenon_signature_release(s);
    }
    tenon_signature *s = compiled_in_module("A = 'tree'");
    assert_int_equal(s->constant->value.as.list.length, 4);
    assert_memory_equal(s->constant->value.as.list.data, "tree", 5);
    tenon_signature_release(s);
    s = compiled_in_module("A = -2.5");
    assert_true(s->constant->value.as.number == -2.5);
    tenon_signature_release(s);
    /* A library without classes has constants, too. */
    OK(tenon_signature_alloc("A = 3", NULL, TENON_HOST_LAYOUT, &s, &err));
    assert_int_equal(s->constant->value.as.integer, 3);
    tenon_signature_release(s);
}

/* ---------------------------------------------------------------------------------------------------------- memory */

static void test_memory(void **state)
{
    (void)state;
    tenon_signature *s = compiled_in_module("KDTree.f(self, x: f32[n, d] c keep, y: T[n]? keep) -> a: f32[n] own, "
                                            "b: f32[?, 3] c of(self) rw, c: u8[n] of(x), d: f32[n], e: T[?]? own c "
                                            "where T = f32|f64");
    assert_int_equal(s->params[1].flags, TENON_PARAMETER_KEEP);
    assert_true(s->params[2].flags & TENON_PARAMETER_KEEP);
    assert_string_equal(s->params[1].type, "f32[n, d] c keep");
    static const uint32_t flags[] = {TENON_PARAMETER_OPEN | TENON_PARAMETER_OWN,
                                     TENON_PARAMETER_OPEN | TENON_PARAMETER_OF,
                                     TENON_PARAMETER_OPEN | TENON_PARAMETER_OF, 0,
                                     TENON_PARAMETER_OPEN | TENON_PARAMETER_OWN | TENON_PARAMETER_OPTIONAL};
    static const int32_t owners[] = {-1, 0, 1, -1, -1};
    for (int32_t i = 0; i < 5; i++) {
        assert_int_equal(s->results[i].flags, flags[i]);
        assert_int_equal(s->results[i].owner, owners[i]);
    }
    assert_int_equal(s->results[0].spec->flags, 0);
    assert_int_equal(s->results[1].spec->flags, TENON_SPEC_WRITE | TENON_SPEC_C);
    assert_true(s->open_results);
    assert_int_equal(s->names.ndims, 2);
    /* There is no `out` for memory that the function gives. */
    tenon_bindings bindings;
    tenon_bindings_reset(&bindings, &s->names);
    roomy_view room;
    float data[3];
    tenon_value none[3] = {{.kind = TENON_KIND_NONE}, {.kind = TENON_KIND_NONE}, {.kind = TENON_KIND_NONE}};
    FAILS_SAYING(TENON_EINVAL, "KDTree.f(): argument 'out': result 0 is in memory that the function gives",
                 tenon_signature_match_out(s, 0, view_of(&room, data, TENON_F32, 1, DIMS(3), NULL), none,
                                           tenon_device_of(TENON_CPU, 0), &bindings, &err));
    tenon_signature_release(s);
}

/* The words of the grammar are legal names. */
static void test_words_stay_names(void **state)
{
    (void)state;
    static const char *const texts[] = {"f(own: f32[keep], keep: f32[own], of: int, self: f32[n]) -> f32[keep]",
                                        "self(self: int) -> own: int, of: int, keep: int",
                                        "uint(uint: int, bytes: int, strs: str, dtype: str, convert: bool)",
                                        "own(complex: f32[uint, bytes], x: f32[complex])",
                                        "keep(x: bool|u8[self])",
                                        "of(x: f32[n] c, y: f32[n] rw inplace(x)) -> keep: f32[n] alias",
                                        "f(x: handle('class')) -> handle('self')",
                                        "f(x: f32[close]) -> close: f32[close]"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tenon_signature *all[2] = {NULL};
        OK(tenon_signature_alloc(texts[i], NULL, TENON_HOST_LAYOUT, &all[0], &err));
        all[1] = compiled_in_module(texts[i]);
        for (int k = 1; k >= 0; k--) {
            assert_int_equal(all[k]->role, TENON_ROLE_FUNCTION);
            assert_int_equal(all[k]->nparams, all[0]->nparams);
            for (int32_t j = 0; j < all[0]->nparams; j++) {
                assert_int_equal(all[k]->params[j].kind, all[0]->params[j].kind);
                assert_int_equal(all[k]->params[j].flags, all[0]->params[j].flags);
                assert_string_equal(all[k]->params[j].type, all[0]->params[j].type);
            }
            tenon_signature_release(all[k]);
        }
    }
    /* A function with the name of another module's class is a function. */
    tenon_signature *s = NULL;
    OK(tenon_signature_alloc("KDTree() -> f32[3]", NULL, TENON_HOST_LAYOUT, &s, &err));
    assert_int_equal(s->role, TENON_ROLE_FUNCTION);
    tenon_signature_release(s);
}

/* -------------------------------------------------------------------------------------------------------- mistakes */

static void test_a_spec_has_no_lifetime(void **state)
{
    (void)state;
    tenon_names names = {0};
    tenon_spec spec;
    FAILS(TENON_EPARSE, tenon_spec_parse("f32[n] keep", &names, &spec, &err));
    assert_non_null(strstr(err.message, "unknown attribute 'keep'"));
}

static void test_mistakes_in_heads(void **state)
{
    (void)state;
    no("class ^", "expected the name of a class");
    no("class KDTree^(x: int)", "expected the end of the signature");
    no("class ^1", "expected the name of a class");
    no("class ^None", "'None' is a reserved word");
    no("^Tree.query(self)", "unknown class 'Tree'; add TENON_CLASS(\"Tree\", ...) to the module");
    no("KDTree.^(self)", "expected the name of a method");
    no("KDTree.^class(self)", "'class' is a reserved word");
    no("KDTree.^__init__(self)",
       "of the names that start with '__' a method can be __call__, __contains__, __eq__, __getitem__, __getstate__, "
       "__hash__, __iter__, __len__, __next__, __repr__ or __setitem__");
    no("^__len__(self)", "function names that start with '__' are reserved for the runtime");
    no("KDTree.^close(self)", "every object has 'close' already; give the method another name");
    no("KDTree.^closed(self)", "every object has 'closed' already; give the method another name");
    no("KDTree.^__enter__(self)", "every object has '__enter__' already; give the method another name");
    no("KDTree.a^.b(self)", "expected '(' after the name of a function");
    no("KDTree.query(x: int, ^self)", "self is the first parameter of a method, which is written Name.method(self)");
    no("KDTree.query(self^: int)", "self has no type: it is the object");
    no("KDTree.query(self ^x: int)", "expected ')' or ',' after self");
    no("KDTree.query(self, ^self: int)", "duplicate name 'self'");
    no("f(^self)", "self is the first parameter of a method, which is written Name.method(self)");
    no("KDTree(^self, x: int)", "self is the first parameter of a method, which is written Name.method(self)");
    no("KDTree(x: int) -> ^f32[3]", "a constructor is written without '->': its result is the object");
    no("^KDTree.__len__(self) -> f32[1]", "expected KDTree.__len__(self) -> int");
    no("^KDTree.__len__(self) -> int?", "expected KDTree.__len__(self) -> int");
    no("^KDTree.__len__(self, k: int = 1) -> int", "expected KDTree.__len__(self) -> int");
    no("^KDTree.__repr__(self) -> str, str", "expected KDTree.__repr__(self) -> str");
    no("^KDTree.__getitem__(self) -> int", "expected KDTree.__getitem__(self, i: int), with one result");
    no("^KDTree.__getitem__(self, i: float) -> int", "expected KDTree.__getitem__(self, i: int), with one result");
    no("^KDTree.__getitem__(self, i: int = 0) -> int", "expected KDTree.__getitem__(self, i: int), with one result");
    no("^KDTree.__getitem__(self, i: int)", "expected KDTree.__getitem__(self, i: int), with one result");
}

static void test_mistakes_in_special_methods(void **state)
{
    (void)state;
    no("^KDTree.__len__() -> int", "expected KDTree.__len__(self) -> int");
    no("^KDTree.__hash__(x: int) -> int", "expected KDTree.__hash__(self) -> int");
    no("^KDTree.__hash__(self) -> float", "expected KDTree.__hash__(self) -> int");
    no("^KDTree.__call__(x: int) -> int", "expected KDTree.__call__(self, ...)");
    no("^KDTree.__contains__(self, x: int)", "expected KDTree.__contains__(self, x: ...) -> bool");
    no("^KDTree.__contains__(self, x: int = 1) -> bool", "expected KDTree.__contains__(self, x: ...) -> bool");
    no("^KDTree.__eq__(self, other: handle('Free')) -> bool",
       "expected KDTree.__eq__(self, other: handle('KDTree')) -> bool");
    no("^KDTree.__eq__(self, other: int) -> bool", "expected KDTree.__eq__(self, other: handle('KDTree')) -> bool");
    no("^KDTree.__eq__(self, other: handle('KDTree')) -> bool?",
       "expected KDTree.__eq__(self, other: handle('KDTree')) -> bool");
    no("^KDTree.__setitem__(self, i: int)", "expected KDTree.__setitem__(self, i: int, value: ...), without results");
    no("^KDTree.__setitem__(self, i: float, value: int)",
       "expected KDTree.__setitem__(self, i: int, value: ...), without results");
    no("^KDTree.__next__(self)", "expected KDTree.__next__(self), with one result");
    no("^KDTree.__iter__(self) -> handle('Free')",
       "expected KDTree.__iter__(self) with one result, an object of a class that has __next__(self)");
    no("^KDTree.__iter__(self) -> int",
       "expected KDTree.__iter__(self) with one result, an object of a class that has __next__(self)");
    no("KDTree.^__len__: int", "'__len__' is a method; write '__len__(self'");
    no("KDTree.^__len__ = 3", "'__len__' is a method; write '__len__(self'");
}

static void test_special_methods(void **state)
{
    (void)state;
    static const tenon_function entries[] = {ENTRY("class Bag"), ENTRY("class BagIterator"),
                                             ENTRY("BagIterator . __next__ (self) -> int"), ENTRY("f()")};
    tenon_module module = module_of(entries, sizeof entries / sizeof *entries);
    static const char *const texts[] = {"Bag.__call__(self, x: f32[n] c, *, k: int = 1) -> f32[n]",
                                        "Bag.__call__(self)",
                                        "Bag.__contains__(self, x: f32[n]) -> bool",
                                        "Bag.__eq__(self, other: handle('Bag')) -> bool",
                                        "Bag.__hash__(self) -> int",
                                        "Bag.__setitem__(self, i: int, value: f32[3])",
                                        "Bag.__iter__(self) -> handle('BagIterator')",
                                        "BagIterator.__next__(self) -> f32[?] of(self)",
                                        "Bag.load(x: int)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tenon_signature *s = NULL;
        OK(tenon_signature_alloc(texts[i], &module, TENON_HOST_LAYOUT, &s, &err));
        tenon_signature_release(s);
    }
    static const tenon_function pickled[] = {ENTRY("class Bag"), ENTRY("Bag.__getstate__(self) -> bytes"),
                                             ENTRY("Bag.load(state: bytes) -> handle('Bag')")};
    tenon_module other = module_of(pickled, sizeof pickled / sizeof *pickled);
    for (size_t i = 1; i < 3; i++) {
        tenon_signature *s = NULL;
        OK(tenon_signature_alloc(pickled[i].signature, &other, TENON_HOST_LAYOUT, &s, &err));
        tenon_signature_release(s);
    }
    check_mistake("^Bag.load(state: str) -> handle('Bag')", &other,
                  "expected Bag.load(state: bytes) -> handle('Bag'), because the class has __getstate__");
    check_mistake("^Bag.__getstate__(self) -> str", &other,
                  "expected Bag.__getstate__(self) -> bytes, and a static method Bag.load(state: bytes)");
    check_mistake("^Bag.__getstate__(self) -> bytes", &module,
                  "expected Bag.__getstate__(self) -> bytes, and a static method Bag.load(state: bytes)");
    check_mistake("^Bag.__iter__(self) -> handle('Bag')", &module,
                  "expected Bag.__iter__(self) with one result, an object of a class that has __next__(self)");
}

static void test_mistakes_in_properties_and_constants(void **state)
{
    (void)state;
    no("KDTree.^close: bool", "every object has 'close' already; give the method another name");
    no("KDTree.size: ^", "expected a type such as f32[n] or int");
    no("KDTree.size: n: ^int", "the result of a property has no name");
    no("KDTree.size: int^, int", "expected the end of the signature");
    no("KDTree.size: f32[^n]",
       "no argument determines 'n': it must be a whole dimension of an argument, or an int parameter");
    no("KDTree.size: f32[3] of(^x)", "of(x) does not name self or a tensor argument");
    no("size^: int", "expected '(' after the name of a function");
    no("KDTree.LEAF = ^", "the value of a constant is a number, a string, True or False");
    no("KDTree.LEAF = ^None", "the value of a constant is a number, a string, True or False");
    no("KDTree.LEAF = ^(1, 2)", "the value of a constant is a number, a string, True or False");
    no("KDTree.LEAF = ^16x", "expected an integer");
    no("KDTree.LEAF = ^'x", "unterminated string");
    no("KDTree.LEAF = 16 ^+ 1", "expected the end of the signature");
    no("LEAF = ^9223372036854775808", "this integer does not fit in 64 bits");
    no("^KDTree = 16", "'KDTree' is a class of the module");
    no("class ^= 16", "expected the name of a class");
    no("^Tree.LEAF = 16", "unknown class 'Tree'; add TENON_CLASS(\"Tree\", ...) to the module");
}

static void test_no_classes_without_a_module(void **state)
{
    (void)state;
    tenon_signature *s = NULL;
    FAILS(TENON_EPARSE, tenon_signature_alloc("KDTree.f(self)", NULL, TENON_HOST_LAYOUT, &s, &err));
    OK(tenon_signature_alloc("f(x: f32[n] keep)", NULL, TENON_HOST_LAYOUT, &s, &err));
    tenon_signature_release(s);
}

static void test_mistakes_in_memory(void **state)
{
    (void)state;
    no("f(x: f32[n] keep ^keep)", "duplicate attribute 'keep'");
    no("f(x: ^f32[n] keep rw)", "'keep' and 'rw' cannot be combined");
    no("f(x: ^f32[n] own)", "'own' and 'of' apply only to results");
    no("f(x: ^f32[n] keep own)", "'own' and 'of' apply only to results");
    no("f(x: int ^keep)", "expected ')' or ',' after a parameter");
    no("f(x: f32[n]) -> ^f32[n] keep", "'keep' applies only to arguments");
    no("f(x: f32[n]) -> ^f32[n] own of(x)", "'own', 'of' and 'keep' cannot be combined");
    no("f(x: f32[n]) -> f32[n] of^", "expected '(' after 'of'");
    no("f(x: f32[n]) -> f32[n] of(x^", "expected ')' after the name of an argument");
    no("f(x: f32[n]) -> f32[n] of(^)", "of() does not name a tensor argument");
    no("f(x: f32[n]) -> f32[n] of(^y)", "of(y) does not name a tensor argument");
    no("f(x: f32[n]) -> f32[n] of(^self)", "of(self) does not name a tensor argument");
    no("f(k: int) -> f32[?] of(^k)", "of(k) does not name a tensor argument");
    no("KDTree.f(self, h: handle('Free')) -> f32[?] of(^h)", "of(h) does not name self or a tensor argument");
    no("f() -> ^f32[?] own rw", "'rw' applies only to a result of(self); memory that is given with 'own' is always "
                                "writable, and of(x) allows what x allows");
    no("f(x: f32[n]) -> ^f32[?] of(x) rw", "'rw' applies only to a result of(self); memory that is given with 'own' "
                                           "is always writable, and of(x) allows what x allows");
    no("f(x: f32[n]) -> ^f32[n] own alias", "'alias', 'inplace' and 'anywhere' cannot be combined with 'own' or 'of'");
    no("f() -> ^f32|f64[?] own", "a result needs one dtype, or a dtype variable that an argument binds");
    no("f() -> f32[^_] own", "write '?' for a size that only the function knows");
    no("f() -> f32[^n] own",
       "no argument determines 'n': it must be a whole dimension of an argument, or an int parameter");
}

/* --------------------------------------------------------------------------------------------------------- modules */

static tenon_status succeed(tenon_call *running)
{
    (void)running;
    return TENON_OK;
}

static void check_module(const char *message, const char *const *texts, size_t count)
{
    tenon_function functions[8] = {{0}};
    for (size_t i = 0; i < count; i++)
        functions[i] = (tenon_function){
            .signature = texts[i], .call = strncmp(texts[i], "class", 5) && !strchr(texts[i], '=') ? succeed : NULL};
    tenon_module module = module_of(functions, count);
    if (message)
        FAILS_SAYING(TENON_EINVAL, message, tenon_module_check(&module, &err));
    else
        OK(tenon_module_check(&module, &err));
}

#define MODULE(message, ...)                                                                                           \
    check_module(message, (const char *const[]){__VA_ARGS__},                                                          \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void test_modules(void **state)
{
    (void)state;
    MODULE(NULL, "KDTree.f(self)", "class KDTree", "KDTree(x: int)", "f()", "KDTree.g(self)", "class Other");
    MODULE(NULL, "class KDTree");
    MODULE(NULL, "class KDTree", "KDTree.LEAF = 16", "LEAF = 16", "KDTree.size: int", "KDTree.make(n: int)");
    MODULE("tenon_module_check(): there are two classes called 'A'", "class A", "class B", "class  A");
    MODULE("tenon_module_check(): function 1 is a member of 'B', which is not a class of the module; add "
           "TENON_CLASS(\"B\", ...)",
           "class A", "B.f(self)");
    tenon_function without[] = {
        {.signature = "A.f(self)", .call = succeed}, {.signature = "class A"}, {.signature = "A()"}};
    tenon_module module = module_of(without, 3);
    FAILS_SAYING(TENON_EINVAL, "tenon_module_check(): the module is broken: function 2 has no code",
                 tenon_module_check(&module, &err));
    without[1].signature = NULL; /* seen before it is its turn */
    FAILS_SAYING(TENON_EINVAL,
                 "tenon_module_check(): function 0 is a member of 'A', which is not a class of the module; add "
                 "TENON_CLASS(\"A\", ...)",
                 tenon_module_check(&module, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_roles),
                                       cmocka_unit_test(test_objects),
                                       cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_words_stay_names),
                                       cmocka_unit_test(test_a_spec_has_no_lifetime),
                                       cmocka_unit_test(test_mistakes_in_heads),
                                       cmocka_unit_test(test_static_methods),
                                       cmocka_unit_test(test_properties),
                                       cmocka_unit_test(test_constants),
                                       cmocka_unit_test(test_special_methods),
                                       cmocka_unit_test(test_mistakes_in_special_methods),
                                       cmocka_unit_test(test_mistakes_in_properties_and_constants),
                                       cmocka_unit_test(test_no_classes_without_a_module),
                                       cmocka_unit_test(test_mistakes_in_memory),
                                       cmocka_unit_test(test_modules),
                                       cmocka_unit_test(test_nothing_is_alive)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
