#!/bin/sh
# test_plugins.sh: plugins that have the whole library inside (row A8). They
# share a program's static TLS, which is small: eight of them can be loaded. One
# that is closed is still used by the threads that it served, and at the end.
# Of the static library that make check has built, $WT_STATIC.
# shellcheck source=tests/tools/tap.sh disable=SC2317
. "$(dirname "$0")/../tools/tap.sh"
top=$(cd "$tools/../.." && pwd)
static=$top/${WT_STATIC:-build/debug/libwarmpool.a}

# Eight plugins by names of their own; what they answer is added up.
plugins() {
    cat >plugin.c <<'END'
#include <warmpool/warmpool.h>
#include <string.h>
int plugin(void)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_error error = WARM_INIT(warm_error);
    warm_runtime *runtime;
    void *block;
    int good;

    if (warm_runtime_create(&options, &runtime) != WARM_OK) {
        return 0;
    }
    good = warm_pinned_alloc(runtime, 100, &block) == WARM_OK &&
           warm_free(block) == WARM_OK &&
           warm_free(&options) == WARM_INVALID_POINTER;
    warm_last_error(&error);
    good = good && error.status == WARM_INVALID_POINTER &&
           strcmp(error.message, warm_last_error_message()) == 0 &&
           error.message[0] != 0;
    return good && warm_runtime_destroy(runtime, 0) == WARM_OK;
}
END
    # shellcheck disable=SC2086 # words on purpose
    ${CC:-cc} -shared -fPIC -I"$top/include" plugin.c "$static" -pthread -ldl \
        ${WT_LINK:-} -Wl,-Bsymbolic -o plugin1.so
    for i in 2 3 4 5 6 7 8; do
        cp plugin1.so "plugin$i.so"
    done
}

# Loads all, then calls each in two threads, of which one is older.
loader() {
    cat >loader.c <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static int (*plugin[8])(void);
static pthread_barrier_t loaded;
static void *call(void *argument)
{
    int *sum = argument;
    pthread_barrier_wait(&loaded);
    for (int i = 0; i < 8; i++) {
        *sum += plugin[i]();
    }
    return NULL;
}
int main(void)
{
    pthread_t thread;
    int older = 0, mine = 0;
    pthread_barrier_init(&loaded, NULL, 2);
    pthread_create(&thread, NULL, call, &older);
    for (int i = 0; i < 8; i++) {
        char path[32];
        snprintf(path, sizeof path, "./plugin%d.so", i + 1);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (library == NULL) {
            printf("%s\n", dlerror());
            return 1;
        }
        *(void **)&plugin[i] = dlsym(library, "plugin");
    }
    call(&mine);
    pthread_join(thread, NULL);
    printf("%d %d\n", older, mine);
    return 0;
}
END
    ${CC:-cc} loader.c -pthread -ldl -o loader
}

test_A8_eight_plugins_with_the_library_inside_are_loaded() {
    plugins
    loader
    same "$(./loader)" "8 8"
}

# A thread has a stream and cached memory when the plugin is closed, and ends.
closer() {
    cat >held.c <<'END'
#include <warmpool/warmpool.h>
int hold(void)
{
    warm_options options = {.size = sizeof options, .device = "host"};
    warm_runtime *runtime;
    warm_stream stream;
    void *block;

    return warm_runtime_create(&options, &runtime) == WARM_OK &&
           warm_stream_reserve(runtime, 0, &stream) == WARM_OK &&
           warm_pinned_alloc(runtime, 100, &block) == WARM_OK &&
           warm_free(block) == WARM_OK;
}
END
    cat >closer.c <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
static int (*hold)(void);
static pthread_barrier_t held, closed;
static void *call(void *good)
{
    *(int *)good = hold();
    pthread_barrier_wait(&held);
    pthread_barrier_wait(&closed);
    return NULL;
}
int main(void)
{
    void *library = dlopen("./held.so", RTLD_NOW | RTLD_LOCAL);
    pthread_t thread;
    int good = 0;

    if (library == NULL) {
        return 1;
    }
    *(void **)&hold = dlsym(library, "hold");
    pthread_barrier_init(&held, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    pthread_create(&thread, NULL, call, &good);
    pthread_barrier_wait(&held);
    dlclose(library);
    pthread_barrier_wait(&closed);
    pthread_join(thread, NULL);
    printf("%d\n", good);
    return 0;
}
END
    # shellcheck disable=SC2086 # words on purpose
    ${CC:-cc} -shared -fPIC -I"$top/include" held.c "$static" -pthread -ldl \
        ${WT_LINK:-} -Wl,-Bsymbolic -o held.so
    ${CC:-cc} closer.c -pthread -ldl -o closer
}

test_A4_A6_T3_a_plugin_is_closed_while_threads_live() {
    closer
    same "$(timeout 60 ./closer)" 1
    # The program goes on to its end: its status is not lost in $(…).
    timeout 60 ./closer >/dev/null
}

tap_run test_A4_A6_T3_a_plugin_is_closed_while_threads_live \
    test_A8_eight_plugins_with_the_library_inside_are_loaded
