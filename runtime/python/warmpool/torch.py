"""PyTorch's memory of CUDA devices from warmpool.

    import warmpool.torch
    warmpool.torch.use()          # before PyTorch's first allocation
    import torch

Instead of that, a MemPool for some allocations, above which PyTorch caches:

    pool = warmpool.torch.mem_pool()
    with torch.cuda.use_mem_pool(pool): ...

PyTorch has one allocator of page-locked memory for a type of device, which a
package cannot replace: for that run the program by warmpool-run.
"""

import ctypes
import threading

from . import runtime as _default
from ._library import ENTRY, WarmpoolError, entry

# Setters of PyTorch's allocator object, and the function for each.
_FUNCTIONS = {
    "set_record_stream_fn": "warmpool_torch_record_stream",
    "set_base_alloc_fn": "warmpool_torch_base_alloc",
    "set_reset_fn": "warmpool_torch_reset",
    "set_memory_fraction_fn": "warmpool_torch_memory_fraction",
    "set_begin_allocate_to_pool": "warmpool_torch_begin_pool",
    "set_end_allocate_to_pool_fn": "warmpool_torch_end_pool",
    "set_release_pool": "warmpool_torch_release_pool",
}

_lock = threading.Lock()
_runtime = None
_allocator = None
# Of MemPools, for good: PyTorch keeps only a pointer to it, and may return
# segments after the pool's object is gone.
_segments = None


def _refuse(message):
    raise WarmpoolError(3, "INVALID_ARGUMENT", message)


def _import():
    import torch

    if not torch.backends.cuda.is_built():
        _refuse("this PyTorch is built without CUDA")
    return torch


def _choose(runtime):
    """The runtime for the functions, which have one for good: PyTorch frees by
    them until the process ends."""
    chosen = runtime or _runtime or _default()
    if chosen.driver != "cuda":
        _refuse(
            "PyTorch's memory of CUDA devices needs a runtime of driver cuda, "
            f"and this one is of driver {chosen.driver}"
        )
    if _runtime is not None and _runtime.pointer != chosen.pointer:
        _refuse("PyTorch has memory of another runtime already")
    return chosen


def _make(torch, runtime, allocate, free):
    """PyTorch's allocator object of two functions of the entry library."""
    entry.warmpool_torch_use(runtime.pointer)
    return torch.cuda.memory.CUDAPluggableAllocator(ENTRY, allocate, free)


def _address(name):
    return ctypes.cast(getattr(entry, name), ctypes.c_void_p).value


def use(runtime=None):
    """Makes warmpool PyTorch's allocator of CUDA memory, for good, with frees
    in the order of streams, record_stream(), graphs' pools, empty_cache() and
    set_per_process_memory_fraction(). warmpool.statistics() has the figures:
    torch.cuda.memory_stats() refuses to work with any pluggable allocator.

    runtime: warmpool.Runtime of driver cuda; the default one if None. It must
    not be closed. Raises WarmpoolError if PyTorch's allocator has been used.
    Calling it again does nothing. Returns PyTorch's allocator object."""
    global _allocator, _runtime
    torch = _import()
    with _lock:
        if _allocator is None and torch.cuda.is_initialized():
            _refuse(
                "PyTorch has initialised CUDA, and with it its own allocator: "
                "call warmpool.torch.use() before the first use of a device"
            )
        chosen = _choose(runtime)
        if _allocator is not None:
            return _allocator
        made = _make(
            torch, chosen, "warmpool_torch_alloc", "warmpool_torch_free"
        )
        for setter, function in _FUNCTIONS.items():
            getattr(made.allocator(), setter)(_address(function))
        try:
            torch.cuda.memory.change_current_allocator(made)
        except RuntimeError as error:
            _refuse(f"PyTorch keeps its own allocator: {error}")
        _allocator, _runtime = made, chosen
        return made


def mem_pool(runtime=None, **options):
    """A torch.cuda.MemPool whose segments are blocks of warmpool, for
    torch.cuda.use_mem_pool(). PyTorch caches above it, so that its statistics
    work; what it returns waits for all work that was queued before, as
    cudaFree() would. options: of torch.cuda.MemPool. Not together with use():
    PyTorch has pools above its own allocator only."""
    global _runtime, _segments
    torch = _import()
    with _lock:
        if _allocator is not None:
            _refuse(
                "warmpool is PyTorch's allocator, and PyTorch has a MemPool "
                "above its own allocator only"
            )
        chosen = _choose(runtime)
        if _segments is None:
            _segments = _make(
                torch,
                chosen,
                "warmpool_torch_segment_alloc",
                "warmpool_torch_segment_free",
            )
            _runtime = chosen
    return torch.cuda.MemPool(_segments.allocator(), **options)
