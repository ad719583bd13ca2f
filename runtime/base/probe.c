/* probe.c: the NVTX side of probe.h. Takes no lock. */
#include "runtime/base/probe.h"

#include "runtime/base/lock.h"

#include <stdlib.h>

_Atomic bool wm_probe_ranges;

#if !defined(WM_NO_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

static nvtxDomainHandle_t domain; /* const once wm_probe_ranges is set */

static void open_once(void)
{
    if (secure_getenv("NVTX_INJECTION64_PATH") != NULL) {
        domain = nvtxDomainCreateA("warmpool");
        /* Release, though ranges load relaxed: the domain is created before the
         * first runtime, through which alone threads get here. */
        atomic_store_explicit(&wm_probe_ranges, true, memory_order_release);
    }
}

void wm_probe_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, open_once);
}

void wm_probe_push(const char *name)
{
    nvtxEventAttributes_t event = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = name};

    WM_CANCEL_OFF(); /* the tool may write files */
    (void)nvtxDomainRangePushEx(domain, &event);
}

void wm_probe_pop(void)
{
    WM_CANCEL_OFF();
    (void)nvtxDomainRangePop(domain);
}

#else

void wm_probe_open(void)
{
}

void wm_probe_push(const char *name)
{
    (void)name;
}

void wm_probe_pop(void)
{
}

#endif
