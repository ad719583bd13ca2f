/* check_ipc_import.c: memory of other processes over a driver that does as it
 * is told (row C9): what threads that meet at one segment see, and answers of a
 * driver that no host device gives. */
#include "wt.h"
#include "wt_peer.h"

#include "alloc/kinds/device_space.h"
#include "alloc/block/page_map.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/runtime.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES ((size_t)64 << 10)

enum { DEVICE = 1 }; /* of the imports */

static struct {
    wm_driver driver;
    wm_driver_ops ops;
    wm_imports imports;
    warm_ipc_handle handle;
    char *memory;        /* what every opening gives */
    _Atomic bool door;   /* the next call waits inside the driver */
    _Atomic bool inside; /* one does */
    _Atomic bool breaks; /* the next call fails, after that */
    _Atomic unsigned opened, closed;
} t;

static void await(_Atomic bool *flag, bool value)
{
    while (atomic_load_explicit(flag, memory_order_acquire) != value) {
        sched_yield();
    }
}

static void set(_Atomic bool *flag, bool to)
{
    atomic_store_explicit(flag, to, memory_order_release);
}

static warm_status pass(_Atomic unsigned *count)
{
    atomic_fetch_add(count, 1);
    if (atomic_load(&t.door) && !atomic_exchange(&t.inside, true)) {
        await(&t.door, false);
    }
    return atomic_exchange(&t.breaks, false)
               ? wm_fail(WARM_DRIVER_ERROR, "told to fail")
               : WARM_OK;
}

static warm_status open_segment(wm_driver *d, int device,
                                const wm_ipc_name *name, void **pointer)
{
    warm_status status = pass(&t.opened);

    (void)d;
    (void)name;
    wt_require(device == DEVICE, "opened on device %d", device);
    if (status == WARM_OK) {
        *pointer = t.memory;
    }
    return status;
}

static warm_status close_segment(wm_driver *d, int device, void *pointer)
{
    (void)d;
    wt_require(device == DEVICE, "closed on device %d", device);
    wt_require(pointer == t.memory, "another pointer than was opened");
    return pass(&t.closed);
}

static void setup(void)
{
    t.memory = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(t.memory, MAP_FAILED);
    t.ops.ipc_open = open_segment;
    t.ops.ipc_close = close_segment;
    wm_driver_init(&t.driver, &t.ops, "told", DEVICE + 1);
    wm_imports_init(&t.imports, &t.driver, DEVICE);
    t.handle = (warm_ipc_handle){
        .size = sizeof t.handle, .process = 1, .segment_bytes = BYTES};
}

static void teardown(void)
{
    ck_assert_ptr_null(t.imports.mappings);
    ck_assert(!wm_is_imported(t.memory));
    wm_imports_fini(&t.imports);
    ck_assert_int_eq(wm_meta_live(), 0);
}

static void *take(void)
{
    void *pointer = NULL;

    wt_ok(wm_imports_open(&t.imports, &t.handle, &pointer));
    ck_assert_ptr_eq(pointer, t.memory);
    return pointer;
}

/* ---- pages ------------------------------------------------------------- */

WT_CASE("imports", .setup = setup, .teardown = teardown);

WT_TEST(test_C9_no_block_lies_in_opened_memory)
{
    void *pointer = take();

    ck_assert(wm_is_imported(t.memory));
    ck_assert(wm_is_imported(t.memory + BYTES - 1));
    ck_assert(!wm_is_imported(t.memory + BYTES));
    for (size_t at = 0; at < BYTES; at += 1000) {
        ck_assert_ptr_null(wm_block_at(t.memory + at));
        ck_assert_ptr_null(wm_block_from(t.memory + at));
    }
    wt_ok(wm_imports_close(&t.imports, pointer));
}

/* The driver's memory is nothing that can be noted: it goes back. */
WT_LOOP_TEST(test_C9_memory_at_a_strange_place_goes_back, 2)
{
    char *usual = t.memory;
    void *pointer = &pointer;

    t.memory = _i == 0 ? usual + 512 : (char *)((uintptr_t)1 << 50);
    wt_fails(WARM_UNSUPPORTED,
             wm_imports_open(&t.imports, &t.handle, &pointer));
    ck_assert_ptr_eq(pointer, &pointer);
    ck_assert_uint_eq(t.opened, 1);
    ck_assert_uint_eq(t.closed, 1);
    t.memory = usual;
    wt_ok(wm_imports_close(&t.imports, take()));
}

