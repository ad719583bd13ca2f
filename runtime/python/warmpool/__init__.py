"""warmpool: page-locked buffers from a cache, and what it holds.

    import warmpool

    batch = warmpool.pinned((256, 784), "float32")
    batch.numpy()[:] = 0
    warmpool.statistics()["pinned"]
    warmpool.snapshot("now.pickle")   # for https://pytorch.org/memory_viz

warmpool.torch.use() and warmpool.cupy.use() give the memory of devices to
PyTorch and CuPy. Any thread may call any function, also without a global
interpreter lock.
"""

import ctypes
import json
import operator
import os
import pickle
import threading

from . import _pinned
from ._library import OutOfMemory, WarmpoolError
from ._library import check as _check
from ._library import entry as _entry
from ._library import error as _error
from ._library import library as _library
from ._library import load_cudart as _load_cudart
from ._library import text_for as _text_for
from ._library import text_of as _text_of
from ._pinned import PinnedBuffer

__all__ = [
    "OutOfMemory",
    "PinnedBuffer",
    "Runtime",
    "WarmpoolError",
    "options_help",
    "pinned",
    "runtime",
    "snapshot",
    "snapshot_html",
    "statistics",
]

__version__ = _library.warm_version().decode()


class Runtime:
    """A runtime of its own, with options as in options.h and WARMPOOL_CONF:

        with warmpool.Runtime(device="host", segment=1 << 22) as runtime:
            buffer = runtime.pinned(4096)

    Numbers for options that are numbers, texts for the others. Most programs
    need only the process's default one, which the functions of the module use.
    """

    def __init__(self, **options):
        self._pointer = _create(options)

    @property
    def pointer(self):
        """The warm_runtime *, as a number."""
        return self._pointer

    @property
    def driver(self):
        """ "cuda" or "host"; "gone" after close()."""
        return _library.warm_runtime_driver(self._pointer).decode()

    @property
    def devices(self):
        count = ctypes.c_int()
        _check(_library.warm_device_count(self._pointer, ctypes.byref(count)))
        return count.value

    @property
    def options(self):
        """The options in force, a dictionary of texts."""
        text = _text_of(_library.warm_runtime_options, self._pointer)
        return dict(line.split(":", 1) for line in text.splitlines())

    def pinned(self, shape, dtype="uint8"):
        """A page-locked buffer. shape: a number of elements, or several;
        dtype: a name, or a data type of NumPy or PyTorch. It is not cleared.
        The memory is freed when the buffer, and all that was made over it, is
        gone. Raises OutOfMemory."""
        cuda = self.driver == "cuda"
        return _pinned.allocate(self._pointer, shape, dtype, cuda)

    def statistics(self):
        """All statistics, a dictionary: the text of warm_stats_json()."""
        return json.loads(_text_of(_library.warm_stats_json, self._pointer))

    def snapshot(self, path=None):
        """What memory there is, in the layout of torch.cuda.memory._snapshot().
        With a path it is also written as a pickle, which PyTorch's visualiser
        reads. Option history says how many events are kept."""
        found = json.loads(_text_of(_library.warm_snapshot_viz, self._pointer))
        if path is not None:
            path = os.fsdecode(path)
            part = f"{path}.{os.getpid()}.{threading.get_ident()}"
            try:
                with open(part, "wb") as file:
                    pickle.dump(found, file, protocol=4)
                os.replace(part, path)
            except BaseException:
                if os.path.exists(part):
                    os.unlink(part)
                raise
        return found

    def snapshot_html(self, path):
        """Writes a page to look at, one file."""
        name = _text_for(path)
        _check(_library.warm_snapshot_write_html(self._pointer, name))

    def trim(self):
        """Returns what is idle to the system."""
        _check(_library.warm_pinned_trim(self._pointer, 0, None))
        for device in range(self.devices):
            _check(_library.warm_device_trim(self._pointer, device, 0, None))

    def close(self):
        """Destroys the runtime. Buffers that are in use stay usable, and are
        never returned. No other thread may be in a call on it."""
        if self.driver != "gone":
            _check(_library.warm_runtime_destroy(self._pointer, None))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _create(options):
    count = len(options)
    names = (ctypes.c_char_p * count)()
    texts = (ctypes.c_char_p * count)()
    numbers = (ctypes.c_uint64 * count)()
    for i, (name, value) in enumerate(options.items()):
        names[i] = _text_for(name)
        if hasattr(value, "__index__"):
            if not 0 <= value < 2**64:
                raise ValueError(f"option {name}: {value}: not of 64 bits")
            numbers[i] = operator.index(value)
        elif isinstance(value, (str, bytes, os.PathLike)):
            texts[i] = _text_for(value)
        else:
            raise TypeError(f"option {name}: no number and no text: {value!r}")
    _load_cudart()
    wrong = ctypes.c_size_t()
    pointer = ctypes.c_void_p()
    status = _entry.warmpool_python_create(
        count, names, texts, numbers, ctypes.byref(wrong), ctypes.byref(pointer)
    )
    if status != 0 and wrong.value < count:
        name = list(options)[wrong.value]
        value = options[name]
        raise _error(
            status,
            f"there is no option {name} with a value like {value!r}; "
            "warmpool.options_help() is their table",
        )
    _check(status)
    return pointer.value


def runtime():
    """The process's default runtime, made by the first call with the options of
    WARMPOOL_CONF."""
    _load_cudart()
    pointer = ctypes.c_void_p()
    _check(_library.warm_runtime_default(ctypes.byref(pointer)))
    found = Runtime.__new__(Runtime)
    found._pointer = pointer.value
    return found


def pinned(shape, dtype="uint8"):
    """Runtime.pinned() of the default runtime."""
    return runtime().pinned(shape, dtype)


def statistics():
    """Runtime.statistics() of the default runtime."""
    return runtime().statistics()


def snapshot(path=None):
    """Runtime.snapshot() of the default runtime."""
    return runtime().snapshot(path)


def snapshot_html(path):
    """Runtime.snapshot_html() of the default runtime."""
    runtime().snapshot_html(path)


def options_help():
    """The table of options, a text."""
    needed = _library.warm_options_help(None, 0)
    text = ctypes.create_string_buffer(needed)
    _library.warm_options_help(text, needed)
    return text.value.decode()
