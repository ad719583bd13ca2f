/* host_graph.c: graphs of the host device, and how work runs.
 *
 * A graph is one piece of work: it runs its nodes in the order in which the
 * capture recorded them, which respects every dependency. */
#include "runtime/host/host.h"

#include "runtime/base/meta.h"

#include <string.h>

enum { FIRST_NODES = 16 };

static void run_copy_2d(const wm_copy_2d *copy)
{
    char *to = copy->destination;
    const char *from = copy->source;

    for (size_t i = 0; i < copy->height; i++) {
        memmove(to + i * copy->destination_pitch, from + i * copy->source_pitch,
                copy->width);
    }
}

void wm_host_work_run(const wm_host_work *work)
{
    const wm_host_graph *graph;

    switch (work->kind) {
    case WM_HOST_NOTHING:
        break;
    case WM_HOST_COPY:
        if (work->as.copy.bytes > 0) {
            memmove(work->as.copy.destination, work->as.copy.source,
                    work->as.copy.bytes);
        }
        break;
    case WM_HOST_COPY_2D:
        run_copy_2d(&work->as.copy_2d);
        break;
    case WM_HOST_FUNC:
        work->as.func.function(work->as.func.argument);
        break;
    case WM_HOST_LAUNCH:
        graph = work->as.graph;
        for (size_t i = 0; i < graph->nodes; i++) {
            wm_host_work_run(&graph->node[i]);
        }
        break;
    }
}

void wm_host_graph_unref_locked(wm_host *host, wm_host_graph *graph)
{
    if (--graph->references > 0) {
        return;
    }
    for (size_t i = 0; i < graph->nodes; i++) {
        if (graph->node[i].kind == WM_HOST_LAUNCH) {
            wm_host_graph_unref_locked(host, graph->node[i].as.graph);
        }
    }
    if (graph->core != NULL) {
        wm_host_core_unref_locked(host, graph->core);
    }
    wm_meta_free(graph->node);
    wm_meta_free(graph);
}

void wm_host_graph_close_locked(wm_host *host, wm_host_graph *graph)
{
    wm_host_remove_locked(host, WM_HOST_GRAPH, graph);
    wm_host_graph_unref_locked(host, graph);
}

wm_host_graph *wm_host_graph_make_locked(wm_host *host, int device)
{
    wm_host_graph *graph = wm_meta_alloc(sizeof *graph);

    if (graph == NULL) {
        return NULL;
    }
    graph->references = 1;
    graph->device = device;
    if (!wm_host_add_locked(host, WM_HOST_GRAPH, graph, graph)) {
        wm_meta_free(graph);
        return NULL;
    }
    return graph;
}

bool wm_host_graph_add(wm_host_graph *graph, const wm_host_work *work)
{
    if (graph->nodes == graph->room) {
        size_t room = graph->room > 0 ? graph->room * 2 : FIRST_NODES;
        wm_host_work *node = wm_meta_alloc(room * sizeof *node);

        if (node == NULL) {
            return false;
        }
        if (graph->nodes > 0) {
            memcpy(node, graph->node, graph->nodes * sizeof *node);
        }
        wm_meta_free(graph->node);
        graph->node = node;
        graph->room = room;
    }
    graph->node[graph->nodes++] = *work;
    return true;
}
