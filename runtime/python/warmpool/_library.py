"""The libraries, their functions and their errors, by ctypes.

libwarmpool.so is the one that the process has loaded already (a program under
warmpool-run has), else the one beside this file. ctypes gives up the global
interpreter lock during every call.
"""

import ctypes
import functools
import glob
import os
import sys
from ctypes import (
    POINTER,
    c_char_p,
    c_int,
    c_size_t,
    c_uint64,
    c_void_p,
)

FOLDER = os.path.dirname(os.path.abspath(__file__))
SONAME = "libwarmpool.so.0"
ENTRY = os.path.join(FOLDER, "libwarmpool-python.so")

OUT_OF_MEMORY = 7
TRUNCATED = 17


class _Error(ctypes.Structure):
    """warm_error."""

    _fields_ = [
        ("size", c_size_t),
        ("status", c_int),
        ("code", c_int),
        ("origin", ctypes.c_char * 32),
        ("code_text", ctypes.c_char * 96),
        ("message", ctypes.c_char * 1024),
    ]


class WarmpoolError(Exception):
    """A call that the library refused.

    status is its number, name its name ("INVALID_ARGUMENT"), message the
    sentence that says what failed, with which value, and why.
    """

    def __init__(self, status, name, message):
        super().__init__(f"{name}: {message}")
        self.status = status
        self.name = name
        self.message = message

    def __reduce__(self):
        return type(self), (self.status, self.name, self.message)


class OutOfMemory(WarmpoolError, MemoryError):
    """The library is out of memory; the message names the limit."""


def _opens(name, mode=0):
    try:
        return ctypes.CDLL(name, mode=mode | os.RTLD_NOW) is not None
    except OSError:
        return False


@functools.lru_cache(None)
def load_cudart():
    """Loads cudart from NVIDIA's packages of Python, where the system's loader
    does not look, if it finds none itself. The library takes one that is
    loaded, the newest first."""
    names = ("libcudart.so.13", "libcudart.so.12")
    if any(_opens(name, os.RTLD_NOLOAD) for name in names) or any(
        _opens(name) for name in names
    ):
        return
    for name in names:
        for folder in sys.path:
            pattern = os.path.join(glob.escape(folder), "nvidia/*/lib", name)
            if any(_opens(path) for path in glob.glob(pattern)):
                break


def _load():
    try:
        return ctypes.CDLL(SONAME, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return ctypes.CDLL(os.path.join(FOLDER, SONAME))


library = _load()
# It needs libwarmpool.so.0: the one that was loaded before.
entry = ctypes.CDLL(ENTRY)
# Keeps the lock during its calls, for functions that make objects of Python.
entry_locked = ctypes.PyDLL(ENTRY)

_text_call = [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)]
_SIGNATURES = {
    "warm_device_count": (c_int, [c_void_p, POINTER(c_int)]),
    "warm_device_trim": (c_int, [c_void_p, c_int, c_size_t, c_void_p]),
    "warm_last_error": (None, [POINTER(_Error)]),
    "warm_last_error_message": (c_char_p, []),
    "warm_options_help": (c_size_t, [c_char_p, c_size_t]),
    "warm_owns": (c_int, [c_void_p]),
    "warm_pinned_trim": (c_int, [c_void_p, c_size_t, c_void_p]),
    "warm_record_stream": (c_int, [c_void_p, c_void_p]),
    "warm_runtime_default": (c_int, [POINTER(c_void_p)]),
    "warm_runtime_destroy": (c_int, [c_void_p, c_void_p]),
    "warm_runtime_driver": (c_char_p, [c_void_p]),
    "warm_runtime_options": (c_int, _text_call),
    "warm_snapshot_viz": (c_int, _text_call),
    "warm_snapshot_write_html": (c_int, [c_void_p, c_char_p]),
    "warm_stats_json": (c_int, _text_call),
    "warm_status_name": (c_char_p, [c_int]),
    "warm_storage_release": (None, [c_void_p]),
    "warm_version": (c_char_p, []),
}
_ENTRY_SIGNATURES = {
    "warmpool_cupy_stream": (None, [c_void_p]),
    "warmpool_python_create": (
        c_int,
        [
            c_size_t,
            POINTER(c_char_p),
            POINTER(c_char_p),
            POINTER(c_uint64),
            POINTER(c_size_t),
            POINTER(c_void_p),
        ],
    ),
    "warmpool_python_pinned": (
        c_int,
        [c_void_p, c_size_t, POINTER(c_void_p), POINTER(c_void_p)],
    ),
    "warmpool_torch_use": (None, [c_void_p]),
}


_LOCKED_SIGNATURES = {
    "warmpool_dlpack_capsule": (
        ctypes.py_object,
        [c_void_p, c_void_p, c_int],
    ),
}


def _declare(loaded, signatures):
    for name, (result, arguments) in signatures.items():
        function = getattr(loaded, name, None)
        if function is None:
            raise ImportError(
                f"{loaded._name} is of another version of warmpool: "
                f"it has no {name}()"
            )
        function.restype = result
        function.argtypes = arguments


_declare(library, _SIGNATURES)
_declare(entry, _ENTRY_SIGNATURES)
_declare(entry_locked, _LOCKED_SIGNATURES)


def text_for(value):
    """A text or a path as a char *, which ends at the first null."""
    found = os.fsencode(value)
    if b"\0" in found:
        raise ValueError(f"a null character in {value!r}")
    return found


def error(status, message=None):
    """The exception for a status of the calling thread's last call."""
    if message is None:
        message = library.warm_last_error_message().decode(errors="replace")
    kind = OutOfMemory if status == OUT_OF_MEMORY else WarmpoolError
    return kind(status, library.warm_status_name(status).decode(), message)


def thread_error():
    """The exception for the calling thread's last failing call."""
    last = _Error(size=ctypes.sizeof(_Error))
    library.warm_last_error(ctypes.byref(last))
    return error(last.status)


def check(status):
    if status != 0:
        raise error(status)


def text_of(function, runtime):
    """The text of a function that says how many bytes it needs. Figures may
    grow between two calls, so the size is asked for again until it is enough.
    """
    room = 0
    needed = c_size_t()
    while True:
        text = ctypes.create_string_buffer(room) if room else None
        status = function(runtime, text, room, ctypes.byref(needed))
        if status != TRUNCATED:
            check(status)
            if text is not None:
                return text.value.decode()
        room = needed.value + 4096