/* ---- many places ------------------------------------------------------- */

enum { PLACES = 1000 };

static void *open_at(uint64_t offset)
{
    void *pointer = NULL;

    t.handle.offset = offset;
    wt_ok(wm_imports_open(&t.imports, &t.handle, &pointer));
    wt_require(pointer == t.memory + offset, "another place");
    return pointer;
}

/* Where memory for the table is short, an open fails, changes nothing, and may
 * be tried again. */
WT_LOOP_TEST(test_C9_places_of_a_segment_are_told_apart, 2)
{
    warm_ipc_stats stats = {.size = sizeof stats};

    void *opened = &opened;
    int refused = 0;

    (void)open_at(0);
    for (int i = 1; i < PLACES; i++) {
        t.handle.offset = (uint64_t)i;
        /* The table is asked for after the place's record. */
        wm_meta_fail(_i == 1 ? 2 : 0, false);
        if (wm_imports_open(&t.imports, &t.handle, &opened) != WARM_OK) {
            refused++;
            (void)open_at((uint64_t)i);
        }
        wm_meta_fail(0, false);
    }
    ck_assert_int_eq(refused > 0, _i == 1);
    (void)open_at(7);
    wm_imports_add_stats(&t.imports, &stats);
    ck_assert_uint_eq(stats.segments, 1);
    ck_assert_uint_eq(stats.opened, PLACES + 1);
    wt_ok(wm_imports_close(&t.imports, t.memory + 7));
    for (int i = 0; i < PLACES; i++) {
        char *pointer = t.memory + (i * 7) % PLACES;

        wt_require(t.closed == 0, "the segment is unmapped too early");
        wt_ok(wm_imports_close(&t.imports, pointer));
        wt_require(wm_imports_close(&t.imports, pointer) == WARM_NOT_FOUND,
                   "a place is closed twice");
    }
    ck_assert_uint_eq(t.opened, 1);
    ck_assert_uint_eq(t.closed, 1);
}

/* ---- threads that meet ------------------------------------------------- */

struct other {
    pthread_t thread;
    void *pointer;
    warm_status status;
    _Atomic bool done;
};

static void *open_there(void *argument)
{
    struct other *o = argument;

    o->status = wm_imports_open(&t.imports, &t.handle, &o->pointer);
    set(&o->done, true);
    return NULL;
}

static void *close_there(void *argument)
{
    struct other *o = argument;

    o->status = wm_imports_close(&t.imports, o->pointer);
    set(&o->done, true);
    return NULL;
}

static void start(struct other *o, void *(*fn)(void *argument))
{
    ck_assert_int_eq(pthread_create(&o->thread, NULL, fn, o), 0);
}

static void stays_outside(struct other *o)
{
    wt_linger linger = {0};

    while (wt_lingers(&linger)) {
        wt_require(!atomic_load(&o->done), "it did not wait");
    }
}

/* The door is closed, and a thread stands behind it. */
static void send_inside(struct other *o, void *(*fn)(void *argument))
{
    set(&t.inside, false);
    set(&t.door, true);
    start(o, fn);
    await(&t.inside, true);
}

/* Opens the door for the first, whose call then fails or not; joins both. */
static void let_go(struct other *first, struct other *second, bool fails)
{
    set(&t.breaks, fails);
    set(&t.door, false);
    pthread_join(first->thread, NULL);
    pthread_join(second->thread, NULL);
}

