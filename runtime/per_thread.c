/* per_thread.c: functions for code that is built for per-thread default streams
 * (warmpool/per_thread.h): null means the calling thread's default stream. All
 * else is as in the functions without the suffix. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "build the library without CUDA_API_PER_THREAD_DEFAULT_STREAM"
#endif

#include "warmpool/testing.h"
#include "warmpool/warmpool.h"

/* X(name, parameters, arguments): functions with a parameter stream. */
#define STREAM_CALLS(X)                                                        \
    X(warm_allocator_alloc,                                                    \
      (const warm_allocator *allocator, size_t bytes, warm_stream stream,      \
       void **pointer),                                                        \
      (allocator, bytes, stream, pointer))                                     \
    X(warm_capture_announce, (warm_runtime * runtime, warm_stream stream),     \
      (runtime, stream))                                                       \
    X(warm_capture_announce_end, (warm_runtime * runtime, warm_stream stream), \
      (runtime, stream))                                                       \
    X(warm_capture_begin, (warm_runtime * runtime, warm_stream stream),        \
      (runtime, stream))                                                       \
    X(warm_capture_end,                                                        \
      (warm_runtime * runtime, warm_stream stream, warm_graph * graph),        \
      (runtime, stream, graph))                                                \
    X(warm_copy_async,                                                         \
      (warm_runtime * runtime, void *destination, const void *source,          \
       size_t bytes, warm_copy_direction direction, warm_stream stream),       \
      (runtime, destination, source, bytes, direction, stream))                \
    X(warm_copy_2d_async,                                                      \
      (warm_runtime * runtime, void *destination, size_t destination_pitch,    \
       const void *source, size_t source_pitch, size_t width, size_t height,   \
       warm_stream stream),                                                    \
      (runtime, destination, destination_pitch, source, source_pitch, width,   \
       height, stream))                                                        \
    X(warm_data_pointer_alloc,                                                 \
      (const warm_allocator *allocator, size_t bytes, warm_stream stream,      \
       warm_data_pointer *data),                                               \
      (allocator, bytes, stream, data))                                        \
    X(warm_data_pointer_clone,                                                 \
      (warm_runtime * runtime, const warm_allocator *allocator,                \
       const void *source, size_t bytes, warm_stream stream,                   \
       warm_data_pointer *data),                                               \
      (runtime, allocator, source, bytes, stream, data))                       \
    X(warm_device_alloc,                                                       \
      (warm_runtime * runtime, int device, warm_stream stream, size_t bytes,   \
       void **pointer),                                                        \
      (runtime, device, stream, bytes, pointer))                               \
    X(warm_device_alloc_aligned,                                               \
      (warm_runtime * runtime, int device, warm_stream stream, size_t bytes,   \
       size_t alignment, void **pointer),                                      \
      (runtime, device, stream, bytes, alignment, pointer))                    \
    X(warm_event_record,                                                       \
      (warm_runtime * runtime, warm_event event, warm_stream stream),          \
      (runtime, event, stream))                                                \
    X(warm_graph_launch,                                                       \
      (warm_runtime * runtime, warm_graph graph, warm_stream stream),          \
      (runtime, graph, stream))                                                \
    X(warm_handle_lease_on,                                                    \
      (warm_runtime * runtime, warm_kind kind, int device, warm_stream stream, \
       warm_lease *lease, void **handle),                                      \
      (runtime, kind, device, stream, lease, handle))                          \
    X(warm_handle_reserve_on,                                                  \
      (warm_runtime * runtime, warm_kind kind, int device, warm_stream stream, \
       void **handle),                                                         \
      (runtime, kind, device, stream, handle))                                 \
    X(warm_lease_bind,                                                         \
      (warm_runtime * runtime, warm_lease lease, warm_stream stream),          \
      (runtime, lease, stream))                                                \
    X(warm_record_stream, (const void *pointer, warm_stream stream),           \
      (pointer, stream))                                                       \
    X(warm_shared_record,                                                      \
      (warm_runtime * runtime, void *const *pointers, size_t count,            \
       warm_stream stream, size_t *recorded),                                  \
      (runtime, pointers, count, stream, recorded))                            \
    X(warm_staging_copy,                                                       \
      (warm_staging * staging, void *destination, const void *source,          \
       size_t bytes, warm_copy_direction direction, warm_stream stream,        \
       unsigned flags),                                                        \
      (staging, destination, source, bytes, direction, stream, flags))         \
    X(warm_storage_create,                                                     \
      (const warm_allocator *allocator, size_t bytes, warm_stream stream,      \
       warm_storage **storage),                                                \
      (allocator, bytes, stream, storage))                                     \
    X(warm_storage_record, (const warm_storage *storage, warm_stream stream),  \
      (storage, stream))                                                       \
    X(warm_stream_adopt, (warm_runtime * runtime, warm_stream stream),         \
      (runtime, stream))                                                       \
    X(warm_stream_host_func,                                                   \
      (warm_runtime * runtime, warm_stream stream, warm_host_fn function,      \
       void *argument),                                                        \
      (runtime, stream, function, argument))                                   \
    X(warm_stream_query, (warm_runtime * runtime, warm_stream stream),         \
      (runtime, stream))                                                       \
    X(warm_stream_retire, (warm_runtime * runtime, warm_stream stream),        \
      (runtime, stream))                                                       \
    X(warm_stream_synchronize, (warm_runtime * runtime, warm_stream stream),   \
      (runtime, stream))                                                       \
    X(warm_stream_wait_event,                                                  \
      (warm_runtime * runtime, warm_stream stream, warm_event event),          \
      (runtime, stream, event))                                                \
    X(warm_testing_capture_begin,                                              \
      (warm_runtime * runtime, warm_stream stream), (runtime, stream))         \
    X(warm_testing_capture_end,                                                \
      (warm_runtime * runtime, warm_stream stream, warm_graph * graph),        \
      (runtime, stream, graph))                                                \
    X(warm_testing_copy,                                                       \
      (warm_runtime * runtime, void *destination, const void *source,          \
       size_t bytes, warm_stream stream),                                      \
      (runtime, destination, source, bytes, stream))                           \
    X(warm_testing_hold, (warm_runtime * runtime, warm_stream stream),         \
      (runtime, stream))                                                       \
    X(warm_testing_resume, (warm_runtime * runtime, warm_stream stream),       \
      (runtime, stream))                                                       \
    X(warm_testing_step,                                                       \
      (warm_runtime * runtime, warm_stream stream, unsigned count),            \
      (runtime, stream, count))                                                \
    X(warm_thread_set_stream, (warm_runtime * runtime, warm_stream stream),    \
      (runtime, stream))

#define DEFINE(name, parameters, arguments)                                    \
    WARM_API warm_status name##_ptsz parameters;                               \
    warm_status name##_ptsz parameters                                         \
    {                                                                          \
        if (stream == NULL) {                                                  \
            stream = WARM_STREAM_PER_THREAD;                                   \
        }                                                                      \
        return name arguments;                                                 \
    }

STREAM_CALLS(DEFINE)
