/* memory_model.h: what the parts of check_memory_model.c share: the world that
 * the steps play in, one in a program, and the steps. All run on one thread
 * unless a step starts others. */
#ifndef WT_MEMORY_MODEL_H
#define WT_MEMORY_MODEL_H

#include "model/model.h"

enum {
    DEVICES = 3,              /* at most: as many as there are */
    SPACES = 1 + 2 * DEVICES, /* page-locked; of devices; shared with them */
    EACH = 4,                 /* streams of a device, beside the default ones */
    NOW = DEVICES * EACH + 2,
    STREAMS = 64,
    LIVE = 128,
    FREED = 2048,
    POOLS = 4,
    CAPTURES = 2,
    GRAPHS = 6,
    KEPT_MOST = 200 /* blocks that graphs of no pool may have */
};

struct pool {
    warm_private_pool name;
    bool user, recording, alive;
    unsigned references;
    enum { OF_THREAD, OF_ALL, OF_STREAM } filter;
    warm_stream stream;
};

/* While it is under way, and the graph that comes of it. */
struct capture {
    struct stream *origin, *branch; /* null: no other stream is in it */
    bool announced;
    struct pool *pool; /* whose memory its work uses, with a reference */
    struct work *work, **last;
    warm_graph graph;
    int device;
};

enum kept { NOT_KEPT, WITH_POOL, FOR_EVER };

struct range {
    char *base;
    size_t bytes;
    int space;      /* 0: page-locked; 1 + its device; shared: that + devices */
    unsigned users; /* of a shared one */
    int node;       /* that was asked for, of page-locked memory */
    unsigned flags; /* WARM_ALLOC_PAGEABLE_OK, or none */
    bool pageable;
    struct point own, use[MODEL_USES];
    unsigned uses;
    struct pool *pool;  /* or null */
    warm_stream lane;   /* allocated while that stream captured; or null */
    struct capture *by; /* filled by that graph, only */
    bool captured;      /* was used in a capture, or allocated there */
    enum kept kept;     /* once it is freed */
    bool filled;        /* by its stream, or by the caller */
    uint64_t filled_at, pattern;
};

extern struct memory_model {
    warm_runtime *runtime;
    struct stream *ever, *now[NOW], *launcher[DEVICES], *last[SPACES];
    size_t evers, most_ever;
    struct range live[LIVE], freed[FREED];
    unsigned lives, freeds;
    struct pool *pools_ever, *pool[POOLS], *recording[POOLS];
    size_t pools_made;
    unsigned pools, recordings;
    struct capture *capture[CAPTURES], *graph[GRAPHS];
    unsigned captures, graphs;
    uint64_t kept[SPACES], with_pools, allocated[SPACES];
    uint64_t random;
    const uint8_t *bytes; /* what is picked comes of them, then of random */
    size_t left;
    unsigned long step;
    bool dry, limited, sealed;
    bool beside; /* another thread gives memory back */
    bool waits;  /* streams, for each other, if that gets them memory */
    int devices;
    unsigned nodes;
    unsigned nows; /* of now */
} model;

#define MUST(condition, ...)                                                   \
    wt_require(condition, "seed %lu step %lu: %s", (unsigned long)wt_seed(),   \
               model.step, __VA_ARGS__)

/* As many bytes as the choice needs, if there are so many. */
static inline uint64_t model_from_bytes(uint64_t below)
{
    uint64_t picked = 0;

    for (uint64_t most = below - 1; most > 0 && model.left > 0; most >>= 8) {
        picked = picked << 8 | *model.bytes++;
        model.left--;
    }
    return picked % below;
}

static inline uint64_t model_pick(uint64_t below)
{
    return model.left > 0 ? model_from_bytes(below)
                          : wt_random(&model.random) % below;
}

static inline int model_spaces(void)
{
    return 1 + 2 * model.devices;
}

/* Its memory is a device's, in the order of a stream; else the host's. */
static inline bool model_is_far(int space)
{
    return space > 0 && space <= model.devices;
}

static inline bool model_is_shared(int space)
{
    return space > model.devices;
}

static inline bool model_is_graphs(const struct pool *pool)
{
    return pool != NULL && !pool->user;
}

static inline bool model_has_graphs(const struct range *r)
{
    return model_is_graphs(r->pool) && r->pool->alive;
}

/* model_run.c: what runs are like, by their number; steps: about how many come.
 * Once all streams have run, which drain() waits for, nothing waits for them.
 */
enum { MODEL_KINDS = 5 };
void model_begin(unsigned kind, unsigned long steps);
void model_step(void);
void model_drain(void);
void model_end(void);

/* model_streams.c: held, retired, adopted, replaced */
struct stream *model_new_stream(int device);
struct stream *model_named_stream(warm_stream name, bool mine);
struct stream *model_any_stream(void);
struct stream *model_stream_of(int device);
void model_release_hold(struct stream *s);
void model_step_hold(void);
void model_step_replace(void);
void model_step_adopt(void);

/* model_rules.c: which allocation may get which freed memory */
void model_check_new(const struct range *fresh);

/* model_pools.c: private pools, and which allocations they serve */
void model_begin_pool(struct pool *pool, const struct stream *s);
struct pool *model_make_pool(bool user);
void model_end_pool(struct pool *pool);
void model_release_pool(struct pool *pool);
void model_step_pool(void);
struct pool *model_expected_pool(const struct stream *s, bool main_thread);

/* model_blocks.c: allocated, used, freed, by several threads; and work */
void model_begin_other(void);
void model_end_other(void);
void model_step_alloc(void);
void model_step_record(void);
void model_step_free(void);
void model_step_user(void);
/* Every user releases what it has. */
void model_end_users(void);

/* model_graphs.c: captures, and graphs that are launched */
void model_drop_graph(struct capture *c);
void model_end_capture(unsigned at);
void model_step_capture(void);
void model_step_graph(void);

/* model_figures.c: what must be true after each step */
void model_check_arenas(void);
void model_check_figures(void);
/* Bytes held; freed blocks that wait for streams and belong to no graph. */
uint64_t model_held(int space);
uint64_t model_pending(int space);

#endif
