/* wt_main.c: main of the test programs that have none of their own. */
#include "wt.h"

int main(void)
{
    return wt_run();
}
