/* wt_calls.h: every public function of misuse.h with right arguments, which a
 * program can make, pass, and end.
 *
 * Each argument is of a domain: how a right value is made and ended, and which
 * values are wrong. f holds what all calls work on. Include it once in a
 * program. */
#ifndef WT_CALLS_H
#define WT_CALLS_H

#include "api/misuse.h"
#include "wt_kind.h"
#include "wt_peer.h"

#include "warmpool/testing.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* A set of statuses. */
#define M(status) (1u << WARM_##status)
#define OK        M(OK)
#define INV       M(INVALID_ARGUMENT)
#define M_REFUSED                                                              \
    (INV | M(NOT_FOUND) | M(RUNTIME_GONE) | M(FORKED) | M(EXITING))
#define NONE        31 /* the answer 0 or null of a function without a status */
#define BLOCK_BYTES ((size_t)5000)

typedef struct value {
    void *p;
    uint64_t n;
    double d;
    void *extra; /* what p was made of */
} value;

typedef struct bad {
    const char *name;
    enum { SET, ADD, SIZE, FIELD, RATE, DEAD, OF_FIXTURE } how;
    int64_t n;
    unsigned mask;
} bad;

/* What all tests have. */
static struct fixture {
    warm_runtime *runtime, *gone, *other;
    wt_toy toy, other_toy;
    warm_kind kind;
    warm_stream stream, far; /* far: of device 1 */
    const warm_allocator *allocator, *gone_allocator;
    warm_storage *gone_storage;
    warm_staging *gone_ring;
    void *gone_block, *gone_device_block, *adopted_page, *page_block;
    wt_peer *peer;
    warm_ipc_handle handle;
    char html[WT_FOLDER + 8], folder[WT_FOLDER];
} f;

static char text[1 << 20];
static unsigned cells, calls_made;

/* ---- the domains --------------------------------------------------------- */

/* X(name, type, expression of a value, make, drop, wrong values, number): the
 * number is that of make_nothing(), or the size of a struct. */
#define OUTPUT(X, name, drop, bads) X(name, void *, v->p, area, drop, bads, 0)
#define STRUCT(X, name, type)                                                  \
    X(name, void *, v->p, area, nothing, of_struct, sizeof(type))
#define NUMBER_OF(X, name, type, bads, number)                                 \
    X(name, type, (type)v->n, nothing, nothing, bads, number)
#define OBJECT(X, name, make, drop, bads)                                      \
    X(name, void *, v->p, make, drop, bads, 0)
#define POOL_OF(X, name, make, drop)                                           \
    X(name, warm_private_pool, (warm_private_pool){v->n}, make, drop, of_pool, \
      0)
#define FUNCTION(X, name, type, value, drop)                                   \
    X(name, type, value, nothing, drop, of_nothing, 0)

/* Pools that record, and captures, come last: all exist at once in some tests.
 */
