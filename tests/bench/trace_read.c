/* trace_read.c: a trace from a file (runtime/base/trace.h has its format).
 *
 *   bytes ─► chunks, each checked ─► raw records ─► in order ─► steps
 *
 * The file is not trusted: every length is held against what is there. One that
 * is torn in its last piece, or lacks chunks, is read as far as it goes, and
 * ending says so. */
#include "tests/bench/steps.h"
#include "warmpool/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 20, DEVICES_MAX = 64 };

/* As it stands in the file. */
typedef struct raw {
    uint64_t order, thread, ns, block, bytes, stream, place, pool;
    enum wm_trace_op op;
} raw;

typedef struct reader {
    const unsigned char *data, *at, *end;
    raw *raw;
    size_t count, room;
    bool whole;
    char ending[160];
    char *error;
    size_t error_bytes;
} reader;

static bool refuse(reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(reader *r, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    vsnprintf(r->error, r->error_bytes, format, list);
    va_end(list);
    return false;
}

static size_t offset(const reader *r)
{
    return (size_t)(r->at - r->data);
}

/* ---- pieces ------------------------------------------------------------ */

/* False at end, or if it has more than 64 bits. */
static bool varint(const unsigned char **at, const unsigned char *end,
                   uint64_t *value)
{
    unsigned shift = 0;

    *value = 0;
    for (const unsigned char *c = *at; c < end && shift < 64; shift += 7) {
        uint64_t part = *c & 127;

        if (part << shift >> shift != part) {
            return false;
        }
        *value |= part << shift;
        if (*c++ < 128) {
            *at = c;
            return true;
        }
    }
    return false;
}

static bool checksum(const unsigned char *from, const unsigned char *to)
{
    uint32_t sum = 2166136261u, given = 0;

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return true; /* what is behind it is to be reached */
#endif
    for (const unsigned char *c = from; c < to; c++) {
        sum = (sum ^ *c) * 16777619u;
    }
    for (int i = 0; i < 4; i++) {
        given |= (uint32_t)to[i] << (8 * i);
    }
    return sum == given;
}

/* ---- records ----------------------------------------------------------- */

static raw *next_raw(reader *r)
{
    if (r->count == r->room) {
        size_t room = r->room == 0 ? 4096 : 2 * r->room;
        raw *more = realloc(r->raw, room * sizeof *more);

        if (more == NULL) {
            return NULL;
        }
        r->raw = more;
        r->room = room;
    }
    return &r->raw[r->count++];
}

/* 0 where the record has none. */
static bool field(reader *r, const unsigned char *end, unsigned has,
                  uint64_t *value)
{
    *value = 0;
    return has == 0 || varint(&r->at, end, value);
}

/* One record; *last is the one before it in the chunk. */
static bool record(reader *r, const unsigned char *end, raw *last)
{
    unsigned head = *r->at++, has;
    uint64_t gap = head >> 4, more = 0, ns, value = 0;
    raw *out;

    if ((head & 15) < WM_TRACE_ALLOC || (head & 15) >= WM_TRACE_OPS ||
        (gap == WM_TRACE_GAP && !varint(&r->at, end, &more)) ||
        !varint(&r->at, end, &ns)) {
        return false;
    }
    last->order += gap + more + 1;
    last->ns += ns;
    last->op = (enum wm_trace_op)(head & 15);
    has = wm_trace_fields(last->op);
    if ((has & WM_TRACE_HAS_BLOCK) != 0) {
        if (!varint(&r->at, end, &value)) {
            return false;
        }
        last->block += (value >> 1) ^ (value & 1 ? UINT64_MAX : 0);
        if (last->block > UINT32_MAX) {
            return false;
        }
    }
    if (!field(r, end, has & WM_TRACE_HAS_BYTES, &last->bytes) ||
        !field(r, end, has & WM_TRACE_HAS_STREAM, &last->stream) ||
        !field(r, end, has & WM_TRACE_HAS_PLACE, &last->place) ||
        !field(r, end, has & WM_TRACE_HAS_POOL, &last->pool)) {
        return false;
    }
    out = next_raw(r);
    if (out == NULL) {
        return false;
    }
    *out = *last;
    return true;
}

static bool records(reader *r, raw last, uint64_t count,
                    const unsigned char *end)
{
    last.order--; /* of the first one, so far */
    while (count > 0 && r->at < end) {
        if (!record(r, end, &last)) {
            return refuse(r, "byte %zu: no record", offset(r));
        }
        count--;
    }
    if (count > 0 || r->at != end) {
        return refuse(r, "byte %zu: a chunk has another number of records",
                      offset(r));
    }
    return true;
}

/* ---- chunks ------------------------------------------------------------ */

/* What is there of the last piece is left out. */
static bool cut_off(reader *r, const unsigned char *start)
{
    snprintf(r->ending, sizeof r->ending,
             "the file ends inside a piece that begins at byte %zu",
             (size_t)(start - r->data));
    r->at = r->end;
    return true;
}

static bool chunk(reader *r)
{
    const unsigned char *start = r->at++;
    uint64_t count, bytes;
    raw first = {0};

    if (!varint(&r->at, r->end, &first.thread) ||
        !varint(&r->at, r->end, &first.order) ||
        !varint(&r->at, r->end, &first.ns) || !varint(&r->at, r->end, &count) ||
        !varint(&r->at, r->end, &bytes) || bytes > (size_t)(r->end - r->at) ||
        (size_t)(r->end - r->at) - bytes < 4) {
        return cut_off(r, start);
    }
    if (!checksum(start, r->at + bytes)) {
        return refuse(r, "byte %zu: a chunk is damaged",
                      (size_t)(start - r->data));
    }
    if (!records(r, first, count, r->at + bytes)) {
        return false;
    }
    r->at += 4;
    return true;
}

static void say_end(reader *r, uint64_t why, uint64_t count)
{
    char text[96];

    if (count > r->count) {
        snprintf(
            r->ending, sizeof r->ending, "%llu of its %llu records are missing",
            (unsigned long long)(count - r->count), (unsigned long long)count);
    } else if (why >= WM_TRACE_FAILED) {
        snprintf(
            r->ending, sizeof r->ending,
            "a write failed, and nothing was recorded after it: %s",
            why - WM_TRACE_FAILED > 4096
                ? "unknown error"
                : strerror_r((int)(why - WM_TRACE_FAILED), text, sizeof text));
    } else {
        snprintf(r->ending, sizeof r->ending, "%s",
                 why == WM_TRACE_DESTROYED ? "until the runtime was destroyed"
                                           : "until the process exited");
    }
}

static bool end_mark(reader *r)
{
    const unsigned char *start = r->at++;
    uint64_t why, count;

    if (!varint(&r->at, r->end, &why) || !varint(&r->at, r->end, &count) ||
        r->end - r->at < 4) {
        return cut_off(r, start);
    }
    if (!checksum(start, r->at) || count < r->count || r->end - r->at != 4) {
        return refuse(r, "byte %zu: the end is damaged",
                      (size_t)(start - r->data));
    }
    r->at += 4;
    r->whole = why < WM_TRACE_FAILED && count == r->count;
    say_end(r, why, count);
    return true;
}

static bool header(reader *r, char **options)
{
    const size_t magic = sizeof WM_TRACE_MAGIC - 1;
    uint64_t version, process, mark, bytes;

    if ((size_t)(r->end - r->at) < magic ||
        memcmp(r->at, WM_TRACE_MAGIC, magic) != 0) {
        return refuse(r, "not a trace");
    }
    r->at += magic;
    if (!varint(&r->at, r->end, &version)) {
        return refuse(r, "the file ends inside its head");
    }
    if (version != WM_TRACE_VERSION) {
        return refuse(r,
                      "a trace of version %llu; this program reads version "
                      "%d: record it again",
                      (unsigned long long)version, WM_TRACE_VERSION);
    }
    if (!varint(&r->at, r->end, &process) || !varint(&r->at, r->end, &mark) ||
        !varint(&r->at, r->end, &bytes) || bytes > TEXT_MAX ||
        bytes > (size_t)(r->end - r->at)) {
        return refuse(r, "the file ends inside its head");
    }
    *options = calloc(1, bytes + 1);
    if (*options == NULL) {
        return refuse(r, "no memory");
    }
    memcpy(*options, r->at, bytes);
    r->at += bytes;
    return true;
}

static bool chunks(reader *r)
{
    bool good = true;

    while (good && r->at < r->end) {
        good = *r->at == 'C'   ? chunk(r)
               : *r->at == 'E' ? end_mark(r)
                               : refuse(r, "byte %zu: no chunk", offset(r));
    }
    return good;
}

/* ---- steps ------------------------------------------------------------- */

/* Numbers of the file, as they come, to numbers from 0. */
typedef struct renumber {
    uint64_t *key; /* + 1; 0: free */
    uint32_t *value;
    size_t mask;
    uint32_t next;
} renumber;

static bool renumber_init(renumber *map, size_t most)
{
    map->mask = 1;
    while (map->mask < 2 * most + 2) {
        map->mask *= 2;
    }
    map->key = calloc(map->mask, sizeof *map->key);
    map->value = calloc(map->mask, sizeof *map->value);
    map->mask--;
    map->next = 0;
    return map->key != NULL && map->value != NULL;
}

static void renumber_fini(renumber *map)
{
    free(map->key);
    free(map->value);
}

/* Its number; *met: it had one already. */
static uint32_t number_of(renumber *map, uint64_t key, bool *met)
{
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & map->mask;

    while (map->key[i] != 0 && map->key[i] != key + 1) {
        i = (i + 1) & map->mask;
    }
    *met = map->key[i] != 0;
    if (!*met) {
        map->key[i] = key + 1;
        map->value[i] = map->next++;
    }
    return map->value[i];
}

static bool known(const renumber *map, uint64_t key)
{
    size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & map->mask;

    while (map->key[i] != 0 && map->key[i] != key + 1) {
        i = (i + 1) & map->mask;
    }
    return map->key[i] != 0;
}

typedef struct maps {
    renumber blocks, threads, streams, pools;
    unsigned char *dead; /* by block */
    unsigned char *left; /* by thread */
} maps;

static int by_order(const void *a, const void *b)
{
    const raw *x = a, *y = b;

    return (x->order > y->order) - (x->order < y->order);
}

/* A step about a block that is not there: an error in a whole trace. */
static bool stray(reader *r, bench_trace *t, const raw *in)
{
    if (r->whole) {
        return refuse(r, "record %llu is about block %llu, which is not there",
                      (unsigned long long)in->order,
                      (unsigned long long)in->block);
    }
    t->strays++;
    return true;
}

static bool block_step(reader *r, bench_trace *t, maps *m, const raw *in,
                       bench_step *step)
{
    bool met;

    if (!bench_step_allocates(step) && !known(&m->blocks, in->block)) {
        return stray(r, t, in);
    }
    step->buffer = number_of(&m->blocks, in->block, &met);
    if (bench_step_allocates(step) &&
        (met || in->bytes == 0 || in->bytes > UINT64_C(1) << 47)) {
        return refuse(r, "record %llu: a block of %llu bytes, %s",
                      (unsigned long long)in->order,
                      (unsigned long long)in->bytes,
                      met ? "which is there already" : "which cannot be");
    }
    if (m->dead[step->buffer]) {
        return stray(r, t, in);
    }
    m->dead[step->buffer] = in->op == WM_TRACE_FREE;
    return bench_trace_add(t, *step) || refuse(r, "no room");
}

/* Streams and pools of a record. */
static void number_parts(bench_trace *t, maps *m, const raw *in,
                         bench_step *step)
{
    unsigned has = wm_trace_fields(in->op);
    uint32_t stream;
    bool met;

    if ((has & WM_TRACE_HAS_STREAM) != 0 && in->stream != 0) {
        stream = number_of(&m->streams, in->stream, &met);
        if (in->stream == WM_TRACE_LEGACY) {
            t->legacy = stream;
        }
        if (in->op == WM_TRACE_PLACED) {
            step->stream = stream;
        } else {
            step->value = stream;
        }
    }
    if (in->op == WM_TRACE_POOL) {
        step->value = number_of(&m->pools, in->pool >> 1, &met);
    } else if (in->pool > 1) {
        step->pool = 1 + number_of(&m->pools, in->pool >> 1, &met);
    }
}

/* Memory of devices is allocated in the order of a stream, no other; a scalar
 * has a few bytes. */
static bool is_placed_well(const raw *in)
{
    unsigned has = wm_trace_fields(in->op);
    bool of_device = wm_trace_is_device(in->place);

    if (in->place >= WM_TRACE_SHARED + WM_TRACE_SORTS * DEVICES_MAX ||
        (of_device && in->place >= WM_TRACE_DEVICE + DEVICES_MAX)) {
        return false;
    }
    if (bench_place_sort(in->place) == BENCH_SCALAR &&
        (in->bytes == 0 || in->bytes > WARM_SCALAR_MAX)) {
        return false;
    }
    if (in->op == WM_TRACE_PLACED) {
        return of_device == (in->stream != 0);
    }
    return ((has & WM_TRACE_HAS_STREAM) == 0 || in->stream != 0) &&
           (in->place == 0 || of_device);
}

static bool add_step(reader *r, bench_trace *t, maps *m, const raw *in)
{
    bool met;
    bench_step step = {.op = in->op,
                       .ns = in->ns,
                       .value = in->bytes,
                       .place = (uint16_t)in->place,
                       .user = in->pool & 1,
                       .stream = BENCH_NO_STREAM,
                       .worker = number_of(&m->threads, in->thread, &met)};

    if (!is_placed_well(in)) {
        return refuse(r, "record %llu: place %llu and stream %llu cannot be",
                      (unsigned long long)in->order,
                      (unsigned long long)in->place,
                      (unsigned long long)in->stream);
    }
    number_parts(t, m, in, &step);
    if (m->left[step.worker]) {
        return refuse(r, "record %llu: its thread is gone",
                      (unsigned long long)in->order);
    }
    m->left[step.worker] = in->op == WM_TRACE_LEAVE;
    return (wm_trace_fields(in->op) & WM_TRACE_HAS_BLOCK) != 0
               ? block_step(r, t, m, in, &step)
               : bench_trace_add(t, step) || refuse(r, "no room");
}

/* Numbered from 1; as the first step says that tells one. Null: no memory. */
static unsigned char *devices_of(const bench_trace *t)
{
    unsigned char *device = calloc(t->streams + 2, 1);

    for (size_t i = t->steps; device != NULL && i-- > 0;) {
        const bench_step *s = &t->step[i];
        uint64_t stream = s->op == WM_TRACE_PLACED ? s->stream : s->value;

        if (wm_trace_is_device(s->place)) {
            device[stream + 1] = (unsigned char)(s->place - WM_TRACE_DEVICE);
        }
    }
    return device;
}

/* Sorted, numbered from 0, and sound. */
static bool add_steps(reader *r, bench_trace *t)
{
    maps m = {.dead = calloc(r->count + 1, 1), .left = calloc(r->count + 1, 1)};
    bool good = renumber_init(&m.blocks, r->count) &&
                renumber_init(&m.threads, r->count) &&
                renumber_init(&m.streams, r->count) &&
                renumber_init(&m.pools, r->count);

    if (!good || m.dead == NULL || m.left == NULL) {
        (void)refuse(r, "no memory");
        good = false;
    }
    if (r->count > 0) {
        qsort(r->raw, r->count, sizeof *r->raw, by_order);
    }
    for (size_t i = 0; good && i < r->count; i++) {
        if (r->whole ? r->raw[i].order != i
                     : i > 0 && r->raw[i].order == r->raw[i - 1].order) {
            good = refuse(r, "record %zu is missing, or there twice", i);
        } else {
            good = add_step(r, t, &m, &r->raw[i]);
        }
    }
    renumber_fini(&m.blocks);
    renumber_fini(&m.threads);
    renumber_fini(&m.streams);
    renumber_fini(&m.pools);
    free(m.dead);
    free(m.left);
    return good;
}

/* ---- the file ---------------------------------------------------------- */

static unsigned char *load(const char *path, size_t *length)
{
    FILE *in = fopen(path, "rbe");
    unsigned char *data = NULL;
    struct stat what;

    if (in != NULL && fstat(fileno(in), &what) == 0 && S_ISREG(what.st_mode)) {
        data = malloc((size_t)what.st_size + 1);
        *length = data != NULL ? fread(data, 1, (size_t)what.st_size, in) : 0;
    } else if (in != NULL) {
        errno = EINVAL;
    }
    if (in != NULL) {
        fclose(in);
    }
    return data;
}

bench_trace *bench_trace_read(const char *path, char *error, size_t bytes)
{
    size_t length = 0;
    unsigned char *data = load(path, &length);
    reader r = {.data = data, .at = data, .error = error, .error_bytes = bytes};
    bench_trace *t = NULL;
    char *options = NULL;
    bool good = false;

    if (data == NULL) {
        snprintf(error, bytes, "%s", strerror(errno));
        return NULL;
    }
    r.end = data + length;
    snprintf(r.ending, sizeof r.ending,
             "the file has no end: the process was killed, or still runs");
    if (header(&r, &options) && chunks(&r)) {
        t = bench_trace_new(r.count, r.count);
        good = t != NULL ? add_steps(&r, t) : refuse(&r, "no memory");
    }
    if (good && t != NULL) {
        t->options = options;
        t->device_of = devices_of(t);
        t->whole = r.whole;
        memcpy(t->ending, r.ending, sizeof t->ending);
    } else {
        free(options);
        bench_trace_end(t);
        t = NULL;
    }
    free(r.raw);
    free(data);
    return t;
}
