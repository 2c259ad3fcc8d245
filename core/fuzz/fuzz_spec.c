/* Parses the lines of the input as specs that share names, and matches them against views that are made from the bytes
 * after a 0. */
#include "../src/signature/compiled_spec.h" /* the compiled dimensions */
#include "fuzz.h"

enum { MAX_SPECS = 3 };

/* Whether the two can be told apart by what spec.h shows. */
static bool same_spec(const tenon_spec *a, const tenon_spec *b)
{
    return a->flags == b->flags && a->ndims == b->ndims && tenon__code_of(a)->star == tenon__code_of(b)->star &&
           tenon__code_of(a)->nops == tenon__code_of(b)->nops && a->devices == b->devices &&
           a->alignment == b->alignment && strcmp(a->text, b->text) == 0;
}

static int parse_lines(char *text, tenon_names *names, tenon_spec *specs)
{
    static tenon_names before;
    int count = 0;
    for (char *line = text; line && count < MAX_SPECS;) {
        char *end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        tenon_error err = {0};
        before = *names;
        tenon_status status = tenon_spec_parse(line, names, &specs[count], &err);
        fuzz_check_error(status, &err);
        if (status == TENON_OK) {
            /* Its own text must parse to the same spec. */
            tenon_names fresh = before;
            tenon_spec twin;
            FUZZ_CHECK(tenon_spec_parse(line, &fresh, &twin, NULL) == TENON_OK && same_spec(&specs[count], &twin));
            FUZZ_CHECK(names->ndims <= TENON_MAX_NAMES && names->nstars <= TENON_MAX_VARIABLES &&
                       names->ntypes <= TENON_MAX_VARIABLES);
            count++;
        } else {
            FUZZ_CHECK(status == TENON_EPARSE);
            FUZZ_CHECK(memcmp(&before, names, sizeof before) == 0);
        }
        line = end;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static tenon_names names;
    static tenon_spec specs[MAX_SPECS];
    size_t length = 0;
    while (length < size && data[length])
        length++;
    char *text = malloc(length + 1);
    FUZZ_CHECK(text);
    if (length > 0)
        memcpy(text, data, length);
    text[length] = 0;
    fuzz_input in = {data + length, size - length};
    fuzz_bytes(&in, 1);

    memset(&names, 0, sizeof names);
    int count = parse_lines(text, &names, specs);
    tenon_bindings bindings;
    tenon_bindings_reset(&bindings, &names);
    if (size % 2) {
        bindings.function = "f";
        bindings.argument = "x";
        bindings.object = "numpy.ndarray";
    }
    tenon_view views[MAX_SPECS];
    int64_t dims[MAX_SPECS][16];
    bool made[MAX_SPECS];
    for (int i = 0; i < count; i++) {
        tenon_error err = {0};
        made[i] = fuzz_view(&in, &views[i], dims[i]);
        tenon_status status = tenon_spec_match(&specs[i], made[i] ? &views[i] : NULL, &bindings, &err);
        fuzz_check_error(status, &err);
    }
    /* Checking does not change the bindings: the second check must have the same result. */
    for (int i = 0; i < count; i++) {
        const tenon_view *view = made[i] ? &views[i] : NULL;
        tenon_status first = tenon_spec_check(&specs[i], view, &bindings, NULL);
        FUZZ_CHECK(tenon_spec_match(&specs[i], view, &bindings, NULL) == first);
    }
    free(text);
    fuzz_nothing_left();
    return 0;
}
