/* tls.c: in a file of its own, so that the call is made. */
#include "tests/bench/tls.h"

#include <stddef.h>

/* Volatile: it could change, as a window does, so the read must be made. */
static _Thread_local void *volatile value
    __attribute__((tls_model("initial-exec"))) = NULL;

void *bench_tls_read(void)
{
    return value;
}