#define DOMAINS(X)                                                             \
    OBJECT(X, RUNTIME, runtime, nothing, of_runtime)                           \
    OBJECT(X, OWN_RUNTIME, own_runtime, own_runtime, of_own_runtime)           \
    X(OPTIONS, void *, v->p, options, nothing, of_struct_or_null,              \
      sizeof(warm_options))                                                    \
    X(REPORT, void *, v->p, area, nothing, of_struct_or_null,                  \
      sizeof(warm_destroy_report))                                             \
    X(TRIM_REPORT, void *, v->p, area, nothing, of_struct_or_null,             \
      sizeof(warm_trim_report))                                                \
    X(PREWARM_OPTIONS, void *, v->p, in, nothing, of_struct_or_null,           \
      sizeof(warm_prewarm_options))                                            \
    X(STAGING_OPTIONS, void *, v->p, in, nothing, of_struct_or_null,           \
      sizeof(warm_staging_options))                                            \
    X(SOME_ERROR, void *, v->p, area, nothing, of_nothing, sizeof(warm_error)) \
    X(KIND_OPS, void *, v->p, kind_ops, nothing, of_kind_ops,                  \
      sizeof(warm_kind_ops))                                                   \
    X(CALLBACK, void *, v->p, callback, callback, of_callback,                 \
      sizeof(warm_memory_callback))                                            \
    X(NEW_ALLOCATOR, void *, v->p, new_allocator, new_allocator,               \
      of_new_allocator, sizeof(warm_allocator))                                \
    X(REGISTERED, void *, v->p, registered, registered, of_registered,         \
      sizeof(warm_allocator))                                                  \
    X(NEW_DATA, void *, v->p, area, new_data, of_struct,                       \
      sizeof(warm_data_pointer))                                               \
    X(IPC_HANDLE, void *, v->p, ipc_handle, nothing, of_ipc_handle,            \
      sizeof(warm_ipc_handle))                                                 \
    STRUCT(X, HANDLE_STATS, warm_handle_stats)                                 \
    STRUCT(X, DEVICE_INFO, warm_device_info)                                   \
    STRUCT(X, BLOCK_INFO, warm_block_info)                                     \
    STRUCT(X, DEVICE_CACHE, warm_device_cache)                                 \
    STRUCT(X, DEVICE_STATS, warm_device_stats)                                 \
    STRUCT(X, HISTOGRAMS, warm_space_histograms)                               \
    STRUCT(X, SHARED_INFO, warm_shared_info)                                   \
    STRUCT(X, SPACE_STATS, warm_space_stats)                                   \
    STRUCT(X, POOL_INFO, warm_private_pool_info)                               \
    STRUCT(X, WATERMARKS, warm_watermarks)                                     \
    STRUCT(X, TOTALS, warm_memory_totals)                                      \
    STRUCT(X, CLASS_STATS, warm_class_stats)                                   \
    STRUCT(X, STATS, warm_stats)                                               \
    STRUCT(X, STORAGE_INFO, warm_storage_info)                                 \
    STRUCT(X, STAGING_STATS, warm_staging_stats)                               \
    STRUCT(X, IPC_OUT, warm_ipc_handle)                                        \
    STRUCT(X, IPC_STATS, warm_ipc_stats)                                       \
    OUTPUT(X, OUT, nothing, of_output)                                         \
    OUTPUT(X, MAYBE, nothing, of_nothing)                                      \
    OUTPUT(X, DEFAULT, new_runtime, of_output)                                 \
    OUTPUT(X, NEW_RUNTIME, new_runtime, of_output)                             \
    OUTPUT(X, NEW_STREAM, new_stream, of_output)                               \
    OUTPUT(X, NEW_EVENT, new_event, of_output)                                 \
    OUTPUT(X, NEW_GRAPH, new_graph, of_output)                                 \
    OUTPUT(X, NEW_LEASE, new_lease, of_output)                                 \
    OUTPUT(X, NEW_BLOCK, new_block, of_output)                                 \
    OUTPUT(X, NEW_UNCACHED, new_uncached, of_output)                           \
    OUTPUT(X, NEW_STORAGE, new_storage, of_output)                             \
    OUTPUT(X, NEW_RING, new_ring, of_output)                                   \
    OUTPUT(X, NEW_IMPORT, new_import, of_output)                               \
    OUTPUT(X, RESERVED, reserved, of_output)                                   \
    NUMBER_OF(X, NUMBER, int, of_nothing, 0)                                   \
    NUMBER_OF(X, STATUS, warm_status, of_nothing, 0)                           \
    NUMBER_OF(X, A_MEMORY, warm_memory, of_nothing, 0)                         \
    NUMBER_OF(X, ZERO, uint64_t, of_nothing, 0)                                \
    NUMBER_OF(X, MANY, uint64_t, of_nothing, 1 << 30)                          \
    NUMBER_OF(X, COUNT, unsigned, of_nothing, 1)                               \
    NUMBER_OF(X, DEVICE, int, of_device, 0)                                    \
    X(KIND, int, (int)v->n, kind, nothing, of_kind, 0)                         \
    NUMBER_OF(X, NODE, int, of_node, 0)                                        \
    NUMBER_OF(X, NODE_INDEX, int, of_index, 0)                                 \
    NUMBER_OF(X, CLASS, int, of_index, 0)                                      \
    NUMBER_OF(X, MEMORY, int, of_memory, 0)                                    \
    NUMBER_OF(X, MEMORY_KIND, warm_memory, of_choice, WARM_MEMORY_DEVICE)      \
    NUMBER_OF(X, USAGE, warm_usage, of_choice, WARM_USAGE_SHARED)              \
    NUMBER_OF(X, DIRECTION, warm_copy_direction, of_choice,                    \
              WARM_COPY_TO_DEVICE)                                             \
    NUMBER_OF(X, PREWARM_FLAGS, unsigned, of_one_flag, 0)                      \
    NUMBER_OF(X, PIN_FLAGS, unsigned, of_three_flags, 0)                       \
    NUMBER_OF(X, ADOPT_FLAGS, unsigned, of_three_flags, 0)                     \
    NUMBER_OF(X, POOL_FLAGS, unsigned, of_pool_flags, 0)                       \
    NUMBER_OF(X, PAUSE_FLAGS, unsigned, of_one_flag, 0)                        \
    NUMBER_OF(X, STAGING_FLAGS, unsigned, of_two_flags, 0)                     \
    NUMBER_OF(X, BYTES, size_t, of_bytes, BLOCK_BYTES)                         \
    NUMBER_OF(X, PREWARM_BYTES, size_t, of_bytes, 0)                           \
    NUMBER_OF(X, COPY_BYTES, size_t, of_copy_bytes, 64)                        \
    NUMBER_OF(X, PLAIN_BYTES, size_t, of_nothing, 64)                          \
    NUMBER_OF(X, TEXT_BYTES, size_t, of_text_bytes, sizeof text)               \
    NUMBER_OF(X, MAPPED_BYTES, size_t, of_mapped_bytes, 65536)                 \
    NUMBER_OF(X, SCALAR_BYTES, size_t, of_scalar_bytes, 8)                     \
    NUMBER_OF(X, ALIGNMENT, size_t, of_alignment, 4096)                        \
    NUMBER_OF(X, ROW, size_t, of_row, 100)                                     \
    NUMBER_OF(X, PITCH, size_t, of_pitch, 128)                                 \
    NUMBER_OF(X, WIDTH, size_t, of_nothing, 64)                                \
    NUMBER_OF(X, HEIGHT, size_t, of_height, 2)                                 \
    NUMBER_OF(X, PIECE, size_t, of_piece, 0)                                   \
    NUMBER_OF(X, WATERMARK, uint64_t, of_watermark, 0)                         \
    X(RATIO, double, v->d, nothing, nothing, of_ratio, 0)                      \
    FUNCTION(X, LOG_FN, warm_log_fn, hear_line, log)                           \
    FUNCTION(X, FILTER_FN, warm_pool_filter_fn, match_none, nothing)           \
    FUNCTION(X, CLOCK_FN, warm_testing_clock_fn, NULL, nothing)                \
    FUNCTION(X, CONTEXT, void *, NULL, nothing)                                \
    X(HOST_FN, warm_host_fn, v->n != 0 ? do_nothing : NULL, nothing, nothing,  \
      of_output, 1)                                                            \
    X(DONE_FN, warm_host_fn, v->n != 0 ? do_nothing : NULL, nothing, nothing,  \
      of_nothing, 0)                                                           \
    OBJECT(X, TEXT, text, nothing, of_output)                                  \
    OBJECT(X, PATH, path, nothing, of_path)                                    \
    OBJECT(X, TAG, tag, nothing, of_tag)                                       \
    OBJECT(X, CALL_NAME, call_name, nothing, of_name)                          \
    OBJECT(X, CALLBACK_NAME, callback_name, callback_name, of_name)            \
    OBJECT(X, SCALAR, area, nothing, of_output)                                \
    OBJECT(X, EXTENTS, in, nothing, of_output)                                 \
    OBJECT(X, HOST_BYTES, in, nothing, of_output)                              \
    OBJECT(X, STREAM, stream, nothing, of_stream)                              \
    OBJECT(X, ANY_STREAM, stream, nothing, of_any_stream)                      \
    FUNCTION(X, NULL_STREAM, void *, NULL, nothing)                            \
    OBJECT(X, STREAM_TAKEN, own_stream, own_stream, of_owned_stream)           \
    OBJECT(X, TO_ADOPT, to_adopt, stream_always, of_owned_stream)              \
    OBJECT(X, TO_RETIRE, own_stream, stream_always, of_any_stream)             \
    OBJECT(X, TO_HOLD, own_stream, held, of_any_stream)                        \
    OBJECT(X, HELD, held, held, of_any_stream)                                 \
    OBJECT(X, EVENT, event, event, of_event)                                   \
    OBJECT(X, EVENT_TAKEN, event, event_taken, of_own_event)                   \
    OBJECT(X, GRAPH, graph, graph, of_graph)                                   \
    OBJECT(X, GRAPH_TAKEN, graph, graph_taken, of_own_graph)                   \
    OBJECT(X, BLOCK, block, block, of_block)                                   \
    OBJECT(X, DEVICE_BLOCK, device_block, device_block, of_block)              \
    OBJECT(X, BUFFER_TAKEN, buffer, block, of_block)                           \
    OBJECT(X, INTO, into, into, of_part)                                       \
    OBJECT(X, INTO_DEVICE, into_device, into_device, of_part)                  \
    OBJECT(X, COPY_FROM, into, into, of_output)                                \
    OBJECT(X, COPY_TO, into_device, into_device, of_output)                    \
    OBJECT(X, UNCACHED, uncached, uncached, of_uncached)                       \
    OBJECT(X, BUFFER, buffer, into, of_part)                                   \
    OBJECT(X, TO_USE, buffer, to_use, of_part)                                 \
    OBJECT(X, USED, used, used, of_part)                                       \
    OBJECT(X, SHAPED, shaped, into, of_part)                                   \
    OBJECT(X, BUFFERS, buffers, into, of_output)                               \
    X(LEASE, warm_lease, (warm_lease){v->n}, lease, lease, of_lease, 0)        \
    X(LEASE_TAKEN, warm_lease, (warm_lease){v->n}, lease, lease_taken,         \
      of_lease, 0)                                                             \
    OBJECT(X, LEASED, lease, lease, of_leased)                                 \
    OBJECT(X, ALLOCATOR, allocator, nothing, of_allocator)                     \
    OBJECT(X, ALLOCATOR_OR_NULL, allocator, nothing, of_nothing)               \
    OBJECT(X, DATA, data, data, of_output)                                     \
    OBJECT(X, DATA_TAKEN, data, data_taken, of_output)                         \
    OBJECT(X, STORAGE, storage, storage, of_output)                            \
    OBJECT(X, STORAGE_TAKEN, storage, storage_taken, of_output)                \
    OBJECT(X, STORAGE_WEAK, storage_weak, storage_weak, of_output)             \
    OBJECT(X, TO_REFER, storage, to_refer, of_output)                          \
    OBJECT(X, TO_REFER_WEAKLY, storage, to_refer_weakly, of_output)            \
    OBJECT(X, RING, ring, ring, of_ring)                                       \
    OBJECT(X, RING_TAKEN, ring, ring_taken, of_nothing)                        \
    OBJECT(X, MAPPED, mapped, mapped, of_mapped)                               \
    OBJECT(X, ADOPTED, adopted, adopted, of_adopted)                           \
    OBJECT(X, IMPORT, import, import, of_import)                               \
    POOL_OF(X, POOL, pool, pool)                                               \
    POOL_OF(X, POOL_TAKEN, pool, pool_taken)                                   \
    POOL_OF(X, TO_RETAIN, pool, to_retain)                                     \
    POOL_OF(X, TO_PAUSE, to_pause, to_pause)                                   \
    POOL_OF(X, PAUSED, paused, paused)                                         \
    OBJECT(X, TO_BEGIN, to_begin, to_begin, of_output)                         \
    POOL_OF(X, RECORDING, recording, recording)                                \
    OBJECT(X, TO_ANNOUNCE, own_stream, stream_always, of_any_stream)           \
    OBJECT(X, ANNOUNCED, announced, stream_always, of_announced)               \
    OBJECT(X, TO_CAPTURE, own_stream, to_capture, of_captured)                 \
    OBJECT(X, CAPTURING, capturing, capturing, of_any_stream)                  \
    OBJECT(X, TO_TEST_CAPTURE, own_stream, to_test_capture, of_any_stream)     \
    OBJECT(X, TEST_CAPTURING, test_capturing, test_capturing, of_any_stream)

