/* workspace_config.c: parses CUBLAS_WORKSPACE_CONFIG (workspace_config.h). */
#include "handles/workspace_config.h"

#include <errno.h>
#include <stdlib.h>

static const unsigned long long most = 1ULL << 40;

/* ":digits"; strtoull alone would take blanks and signs. */
static bool number(const char **text, unsigned long long *value)
{
    const char *digits = *text + 1;
    char *end;

    if (**text != ':' || *digits < '0' || *digits > '9') {
        return false;
    }
    errno = 0;
    *value = strtoull(digits, &end, 10);
    *text = end;
    return errno == 0 && *value <= most;
}

bool wm_workspace_config_parse(const char *text, size_t *bytes)
{
    unsigned long long sum = 0, kib, count;

    do {
        if (!number(&text, &kib) || !number(&text, &count)) {
            return false;
        }
        /* Divided, because the product could pass 64 bits. */
        if (count != 0 && kib > (most - sum) / 1024 / count) {
            return false;
        }
        sum += kib * 1024 * count;
    } while (*text != '\0');
    *bytes = (size_t)sum;
    return true;
}

size_t wm_workspace_recommended(int compute_major)
{
    size_t mib = 4;

    if (compute_major == 9 || compute_major == 10) {
        mib = 32;
    } else if (compute_major == 12) {
        mib = 12;
    }
    return mib << 20;
}
