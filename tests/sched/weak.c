/* weak.c: what C11 allows beside turns. Each thread has a clock for each other
 * one: what it has seen of it. A store that releases gives its clock to the
 * word, a load that acquires takes the word's; so do the start and the end of
 * threads. Plain memory that another thread has used, and this one has not seen
 * that, is a race, in whatever order they ran; also if an atomic operation
 * finds what was made as plain memory and not published. Of a word the last
 * read and write are known, until one whole 256 KiB away is used: a race may be
 * overlooked.
 *
 * A late store waits in its thread's list, which that thread's own loads see.
 * So does what a sequentially consistent read-modify-write stores, if WT_WEAKEN
 * is given; no other thread's store to its word comes between.
 * From it go to memory, in its order: what an operation at the same word needs;
 * all, before a read-modify-write that releases, a system call, and a turn that
 * yields, waits or ends; what is sequentially consistent, before another such
 * load; all threads', at membarrier(2). The compiler tells of plain memory as
 * it does for ThreadSanitizer, whose library is not linked; not of memcpy().
 * calloc(), memset() and free() write. */
#include "weak.h"

#include "sched.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    WORDS = 1 << 13, /* that release: a power of two */
    CELLS = 1 << 15, /* of plain memory, 8 bytes each: a power of two */
    LATE = 16,
    PAGE = 4096
};

/* Of a thread: its steps that each thread has seen. */
typedef struct clocks {
    uint32_t of[WT_THREADS];
} clocks;

struct late {
    uintptr_t word;
    uint64_t value;
    unsigned bytes;
    int order;
    bool changes; /* of a read-modify-write */
    clocks clock; /* that it gives away */
};

struct order {
    clocks seen;
    struct late late[LATE];
    unsigned count; /* of the late */
};

/* The last accesses, [1]: that wrote. mask: of its bytes. */
struct cell {
    uintptr_t at;
    uint32_t clock[2];
    uint8_t thread[2], mask[2];
};

static struct order order[WT_THREADS];
static clocks told; /* by the scenario's own words, and the ends of threads */
static struct {
    uintptr_t word;
    clocks clock;
} released[WORDS / 2];
static uint16_t index_of[WORDS]; /* in released; 0: none */
static unsigned words = 1;
static struct cell cells[CELLS];

static void join(clocks *to, const clocks *from)
{
    for (int i = 0; i < WT_THREADS; i++) {
        to->of[i] = to->of[i] > from->of[i] ? to->of[i] : from->of[i];
    }
}

/* What the word's last store gives away. Null: nothing, and none is made. */
static clocks *clock_of(uintptr_t word, bool make)
{
    size_t at = (uint32_t)((word >> 2) * 0x9E3779B1u) >> 19;

    while (index_of[at] != 0 && released[index_of[at]].word != word) {
        at = (at + 1) % WORDS;
    }
    if (index_of[at] == 0 && make) {
        if (words == WORDS / 2) {
            wt_fail(__FILE__, __LINE__, "too many words that release");
        }
        index_of[at] = (uint16_t)words;
        released[words++].word = word;
    }
    return index_of[at] != 0 ? &released[index_of[at]].clock : NULL;
}

static bool acquires(int mode)
{
    return mode == memory_order_acquire || mode == memory_order_acq_rel ||
           mode == memory_order_seq_cst;
}

static bool releases(int mode)
{
    return mode == memory_order_release || mode == memory_order_acq_rel ||
           mode == memory_order_seq_cst;
}

static void acquire(struct order *me, uintptr_t word, int mode)
{
    const clocks *clock = acquires(mode) ? clock_of(word, false) : NULL;

    if (clock != NULL) {
        join(&me->seen, clock);
    }
}

/* ---- the order of threads ------------------------------------------------ */

void wt_order_begin(unsigned child, unsigned parent)
{
    join(&order[child].seen, &told);
    join(&order[child].seen, &order[parent].seen);
    order[parent].seen.of[parent]++;
    order[child].seen.of[child]++;
}

void wt_order_join(unsigned by, unsigned ended)
{
    join(&order[by].seen, &order[ended].seen);
}

void wt_order_tell(unsigned thread)
{
    wt_order_settle(thread);
    join(&told, &order[thread].seen);
    order[thread].seen.of[thread]++;
}

void wt_order_hear(unsigned thread)
{
    join(&order[thread].seen, &told);
}

/* ---- late stores --------------------------------------------------------- */

/* One thread runs at a time: memory needs no atomic operation. */
static uint64_t get(uintptr_t word, unsigned bytes)
{
    uint64_t value = 0;

    memcpy(&value, (const void *)word, bytes);
    return value;
}

static void put(const struct late *store)
{
    clocks *clock = clock_of(store->word, releases(store->order));

    memcpy((void *)store->word, &store->value, store->bytes);
    if (clock != NULL) {
        *clock = store->clock;
    }
}

/* The first so many stores go to memory. */
static void settle(struct order *me, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        put(&me->late[i]);
    }
    me->count -= count;
    memmove(me->late, me->late + count, me->count * sizeof *me->late);
}

bool wt_order_waits(unsigned thread)
{
    return order[thread].count > 0;
}

