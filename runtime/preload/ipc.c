/* ipc.c: cudaIpcGetMemHandle() of memory that warmpool serves.
 *
 * CUDA's handle names the whole segment around a block. The handle that the
 * program gets instead is a mark, which CUDA refuses to open, and which says
 * where CUDA's handle and the block's offset lie: in a file that exists only in
 * memory, and that another process reads through /proc.
 *
 *   exporter                              importer, under warmpool-run
 *   block ──► mark ── pipe, socket, … ──► mark
 *     └─► file: number, offset, ◄── /proc/PID/fd/N: the number must be the
 * mark's CUDA's handle                   │ └─► CUDA opens the segment; + offset
 *
 * The free of the block clears the number: a mark opens this block or none.
 * Handles without a mark are CUDA's. */
#include "preload.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* As CUDA has it: 64 bytes, passed by value. */
typedef struct handle {
    unsigned char bytes[64];
} handle;

static const char mark_name[16] = "warmpool's mark";

typedef struct mark {
    char name[16];
    uint64_t pid, file; /* of the exporter, and its number of the file */
    uint64_t key;       /* of the file: pid and number may be of another one */
    uint64_t slot;      /* in the file */
    uint64_t number;    /* of the export; none has it again */
    uint64_t check;     /* all above joined by ^ */
} mark;
_Static_assert(sizeof(mark) == sizeof(handle),
               "a mark is as large as a handle");

/* What the file has at a slot; slot 0 has the key alone, as number. */
typedef struct export
{
    uint64_t number; /* 0: no block */
    uint64_t offset; /* of the block in its segment */
    handle segment;  /* CUDA's */
}
export;

typedef struct place {
    const void *block, *segment; /* null: none */
    export export;
} place;

enum { GROWTH = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;      /* mutex */
static uint64_t key;       /* mutex */
static uint64_t last;      /* mutex: the number of the last export */
static place *places;      /* mutex: by slot */
static size_t place_count; /* mutex */
/* Places with a block. Relaxed: who frees a block knows of its export. */
static atomic_size_t shared;

/* ---- the exporter ---------------------------------------------------------
 */

static bool write_slot(size_t slot, const export *e)
{
    return pwrite(file, e, sizeof *e, (off_t)(slot * sizeof *e)) ==
           (ssize_t)sizeof *e;
}

static bool open_file_locked(void)
{
    export first = {0};

    if (file >= 0) {
        return true;
    }
    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key) {
        return false;
    }
    first.number = key;
    file = memfd_create("warmpool-ipc", MFD_CLOEXEC);
    if (file >= 0 && !write_slot(0, &first)) {
        close(file);
        file = -1;
    }
    return file >= 0;
}

/* The block's slot, or a free one, or 0: no memory. Slot 0 is never a place. */
static size_t slot_of_locked(const void *block)
{
    size_t unused = 0;

    for (size_t i = 1; i < place_count; i++) {
        if (places[i].block == block) {
            return i;
        }
        unused = unused == 0 && places[i].block == NULL ? i : unused;
    }
    if (unused == 0) {
        place *more = realloc(places, (place_count + GROWTH) * sizeof *more);

        if (more != NULL) {
            memset(more + place_count, 0, GROWTH * sizeof *more);
            unused = place_count == 0 ? 1 : place_count;
            places = more;
            place_count += GROWTH;
        }
    }
    return unused;
}

typedef int get_fn(handle *out, void *pointer);

/* CUDA's handles of one segment may differ, and its importer is to map the
 * segment once: while a block of it is shared, the handle stays the same. */
static bool name_segment_locked(void *segment, handle *name)
{
    get_fn *real = (get_fn *)wp_real(WP_AT_cudaIpcGetMemHandle, NULL);

    for (size_t i = 1; i < place_count; i++) {
        if (places[i].block != NULL && places[i].segment == segment) {
            *name = places[i].export.segment;
            return true;
        }
    }
    return real != NULL && real(name, segment) == 0;
}

static uint64_t check_of(const mark *m)
{
    return m->pid ^ m->file ^ m->key ^ m->slot ^ m->number;
}

static void make_mark_locked(size_t slot, handle *out)
{
    mark m = {.pid = (uint64_t)getpid(),
              .file = (uint64_t)file,
              .key = key,
              .slot = slot,
              .number = places[slot].export.number};

    memcpy(m.name, mark_name, sizeof m.name);
    m.check = check_of(&m);
    memcpy(out, &m, sizeof m);
}

static bool share_locked(const warm_block_info *info, handle *out)
{
    place made = {.block = info->base, .segment = info->segment};
    size_t slot = open_file_locked() ? slot_of_locked(info->base) : 0;

    if (slot == 0) {
        return false;
    }
    if (places[slot].block == NULL) {
        made.export.offset =
            (uint64_t)((const char *)info->base - (const char *)info->segment);
        made.export.number = last + 1;
        if (!name_segment_locked(info->segment, &made.export.segment) ||
            !write_slot(slot, &made.export)) {
            return false;
        }
        last++;
        places[slot] = made;
        atomic_fetch_add_explicit(&shared, 1, memory_order_relaxed);
    }
    make_mark_locked(slot, out);
    return true;
}

