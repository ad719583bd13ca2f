/* real.c: the functions that are replaced, found behind this library. */
#include "preload.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <string.h>

/* What the name of a library's file begins with; '.' or '-' follows:
 * libcublas.so.13, or libcublas-0a1b2c3d.so.12 as packages of Python have it.
 */
static const char *const stems[WP_LIBRARIES] = {
    [WP_CUDART] = "libcudart",     [WP_CUBLAS] = "libcublas",
    [WP_CUBLASLT] = "libcublasLt", [WP_CUDNN] = "libcudnn",
    [WP_CUSPARSE] = "libcusparse", [WP_CUSOLVER] = "libcusolver",
};

#define DECLARE(name, library) extern char ours_##name[] __asm__(#name);
WP_FUNCTIONS(DECLARE)

static struct function {
    const char *name;
    void *ours;
    enum wp_library library;
    _Atomic(void *) real; /* relaxed: an address, tied to no other data */
} functions[WP_COUNT] = {
#define ENTRY(name, library)                                                   \
    [WP_AT_##name] = {#name, ours_##name, library, NULL},
    WP_FUNCTIONS(ENTRY)
#define CALLED(name, library) [WP_AT_##name] = {#name, NULL, library, NULL},
        WP_CALLED(CALLED)};

/* What a look-up found; the standard has no cast for it. */
static wp_function *as_function(void *address)
{
    wp_function *function = NULL;

    *(void **)(void *)&function = address;
    return function;
}

/* dlvsym() is not replaced. */
wp_dlsym_fn *wp_real_dlsym(void)
{
    static _Atomic(void *) found; /* relaxed: as above */
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5",
                                           "GLIBC_2.17"};
    void *real = atomic_load_explicit(&found, memory_order_relaxed);

    for (int i = 0; i < 3 && real == NULL; i++) {
        real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    }
    atomic_store_explicit(&found, real, memory_order_relaxed);
    return (wp_dlsym_fn *)as_function(real);
}

struct search {
    const char *stem;
    char file[PATH_MAX]; /* found */
};

static int is_it(struct dl_phdr_info *info, size_t bytes, void *context)
{
    struct search *search = context;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    size_t stem = strlen(search->stem), length = strlen(info->dlpi_name);

    (void)bytes;
    if (strncmp(name, search->stem, stem) != 0 ||
        (name[stem] != '.' && name[stem] != '-') || length >= PATH_MAX) {
        return 0;
    }
    memcpy(search->file, info->dlpi_name, length + 1);
    return 1;
}

/* A library that the program opened for itself alone is not behind this one in
 * the order of look-ups, but it is loaded. */
static void *find(enum wp_library of, const char *name)
{
    wp_dlsym_fn *look = wp_real_dlsym();
    void *real = look != NULL ? look(RTLD_NEXT, name) : NULL;
    struct search search = {.stem = stems[of]};

    if (real == NULL && look != NULL && dl_iterate_phdr(is_it, &search) != 0) {
        void *library = dlopen(search.file, RTLD_LAZY | RTLD_NOLOAD);

        if (library != NULL) {
            real = look(library, name);
            dlclose(library); /* it stays: it was loaded before */
        }
    }
    return real;
}

/* The address, once it was found, and the same for all: null gives way to real.
 */
static void *keep(_Atomic(void *) *kept, void *real)
{
    void *before = NULL;

    return atomic_compare_exchange_strong_explicit(
               kept, &before, real, memory_order_relaxed, memory_order_relaxed)
               ? real
               : before;
}

/* The start of the library or program that an address lies in. */
static const void *object_of(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

static void *find_once(struct function *f)
{
    void *real = atomic_load_explicit(&f->real, memory_order_relaxed);

    return real != NULL ? real : keep(&f->real, find(f->library, f->name));
}

/* A library may have functions of CUDA's names itself, in which it opens CUDA's
 * when they are first called: until then there are no others. Not kept, since
 * CUDA's own are there next time. */
static void *find_in_caller(const void *caller, const char *name)
{
    wp_dlsym_fn *look = wp_real_dlsym();
    const void *here = object_of((void *)(uintptr_t)find_in_caller);
    void *library, *real = NULL;
    Dl_info info;

    if (look == NULL || dladdr(caller, &info) == 0 || info.dli_fbase == here) {
        return NULL;
    }
    library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
        real = look(library, name);
        dlclose(library); /* it stays: it is running */
    }
    return real;
}

wp_function *wp_real(enum wp_index index, const void *caller)
{
    struct function *f = &functions[index];
    void *real = find_once(f);

    return as_function(real != NULL || caller == NULL
                           ? real
                           : find_in_caller(caller, f->name));
}

bool wp_synchronize(void)
{
    typedef int synchronize_fn(void);
    synchronize_fn *real =
        (synchronize_fn *)wp_real(WP_AT_cudaDeviceSynchronize, NULL);
    int code = 1;

    if (real != NULL && !wp_any_captures()) {
        wp_in();
        code = real();
        wp_out();
    }
    return code == 0;
}

bool wp_captures(void *stream)
{
    typedef int is_capturing_fn(void *stream, int *status);
    is_capturing_fn *real =
        (is_capturing_fn *)wp_real(WP_AT_cudaStreamIsCapturing, NULL);
    int status = 0;

    if (real == NULL || stream == NULL || stream == WARM_STREAM_LEGACY) {
        return false; /* the legacy stream captures nothing */
    }
    wp_in();
    if (real(stream, &status) != 0) {
        status = 0; /* no stream: the next call says so */
    }
    wp_out();
    return status != 0;
}

static struct function *find_name(const char *name)
{
    for (int i = 0; i < WP_REPLACED; i++) {
        if (strcmp(functions[i].name, name) == 0) {
            return &functions[i];
        }
    }
    return NULL;
}

bool wp_replaces(const char *name)
{
    return name != NULL && name[0] == 'c' && name[1] == 'u' &&
           find_name(name) != NULL;
}

/* What is found in another library than the one behind this one is not
 * replaced: libcudnn.so.9 looks its functions up, by their own names, in
 * libcudnn_graph.so.9, and calls those. */
void *wp_substitute(const char *name, void *real, const void *caller)
{
    struct function *f = find_name(name);
    const void *asking = object_of(caller);
    void *known;

    if (real == NULL || asking == NULL ||
        asking == object_of((void *)(uintptr_t)warm_version)) {
        return real;
    }
    known = find_once(f);
    if (real == f->ours && known == NULL) {
        /* Null, for dlerror() too. No jump: this library is to be the caller.
         */
        real = wp_real_dlsym()(RTLD_NEXT, name);
        __asm__ volatile("" : "+r"(real));
        return real;
    }
    if (real != f->ours && known == NULL) {
        known = keep(&f->real, real);
    }
    return real == f->ours || real == known ? f->ours : real;
}
