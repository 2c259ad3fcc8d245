/* The function that the crossings call: it takes addresses and looks at them. */
static void seen(const void *data)
{
    const void *volatile kept = data;
    (void)kept;
}

void look(const void *a)
{
    seen(a);
}

void look3(const void *a, const void *b, const void *c)
{
    seen(a);
    seen(b);
    seen(c);
}
