"""CuPy's memory, of devices and page-locked, from warmpool.

    import warmpool.cupy
    warmpool.cupy.use()

CuPy passes no stream to an allocator. So each allocation is in the order of
CuPy's current stream, and its free as well, as with CuPy's own pool: an array
that another stream uses needs an event, or a reference, until that has passed.
"""

import ctypes

from . import runtime as _default
from ._library import WarmpoolError, entry, thread_error


def _address(name):
    return ctypes.cast(getattr(entry, name), ctypes.c_void_p).value


class _PinnedMemory:
    """What a cupy.cuda.PinnedMemoryPointer points to."""

    def __init__(self, buffer):
        self._buffer = buffer
        self.ptr = buffer.address
        self.size = buffer.nbytes


def allocators(runtime):
    """CuPy's functions for memory of devices, and for page-locked memory."""
    import cupy

    allocator = cupy.cuda.memory.CFunctionAllocator(
        runtime.pointer,
        _address("warmpool_cupy_malloc"),
        _address("warmpool_cupy_free"),
        runtime,
    )

    def device(size):
        entry.warmpool_cupy_stream(cupy.cuda.get_current_stream().ptr)
        found = allocator.malloc(size)
        # CuPy does not look.
        if size > 0 and found.ptr == 0:
            raise thread_error()
        return found

    def pinned(size):
        # CuPy makes arrays of no elements too.
        buffer = runtime.pinned(max(size, 1))
        return cupy.cuda.PinnedMemoryPointer(_PinnedMemory(buffer), 0)

    return device, pinned


def use(runtime=None, pinned=True):
    """Makes warmpool CuPy's allocator of memory of devices and, unless pinned
    is False, of page-locked memory; each is one for the process. Arrays that
    exist keep their memory. runtime: warmpool.Runtime of driver cuda, which
    must not be closed; the default one if None."""
    import cupy

    chosen = runtime or _default()
    if chosen.driver != "cuda":
        raise WarmpoolError(
            3,
            "INVALID_ARGUMENT",
            "CuPy's memory needs a runtime of driver cuda, and this one is of "
            f"driver {chosen.driver}",
        )
    device, locked = allocators(chosen)
    cupy.cuda.set_allocator(device)
    if pinned:
        cupy.cuda.set_pinned_memory_allocator(locked)
