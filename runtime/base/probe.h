/* probe.h: where a tracer can listen: driver calls, growth and waits.
 *
 * - USDT probes of provider warmpool, where <sys/sdt.h> is at build time: one
 *   nop each, which a tracer (bpftrace, perf, SystemTap) replaces. The probes
 *   are <name>_begin and <name>_end of each range below; a driver call ends
 *   with its status.
 * - NVTX ranges in domain warmpool, where CUDA's headers have NVTX: nothing is
 *   called unless a tool is injected (NVTX_INJECTION64_PATH, as Nsight Systems
 *   sets it): one relaxed load for each range. Not in a set-user-ID program.
 *
 * Ranges nest, and end on the thread where they began. A range may be a call of
 * the tool: call without a lock. Not on hot paths. */
#ifndef WM_PROBE_H
#define WM_PROBE_H

#include "runtime/base/status.h"

#include <stdatomic.h>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#ifdef __clang__
/* Of a macro in sdt.h, where a probe stands. */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
#define WM_USDT1(name, a)       STAP_PROBE1(warmpool, name, a)
#define WM_USDT2(name, a, b)    STAP_PROBE2(warmpool, name, a, b)
#define WM_USDT3(name, a, b, c) STAP_PROBE3(warmpool, name, a, b, c)
#else
#define WM_USDT1(name, a)       ((void)0)
#define WM_USDT2(name, a, b)    ((void)0)
#define WM_USDT3(name, a, b, c) ((void)0)
#endif

/* Whether a tool listens to ranges. Relaxed: set once, when the first runtime
 * is made; an end without a begin is ignored. */
extern _Atomic bool wm_probe_ranges __attribute__((visibility("hidden")));

/* Looks for an NVTX tool; any number of calls. */
void wm_probe_open(void);

void wm_probe_push(const char *name);
void wm_probe_pop(void);

static inline void wm_range_begin(const char *name)
{
    if (wm_unlikely(
            atomic_load_explicit(&wm_probe_ranges, memory_order_relaxed))) {
        wm_probe_push(name);
    }
}

static inline void wm_range_end(void)
{
    if (wm_unlikely(
            atomic_load_explicit(&wm_probe_ranges, memory_order_relaxed))) {
        wm_probe_pop();
    }
}

#endif
