/* destroyed.c: work of streams that the program has destroyed.
 *
 * A stream may be destroyed while it works; CUDA ends the work, and cudaFree()
 * waits for it. warmpool forgets a stream that was retired. So a stream of the
 * device's own, the carrier, first waits for what the destroyed one has queued:
 * the carrier is adopted, and frees wait for it.
 *
 *   destroyed ──► work ──► event ┐
 *   carrier   ───────────────────┴─► (nothing: it waits)
 */
#include "preload.h"

#include <pthread.h>

enum { DEVICES = 64 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static warm_stream carriers[DEVICES]; /* mutex; null: not needed so far */

static warm_stream carrier_of(int device)
{
    warm_stream carrier = NULL;

    pthread_mutex_lock(&mutex);
    if (carriers[device] == NULL &&
        warm_stream_create(wp_runtime(), device, &carrier) == WARM_OK) {
        carriers[device] = carrier;
    }
    carrier = carriers[device];
    pthread_mutex_unlock(&mutex);
    return carrier;
}

static bool carry_on(int device, warm_stream stream)
{
    warm_stream carrier = device < DEVICES ? carrier_of(device) : NULL;
    warm_event event = NULL;
    bool carried;

    if (carrier == NULL ||
        warm_event_create(wp_runtime(), device, &event) != WARM_OK) {
        return false;
    }
    carried = warm_event_record(wp_runtime(), event, stream) == WARM_OK &&
              warm_stream_wait_event(wp_runtime(), carrier, event) == WARM_OK;
    (void)warm_event_destroy(wp_runtime(), event);
    return carried;
}

bool wp_carry(void *stream)
{
    warm_status status = warm_stream_query(wp_runtime(), stream);
    int device = 0;

    if (status != WARM_NOT_READY && status != WARM_DRIVER_ERROR) {
        return true;
    }
    /* No event of another device can be recorded there: that device would get a
     * context for nothing if each one were tried. */
    return (warm_device_current(wp_runtime(), &device) == WARM_OK &&
            carry_on(device, stream)) ||
           warm_stream_synchronize(wp_runtime(), stream) == WARM_OK;
}
