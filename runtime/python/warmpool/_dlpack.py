"""DLPack: capsules with tensors that own the memory of a buffer.

Tensors and deleters are those of python_buffer.cpp: a consumer calls a deleter
also when the interpreter has ended.
"""

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint64
from ctypes import c_void_p

from ._library import entry_locked

CPU = 1
CUDA_HOST = 3


class Tensor(ctypes.Structure):
    """dl_tensor of python_buffer.cpp."""

    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


def device_of(buffer):
    return (CUDA_HOST if buffer.cuda else CPU, 0)


def _strides(shape):
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return strides[::-1]


def _tensor(buffer, device):
    from ._pinned import DTYPES

    _, code, bits = DTYPES[buffer.dtype]
    lengths = c_int64 * len(buffer.shape)
    return Tensor(
        buffer.address if buffer.nbytes else None,
        *device,
        len(buffer.shape),
        code,
        bits,
        1,
        lengths(*buffer.shape),
        lengths(*_strides(buffer.shape)),
    )


def capsule(buffer, max_version, device, copy):
    """A capsule over the buffer. The host may read page-locked memory, so that
    a consumer who asks for memory of the CPU gets it as such."""
    if copy:
        raise BufferError("pinned memory is exported without a copy")
    if device is None:
        device = device_of(buffer)
    if tuple(device) not in (device_of(buffer), (CPU, 0)):
        raise BufferError(f"pinned memory is not on DLPack's device {device}")
    versioned = max_version is not None and max_version[0] >= 1
    return entry_locked.warmpool_dlpack_capsule(
        buffer.storage, ctypes.byref(_tensor(buffer, device)), versioned
    )
