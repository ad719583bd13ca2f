/* home_node.c: see home_node.h. Takes no lock. */
#include "runtime/thread/home_node.h"

#include "runtime/base/sized.h"
#include "runtime/thread/window.h"
#include "warmpool/memory.h"

#include <stdatomic.h>

static int current_device(warm_runtime *runtime)
{
    int device = 0;

    WM_KEEP_ERROR();
    (void)wm_driver_current_device(runtime->driver, &device);
    return device < runtime->devices ? device : 0;
}

/* The window caches the device; if the thread can have no window any more, the
 * driver is called each time. */
static int home_slow(warm_runtime *runtime)
{
    wm_window *window;
    int device;

    if (wm_window_get_quietly(runtime, &window) != WARM_OK) {
        device = current_device(runtime);
    } else {
        if (window->home < 0) {
            window->home = current_device(runtime);
        }
        device = window->home;
    }
    return wm_driver_device_node(runtime->driver, device);
}

int wm_node_home(warm_runtime *runtime)
{
    const wm_window *window = wm_window_current;

    if (runtime->driver->numa.nodes == 1) {
        return 0;
    }
    /* Relaxed: as in warm_handle_reserve(). */
    if (atomic_load_explicit(&window->runtime, memory_order_relaxed) ==
            runtime &&
        window->home >= 0) {
        return wm_driver_device_node(runtime->driver, window->home);
    }
    return home_slow(runtime);
}

warm_status wm_node_check_range(warm_runtime *runtime, int node)
{
    int nodes = runtime->driver->numa.nodes;

    return node >= 0 && node < nodes
               ? WARM_OK
               : wm_fail(WARM_INVALID_ARGUMENT,
                         "node %d is out of range; there %s %d", node,
                         nodes == 1 ? "is" : "are", nodes);
}

warm_status wm_node_check(warm_runtime *runtime, int node)
{
    warm_status status = wm_node_check_range(runtime, node);

    if (status == WARM_OK && !wm_numa_usable(&runtime->driver->numa, node)) {
        status = wm_fail(WARM_INVALID_ARGUMENT,
                         "node %d has no memory that this process may "
                         "page-lock",
                         node);
    }
    return status;
}

warm_status warm_node_count(warm_runtime *runtime, int *count)
{
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), count, "count");

    if (status == WARM_OK) {
        *count = runtime->driver->numa.nodes;
    }
    return status;
}
