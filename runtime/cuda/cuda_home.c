/* cuda_home.c: the device of every object that the driver made.
 *
 * After a reset CUDA must not be called with an object of that device, not even
 * to ask for its device; so the table is kept here. Objects that are not in it
 * were made by the program, or there was no memory for an entry. One lock,
 * taken when an object is made or destroyed and, once a device is lost, by
 * calls that name an object. */
#include "runtime/cuda/cuda.h"

#if WM_HAVE_CUDA
#include "runtime/base/meta.h"

struct wm_cuda_made {
    struct wm_cuda_made *next;
    const void *object;
    int device;
};

void wm_cuda_homes_init(wm_cuda_homes *homes)
{
    wm_lock_init(&homes->lock, WM_RANK_DRIVER);
}

void wm_cuda_homes_fini(wm_cuda_homes *homes)
{
    for (int i = 0; i < WM_CUDA_HOME_BUCKETS; i++) {
        while (homes->bucket[i] != NULL) {
            struct wm_cuda_made *made = homes->bucket[i];

            homes->bucket[i] = made->next;
            wm_meta_free(made);
        }
    }
    wm_lock_fini(&homes->lock);
}

/* The link to the object's entry, or to the end of its chain. */
static struct wm_cuda_made **find_locked(wm_cuda_homes *homes,
                                         const void *object)
{
    uint64_t key = (uint64_t)(uintptr_t)object * UINT64_C(0x9E3779B97F4A7C15);
    struct wm_cuda_made **link = &homes->bucket[key >> 54];

    while (*link != NULL && (*link)->object != object) {
        link = &(*link)->next;
    }
    return link;
}

_Static_assert(WM_CUDA_HOME_BUCKETS == 1 << 10, "a key has 10 bits of hash");

void wm_cuda_note_made(wm_cuda *c, const void *object, int device)
{
    struct wm_cuda_made *made = wm_meta_alloc(sizeof *made);
    struct wm_cuda_made **link;

    wm_lock_acquire(&c->homes.lock);
    link = find_locked(&c->homes, object);
    if (*link == NULL && made != NULL) {
        made->object = object;
        *link = made;
        made = NULL;
    }
    if (*link != NULL) {
        (*link)->device = device;
    }
    wm_lock_release(&c->homes.lock);
    wm_meta_free(made);
}

int wm_cuda_note_gone(wm_cuda *c, const void *object)
{
    struct wm_cuda_made **link, *made;
    int device = WM_DEVICE_UNKNOWN;

    wm_lock_acquire(&c->homes.lock);
    link = find_locked(&c->homes, object);
    made = *link;
    if (made != NULL) {
        *link = made->next;
        device = made->device;
    }
    wm_lock_release(&c->homes.lock);
    wm_meta_free(made);
    return device;
}

int wm_cuda_home(wm_driver *d, const void *object)
{
    wm_cuda *c = wm_cuda_of(d);
    const struct wm_cuda_made *made;
    int device;

    wm_lock_acquire(&c->homes.lock);
    made = *find_locked(&c->homes, object);
    device = made != NULL ? made->device : WM_DEVICE_UNKNOWN;
    wm_lock_release(&c->homes.lock);
    return device;
}
#endif