enum domain {
#define DOMAIN_ENUM(name, type, value, make, drop, bads, number) D_##name,
    DOMAINS(DOMAIN_ENUM) DOMAIN_COUNT
#undef DOMAIN_ENUM
};

/* ---- failures: noted by any thread, asserted by the test ----------------- */

static unsigned troubles;
static bool quiet;

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...)
{
    va_list list;

    char line[2048];

    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (troubles++ < 100) {
        fprintf(stderr, "%s\n", line);
    }
}

static bool need_(warm_status status, const char *what)
{
    if (status != WARM_OK && !quiet) {
        fault("%s: %s: %s", what, warm_status_name(status),
              warm_last_error_message());
    }
    return status == WARM_OK;
}
#define need(call) need_(call, #call)

static void no_trouble(void)
{
    ck_assert_msg(troubles == 0, "%u cells are wrong", troubles);
}

/* ---- wrong values -------------------------------------------------------- */

#define B(name, how, n, mask)                                                  \
    {                                                                          \
        name, how, n, mask                                                     \
    }
#define BADS(name, ...)                                                        \
    static const bad name[] = {__VA_ARGS__, B(NULL, SET, 0, 0)}
#define AT(field) offsetof(struct fixture, field)

/* What several have. */
#define IS_NULL    B("null", SET, 0, INV)
#define LARGE_INT  B("most", SET, INT_MAX, INV), B("least", SET, INT_MIN, INV)
#define LARGE_SIZE B("most", SET, -1, INV)
#define BAD_SIZES                                                              \
    B("size 0", SIZE, 0, INV), B("size 3", SIZE, 3, INV),                      \
        B("larger", SIZE, 4096, INV), B("size -1", SIZE, -1, INV)
#define BAD_STREAMS(mask)                                                      \
    B("small", SET, 4160, mask), B("foreign", OF_FIXTURE, -1, mask),           \
        B("destroyed", DEAD, D_STREAM_TAKEN, mask)
#define BAD_POINTERS(mask)                                                     \
    B("foreign", OF_FIXTURE, -1, mask), B("freed", DEAD, D_BLOCK, mask),       \
        B("freed of a device", DEAD, D_DEVICE_BLOCK, mask),                    \
        B("freed buffer", DEAD, D_BUFFER_TAKEN, mask), B("1", SET, 1, mask),   \
        B("last address", SET, -1, mask), B("kernel's", SET, INT64_MIN, mask), \
        B("of a gone runtime", OF_FIXTURE, AT(gone_block),                     \
          (mask) | M(RUNTIME_GONE)),                                           \
        B("of a gone device", OF_FIXTURE, AT(gone_device_block),               \
          (mask) | M(RUNTIME_GONE))

