/* check_shared_node.c: shared buffers on a machine with two nodes (rows F1,
 * B15): pages lie on the other node, whichever is asked for.
 *
 * backends: host */
#include "wt.h"

#include "alloc/kinds/shared.h"
#include "runtime/runtime.h"

static struct {
    wm_driver_ops ops;
    const wm_driver_ops *real;
    int node; /* of all pages */
} machine;

static warm_status node_of(wm_driver *d, void *pointer, size_t bytes, int *node)
{
    (void)d;
    (void)pointer;
    (void)bytes;
    *node = machine.node;
    return WARM_OK;
}

WT_CASE("shared node");

WT_LOOP_TEST(test_F1_B15_a_buffer_may_lie_on_another_node, 2)
{
    warm_runtime *runtime =
        wt_runtime_with(.test = "numa_nodes=2", .shared_memory = "mapped");
    void *pointer = NULL;

    machine.real = runtime->driver->ops;
    machine.ops = *machine.real;
    machine.ops.node_of = node_of;
    machine.node = _i;
    runtime->driver->ops = &machine.ops;
    wt_ok(warm_shared_alloc(runtime, 0, 65536, WARM_USAGE_SHARED, &pointer));
    wt_ok(warm_free(pointer));
    runtime->driver->ops = machine.real;
    wt_runtime_end(runtime);
}