void wt_order_settle(unsigned thread)
{
    settle(&order[thread], order[thread].count);
}

/* No other thread's store comes between the two halves of a change. */
static void settle_changes(uintptr_t word)
{
    for (struct order *o = order; o < order + WT_THREADS; o++) {
        for (unsigned i = o->count; i-- > 0;) {
            if (o->late[i].changes && o->late[i].word == word) {
                settle(o, i + 1);
                break;
            }
        }
    }
}

/* Up to the last that is at the word; mode seq_cst: or is of that order. */
static void settle_for(struct order *me, uintptr_t word, int mode)
{
    unsigned count = me->count;

    while (count > 0 && me->late[count - 1].word != word &&
           (mode != memory_order_seq_cst ||
            me->late[count - 1].order != memory_order_seq_cst)) {
        count--;
    }
    settle(me, count);
}

/* Stores that are before it, however late they are. */
static bool has_before(const struct order *me, uintptr_t word, int mode)
{
    bool found = releases(mode) && me->count > 0;

    for (unsigned i = 0; i < me->count; i++) {
        found = found || me->late[i].word == word;
    }
    return found;
}

static void store(struct order *me, unsigned thread, uintptr_t word,
                  unsigned bytes, uint64_t value, int mode, bool late)
{
    struct late s = {word, value, bytes, mode, false, {{0}}};

    settle_changes(word);
    if (releases(mode)) {
        s.clock = me->seen;
        me->seen.of[thread]++;
    }
    if (me->count == LATE) {
        settle(me, LATE);
    }
    if (late || has_before(me, word, mode)) {
        me->late[me->count++] = s;
    } else {
        put(&s);
    }
}

static uint64_t load(struct order *me, uintptr_t word, unsigned bytes, int mode)
{
    if (mode == memory_order_seq_cst) {
        settle_for(me, 0, mode);
    }
    for (unsigned i = me->count; i-- > 0;) {
        if (me->late[i].word == word) {
            return me->late[i].value;
        }
    }
    acquire(me, word, mode);
    return get(word, bytes);
}

/* Read, changed and written at once. */
static uint64_t change(struct order *me, unsigned thread, uintptr_t word,
                       unsigned bytes, enum wt_op op, uint64_t value, int mode,
                       bool late)
{
    struct late s = {word, value, bytes, mode, true, {{0}}};
    const clocks *before;
    uint64_t was;

    settle_changes(word);
    settle_for(me, word, mode);
    if (releases(mode) || me->count == LATE) {
        settle(me, me->count);
    }
    acquire(me, word, mode);
    was = get(word, bytes);
    s.value = op == WT_ADD   ? was + value
              : op == WT_SUB ? was - value
              : op == WT_OR  ? was | value
              : op == WT_AND ? was & value
                             : value;
    /* What the store before gave away, it gives, too. */
    before = clock_of(word, false);
    if (before != NULL) {
        s.clock = *before;
    }
    if (releases(mode)) {
        join(&s.clock, &me->seen);
        me->seen.of[thread]++;
    }
    if (late) {
        me->late[me->count++] = s;
    } else {
        put(&s);
    }
    return was;
}

/* ---- plain memory ---- */

extern const char __executable_start[]; /* the linker's */

static void tell_race(uintptr_t at, int thread, bool wrote, const void *pc)
{
    char text[160];

    snprintf(text, sizeof text,
             "race: plain memory at %#zx, which thread %d has %s: addr2line "
             "-fie check_schedules %#zx",
             (size_t)at, thread, wrote ? "written" : "read",
             (size_t)((uintptr_t)pc - (uintptr_t)__executable_start));
    wt_fail_here(text);
}

/* Whether the other thread's last access of that kind to the bytes is not
 * before what this one does. */
static bool races(const struct cell *cell, bool wrote, unsigned mask,
                  unsigned thread)
{
    return (cell->mask[wrote] & mask) != 0 && cell->thread[wrote] != thread &&
           cell->clock[wrote] > order[thread].seen.of[cell->thread[wrote]];
}

static void access(uintptr_t at, unsigned mask, bool writes, const void *pc)
{
    struct cell *cell = &cells[(at / 8) % CELLS];
    int thread = wt_running();
    uint32_t now;

    if (thread < 0) {
        return;
    }
    now = order[thread].seen.of[thread];
    if (cell->at != at) {
        *cell = (struct cell){.at = at};
    }
    for (int wrote = !writes; wrote < 2; wrote++) {
        if (races(cell, wrote, mask, (unsigned)thread)) {
            tell_race(at, cell->thread[wrote], wrote, pc);
        }
    }
    if (cell->thread[writes] != thread || cell->clock[writes] != now) {
        cell->mask[writes] = 0;
    }
    cell->thread[writes] = (uint8_t)thread;
    cell->clock[writes] = now;
    cell->mask[writes] |= (uint8_t)mask;
}

/* An atomic operation on what another thread has just written as plain memory:
 * what it has made, that is, and not yet published. */