WT_LOOP_TEST(test_C9_who_comes_while_it_is_opened_waits, 2)
{
    struct other first = {.done = false}, second = {.done = false};
    warm_ipc_stats stats = {.size = sizeof stats};

    send_inside(&first, open_there);
    wm_imports_add_stats(&t.imports, &stats);
    ck_assert_uint_eq(stats.segments, 0); /* none is there to be used */
    start(&second, open_there);
    stays_outside(&second);
    let_go(&first, &second, _i == 1);
    /* A failure is that thread's own: the other one tries by itself. */
    ck_assert_int_eq(first.status, _i == 1 ? WARM_DRIVER_ERROR : WARM_OK);
    wt_ok(second.status);
    ck_assert_uint_eq(t.opened, _i == 1 ? 2 : 1);
    if (_i == 0) {
        wt_ok(wm_imports_close(&t.imports, first.pointer));
        ck_assert_uint_eq(t.closed, 0);
    }
    wt_ok(wm_imports_close(&t.imports, second.pointer));
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_int_eq(wm_imports_close(&t.imports, second.pointer),
                     WARM_NOT_FOUND);
}

WT_LOOP_TEST(test_C9_who_comes_while_it_is_closed_opens_it_anew, 2)
{
    struct other first = {.pointer = take()}, second = {.done = false};

    send_inside(&first, close_there);
    ck_assert_int_eq(wm_imports_close(&t.imports, first.pointer),
                     WARM_NOT_FOUND);
    start(&second, open_there);
    stays_outside(&second);
    ck_assert_uint_eq(t.opened, 1);
    let_go(&first, &second, _i == 1);
    wt_ok(second.status);
    /* One that could not be closed is still there for both. */
    ck_assert_int_eq(first.status, _i == 1 ? WARM_DRIVER_ERROR : WARM_OK);
    ck_assert_uint_eq(t.opened, _i == 1 ? 1 : 2);
    if (_i == 1) {
        wt_ok(wm_imports_close(&t.imports, first.pointer));
    }
    ck_assert(wm_is_imported(t.memory));
    wt_ok(wm_imports_close(&t.imports, second.pointer));
}

WT_TEST(test_C9_other_segments_do_not_wait)
{
    struct other first = {.done = false};
    warm_ipc_handle usual = t.handle;
    void *pointer = NULL;

    send_inside(&first, open_there);
    /* Of another process, then of another number. */
    for (int i = 0; i < 2; i++) {
        t.handle.process += i == 0;
        t.handle.segment_number += i == 1;
        wt_ok(wm_imports_open(&t.imports, &t.handle, &pointer));
        wt_ok(wm_imports_close(&t.imports, pointer));
        t.handle = usual;
    }
    ck_assert(!atomic_load(&first.done));
    set(&t.door, false);
    pthread_join(first.thread, NULL);
    wt_ok(first.status);
    ck_assert_uint_eq(t.opened, 3);
    wt_ok(wm_imports_close(&t.imports, first.pointer));
}

/* A place that is being opened, or that returns because the driver does not
 * unmap its segment, needs no memory then: others leave room for it. */
WT_LOOP_TEST(test_C9_threads_that_meet_leave_room_for_each_other, 2)
{
    struct other first = {.done = false};
    warm_ipc_handle more = t.handle;
    char *usual = t.memory;
    void *pointer = NULL;
    size_t full;

    (void)open_at(0);
    full = t.imports.openings.capacity / 2 - 1;
    for (size_t i = 1; i < full; i++) {
        (void)open_at(i);
    }
    t.handle.segment_number++;
    t.handle.offset = 0;
    t.memory = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(t.memory, MAP_FAILED);
    if (_i == 1) {
        first.pointer = take();
    }
    send_inside(&first, _i == 1 ? close_there : open_there);
    more.offset = full;
    wt_ok(wm_imports_open(&t.imports, &more, &pointer));
    set(&t.breaks, _i == 1);
    set(&t.door, false);
    pthread_join(first.thread, NULL);
    ck_assert_int_eq(first.status, _i == 1 ? WARM_DRIVER_ERROR : WARM_OK);
    ck_assert_uint_eq(t.imports.openings.count, full + 2);
    ck_assert_uint_le(2 * t.imports.openings.count,
                      t.imports.openings.capacity);
    ck_assert_uint_eq(t.imports.promised, 0);
    wt_ok(wm_imports_close(&t.imports, t.memory));
    munmap(t.memory, BYTES);
    t.memory = usual;
    for (size_t i = 0; i <= full; i++) {
        wt_ok(wm_imports_close(&t.imports, t.memory + i));
    }
}

