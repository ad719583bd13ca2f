"""A program that knows PyTorch alone, for preload_gpu.sh, which runs it with and
without warmpool-run (row H1): four threads, each with a stream of its own, copy
page-locked tensors to the GPU, multiply there and copy the results back.

Prints the sum of all results, and the milliseconds of a thread's round. Ends
with a line "skip: ..." where there is no PyTorch or no GPU.
"""
import os
import sys
import threading
import time

THREADS, ROUNDS, RUNS, SIDE = 4, 50, 3, 512

try:
    import torch
except ImportError as error:
    print(f"skip: PyTorch: {error}")
    sys.exit(0)
if not torch.cuda.is_available():
    print("skip: PyTorch sees no GPU")
    sys.exit(0)


def one_round(number, stream):
    """Whole numbers, so that every order of sums has the same result."""
    host = torch.empty(SIDE, SIDE, pin_memory=True)
    back = torch.empty(SIDE, SIDE, pin_memory=True)
    torch.remainder(torch.arange(SIDE * SIDE).view(SIDE, SIDE) + number, 8,
                    out=host)
    with torch.cuda.stream(stream):
        device = host.to("cuda", non_blocking=True)
        del host
        back.copy_(device @ device, non_blocking=True)
        del device
    stream.synchronize()
    return int(back.double().sum())


def work(first, sums, errors):
    try:
        stream = torch.cuda.Stream()
        for i in range(ROUNDS):
            sums[first] += one_round(first * ROUNDS + i, stream)
    except Exception as error:  # noqa: whatever it is, the main thread says it
        errors.append(error)


def run():
    sums, errors = [0] * THREADS, []
    threads = [threading.Thread(target=work, args=(i, sums, errors))
               for i in range(THREADS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(sums), (time.perf_counter() - start) * 1e3 / ROUNDS


torch.set_num_threads(1)
run()
results = [run() for _ in range(RUNS)]
# Solvers and convolutions have handles of their own.
matrix = torch.eye(64, device="cuda") * 2
solved = torch.linalg.solve(matrix, torch.ones(64, 1, device="cuda"))
image = torch.ones(1, 1, 16, 16, device="cuda")
folded = torch.nn.functional.conv2d(image, torch.ones(1, 1, 3, 3,
                                                      device="cuda"))
# A graph, whose memory is of a pool of its own.
product = matrix @ matrix
if "PYTORCH_NO_CUDA_MEMORY_CACHING" not in os.environ:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = matrix @ matrix
    graph.replay()
torch.cuda.synchronize()
print("torch", torch.__version__, torch.cuda.get_device_name(0))
print("sum", [result[0] for result in results], float(solved.sum()),
      float(folded.sum()), float(product.sum()))
print("round %.3f" % sorted(result[1] for result in results)[RUNS // 2])