static void look_at(uintptr_t word, unsigned thread, const void *pc)
{
    const struct cell *cell = &cells[(word / 8) % CELLS];

    if (cell->at == (word & ~(uintptr_t)7) && wt_running() >= 0 &&
        races(cell, true, 1u << word % 8, thread)) {
        tell_race(word, cell->thread[1], true, pc);
    }
}

uint64_t wt_order_do(unsigned thread, enum wt_op op, const volatile void *at,
                     unsigned bytes, uint64_t value, int mode, bool late)
{
    struct order *me = &order[thread];

    look_at((uintptr_t)at, thread, __builtin_return_address(0));
    if (op == WT_LOAD) {
        return load(me, (uintptr_t)at, bytes, mode);
    }
    if (op == WT_STORE) {
        store(me, thread, (uintptr_t)at, bytes, value, mode, late);
        return 0;
    }
    return change(me, thread, (uintptr_t)at, bytes, op, value, mode, late);
}

bool wt_order_compare(unsigned thread, const volatile void *at, unsigned bytes,
                      void *expected, uint64_t value, int mode, int failed,
                      bool late)
{
    struct order *me = &order[thread];

    look_at((uintptr_t)at, thread, __builtin_return_address(0));
    settle_changes((uintptr_t)at);
    settle_for(me, (uintptr_t)at, mode);
    if (memcmp((const void *)(uintptr_t)at, expected, bytes) == 0) {
        (void)change(me, thread, (uintptr_t)at, bytes, WT_SWAP, value, mode,
                     late);
        return true;
    }
    value = load(me, (uintptr_t)at, bytes, failed);
    memcpy(expected, &value, bytes);
    return false;
}

/* ---- plain memory -------------------------------------------------------- */

static void touch(void *memory, size_t bytes, bool writes, const void *pc)
{
    uintptr_t at = (uintptr_t)memory, end = at + bytes;
    int thread = wt_running();

    for (unsigned i = thread < 0 ? 0 : order[thread].count; i-- > 0;) {
        if (order[thread].late[i].word - at < bytes) {
            settle(&order[thread], i + 1);
            break;
        }
    }
    while (at < end) {
        uintptr_t next = (at | 7) + 1, last = next < end ? next : end;

        access(at & ~(uintptr_t)7,
               (0xFFu << at % 8) & (0xFFu >> (next - last)) & 0xFF, writes, pc);
        at = last;
    }
}

/* New memory has no past. */
static void forget(void *memory, size_t bytes)
{
    uintptr_t at = (uintptr_t)memory & ~(uintptr_t)7;
    int thread = wt_running();

    if (thread < 0) {
        return;
    }
    wt_order_settle((unsigned)thread);
    for (size_t i = 0; i < CELLS && i * 8 < bytes; i++) {
        struct cell *cell = &cells[(at / 8 + i) % CELLS];

        if (cell->at - at < bytes) { /* not of other memory */
            cell->at = 0;
        }
    }
}

#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* In front of the C library's: the linker puts them there. */
void __real_free(void *memory);
void __wrap_free(void *memory)
{
    size_t bytes = memory != NULL ? malloc_usable_size(memory) : 0;

    if (bytes > 0) {
        touch(memory, bytes < PAGE ? bytes : PAGE, true,
              __builtin_return_address(0));
        forget(memory, bytes);
    }
    __real_free(memory);
}

/* Its zeros are written, too. */
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    void *memory = __real_calloc(count, bytes);

    touch(memory, count * bytes < PAGE ? count * bytes : PAGE, true,
          __builtin_return_address(0));
    return memory;
}

int __real_munmap(void *base, size_t bytes);
int __wrap_munmap(void *base, size_t bytes)
{
    forget(base, bytes);
    return __real_munmap(base, bytes);
}

/* Also by players: whoever gets a block has seen what its last user did. */
void *__real_memset(void *memory, int value, size_t bytes);
void *__wrap_memset(void *memory, int value, size_t bytes)
{
    touch(memory, bytes < PAGE ? bytes : PAGE, true,
          __builtin_return_address(0));
    return __real_memset(memory, value, bytes);
}

/* What the compiler calls for -fsanitize=thread, whose library is not there. */
#define PLAIN(name, bytes, writes)                                             \
    void __tsan_##name(void *at)                                               \
    {                                                                          \
        touch(at, bytes, writes, __builtin_return_address(0));                 \
    }
#define PLAIN_OF(bytes)                                                        \
    PLAIN(read##bytes, bytes, false)                                           \
    PLAIN(write##bytes, bytes, true)                                           \
    PLAIN(unaligned_read##bytes, bytes, false)                                 \
    PLAIN(unaligned_write##bytes, bytes, true)
PLAIN_OF(1)
PLAIN_OF(2)
PLAIN_OF(4)
PLAIN_OF(8)
PLAIN_OF(16)

void __tsan_read_range(void *at, size_t bytes)
{
    touch(at, bytes, false, __builtin_return_address(0));
}

void __tsan_write_range(void *at, size_t bytes)
{
    touch(at, bytes, true, __builtin_return_address(0));
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *from)
{
    (void)from;
}

void __tsan_func_exit(void)
{
}

void __tsan_atomic_signal_fence(int mode)
{
    (void)mode;
}
