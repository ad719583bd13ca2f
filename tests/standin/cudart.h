/* cudart.h: what the files of the stand-in libcudart share. */
#ifndef STANDIN_CUDART_H
#define STANDIN_CUDART_H

#include "standin.h"

/* Keeps the code as the thread's last error if it is one. Returns it. */
cudaError_t standin_answer(int code);
/* As a function that starts cudart on the thread's device begins; 0 or a code.
 */
int standin_begin(void);

/* A function without a context of its own. */
#define ENTER_PLAIN(function)                                                  \
    static standin_point point_ = {.name = #function};                         \
    int fault_ = standin_hit(&point_);                                         \
                                                                               \
    if (fault_ != 0) {                                                         \
        return standin_answer(fault_);                                         \
    }

/* A function that starts cudart on the thread's device, and is one call. */
#define FUNCTION(function, parameters, call)                                   \
    cudaError_t function parameters                                            \
    {                                                                          \
        ENTER_PLAIN(function)                                                  \
        if ((fault_ = standin_begin()) != 0) {                                 \
            return standin_answer(fault_);                                     \
        }                                                                      \
        return standin_answer((int)(call));                                    \
    }

/* Another name of a function, for code for per-thread default streams, which no
 * header declares. */
#define PER_THREAD(function, parameters, call)                                 \
    cudaError_t function parameters;                                           \
    FUNCTION(function, parameters, call)

#define OWN(stream) ((stream) != NULL ? (stream) : cudaStreamPerThread)

/* The driver's calls that both the waiting functions and the others make. */
int standin_copy(void *destination, const void *source, size_t bytes,
                 enum cudaMemcpyKind kind, cudaStream_t stream);
int standin_alloc_async(void **pointer, size_t bytes, cudaStream_t stream);

/* The answer of a function that the stand-in does not have (rest.sh). */
int standin_not_there(const char *function);

#endif
