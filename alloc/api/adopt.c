/* adopt.c: the public functions of adopted memory (adopt.h). */
#include "warmpool/adopt.h"

#include "alloc/kinds/adopt.h"
#include "alloc/kinds/pinned.h"
#include "runtime/base/bytes.h"
#include "runtime/base/os_page.h"

enum { FLAGS = WARM_ADOPT_SERVE | WARM_ADOPT_READ_ONLY | WARM_ADOPT_FORK_OK };

static warm_status check_flags(unsigned flags)
{
    const unsigned both = WARM_ADOPT_SERVE | WARM_ADOPT_READ_ONLY;

    if ((flags & ~(unsigned)FLAGS) != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "unknown flags %#x: the flags are WARM_ADOPT_SERVE, "
                       "WARM_ADOPT_READ_ONLY and WARM_ADOPT_FORK_OK",
                       flags);
    }
    return (flags & both) != both
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "memory that serves requests is written to: not "
                         "WARM_ADOPT_SERVE with WARM_ADOPT_READ_ONLY");
}

static warm_status check_range(const void *pointer, size_t bytes)
{
    size_t page = wm_os_page();

    if (pointer == NULL || bytes == 0 || (uintptr_t)pointer % page != 0 ||
        bytes % page != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "%s at %p cannot be adopted: only whole pages of %s "
                       "can; round the size of a mapped file up",
                       wm_bytes(bytes).text, pointer, wm_bytes(page).text);
    }
    return bytes <= WM_REQUEST_MAX && (uintptr_t)pointer <= UINTPTR_MAX - bytes
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "%s at %p cannot be adopted: more than any machine "
                         "has",
                         wm_bytes(bytes).text, pointer);
}

static warm_status check(warm_runtime *runtime, const void *pointer,
                         size_t bytes, unsigned flags)
{
    warm_status status = wm_runtime_check(runtime);

    if (status == WARM_OK && wm_listeners_inside(&runtime->listeners)) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "a memory callback cannot adopt memory for the "
                         "runtime that called it");
    }
    if (status == WARM_OK) {
        status = check_flags(flags);
    }
    return status == WARM_OK ? check_range(pointer, bytes) : status;
}

warm_status warm_pinned_adopt(warm_runtime *runtime, void *pointer,
                              size_t bytes, unsigned flags)
{
    warm_status status = check(runtime, pointer, bytes, flags);

    return status != WARM_OK
               ? status
               : wm_adopt(&runtime->pinned->adopted, pointer, bytes, flags);
}

warm_status warm_pinned_adopt_end(warm_runtime *runtime, void *pointer,
                                  void (*done)(void *context), void *context)
{
    warm_error before = wm_error_save();
    warm_status status = wm_runtime_check(runtime);

    if (status != WARM_OK) {
        return status;
    }
    status = wm_adopt_end(&runtime->pinned->adopted, pointer, done, context);
    if (status == WARM_OK) { /* what failed at first may pass in the end */
        wm_error_restore(&before);
    }
    return status;
}