BADS(of_output, IS_NULL);
BADS(of_struct, IS_NULL, BAD_SIZES);
BADS(of_struct_or_null, BAD_SIZES);
BADS(of_runtime, IS_NULL, B("gone", OF_FIXTURE, AT(gone), M(RUNTIME_GONE)));
BADS(of_own_runtime, B("gone", OF_FIXTURE, AT(gone), M(RUNTIME_GONE)));
BADS(of_device, B("-1", SET, -1, INV), B("count", SET, 2, INV), LARGE_INT);
BADS(of_kind, B("-1", SET, -1, INV), B("unknown", SET, 31, INV),
     B("KIND_MAX", SET, 32, INV), LARGE_INT);
BADS(of_memory, B("-3", SET, -3, INV), B("count", SET, 2, INV), LARGE_INT);
BADS(of_node, B("-2", SET, -2, INV), B("4096", SET, 4096, INV), LARGE_INT);
BADS(of_index, B("-1", SET, -1, INV), B("4096", SET, 4096, INV), LARGE_INT);
BADS(of_choice, B("-1", SET, -1, INV), B("9", SET, 9, INV), LARGE_INT);
BADS(of_any_stream, BAD_STREAMS(M(INVALID_STREAM)));
BADS(of_stream, BAD_STREAMS(M(INVALID_STREAM)),
     B("of another device", OF_FIXTURE, AT(far), INV | OK));
BADS(of_announced, BAD_STREAMS(M(INVALID_STREAM) | INV));
BADS(of_owned_stream, BAD_STREAMS(M(INVALID_STREAM)), B("legacy", SET, 1, INV),
     B("per thread", SET, 2, INV));
BADS(of_captured, BAD_STREAMS(M(INVALID_STREAM)),
     B("legacy", SET, 1, INV | M(CAPTURE_ERROR)));
BADS(of_event, B("null", SET, 0, INV | M(INVALID_STREAM)),
     B("foreign", OF_FIXTURE, -1, M(INVALID_STREAM)),
     B("destroyed", DEAD, D_EVENT_TAKEN, M(INVALID_STREAM)));
BADS(of_own_event, B("foreign", OF_FIXTURE, -1, M(INVALID_STREAM)),
     B("destroyed", DEAD, D_EVENT_TAKEN, M(INVALID_STREAM)));
BADS(of_graph, B("null", SET, 0, INV | M(INVALID_STREAM)),
     B("foreign", OF_FIXTURE, -1, M(INVALID_STREAM)),
     B("destroyed", DEAD, D_GRAPH_TAKEN, M(INVALID_STREAM)));
BADS(of_own_graph, B("foreign", OF_FIXTURE, -1, M(INVALID_STREAM)),
     B("destroyed", DEAD, D_GRAPH_TAKEN, M(INVALID_STREAM)));
BADS(of_block, BAD_POINTERS(M(INVALID_POINTER)),
     B("interior", ADD, 8, M(INVALID_POINTER)),
     B("second page", ADD, 4096, M(INVALID_POINTER)),
     B("before", ADD, -1, M(INVALID_POINTER)));
BADS(of_part, B("null", SET, 0, INV | M(NOT_FOUND)),
     BAD_POINTERS(M(NOT_FOUND)));
BADS(of_uncached,
     B("foreign", OF_FIXTURE, -1, M(INVALID_POINTER) | M(DRIVER_ERROR)),
     B("interior", ADD, 8, M(INVALID_POINTER) | M(DRIVER_ERROR)),
     B("freed", DEAD, D_UNCACHED, M(INVALID_POINTER) | M(DRIVER_ERROR)));
BADS(of_bytes, B("most", SET, -1, M(OUT_OF_MEMORY)),
     B("wraps", SET, -4096, M(OUT_OF_MEMORY)),
     B("no machine has", SET, ((int64_t)1 << 46) + 1, M(OUT_OF_MEMORY)));
BADS(of_copy_bytes, B("beyond the end", SET, 1 << 20, INV),
     B("most", SET, -1, INV | M(OUT_OF_MEMORY)));
BADS(of_height, B("beyond the end", SET, 1 << 20, INV), LARGE_SIZE);
BADS(of_mapped_bytes, B("0", SET, 0, INV), B("part of a page", SET, 100, INV),
     LARGE_SIZE, B("wraps", SET, -4096, INV));
BADS(of_scalar_bytes, B("0", SET, 0, INV), B("17", SET, 17, INV), LARGE_SIZE);
BADS(of_alignment, B("0", SET, 0, INV), B("3", SET, 3, INV),
     B("too much", SET, (int64_t)128 << 20, INV), LARGE_SIZE);
BADS(of_row, B("0", SET, 0, INV));
BADS(of_pitch, B("below width", SET, 1, INV), LARGE_SIZE);
BADS(of_piece, B("1", SET, 1, INV), LARGE_SIZE);
BADS(of_watermark, LARGE_SIZE);
BADS(of_ratio, B("negative", RATE, -1, INV), B("too much", RATE, 3, INV),
     B("not a number", RATE, 99, INV));
BADS(of_one_flag, B("2", SET, 2, INV), LARGE_SIZE);
BADS(of_two_flags, B("4", SET, 4, INV), LARGE_SIZE);
BADS(of_three_flags, B("8", SET, 8, INV), B("both", SET, 3, INV), LARGE_SIZE);
BADS(of_pool_flags, B("pausable alone", SET, 2, INV), B("4", SET, 4, INV),
     LARGE_SIZE);
BADS(of_lease, B("0", SET, 0, INV), B("never", SET, 1 << 30, INV), LARGE_SIZE,
     B("returned", DEAD, D_LEASE_TAKEN, INV));
BADS(of_leased, IS_NULL, B("foreign", OF_FIXTURE, -1, M(NOT_FOUND)),
     B("returned", DEAD, D_LEASE_TAKEN, M(NOT_FOUND)));
BADS(of_pool, B("0", SET, 0, M(NOT_FOUND) | INV),
     B("never", SET, 1 << 30, M(NOT_FOUND)), B("most", SET, -1, M(NOT_FOUND)),
     B("released", DEAD, D_POOL_TAKEN, M(NOT_FOUND)));