/* CUDA may name one segment in other bytes each time. */
WT_TEST(test_C9_a_segment_is_known_by_its_number_not_by_a_name)
{
    void *first = take(), *second;

    t.handle.segment[63] ^= 1;
    second = take();
    ck_assert_uint_eq(t.opened, 1);
    wt_ok(wm_imports_close(&t.imports, first));
    ck_assert_uint_eq(t.closed, 0);
    wt_ok(wm_imports_close(&t.imports, second));
    ck_assert_uint_eq(t.closed, 1);
}

/* ---- captures ---------------------------------------------------------- */

static struct {
    warm_runtime *runtime;
    warm_stream stream;
    const wm_driver_ops *real;
    unsigned asked;
} ending;

/* The capture ends while the driver is asked about it, and a poll finds nothing
 * that waits for that. */
static warm_status ask_as_it_ends(wm_driver *d, warm_stream stream,
                                  wm_capture *capture)
{
    warm_status status = ending.real->stream_capture(d, stream, capture);

    if (*capture == WM_CAPTURE_ACTIVE && ending.asked++ == 0) {
        warm_graph graph = NULL;

        wt_ok(wm_driver_capture_end(d, stream, &graph));
        wt_ok(wm_driver_graph_destroy(d, graph));
        wt_ok(warm_poll(ending.runtime));
    }
    return status;
}

WT_CASE("captures", .setup = setup);

WT_TEST(test_C9_B7_segment_goes_if_the_capture_ends_as_it_is_closed)
{
    warm_runtime *runtime =
        wt_runtime_with(.device = "host", .host_devices = 2);
    wm_imports *imports = &runtime->device_spaces[DEVICE].imports;
    void *pointer = NULL;

    ending.runtime = runtime;
    ending.real = runtime->driver->ops;
    t.ops = *ending.real;
    t.ops.ipc_open = open_segment;
    t.ops.ipc_close = close_segment;
    t.ops.stream_capture = ask_as_it_ends;
    runtime->driver->ops = &t.ops;
    wt_ok(warm_stream_create(runtime, DEVICE, &ending.stream));
    wt_ok(wm_imports_open(imports, &t.handle, &pointer));
    wt_ok(wm_driver_capture_begin(runtime->driver, ending.stream));
    wt_ok(wm_imports_close(imports, pointer));
    ck_assert_uint_ge(ending.asked, 1);
    ck_assert_uint_eq(t.closed, 1);
    ck_assert_ptr_null(imports->mappings);
    wt_ok(warm_stream_destroy(runtime, ending.stream));
    runtime->driver->ops = ending.real;
    wt_runtime_end(runtime);
}

/* ---- devices ----------------------------------------------------------- */

static struct {
    const wm_driver_ops *real;
    int opened, closed; /* the device of the last call; -1: none */
} on;

static warm_status open_on(wm_driver *d, int device, const wm_ipc_name *name,
                           void **pointer)
{
    on.opened = device;
    return on.real->ipc_open(d, device, name, pointer);
}

static warm_status close_on(wm_driver *d, int device, void *pointer)
{
    on.closed = device;
    return on.real->ipc_close(d, device, pointer);
}

WT_CASE("devices");

WT_TEST(test_C9_memory_is_opened_on_its_own_device)
{
    wt_peer *peer;
    warm_runtime *runtime;
    wm_driver_ops ops;

    if (!wt_on_host()) {
        wt_skip("needs the host device");
    }
    peer = wt_peer_start(2);
    runtime = wt_runtime_with(.host_devices = 2);
    on.real = runtime->driver->ops;
    ops = *on.real;
    ops.ipc_open = open_on;
    ops.ipc_close = close_on;
    runtime->driver->ops = &ops;
    for (int i = 0; i < 2; i++) {
        warm_ipc_handle handle = wt_peer_export(peer, i, i, 4096, 1);
        void *pointer = NULL;

        on.opened = on.closed = -1;
        wt_ok(warm_ipc_open(runtime, &handle, &pointer));
        wt_ok(warm_ipc_close(runtime, pointer));
        ck_assert_int_eq(on.opened, i);
        ck_assert_int_eq(on.closed, i);
        wt_peer_free(peer, i);
    }
    runtime->driver->ops = on.real;
    wt_runtime_end(runtime);
    wt_peer_end(peer);
}
