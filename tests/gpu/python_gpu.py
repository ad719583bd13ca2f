#!/usr/bin/env python3
"""python_gpu.py: the Python package on this machine's GPU, by hand.

    PYTHONPATH=FOLDER_OF_THE_UNPACKED_WHEEL python3 tests/gpu/python_gpu.py

Prints PASS, FAIL or skip with a reason for each section; status 1 after a FAIL.
PyTorch has one allocator for a process, so that the sections run in several
processes, side by side, and the parent compares their results. At most 40 s.
Without a GPU all is skipped; GPU=assume tries it over the stand-in libraries,
where every section with a kernel fails.
"""

import gc
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

LIMIT = 36  # seconds for all processes together
GROUPS = {
    "own": ["library", "snapshot"],
    "plain": ["pinned_into_torch", "mem_pool", "too_late", "plain_training"],
    "use": [
        "use", "statistics", "record_stream", "training", "graph", "fraction",
        "exhausted",
    ],
    "cupy": ["cupy_use", "cupy_kernel", "cupy_pinned"],
}
# What several sections of a process share.
shared = {}


class Skip(Exception):
    pass


def the_torch():
    try:
        import torch
    except ImportError as error:
        raise Skip(f"no PyTorch: {error}") from None
    if not torch.backends.cuda.is_built():
        raise Skip("PyTorch is built without CUDA")
    return torch


def the_cupy():
    try:
        import cupy
    except ImportError as error:
        raise Skip(f"no CuPy: {error}") from None
    return cupy


def want(condition, what):
    if not condition:
        raise AssertionError(what)


def device(name):
    """A figure of device 0, which has none before its first allocation."""
    import warmpool

    found = warmpool.statistics()["device_memory"]
    return found[0]["all"][name]["current"] if found else 0


def live():
    """Buffers of page-locked memory, and blocks of device 0."""
    import warmpool

    gc.collect()
    return warmpool.statistics()["pinned"]["live"]["current"], device("live")


def library():
    import warmpool

    want(warmpool.runtime().driver == "cuda",
         f"driver {warmpool.runtime().driver}: the package finds no CUDA that "
         "PyTorch or CuPy have not loaded")
    buffer = warmpool.pinned((64, 64), "float32")
    want(buffer.__dlpack_device__() == (3, 0), "not DLPack's kDLCUDAHost")
    buffer.view()[63, 63] = 7
    want(buffer[63][63] == 7, "a view is not the buffer")
    try:
        import numpy
    except ImportError:
        return "NumPy is not here"
    array = buffer.numpy()
    array[:] = 3
    shared_array = numpy.from_dlpack(buffer)
    del buffer, array
    want(live()[0] == 1, "the buffer went before its array")
    want(float(shared_array.sum()) == 3 * 64 * 64, "wrong sum")
    del shared_array
    want(live()[0] == 0, "the buffer outlived its array")
    return f"{warmpool.runtime().devices} devices, NumPy {numpy.__version__}"


def snapshot():
    import pickle

    import warmpool

    buffer = warmpool.pinned(5000)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "now.pickle")
        found = warmpool.snapshot(path)
        with open(path, "rb") as file:
            want(pickle.load(file) == found, "the file is not the snapshot")
        warmpool.snapshot_html(os.path.join(folder, "now.html"))
    want(buffer.address in addresses(found), "the buffer is not in it")


def addresses(found):
    return {
        block["address"]
        for segment in found["segments"]
        for block in segment["blocks"]
        if block["state"] == "active_allocated"
    }


def pinned_into_torch():
    torch = the_torch()
    import warmpool

    torch.cuda.init()  # before, PyTorch calls no memory page-locked
    buffer = warmpool.pinned((256, 784), torch.float32)
    tensor = torch.frombuffer(buffer, dtype=torch.float32).view(256, 784)
    tensor.copy_(torch.arange(256 * 784).view(256, 784) % 1000)
    want(tensor.is_pinned(), "PyTorch does not see that it is page-locked")
    again = torch.from_dlpack(buffer.__dlpack__(dl_device=(1, 0)))
    want(again.data_ptr() == buffer.address, "DLPack made a copy")
    try:
        direct = torch.from_dlpack(buffer)
        says = f"from_dlpack(buffer): {direct.device}"
        del direct
    except Exception as error:
        says = f"from_dlpack(buffer): {str(error).splitlines()[0]}"
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        there = tensor.to("cuda", non_blocking=True)
    buffer.record_stream(stream)
    expected = tensor.double().sum().item()
    del buffer, tensor, again
    stream.synchronize()
    want(there.double().sum().item() == expected, "another sum on the GPU")
    want(live()[0] == 0, "the buffer outlived its tensors")
    return says


def mem_pool():
    torch = the_torch()
    import warmpool.torch

    before = live()[1]
    pool = warmpool.torch.mem_pool()
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.full((1000, 1000), 2.0, device="cuda")
    want(live()[1] == before + 1, "no segment of warmpool")
    want(tensor.sum().item() == 2e6, "wrong sum")
    del tensor, pool
    gc.collect()
    torch.cuda.empty_cache()
    want(live()[1] == before, "the pool is gone and its segment is not")


