/* model.h: a small ONNX model, written by hand: y = x W + b. */
#ifndef EX_ONNX_MODEL_H
#define EX_ONNX_MODEL_H

#include <stddef.h>

enum { MODEL_INPUTS = 256, MODEL_OUTPUTS = 64 };

/* The weight from an input to an output, and what is added to an output. */
static inline float model_weight(unsigned input, unsigned output)
{
    return (float)((input * 7 + output * 3) % 11) - 5;
}

static inline float model_bias(unsigned output)
{
    return (float)(output % 5);
}

/* The model as the bytes of a file, for batches of any size: input "x", output
 * "y". Owned: ended with free(). Null without memory. */
unsigned char *model_make(size_t *bytes);

#endif
