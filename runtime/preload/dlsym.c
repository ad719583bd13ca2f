/* dlsym.c: dlsym() for programs that open CUDA's libraries themselves. It
 * substitutes what it finds, and starts nothing.
 *
 * Compiled with optimization in every build: the last call must be a jump, so
 * that the real dlsym() sees who asks (RTLD_NEXT depends on it). */
#include "preload.h"

#include <dlfcn.h>

/* RTLD_NEXT follows the order of look-ups from the caller on, in which this
 * library stands by itself. With RTLD_DEFAULT this library is always found. */
static __attribute__((noinline)) void *look(void *handle, const char *name,
                                            const void *caller)
{
    return wp_substitute(name, wp_real_dlsym()(handle, name), caller);
}

WP_EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    if (handle != RTLD_NEXT && wp_replaces(name)) {
        return look(handle, name, __builtin_return_address(0));
    }
    return wp_real_dlsym()(handle, name);
}
