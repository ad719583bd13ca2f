/* graphs.c: see graphs.h.
 *
 *   first of its size:  upload ─ gemm ─ … ─ download, and the same captured
 *   from then on:       launch
 *
 * A graph remembers addresses, so what it works on stays in its place: one
 * pinned buffer and one room on the device for the life of the thread. All its
 * graphs share them, since they run one after another. */
#include "examples/inference_server/graphs.h"

#include <stdlib.h>

struct graphs {
    maths m;
    const float *weights;
    model_room room;
    float *x; /* of the host, pinned: TURN_IMAGES × IMAGE_BYTES */
    float *p; /* behind it: TURN_IMAGES × CLASSES */
    maths_graph graph[TURN_IMAGES]; /* for i + 1 images */
};

static void take_memory(graphs *g)
{
    const size_t in = (size_t)TURN_IMAGES * IMAGE_BYTES;
    const size_t out = (size_t)TURN_IMAGES * CLASSES;
    void *buffer = NULL;

    if (warm_pinned_alloc(g->m.runtime, (in + out) * sizeof(float), &buffer) !=
        WARM_OK) {
        maths_failed(&g->m, "%s", warm_last_error_message());
        return;
    }
    g->x = buffer;
    g->p = g->x + in;
    model_room_init(&g->room, &g->m, TURN_IMAGES);
}

graphs *graphs_begin(warm_runtime *runtime, int device, const float *weights,
                     message *why)
{
    graphs *g = calloc(1, sizeof *g);

    if (g == NULL) {
        failed(why, "out of memory");
        return NULL;
    }
    g->weights = weights;
    if (!maths_begin(&g->m, runtime, device)) {
        *why = g->m.why;
        free(g);
        return NULL;
    }
    take_memory(g);
    if (g->m.bad) {
        *why = g->m.why;
        graphs_end(g);
        return NULL;
    }
    return g;
}

static void capture(graphs *g, int count)
{
    maths_capture_begin(&g->m);
    model_run(&g->m, g->weights, &g->room, count, g->x, g->p);
    maths_capture_end(&g->m, &g->graph[count - 1]);
}

const float *graphs_run(graphs *g, const unsigned char *pixels, int count,
                        bool *captured, message *why)
{
    const maths_graph *graph = &g->graph[count - 1];

    images_normalize(pixels, (size_t)count * IMAGE_BYTES, g->x);
    *captured = graph->graph == NULL;
    if (*captured) {
        model_run(&g->m, g->weights, &g->room, count, g->x, g->p);
    } else {
        maths_replay(&g->m, graph);
    }
    maths_finish(&g->m);
    if (*captured) {
        capture(g, count);
    }
    *why = g->m.why;
    return g->m.bad ? NULL : g->p;
}

void graphs_end(graphs *g)
{
    if (g == NULL) {
        return;
    }
    /* After an error something may still run. */
    maths_finish(&g->m);
    for (int i = 0; i < TURN_IMAGES; i++) {
        maths_graph_destroy(&g->m, &g->graph[i]);
    }
    model_room_fini(&g->room, &g->m);
    warm_free(g->x);
    maths_end(&g->m);
    free(g);
}
