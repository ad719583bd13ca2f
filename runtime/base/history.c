/* history.c: see history.h. Takes no lock. */
#include "runtime/base/history.h"

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/meta.h"
#include "runtime/base/status.h"
#include "runtime/base/thread_data.h"

#include <execinfo.h>
#include <inttypes.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum {
    HEAD_WORDS = offsetof(wm_history_event, origin.frame) / sizeof(uint64_t),
    OWN_FRAMES = 16, /* frames of the library above the caller's, at most */
    PATIENCE = 64    /* yields while a reader waits for a writer */
};

_Static_assert(sizeof(void *) == sizeof(uint64_t), "words hold addresses");

struct wm_history {
    _Alignas(64) _Atomic uint64_t next;
    _Alignas(64) _Atomic uint64_t dropped;
    uint64_t count;      /* const: of slots */
    unsigned frames;     /* const */
    size_t words;        /* const: of an event */
    uintptr_t own, over; /* const: the library's addresses; 0: static link */
    /* const pointer; count slots, each a turn and the words of an event. The
     * turn of event n is 2n + 1 while it is written and 2n + 2 afterwards; 0:
     * the slot was never used. */
    _Atomic uint64_t *slots;
};

/* ---- tags ---------------------------------------------------------------- */

warm_status warm_memory_tag_set(const char *text)
{
    size_t length = text != NULL ? strlen(text) : 0;
    wm_thread_data *data;

    if (length >= WARM_TAG_BYTES) {
        return wm_fail(
            WARM_INVALID_ARGUMENT,
            "the tag '%.48s...' is too long; allowed are %zu characters", text,
            (size_t)WARM_TAG_BYTES - 1);
    }
    data = length > 0 ? wm_thread_data_make() : wm_thread_data_get();
    if (data != NULL) {
        /* strncpy() pads with zeros: events store the whole array. */
        strncpy(data->tag, length > 0 ? text : "", sizeof data->tag);
    }
    return data != NULL || length == 0
               ? WARM_OK
               : wm_fail(WARM_OUT_OF_MEMORY, "no memory for the tag '%s'",
                         text);
}

const char *warm_memory_tag_get(void)
{
    const wm_thread_data *data = wm_thread_data_get();

    return data != NULL ? data->tag : "";
}

/* ---- events -------------------------------------------------------------- */

const char *wm_history_action(const wm_history_event *event)
{
    static const char *const names[] = {
        [WM_HISTORY_ALLOC] = "alloc",
        [WM_HISTORY_FREE_REQUESTED] = "free_requested",
        [WM_HISTORY_FREE_COMPLETED] = "free_completed",
        [WM_HISTORY_SEGMENT_ALLOC] = "segment_alloc",
        [WM_HISTORY_SEGMENT_FREE] = "segment_free",
        [WM_HISTORY_OUT_OF_MEMORY] = "oom"};

    return names[event->op];
}

static _Atomic uint64_t *slot_of(wm_history *history, uint64_t number)
{
    return &history->slots[number % history->count * (1 + history->words)];
}

/* Claims the slot for event number; false if a younger event has it. */
static bool claim(_Atomic uint64_t *turn, uint64_t number)
{
    uint64_t seen = atomic_load_explicit(turn, memory_order_relaxed);

    /* Acquire pairs with the release of the previous turn: the old words are
     * stored before the new ones, which are released one by one. */
    return seen % 2 == 0 && seen <= 2 * number &&
           atomic_compare_exchange_strong_explicit(turn, &seen, 2 * number + 1,
                                                   memory_order_acquire,
                                                   memory_order_relaxed);
}

