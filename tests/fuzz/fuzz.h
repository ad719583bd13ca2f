/* fuzz.h: libFuzzer's harnesses. It calls LLVMFuzzerTestOneInput() with bytes
 * of a corpus, changed so that they reach more; one process, many inputs. What
 * must hold is asserted as in a test: see fuzz.c. */
#ifndef WT_FUZZ_H
#define WT_FUZZ_H

#include "wt.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* libFuzzer asks for it once, before the first input. */
int LLVMFuzzerInitialize(int *count, char ***words);

#endif
