/* ranks.h: the processes of one training, on one machine or many (--mpi).
 *
 *   rank 0: gradient ─┐  reduce                    ┌─► sum
 *   rank 1: gradient ─┼─ each rank adds up its     ├─► sum
 *   rank 2: gradient ─┘  part of all, by MPI_Get   └─► sum
 *
 * MPI reads and writes registered memory. A memory callback registers (MPI
 * says: attaches) each segment of page-locked memory once, when it is obtained,
 * and gives that up before it is returned: buffers come and go with each step,
 * registrations do not.
 *
 * ranks.c has it by MPI; ranks_none.c is for a program that was built without,
 * which is one rank of one. */
#ifndef EXAMPLE_RANKS_H
#define EXAMPLE_RANKS_H

#include "examples/common/images.h"

#include <warmpool/warmpool.h>

#include <stdbool.h>

typedef struct ranks {
    int rank, count;
    uint64_t sums;       /* all-reduces so far */
    uint64_t registered; /* segments attached so far */
} ranks;

/* Before the first runtime is created; takes what is MPI's out of the
 * arguments. False: why says so. Once it has succeeded every process of the
 * training must come to ranks_end(), or end all by ranks_abort(). */
bool ranks_begin(ranks *r, int *argc, char ***argv, message *why);
void ranks_end(ranks *r);
/* Ends the processes of all ranks: this one failed. */
void ranks_abort(ranks *r);

/* Registers page-locked memory of the runtime from now on, until it is
 * destroyed. Before its first allocation. */
bool ranks_register(ranks *r, warm_runtime *runtime, message *why);

/* Every rank calls it with count floats in a page-locked block of its own: on
 * return they are the sum of those of all ranks. Ranks are added two by two, 0
 * and 1, 2 and 3, then pairs of pairs: with powers of two the sum has the same
 * bits, however many ranks share the work. One thread. */
bool ranks_sum(ranks *r, warm_runtime *runtime, float *values, int count,
               message *why);

/* The sum of one number of all ranks. */
double ranks_total(double value);

#endif