void wm_history_put(wm_history *history, const wm_history_event *event)
{
    /* Relaxed: read-modify-writes of one variable have a single order, which
     * agrees with the order of the events where those are ordered. */
    uint64_t number =
        atomic_fetch_add_explicit(&history->next, 1, memory_order_relaxed);
    _Atomic uint64_t *slot = slot_of(history, number);

    if (!claim(slot, number)) {
        atomic_fetch_add_explicit(&history->dropped, 1, memory_order_relaxed);
        return;
    }
    for (size_t i = 0; i < history->words; i++) {
        uint64_t word;

        memcpy(&word, (const char *)event + i * sizeof word, sizeof word);
        /* Release pairs with the acquire of the reader: a reader that sees the
         * word also sees the claimed turn. */
        atomic_store_explicit(&slot[1 + i], word, memory_order_release);
    }
    /* Release: a reader that sees this turn sees all words. */
    atomic_store_explicit(slot, 2 * number + 2, memory_order_release);
}

uint64_t wm_history_next(wm_history *history)
{
    return atomic_load_explicit(&history->next, memory_order_relaxed);
}

uint64_t wm_history_oldest(const wm_history *history, uint64_t next)
{
    return next > history->count ? next - history->count : 0;
}

/* Whether the slot holds the event or a younger one. Waits a little for a
 * writer; an event that was dropped never arrives. */
static bool is_there(_Atomic uint64_t *slot, uint64_t number)
{
    for (int i = 0; i < PATIENCE; i++) {
        /* Acquire, here and below: see wm_history_put(). */
        if (atomic_load_explicit(slot, memory_order_acquire) >=
            2 * number + 2) {
            return true;
        }
        sched_yield();
    }
    return false;
}

bool wm_history_read(wm_history *history, uint64_t number,
                     wm_history_event *event)
{
    _Atomic uint64_t *slot = slot_of(history, number);

    if (!is_there(slot, number)) {
        return false;
    }
    for (size_t i = 0; i < history->words; i++) {
        uint64_t word =
            atomic_load_explicit(&slot[1 + i], memory_order_acquire);

        memcpy((char *)event + i * sizeof word, &word, sizeof word);
    }
    return atomic_load_explicit(slot, memory_order_relaxed) == 2 * number + 2;
}

uint64_t wm_history_dropped(wm_history *history)
{
    return atomic_load_explicit(&history->dropped, memory_order_relaxed);
}

/* ---- origins ------------------------------------------------------------- */

static bool is_own(const wm_history *history, const void *frame)
{
    return (uintptr_t)frame >= history->own && (uintptr_t)frame < history->over;
}

static void put_frames(const wm_history *history, wm_origin *origin)
{
    void *frame[OWN_FRAMES + WM_FRAMES_MAX];
    int count = backtrace(frame, OWN_FRAMES + (int)history->frames);
    /* The backtrace() of AddressSanitizer adds a frame of its own. */
    int first =
        count > 1 && !is_own(history, frame[0]) && is_own(history, frame[1]);

    while (first < count - 1 && is_own(history, frame[first])) {
        first++;
    }
    for (unsigned i = 0; i < history->frames && first < count; i++) {
        origin->frame[i] = (uintptr_t)frame[first++];
    }
}

void wm_history_here(const wm_history *history, wm_origin *origin, bool frames)
{
    const wm_thread_data *data = wm_thread_data_get();

    memset(origin, 0, wm_history_origin_bytes(history));
    origin->ns = wm_clock_ns();
    origin->thread = (uint64_t)gettid();
    if (data != NULL) {
        memcpy(origin->tag, data->tag, sizeof data->tag);
    }
    if (frames && history->frames > 0) {
        put_frames(history, origin);
    }
}

size_t wm_history_origin_bytes(const wm_history *history)
{
    return history == NULL ? 0
                           : offsetof(wm_origin, frame) +
                                 history->frames * sizeof(uint64_t);
}

size_t wm_history_event_bytes(const wm_history *history)
{
    return history == NULL ? 0 : history->words * sizeof(uint64_t);
}

unsigned wm_history_frames(const wm_history *history)
{
    return history->frames;
}

/* ---- origins for readers ------------------------------------------------- */

