/* demo.c: trains, serves, and measures; `make demo` runs it.
 *
 *   data_parallel ──► weights ──► inference_server ◄── 10,000 test images
 *                            ├──► inference_server --graph ◄── the same
 *                            └──► inference_server --naive ◄── the same
 *
 * Prints tables for people, and a last line for programs. Ends with 0 only if
 * every image was answered, at least 85 % of them rightly, and the figures in
 * the tables are as they should be (summary_check()). */
#include "examples/common/local.h"
#include "examples/common/options.h"
#include "examples/common/process.h"
#include "examples/demo/summary.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct plan {
    const char *bin, *data, *driver;
    char weights[512];
    int connections, threads;
    bool reuse;
} plan;

/* The number behind a name in a line, 0 if it is not there. */
static double field(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    return at != NULL ? strtod(at + strlen(name), NULL) : 0;
}

/* Said once: a child that falls back on the host device warns, and those after
 * it are told to use that. */
static void learn_driver(plan *p, const char *driver)
{
    if (strcmp(driver, "host") == 0) {
        p->driver = "host";
    }
}

static bool train(plan *p, trained *t, message *why)
{
    char program[512], line[1024];
    const char *argv[] = {program,   "--data",    p->data,    "--driver",
                          p->driver, "--weights", p->weights, NULL};
    process child;
    bool good;
    int status;

    if (p->reuse && access(p->weights, R_OK) == 0) {
        printf("training: %s is there already\n", p->weights);
        return true;
    }
    printf("training, with fresh threads for every step\n");
    snprintf(program, sizeof program, "%s/data_parallel", p->bin);
    if (!process_start(&child, argv, why)) {
        return false;
    }
    good = process_line(&child, "train: ok", true, line, sizeof line);
    status = process_end(&child, 0);
    if (!good || status != 0) {
        return failed(why, "training ended with status %d", status);
    }
    t->seconds = field(line, "seconds=");
    t->threads = field(line, "threads=");
    t->handles = field(line, "handles_created=");
    t->pinned = field(line, "pinned=");
    t->reused = field(line, " reused=");
    t->memory.device = (int)field(line, "device=");
    t->memory.held = field(line, "held_bytes=");
    t->memory.in_use = field(line, "in_use_bytes=");
    t->memory.peak = field(line, "peak_bytes=");
    t->memory.blocks = field(line, "device_blocks=");
    t->memory.reused = field(line, "device_reused=");
    t->memory.calls = field(line, "memory_calls=");
    learn_driver(p, strstr(line, " driver=host ") != NULL ? "host" : "");
    return true;
}

static bool read_memory(json_t *device, memory *m, message *why)
{
    json_error_t error;
    double allocs, frees;

    if (json_unpack_ex(device, &error, 0,
                       "{s:i, s:{s:{s:F}, s:{s:F, s:F}, s:{s:F}}, s:F, s:{s:F},"
                       " s:{s:F}}",
                       "device", &m->device, "all", "held_bytes", "current",
                       &m->held, "live_bytes", "current", &m->in_use, "peak",
                       &m->peak, "live", "allocated", &m->blocks, "cache_hits",
                       &m->reused, "driver_alloc", "count", &allocs,
                       "driver_free", "count", &frees) != 0) {
        return failed(why, "/stats: %s", error.text);
    }
    m->calls = allocs + frees;
    return true;
}

static bool read_stats(json_t *stats, served *s, message *why)
{
    const char *device, *driver;
    json_t *devices, *each;
    json_error_t error;
    size_t i;

    if (json_unpack_ex(
            stats, &error, 0,
            "{s:{s:F, s:F, s:F, s:F, s:F, s:F, s:F, s:s, s:s}, s:{s:o}}",
            "server", "handles_created", &s->handles, "pinned", &s->pinned,
            "pinned_reused", &s->pinned_reused, "threads", &s->threads,
            "driver_calls", &s->calls, "captures", &s->captures, "replays",
            &s->replays, "device", &device, "driver", &driver, "warmpool",
            "device_memory", &devices) != 0) {
        return failed(why, "/stats: %s", error.text);
    }
    snprintf(s->device, sizeof s->device, "%s", device);
    snprintf(s->driver, sizeof s->driver, "%s", driver);
    json_array_foreach (devices, i, each) {
        if (i == MAX_DEVICES) {
            break;
        }
        if (!read_memory(each, &s->memory[i], why)) {
            return false;
        }
        s->devices++;
    }
    return true;
}

static bool ask_stats(int port, served *s, message *why)
{
    json_t *stats = local_json(port, "/stats", NULL, why);
    bool good = stats != NULL && read_stats(stats, s, why);

    json_decref(stats);
    return good;
}

