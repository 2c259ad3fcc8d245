/* Compiles what version 1.1 adds to signatures: classes, constructors and methods, and memory that outlives a call. */
#include "signature.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------ heads */

/* A method may start with "__" only if hosts know what to do with it. */
static const char *const dunders[] = {"__len__", "__repr__", "__getitem__"};
/* Members that every object has. */
static const char *const of_hosts[] = {"close", "closed", "__enter__", "__exit__"};

static bool is_one_of(tenon__word w, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (tenon__word_is(w, names[i]))
            return true;
    return false;
}

static tenon_status parse_method_name(tenon__compiler *c, tenon__word *out)
{
    tenon__parser *p = &c->p;
    tenon__word w = tenon__peek_word(p);
    if (is_one_of(w, of_hosts, sizeof of_hosts / sizeof *of_hosts))
        return tenon__parse_fail(p, w.at, "every object has '%.*s' already; give the method another name",
                                 (int)w.length, w.start);
    if (is_one_of(w, dunders, sizeof dunders / sizeof *dunders)) {
        *out = tenon__parse_word(p);
        return TENON_OK;
    }
    if (w.length > 1 && w.start[0] == '_' && w.start[1] == '_')
        return tenon__parse_fail(p, w.at,
                                 "of the names that start with '__' a method can be __len__, __repr__ or "
                                 "__getitem__");
    return tenon__parse_name(c, "method", out);
}

/* Names have less than TENON_NAME_SIZE bytes. */
enum { LONGEST_PAIR = 2 * TENON_NAME_SIZE + 16 };

static tenon_status parse_method(tenon__compiler *c, tenon__word class_name)
{
    tenon_signature *out = c->out;
    tenon__word w = {0};
    tenon_status status = tenon__parse_feature(&c->p, class_name.at, "a method");
    if (!status && !tenon__module_class(c->module, class_name.start, class_name.length, NULL))
        status = tenon__parse_fail(&c->p, class_name.at,
                                   "unknown class '%.*s'; add TENON_CLASS(\"%.*s\", ...) to the module",
                                   (int)class_name.length, class_name.start, (int)class_name.length, class_name.start);
    if (!status)
        status = parse_method_name(c, &w);
    if (status)
        return status;
    out->role = TENON_ROLE_METHOD;
    out->class_name = tenon__copy_text(c, class_name.at, class_name.at + class_name.length);
    out->method = tenon__copy_text(c, w.at, w.at + w.length);
    out->name = c->room.text;
    c->room.text += snprintf(c->room.text, LONGEST_PAIR, "%s.%s", out->class_name, out->method) + 1;
    return TENON_OK;
}

tenon_status tenon__parse_head(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_signature *out = c->out;
    tenon__word w = tenon__peek_word(p);
    tenon_status status = TENON_OK;
    if (tenon__word_is(w, "class") && p->text[w.at + w.length] != '(') {
        tenon__parse_word(p);
        status = tenon__parse_feature(p, w.at, "a class");
        out->role = TENON_ROLE_CLASS;
        status = status ? status : tenon__parse_name(c, "class", &w);
    } else {
        status = tenon__parse_name(c, "function", &w);
    }
    if (status)
        return status;
    if (out->role != TENON_ROLE_CLASS && tenon__accept(p, '.'))
        return parse_method(c, w);
    out->name = tenon__copy_text(c, w.at, w.at + w.length);
    if (out->role != TENON_ROLE_CLASS && p->minor >= 1 && tenon__module_class(c->module, w.start, w.length, NULL))
        out->role = TENON_ROLE_CONSTRUCTOR;
    if (out->role != TENON_ROLE_FUNCTION)
        out->class_name = out->name;
    return TENON_OK;
}

/* --------------------------------------------------------------------------------------------------------- objects */

void tenon__note_class(tenon__compiler *c, tenon_parameter *item)
{
    uint64_t flags = 0;
    if (c->p.minor < 1 || !tenon__module_class(c->module, item->handle, strlen(item->handle), &flags))
        return;
    item->flags |= TENON_PARAMETER_CLASS;
    if (!(flags & TENON_CLASS_CONCURRENT))
        item->flags |= TENON_PARAMETER_SERIAL;
}

/* A handle of the signature's class, with the type as one would write it. */
static tenon_parameter make_object(tenon__compiler *c, const char *name)
{
    tenon_parameter item = {.name = name, .kind = TENON_KIND_HANDLE, .dim = -1, .count = -1, .owner = -1};
    item.type = c->room.text;
    c->room.text += snprintf(c->room.text, LONGEST_PAIR, "handle('%s')", c->out->class_name) + 1;
    item.handle = c->out->class_name;
    tenon__note_class(c, &item);
    return item;
}

tenon_status tenon__parse_self(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    tenon_signature *out = c->out;
    tenon__word w = tenon__parse_word(p);
    if (!tenon__word_is(w, "self"))
        return tenon__parse_fail(p, w.at, "expected self, the first parameter of every method");
    tenon__skip_spaces(p);
    if (p->text[p->at] == ':')
        return tenon__parse_fail(p, p->at, "self has no type: it is the object");
    c->room.params[0] = make_object(c, tenon__copy_text(c, w.at, w.at + w.length));
    out->nparams = out->npositional = out->nrequired = 1;
    out->nserial = (c->room.params[0].flags & TENON_PARAMETER_SERIAL) != 0;
    return TENON_OK;
}

