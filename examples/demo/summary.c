/* summary.c: see summary.h. */
#include "examples/demo/summary.h"

#include <stdio.h>
#include <string.h>

static void row(const char *name, int digits, double warm, double graph,
                double naive)
{
    printf("  %-28s %12.*f %12.*f %12.*f\n", name, digits, warm, digits, graph,
           digits, naive);
}

static double rate(const served *s, int images)
{
    return images / s->load.seconds;
}

static void print_servers(const served *w, const served *g, const served *n,
                          int images)
{
    printf("  %-28s %12s %12s %12s\n", "serving", w->mode, g->mode, n->mode);
    row("server threads", 0, w->threads, g->threads, n->threads);
    row("handles created", 0, w->handles, g->handles, n->handles);
    row("pinned buffers allocated", 0, w->pinned, g->pinned, n->pinned);
    row("  of them from the cache", 0, w->pinned_reused, g->pinned_reused,
        n->pinned_reused);
    row("graphs captured", 0, w->captures, g->captures, n->captures);
    row("  and replayed", 0, w->replays, g->replays, n->replays);
    row("driver calls/request *", 1, w->calls / images, g->calls / images,
        n->calls / images);
    row("requests/s", 0, rate(w, images), rate(g, images), rate(n, images));
    row("p50 ms", 3, w->load.p50_ms, g->load.p50_ms, n->load.p50_ms);
    row("p99 ms", 3, w->load.p99_ms, g->load.p99_ms, n->load.p99_ms);
    row("accuracy", 4, (double)w->load.right / images,
        (double)g->load.right / images, (double)n->load.right / images);
    printf("  * those of warmpool: what %s creates by itself is not counted\n",
           n->mode);
    printf("  warm answers %.2f times as many requests a second as naive\n",
           n->load.seconds / w->load.seconds);
    if (strcmp(w->driver, "host") == 0) {
        puts("  on the host device, on CPU threads, where handles and memory "
             "cost little:\n"
             "  this ratio is not a GPU's, and says nothing of one");
    }
}

static double mib(double bytes)
{
    return bytes / (1 << 20);
}

static void print_memory(const char *who, const memory *m)
{
    printf("  %-14s %6d %9.2f %10.2f %9.2f %8.0f %10.0f %12.0f\n", who,
           m->device, mib(m->held), mib(m->in_use), mib(m->peak), m->blocks,
           m->reused, m->calls);
}

void summary_print(const summary *s)
{
    const trained *t = &s->trained;
    const served *v = s->servers;

    printf("\ndevice: %s\n", v[WARM].device);
    if (t->threads > 0) {
        printf(
            "training: %.1f s, threads started: %.0f, handles created: %.0f,\n"
            "  pinned buffers allocated: %.0f, of them from the cache: %.0f\n",
            t->seconds, t->threads, t->handles, t->pinned, t->reused);
    }
    print_servers(&v[WARM], &v[GRAPH], &v[NAIVE], s->images);
    printf("\n  %-14s %6s %9s %10s %9s %8s %10s %12s\n", "device memory",
           "device", "held MiB", "in use MiB", "peak MiB", "blocks",
           "from cache", "driver calls");
    if (t->threads > 0) {
        print_memory("training", &t->memory);
    }
    for (int i = 0; i < SERVERS; i++) {
        for (int d = 0; d < v[i].devices; d++) {
            print_memory(v[i].mode, &v[i].memory[d]);
        }
    }
    printf("  peak: of what was in use; driver calls: to obtain memory and to "
           "give it back\n\n");
}

/* The weights are there, and no more is in use than is held. */
static bool check_memory(const char *who, const memory *m, message *why)
{
    if (m->in_use <= 0 || m->in_use > m->peak || m->peak > m->held ||
        m->calls <= 0) {
        return failed(why,
                      "%s: %.0f bytes of device %d are held, %.0f in use, "
                      "%.0f at the peak, by %.0f calls",
                      who, m->held, m->device, m->in_use, m->peak, m->calls);
    }
    return true;
}

/* Few of many blocks cost a call of the driver. */
static bool check_reuse(const char *who, const memory *m, message *why)
{
    return check_memory(who, m, why) &&
           (m->reused >= 0.99 * m->blocks ||
            failed(why,
                   "%s: %.0f of %.0f blocks of device %d came from the "
                   "cache",
                   who, m->reused, m->blocks, m->device));
}

static bool check_server(const served *s, int images, message *why)
{
    bool good = s->devices > 0 ||
                failed(why, "the %s server tells of no device memory", s->mode);

    for (int d = 0; good && d < s->devices; d++) {
        good = check_memory(s->mode, &s->memory[d], why);
    }
    if (good && s->load.right < 0.85 * images) {
        good = failed(why, "%s: accuracy %.4f is less than 0.85", s->mode,
                      (double)s->load.right / images);
    }
    return good;
}

bool summary_check(const summary *s, message *why)
{
    const served *warm = &s->servers[WARM], *graph = &s->servers[GRAPH];

    for (int i = 0; i < SERVERS; i++) {
        if (!check_server(&s->servers[i], s->images, why)) {
            return false;
        }
    }
    if (s->trained.threads > 0 &&
        !check_reuse("training", &s->trained.memory, why)) {
        return false;
    }
    if (!check_reuse(warm->mode, &warm->memory[0], why)) {
        return false;
    }
    if (graph->captures <= 0 || graph->captures + graph->replays != s->images) {
        return failed(why, "graphs: %.0f, replays of them: %.0f, images: %d",
                      graph->captures, graph->replays, s->images);
    }
    return memcmp(warm->classes, graph->classes, (size_t)s->images) == 0 ||
           failed(why, "graphs put images into other classes");
}
