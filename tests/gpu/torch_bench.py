"""What PyTorch's caches cost on this machine: page-locked memory and handles.

    torch_bench.py [FOLDER]     prints a table; FOLDER gets torch.jsonl

Runs the works of tests/bench through PyTorch's Python interface, and beside
each the same work with nothing behind it (pageable memory that is empty, a call
that does nothing), since most of a figure is the interpreter's. If
libwarmpool_bench.so lies beside this file, its allocator is called from Python as
well, by ctypes. Threads share the interpreter's lock: their figures tell
whether something gets worse, not what it costs alone.

Ends with status 0 and a line "skip: ..." where there is no PyTorch or no GPU.
"""
import ctypes
import json
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OPS = int(os.environ.get("TORCH_BENCH_OPS", "5000"))
RUNS = 3
HOT = 65536


def median(values):
    return sorted(values)[len(values) // 2]


def timed(work, threads, ops):
    """ns of wall time for an operation of one of the threads, at its best
    share: as many operations go on as there are threads."""
    barrier = threading.Barrier(threads + 1)
    errors = []

    def run():
        try:
            state = work()
            state(ops // 4 + 64)
            for _ in range(RUNS):
                barrier.wait()
                state(ops)
                barrier.wait()
        except Exception as error:  # noqa: whatever it is, the table goes on
            errors.append(error)
            barrier.abort()

    members = [threading.Thread(target=run) for _ in range(threads)]
    for member in members:
        member.start()
    figures = []
    try:
        for _ in range(RUNS):
            barrier.wait()
            start = time.perf_counter_ns()
            barrier.wait()
            figures.append((time.perf_counter_ns() - start) / (ops * threads))
    except threading.BrokenBarrierError:
        pass
    for member in members:
        member.join()
    if errors:
        raise errors[0]
    return median(figures)


def sizes(count):
    """4 KiB to 4 MiB, log-uniform, the same in every run."""
    state, found = 12345, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        found.append(int(4096 * 2 ** (10 * (state >> 11) / 2**53)))
    return found


def works(torch):
    """name, case, function that makes a thread's work."""

    def buffers(pinned, mixed, used):
        def make():
            stream = torch.cuda.Stream() if used else None
            device = torch.empty(4 << 20, dtype=torch.uint8, device="cuda") \
                if used else None
            plan = sizes(4096) if mixed else [HOT] * 4096
            live = [None] * (64 if mixed else 1)

            def loop(ops):
                for i in range(ops):
                    size = plan[i & 4095]
                    slot = i % len(live)
                    live[slot] = None
                    block = torch.empty(size, dtype=torch.uint8,
                                        pin_memory=pinned)
                    if used:
                        with torch.cuda.stream(stream):
                            device[:size].copy_(block, non_blocking=True)
                    live[slot] = block

            return loop

        return make

    def blas():
        def make():
            stream = torch.cuda.Stream()

            def loop(ops):
                with torch.cuda.stream(stream):
                    for _ in range(ops):
                        torch.cuda.current_blas_handle()

            return loop

        return make

    def nothing():
        def make():
            def loop(ops):
                for _ in range(ops):
                    torch.get_num_threads()

            return loop

        return make

    found = []
    for mixed in (False, True):
        name = "torch-mixed" if mixed else "torch-hot64k"
        found.append((name, "torch pinned", buffers(True, mixed, False)))
        found.append((name, "torch pageable", buffers(False, mixed, False)))
        found.append((name + "s", "torch pinned", buffers(True, mixed, True)))
        found.append((name + "s", "torch pageable",
                      buffers(False, mixed, True)))
    found.append(("torch-blas", "current_blas_handle", blas()))
    found.append(("torch-blas", "a call of nothing", nothing()))
    return found


def warmpool_works():
    """The same calls into the library beside this file, if it is there."""
    path = os.path.join(HERE, "libwarmpool_bench.so")
    if not os.path.exists(path):
        return []
    library = ctypes.CDLL(path)
    runtime = ctypes.c_void_p()
    library.warm_free.argtypes = [ctypes.c_void_p]
    if library.warm_runtime_default(ctypes.byref(runtime)) != 0:
        return []

    def buffers(mixed):
        def make():
            plan = sizes(4096) if mixed else [HOT] * 4096
            live = [None] * (64 if mixed else 1)
            pointer = ctypes.c_void_p()

            def loop(ops):
                for i in range(ops):
                    slot = i % len(live)
                    library.warm_free(live[slot])
                    if library.warm_pinned_alloc(
                            runtime, ctypes.c_size_t(plan[i & 4095]),
                            ctypes.byref(pointer)) != 0:
                        raise MemoryError("warm_pinned_alloc")
                    live[slot] = pointer.value

            return loop

        return make

    return [("torch-hot64k", "warmpool by ctypes", buffers(False)),
            ("torch-mixed", "warmpool by ctypes", buffers(True))]


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    try:
        import torch
    except ImportError as error:
        print(f"skip: PyTorch: {error}")
        return 0
    if not torch.cuda.is_available():
        print("skip: PyTorch sees no GPU")
        return 0
    print(f"torch {torch.__version__}, Python {sys.version.split()[0]}, "
          f"{torch.cuda.get_device_name(0)}; ns an operation, with the "
          f"interpreter's part")
    failed = 0
    with open(os.path.join(folder, "torch.jsonl"), "w",
              encoding="utf-8") as out:
        for name, case, make in works(torch) + warmpool_works():
            for threads in (1, 2, 4, 8):
                try:
                    figure = timed(make, threads, OPS)
                except Exception as error:  # noqa: say it and go on
                    print(f"  {name} {case}, {threads} threads: {error!r}")
                    failed += 1
                    continue
                print(f"  {name:14} {case:22} {threads} threads "
                      f"{figure:10.1f}", flush=True)
                print(json.dumps({"bench": name, "case": case,
                                  "threads": threads,
                                  "ns_per_op": figure}), file=out, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
