/* real.c: the functions that are replaced, found behind this library. */
#include "preload.h"

#include <dlfcn.h>
#include <string.h>

enum { SONAMES = 4 };

static const char *const sonames[WP_LIBRARIES][SONAMES] = {
    [WP_CUDART] = {"libcudart.so.13", "libcudart.so.12"},
    [WP_CUBLAS] = {"libcublas.so.13", "libcublas.so.12"},
    [WP_CUBLASLT] = {"libcublasLt.so.13", "libcublasLt.so.12"},
    [WP_CUDNN] = {"libcudnn.so.9", "libcudnn.so.8"},
    [WP_CUSPARSE] = {"libcusparse.so.12"},
    [WP_CUSOLVER] = {"libcusolver.so.12", "libcusolver.so.11"},
};

#define DECLARE(name, library) extern char ours_##name[] __asm__(#name);
WP_FUNCTIONS(DECLARE)

static struct function {
    const char *name;
    void *ours;
    enum wp_library library;
    _Atomic(void *) real; /* relaxed: an address, tied to no other data */
} functions[WP_COUNT] = {
#define ENTRY(name, library) {#name, ours_##name, library, NULL},
    WP_FUNCTIONS(ENTRY)};

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

/* A library that the program opened for itself alone is not behind this one in
 * the order of look-ups, but it is loaded. */
static void *find(enum wp_library of, const char *name)
{
    wp_dlsym_fn *look = wp_real_dlsym();
    void *real = look != NULL ? look(RTLD_NEXT, name) : NULL;

    for (int i = 0; real == NULL && look != NULL && i < SONAMES; i++) {
        const char *soname = sonames[of][i];
        void *library =
            soname != NULL ? dlopen(soname, RTLD_LAZY | RTLD_NOLOAD) : NULL;

        if (library != NULL) {
            real = look(library, name);
            dlclose(library); /* it stays: it was loaded before */
        }
    }
    return real;
}

wp_function *wp_real(enum wp_index index)
{
    struct function *f = &functions[index];
    void *real = atomic_load_explicit(&f->real, memory_order_relaxed);

    if (real == NULL) {
        real = find(f->library, f->name);
        atomic_store_explicit(&f->real, real, memory_order_relaxed);
    }
    return as_function(real);
}

bool wp_synchronize(void)
{
    typedef int synchronize_fn(void);
    synchronize_fn *real =
        (synchronize_fn *)as_function(find(WP_CUDART, "cudaDeviceSynchronize"));

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
    static _Atomic(void *) found; /* relaxed: as in functions[] */
    void *real = atomic_load_explicit(&found, memory_order_relaxed);
    int status = 0;

    if (real == NULL) {
        real = find(WP_CUDART, "cudaStreamIsCapturing");
        atomic_store_explicit(&found, real, memory_order_relaxed);
    }
    if (real == NULL || stream == NULL || stream == WARM_STREAM_LEGACY) {
        return false; /* the legacy stream captures nothing */
    }
    wp_in();
    if (((is_capturing_fn *)as_function(real))(stream, &status) != 0) {
        status = 0; /* no stream: the next call says so */
    }
    wp_out();
    return status != 0;
}

static struct function *find_name(const char *name)
{
    for (int i = 0; i < WP_COUNT; i++) {
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

/* The start of the library or program that an address lies in. */
static const void *object_of(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) != 0 ? info.dli_fbase : NULL;
}

void *wp_substitute(const char *name, void *real, const void *caller)
{
    struct function *f = find_name(name);
    const void *asking = object_of(caller);

    if (real == NULL || asking == NULL ||
        asking == object_of((void *)(uintptr_t)warm_version)) {
        return real;
    }
    if (real == f->ours && wp_real((enum wp_index)(f - functions)) == NULL) {
        /* Null, for dlerror() too. No jump: this library is to be the caller.
         */
        real = wp_real_dlsym()(RTLD_NEXT, name);
        __asm__ volatile("" : "+r"(real));
        return real;
    }
    if (real != f->ours &&
        atomic_load_explicit(&f->real, memory_order_relaxed) == NULL) {
        atomic_store_explicit(&f->real, real, memory_order_relaxed);
    }
    return f->ours;
}
