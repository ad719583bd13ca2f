/* fuzz_calls.c: a program of public calls, made from bytes, against the model
 * of check_memory_model.c: the first byte says what the run is like, and each
 * choice of the others takes the next ones. */
#include "fuzz/fuzz.h"

#include "model/memory_model.h"

enum { STEPS = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2) {
        return -1;
    }
    model_begin(data[0] % MODEL_KINDS, STEPS);
    model.bytes = data + 1;
    model.left = bytes - 1;
    for (model.step = 1; model.step <= STEPS && model.left > 0; model.step++) {
        model_step();
        if (model.step % 16 == 0) {
            model_check_figures();
        }
    }
    model_check_arenas();
    model_end();
    return 0;
}
