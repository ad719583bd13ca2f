/* checker.h: tells AddressSanitizer and valgrind what a program may access of
 * memory that they know nothing about.
 *
 * AddressSanitizer's functions are looked up in the program: they are there if
 * it was built with -fsanitize=address. Valgrind's requests are instructions
 * that do nothing elsewhere; the library has them if it was compiled where
 * valgrind/memcheck.h is installed. No lock, no allocation. */
#ifndef WM_CHECKER_H
#define WM_CHECKER_H

#include <stddef.h>

typedef void wm_poison_fn(const volatile void *at, size_t bytes);

/* Const once open; null: the program was built without AddressSanitizer. */
typedef struct wm_checker {
    wm_poison_fn *poison, *unpoison;
} wm_checker;

void wm_checker_open(wm_checker *checker);

/* An access to the bytes is an error from now on; or is none. */
void wm_checker_forbid(const wm_checker *checker, const void *at, size_t bytes);
void wm_checker_allow(const wm_checker *checker, const void *at, size_t bytes);

/* For valgrind's reports: the calling thread allocates a block, of which so
 * many bytes may be accessed; or frees it. After a free the bytes may still be
 * accessed. */
void wm_checker_note_alloc(const void *base, size_t bytes);
void wm_checker_note_free(const void *base, size_t bytes);

#endif
