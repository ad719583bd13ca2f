#!/usr/bin/env python3
"""check_torch.py CASE: PyTorch's CUDA wheel with warmpool, over the stand-ins
(check_wheel.sh). A process has one allocator of PyTorch: one case a run."""

import ctypes
import gc
import json
import sys

import torch
import warmpool
import warmpool.torch
from warmpool._library import library
from warmpool._library import text_of as _text_of


def device(name):
    return warmpool.statistics()["device_memory"][0]["all"][name]["current"]


def allocates():
    allocator = warmpool.torch.use()
    assert warmpool.torch.use() is allocator
    refused("MemPool", warmpool.torch.mem_pool)
    tensor = torch.empty(1000, device="cuda")
    assert library.warm_owns(tensor.data_ptr()) == 1
    assert device("requested_bytes") == 4000
    address = tensor.data_ptr()
    del tensor
    assert device("live") == 0
    assert torch.empty(1000, device="cuda").data_ptr() == address
    assert torch.empty(0, device="cuda").numel() == 0


def refused(words, call, *arguments):
    try:
        call(*arguments)
    except warmpool.WarmpoolError as error:
        assert words in error.message, error
    else:
        raise AssertionError(f"{call} was not refused")


def too_late():
    torch.cuda.init()
    refused("before the first use of a device", warmpool.torch.use)


def record_stream():
    warmpool.torch.use()
    own, other = torch.cuda.Stream(), torch.cuda.Stream()
    gate = ctypes.CDLL(None).sem_post, ctypes.CDLL(None).sem_wait
    semaphore = ctypes.create_string_buffer(64)
    ctypes.CDLL(None).sem_init(semaphore, 0, 0)
    pointer = ctypes.c_void_p(warmpool.runtime().pointer)
    assert library.warm_stream_host_func(
        pointer, ctypes.c_void_p(other.cuda_stream), gate[1], semaphore
    ) == 0
    with torch.cuda.stream(own):
        tensor = torch.empty(3000, device="cuda")
        address = tensor.data_ptr()
        tensor.record_stream(other)
        del tensor
        later = torch.empty(3000, device="cuda")
    assert later.data_ptr() != address
    gate[0](semaphore)
    other.synchronize()
    library.warm_poll(pointer)
    with torch.cuda.stream(own):
        assert torch.empty(3000, device="cuda").data_ptr() == address


def pools():
    """What captures of graphs call: MemPool() itself refuses any pluggable
    allocator."""
    warmpool.torch.use()
    torch.cuda.init()
    number = (0, 7)
    for _ in range(2):
        torch._C._cuda_beginAllocateCurrentThreadToPool(0, number)
        inside = torch.empty(500, device="cuda")
        torch._C._cuda_endAllocateToPool(0, number)
        address = inside.data_ptr()
        found = pool_numbers()
        outside = torch.empty(500, device="cuda")
        assert found[address] != 0
        assert pool_numbers()[outside.data_ptr()] == 0
        del inside, outside
    torch._C._cuda_releasePool(0, number)
    torch._C._cuda_releasePool(0, number)
    torch.cuda.empty_cache()
    assert device("held_bytes") == 0


def pool_numbers():
    """address of a live block: number of its private pool"""
    text = _text_of(library.warm_snapshot_viz, warmpool.runtime().pointer)
    return {
        block["address"]: segment["segment_pool_id"][1]
        for segment in json.loads(text)["segments"]
        if segment["device"] == 0
        for block in segment["blocks"]
        if block["exact_state"] == "live"
    }


def mem_pool():
    pool = warmpool.torch.mem_pool()
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.empty(1000, device="cuda")
    assert library.warm_owns(tensor.data_ptr()) == 1
    assert device("live") == 1
    assert torch.cuda.memory_allocated() == 4096
    refused("another runtime", warmpool.torch.mem_pool, warmpool.Runtime())
    refused("before the first use", warmpool.torch.use)
    other = torch.empty(1000, device="cuda")
    assert library.warm_owns(other.data_ptr()) == 0
    del tensor
    assert device("live") == 1
    del pool
    gc.collect()
    torch.cuda.empty_cache()
    assert device("live") == 0


def out_of_memory():
    warmpool.torch.use()
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        assert "1024.0 TiB" in str(error), error
    else:
        raise AssertionError("1 PiB of a device")
    torch.cuda.set_per_process_memory_fraction(0.001)
    try:
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        assert "the limit of 4.1 MiB is reached" in str(error), error
    else:
        raise AssertionError("more than the fraction")


def pinned_buffers():
    buffer = warmpool.pinned((4, 5), torch.float32)
    tensor = torch.frombuffer(buffer, dtype=torch.float32).view(4, 5)
    tensor.fill_(3)
    assert buffer[3][4] == 3
    shared = torch.from_dlpack(buffer.__dlpack__(dl_device=(1, 0)))
    assert shared.data_ptr() == buffer.address and shared.shape == (4, 5)
    del buffer, tensor
    shared += 1
    assert warmpool.statistics()["pinned"]["live"]["current"] == 1
    del shared
    gc.collect()
    assert warmpool.statistics()["pinned"]["live"]["current"] == 0


def pin_memory():
    """Under warmpool-run. The first buffer of a program is CUDA's own."""
    first = torch.empty(1000, pin_memory=True)
    tensor = torch.empty(50000, pin_memory=True)
    tensor.fill_(1)
    assert library.warm_owns(first.data_ptr()) == 0
    assert library.warm_owns(tensor.data_ptr()) == 1
    assert warmpool.statistics()["pinned"]["live"]["current"] == 1
    with open("/proc/self/maps") as maps:
        names = {line.split()[-1] for line in maps if "libwarmpool.so" in line}
    assert len(names) == 1, names


def where_it_stops():
    """What no stand-in has: PyTorch says which error it is."""
    tensor = torch.empty(1000, pin_memory=True)
    try:
        tensor.is_pinned()
    except RuntimeError as error:
        print(f"stops: {type(error).__name__}: {str(error).splitlines()[0]}")
    else:
        raise AssertionError("PyTorch works where it did not before")


globals()[sys.argv[1]]()
print(f"ok: {sys.argv[1]}")
