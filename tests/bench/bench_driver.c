/* bench_driver.c: the table of a driver whose calls cost what they are told.
 *
 * What the bench never calls answers UNSUPPORTED. */
#include "tests/bench/bench_driver.h"

#include "runtime/base/process.h"
#include "tests/bench/bench.h"
#include "tests/bench/event.h"

#include <stdlib.h>
#include <string.h>

typedef struct bench_device {
    wm_driver driver;
    bench_stream *standard; /* const: the default streams */
    _Atomic uint64_t held, peak, delayed;
} bench_device;

static bench_device *device_of(wm_driver *d)
{
    return (bench_device *)(void *)d;
}

static bench_stream *stream_of(wm_driver *d, warm_stream stream)
{
    return (uintptr_t)stream <= 2 ? device_of(d)->standard : stream;
}

void bench_driver_use(wm_driver *driver, warm_stream stream)
{
    bench_stream_use(stream_of(driver, stream));
}

/* ---- what does nothing -------------------------------------------------- */

/* use: of the parameters, which serve no other purpose. */
#define REFUSE(name, parameters, use)                                          \
    static warm_status bench_##name parameters                                 \
    {                                                                          \
        use;                                                                   \
        return WARM_UNSUPPORTED;                                               \
    }
REFUSE(pinned_register, (wm_driver * d, void *pointer, size_t bytes),
       ((void)d, (void)pointer, (void)bytes))
REFUSE(pinned_unregister, (wm_driver * d, void *pointer),
       ((void)d, (void)pointer))
REFUSE(place, (wm_driver * d, void *pointer, size_t bytes, int node),
       ((void)d, (void)pointer, (void)bytes, (void)node))
REFUSE(node_of, (wm_driver * d, void *pointer, size_t bytes, int *node),
       ((void)d, (void)pointer, (void)bytes, (void)node))
REFUSE(copy,
       (wm_driver * d, void *destination, const void *source, size_t bytes,
        warm_copy_direction direction, warm_stream stream),
       ((void)d, (void)destination, (void)source, (void)bytes, (void)direction,
        (void)stream))
REFUSE(host_func,
       (wm_driver * d, warm_stream stream, warm_host_fn function,
        void *argument),
       ((void)d, (void)stream, (void)function, (void)argument))
REFUSE(capture_begin, (wm_driver * d, warm_stream stream),
       ((void)d, (void)stream))
REFUSE(capture_end, (wm_driver * d, warm_stream stream, warm_graph *graph),
       ((void)d, (void)stream, (void)graph))
REFUSE(graph_launch, (wm_driver * d, warm_graph graph, warm_stream stream),
       ((void)d, (void)graph, (void)stream))
REFUSE(graph_destroy, (wm_driver * d, warm_graph graph), ((void)d, (void)graph))

static warm_status bench_device_info(wm_driver *d, int device,
                                     warm_device_info *info)
{
    strcpy(info->name, "bench device");
    info->total_bytes = info->free_bytes = (uint64_t)1 << 40;
    info->compute_major = info->compute_minor = 0;
    info->numa_node = -1;
    return WARM_OK;
}

static warm_status bench_current_device(wm_driver *d, int *device)
{
    *device = 0;
    return WARM_OK;
}

static warm_status bench_device_memory(wm_driver *d, int device, size_t *free,
                                       size_t *total)
{
    *free = *total = (size_t)1 << 40;
    return WARM_OK;
}

/* ---- memory -------------------------------------------------------------- */

static void (*watch)(void); /* const once the threads run */

void bench_driver_watch(void (*fn)(void))
{
    watch = fn;
}

static void note_held(bench_device *device, size_t bytes)
{
    uint64_t held, peak;

    /* Relaxed: figures only. */
    held =
        atomic_fetch_add_explicit(&device->held, bytes, memory_order_relaxed) +
        bytes;
    peak = atomic_load_explicit(&device->peak, memory_order_relaxed);
    if (watch != NULL && held > peak) {
        watch();
    }
    while (held > peak && !atomic_compare_exchange_weak_explicit(
                              &device->peak, &peak, held, memory_order_relaxed,
                              memory_order_relaxed)) {
    }
}