void wp_unshare(const void *block)
{
    const export none = {0};

    if (atomic_load_explicit(&shared, memory_order_relaxed) == 0) {
        return;
    }
    pthread_mutex_lock(&mutex);
    for (size_t i = 1; i < place_count; i++) {
        if (places[i].block == block) {
            (void)write_slot(i, &none);
            places[i].block = NULL;
            atomic_fetch_sub_explicit(&shared, 1, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&mutex);
}

/* Says once why sharing fails, and what to do. */
static int refuse(const char *what)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set_explicit(&said, memory_order_relaxed)) {
        wp_say(what);
        wp_say("leave the word device out of option preload in programs that "
               "share device memory with others");
    }
    return wp_failed(WP_INVALID_VALUE);
}

enum { NOT_OURS = -1 };

/* The code, or NOT_OURS: CUDA answers. As CUDA's, the handle of a pointer into
 * a block is the block's. */
static int share(void *pointer, handle *out)
{
    warm_block_info info = WARM_INIT(warm_block_info);
    bool made;

    if (pointer == NULL || out == NULL || wp_has_reset() ||
        !warm_holds(pointer)) {
        return NOT_OURS;
    }
    wp_in();
    made = warm_block_get_info(pointer, &info) == WARM_OK && info.device >= 0;
    if (made) {
        pthread_mutex_lock(&mutex);
        made = share_locked(&info, out);
        pthread_mutex_unlock(&mutex);
    }
    wp_out();
    return made ? 0
                : refuse("cudaIpcGetMemHandle: CUDA makes no handle for this "
                         "memory, which warmpool has served");
}

WP_EXPORT get_fn cudaIpcGetMemHandle;
WP_EXPORT int cudaIpcGetMemHandle(handle *out, void *pointer)
{
    int code = share(pointer, out);

    if (code != NOT_OURS) {
        return code;
    }
    WP_RETURN_REAL(cudaIpcGetMemHandle, get_fn, WP_NO_FUNCTION, out, pointer);
}

/* ---- the importer ---------------------------------------------------------
 */

/* A block that is open here, as often as there are entries. */
typedef struct opening {
    struct opening *next;
    void *pointer, *segment;
} opening;

static opening *openings;    /* mutex */
static atomic_size_t opened; /* relaxed: as `shared` */

static bool read_slot(int from, uint64_t slot, export *e)
{
    return slot <= SIZE_MAX / sizeof *e / 2 &&
           pread(from, e, sizeof *e, (off_t)(slot * sizeof *e)) ==
               (ssize_t)sizeof *e;
}

/* False: the exporter has ended, cannot be seen, or has freed the block. */
static bool find_export(const mark *m, export *found)
{
    char path[64];
    export first;
    bool read = false;
    int from;

    snprintf(path, sizeof path, "/proc/%llu/fd/%llu",
             (unsigned long long)m->pid, (unsigned long long)m->file);
    from = open(path, O_RDONLY | O_CLOEXEC);
    if (from >= 0) {
        read = read_slot(from, 0, &first) && first.number == m->key &&
               read_slot(from, m->slot, found) && found->number == m->number;
        close(from);
    }
    return read;
}

static bool is_mark(const handle *h, mark *m)
{
    memcpy(m, h, sizeof *m);
    return memcmp(m->name, mark_name, sizeof m->name) == 0 &&
           m->check == check_of(m);
}

static void note_opening(opening *made, void *segment, uint64_t offset)
{
    made->segment = segment;
    made->pointer = (char *)segment + offset;
    pthread_mutex_lock(&mutex);
    made->next = openings;
    openings = made;
    pthread_mutex_unlock(&mutex);
    atomic_fetch_add_explicit(&opened, 1, memory_order_relaxed);
}

typedef int open_fn(void **pointer, handle h, unsigned flags);
typedef int close_fn(void *pointer);

WP_INLINED int open_real(void **pointer, handle h, unsigned flags)
{
    WP_RETURN_REAL(cudaIpcOpenMemHandle, open_fn, WP_NO_FUNCTION, pointer, h,
                   flags);
}

WP_EXPORT open_fn cudaIpcOpenMemHandle;
WP_EXPORT int cudaIpcOpenMemHandle(void **pointer, handle h, unsigned flags)
{
    opening *made = NULL;
    void *segment = NULL;
    export found;
    mark m;
    int code;

    if (pointer == NULL || !is_mark(&h, &m)) {
        return open_real(pointer, h, flags);
    }
    if (!find_export(&m, &found)) {
        return refuse("cudaIpcOpenMemHandle: the process that has shared this "
                      "memory has freed it, or cannot be seen in /proc");
    }
    made = malloc(sizeof *made);
    if (made == NULL) {
        return wp_failed(WP_OUT_OF_MEMORY);
    }
    code = open_real(&segment, found.segment, flags);
    if (code != 0) {
        free(made);
        return code;
    }
    note_opening(made, segment, found.offset);
    *pointer = made->pointer;
    return 0;
}

/* What CUDA has opened for the pointer; the opening is gone then. */
static void *take_segment(void *pointer)
{
    opening **at = &openings, *o;
    void *segment = pointer;

    if (atomic_load_explicit(&opened, memory_order_relaxed) == 0) {
        return pointer;
    }
    pthread_mutex_lock(&mutex);
    while (*at != NULL && (*at)->pointer != pointer) {
        at = &(*at)->next;
    }
    o = *at;
    if (o != NULL) {
        *at = o->next;
        segment = o->segment;
        free(o);
        atomic_fetch_sub_explicit(&opened, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&mutex);
    return segment;
}

WP_EXPORT close_fn cudaIpcCloseMemHandle;
WP_EXPORT int cudaIpcCloseMemHandle(void *pointer)
{
    void *segment = take_segment(pointer);

    WP_RETURN_REAL(cudaIpcCloseMemHandle, close_fn, WP_NO_FUNCTION, segment);
}