/* Starts a server, sends it all images, reads its figures, and ends it. */
static bool serve(plan *p, const image_set *set, const char *mode,
                  const char *option, served *s, message *why)
{
    char program[512], threads[16], line[256];
    const char *argv[] = {program,    "--port",   "0",       "--weights",
                          p->weights, "--driver", p->driver, "--threads",
                          threads,    option,     NULL};
    load_plan load = {
        .set = set, .connections = p->connections, .progress = true};
    process child;
    int status;
    bool good;

    snprintf(program, sizeof program, "%s/inference_server", p->bin);
    snprintf(threads, sizeof threads, "%d", p->threads);
    s->mode = mode;
    s->classes = calloc((size_t)set->count, 1);
    if (s->classes == NULL) {
        return failed(why, "out of memory");
    }
    load.classes = s->classes;
    if (!process_start(&child, argv, why)) {
        return false;
    }
    if (!process_line(&child, "listening on http://127.0.0.1:", false, line,
                      sizeof line)) {
        return failed(why, "the server did not start (status %d)",
                      process_end(&child, SIGTERM));
    }
    load.port = (int)field(line, "127.0.0.1:");
    printf("%-5s  images: %d, connections: %d ", mode, set->count,
           p->connections);
    fflush(stdout);
    good = load_run(&load, &s->load, why) && ask_stats(load.port, s, why);
    if (good) {
        printf(" %.0f requests/s\n", set->count / s->load.seconds);
        learn_driver(p, s->driver);
    } else {
        putchar('\n');
    }
    status = process_end(&child, SIGTERM);
    if (good && status != 0) {
        good = failed(why, "the %s server ended with status %d", mode, status);
    }
    return good;
}

/* A name for the last line, where a space would end it. */
static const char *one_word(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == ' ' ? '_' : *at;
    }
    return text;
}

/* For programs, of the warm server if not said otherwise. The last line has
 * what matters most, and is cut to 100 columns at the device's name. */
static void print_last_lines(summary *s)
{
    const trained *t = &s->trained;
    served *warm = &s->servers[WARM];
    const memory *m = &warm->memory[0];
    char figures[128];
    int length;

    printf("figures: handles_created=%.0f threads=%.0f reuse=%.4f "
           "device_reuse=%.4f graph_rps=%.0f\n",
           t->handles + warm->handles, t->threads + warm->threads,
           warm->pinned > 0 ? warm->pinned_reused / warm->pinned : 0,
           m->blocks > 0 ? m->reused / m->blocks : 0,
           s->images / s->servers[GRAPH].load.seconds);
    printf("figures: device_held_bytes=%.0f device_in_use_bytes=%.0f "
           "device_peak_bytes=%.0f\n",
           m->held, m->in_use, m->peak);
    length =
        snprintf(figures, sizeof figures,
                 " images=%d accuracy=%.4f rps=%.0f p99_ms=%.3f vs_naive=%.2f",
                 s->images, (double)warm->load.right / s->images,
                 s->images / warm->load.seconds, warm->load.p99_ms,
                 s->servers[NAIVE].load.seconds / warm->load.seconds);
    length = 100 - (int)strlen("demo: ok device=") - length;
    printf("demo: ok device=%.*s%s\n", length > 8 ? length : 8,
           one_word(warm->device), figures);
}

static bool run(plan *p, message *why)
{
    summary s = {.images = 0};
    image_set set;
    bool good;

    if (!images_load(p->data, "t10k", &set, why)) {
        return false;
    }
    s.images = set.count;
    good = train(p, &s.trained, why) &&
           serve(p, &set, "warm", NULL, &s.servers[WARM], why) &&
           serve(p, &set, "graph", "--graph", &s.servers[GRAPH], why) &&
           serve(p, &set, "naive", "--naive", &s.servers[NAIVE], why);
    if (good) {
        summary_print(&s);
        good = summary_check(&s, why);
    }
    if (good) {
        print_last_lines(&s);
    }
    for (int i = 0; i < SERVERS; i++) {
        free(s.servers[i].classes);
    }
    images_free(&set);
    return good;
}

int main(int argc, char **argv)
{
    plan p = {.bin = ".",
              .data = IMAGES_FOLDER,
              .driver = "auto",
              .connections = 8,
              .threads = 4};
    const option_row rows[] = {
        {"bin", "folder of the programs and weights", .text = &p.bin},
        {"data", "folder of the images", .text = &p.data},
        {"driver", "auto, cuda or host", .text = &p.driver},
        {"connections", "to the server", .number = &p.connections, .least = 1,
         .most = 64},
        {"threads", "of the server", .number = &p.threads, .least = 1,
         .most = 256},
        {"reuse", "use weights that are there already", .flag = &p.reuse},
        {.name = NULL}};
    message why = {.text = ""};

    int status = options_read(argc, argv, rows);

    if (status >= 0) {
        return status;
    }
    /* Plain HTTP alone. */
    curl_global_init(CURL_GLOBAL_NOTHING);
    snprintf(p.weights, sizeof p.weights, "%s/fashion-mnist.weights", p.bin);
    if (!run(&p, &why)) {
        printf("demo: failed %s\n", why.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