static warm_status bench_pinned_alloc(wm_driver *d, size_t bytes,
                                      void **pointer)
{
    void *memory = bench_map(bytes);

    if (memory == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    note_held(device_of(d), bytes);
    *pointer = memory;
    return WARM_OK;
}

static warm_status bench_pinned_free(wm_driver *d, void *pointer, size_t bytes)
{
    atomic_fetch_sub_explicit(&device_of(d)->held, bytes, memory_order_relaxed);
    bench_unmap(pointer, bytes);
    return WARM_OK;
}

/* The same, with its size in a page before it: a device's free is not told. */
enum { SIZE_PAGE = 4096 };

static warm_status bench_device_alloc(wm_driver *d, int device, size_t bytes,
                                      void **pointer)
{
    void *memory = NULL;
    warm_status status = bench_pinned_alloc(d, bytes + SIZE_PAGE, &memory);

    if (status == WARM_OK) {
        *(size_t *)memory = bytes + SIZE_PAGE;
        *pointer = (char *)memory + SIZE_PAGE;
    }
    return status;
}

static warm_status bench_device_free(wm_driver *d, int device, void *pointer)
{
    char *memory = (char *)pointer - SIZE_PAGE;

    return bench_pinned_free(d, memory, *(size_t *)(void *)memory);
}

static warm_status bench_managed_support(wm_driver *d, int device,
                                         wm_managed *support)
{
    *support = WM_MANAGED_NONE;
    return WARM_OK;
}

/* Ranges: all of it is address space, memory is a figure. */
enum { UNIT = 2 << 20 };

static warm_status bench_range_unit(wm_driver *d, int device, size_t *bytes)
{
    *bytes = UNIT;
    return WARM_OK;
}

static warm_status bench_range_reserve(wm_driver *d, int device, size_t bytes,
                                       void **range)
{
    char *memory = bench_map(bytes + UNIT);

    if (memory == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    *range = memory + (UNIT - (uintptr_t)memory % UNIT) % UNIT;
    return WARM_OK;
}

static warm_status bench_range_commit(wm_driver *d, int device, void *range,
                                      size_t bytes, bool *torn)
{
    note_held(device_of(d), bytes);
    return WARM_OK;
}

static warm_status bench_range_decommit(wm_driver *d, int device, void *range,
                                        size_t bytes)
{
    atomic_fetch_sub_explicit(&device_of(d)->held, bytes, memory_order_relaxed);
    return WARM_OK;
}

/* Stays, until the process ends. */
static warm_status bench_range_release(wm_driver *d, int device, void *range,
                                       size_t bytes)
{
    return WARM_OK;
}

static warm_status bench_device_synchronize(wm_driver *d, int device)
{
    return WARM_OK;
}

uint64_t bench_driver_delayed(wm_driver *driver)
{
    return atomic_load_explicit(&device_of(driver)->delayed,
                                memory_order_relaxed);
}

uint64_t bench_driver_peak(wm_driver *driver)
{
    return atomic_load_explicit(&device_of(driver)->peak, memory_order_relaxed);
}

/* ---- streams and events -------------------------------------------------- */

static warm_status bench_stream_create(wm_driver *d, int device,
                                       warm_stream *stream)
{
    bench_stream *made = bench_stream_new();

    if (made == NULL) {
        return WARM_OUT_OF_MEMORY;
    }
    made->device = device;
    *stream = made;
    return WARM_OK;
}

static warm_status bench_stream_destroy(wm_driver *d, warm_stream stream)
{
    /* An event may name it still; a few lines are left behind. */
    return WARM_OK;
}

static warm_status bench_stream_info(wm_driver *d, warm_stream stream,
                                     wm_stream_info *info)
{
    info->id = stream_of(d, stream)->id;
    info->device = stream_of(d, stream)->device;
    info->capture = WM_CAPTURE_NONE;
    return WARM_OK;
}

static warm_status bench_stream_query(wm_driver *d, warm_stream stream)
{
    return WARM_OK;
}

/* Costs nothing and delays nothing: what it would delay is counted. */
static warm_status bench_stream_wait_event(wm_driver *d, warm_stream stream,
                                           warm_event event)
{
    atomic_fetch_add_explicit(&device_of(d)->delayed,
                              bench_event_left((bench_event *)event),
                              memory_order_relaxed);
    bench_stream_wait(stream_of(d, stream), (bench_event *)event);
    return WARM_OK;
}

static warm_status bench_stream_synchronize(wm_driver *d, warm_stream stream)
{
    return WARM_OK;
}

static warm_status bench_stream_capture(wm_driver *d, warm_stream stream,
                                        wm_capture *capture)
{
    *capture = WM_CAPTURE_NONE;
    return WARM_OK;
}

static warm_status bench_capture_mode(wm_driver *d, bool *relaxed)
{
    *relaxed = !*relaxed;
    return WARM_OK;
}

static warm_status bench_event_create(wm_driver *d, int device,
                                      warm_event *event)
{
    *event = (warm_event)bench_event_new();
    return *event != NULL ? WARM_OK : WARM_OUT_OF_MEMORY;
}

static warm_status bench_event_destroy(wm_driver *d, warm_event event)
{
    bench_event_end((bench_event *)event);
    return WARM_OK;
}

static warm_status bench_event_record_on(wm_driver *d, warm_event event,
                                         warm_stream stream)
{
    bench_event_record((bench_event *)event, stream_of(d, stream));
    return WARM_OK;
}

static warm_status bench_event_query(wm_driver *d, warm_event event)
{
    return bench_event_done((bench_event *)event) ? WARM_OK : WARM_NOT_READY;
}

static warm_status bench_event_mark(wm_driver *d, warm_event event,
                                    warm_stream stream, wm_capture *capture)
{
    *capture = WM_CAPTURE_NONE;
    return bench_event_record_on(d, event, stream);
}

static warm_status bench_event_passed(wm_driver *d, warm_event event)
{
    return bench_event_query(d, event);
}

static warm_status bench_stream_passed(wm_driver *d, warm_stream stream,
                                       wm_capture *capture)
{
    *capture = WM_CAPTURE_NONE;
    return bench_stream_idle() ? WARM_OK : WARM_NOT_READY;
}

static warm_status bench_event_synchronize(wm_driver *d, warm_event event)
{
    return WARM_OK;
}

static void bench_close(wm_driver *d, uint64_t *dropped)
{
    *dropped = 0;
    bench_stream_end(device_of(d)->standard);
    free(d);
}

static const wm_driver_ops bench_ops = {
    .device_info = bench_device_info,
    .current_device = bench_current_device,
    .pinned_alloc = bench_pinned_alloc,
    .pinned_free = bench_pinned_free,
    .pinned_register = bench_pinned_register,
    .pinned_unregister = bench_pinned_unregister,
    .place = bench_place,
    .node_of = bench_node_of,
    .device_alloc = bench_device_alloc,
    .device_free = bench_device_free,
    .managed_support = bench_managed_support,
    .device_memory = bench_device_memory,
    .range_unit = bench_range_unit,
    .range_reserve = bench_range_reserve,
    .range_commit = bench_range_commit,
    .range_decommit = bench_range_decommit,
    .range_release = bench_range_release,
    .device_synchronize = bench_device_synchronize,
    .stream_create = bench_stream_create,
    .stream_destroy = bench_stream_destroy,
    .stream_info = bench_stream_info,
    .stream_query = bench_stream_query,
    .stream_synchronize = bench_stream_synchronize,
    .stream_wait_event = bench_stream_wait_event,
    .stream_capture = bench_stream_capture,
    .event_create = bench_event_create,
    .event_destroy = bench_event_destroy,
    .event_record = bench_event_record_on,
    .event_query = bench_event_query,
    .event_synchronize = bench_event_synchronize,
    .event_mark = bench_event_mark,
    .event_passed = bench_event_passed,
    .stream_passed = bench_stream_passed,
    .copy = bench_copy,
    .host_func = bench_host_func,
    .capture_begin = bench_capture_begin,
    .capture_end = bench_capture_end,
    .graph_launch = bench_graph_launch,
    .graph_destroy = bench_graph_destroy,
    .capture_mode = bench_capture_mode,
    .close = bench_close,
};

wm_driver *bench_driver_open(int devices)
{
    bench_device *device =
        aligned_alloc(_Alignof(bench_device), sizeof *device);

    wm_process_init();
    if (device == NULL) {
        return NULL;
    }
    memset(device, 0, sizeof *device);
    wm_driver_init(&device->driver, &bench_ops, "bench", devices);
    /* Memory is only counted: large regions are not to be mapped and touched,
     * and registered in pieces. */
    device->driver.register_locks = false;
    device->standard = bench_stream_new();
    if (device->standard == NULL) {
        free(device);
        return NULL;
    }
    return &device->driver;
}
