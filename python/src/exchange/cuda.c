/* CUDA's driver, if the process has loaded it: to make one stream wait for another. Nothing is linked. */
#include "../internal.h"

typedef struct driver_functions {
    int (*device_get)(int *device, int ordinal);
    int (*context_retain)(void **context, int device);
    int (*context_release)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_destroy)(void *event);
    int (*stream_wait)(void *stream, void *event, unsigned flags);
    int (*stream_synchronize)(void *stream);
} driver_functions;

/* False: CUDA is not in use in this process. */
static bool find_driver(driver_functions *out)
{
#ifdef _WIN32
    void *library = tenon__py_loaded_library("nvcuda.dll");
#else
    void *library = tenon__py_loaded_library("libcuda.so.1");
#endif
    if (!library)
        return false;
    const struct {
        const char *name;
        void *place;
    } wanted[] = {{"cuDeviceGet", &out->device_get},
                  {"cuDevicePrimaryCtxRetain", &out->context_retain},
                  {"cuDevicePrimaryCtxRelease_v2", &out->context_release},
                  {"cuCtxPushCurrent_v2", &out->context_push},
                  {"cuCtxPopCurrent_v2", &out->context_pop},
                  {"cuEventCreate", &out->event_create},
                  {"cuEventRecord", &out->event_record},
                  {"cuEventDestroy_v2", &out->event_destroy},
                  {"cuStreamWaitEvent", &out->stream_wait},
                  {"cuStreamSynchronize", &out->stream_synchronize}};
    bool complete = true;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        complete = tenon__py_symbol(library, wanted[i].name, wanted[i].place) && complete;
    return complete;
}

static int record_and_wait(const driver_functions *driver, void *first, void *second)
{
    enum { WITHOUT_TIMING = 2 };
    void *event = NULL;
    int error = driver->event_create(&event, WITHOUT_TIMING);
    if (error)
        return error;
    error = driver->event_record(event, first);
    if (!error)
        error = driver->stream_wait(second, event, 0);
    driver->event_destroy(event); /* the driver keeps it until nothing waits for it any more */
    return error;
}

static int synchronize(const driver_functions *driver, void *stream)
{
    PyThreadState *thread = PyEval_SaveThread();
    int error = driver->stream_synchronize(stream);
    PyEval_RestoreThread(thread);
    return error;
}

/* Default streams belong to a context: the one that all frameworks use is made the current one meanwhile. */
int tenon__py_cuda_order(int device_id, intptr_t first, intptr_t second)
{
    driver_functions driver;
    void *context = NULL, *popped;
    int device = 0;
    if (!find_driver(&driver))
        return 0;
    /* The driver knows DLPack's numbers 1 and 2 as handles of the same streams. */
    void *earlier = (void *)first, *later = (void *)second;
    int error = driver.device_get(&device, device_id);
    if (!error)
        error = driver.context_retain(&context, device);
    if (!error) {
        error = driver.context_push(context);
        if (!error) {
            error = second == TENON__PY_HOST ? synchronize(&driver, earlier) : record_and_wait(&driver, earlier, later);
            if (error && second != TENON__PY_HOST) /* a stream of another context, say: then the host waits */
                error = synchronize(&driver, earlier);
            driver.context_pop(&popped);
        }
        driver.context_release(device);
    }
    if (!error)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "tenon.Tensor: CUDA did not order two streams on cuda:%d (error %d of the driver)",
                 device_id, error);
    return -1;
}
