/* start.c: when warmpool begins to serve, which parts, and for which calls. */
#include "preload.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often the calling thread is inside. */
static __thread int inside __attribute__((tls_model("initial-exec")));

/* A real function has succeeded. Relaxed: nothing depends on what it did. */
static atomic_bool succeeded;

/* Devices that were reset, a bit each; the device of page-locked memory,
 * plus 1. Relaxed: a program that resets a device lets no other thread use it.
 */
static _Atomic uint64_t reset_devices;
static atomic_int pinned_device;

/* start() has ended. Release and acquire: what it has written is seen. */
static atomic_bool started;

static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Written by start(), read once it has ended. */
static struct {
    warm_runtime *runtime;
    unsigned parts;
    size_t pinned_most;
    bool free_waits;
} served;

/* The value of an option in the text of warm_runtime_options(). */
static void get_option(const char *text, const char *name, char *value,
                       size_t bytes)
{
    size_t length = strlen(name);

    value[0] = '\0';
    while (text != NULL && *text != '\0') {
        const char *end = strchr(text, '\n');

        if (strncmp(text, name, length) == 0 && text[length] == ':') {
            snprintf(value, bytes, "%.*s",
                     end != NULL ? (int)(end - text - (ptrdiff_t)length - 1)
                                 : (int)strlen(text + length + 1),
                     text + length + 1);
            return;
        }
        text = end != NULL ? end + 1 : NULL;
    }
}

static void read_options(warm_runtime *runtime)
{
    enum { VALUE = 64 };
    size_t needed = 0;
    char *text = NULL;
    char value[VALUE];

    (void)warm_runtime_options(runtime, NULL, 0, &needed);
    text = malloc(needed + 1);
    if (text == NULL ||
        warm_runtime_options(runtime, text, needed + 1, &needed) != WARM_OK) {
        free(text);
        return;
    }
    get_option(text, "preload", value, VALUE);
    served.parts = (strstr(value, "handles") != NULL ? WP_HANDLES : 0) |
                   (strstr(value, "pinned") != NULL ? WP_PINNED : 0) |
                   (strstr(value, "device") != NULL ? WP_DEVICE : 0);
    get_option(text, "free", value, VALUE);
    served.free_waits = strcmp(value, "wait") == 0;
    get_option(text, "pin_chunk", value, VALUE);
    served.pinned_most = (size_t)strtoull(value, NULL, 10);
    free(text);
}

void wp_say(const char *what)
{
    fprintf(stderr, "warmpool-preload: %s\n", what);
}

static void start(void)
{
    warm_runtime *runtime = NULL;
    warm_status status = warm_runtime_default(&runtime);

    if (status == WARM_EXITING) {
        return; /* nothing is left to be served */
    }
    if (status != WARM_OK) {
        wp_say("serves nothing: no runtime of warmpool can be made:");
        wp_say(warm_last_error_message());
        return;
    }
    if (strcmp(warm_runtime_driver(runtime), "cuda") != 0) {
        wp_say("serves nothing: the runtime has no CUDA");
        return;
    }
    read_options(runtime);
    served.runtime = runtime;
    if (served.parts == 0) {
        wp_say("serves nothing: option preload is off; warmpool-run, or "
               "WARMPOOL_CONF=preload:handles+pinned, says what to serve");
    }
}

void wp_in(void)
{
    inside++;
}

void wp_out(void)
{
    inside--;
}

bool wp_has_started(void)
{
    return atomic_load_explicit(&started, memory_order_acquire);
}

bool wp_is_inside(void)
{
    return inside > 0;
}

bool wp_has_reset(void)
{
    return atomic_load_explicit(&reset_devices, memory_order_relaxed) != 0;
}

bool wp_has_served(unsigned parts)
{
    return wp_has_started() && !wp_has_reset() && (served.parts & parts) != 0;
}

bool wp_enter(unsigned parts)
{
    if (inside > 0 || !atomic_load_explicit(&succeeded, memory_order_relaxed) ||
        wp_has_reset()) {
        return false;
    }
    inside++;
    if (!wp_has_started()) {
        pthread_once(&once, start);
        atomic_store_explicit(&started, true, memory_order_release);
    }
    if ((served.parts & parts) != 0) {
        return true;
    }
    inside--;
    return false;
}

void wp_leave(void)
{
    inside--;
}

int wp_answered(int code)
{
    if (code == 0 && inside == 0) {
        atomic_store_explicit(&succeeded, true, memory_order_relaxed);
    }
    return code;
}

static uint64_t bit_of(int device)
{
    enum { BITS = 64 };

    return (uint64_t)1 << ((unsigned)device % BITS);
}

void wp_reset(int device)
{
    atomic_fetch_or_explicit(&reset_devices, bit_of(device),
                             memory_order_relaxed);
}

bool wp_is_lost(int device)
{
    uint64_t lost = atomic_load_explicit(&reset_devices, memory_order_relaxed);

    if (lost != 0 && device < 0) {
        device = atomic_load_explicit(&pinned_device, memory_order_relaxed) - 1;
    }
    return lost != 0 && device >= 0 && (lost & bit_of(device)) != 0;
}

void wp_pinned_served(void)
{
    int none = 0, device = 0;

    if (atomic_load_explicit(&pinned_device, memory_order_relaxed) == 0 &&
        warm_device_current(served.runtime, &device) == WARM_OK) {
        atomic_compare_exchange_strong_explicit(
            &pinned_device, &none, device + 1, memory_order_relaxed,
            memory_order_relaxed);
    }
}

warm_runtime *wp_runtime(void)
{
    return served.runtime;
}

bool wp_free_waits(void)
{
    return served.free_waits;
}

size_t wp_pinned_most(void)
{
    return served.pinned_most;
}
