"""Page-locked buffers, as ctypes arrays.

An array of ctypes has the buffer protocol on every version of Python, and
whatever reads it (a memoryview, an array of NumPy, a tensor) keeps a reference
to it. So its reference of the storage is released when the last of them goes.
"""

import ctypes
import functools
import math
import operator

from ._library import check, entry, library
from . import _dlpack

# name: type of ctypes, code and bits of DLPack. ctypes has no 16-bit floats:
# the buffer protocol shows these as unsigned numbers.
DTYPES = {
    "bool": (ctypes.c_bool, 6, 8),
    "int8": (ctypes.c_int8, 0, 8),
    "int16": (ctypes.c_int16, 0, 16),
    "int32": (ctypes.c_int32, 0, 32),
    "int64": (ctypes.c_int64, 0, 64),
    "uint8": (ctypes.c_uint8, 1, 8),
    "uint16": (ctypes.c_uint16, 1, 16),
    "uint32": (ctypes.c_uint32, 1, 32),
    "uint64": (ctypes.c_uint64, 1, 64),
    "float16": (ctypes.c_uint16, 2, 16),
    "bfloat16": (ctypes.c_uint16, 4, 16),
    "float32": (ctypes.c_float, 2, 32),
    "float64": (ctypes.c_double, 2, 64),
}


def dtype_name(dtype):
    """The name of a data type of NumPy or PyTorch, or of a text."""
    if not getattr(dtype, "isnative", True):
        raise TypeError(f"pinned memory has this machine's byte order: {dtype}")
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None)
    name = str(name or dtype).rpartition(".")[2]
    if name not in DTYPES:
        raise TypeError(f"no data type {name}: use one of {', '.join(DTYPES)}")
    return name


def shape_of(shape):
    several = shape if hasattr(shape, "__iter__") else (shape,)
    try:
        lengths = tuple(operator.index(length) for length in several)
    except TypeError:
        raise TypeError(f"a shape is a number or several: {shape!r}") from None
    if any(length < 0 for length in lengths):
        raise ValueError(f"a shape has no negative length: {lengths}")
    return lengths


class _Storage(ctypes.c_void_p):
    """A reference of a warm_storage, or null. The storage is made right in it,
    so that no exception comes in between."""

    # What a destructor needs is its own: when the interpreter ends, the module
    # may have no names any more.
    def __del__(self, release=library.warm_storage_release):
        release(self)


class PinnedBuffer:
    """Page-locked memory of a shape and a data type; made by pinned()."""

    # Set by allocate(); class attributes, so that a buffer that ctypes made
    # (an element of another one) has them too.
    shape = ()
    dtype = "uint8"
    cuda = False
    storage = None  # of no elements: memory of Python

    @property
    def address(self):
        return ctypes.addressof(self)

    @property
    def nbytes(self):
        return ctypes.sizeof(self)

    def record_stream(self, stream):
        """Says that work queued on a stream uses the buffer: after its last
        reference is gone the memory waits for that work. stream: its handle, a
        number, or an object of PyTorch or CuPy; None: the default stream. A
        copy that was given a non-blocking flag needs this."""
        for name in ("cuda_stream", "ptr"):
            stream = getattr(stream, name, stream)
        stream = 0 if stream is None else stream
        if not hasattr(stream, "__index__"):
            raise TypeError(f"no stream, nor the handle of one: {stream!r}")
        stream = operator.index(stream)
        if not 0 <= stream < 2**64:
            raise ValueError(f"no handle of a stream: {stream}")
        if self.nbytes == 0:
            return
        check(library.warm_record_stream(self.address, stream))

    def view(self):
        """A memoryview whose elements can be read and written one by one. That
        of memoryview(buffer) has the format of ctypes, which names the byte
        order, and which memoryview does not index."""
        view = memoryview(self)
        if view.nbytes == 0:
            return view
        return view.cast("B").cast(view.format.lstrip("<>"), list(self.shape))

    def numpy(self):
        """An array of NumPy over the memory, without a copy."""
        import numpy

        array = numpy.asarray(self)
        if self.dtype == "float16":
            return array.view(numpy.float16)
        if self.dtype == "bfloat16":
            raise TypeError("NumPy has no bfloat16: use DLPack")
        return array

    def __dlpack_device__(self):
        return _dlpack.device_of(self)

    def __dlpack__(
        self, *, stream=None, max_version=None, dl_device=None, copy=None
    ):
        return _dlpack.capsule(self, max_version, dl_device, copy)

    def __reduce__(self):
        raise TypeError("page-locked memory cannot be pickled")

    def __repr__(self):
        return f"<warmpool.PinnedBuffer {self.dtype} {list(self.shape)}>"


@functools.lru_cache(maxsize=4096)
def _class_of(shape, dtype):
    element = DTYPES[dtype][0]
    for length in reversed(shape):
        element = element * length
    return type(
        "PinnedBuffer", (PinnedBuffer, element), {"shape": shape, "dtype": dtype}
    )


def allocate(runtime, shape, dtype, cuda):
    name = dtype_name(dtype)
    lengths = shape_of(shape)
    bytes_of_one = DTYPES[name][2] // 8
    nbytes = math.prod(lengths) * bytes_of_one
    if nbytes >= 2**63:
        raise OverflowError(f"a shape of {nbytes} bytes: {lengths}")
    made = _class_of(lengths, name)
    if nbytes == 0:
        return made()
    storage, data = _Storage(), ctypes.c_void_p()
    check(entry.warmpool_python_pinned(runtime, nbytes, storage, data))
    buffer = made.from_address(data.value)
    buffer.cuda, buffer.storage = cuda, storage
    return buffer
