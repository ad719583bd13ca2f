/* cudnn.c: the stand-in libcudnn.so.9: handles, descriptors of dense NCHW
 * tensors of floats, and the few routines that the examples call. */
#include <cudnn.h>

#define LIBRARY "cudnn"
#define STATUS  cudnnStatus_t
#define BAD     CUDNN_STATUS_NOT_INITIALIZED
#define MEMORY  CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED

#include "handle.h"

#include <math.h>
#include <stdlib.h>

struct cudnnTensorStruct {
    int n, c, h, w;
};

struct cudnnActivationStruct {
    cudnnActivationMode_t mode;
};

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch ((int)status) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
        return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
        return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    default:
        return "an error of the stand-in";
    }
}

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

size_t cudnnGetCudartVersion(void)
{
    return (size_t)standin_version();
}

CREATE_DESTROY(cudnnHandle_t, cudnnCreate, cudnnDestroy)
SET_STREAM(cudnnHandle_t, cudnnSetStream, cudnnGetStream)

/* ---- Descriptors ---- */

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor)
{
    STANDIN_ENTER(cudnnStatus_t, cudnnCreateTensorDescriptor)
    *tensor = calloc(1, sizeof **tensor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor)
{
    STANDIN_ENTER(cudnnStatus_t, cudnnDestroyTensorDescriptor)
    free(tensor);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c,
                                         int h, int w)
{
    STANDIN_ENTER(cudnnStatus_t, cudnnSetTensor4dDescriptor)
    if (format != CUDNN_TENSOR_NCHW || type != CUDNN_DATA_FLOAT) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    if (n < 1 || c < 1 || h < 1 || w < 1) {
        return CUDNN_STATUS_BAD_PARAM;
    }
    *tensor = (struct cudnnTensorStruct){n, c, h, w};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *activation)
{
    STANDIN_ENTER(cudnnStatus_t, cudnnCreateActivationDescriptor)
    *activation = calloc(1, sizeof **activation);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation)
{
    STANDIN_ENTER(cudnnStatus_t, cudnnDestroyActivationDescriptor)
    free(activation);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                             cudnnActivationMode_t mode,
                             cudnnNanPropagation_t nan, double coefficient)
{
    STANDIN_ENTER(cudnnStatus_t, cudnnSetActivationDescriptor)
    if (mode != CUDNN_ACTIVATION_RELU) {
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
    activation->mode = mode;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- Work: descriptors and scalars are taken at the call ---- */

struct work {
    struct cudnnTensorStruct x_shape, y_shape;
    const float *x, *y, *dy;
    float *out;
    float alpha, beta;
    bool log, instance;
};

static long elements(struct cudnnTensorStruct t)
{
    return (long)t.n * t.c * t.h * t.w;
}

static bool same(cudnnTensorDescriptor_t a, cudnnTensorDescriptor_t b)
{
    return a->n == b->n && a->c == b->c && a->h == b->h && a->w == b->w;
}

static cudnnStatus_t queue(const standin_handle *h, warm_host_fn function,
                           const struct work *w)
{
    return standin_launch(h->stream, function, w, sizeof *w) == 0
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_EXECUTION_FAILED;
}

/* What was there counts only where beta is not 0. */
static float blend(const struct work *w, float value, float before)
{
    return w->alpha * value + (w->beta != 0 ? w->beta * before : 0);
}

static void run_add(void *argument)
{
    const struct work *w = argument;
    struct cudnnTensorStruct a = w->x_shape, c = w->y_shape;
    float *out = w->out;

    for (int n = 0; n < c.n; n++) {
        for (int k = 0; k < c.c; k++) {
            for (int y = 0; y < c.h; y++) {
                for (int x = 0; x < c.w; x++, out++) {
                    long at = a.n == 1 ? 0 : n;

                    at = at * a.c + (a.c == 1 ? 0 : k);
                    at = at * a.h + (a.h == 1 ? 0 : y);
                    at = at * a.w + (a.w == 1 ? 0 : x);
                    *out = blend(w, w->x[at], *out);
                }
            }
        }
    }
}

static bool broadcasts(int a, int c)
{
    return a == 1 || a == c;
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha,
                             const cudnnTensorDescriptor_t a, const void *x,
                             const void *beta, const cudnnTensorDescriptor_t c,
                             void *y)
{
    struct work w = {.x_shape = *a,
                     .y_shape = *c,
                     .x = x,
                     .out = y,
                     .alpha = *(const float *)alpha,
                     .beta = *(const float *)beta};
    cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;

    ENTER(cudnnAddTensor, handle)
    if (broadcasts(a->n, c->n) && broadcasts(a->c, c->c) &&
        broadcasts(a->h, c->h) && broadcasts(a->w, c->w)) {
        status = queue(h, run_add, &w);
    }
    LEAVE(status);
}

static void run_relu(void *argument)
{
    const struct work *w = argument;

    for (long i = 0; i < elements(w->x_shape); i++) {
        /* A NaN stays one. */
        w->out[i] = blend(w, w->x[i] < 0 ? 0 : w->x[i], w->out[i]);
    }
}

cudnnStatus_t cudnnActivationForward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
    const void *alpha, const cudnnTensorDescriptor_t x_tensor, const void *x,
    const void *beta, const cudnnTensorDescriptor_t y_tensor, void *y)
{
    struct work w = {.x_shape = *x_tensor,
                     .x = x,
                     .out = y,
                     .alpha = *(const float *)alpha,
                     .beta = *(const float *)beta};
    cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;

    ENTER(cudnnActivationForward, handle)
    if (same(x_tensor, y_tensor)) {
        status = queue(h, run_relu, &w);
    }
    LEAVE(status);
}

static void run_relu_back(void *argument)
{
    const struct work *w = argument;

    for (long i = 0; i < elements(w->x_shape); i++) {
        w->out[i] = blend(w, w->x[i] > 0 ? w->dy[i] : 0, w->out[i]);
    }
}

cudnnStatus_t cudnnActivationBackward(
    cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
    const void *alpha, const cudnnTensorDescriptor_t y_tensor, const void *y,
    const cudnnTensorDescriptor_t dy_tensor, const void *dy,
    const cudnnTensorDescriptor_t x_tensor, const void *x, const void *beta,
    const cudnnTensorDescriptor_t dx_tensor, void *dx)
{
    struct work w = {.x_shape = *x_tensor,
                     .x = x,
                     .dy = dy,
                     .out = dx,
                     .alpha = *(const float *)alpha,
                     .beta = *(const float *)beta};
    cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;

    ENTER(cudnnActivationBackward, handle)
    if (same(x_tensor, y_tensor) && same(x_tensor, dy_tensor) &&
        same(x_tensor, dx_tensor)) {
        status = queue(h, run_relu_back, &w);
    }
    LEAVE(status);
}

/* count values, step apart. */
static void softmax(const struct work *w, const float *x, float *y, long count,
                    long step)
{
    float largest = x[0], sum = 0;

    for (long i = 1; i < count; i++) {
        largest = fmaxf(largest, x[i * step]);
    }
    for (long i = 0; i < count; i++) {
        sum += expf(x[i * step] - largest);
    }
    for (long i = 0; i < count; i++) {
        float shifted = x[i * step] - largest;
        float value = w->log ? shifted - logf(sum) : expf(shifted) / sum;

        y[i * step] = blend(w, value, y[i * step]);
    }
}

static void run_softmax(void *argument)
{
    const struct work *w = argument;
    struct cudnnTensorStruct t = w->x_shape;
    long plane = (long)t.h * t.w;
    long image = plane * t.c;

    for (long n = 0; n < t.n; n++) {
        const float *x = w->x + n * image;
        float *y = w->out + n * image;

        if (w->instance) {
            softmax(w, x, y, image, 1);
            continue;
        }
        for (long at = 0; at < plane; at++) {
            softmax(w, x + at, y + at, t.c, plane);
        }
    }
}

cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle,
                                  cudnnSoftmaxAlgorithm_t algorithm,
                                  cudnnSoftmaxMode_t mode, const void *alpha,
                                  const cudnnTensorDescriptor_t x_tensor,
                                  const void *x, const void *beta,
                                  const cudnnTensorDescriptor_t y_tensor,
                                  void *y)
{
    struct work w = {.x_shape = *x_tensor,
                     .x = x,
                     .out = y,
                     .alpha = *(const float *)alpha,
                     .beta = *(const float *)beta,
                     .log = algorithm == CUDNN_SOFTMAX_LOG,
                     .instance = mode == CUDNN_SOFTMAX_MODE_INSTANCE};
    cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;

    ENTER(cudnnSoftmaxForward, handle)
    if (same(x_tensor, y_tensor)) {
        status = queue(h, run_softmax, &w);
    }
    LEAVE(status);
}
