/* others.c: a preloaded library that gives a test program company, for `make
 * check-others`. Each machine has three devices, and what the program calls
 * device 0 is device 2 of the library, and the other way round. Beside the
 * program's runtimes lives one more, in which the thread that creates the first
 * runtime, and another thread that lives on, have streams, device memory and
 * pinned memory.
 *
 * Device numbers are moved where the program passes one to a function of the
 * public headers or reads it from a struct that it gets. Not moved: those in
 * texts, in callbacks, and in calls of CUDA. Tests that go by these are listed
 * in others.txt. */
#include "warmpool/warmpool.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 3, BLOCKS = 8 };

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

/* ---- moved device numbers ------------------------------------------------ */

static uintptr_t library, library_end; /* addresses of its code and data */
static int last; /* device; 0 until the first runtime is made */

static int find(struct dl_phdr_info *info, size_t size, void *none)
{
    (void)size;
    (void)none;
    if (strstr(info->dlpi_name, "libwarmpool.so") == NULL) {
        return 0;
    }
    library = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t end = library + part->p_vaddr + part->p_memsz;

        if (part->p_type == PT_LOAD && end > library_end) {
            library_end = end;
        }
    }
    return 1;
}

__attribute__((constructor)) static void start(void)
{
    (void)dl_iterate_phdr(find, NULL);
    setenv("STANDIN_DEVICES", "3", 1);
}

/* As the library numbers it, or back; the library's own calls stay. */
static int moved(int device, const void *caller)
{
    if ((uintptr_t)caller >= library && (uintptr_t)caller < library_end) {
        return device;
    }
    return device == 0 ? last : device == last ? 0 : device;
}

