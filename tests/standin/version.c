/* version.c: which version of CUDA a stand-in library is of. Compiled once for
 * each, and linked into all libraries but libcuda, which serves them all. */
#include "standin.h"

#ifndef STANDIN_VERSION
#define STANDIN_VERSION CUDART_VERSION
#endif

int standin_version(void)
{
    return STANDIN_VERSION;
}
