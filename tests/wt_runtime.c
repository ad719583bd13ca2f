/* wt_runtime.c: runtimes and gates for tests; see wt.h. */
#include "wt.h"

#include <dlfcn.h>
#include <ftw.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *wt_backend(void)
{
    const char *name = getenv("WT_BACKEND");

    return name != NULL ? name : "host";
}

bool wt_preloaded(const char *name)
{
    const char *libraries = getenv("LD_PRELOAD");

    return libraries != NULL && strstr(libraries, name) != NULL;
}

bool wt_in_valgrind(void)
{
    return wt_preloaded("vgpreload");
}

bool wt_on_host(void)
{
    return strcmp(wt_backend(), "host") == 0;
}

bool wt_on_gpu(void)
{
    return strcmp(wt_backend(), "gpu") == 0;
}

const char *wt_list(const char *format, ...)
{
    static _Thread_local char lists[4][256];
    static _Thread_local unsigned next;
    char *list = lists[next++ % 4];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(list, sizeof lists[0], format, arguments);
    va_end(arguments);
    return list;
}

const char *wt_test(const warm_options *options)
{
    const char *arenas = getenv("WT_ARENAS");

    return wt_list("%s:arenas=%s", options->test != NULL ? options->test : "",
                   arenas != NULL ? arenas : "1");
}

/* The runtime of wt_runtime(), unless several lived at once or it may leak; and
 * the records that lived before it, and the bodies of others that ended since.
 */
static struct {
    warm_runtime *runtime;
    int64_t before;
    bool any; /* any records may be left */
} only;

warm_runtime *wt_runtime(const warm_options *options)
{
    warm_options o = {.size = sizeof o};
    warm_runtime *runtime = NULL;

    if (options != NULL) {
        o = *options;
    }
    if (o.device == NULL) {
        o.device = wt_on_host() ? "host" : "cuda";
    }
    o.test = wt_test(&o);
    only.any = only.any || only.runtime != NULL;
    only.before = wt_metadata_live();
    wt_ok(warm_runtime_create(&o, &runtime));
    only.runtime = runtime;
    return runtime;
}

warm_runtime *wt_two_devices(const warm_options *options)
{
    warm_options two = *options;
    warm_runtime *runtime;
    int count = 0;

    setenv("STANDIN_DEVICES", "2", 1);
    two.host_devices = 2;
    runtime = wt_runtime(&two);
    wt_ok(warm_device_count(runtime, &count));
    if (count < 2) {
        wt_runtime_end(runtime);
        return NULL;
    }
    return runtime;
}

void wt_may_leak(void)
{
    only.any = true;
}

bool wt_relaxed_end(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*exchange)(int *mode) = NULL;
    int mode = 0; /* global, as in every new thread */

    if (cuda != NULL) {
        *(void **)&exchange = dlsym(cuda, "cuThreadExchangeStreamCaptureMode");
        ck_assert_int_eq(exchange(&mode), 0);
        dlclose(cuda);
    }
    return mode != 0;
}

static uint64_t mixed(uint64_t sum, uint64_t value)
{
    return (sum ^ value) * 0x100000001b3; /* FNV */
}

/* Appends a sum of all that the runtime counted, but for times, to the file
 * WT_FIGURES: mutants.py compares it with that of another build. */
static void note_figures(warm_runtime *runtime)
{
    static char text[1 << 19];
    const char *path = getenv("WT_FIGURES"), *call;
    FILE *file = path != NULL ? fopen(path, "a") : NULL;
    uint64_t sum = 0xcbf29ce484222325, calls;

    if (file == NULL) {
        return;
    }
    sum = mixed(sum, wt_metadata_calls());
    for (int i = 0; (call = warm_testing_call_name(i)) != NULL; i++) {
        (void)warm_testing_calls(runtime, call, &calls);
        sum = mixed(sum, calls);
    }
    (void)warm_stats_json(runtime, text, sizeof text, NULL);
    for (const char *c = text; *c != '\0';) {
        if (strncmp(c, "_ns\":", 5) == 0) {
            c += 5 + strspn(c + 5, "0123456789");
        } else if (strncmp(c, "\"buckets\":[", 11) == 0) {
            c += strcspn(c, "]");
        } else {
            sum = mixed(sum, (unsigned char)*c++);
        }
    }
    fprintf(file, "%016lx\n", (unsigned long)sum);
    fclose(file);
}