def too_late():
    torch = the_torch()
    import warmpool.torch

    torch.cuda.init()
    try:
        warmpool.torch.use()
    except warmpool.WarmpoolError as error:
        return error.message
    raise AssertionError("use() after the first use of the device")


def train():
    """A few steps of a small net, without chance: the losses, and a sum of the
    weights."""
    torch = the_torch()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    chance = torch.Generator().manual_seed(7)
    data = torch.randn(512, 784, generator=chance).cuda()
    target = torch.randint(0, 10, (512,), generator=chance).cuda()
    torch.manual_seed(7)
    net = torch.nn.Sequential(
        torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    ).cuda()
    losses = []
    # By hand: torch.optim takes seconds to import.
    for _ in range(20):
        net.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(data), target)
        loss.backward()
        with torch.no_grad():
            for weight in net.parameters():
                weight -= 0.1 * weight.grad
        losses.append(loss.item())
    want(losses[-1] < losses[0], f"it does not learn: {losses}")
    weights = sum(p.double().abs().sum().item() for p in net.parameters())
    return [*losses, weights]


def plain_training():
    return json.dumps(train())


def training():
    the_torch()
    want("made" in shared, "use() failed")
    before = live()[1]
    figures = train()
    want(device("held_bytes") > 0, "no memory of warmpool")
    # Handles of cuBLAS keep their workspace.
    want(live()[1] <= before + 4, f"{live()[1]} blocks are live after it")
    return json.dumps(figures)


def use():
    torch = the_torch()
    import warmpool.torch

    shared["made"] = warmpool.torch.use()
    want(warmpool.torch.use() is shared["made"], "a second use() is another")
    tensor = torch.ones(1000, 1000, device="cuda")
    want(live()[1] >= 1, "no memory of warmpool")
    want(tensor.sum().item() == 1e6, "wrong sum")
    address = tensor.data_ptr()
    want(address in addresses(warmpool.snapshot()), "not in the snapshot")
    del tensor
    tensor = torch.empty(1000, 1000, device="cuda")
    want(tensor.data_ptr() == address, "not the memory that was freed")


def statistics():
    torch = the_torch()
    want("made" in shared, "use() failed")
    gc.collect()
    before = device("requested_bytes")
    tensors = [torch.empty(4096, device="cuda") for _ in range(10)]
    now = device("requested_bytes")
    want(now - before == 10 * 4 * 4096, f"{now - before} bytes for 163840")
    del tensors
    want(device("requested_bytes") == before, "not freed")
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return f"{device('held_bytes')} bytes held after empty_cache()"


def record_stream():
    torch = the_torch()
    import ctypes

    import warmpool
    from warmpool._library import library as loaded

    want("made" in shared, "use() failed")
    own, other = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(own):
        tensor = torch.ones(777777, device="cuda")
        address = tensor.data_ptr()
    other.wait_stream(own)
    with torch.cuda.stream(other):
        torch.cuda._sleep(1 << 30)
        total = tensor.sum()
    tensor.record_stream(other)
    del tensor
    with torch.cuda.stream(own):
        later = torch.zeros(777777, device="cuda")
    busy = not other.query()
    want(later.data_ptr() != address or not busy,
         "memory that a recorded stream uses was handed out")
    other.synchronize()
    want(total.item() == 777777, "the sum saw another's writes")
    loaded.warm_poll(ctypes.c_void_p(warmpool.runtime().pointer))
    with torch.cuda.stream(own):
        again = torch.empty(777777, device="cuda")
    want(again.data_ptr() == address, "not used again when the stream is done")
    if not busy:
        raise Skip("the other stream was done too early")


def graph():
    torch = the_torch()
    import warmpool

    want("made" in shared, "use() failed")
    source = torch.zeros(1000, device="cuda")
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        result = (source * 2 + 1).sum()
    inside = result.data_ptr() in addresses(warmpool.snapshot())
    want(inside, "the result is not memory of warmpool")
    source.fill_(3)
    noise = [torch.full((1000,), 9.0, device="cuda") for _ in range(20)]
    recorded.replay()
    want(result.item() == 7000, f"{result.item()} for 7000")
    recorded.reset()
    del result, noise, recorded


def fraction():
    torch = the_torch()
    want("made" in shared, "use() failed")
    torch.cuda.set_per_process_memory_fraction(0.01)
    try:
        refused(torch, 8 << 30)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    torch.ones(1000, device="cuda")


def exhausted():
    torch = the_torch()
    want("made" in shared, "use() failed")
    says = refused(torch, 1 << 50)
    want(torch.ones(1000, device="cuda").sum().item() == 1000, "and after it?")
    return says


