/* free_deferred.c: warm_free_deferred() (memory.h): a block is freed once all
 * that was queued before has finished, whoever queued it.
 *
 *   adopted streams ──► a record each         ┐
 *   default stream  ──► an event each device, ├──► warm_free()
 *                       which stands for all  ┘
 *                       streams that wait for it
 */
#include "warmpool/memory.h"

#include "alloc/kinds/device_space.h"
#include "alloc/arena/arena.h"
#include "runtime/base/status.h"

/* Of a device that this process has used; of any other nothing is queued. */
static warm_status record_default(wm_space *space, wm_block *block, int device)
{
    wm_driver *driver = space->driver;
    bool entered;
    warm_status status;

    if (wm_driver_is_lost(driver, device)) {
        return WARM_OK;
    }
    status = wm_driver_enter(driver, device, &entered);
    if (status == WARM_NOT_READY) {
        return WARM_OK;
    }
    if (status == WARM_OK) {
        status = wm_stream_record_default(space->group.timelines, block);
        wm_driver_leave(driver, entered);
    }
    return status;
}

/* Memory of the host may be used by every device. */
static warm_status record_all(wm_space *space, wm_block *block)
{
    int device = wm_device_of_block(block);
    /* Threads that cannot choose a device have one default stream. */
    int end =
        space->driver->ops->enter != NULL ? space->group.runtime->devices : 1;
    warm_status status =
        wm_stream_record_adopted(space->group.timelines, block, device);

    for (int d = 0; d < end && status == WARM_OK; d++) {
        if (device < 0 || d == device || end == 1) {
            status = record_default(space, block, d);
        }
    }
    return status;
}

warm_status warm_free_deferred(void *pointer)
{
    wm_block *block = wm_space_find(pointer);
    warm_status status = WARM_OK;
    wm_space *space;

    /* warm_free() says what is wrong with any other pointer. */
    if (block != NULL && block->base == pointer &&
        !block->segment->arena->lent) {
        space = wm_space_of(block);
        status = wm_runtime_check(space->group.runtime);
        if (status == WARM_OK) {
            status = record_all(space, block);
        }
    }
    return status != WARM_OK ? status : warm_free(pointer);
}