bool wm_history_frame(const wm_history *history, const wm_origin *origin,
                      unsigned i, wm_frame *frame)
{
    Dl_info info;

    if (i >= history->frames || origin->frame[i] == 0) {
        return false;
    }
    *frame = (wm_frame){.address = origin->frame[i]};
    /* Looks up the address before the return address, which may be the first
     * byte of another function. */
    if (dladdr((void *)(uintptr_t)(frame->address - 1), &info) != 0) {
        frame->function = info.dli_sname;
        frame->object = info.dli_fname;
        frame->offset = frame->address - (uintptr_t)info.dli_fbase;
    }
    return true;
}

static void describe_frame(const wm_frame *frame, wm_text *text)
{
    const char *object = frame->object != NULL ? frame->object : "";
    const char *slash = strrchr(object, '/');

    object = slash != NULL ? slash + 1 : object;
    if (*object == '\0') {
        wm_text_put(text, "0x%" PRIx64, frame->address);
    } else if (frame->function != NULL) {
        wm_text_put(text, "%s (%s+0x%" PRIx64 ")", frame->function, object,
                    frame->offset);
    } else {
        wm_text_put(text, "%s+0x%" PRIx64, object, frame->offset);
    }
}

void wm_history_describe(const wm_history *history, const wm_origin *origin,
                         bool since, wm_text *text)
{
    wm_frame frame;

    if (origin->ns == 0) {
        wm_text_put(text, "unknown thread");
        return;
    }
    wm_text_put(text, "thread %" PRIu64, origin->thread);
    if (origin->tag[0] != '\0') {
        wm_text_put(text, ", tag '%s'", origin->tag);
    }
    if (since) {
        wm_text_put(text, ", %.3f s ago",
                    (double)(wm_clock_ns() - origin->ns) / 1e9);
    }
    for (unsigned i = 0; wm_history_frame(history, origin, i, &frame); i++) {
        wm_text_put(text, i == 0 ? ": " : " < ");
        describe_frame(&frame, text);
    }
}

/* ---- begin and end ------------------------------------------------------- */

/* Finds the library's own addresses, unless it is linked statically. */
static int find_own(struct dl_phdr_info *object, size_t bytes, void *context)
{
    wm_history *history = context;
    uintptr_t here = (uintptr_t)&find_own;

    (void)bytes;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uintptr_t from = object->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_LOAD && here >= from &&
            here < from + part->p_memsz) {
            if (object->dlpi_name[0] != '\0') {
                history->own = from;
                history->over = from + part->p_memsz;
            }
            return 1;
        }
    }
    return 0;
}

warm_status wm_history_open(const wm_options *options, wm_history **history)
{
    wm_history *made;
    void *frame[1];

    *history = NULL;
    if (options->history == 0) {
        return WARM_OK;
    }
    made = wm_meta_alloc(sizeof *made);
    if (made == NULL) {
        goto fail;
    }
    made->count = options->history;
    made->frames = (unsigned)options->history_frames;
    made->words = HEAD_WORDS + made->frames;
    made->slots = wm_meta_alloc((size_t)made->count * (1 + made->words) *
                                sizeof *made->slots);
    if (made->slots == NULL) {
        goto fail_slots;
    }
    if (made->frames > 0) {
        /* The first backtrace() of a process loads libgcc and allocates: it
         * must not run first in the middle of an allocation. */
        (void)backtrace(frame, 1);
        (void)dl_iterate_phdr(find_own, made);
    }
    *history = made;
    return WARM_OK;

fail_slots:
    wm_meta_free(made);
fail:
    return wm_fail(WARM_OUT_OF_MEMORY, "no memory for a history of %s",
                   wm_counted(options->history, "event").text);
}

void wm_history_close(wm_history *history)
{
    if (history != NULL) {
        wm_meta_free(history->slots);
        wm_meta_free(history);
    }
}
