/* The core alone: makes a tensor from malloc'ed memory, takes views of it, passes one on as DLPack, and frees it once. */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

static void show(const char *what, const tenon_tensor *tensor)
{
    const tenon_view *view = tenon_tensor_view(tensor);
    const float *data = view->data;
    printf("%-9s", what);
    for (int64_t i = 0; i < view->shape[0]; i++)
        printf(" %g", data[i * view->strides[0]]);
    printf("\n");
}

static void give_back(void *memory)
{
    printf("released\n");
    free(memory);
}

int main(void)
{
    tenon_error err;
    tenon_tensor *matrix, *column, *reversed, *received;
    tenon_dl_managed *crossing;

    float *memory = malloc(6 * sizeof *memory);
    for (int i = 0; memory && i < 6; i++)
        memory[i] = (float)i;
    int64_t shape[] = {2, 3};
    tenon_blob blob = {
        .data = memory, .dtype = TENON_F32, .ndim = 2, .shape = shape, .owner = memory, .release = give_back};

    if (tenon_tensor_from_blob(&blob, &matrix, &err) || tenon_tensor_select(matrix, 1, -1, &column, &err) ||
        tenon_tensor_slice(column, 0, TENON_OMIT, TENON_OMIT, -1, &reversed, &err) ||
        tenon_tensor_export(reversed, &crossing, &err)) /* to any library that speaks DLPack */
        return puts(err.message), 1;
    show("column", column);
    show("reversed", reversed);

    tenon_tensor_release(matrix);
    tenon_tensor_release(column);
    tenon_tensor_release(reversed); /* the exported struct keeps the memory alive */

    if (tenon_tensor_import(crossing, &received, &err)) /* from any library that speaks DLPack */
        return puts(err.message), 1;
    show("received", received);

    tenon_names names = {0};
    tenon_bindings bindings;
    tenon_spec spec;
    if (tenon_spec_parse("f32[n] c", &names, &spec, &err))
        return puts(err.message), 1;
    tenon_bindings_reset(&bindings, &names);
    if (tenon_spec_match(&spec, tenon_tensor_view(received), &bindings, &err))
        puts(err.message);
    tenon_tensor_release(received);
    return 0;
}
