/* transfer_cache.c: the transfer cache (transfer_cache.h), where it allocates
 * metadata or waits. */
#include "alloc/arena/transfer_cache.h"

#include "runtime/base/lock.h"
#include "runtime/base/meta.h"

#include <string.h>

enum { FIRST_ROOM = 8 };

static void lock(wm_transfer_class *c)
{
    for (unsigned turn = 0; !wm_transfer_try(c); turn++) {
        wm_wait_turn(turn);
    }
}

/* Makes room for count entries, as far as it can. Returns for how many. */
static unsigned make_room_locked(wm_transfer_class *c, unsigned count)
{
    unsigned have = wm_transfer_count(c), room = c->room;
    wm_entry *entries;

    if (room == 0) {
        room = FIRST_ROOM;
    }
    while (room < have + count && room < WM_TRANSFER_CACHE_BLOCKS) {
        room *= 2;
    }
    if (room > c->room) {
        entries = wm_meta_alloc(room * sizeof *entries);
        if (entries != NULL) {
            if (have > 0) {
                memcpy(entries, c->entries, have * sizeof *entries);
            }
            wm_meta_free(c->entries);
            c->entries = entries;
            c->room = (uint16_t)room;
        }
    }
    return c->room - have < count ? c->room - have : count;
}

unsigned wm_transfer_put(wm_transfer_class *c, const wm_entry *entries,
                         unsigned count)
{
    lock(c);
    count = make_room_locked(c, count);
    for (unsigned i = 0; i < count; i++) {
        wm_transfer_push_locked(c, entries[i].block, entries[i].base);
    }
    wm_transfer_unlock(c);
    return count;
}

unsigned wm_transfer_take(wm_transfer_class *c, unsigned count,
                          wm_entry *entries)
{
    if (wm_transfer_count(c) == 0) {
        return 0;
    }
    lock(c);
    count = wm_transfer_take_locked(c, count, entries);
    wm_transfer_unlock(c);
    return count;
}

bool wm_transfer_age(wm_transfer_class *c)
{
    bool used;

    lock(c);
    used = c->used;
    c->used = false;
    wm_transfer_unlock(c);
    return used;
}

size_t wm_transfer_bytes(const wm_transfer_cache *cache)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < WM_CLASSES; i++) {
        bytes += wm_transfer_count(&cache->of[i]) * wm_class_bytes(i);
    }
    return bytes;
}

void wm_transfer_fini(wm_transfer_cache *cache)
{
    for (unsigned i = 0; i < WM_CLASSES; i++) {
        wm_meta_free(cache->of[i].entries);
    }
}
