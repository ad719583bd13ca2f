/* checker.c: see checker.h. */
#include "runtime/base/checker.h"

#include <dlfcn.h>
#include <string.h>

#ifdef __has_include
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif
#endif

static wm_poison_fn *find(const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    wm_poison_fn *function = NULL;

    /* C knows no conversion of an object pointer to a function pointer. */
    memcpy(&function, &symbol, sizeof function);
    return function;
}

void wm_checker_open(wm_checker *checker)
{
    checker->poison = find("__asan_poison_memory_region");
    checker->unpoison = find("__asan_unpoison_memory_region");
}

void wm_checker_forbid(const wm_checker *checker, const void *at, size_t bytes)
{
    if (checker->poison != NULL) {
        checker->poison(at, bytes);
    }
#ifdef VALGRIND_MAKE_MEM_NOACCESS
    (void)VALGRIND_MAKE_MEM_NOACCESS(at, bytes);
#endif
}

void wm_checker_allow(const wm_checker *checker, const void *at, size_t bytes)
{
    if (checker->unpoison != NULL) {
        checker->unpoison(at, bytes);
    }
#ifdef VALGRIND_MAKE_MEM_DEFINED
    (void)VALGRIND_MAKE_MEM_DEFINED(at, bytes);
#endif
}

void wm_checker_note_alloc(const void *base, size_t bytes)
{
#ifdef VALGRIND_MALLOCLIKE_BLOCK
    VALGRIND_MALLOCLIKE_BLOCK(base, bytes, 0, 0);
#else
    (void)base;
    (void)bytes;
#endif
}

void wm_checker_note_free(const void *base, size_t bytes)
{
#ifdef VALGRIND_FREELIKE_BLOCK
    VALGRIND_FREELIKE_BLOCK(base, 0);
    (void)VALGRIND_MAKE_MEM_DEFINED(base, bytes);
#else
    (void)base;
    (void)bytes;
#endif
}
