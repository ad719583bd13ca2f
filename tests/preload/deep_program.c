/* deep_program.c: opens a library that calls CUDA. Argument "bound": with
 * RTLD_DEEPBIND, which puts the library's own CUDA before what is preloaded. */
#include "program.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#ifndef LIBRARY /* to be opened */
#define LIBRARY ""
#endif

int main(int argc, char **argv)
{
    int flags = argc > 1 && strcmp(argv[1], "bound") == 0 ? RTLD_DEEPBIND : 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | flags);
    int (*pin)(int) = NULL;

    if (library == NULL) {
        puts(dlerror());
        return 1;
    }
    *(void **)(void *)&pin = dlsym(library, "pin_often");
    if (pin == NULL || pin(20) != 0) {
        return 1;
    }
    printf("pins %" PRIu64 "\n",
           calls_of("cuMemHostAlloc") + calls_of("cuMemHostRegister_v2"));
    return 0;
}
