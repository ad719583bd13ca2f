/* workspace_list.c: claims, leaks and frees a device's workspaces, and keeps
 * its lists (workspace_int.h). */
#include "handles/workspace_int.h"

#include "handles/kind.h"
#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/meta.h"

void wm_workspace_set_state_locked(wm_workspaces *workspaces, wm_workspace *w,
                                   enum wm_workspace_state state)
{
    if (w->link != NULL) {
        *w->link = w->next_of_handle;
        if (w->next_of_handle != NULL) {
            w->next_of_handle->link = w->link;
        }
        w->link = NULL;
    }
    w->state = state;
    if (state == WM_WORKSPACE_SERVING) {
        wm_workspace **list = wm_workspaces_bucket(workspaces, w->handle);

        w->next_of_handle = *list;
        w->link = list;
        if (*list != NULL) {
            (*list)->link = &w->next_of_handle;
        }
        *list = w;
    }
}

wm_workspace *wm_workspace_claim(wm_workspaces *workspaces, size_t bytes,
                                 uint64_t before, enum wm_workspace_state state)
{
    wm_workspace *w;

    wm_lock_acquire(&workspaces->lock);
    w = workspaces->list;
    while (w != NULL &&
           (w->state != state || w->bytes < bytes || w->since_ns > before)) {
        w = w->next;
    }
    if (w != NULL) {
        wm_workspace_set_state_locked(workspaces, w, WM_WORKSPACE_CLAIMED);
    }
    wm_lock_release(&workspaces->lock);
    return w;
}

void wm_workspaces_unreserve(wm_workspaces *workspaces, size_t bytes)
{
    const wm_workspace_limit *limit = &workspaces->limit;

    if (limit->unreserve != NULL) {
        limit->unreserve(limit->context, workspaces->device, bytes);
    }
}

bool wm_workspace_is_bound(wm_workspaces *workspaces, const wm_workspace *w)
{
    const wm_workspace *o = *wm_workspaces_bucket(workspaces, w->handle);

    while (o != NULL &&
           (o->handle != w->handle || o->binding_number <= w->binding_number)) {
        o = o->next_of_handle;
    }
    return o == NULL;
}

static void unlink_workspace(wm_workspaces *workspaces, wm_workspace *w)
{
    wm_workspace **at = &workspaces->list;

    wm_lock_acquire(&workspaces->lock);
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    workspaces->count--;
    workspaces->held_bytes -= w->bytes;
    wm_lock_release(&workspaces->lock);
}

void wm_workspace_set_state(wm_workspaces *workspaces, wm_workspace *w,
                            enum wm_workspace_state state)
{
    wm_lock_acquire(&workspaces->lock);
    wm_workspace_set_state_locked(workspaces, w, state);
    wm_lock_release(&workspaces->lock);
}

void wm_workspace_leak(wm_workspaces *workspaces, wm_workspace *w)
{
    wm_workspace_set_state(workspaces, w, WM_WORKSPACE_RETAINED);
    if (wm_driver_is_lost(workspaces->driver, workspaces->device)) {
        return; /* the loss of the device was logged */
    }
    wm_log(WARM_LOG_WARNING, "a workspace of %s on device %d is leaked: %s",
           wm_bytes(w->bytes).text, workspaces->device,
           warm_last_error_message());
}

bool wm_workspace_free(wm_workspaces *workspaces, wm_workspace *w,
                       enum wm_workspace_state else_state)
{
    const wm_captures *captures = workspaces->captures;
    wm_breaking breaking;
    warm_status status;

    if (!wm_captures_begin_break(captures, &breaking, workspaces->device,
                                 NULL)) {
        wm_workspace_set_state(workspaces, w, else_state);
        captures->note(captures->context);
        return false;
    }
    status = wm_driver_device_free(workspaces->driver, workspaces->device,
                                   w->memory);
    wm_captures_end_break(captures, &breaking);
    if (status != WARM_OK) {
        wm_workspace_leak(workspaces, w);
        return true;
    }
    if (w->event != NULL) {
        (void)wm_driver_event_destroy(workspaces->driver, w->event);
    }
    wm_workspaces_unreserve(workspaces, w->bytes);
    unlink_workspace(workspaces, w);
    wm_meta_free(w);
    return true;
}