BADS(of_name, IS_NULL, B("unknown", OF_FIXTURE, -1, INV | M(NOT_FOUND)));
BADS(of_path, IS_NULL, B("no folder", OF_FIXTURE, -2, INV));
BADS(of_tag, B("long", OF_FIXTURE, -3, INV));
BADS(of_text_bytes, B("0", SET, 0, OK), B("1", SET, 1, M(TRUNCATED) | INV));
BADS(of_kind_ops, IS_NULL, BAD_SIZES,
     B("no name", FIELD, offsetof(warm_kind_ops, name), INV),
     B("no create", FIELD, offsetof(warm_kind_ops, create), INV),
     B("no destroy", FIELD, offsetof(warm_kind_ops, destroy), INV));
BADS(of_callback, IS_NULL, BAD_SIZES,
     B("no name", FIELD, offsetof(warm_memory_callback, name), INV),
     B("no function", FIELD, offsetof(warm_memory_callback, function), INV),
     B("no events", FIELD, offsetof(warm_memory_callback, events), INV));
BADS(of_new_allocator, IS_NULL, BAD_SIZES,
     B("no name", FIELD, offsetof(warm_allocator, name), INV),
     B("no alloc", FIELD, offsetof(warm_allocator, alloc), INV));
BADS(of_allocator, IS_NULL, B("size 0", OF_FIXTURE, -1, INV),
     B("of a gone runtime", OF_FIXTURE, AT(gone_allocator), M(RUNTIME_GONE)));
BADS(of_registered, IS_NULL,
     B("not registered", OF_FIXTURE, -1, M(NOT_FOUND) | INV));
BADS(of_ring, IS_NULL,
     B("of a gone runtime", OF_FIXTURE, AT(gone_ring), M(RUNTIME_GONE)));
BADS(of_mapped, IS_NULL, B("not a page", ADD, 8, INV),
     B("not mapped", SET, 16384, INV),
     B("of a block", OF_FIXTURE, AT(page_block), INV),
     B("adopted", OF_FIXTURE, AT(adopted_page), INV));
BADS(of_adopted, B("null", SET, 0, INV | M(INVALID_POINTER)),
     B("foreign", OF_FIXTURE, -1, M(INVALID_POINTER)),
     B("interior", ADD, 4096, M(INVALID_POINTER)),
     B("ended", DEAD, D_ADOPTED, M(INVALID_POINTER)),
     B("a block", DEAD, D_BLOCK, M(INVALID_POINTER)));
BADS(of_ipc_handle, IS_NULL, BAD_SIZES,
     B("damaged", FIELD, offsetof(warm_ipc_handle, segment_bytes), INV));
BADS(of_import, B("foreign", OF_FIXTURE, -1, M(INVALID_POINTER)),
     B("a block", DEAD, D_DEVICE_BLOCK, M(INVALID_POINTER)),
     B("interior", ADD, 8, M(INVALID_POINTER)));
#define of_nothing NULL

/* ---- right values -------------------------------------------------------- */

static void *new_stream(void)
{
    warm_stream stream = NULL;

    need(warm_stream_create(f.runtime, 0, &stream));
    return stream;
}

static void end_stream(void *stream)
{
    need(warm_stream_destroy(f.runtime, stream));
}

/* Functions of the program, in which a cancelled thread would end. */
static int nothing(void *context, warm_memory_event event, void *buffer,
                   size_t bytes)
{
    pthread_testcancel();
    return 0;
}

static void hear_line(void *context, warm_log_level level, const char *line)
{
    pthread_testcancel();
}

static void do_nothing(void *context)
{
    pthread_testcancel();
}

static int match_none(void *context, warm_stream stream)
{
    pthread_testcancel();
    return 0;
}

static warm_status own_alloc(void *context, size_t bytes, warm_stream stream,
                             warm_data_pointer *data)
{
    pthread_testcancel();
    return WARM_UNSUPPORTED;
}

static void *fill(void *block)
{
    if (block != NULL) {
        memset(block, 0x5a, BLOCK_BYTES);
    }
    return block;
}

/* The contents of a block that no call has freed. */
static void intact(const unsigned char *block)
{
    for (size_t i = 0; i < BLOCK_BYTES; i++) {
        if (block[i] != 0x5a) {
            fault("byte %zu of a live block has changed", i);
        }
    }
}

#define MAKE(name) static void make_##name(value *v)
#define DROP(name) static void drop_##name(value *v, bool ok)

/* A value that exists already, or is made by one expression. */
#define MAKE_AS(name, field, what)                                             \
    MAKE(name)                                                                 \
    {                                                                          \
        v->field = what;                                                       \
    }
/* As another domain is dropped. */
#define DROP_AS(name, other, passed)                                           \
    DROP(name)                                                                 \
    {                                                                          \
        drop_##other(v, passed);                                               \
    }
/* What a success of the call has ended. */
#define DROP_KEPT(name, call)                                                  \
    DROP(name)                                                                 \
    {                                                                          \
        if (!ok) {                                                             \
            need(call);                                                        \
        }                                                                      \
    }

MAKE(nothing)
{
}
DROP(nothing)
{
}
/* A struct of one of the sizes in table `domains`, or an output. */
MAKE(area)
{
    memset(v->p, 0xa5, 2048);
    memcpy(v->p, &v->n, sizeof v->n);
}
MAKE(in)
{
    memset(v->p, 0, 2048);
    memcpy(v->p, &v->n, sizeof v->n);
}
MAKE_AS(runtime, p, f.runtime)
MAKE_AS(own_runtime, p, wt_runtime(NULL))
DROP_KEPT(own_runtime, warm_runtime_destroy(v->p, NULL))
MAKE(options)
{
    warm_options *options = v->p;

    make_in(v);
    options->device = wt_on_host() ? "host" : "cuda";
    options->test = "arenas=1";
    options->history = 50;
    options->reserve_bytes = 3 << 20;
    options->segment = 1 << 20;
}
/* An output that holds what is to be ended: after a success it is. */
#define DROP_OUT(name, type, call)                                             \
    DROP(name)                                                                 \
    {                                                                          \
        type out;                                                              \
                                                                               \
        memcpy(&out, v->p, sizeof out);                                        \
        if (ok) {                                                              \
            need(call);                                                        \
        }                                                                      \
    }