#define EXPORT __attribute__((visibility("default")))
#define NEXT(name)                                                             \
    static __typeof__(name) *next_;                                            \
    if (next_ == NULL) {                                                       \
        *(void **)(void *)&next_ = next(#name);                                \
    }
#define MOVED_IN(number, name, types, arguments)                               \
    EXPORT warm_status name types                                              \
    {                                                                          \
        NEXT(name)                                                             \
        number = moved(number, __builtin_return_address(0));                   \
        return next_ arguments;                                                \
    }
#define MOVED(name, types, arguments) MOVED_IN(device, name, types, arguments)
#define MOVED_MEMORY(name, types, arguments)                                   \
    MOVED_IN(memory, name, types, arguments)
#define FOUND(name, from, info_type)                                           \
    EXPORT warm_status name(from of, info_type *info)                          \
    {                                                                          \
        warm_status status;                                                    \
                                                                               \
        NEXT(name)                                                             \
        status = next_(of, info);                                              \
        if (status == WARM_OK) {                                               \
            info->device = moved(info->device, __builtin_return_address(0));   \
        }                                                                      \
        return status;                                                         \
    }

MOVED(warm_device_get_info,
      (warm_runtime * runtime, int device, warm_device_info *info),
      (runtime, device, info))
MOVED(warm_stream_create,
      (warm_runtime * runtime, int device, warm_stream *stream),
      (runtime, device, stream))
MOVED(warm_event_create,
      (warm_runtime * runtime, int device, warm_event *event),
      (runtime, device, event))
MOVED(warm_device_alloc_uncached,
      (warm_runtime * runtime, int device, size_t bytes, void **pointer),
      (runtime, device, bytes, pointer))
MOVED(warm_device_free_uncached,
      (warm_runtime * runtime, int device, void *pointer),
      (runtime, device, pointer))
MOVED(warm_device_alloc,
      (warm_runtime * runtime, int device, warm_stream stream, size_t bytes,
       void **pointer),
      (runtime, device, stream, bytes, pointer))
MOVED(warm_device_alloc_aligned,
      (warm_runtime * runtime, int device, warm_stream stream, size_t bytes,
       size_t alignment, void **pointer),
      (runtime, device, stream, bytes, alignment, pointer))
MOVED(warm_device_cache_info,
      (warm_runtime * runtime, int device, warm_device_cache *info),
      (runtime, device, info))
MOVED(warm_device_get_stats,
      (warm_runtime * runtime, int device, warm_device_stats *stats),
      (runtime, device, stats))
MOVED(warm_device_get_histograms,
      (warm_runtime * runtime, int device, warm_space_histograms *histograms),
      (runtime, device, histograms))
MOVED(warm_device_reset_peaks, (warm_runtime * runtime, int device),
      (runtime, device))
MOVED(warm_device_reset_totals, (warm_runtime * runtime, int device),
      (runtime, device))
MOVED(warm_device_trim,
      (warm_runtime * runtime, int device, size_t target, size_t *released),
      (runtime, device, target, released))
MOVED(warm_handle_reserve,
      (warm_runtime * runtime, warm_kind kind, int device, void **handle),
      (runtime, kind, device, handle))
MOVED(warm_handle_reserve_on,
      (warm_runtime * runtime, warm_kind kind, int device, warm_stream stream,
       void **handle),
      (runtime, kind, device, stream, handle))
MOVED(warm_stream_reserve,
      (warm_runtime * runtime, int device, warm_stream *stream),
      (runtime, device, stream))
MOVED(warm_handle_lease,
      (warm_runtime * runtime, warm_kind kind, int device, warm_lease *lease,
       void **handle),
      (runtime, kind, device, lease, handle))
MOVED(warm_handle_lease_on,
      (warm_runtime * runtime, warm_kind kind, int device, warm_stream stream,
       warm_lease *lease, void **handle),
      (runtime, kind, device, stream, lease, handle))
MOVED(warm_handle_prewarm,
      (warm_runtime * runtime, warm_kind kind, int device, unsigned count,
       unsigned flags),
      (runtime, kind, device, count, flags))
MOVED(warm_handle_trim,
      (warm_runtime * runtime, warm_kind kind, int device, uint64_t keep,
       uint64_t idle_ns, uint64_t *destroyed),
      (runtime, kind, device, keep, idle_ns, destroyed))
MOVED(warm_handle_get_stats,
      (warm_runtime * runtime, warm_kind kind, int device,
       warm_handle_stats *stats),
      (runtime, kind, device, stats))
MOVED_MEMORY(warm_watermarks_get,
             (warm_runtime * runtime, int memory, warm_watermarks *watermarks),
             (runtime, memory, watermarks))
MOVED_MEMORY(warm_watermarks_set,
             (warm_runtime * runtime, int memory, uint64_t high, uint64_t low),
             (runtime, memory, high, low))
MOVED_MEMORY(warm_watermarks_set_ratio,
             (warm_runtime * runtime, int memory, double high, double low),
             (runtime, memory, high, low))
MOVED_MEMORY(warm_low_watermark_value,
             (warm_runtime * runtime, int memory, uint64_t *bytes),
             (runtime, memory, bytes))
MOVED_MEMORY(warm_memory_get_totals,
             (warm_runtime * runtime, int memory, warm_memory_totals *totals),
             (runtime, memory, totals))
MOVED(warm_shared_alloc,
      (warm_runtime * runtime, int device, size_t bytes, warm_usage usage,
       void **pointer),
      (runtime, device, bytes, usage, pointer))
MOVED(warm_shared_alloc_scalar,
      (warm_runtime * runtime, int device, const void *value, size_t bytes,
       void **pointer),
      (runtime, device, value, bytes, pointer))
MOVED(warm_shared_free_inactive,
      (warm_runtime * runtime, int device, size_t *freed),
      (runtime, device, freed))
MOVED(warm_shared_trim,
      (warm_runtime * runtime, int device, size_t target, size_t *released),
      (runtime, device, target, released))
MOVED(warm_shared_get_stats,
      (warm_runtime * runtime, int device, warm_usage usage,
       warm_space_stats *stats),
      (runtime, device, usage, stats))
MOVED(warm_shared_get_histograms,
      (warm_runtime * runtime, int device, warm_usage usage,
       warm_space_histograms *histograms),
      (runtime, device, usage, histograms))
MOVED(warm_staging_create,
      (warm_runtime * runtime, int device, const warm_staging_options *options,
       warm_staging **staging),
      (runtime, device, options, staging))
MOVED(warm_allocator_get,
      (warm_runtime * runtime, warm_memory memory, int device,
       const warm_allocator **allocator),
      (runtime, memory, device, allocator))
FOUND(warm_block_get_info, const void *, warm_block_info)
FOUND(warm_shared_get_info, const void *, warm_shared_info)
FOUND(warm_storage_get_info, const warm_storage *, warm_storage_info)

EXPORT warm_status warm_device_current(warm_runtime *runtime, int *device)
{
    warm_status status;

    NEXT(warm_device_current)
    status = next_(runtime, device);
    if (status == WARM_OK) {
        *device = moved(*device, __builtin_return_address(0));
    }
    return status;
}

/* ---- the other runtime --------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static warm_runtime *other; /* of the first thread that creates one */
static bool ready;          /* the thread has its memory; lock mutex */

/* Some blocks live, others cached by the thread. What a test has made fail is
 * left out. */
static void take_memory(void)
{
    for (int d = 0; d <= last; d++) {
        warm_stream stream = NULL;
        void *block[BLOCKS] = {NULL};

        (void)warm_stream_create(other, moved(d, NULL), &stream);
        for (int i = 0; i < BLOCKS; i++) {
            (void)warm_device_alloc(other, moved(d, NULL), stream, 5000U << i,
                                    &block[i]);
        }
        for (int i = 0; i < BLOCKS; i += 2) {
            (void)warm_free(block[i]);
            block[i] = NULL;
            (void)warm_pinned_alloc(other, 3000U << i, &block[i]);
        }
        for (int i = 0; d > 0 && i < BLOCKS; i += 2) {
            (void)warm_free(block[i]);
        }
    }
}

static void *live_on(void *none)
{
    take_memory();
    pthread_mutex_lock(&mutex);
    ready = true;
    pthread_cond_broadcast(&changed);
    while (true) {
        pthread_cond_wait(&changed, &mutex);
    }
    return none;
}

static void have_other(const char *device)
{
    warm_options options = {
        .size = sizeof options, .device = device, .host_devices = DEVICES};
    __typeof__(warm_runtime_create) *create;
    pthread_t thread;
    int count = 0;

    *(void **)(void *)&create = next("warm_runtime_create");
    if (create(&options, &other) != WARM_OK) {
        return;
    }
    (void)warm_device_count(other, &count);
    last = count - 1;
    take_memory();
    if (pthread_create(&thread, NULL, live_on, NULL) != 0) {
        return;
    }
    pthread_detach(thread);
    pthread_mutex_lock(&mutex);
    while (!ready) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
}

EXPORT warm_status warm_runtime_create(const warm_options *options,
                                       warm_runtime **runtime)
{
    warm_options three;

    NEXT(warm_runtime_create)
    if (options == NULL || options->size != sizeof three) {
        return next_(options, runtime);
    }
    three = *options;
    if (three.host_devices < DEVICES) {
        three.host_devices = DEVICES;
    }
    if (other == NULL && options->device != NULL) {
        have_other(options->device);
    }
    return next_(&three, runtime);
}
