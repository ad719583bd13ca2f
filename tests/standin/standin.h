/* standin.h: the stand-in CUDA libraries: what tests control and ask, and
 * what the libraries share. Exported by the stand-in libcuda.so.1.
 *
 *   libcublas libcublasLt libcudnn libcusparse libcusolver
 *        └────────┴────────┬────────┴──────────┘
 *                     libcudart ──► libcuda: control.c, context.c, work.c,
 *                                   and the host device, hidden inside
 *
 * All but libcuda exist twice: of the headers' version of CUDA, and in the
 * folder 12/ of version 12, where the headers are of a later one.
 *
 * Everything runs on the host device: streams, events, captures and copies
 * are real. On top of that the libraries keep contexts as CUDA does, count
 * their calls, fail when asked, and note every misuse. Any thread. */
#ifndef STANDIN_H
#define STANDIN_H

#include "runtime/driver/driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

enum { STANDIN_DEVICES_MAX = 8 };

/* ---- For tests ---- */

/* How often the function was called, failures included. */
uint64_t standin_calls(const char *function);
/* The n-th call from now (1 = the next) answers code and does nothing: that
 * one alone, or all from then on. n 0 takes the fault away. */
void standin_fail(const char *function, uint64_t n, int persistent, int code);
/* The name of the i-th function called so far, or null past the last. */
const char *standin_function(unsigned i);

/* The flags of the function's last call, or the capture mode of the thread that
 * made it (queries and waits); ~0u before the first,
 * and for functions whose flags are not kept. */
unsigned standin_flags(const char *function);

/* Misuse noted so far: a handle used by two threads at once, on the wrong
 * device, after its destruction, or bound to a stream that is gone; and
 * whatever a call names that ended with its context (life.c). text: the last
 * one's; may be null. */
uint64_t standin_misuse(char *text, size_t bytes);

/* Contexts created on the device so far, and references to it now. */
uint64_t standin_contexts(int device);
int64_t standin_references(int device);
/* The id that the next context gets; later ones count up from there. */
void standin_context_ids(unsigned long long first);
/* As many threads as that meet inside the function before any goes on. */
void standin_meet(const char *function, unsigned threads);
/* How many devices there are: 1, or as the environment's STANDIN_DEVICES. */
void standin_devices(int count);
/* Major number of the compute capability; 9 at first. */
void standin_compute(int major);
/* Whether devices have virtual memory, as they do at first; 2: of a sort that
 * network cards may reach directly. */
void standin_ranges(int has);
/* Whether devices can access each other's memory, as at first. */
void standin_peers(int can);
/* cuMemHostRegister() refuses to register more bytes than that at once, as some
 * kernels and drivers do; SIZE_MAX at first. */
void standin_register_most(size_t bytes);
/* Whether memory of the host can be registered, as at first: 0: it is not
 * supported, and the devices say so; -1: it is not, as with confidential
 * computing, though they say that it is. */
void standin_registers(int can);
/* Whether the last device reads pageable memory through the host's page tables
 * (GH200, GB200): registering memory page-locks none of it then, on all. 2: it
 * is a part of the host's chip instead, without memory of its own. */
void standin_host_tables(int uses);
/* Whether host and device may touch managed memory at once, as at first. */
void standin_managed(int at_once);
/* Whether devices can read memory that is registered read-only, as at first. */
void standin_read_only(int can);
/* Whether devices can access page-locked memory of the host, as at first. */
void standin_maps_host(int can);
/* The newest version of CUDA that the driver serves, as 12080: at first that of
 * the headers, or as the environment's STANDIN_DRIVER. Libraries of a later
 * major version do not work on it: cudart answers cudaErrorInsufficientDriver,
 * the others make no handles. */
void standin_driver_version(int version);
/* Page-locked memory begins so many bytes, below 4096, after a page's start: of
 * its alignment CUDA's manual says nothing. */
void standin_host_shift(size_t bytes);

/* As after a kernel that broke its context: everything that works there answers
 * code, and cudart's last error cannot be cleared of it. 0: it is whole again,
 * for the test's end. */
void standin_stick(int code);

/* CUDA shuts down in exit handlers: of libcuda, registered when it starts and
 * when the first context is made, and of each library, registered with its
 * first handle. From then on every call fails and is counted in *calls, which
 * may be memory that outlives the process; null: nowhere. */
void standin_late_to(_Atomic uint64_t *calls);

/* What a handle is set to. */
typedef struct standin_state {
    int device;
    void *stream, *workspace; /* workspace: null for the library's own */
    size_t workspace_bytes;
} standin_state;
void standin_handle_state(const void *handle, standin_state *state);
/* Called by every product between the two pieces of work that it queues, in the
 * thread that calls the library; null: nothing is. */
void standin_set_between_steps(void (*function)(void *context), void *context);
/* Handles of the library ("cublas") that were not destroyed. */
int64_t standin_handles_live(const char *library);

/* ---- Between the libraries ---- */

/* One in each function; find out its record once. */
typedef struct standin_point {
    const char *name;
    _Atomic(void *) record;
} standin_point;
/* Keeps the flags of a call. */
void standin_flagged(const char *function, unsigned flags);
/* Counts a call; 0, or the code it must answer. */
int standin_hit(standin_point *point);
/* The function that the calling thread has entered last. */
const char *standin_call(void);