DROP_OUT(new_runtime, warm_runtime *, warm_runtime_destroy(out, NULL))
DROP_OUT(new_stream, warm_stream, warm_stream_destroy(f.runtime, out))
DROP_OUT(new_event, warm_event, warm_event_destroy(f.runtime, out))
DROP_OUT(new_graph, warm_graph, warm_graph_destroy(f.runtime, out))
DROP_OUT(new_lease, warm_lease, warm_handle_return(f.runtime, out))
DROP_OUT(new_block, void *, warm_free(out))
DROP_OUT(new_ring, warm_staging *, warm_staging_destroy(out))
DROP_OUT(new_import, void *, warm_ipc_close(f.runtime, out))
DROP_OUT(new_data, warm_data_pointer, (warm_data_pointer_free(&out), WARM_OK))
DROP_OUT(new_storage, warm_storage *, (warm_storage_release(out), WARM_OK))
DROP_OUT(new_uncached, void *, warm_device_free_uncached(f.runtime, 0, out))
DROP(reserved)
{
    if (ok) {
        need(warm_thread_release(f.runtime));
    }
}
MAKE(uncached)
{
    need(warm_device_alloc_uncached(f.runtime, 0, BLOCK_BYTES, &v->p));
}
DROP_KEPT(uncached, warm_device_free_uncached(f.runtime, 0, v->p))
DROP(log)
{
    warm_log_set(NULL, NULL);
}
MAKE_AS(kind, n, (uint64_t)f.kind)
MAKE(kind_ops)
{
    static unsigned number;
    static char name[32];
    warm_kind_ops *ops = v->p;

    make_in(v);
    snprintf(name, sizeof name, "kind %u", number++ % 20);
    ops->name = name;
    ops->context = &f.other_toy;
    ops->create = wt_toy_create;
    ops->destroy = wt_toy_destroy;
}
MAKE_AS(stream, p, f.stream)
MAKE_AS(own_stream, p, new_stream())
DROP(own_stream)
{
    if (!ok) {
        end_stream(v->p);
    }
}
DROP(stream_always)
{
    end_stream(v->p);
}
MAKE(to_adopt) /* the program's own, as far as the runtime knows */
{
    v->p = new_stream();
    need(warm_stream_retire(f.runtime, v->p));
}
static void end_capture(warm_stream stream, bool announced)
{
    warm_graph graph = NULL;

    if (need(announced ? warm_capture_end(f.runtime, stream, &graph)
                       : warm_testing_capture_end(f.runtime, stream, &graph))) {
        need(warm_graph_destroy(f.runtime, graph));
    }
}
DROP(to_capture)
{
    if (ok) {
        end_capture(v->p, true);
    }
    end_stream(v->p);
}
MAKE(capturing)
{
    v->p = new_stream();
    need(warm_capture_begin(f.runtime, v->p));
}
DROP_AS(capturing, to_capture, !ok)
DROP(to_test_capture)
{
    if (ok) {
        end_capture(v->p, false);
    }
    end_stream(v->p);
}
MAKE(test_capturing)
{
    v->p = new_stream();
    need(warm_testing_capture_begin(f.runtime, v->p));
}
DROP_AS(test_capturing, to_test_capture, !ok)
MAKE(announced)
{
    v->p = new_stream();
    need(warm_capture_announce(f.runtime, v->p));
}
MAKE(held)
{
    v->p = new_stream();
    if (wt_on_host()) {
        need(warm_testing_hold(f.runtime, v->p));
    }
}
DROP(held)
{
    if (wt_on_host()) {
        need(warm_testing_resume(f.runtime, v->p));
    }
    end_stream(v->p);
}
MAKE(event)
{
    warm_event event = NULL;

    need(warm_event_create(f.runtime, 0, &event));
    need(warm_event_record(f.runtime, event, f.stream));
    v->p = event;
}
DROP_KEPT(event_taken, warm_event_destroy(f.runtime, v->p))
DROP_AS(event, event_taken, false)
MAKE(graph)
{
    warm_graph graph = NULL;
    warm_stream stream = new_stream();

    need(warm_capture_begin(f.runtime, stream));
    need(warm_capture_end(f.runtime, stream, &graph));
    end_stream(stream);
    v->p = graph;
}
DROP_KEPT(graph_taken, warm_graph_destroy(f.runtime, v->p))
DROP_AS(graph, graph_taken, false)
MAKE(lease)
{
    warm_lease lease = {0};

    need(warm_handle_lease(f.runtime, f.kind, 0, &lease, &v->extra));
    v->p = v->extra;
    v->n = lease.number;
}
DROP_KEPT(lease_taken, warm_handle_return(f.runtime, (warm_lease){v->n}))
DROP_AS(lease, lease_taken, false)
MAKE(block)
{
    need(warm_pinned_alloc(f.runtime, BLOCK_BYTES, &v->extra));
    v->p = fill(v->extra);
}
DROP(block)
{
    if (!ok) {
        intact(v->extra);
        need(warm_free(v->extra));
    }
}
MAKE(into)
{
    make_block(v);
    v->p = (char *)v->extra + 100;
}
DROP(into)
{
    intact(v->extra);
    need(warm_free(v->extra));
}
MAKE(device_block)
{
    need(warm_device_alloc(f.runtime, 0, f.stream, BLOCK_BYTES, &v->extra));
    v->p = v->extra;
}
DROP_KEPT(device_block, warm_free(v->extra))
MAKE(into_device)
{
    make_device_block(v);
    v->p = (char *)v->extra + 100;
}
DROP(into_device)
{
    need(warm_free(v->extra));
}
MAKE(buffer)
{
    need(warm_shared_alloc(f.runtime, 0, BLOCK_BYTES, WARM_USAGE_SHARED,
                           &v->extra));
    v->p = fill(v->extra);
}
MAKE(used)
{
    make_buffer(v);
    need(warm_shared_retain(v->p));
}
DROP(used)
{
    if (!ok) {
        need(warm_shared_release(v->extra));
    }
    drop_into(v, ok);
}
DROP_AS(to_use, used, !ok)
MAKE(shaped)
{
    static const int64_t extents[] = {1, 2};

    make_buffer(v);
    need(warm_shared_set_shape(v->p, extents, 2));
}
MAKE(buffers) /* that a stream has used */
{
    make_buffer(v);
    v->p = &v->extra;
    need(warm_shared_record(f.runtime, v->p, 1, f.stream, NULL));
}
static warm_private_pool new_pool(unsigned flags, bool records)
{
    warm_private_pool pool = {0};

    need(warm_private_pool_begin(f.runtime, &pool, flags, match_none, NULL));
    if (!records) {
        need(warm_private_pool_end(f.runtime, pool));
    }
    return pool;
}
MAKE_AS(pool, n, new_pool(0, false).number)
DROP_KEPT(pool_taken,
          warm_private_pool_release(f.runtime, (warm_private_pool){v->n}))
