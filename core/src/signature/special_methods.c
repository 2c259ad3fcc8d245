/* The methods whose names begin with "__", and what belongs to them: which parameters and results hosts expect. */
#include "parser.h"

#include <string.h>

const char tenon__special_methods[] = "__call__, __contains__, __eq__, __getitem__, __getstate__, __hash__, __iter__, "
                                      "__len__, __next__, __repr__ or __setitem__";

bool tenon__is_special(tenon__word w)
{
    for (const char *at = tenon__special_methods; (at = strstr(at, "__")); at += strspn(at, "_")) {
        size_t length = strcspn(at, " ,");
        if (w.length == length && memcmp(at, w.start, length) == 0)
            return true;
        at += length;
    }
    return false;
}

/* Whether there is exactly one result, of this kind, which is never None. */
static bool returns(const tenon_signature *s, uint32_t kind)
{
    return s->nresults == 1 && s->results[0].kind == kind && !(s->results[0].flags & TENON_PARAMETER_OPTIONAL);
}

/* Whether there are exactly self and `count` parameters, which the caller must pass in order. */
static bool takes(const tenon_signature *s, int32_t count)
{
    return s->has_self && s->nparams == count + 1 && s->nrequired == count + 1;
}

/* Whether it is any int. */
static bool is_index(const tenon_parameter *item)
{
    return item->kind == TENON_KIND_INT && !item->integers;
}

static bool is_own_class(const tenon_signature *s, const tenon_parameter *item)
{
    return item->kind == TENON_KIND_HANDLE && strcmp(item->handle, s->class_name) == 0;
}

/* What the method should be after "Name.", or NULL if it is. */
static const char *wanted_method(const tenon_signature *s, const tenon_module *module)
{
    const char *name = s->method;
    if (strcmp(name, "__len__") == 0)
        return takes(s, 0) && returns(s, TENON_KIND_INT) ? NULL : "__len__(self) -> int";
    if (strcmp(name, "__hash__") == 0)
        return takes(s, 0) && returns(s, TENON_KIND_INT) ? NULL : "__hash__(self) -> int";
    if (strcmp(name, "__repr__") == 0)
        return takes(s, 0) && returns(s, TENON_KIND_STR) ? NULL : "__repr__(self) -> str";
    if (strcmp(name, "__getitem__") == 0)
        return takes(s, 1) && is_index(&s->params[1]) && s->nresults == 1
                   ? NULL
                   : "__getitem__(self, i: int), with one result";
    if (strcmp(name, "__setitem__") == 0)
        return takes(s, 2) && is_index(&s->params[1]) && s->nresults == 0
                   ? NULL
                   : "__setitem__(self, i: int, value: ...), without results";
    if (strcmp(name, "__contains__") == 0)
        return takes(s, 1) && returns(s, TENON_KIND_BOOL) ? NULL : "__contains__(self, x: ...) -> bool";
    if (strcmp(name, "__next__") == 0)
        return takes(s, 0) && s->nresults == 1 ? NULL : "__next__(self), with one result";
    if (strcmp(name, "__iter__") == 0)
        return takes(s, 0) && returns(s, TENON_KIND_HANDLE) &&
                       tenon__module_member(module, s->results[0].handle, "__next__")
                   ? NULL
                   : "__iter__(self) with one result, an object of a class that has __next__(self)";
    return s->has_self ? NULL : "__call__(self, ...)";
}

static bool fits_equality(const tenon_signature *s)
{
    return takes(s, 1) && is_own_class(s, &s->params[1]) && returns(s, TENON_KIND_BOOL);
}

static bool fits_state(const tenon_signature *s, const tenon_module *module)
{
    return takes(s, 0) && returns(s, TENON_KIND_BYTES) && tenon__module_member(module, s->class_name, "load");
}

static bool fits_load(const tenon_signature *s)
{
    return s->role == TENON_ROLE_STATIC && s->nparams == 1 && s->nrequired == 1 &&
           s->params[0].kind == TENON_KIND_BYTES && returns(s, TENON_KIND_HANDLE) && is_own_class(s, &s->results[0]);
}

bool tenon__special_fits(const tenon_signature *s, const tenon_module *module, char *wanted, size_t size)
{
    tenon__text text = {wanted, size, 0};
    bool is_load = s->method && strcmp(s->method, "load") == 0;
    if (is_load && tenon__module_member(module, s->class_name, "__getstate__") && !fits_load(s)) {
        tenon__text_add(&text, "%s.load(state: bytes) -> handle('%s'), because the class has __getstate__",
                        s->class_name, s->class_name);
        return false;
    }
    if (!s->method || strncmp(s->method, "__", 2) != 0)
        return true;
    if (strcmp(s->method, "__eq__") == 0 && !fits_equality(s))
        tenon__text_add(&text, "%s(self, other: handle('%s')) -> bool", s->name, s->class_name);
    else if (strcmp(s->method, "__getstate__") == 0 && !fits_state(s, module))
        tenon__text_add(&text, "%s(self) -> bytes, and a static method %s.load(state: bytes)", s->name, s->class_name);
    else if (wanted_method(s, module))
        tenon__text_add(&text, "%s.%s", s->class_name, wanted_method(s, module));
    return text.length == 0;
}