def refused(torch, bytes):
    try:
        torch.empty(bytes, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        return str(error).splitlines()[0]
    raise AssertionError(f"{bytes} bytes were allocated")


def cupy_use():
    cupy = the_cupy()
    try:
        cupy.arange(3).get()
    except Exception as error:
        shared["no kernels"] = f"CuPy makes no kernel: {error}"
    import warmpool.cupy

    warmpool.cupy.use()
    shared["cupy"] = True
    array = cupy.empty(1000, cupy.float32)
    want(live()[1] >= 1, "no memory of warmpool")
    array.data.memset(0, array.nbytes)
    want(not array.get().any(), "not zero")
    address = array.data.ptr
    want(address in addresses(warmpool.snapshot()), "not in the snapshot")
    before = live()[1]
    del array
    want(live()[1] == before - 1, "not freed")
    want(cupy.empty(1000, cupy.float32).data.ptr == address,
         "not the memory that was freed")
    return f"CuPy {cupy.__version__}"


def cupy_kernel():
    cupy = the_cupy()
    want("cupy" in shared, "use() failed")
    if "no kernels" in shared:
        raise Skip(shared["no kernels"].splitlines()[0])
    array = cupy.arange(100000, dtype=cupy.float64)
    total = float((array * 2 + 1).sum())
    want(total == 100000.0**2, f"{total} for 1e10")
    for _ in range(200):
        array = array + 1
    want(float(array[0]) == 200, "200 kernels")


def cupy_pinned():
    cupy = the_cupy()
    import numpy

    want("cupy" in shared, "use() failed")
    before = live()[0]
    memory = cupy.cuda.alloc_pinned_memory(40000)
    want(live()[0] == before + 1, "no page-locked memory of warmpool")
    host = numpy.frombuffer(memory, numpy.float32, 10000)
    host[:] = 5
    there = cupy.empty(10000, cupy.float32)
    there.set(host)
    want((there.get() == host).all(), "another array came back")
    del host, memory
    want(live()[0] == before, "not freed")


def run_group(name):
    """In a process of its own: a line of JSON for each section."""
    for section in GROUPS[name]:
        start = time.monotonic()
        try:
            verdict, says = "PASS", globals()[section]() or ""
        except Skip as reason:
            verdict, says = "skip", str(reason)
        except BaseException as error:
            text = str(error).strip().splitlines() or [""]
            line = error.__traceback__.tb_next.tb_lineno
            verdict = "FAIL"
            says = f"line {line}: {type(error).__name__}: {text[0]}"
        print("\n@" + json.dumps([section, verdict, says,
                                 time.monotonic() - start]), flush=True)


def results_of(name, process, log, deadline):
    """section: verdict, text, seconds. A section without a line has failed."""
    try:
        status = process.wait(max(deadline - time.monotonic(), 0.1))
        ended = f"the process ended with status {status}"
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        ended = f"stopped after {LIMIT} s"
        status = -9
    log.seek(0)
    text = log.read().decode(errors="replace")
    found = {}
    for line in text.splitlines():
        if line.startswith("@"):
            section, *rest = json.loads(line[1:])
            found[section] = rest
    for section in GROUPS[name]:
        found.setdefault(section, ["FAIL", ended, 0])
    # Frees at exit are part of it.
    found[f"exit_of_{name}"] = ["PASS" if status == 0 else "FAIL", ended, 0]
    if any(verdict == "FAIL" for verdict, _, _ in found.values()):
        found["log"] = "\n".join(
            line for line in text.splitlines()[-40:]
            if line and not line.startswith("@")
        )
    return found


def compare(plain, used):
    """The same training with and without warmpool."""
    if "skip" in (plain[0], used[0]):
        return ["skip", "no training", 0]
    if "FAIL" in (plain[0], used[0]):
        return ["FAIL", "one of the two failed", 0]
    one, other = json.loads(plain[1]), json.loads(used[1])
    worst = max(abs(a - b) / max(abs(a), 1e-9) for a, b in zip(one, other))
    if len(one) != len(other) or worst > 1e-5:
        return ["FAIL", f"{one} without, {other} with", 0]
    says = "to the last bit" if worst == 0 else f"but for {worst:.1e}"
    return ["PASS", f"equal {says}: loss {one[0]:.4f} to {one[-2]:.4f}", 0]


def has_gpu():
    return os.environ.get("GPU") == "assume" or bool(
        glob.glob("/dev/nvidia[0-9]*") or glob.glob("/dev/dxg")
    )


def main():
    if len(sys.argv) == 2:
        return run_group(sys.argv[1])
    if not has_gpu():
        for name in GROUPS:
            for section in GROUPS[name]:
                print(f"skip  {section}: no GPU on this machine")
        return 0
    deadline = time.monotonic() + LIMIT
    running = {}
    for name in GROUPS:
        log = tempfile.TemporaryFile()
        running[name] = log, subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), name],
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )
    found = {}
    for name, (log, process) in running.items():
        part = results_of(name, process, log, deadline)
        if "log" in part:
            print(f"---- end of the log of {name}\n{part.pop('log')}\n----")
        found.update(part)
    found["training_is_equal"] = compare(
        found["plain_training"], found["training"]
    )
    for section, (verdict, says, seconds) in found.items():
        says = says if "training" not in section or verdict != "PASS" or \
            section == "training_is_equal" else ""
        print(f"{verdict}  {section}: {says} ({seconds:.1f} s)")
    return any(verdict == "FAIL" for verdict, _, _ in found.values())


sys.exit(main())
