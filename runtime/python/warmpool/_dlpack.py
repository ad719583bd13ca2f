"""DLPack, by ctypes: the structs of dlpack.h, and capsules that own a buffer.

A consumer calls a tensor's deleter once, from any thread. Until then the tensor
stays in `exported`, with the buffer.
"""

import ctypes
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64, c_void_p

CPU = 1
CUDA_HOST = 3

LEGACY = b"dltensor"
VERSIONED = b"dltensor_versioned"


class Device(ctypes.Structure):
    _fields_ = [("type", c_int32), ("id", c_int32)]


class DataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("ndim", c_int32),
        ("dtype", DataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", Tensor),
        ("context", c_void_p),
        ("deleter", c_void_p),
    ]


class ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", Tensor),
    ]


# address of a managed tensor: itself, and the buffer
exported = {}


@ctypes.CFUNCTYPE(None, c_void_p)
def _delete(address):
    exported.pop(address, None)


# Functions of our own: those of ctypes.pythonapi are everybody's, and another
# module may give them other types.
def _function(kind, name):
    return kind((name, ctypes.pythonapi))


_is_valid = _function(
    ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p),
    "PyCapsule_IsValid",
)
_pointer_of = _function(
    ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p),
    "PyCapsule_GetPointer",
)
_new = _function(
    ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, ctypes.c_char_p, c_void_p),
    "PyCapsule_New",
)


# A consumer renames the capsule: one that still has its name was not consumed.
# The capsule is being destroyed, so that no reference to it can be taken.
@ctypes.PYFUNCTYPE(None, c_void_p)
def _destroy(capsule):
    for name in (LEGACY, VERSIONED):
        if _is_valid(capsule, name):
            exported.pop(_pointer_of(capsule, name), None)


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
        Device(*device),
        len(buffer.shape),
        DataType(code, bits, 1),
        lengths(*buffer.shape),
        lengths(*_strides(buffer.shape)),
        0,
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
    deleter = ctypes.cast(_delete, c_void_p).value
    if max_version is not None and max_version[0] >= 1:
        name = VERSIONED
        managed = ManagedVersioned(
            1, 0, None, deleter, 0, _tensor(buffer, device)
        )
    else:
        name = LEGACY
        managed = Managed(_tensor(buffer, device), None, deleter)
    address = ctypes.addressof(managed)
    exported[address] = (managed, buffer)
    return _new(address, name, ctypes.cast(_destroy, c_void_p))
