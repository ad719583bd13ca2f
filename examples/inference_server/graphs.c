/* graphs.c: see graphs.h.
 *
 *   pool: begin ─ capture: begin ─ upload ─ gemm ─ … ─ download ─ end ─ end
 *   and for every image from then on: launch
 *
 * A graph remembers addresses. The buffer of the host is its own; the room on
 * the device is freed in the capture, and serves all graphs of the thread:
 * they run one after another, and each fills it anew. */
#include "examples/inference_server/graphs.h"

#include <stdlib.h>

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
    return g;
}

bool graphs_know(const graphs *g, int count)
{
    return g->of[count - 1].graph.graph != NULL;
}

/* What this thread allocates from now on comes from the pool. */
static bool begin_pool(graphs *g)
{
    /* Page-locked memory is for that stream, too. */
    maths_check(&g->m, warm_thread_set_stream(g->m.runtime, g->m.stream));
    if (!g->m.bad) {
        maths_check(&g->m, warm_private_pool_begin(g->m.runtime, &g->pool, 0,
                                                   NULL, NULL));
    }
    if (g->m.bad) {
        warm_thread_set_stream(g->m.runtime, NULL);
    }
    return !g->m.bad;
}

static void queue(graphs *g, int count, model_graph *of)
{
    size_t in = (size_t)count * IMAGE_BYTES, out = (size_t)count * CLASSES;
    void *buffer = NULL;
    model_room room;

    if (!g->m.bad) {
        maths_check(&g->m,
                    warm_pinned_alloc(g->m.runtime, (in + out) * sizeof(float),
                                      &buffer));
    }
    if (!g->m.bad) {
        of->x = buffer;
        of->p = of->x + in;
    }
    model_room_init(&room, &g->m, count);
    model_run(&g->m, g->weights, &room, count, of->x, of->p);
    model_room_fini(&room, &g->m);
}

/* And the graph's reference to the pool. */
static void forget(graphs *g, model_graph *of)
{
    maths_graph_destroy(&g->m, &of->graph);
    warm_free(of->x);
    of->x = of->p = NULL;
    warm_private_pool_release(g->m.runtime, g->pool);
}

void graphs_capture(graphs *g, int count)
{
    model_graph *of = &g->of[count - 1];

    if (!begin_pool(g)) {
        return;
    }
    maths_capture_begin(&g->m);
    queue(g, count, of);
    maths_capture_end(&g->m, &of->graph);
    maths_check(&g->m, warm_private_pool_end(g->m.runtime, g->pool));
    maths_check(&g->m, warm_thread_set_stream(g->m.runtime, NULL));
    if (g->m.bad) {
        forget(g, of);
    }
}

const float *graphs_replay(graphs *g, const unsigned char *pixels, int count)
{
    model_graph *of = &g->of[count - 1];

    images_normalize(pixels, (size_t)count * IMAGE_BYTES, of->x);
    maths_replay(&g->m, &of->graph);
    return maths_finish(&g->m) ? of->p : NULL;
}

void graphs_end(graphs *g)
{
    if (g == NULL) {
        return;
    }
    /* After an error something may still run. */
    maths_finish(&g->m);
    for (int i = 0; i < TURN_IMAGES; i++) {
        if (g->of[i].graph.graph != NULL) {
            forget(g, &g->of[i]);
        }
    }
    maths_end(&g->m);
    free(g);
}