DROP_AS(pool, pool_taken, false)
DROP(to_retain)
{
    if (ok) {
        drop_pool(v, false);
    }
    drop_pool(v, false);
}
MAKE_AS(recording, n, new_pool(0, true).number)
DROP(recording)
{
    if (!ok) {
        need(warm_private_pool_end(f.runtime, (warm_private_pool){v->n}));
    }
    drop_pool(v, false);
}
MAKE(to_begin)
{
    memset(v->p, 0, sizeof(warm_private_pool));
}
DROP(to_begin)
{
    memcpy(&v->n, v->p, sizeof v->n);
    if (ok) {
        drop_recording(v, false);
    }
}
/* With a block, whose contents are the same in the end. */
MAKE(to_pause)
{
    warm_private_pool pool = {0};
    char contents[BLOCK_BYTES];

    need(warm_private_pool_begin(
        f.runtime, &pool, WARM_POOL_USER | WARM_POOL_PAUSABLE, NULL, NULL));
    need(warm_device_alloc(f.runtime, 0, f.stream, BLOCK_BYTES, &v->extra));
    need(warm_private_pool_end(f.runtime, pool));
    v->n = pool.number;
    need(warm_testing_copy(f.runtime, v->extra, fill(contents), BLOCK_BYTES,
                           f.stream));
    need(warm_stream_synchronize(f.runtime, f.stream));
}
MAKE(paused)
{
    make_to_pause(v);
    need(warm_memory_pause(f.runtime, (warm_private_pool){v->n}, 0));
}
DROP(paused)
{
    unsigned char contents[BLOCK_BYTES];

    if (!ok) {
        need(warm_memory_resume(f.runtime, (warm_private_pool){v->n}));
    }
    need(warm_testing_copy(f.runtime, contents, v->extra, BLOCK_BYTES,
                           f.stream));
    need(warm_stream_synchronize(f.runtime, f.stream));
    intact(contents);
    need(warm_free(v->extra));
    drop_pool(v, false);
}
DROP_AS(to_pause, paused, !ok)
MAKE_AS(path, p, f.html)
MAKE_AS(tag, p, "tag")
MAKE_AS(call_name, p, "event_record")
MAKE(text)
{
    memset(text, 0xa5, 64);
    v->p = text;
}
MAKE(callback)
{
    warm_memory_callback *callback = v->p;

    make_in(v);
    callback->name = "own";
    callback->function = nothing;
    callback->events = WARM_MEMORY_FAILED;
}
DROP(callback)
{
    if (ok) {
        need(warm_memory_callback_remove(f.runtime, "own"));
    }
}
MAKE(callback_name)
{
    warm_memory_callback callback = {.size = sizeof callback,
                                     .name = "added",
                                     .function = nothing,
                                     .events = WARM_MEMORY_FAILED};

    need(warm_memory_callback_add(f.runtime, &callback));
    v->p = "added";
}
DROP_KEPT(callback_name, warm_memory_callback_remove(f.runtime, "added"))
MAKE(data)
{
    warm_data_pointer data = {.size = sizeof data};

    need(warm_data_pointer_alloc(f.allocator, BLOCK_BYTES, f.stream, &data));
    memcpy(v->p, &data, sizeof data);
    v->extra = data.data;
}
DROP(data_taken)
{
    if (!ok) {
        drop_new_data(v, true);
    }
}
DROP(data) /* its context may have been moved out, or be another's */
{
    bool owns = ((warm_data_pointer *)v->p)->deleter != NULL;

    warm_data_pointer_free(v->p);
    if (!owns) {
        need(warm_free(v->extra));
    }
}
MAKE_AS(allocator, p, (void *)(uintptr_t)f.allocator)
MAKE(new_allocator)
{
    warm_allocator *allocator = v->p;

    make_in(v);
    allocator->name = "own";
    allocator->memory = WARM_MEMORY_HOST;
    allocator->device = WARM_NO_DEVICE;
    allocator->alloc = own_alloc;
}
DROP_KEPT(registered, warm_allocator_unregister(f.runtime, v->p))
DROP_AS(new_allocator, registered, !ok)
MAKE(registered)
{
    make_new_allocator(v);
    need(warm_allocator_register(f.runtime, v->p, 1));
}
MAKE(storage)
{
    warm_storage *storage = NULL;

    need(warm_storage_create(f.allocator, BLOCK_BYTES, f.stream, &storage));
    v->p = storage;
}
DROP(storage)
{
    warm_storage_release(v->p);
}
DROP_KEPT(storage_taken, (warm_storage_release(v->p), WARM_OK))
DROP(to_refer)
{
    if (ok) {
        warm_storage_release(v->p);
    }
    warm_storage_release(v->p);
}
DROP(to_refer_weakly)
{
    if (ok) {
        warm_storage_weak_release(v->p);
    }
    warm_storage_release(v->p);
}
MAKE(storage_weak)
{
    make_storage(v);
    warm_storage_weak_retain(v->p);
}
DROP_AS(storage_weak, to_refer_weakly, !ok)
static const warm_staging_options small_ring = {
    .size = sizeof small_ring, .slice_bytes = 4096, .slices = 2};
MAKE(ring)
{
    warm_staging *ring = NULL;

    need(warm_staging_create(f.runtime, 0, &small_ring, &ring));
    v->p = ring;
}
DROP_KEPT(ring_taken, warm_staging_destroy(v->p))
DROP_AS(ring, ring_taken, false)
/* Shared, so that the kernel joins it with no other mapping: an emulator of
 * large pages does not list what begins inside one. */
