/* ggml-backend.h: the part of ggml's public interface that warmpool/ggml.h
 * uses, restated, for machines without ggml; with it, ggml's own is found. */
#ifndef WT_GGML_BACKEND_H
#define WT_GGML_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ggml_backend_buffer_type *ggml_backend_buffer_type_t;
typedef struct ggml_backend_buffer *ggml_backend_buffer_t;
typedef struct ggml_backend_device *ggml_backend_dev_t;
struct ggml_tensor;

enum ggml_backend_buffer_usage { GGML_BACKEND_BUFFER_USAGE_ANY = 0 };

ggml_backend_buffer_type_t ggml_backend_cpu_buffer_type(void);
ggml_backend_buffer_t ggml_backend_cpu_buffer_from_ptr(void *, size_t);
ggml_backend_buffer_type_t ggml_backend_buffer_get_type(ggml_backend_buffer_t);
void ggml_backend_buffer_free(ggml_backend_buffer_t);
size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t);
ggml_backend_dev_t ggml_backend_buft_get_device(ggml_backend_buffer_type_t);

#ifdef __cplusplus
}
#endif
#endif
