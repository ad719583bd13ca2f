/* demo.c: trains, serves, and measures; `make demo` runs it.
 *
 *   data_parallel ──► weights ──► inference_server ◄── 10,000 test images
 *                            └──► inference_server --naive ◄── the same
 *
 * Prints a table for people, and a last line for programs. Ends with 0 only
 * if every image was answered and at least 85 % of them rightly. */
#include "examples/common/http.h"
#include "examples/common/json.h"
#include "examples/common/options.h"
#include "examples/common/process.h"
#include "examples/demo/load.h"

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

/* What one server did. */
typedef struct served {
    load_result load;
    double handles, pinned, pinned_reused, threads;
    char device[128];
} served;

typedef struct trained {
    double threads, handles, pinned, reused, seconds;
} trained;

/* The number behind a name in a line, 0 if it is not there. */
static double field(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    return at != NULL ? strtod(at + strlen(name), NULL) : 0;
}

static bool train(const plan *p, trained *t, message *why)
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
    t->reused = field(line, "reused=");
    return true;
}

static bool ask_stats(int port, served *s, message *why)
{
    http h;
    http_reply reply;
    bool good = http_open(&h, port, why) &&
                http_ask(&h, "GET", "/stats", "", NULL, 0, &reply, why);

    if (good && (reply.status != 200 || !json_valid(reply.body))) {
        good =
            failed(why, "/stats answered %d: %.200s", reply.status, reply.body);
    }
    if (good) {
        s->handles = json_number(reply.body, "server.handles_created", 0);
        s->pinned = json_number(reply.body, "server.pinned", 0);
        s->pinned_reused = json_number(reply.body, "server.pinned_reused", 0);
        s->threads = json_number(reply.body, "server.threads", 0);
        json_string(reply.body, "server.device", s->device, sizeof s->device);
    }
    http_close(&h);
    return good;
}

/* Starts a server, sends it all images, reads its figures, and ends it. */
static bool serve(const plan *p, const image_set *set, bool naive, served *s,
                  message *why)
{
    char program[512], threads[16], line[256];
    const char *argv[] = {program,    "--port",
                          "0",        "--weights",
                          p->weights, "--driver",
                          p->driver,  "--threads",
                          threads,    naive ? "--naive" : NULL,
                          NULL};
    const char *mode = naive ? "naive" : "warm";
    process child;
    int port, status;
    bool good;

    snprintf(program, sizeof program, "%s/inference_server", p->bin);
    snprintf(threads, sizeof threads, "%d", p->threads);
    if (!process_start(&child, argv, why)) {
        return false;
    }
    if (!process_line(&child, "listening on http://127.0.0.1:", false, line,
                      sizeof line)) {
        return failed(why, "the server did not start (status %d)",
                      process_end(&child, SIGTERM));
    }
    port = (int)field(line, "127.0.0.1:");
    printf("%-5s  %d images over %d connections ", mode, set->count,
           p->connections);
    fflush(stdout);
    good = load_run(port, set, p->connections, true, NULL, &s->load, why) &&
           ask_stats(port, s, why);
    if (good) {
        printf(" %.0f requests/s\n", set->count / s->load.seconds);
    } else {
        putchar('\n');
    }
    status = process_end(&child, SIGTERM);
    if (good && status != 0) {
        good = failed(why, "the %s server ended with status %d", mode, status);
    }
    return good;
}

static void row(const char *name, int digits, double warm, double naive)
{
    printf("  %-28s %12.*f %12.*f\n", name, digits, warm, digits, naive);
}

static void print_table(const trained *t, const served *warm,
                        const served *naive, int images)
{
    printf("\ndevice: %s\n", warm->device);
    if (t->threads > 0) {
        printf("training: %.1f s, %.0f threads started, %.0f handles created, "
               "%.0f pinned buffers asked, %.0f from the cache\n",
               t->seconds, t->threads, t->handles, t->pinned, t->reused);
    }
    printf("  %-28s %12s %12s\n", "serving", "warm", "naive");
    row("server threads", 0, warm->threads, naive->threads);
    row("handles created", 0, warm->handles, naive->handles);
    row("pinned buffers asked", 0, warm->pinned, naive->pinned);
    row("  of them from the cache", 0, warm->pinned_reused,
        naive->pinned_reused);
    row("requests/s", 0, images / warm->load.seconds,
        images / naive->load.seconds);
    row("p50 ms", 3, warm->load.p50_ms, naive->load.p50_ms);
    row("p99 ms", 3, warm->load.p99_ms, naive->load.p99_ms);
    row("accuracy", 4, (double)warm->load.right / images,
        (double)naive->load.right / images);
    printf("  warm answers %.2f times as many requests a second as naive\n\n",
           naive->load.seconds / warm->load.seconds);
}

/* A name for the last line, where a space would end it. */
static const char *one_word(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        *at = *at == ' ' ? '_' : *at;
    }
    return text;
}

static bool run(const plan *p, message *why)
{
    image_set set;
    trained t = {0};
    served warm = {0}, naive = {0};
    double accuracy;
    bool good;

    if (!images_load(p->data, "t10k", &set, why)) {
        return false;
    }
    good = train(p, &t, why) && serve(p, &set, false, &warm, why) &&
           serve(p, &set, true, &naive, why);
    accuracy = (double)warm.load.right / set.count;
    if (good) {
        print_table(&t, &warm, &naive, set.count);
        if (accuracy < 0.85) {
            good = failed(why, "accuracy %.4f is less than 0.85", accuracy);
        }
    }
    if (good) {
        printf("demo: ok device=%s images=%d accuracy=%.4f "
               "handles_created=%.0f threads=%.0f rps=%.0f p99_ms=%.3f "
               "reuse=%.4f vs_naive=%.2f\n",
               one_word(warm.device), set.count, accuracy,
               t.handles + warm.handles, t.threads + warm.threads,
               set.count / warm.load.seconds, warm.load.p99_ms,
               warm.pinned > 0 ? warm.pinned_reused / warm.pinned : 0,
               naive.load.seconds / warm.load.seconds);
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
    message why = {""};

    int status = options_read(argc, argv, rows);

    if (status >= 0) {
        return status;
    }
    snprintf(p.weights, sizeof p.weights, "%s/fashion-mnist.weights", p.bin);
    if (!run(&p, &why)) {
        printf("demo: failed %s\n", why.text);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