#define STANDIN_ENTER(type, function)                                          \
    static standin_point point_ = {.name = #function};                         \
    int fault_ = standin_hit(&point_);                                         \
                                                                               \
    if (fault_ != 0) {                                                         \
        return (type)fault_;                                                   \
    }

/* Returns met; false is misuse. */
bool standin_demand(const char *function, bool met);

/* What CUDA's manual demands of the arguments; else the call is refused. */
#define STANDIN_DEMAND(met)                                                    \
    if (!standin_demand(point_.name, met)) {                                   \
        return CUDA_ERROR_INVALID_VALUE;                                       \
    }

/* The host device, or null once the process exits or in a forked child. */
wm_driver *standin_driver(void);
/* The code behind the calling thread's last status of the host device. */
int standin_code(warm_status status);
/* The calling thread's call was refused because a stream captures, and may have
 * broken the capture. With STANDIN_BACKTRACE in the environment, standard error
 * gets what was refused and the calls that led there. */
void standin_note_broken(const char *what);
int standin_device_count(void);
int standin_driver_serves(void); /* the version */
/* Of the library that calls, which has this inside; as 13000. */
int standin_version(void);
/* Notes that a library of that version works; two major versions in one process
 * are a misuse. False: the driver is too old for it. */
bool standin_version_works(int version);
int standin_compute_major(void);

/* Contexts of the calling thread. */
int standin_current_device(void);
/* Keeps the calling thread's capture mode as the flags of a call. */
void standin_mode_of(const char *function);
/* What standin_stick() said. */
int standin_stuck(void);
/* 0, or why libcuda can do no work for the calling thread: it is unloaded, the
 * context is broken, or none is current. */
int standin_unusable(void);
/* As cudart's lazy start: makes a primary context current if none is. */
void standin_need_context(void);
cudaError_t standin_set_device(int device);
/* The host device's stream behind a CUDA stream: default streams mean the
 * current device. */
warm_stream standin_stream(void *stream);
/* The device of a stream: of a default one, the current device. */
int standin_device_of(void *stream);
/* Whether the context of the stream is current, as some context is. */
bool standin_is_current(void *stream);
bool standin_are_peers(int device, int other);
/* Whether the stream's device may copy these bytes: it has access to all of
 * them that are of ranges. */
bool standin_reaches(void *stream, CUdeviceptr at, size_t bytes);
/* A time in which a context is active, up to its reset. */
typedef struct standin_life {
    const void *context; /* null: none was current */
    uint64_t created;    /* the how many-th of that context */
} standin_life;
standin_life standin_current_life(void);
/* In which what has that name was made; no context: not known. */
standin_life standin_life_of(const void *name);
bool standin_is_alive(standin_life life);
/* Something was made in the current context, which has a name that calls use
 * (the stream, the handle, the memory's first byte); a call is about to use
 * it, which is misuse after a reset: false, and the call fails; it was
 * destroyed. What was not born here may be used. */
void standin_born(const void *name);
bool standin_used(const char *function, const void *name);
void standin_gone(const void *name);
/* Memory, or a stream, is made in the current context. */
void standin_memory_made(const char *function);
int standin_can_register(void); /* see standin_registers() */
void standin_stream_made(void *stream);
/* As cudaFree (of the current device), cudaFreeHost (of all: negative) and the
 * end of a library's handle do: 0, or a code while one captures, whose capture
 * is invalid then. */
int standin_wait_for_device(wm_driver *d, int device);
/* 0, or a code in a thread that captures and is not in relaxed mode; its
 * captures are invalid then. */
int standin_unsafe(wm_driver *d);
/* The capture of the stream is in CUDA's global mode: it bars other threads. */
void standin_capture_globally(wm_driver *d, warm_stream stream);
/* What the driver tells about a stream, or a code. */
int standin_stream_info(wm_driver *d, warm_stream stream, wm_stream_info *info);

void standin_note_misuse(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* The event was made for timing: records of it write the time, in the stream's
 * order, before it passes; it is about to be destroyed. */
void standin_time_event(CUevent event);
int standin_stamp(CUevent event, CUstream stream);
void standin_untime_event(CUevent event);
/* What a pointer is, and the whole of its memory. */
typedef struct standin_place {
    enum cudaMemoryType type;
    int device;
    void *base;
    size_t bytes;
} standin_place;
standin_place standin_place_of(const void *pointer);
/* The value of an attribute that no test sets: as of a GPU of its kind. */
int standin_attribute(int attribute);

/* Runs function(copy of argument) in stream order; the copy is freed after
 * the run, unless a capture took it: a graph may run it again. 0 or a code. */
int standin_launch(void *stream, warm_host_fn function, const void *argument,
                   size_t bytes);

/* What all handles of all libraries begin with; never freed, so that a use
 * after the destruction can be told. */
enum { STANDIN_SETTINGS = 12 };
typedef struct standin_handle {
    const char *library; /* const */
    int device;          /* const */
    struct standin_handle *next;
    _Atomic int live; /* how often it is to be destroyed */
    _Atomic int busy;
    bool shared;
    _Atomic(void *) stream;
    _Atomic int stranded;  /* the stream was destroyed */
    void *workspace, *own; /* of the thread that uses it */
    size_t workspace_bytes;
    intptr_t setting[STANDIN_SETTINGS];
} standin_handle;

/* Null if device memory for the handle cannot be had (in a capture, say). */
standin_handle *standin_handle_create(const char *library, int version);
/* That of the device which lives already, if one does: as often destroyed. */
standin_handle *standin_handle_share(const char *library, int version);
void standin_handle_destroy(const char *function, standin_handle *handle);
/* A stream is about to be destroyed: from then on it is misuse to bind a handle
 * that is bound to it to another stream, or to destroy such a handle. */
void standin_strand(void *stream);
/* As one of these. */
void standin_check_stranded(const char *function, standin_handle *handle);
/* Calls what a test set. */
void standin_between_steps(void);
/* Around every use; false: not a live handle of that library. */
bool standin_handle_use(const char *function, const char *library,
                        standin_handle *handle);
void standin_handle_done(standin_handle *handle);

#endif
