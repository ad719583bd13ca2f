/* ranks_none.c: a program built without MPI is one rank of one. */
#include "examples/data_parallel/ranks.h"

bool ranks_begin(ranks *r, int *argc, char ***argv, message *why)
{
    (void)argc;
    (void)argv;
    *r = (ranks){.rank = 0, .count = 1};
    return failed(why, "--mpi: this program was built without MPI; "
                       "`make mpi` builds data_parallel_mpi, which has it");
}

void ranks_end(ranks *r)
{
    (void)r;
}

void ranks_abort(ranks *r)
{
    (void)r;
}

bool ranks_register(ranks *r, warm_runtime *runtime, message *why)
{
    (void)r;
    (void)runtime;
    (void)why;
    return true;
}

bool ranks_sum(ranks *r, warm_runtime *runtime, float *values, int count,
               message *why)
{
    (void)r;
    (void)runtime;
    (void)values;
    (void)count;
    (void)why;
    return true;
}

double ranks_total(double value)
{
    return value;
}