MAKE(mapped)
{
    v->p = v->extra = mmap(NULL, 65536, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}
DROP(mapped)
{
    if (ok) {
        need(warm_pinned_adopt_end(f.runtime, v->extra, NULL, NULL));
    }
    munmap(v->extra, 65536);
}
MAKE(adopted)
{
    make_mapped(v);
    need(warm_pinned_adopt(f.runtime, v->p, 65536, 0));
}
DROP_AS(adopted, mapped, !ok)
MAKE(ipc_handle)
{
    memset(v->p, 0, 2048);
    memcpy(v->p, &f.handle, sizeof f.handle);
}
MAKE(import)
{
    need(warm_ipc_open(f.runtime, &f.handle, &v->p));
}
DROP_KEPT(import, warm_ipc_close(f.runtime, v->p))

#define DOMAIN_GET(name, type, right, make, drop, bads, number)                \
    static inline type get_##name(const value *v)                              \
    {                                                                          \
        (void)v;                                                               \
        return right;                                                          \
    }
DOMAINS(DOMAIN_GET)
#undef DOMAIN_GET

static const struct domain_of {
    const char *name;
    void (*make)(value *v);
    void (*drop)(value *v, bool ok);
    const bad *bads;
    uint64_t number;
} domains[] = {
#define DOMAIN_ROW(name, type, right, make, drop, bads, number)                \
    {#name, make_##make, drop_##drop, bads, (uint64_t)(number)},
    DOMAINS(DOMAIN_ROW)
#undef DOMAIN_ROW
};

/* ---- the calls ----------------------------------------------------------- */

#define NTH(a, b, c, d, e, f, g, h, nth, ...) nth

#define FOLLOW(...) NTH(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)

#define CAT_(a, b)                   a##b
#define CAT(a, b)                    CAT_(a, b)
#define G(d, i)                      get_##d(&v[i])
#define GET1(a)                      G(a, 0)
#define GET2(a, b)                   GET1(a), G(b, 1)
#define GET3(a, b, c)                GET2(a, b), G(c, 2)
#define GET4(a, b, c, d)             GET3(a, b, c), G(d, 3)
#define GET5(a, b, c, d, e)          GET4(a, b, c, d), G(e, 4)
#define GET6(a, b, c, d, e, f)       GET5(a, b, c, d, e), G(f, 5)
#define GET7(a, b, c, d, e, f, g)    GET6(a, b, c, d, e, f), G(g, 6)
#define GET8(a, b, c, d, e, f, g, h) GET7(a, b, c, d, e, f, g), G(h, 7)

#define GET(...) CAT(GET, FOLLOW(__VA_ARGS__))(__VA_ARGS__)

#define IN1(a)      D_##a
#define IN2(a, ...) D_##a, IN1(__VA_ARGS__)
#define IN3(a, ...) D_##a, IN2(__VA_ARGS__)
#define IN4(a, ...) D_##a, IN3(__VA_ARGS__)
#define IN5(a, ...) D_##a, IN4(__VA_ARGS__)
#define IN6(a, ...) D_##a, IN5(__VA_ARGS__)
#define IN7(a, ...) D_##a, IN6(__VA_ARGS__)
#define IN8(a, ...) D_##a, IN7(__VA_ARGS__)

#define IN(...) CAT(IN, FOLLOW(__VA_ARGS__))(__VA_ARGS__)

/* What per_thread.h names for other code. */
#define NO_DECLARATION(...)
#define DECLARE(name, ...) extern __typeof__(name) name##_ptsz;
MISUSE_CALLS(NO_DECLARATION, DECLARE, NO_DECLARATION, NO_DECLARATION,
             NO_DECLARATION)

static const struct call {
    const char *name;
    bool status; /* it returns one */
    int count;
    enum domain domain[8];
} calls[] = {
#define ROW(name, ...)  {#name, true, FOLLOW(__VA_ARGS__), {IN(__VA_ARGS__)}},
#define ROWS(name, ...) ROW(name, __VA_ARGS__) ROW(name##_ptsz, __VA_ARGS__)
#define ROW_ANSWER(name, ...)                                                  \
    {#name, false, FOLLOW(__VA_ARGS__), {IN(__VA_ARGS__)}},
#define ROW_ALONE(name) {#name, false, 0, {D_RUNTIME}},
    MISUSE_CALLS(ROW, ROWS, ROW_ANSWER, ROW_ALONE, ROW_ANSWER)};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* Makes the call; in the order of the table. A case for each function. */
/* NOLINTNEXTLINE(readability-function-size) */
static unsigned invoke(int which, const value v[8])
{
#define CASE_(number, ...)                                                     \
    case number - CASES - 1:                                                   \
        __VA_ARGS__;
#define CASE(...)    CASE_(__COUNTER__, __VA_ARGS__)
#define S(name, ...) CASE(return (unsigned)name(GET(__VA_ARGS__)))
#define T(name, ...) S(name, __VA_ARGS__) S(name##_ptsz, __VA_ARGS__)
#define A(name, ...) CASE(return name(GET(__VA_ARGS__)) ? WARM_OK : NONE)
#define Z(name)      CASE(return name() ? WARM_OK : NONE)
#define V(name, ...) CASE(name(GET(__VA_ARGS__)); return WARM_OK)
    enum { CASES = __COUNTER__ };

    calls_made++;
    switch (which) {
        MISUSE_CALLS(S, T, A, Z, V)
    default:
        return NONE;
    }
}

/* ---- one call ------------------------------------------------------------ */

static value one[DOMAIN_COUNT];
static _Alignas(64) unsigned char area[DOMAIN_COUNT][2048];

static void make(enum domain d)
{
    one[d] = (value){.p = area[d], .n = domains[d].number};
    domains[d].make(&one[d]);
}

static bool has(const struct call *c, enum domain domain)
{
    for (int i = 0; i < c->count; i++) {
        if (c->domain[i] == domain) {
            return true;
        }
    }
    return false;
}

static bool first_of_domain(const struct call *c, int i)
{
    for (int k = 0; k < i; k++) {
        if (c->domain[k] == c->domain[i]) {
            return false;
        }
    }
    return true;
}

static void make_arguments(const struct call *c, value v[8])
{
    for (int i = 0; i < c->count; i++) {
        if (first_of_domain(c, i)) {
            make(c->domain[i]);
        }
        v[i] = one[c->domain[i]];
    }
}

static void drop_arguments(const struct call *c, bool ok)
{
    for (int i = c->count - 1; i >= 0; i--) {
        if (first_of_domain(c, i)) {
            domains[c->domain[i]].drop(&one[c->domain[i]], ok);
        }
    }
    (void)warm_stream_synchronize(f.runtime, f.stream);
    (void)warm_stream_synchronize(f.runtime, f.far); /* "of another device" */
    (void)warm_stream_synchronize(f.runtime, NULL);
    (void)warm_poll(f.runtime);
}

#endif
