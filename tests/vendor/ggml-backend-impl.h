/* ggml-backend-impl.h: the part of ggml's internal interface of backends that
 * the header warmpool/ggml.h uses, restated, since packages of ggml have its
 * public headers only. warm_ggml_host_init() compares the places of the fields
 * with those where the library's own functions find them. */
#ifndef WT_GGML_BACKEND_IMPL_H
#define WT_GGML_BACKEND_IMPL_H

#define GGML_BACKEND_API_VERSION 2

#ifndef WT_GGML_BACKEND_H
#include <ggml-backend.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_backend_buffer_type_i {
    const char *(*get_name)(ggml_backend_buffer_type_t);
    ggml_backend_buffer_t (*alloc_buffer)(ggml_backend_buffer_type_t, size_t);
    size_t (*get_alignment)(ggml_backend_buffer_type_t);
    size_t (*get_max_size)(ggml_backend_buffer_type_t);
    size_t (*get_alloc_size)(ggml_backend_buffer_type_t,
                             const struct ggml_tensor *);
    bool (*is_host)(ggml_backend_buffer_type_t);
};

struct ggml_backend_buffer_type {
    struct ggml_backend_buffer_type_i iface;
    ggml_backend_dev_t device;
    void *context;
};

/* The others are not used. */
struct ggml_backend_buffer_i {
    void (*free_buffer)(ggml_backend_buffer_t);
    void (*others[10])(void);
};

struct ggml_backend_buffer {
    struct ggml_backend_buffer_i iface;
    ggml_backend_buffer_type_t buft;
    void *context;
    size_t size;
    enum ggml_backend_buffer_usage usage;
};

#ifdef __cplusplus
}
#endif
#endif
