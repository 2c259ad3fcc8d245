/* A class with special methods: len(words), words[2], `for word in words` and repr(words).
 *
 *   cc -O3 -shared -fPIC $(python -m tenon cflags) words.c -o words.so */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/function.h>

typedef struct words {
    int64_t count, *starts; /* starts[count] is the end of the string */
    char *text;
} words;

static void words_free(void *object)
{
    free(((words *)object)->starts);
    free(((words *)object)->text);
    free(object);
}

static tenon_status words_new(tenon_call *call)
{
    size_t length = 0;
    const char *text = tenon_arg_str(call, 0, &length);
    words *w = calloc(1, sizeof *w);
    if (!w || !(w->text = malloc(length + 1)) || !(w->starts = malloc((length + 2) * sizeof *w->starts))) {
        if (w)
            words_free(w);
        return TENON_ENOMEM;
    }
    memcpy(w->text, text, length + 1); /* the argument is only valid during the call */
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' && (i == 0 || text[i - 1] == ' '))
            w->starts[w->count++] = (int64_t)i;
    w->starts[w->count] = (int64_t)length;
    if (tenon_return_handle(call, 0, w, words_free)) {
        words_free(w);
        return TENON_EFAILED;
    }
    return TENON_OK;
}

static tenon_status words_len(tenon_call *call)
{
    const words *w = tenon_arg_handle(call, 0);
    return tenon_return_int(call, 0, w->count);
}

/* TENON_EBOUNDS is an IndexError in Python, which also ends a `for` loop. The index is the one that the caller wrote: it is
 * the function that lets -1 mean the last word. */
static tenon_status words_item(tenon_call *call)
{
    const words *w = tenon_arg_handle(call, 0);
    int64_t index = tenon_arg_int(call, 1), i = index < 0 ? index + w->count : index;
    if (i < 0 || i >= w->count)
        return tenon_fail(call, TENON_EBOUNDS, "index %lld is out of range", (long long)index);
    int64_t end = w->starts[i + 1];
    while (w->text[end - 1] == ' ')
        end--;
    return tenon_return_str(call, 0, w->text + w->starts[i], (size_t)(end - w->starts[i]));
}

static tenon_status words_repr(tenon_call *call)
{
    const words *w = tenon_arg_handle(call, 0);
    char text[40];
    int length = snprintf(text, sizeof text, "Words(%lld of them)", (long long)w->count);
    return tenon_return_str(call, 0, text, (size_t)length);
}

TENON_MODULE(words, "Words of a string.", TENON_CLASS("Words", "The words of a string, which are separated by spaces."),
             TENON_FUNCTION("Words(text: str)", words_new, "Copies the string."),
             TENON_FUNCTION("Words.__len__(self) -> int", words_len, "The number of words."),
             TENON_FUNCTION("Words.__getitem__(self, i: int) -> str", words_item, "Word i."),
             TENON_FUNCTION("Words.__repr__(self) -> str", words_repr, NULL))