void wt_runtime_end(warm_runtime *runtime)
{
    warm_destroy_report report = {.size = sizeof report};
    warm_stats stats = {.size = sizeof stats};

    if (runtime != NULL) {
        wt_ok(warm_testing_check(runtime, 1));
        wt_ok(warm_stats_get(runtime, &stats));
        note_figures(runtime);
    }
    wt_ok(warm_runtime_destroy(runtime, &report));
    ck_assert(!wt_relaxed_end());
    ck_assert_uint_eq(report.handles, 0);
    ck_assert_uint_eq(report.live, 0);
    ck_assert_uint_eq(report.pending, 0);
    ck_assert_uint_eq(report.imports, 0);
    ck_assert_uint_eq(report.pools, 0);
    only.before++; /* the body of a runtime stays */
    if (runtime == only.runtime && wt_on_host() && !wt_preloaded("libothers")) {
        /* Of memory that is leaked there are records, and the process keeps
         * those of CUDA's libraries; others.c makes a runtime meanwhile. */
        ck_assert(only.any || wt_metadata_live() == only.before ||
                  report.lost_bytes + report.captured_bytes > 0 ||
                  stats.lost_bytes > 0);
        only.runtime = NULL;
    }
}

void wt_door_run(void *argument)
{
    wt_door *door = argument;

    pthread_mutex_lock(&door->mutex);
    door->entered = true;
    pthread_cond_broadcast(&door->cond);
    while (!door->open) {
        pthread_cond_wait(&door->cond, &door->mutex);
    }
    door->left = true;
    pthread_cond_broadcast(&door->cond);
    pthread_mutex_unlock(&door->mutex);
}

static void await(wt_door *door, const bool *flag)
{
    pthread_mutex_lock(&door->mutex);
    while (!*flag) {
        pthread_cond_wait(&door->cond, &door->mutex);
    }
    pthread_mutex_unlock(&door->mutex);
}

void wt_door_wait_entered(wt_door *door)
{
    await(door, &door->entered);
}

void wt_door_open(wt_door *door)
{
    pthread_mutex_lock(&door->mutex);
    door->open = true;
    pthread_cond_broadcast(&door->cond);
    pthread_mutex_unlock(&door->mutex);
}

struct wt_gate {
    wt_door door;
};

wt_gate *wt_gate_close(warm_runtime *runtime, warm_stream stream)
{
    wt_gate *gate = malloc(sizeof *gate);

    ck_assert_ptr_nonnull(gate);
    *gate = (wt_gate){WT_DOOR_INIT};
    wt_ok(warm_stream_host_func(runtime, stream, wt_door_run, &gate->door));
    return gate;
}

void wt_gate_await(wt_gate *gate)
{
    wt_door_wait_entered(&gate->door);
}

wt_gate *wt_gate_hold(warm_runtime *runtime, warm_stream stream)
{
    wt_gate *gate = wt_gate_close(runtime, stream);

    wt_gate_await(gate);
    return gate;
}

void wt_gate_open(wt_gate *gate)
{
    wt_door_open(&gate->door);
    await(&gate->door, &gate->door.left);
    pthread_cond_destroy(&gate->door.cond);
    pthread_mutex_destroy(&gate->door.mutex);
    free(gate);
}

uint64_t wt_metadata_calls(void)
{
    uint64_t calls = 0;

    warm_testing_metadata(&calls, NULL);
    return calls;
}

int64_t wt_metadata_live(void)
{
    int64_t live = 0;

    warm_testing_metadata(NULL, &live);
    return live;
}

static void be_late(void *argument)
{
    for (unsigned i = 0; i < 200; i++) {
        sched_yield();
    }
}

void wt_stall(warm_runtime *runtime, warm_stream stream)
{
    if (wt_on_host()) {
        wt_ok(warm_testing_hold(runtime, stream));
    } else {
        wt_ok(warm_stream_host_func(runtime, stream, be_late, NULL));
    }
}

void wt_stall_step(warm_runtime *runtime, warm_stream stream, unsigned count)
{
    if (wt_on_host()) {
        wt_ok(warm_testing_step(runtime, stream, count));
    }
}

void wt_stall_end(warm_runtime *runtime, warm_stream stream)
{
    if (wt_on_host()) {
        wt_ok(warm_testing_resume(runtime, stream));
    }
}

/* ---- folders ------------------------------------------------------------- */

void wt_folder(char path[WT_FOLDER])
{
    snprintf(path, WT_FOLDER, "/tmp/warmpool-test-??????");
    memset(path + strlen(path) - 6, 'X', 6); /* as mkdtemp() wants it */
    ck_assert_ptr_nonnull(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *file, int type,
                      struct FTW *where)
{
    (void)file;
    (void)type;
    (void)where;
    return remove(path);
}

void wt_folder_put(const char *folder, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s%s", folder, name);
    for (char *at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL;
         at++) {
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

void wt_folder_end(const char *path)
{
    ck_assert_int_eq(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}