tenon_status tenon__add_object(tenon__compiler *c)
{
    tenon__parser *p = &c->p;
    if (c->out->nresults)
        return tenon__parse_fail(p, c->starts[TENON_MAX_PARAMETERS],
                                 "a constructor is written without '->': its result is the object");
    c->room.results[0] = make_object(c, NULL);
    c->out->nresults = 1;
    return TENON_OK;
}

/* -------------------------------------------------------------------------------------- memory that outlives a call */

tenon_status tenon__check_kept(tenon__compiler *c, size_t at)
{
    tenon_parameter *item = c->item;
    if (!c->p.extra)
        return TENON_OK;
    if (c->p.extra != TENON_PARAMETER_KEEP)
        return tenon__parse_fail(&c->p, at, "'own' and 'of' apply only to results");
    if (item->spec->flags & TENON_SPEC_WRITE)
        return tenon__parse_fail(&c->p, at, "'keep' and 'rw' cannot be combined");
    item->flags |= TENON_PARAMETER_KEEP;
    return TENON_OK;
}

/* The argument that an "of(...)" names: self, or a tensor. */
static tenon_status find_owner(tenon__compiler *c, int32_t *owner)
{
    const tenon_signature *s = c->out;
    tenon__word w = c->p.of;
    bool method = s->role == TENON_ROLE_METHOD;
    for (int32_t i = 0; i < s->nparams; i++) {
        if (!tenon__word_is(w, s->params[i].name) || !(s->params[i].spec || (method && i == 0)))
            continue;
        *owner = i;
        return TENON_OK;
    }
    return tenon__parse_fail(&c->p, w.at, "of(%.*s) does not name %sa tensor argument",
                             (int)(w.length < 60 ? w.length : 60), w.start, method ? "self or " : "");
}

tenon_status tenon__check_given(tenon__compiler *c, size_t at)
{
    tenon_parameter *item = c->item;
    uint32_t flags = item->spec->flags;
    bool shown = c->p.extra == TENON_PARAMETER_OF;
    if (c->p.extra == TENON_PARAMETER_KEEP)
        return tenon__parse_fail(&c->p, at, "'keep' applies only to arguments");
    if (!shown && c->p.extra != TENON_PARAMETER_OWN)
        return tenon__parse_fail(&c->p, at, "'own', 'of' and 'keep' cannot be combined");
    if (flags & (TENON_SPEC_ALIAS | TENON_SPEC_INPLACE | TENON_SPEC_ANYWHERE))
        return tenon__parse_fail(&c->p, at, "'alias', 'inplace' and 'anywhere' cannot be combined with 'own' or 'of'");
    tenon_status status = shown ? find_owner(c, &item->owner) : TENON_OK;
    if (status)
        return status;
    bool of_self = shown && !c->out->params[item->owner].spec;
    if ((flags & TENON_SPEC_WRITE) && !of_self)
        return tenon__parse_fail(&c->p, at,
                                 "'rw' applies only to a result of(self); memory that is given with 'own' is always "
                                 "writable, and of(x) allows what x allows");
    item->flags |= c->p.extra | TENON_PARAMETER_OPEN;
    c->out->open_results = true;
    return TENON_OK;
}

/* ------------------------------------------------------------------------------------------------- special methods */

static bool returns(const tenon_signature *s, uint32_t kind)
{
    return s->nresults == 1 && s->results[0].kind == kind && !(s->results[0].flags & TENON_PARAMETER_OPTIONAL);
}

tenon_status tenon__check_method(tenon__compiler *c)
{
    const tenon_signature *s = c->out;
    const char *wanted = NULL;
    if (s->role != TENON_ROLE_METHOD)
        return TENON_OK;
    if (strcmp(s->method, "__len__") == 0 && !(s->nparams == 1 && returns(s, TENON_KIND_INT)))
        wanted = "__len__(self) -> int";
    else if (strcmp(s->method, "__repr__") == 0 && !(s->nparams == 1 && returns(s, TENON_KIND_STR)))
        wanted = "__repr__(self) -> str";
    else if (strcmp(s->method, "__getitem__") == 0 &&
             !(s->nparams == 2 && s->nrequired == 2 && s->params[1].kind == TENON_KIND_INT && s->nresults == 1))
        wanted = "__getitem__(self, i: int), with one result";
    return wanted ? tenon__parse_fail(&c->p, strspn(c->p.text, " \t\n"), "expected %s.%s", s->class_name, wanted)
                  : TENON_OK;
}

/* ------------------------------------------------------------------------------------------------------- accessors */

int32_t tenon_signature_role(const tenon_signature *signature)
{
    return signature ? signature->role : TENON_ROLE_FUNCTION;
}

const char *tenon_signature_class(const tenon_signature *signature)
{
    return signature ? signature->class_name : NULL;
}

const char *tenon_signature_method(const tenon_signature *signature)
{
    return signature ? signature->method : NULL;
}
