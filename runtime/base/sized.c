/* sized.c: see sized.h. */
#include "runtime/base/sized.h"

#include "runtime/base/status.h"

#include <string.h>

static size_t size_of(const void *given)
{
    size_t size;

    memcpy(&size, given, sizeof size);
    return size;
}

warm_status wm_sized_check(const void *given, size_t known, const char *name)
{
    size_t size;

    if (given == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "%s is null", name);
    }
    size = size_of(given);
    if (size > known) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "%s.size is %zu, more than this library's %zu: not "
                       "set, or of a newer release",
                       name, size, known);
    }
    /* A struct holds more than its size, and its length is a multiple of the
     * alignment of size_t. */
    if (size <= sizeof size || size % sizeof size != 0) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "%s.size is %zu; set it to sizeof(%s), here %zu", name,
                       size, name, known);
    }
    return WARM_OK;
}

warm_status wm_check_out(warm_status status, const void *out, size_t known,
                         const char *name)
{
    return status != WARM_OK ? status : wm_sized_check(out, known, name);
}

warm_status wm_check_given(warm_status status, const void *given,
                           const char *name)
{
    if (status == WARM_OK && given == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT, "%s is null", name);
    }
    return status;
}

void wm_sized_in(void *full, const void *given, size_t known)
{
    memset(full, 0, known);
    memcpy(full, given, size_of(given));
}
