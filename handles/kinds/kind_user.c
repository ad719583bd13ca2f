/* kind_user.c: a kind of the program's callbacks (warm_kind_ops).
 *
 * A callback returns 0 or its library's code, which becomes a status with the
 * code and the text that error_text returns. */
#include "handles/kind_table.h"
#include "runtime/base/callback.h"
#include "runtime/base/meta.h"
#include "runtime/base/sized.h"
#include "runtime/base/status.h"
#include "runtime/thread/runtime_body.h"

#include <string.h>

enum { NAME_MAX_BYTES = 64 };

/* Calls a callback of the program, marked as inside a callback. */
#define CALLED(call)                                                           \
    __extension__({                                                            \
        __typeof__(call) answer_;                                              \
        wm_callback_begin();                                                   \
        answer_ = (call);                                                      \
        wm_callback_end();                                                     \
        answer_;                                                               \
    })

struct user_kind {
    warm_kind_ops user;
    wm_kind_ops ops;
    char name[NAME_MAX_BYTES];
};

static warm_status answer(const struct user_kind *kind, const char *what,
                          int device, int code)
{
    const char *text = NULL;

    if (code == 0) {
        return WARM_OK;
    }
    if (kind->user.error_text != NULL) {
        text = CALLED(kind->user.error_text(kind->user.context, code));
    }
    return wm_fail_code(WARM_LIBRARY_ERROR, kind->name, code, text,
                        "%s: %s failed on device %d with code %d%s%s",
                        kind->name, what, device, code,
                        text != NULL ? ": " : "", text != NULL ? text : "");
}

static warm_status create(wm_kind *kind, int device, void **handle)
{
    const struct user_kind *user = wm_kind_context(kind);
    void *made = NULL;
    warm_status status =
        answer(user, "create", device,
               CALLED(user->user.create(user->user.context, device, &made)));

    if (status == WARM_OK && made == NULL) {
        return wm_fail_code(WARM_LIBRARY_ERROR, user->name, 0, NULL,
                            "%s: create made no handle on device %d",
                            user->name, device);
    }
    if (status == WARM_OK) {
        *handle = made;
    }
    return status;
}

static warm_status destroy(wm_kind *kind, int device, void *handle)
{
    const struct user_kind *user = wm_kind_context(kind);

    return answer(
        user, "destroy", device,
        CALLED(user->user.destroy(user->user.context, device, handle)));
}

static warm_status bind(wm_kind *kind, int device, void *handle,
                        warm_stream stream, void *workspace, size_t bytes)
{
    const struct user_kind *user = wm_kind_context(kind);

    (void)workspace;
    (void)bytes;
    return answer(user, "bind_stream", device,
                  CALLED(user->user.bind_stream(user->user.context, device,
                                                handle, stream)));
}

static warm_status reset(wm_kind *kind, int device, void *handle)
{
    const struct user_kind *user = wm_kind_context(kind);

    return answer(user, "reset", device,
                  CALLED(user->user.reset(user->user.context, device, handle)));
}

static void close_kind(wm_kind *kind)
{
    wm_meta_free(wm_kind_context(kind));
}

static warm_status check(const warm_kind_ops *ops)
{
    if (ops->name == NULL || ops->name[0] == '\0' ||
        strlen(ops->name) >= NAME_MAX_BYTES) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "a kind needs a name of at most %d characters",
                       NAME_MAX_BYTES - 1);
    }
    if (ops->create == NULL || ops->destroy == NULL) {
        return wm_fail(WARM_INVALID_ARGUMENT,
                       "kind %s needs create and destroy", ops->name);
    }
    return WARM_OK;
}

static struct user_kind *make(const warm_kind_ops *ops)
{
    struct user_kind *kind = wm_meta_alloc(sizeof *kind);

    if (kind == NULL) {
        return NULL;
    }
    kind->user = *ops;
    strcpy(kind->name, ops->name);
    kind->user.name = kind->name;
    kind->ops = (wm_kind_ops){
        .name = kind->name,
        .create = create,
        .destroy = destroy,
        .bind = ops->bind_stream != NULL ? bind : NULL,
        .reset = ops->reset != NULL ? reset : NULL,
        .close = close_kind,
    };
    return kind;
}

static warm_status add(struct wm_kind_table *pools, const warm_kind_ops *ops,
                       warm_kind *kind)
{
    warm_kind_ops all;
    struct user_kind *made;
    warm_status status = wm_sized_check(ops, sizeof all, "warm_kind_ops");

    if (status == WARM_OK) {
        wm_sized_in(&all, ops, sizeof all);
        status = check(&all);
    }
    if (status != WARM_OK) {
        return status;
    }
    made = make(&all);
    if (made == NULL) {
        return wm_fail(WARM_OUT_OF_MEMORY, "no memory for kind %s", all.name);
    }
    status = wm_kind_table_add(pools, &made->ops, made, kind);
    if (status != WARM_OK) {
        wm_meta_free(made);
    }
    return status;
}

warm_status warm_kind_register(warm_runtime *runtime, const warm_kind_ops *ops,
                               warm_kind *kind)
{
    warm_status status =
        wm_check_given(wm_runtime_check(runtime), kind, "kind");

    return status == WARM_OK ? add(runtime->kinds, ops, kind) : status;
}
