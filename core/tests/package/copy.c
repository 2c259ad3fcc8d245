/* One of two users in a process, each with a copy of Tenon of its own. SIDE names this one. */
#include "tenon.h"

#define NAME2(side, name) side##_##name
#define NAME1(side, name) NAME2(side, name)
#define NAME(name)        NAME1(SIDE, name)

static tenon_tensor *held;

int NAME(hold)(void);
int NAME(drop)(void);

int NAME(hold)(void)
{
    int64_t shape[1] = {8};

    return tenon_tensor_alloc(TENON_I32, 1, shape, 0, &held, NULL) == TENON_OK ? (int)tenon_stats_read().tensors : -1;
}

int NAME(drop)(void)
{
    tenon_tensor_release(held);
    held = NULL;
    return (int)tenon_stats_read().tensors;
}
