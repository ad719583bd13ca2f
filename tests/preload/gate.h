/* gate.h: work that stays on a stream until a gate opens. CUDA's own free waits
 * for it, and so another thread opens the gate. */
#ifndef GATE_H
#define GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static atomic_bool open_gate;

static inline void wait_for_gate(void *unused)
{
    (void)unused;
    while (!atomic_load(&open_gate)) {
        usleep(100);
    }
}

static inline void *open_later(void *unused)
{
    usleep(50000);
    atomic_store(&open_gate, true);
    return unused;
}

#endif
