/* wt_barrier.h: makes the kernel refuse membarrier(2). */
#ifndef WT_BARRIER_H
#define WT_BARRIER_H

#include "runtime/thread/biased_lock.h"
#include "wt.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Why membarrier(2) cannot be refused here; null: it can. */
static inline const char *wt_barriers_stay(void)
{
    return WM_BIASED_SEQ_CST           ? "biased locks are plain ones here"
           : prctl(PR_GET_SECCOMP) < 0 ? "no filter of system calls here"
                                       : NULL;
}

/* From now on membarrier(2) fails, as on an old kernel, or as after a program
 * has installed a filter of system calls. It cannot be undone in this process,
 * which runs one test. */
static inline void wt_refuse_barriers(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 38),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {4, code};

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

#endif
