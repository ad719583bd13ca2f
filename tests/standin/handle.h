/* handle.h: what the stand-in libraries with handles share. A library
 * defines LIBRARY ("cublas"), STATUS (its status type) and its codes BAD (not
 * a handle) and MEMORY (no device memory) before it includes this. */
#ifndef STANDIN_HANDLE_H
#define STANDIN_HANDLE_H

#include "standin.h"

#define HANDLE(handle) ((standin_handle *)(void *)(handle))

/* Declares h, in use until LEAVE. */
#define ENTER(function, handle)                                                \
    standin_handle *h = HANDLE(handle);                                        \
    STANDIN_ENTER(STATUS, function)                                            \
    if (!standin_handle_use(#function, LIBRARY, h)) {                          \
        return BAD;                                                            \
    }

#define LEAVE(code)                                                            \
    standin_handle_done(h);                                                    \
    return (STATUS)(code)

#define CREATE_DESTROY(type, create_fn, destroy_fn)                            \
    CREATE_DESTROY_BY(standin_handle_create, type, create_fn, destroy_fn)
#define CREATE_DESTROY_BY(by, type, create_fn, destroy_fn)                     \
    STATUS create_fn(type *handle)                                             \
    {                                                                          \
        standin_handle *made;                                                  \
        STANDIN_ENTER(STATUS, create_fn)                                       \
        made = by(LIBRARY, standin_version());                                 \
        if (made == NULL) {                                                    \
            return MEMORY;                                                     \
        }                                                                      \
        *handle = (type)(void *)made;                                          \
        return (STATUS)0;                                                      \
    }                                                                          \
    STATUS destroy_fn(type handle)                                             \
    {                                                                          \
        ENTER(destroy_fn, handle)                                              \
        standin_handle_destroy(#destroy_fn, h);                                \
        LEAVE(0);                                                              \
    }

#define SET_STREAM(type, set_fn, get_fn)                                       \
    STATUS set_fn(type handle, cudaStream_t stream)                            \
    {                                                                          \
        ENTER(set_fn, handle)                                                  \
        standin_check_stranded(#set_fn, h);                                    \
        h->stream = stream;                                                    \
        h->workspace = NULL;                                                   \
        h->workspace_bytes = 0;                                                \
        LEAVE(0);                                                              \
    }                                                                          \
    STATUS get_fn(type handle, cudaStream_t *stream)                           \
    {                                                                          \
        ENTER(get_fn, handle)                                                  \
        *stream = h->stream;                                                   \
        LEAVE(0);                                                              \
    }

/* A setting kept in a slot, as the difference to what a new handle has. */
#define SETTING(handle_type, prefix, name, type, slot, initial)                \
    STATUS prefix##Set##name(handle_type handle, type value)                   \
    {                                                                          \
        ENTER(prefix##Set##name, handle)                                       \
        h->setting[slot] = (intptr_t)value ^ (initial);                        \
        LEAVE(0);                                                              \
    }                                                                          \
    STATUS prefix##Get##name(handle_type handle, type *value)                  \
    {                                                                          \
        ENTER(prefix##Get##name, handle)                                       \
        *value = (type)(h->setting[slot] ^ (initial));                         \
        LEAVE(0);                                                              \
    }

#endif
