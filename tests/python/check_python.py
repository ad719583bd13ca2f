#!/usr/bin/env python3
"""check_python.py: the Python package, with the standard library alone, and
NumPy where it is. tests/api/test_python.sh runs its cases on both drivers;
make check-python runs them on the wheel."""

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import sysconfig
import tempfile
import threading
import unittest
import weakref

import warmpool
from warmpool import _dlpack
from warmpool._library import entry, library

try:
    import numpy
except ImportError:
    numpy = None

LEGACY, VERSIONED = b"dltensor", b"dltensor_versioned"
# Capsules have only a pointer to it.
USED = b"used"
CUDA = warmpool.runtime().driver == "cuda"


def live(runtime=warmpool):
    gc.collect()
    return runtime.statistics()["pinned"]["live"]["current"]


class Managed(ctypes.Structure):
    """DLManagedTensor of dlpack.h"""

    _fields_ = [
        ("tensor", _dlpack.Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class ManagedVersioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h"""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _dlpack.Tensor),
    ]


def consume(capsule, name):
    """What a consumer does: renames the capsule, and owns the tensor."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, name)
    api.PyCapsule_SetName(capsule, USED)
    kind = ManagedVersioned if name == VERSIONED else Managed
    return kind.from_address(address)


def end(managed):
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.deleter)
    deleter(ctypes.addressof(managed))


def new_stream(runtime):
    create = library.warm_stream_create
    create.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    stream = ctypes.c_void_p()
    assert create(runtime.pointer, 0, ctypes.byref(stream)) == 0
    return stream.value


class Buffers(unittest.TestCase):
    def test_views_have_shape_format_and_address(self):
        for dtype, format, bytes in (
            ("uint8", "<B", 1), ("int32", "<i", 4), ("float32", "<f", 4),
            ("float64", "<d", 8), ("bool", "<?", 1), ("float16", "<H", 2),
        ):
            buffer = warmpool.pinned((3, 4), dtype)
            view = memoryview(buffer)
            self.assertEqual(view.format, format)
            self.assertEqual((view.shape, view.itemsize), ((3, 4), bytes))
            self.assertEqual(buffer.nbytes, 12 * bytes)
            self.assertEqual(library.warm_owns(buffer.address), 1)
            view.cast("B")[bytes * 12 - 1] = 42
            self.assertEqual(buffer.view().shape, (3, 4))
            self.assertEqual(buffer.view()[2, 3], buffer[2][3])
            last = buffer.address + bytes * 12 - 1
            self.assertEqual(ctypes.c_ubyte.from_address(last).value, 42)

    def test_empty_and_scalar_shapes(self):
        self.assertEqual(memoryview(warmpool.pinned(0)).nbytes, 0)
        self.assertEqual(memoryview(warmpool.pinned((0, 3))).nbytes, 0)
        self.assertEqual(warmpool.pinned((0, 3)).view().nbytes, 0)
        self.assertEqual(memoryview(warmpool.pinned((), "int64")).nbytes, 8)
        warmpool.pinned((), "int64").view()[()] = -1
        self.assertEqual(live(), 0)

    def test_memory_goes_with_its_last_user(self):
        buffer = warmpool.pinned(1000)
        view = memoryview(buffer)
        part = view[10:20]
        del buffer, view
        self.assertEqual(live(), 1)
        self.assertEqual(len(part), 10)
        del part
        self.assertEqual(live(), 0)

    def test_memory_serves_the_next_buffer(self):
        address = warmpool.pinned(5000).address
        self.assertEqual(warmpool.pinned(5000).address, address)

    @unittest.skipUnless(numpy, "NumPy is not here")
    def test_arrays_of_numpy_share_the_memory(self):
        buffer = warmpool.pinned((4, 8), "float32")
        array = buffer.numpy()
        array[:] = 7
        self.assertEqual(buffer[3][7], 7)
        self.assertEqual(array.ctypes.data, buffer.address)
        again = numpy.asarray(buffer)
        shared = numpy.from_dlpack(buffer)
        self.assertEqual(shared.shape, (4, 8))
        self.assertEqual(shared.ctypes.data, buffer.address)
        del buffer, array, again
        self.assertEqual(live(), 1)
        self.assertEqual(shared[2, 2], 7)
        del shared
        self.assertEqual(live(), 0)
        half = warmpool.pinned(3, numpy.float16).numpy()
        self.assertEqual(half.dtype, numpy.float16)


class Capsules(unittest.TestCase):
    def test_a_capsule_that_nobody_consumes_ends(self):
        for version in (None, (1, 0)):
            capsule = warmpool.pinned(100).__dlpack__(max_version=version)
            self.assertEqual(live(), 1)
            del capsule
            self.assertEqual(live(), 0)

    def test_a_consumer_ends_the_tensor_once(self):
        for name, version in (
            (LEGACY, None), (VERSIONED, (1, 1)),
        ):
            buffer = warmpool.pinned((2, 3), "int16")
            address = buffer.address
            capsule = buffer.__dlpack__(max_version=version)
            managed = consume(capsule, name)
            tensor = managed.tensor
            self.assertEqual(tensor.data, address)
            self.assertEqual(tensor.ndim, 2)
            if version:
                found = managed.major, managed.minor, managed.flags
                self.assertEqual(found, (1, 0, 0))
            self.assertEqual(tensor.shape[:2], [2, 3])
            self.assertEqual(tensor.strides[:2], [3, 1])
            self.assertEqual((tensor.code, tensor.bits), (0, 16))
            del buffer, capsule
            self.assertEqual(live(), 1)
            other = threading.Thread(target=end, args=(managed,))
            other.start()
            other.join()
            self.assertEqual(live(), 0)

    def test_the_device_is_the_drivers(self):
        buffer = warmpool.pinned(8)
        device = (3, 0) if CUDA else (1, 0)
        self.assertEqual(buffer.__dlpack_device__(), device)
        managed = consume(buffer.__dlpack__(), LEGACY)
        self.assertEqual(managed.tensor.device_type, device[0])
        end(managed)
        managed = consume(buffer.__dlpack__(dl_device=(1, 0)), LEGACY)
        self.assertEqual(managed.tensor.device_type, 1)
        end(managed)
        with self.assertRaises(BufferError):
            buffer.__dlpack__(dl_device=(2, 0))
        with self.assertRaises(BufferError):
            buffer.__dlpack__(copy=True)


class Errors(unittest.TestCase):
    def refused(self, name, call, *arguments, **options):
        with self.assertRaises(warmpool.WarmpoolError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.name, name)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual(str(again), str(caught.exception))
        return caught.exception

    def test_refusals_have_status_name_and_message(self):
        wrong = self.refused("INVALID_OPTION", warmpool.Runtime, devise="host")
        self.assertIn("devise", wrong.message)
        self.assertEqual(wrong.status, 4)
        wrong = self.refused("INVALID_OPTION", warmpool.Runtime, segment="4M")
        self.assertIn("segment", wrong.message)
        wrong = self.refused("INVALID_OPTION", warmpool.Runtime, device="hos")
        self.assertIn("'hos'", wrong.message)

    def test_what_is_no_option_is_named(self):
        for error, options in (
            (TypeError, {"segment": 4e6}), (TypeError, {"device": None}),
            (ValueError, {"segment": -1}), (ValueError, {"segment": 1 << 64}),
            (ValueError, {"device": "host\0x"}), (ValueError, {"device\0": 1}),
        ):
            with self.assertRaises(error) as caught:
                warmpool.Runtime(**options)
            self.assertRegex(str(caught.exception), "segment|device|host")

    def test_out_of_memory_is_a_memory_error(self):
        with warmpool.Runtime(device="host", pinned_high=1 << 22) as runtime:
            with self.assertRaises(MemoryError) as caught:
                runtime.pinned(1 << 26)
            self.assertIsInstance(caught.exception, warmpool.OutOfMemory)
            self.assertEqual(live(runtime), 0)

    def test_wrong_shapes_and_types_are_refused(self):
        for error, shape, dtype in (
            (ValueError, -1, "uint8"), (ValueError, (2, -3), "uint8"),
            (TypeError, 1.5, "uint8"), (TypeError, None, "uint8"),
            (TypeError, "12", "uint8"), (TypeError, 4, "complex64"),
            (OverflowError, (1 << 40, 1 << 40), "uint8"),
        ):
            with self.assertRaises(error) as caught:
                warmpool.pinned(shape, dtype)
            named = dtype if shape == 4 else str(shape)
            self.assertIn(named, str(caught.exception))
        self.assertEqual(live(), 0)

    def test_what_is_no_stream_is_refused(self):
        buffer = warmpool.pinned(100)
        for error, stream in (
            (TypeError, "x"), (TypeError, object()), (ValueError, -1),
            (ValueError, 1 << 64),
        ):
            for one in buffer, warmpool.pinned(0):
                with self.assertRaises(error) as caught:
                    one.record_stream(stream)
                self.assertIn(str(stream), str(caught.exception))
        warmpool.pinned(0).record_stream(None)
        if not CUDA:
            self.refused("INVALID_STREAM", buffer.record_stream, 12345)

    def test_an_exception_at_any_line_leaks_nothing(self):
        """Such as a KeyboardInterrupt; CPython drops one in a destructor."""
        folder = os.path.dirname(warmpool.__file__)
        for last in range(1, 1000):
            line = 0

            def trace(frame, event, _):
                nonlocal line
                code = frame.f_code
                if not code.co_filename.startswith(folder) or (
                    code.co_name == "__del__"
                ):
                    return None
                line += event == "line"
                if line == last:
                    raise KeyboardInterrupt
                return trace

            sys.settrace(trace)
            try:
                warmpool.pinned(100).__dlpack__(max_version=(last % 2, 0))
            except KeyboardInterrupt:
                pass
            sys.settrace(None)
            self.assertEqual(live(), 0)
            if line < last:
                break
        self.assertGreater(last, 20)

    def test_a_closed_runtime_refuses_and_its_buffers_stay(self):
        runtime = warmpool.Runtime(device="host")
        buffer = runtime.pinned(100)
        runtime.close()
        runtime.close()
        self.assertEqual(runtime.driver, "gone")
        self.refused("RUNTIME_GONE", runtime.pinned, 1)
        buffer[99] = 1
        del buffer
        gc.collect()

    def test_page_locked_memory_is_not_pickled(self):
        with self.assertRaises(TypeError):
            pickle.dumps(warmpool.pinned(1))


class State(unittest.TestCase):
    def test_options_of_a_runtime_are_in_force(self):
        with warmpool.Runtime(device="host", segment=1 << 23) as runtime:
            self.assertEqual(runtime.options["segment"], str(1 << 23))
            self.assertEqual(runtime.options["device"], "host")
            self.assertEqual(runtime.devices, 1)
        self.assertIn("segment: ", warmpool.options_help())

    def test_a_snapshot_is_what_the_visualiser_reads(self):
        with warmpool.Runtime(device="host", history=100) as runtime, \
                tempfile.TemporaryDirectory() as folder:
            buffer = runtime.pinned(3000)
            path = os.path.join(folder, "now.pickle")
            found = runtime.snapshot(path)
            with open(path, "rb") as file:
                self.assertEqual(pickle.load(file), found)
            self.assertEqual(os.listdir(folder), ["now.pickle"])
            blocks = {
                block["address"]: block["state"]
                for segment in found["segments"]
                for block in segment["blocks"]
            }
            self.assertEqual(blocks[buffer.address], "active_allocated")
            events = [e for trace in found["device_traces"] for e in trace]
            self.assertIn("alloc", [event["action"] for event in events])
            page = os.path.join(folder, "now.html")
            runtime.snapshot_html(page)
            with open(page) as file:
                self.assertIn("<html", file.read())
            with self.assertRaises(OSError):
                runtime.snapshot(os.path.join(folder, "none", "x"))
            runtime.snapshot(os.fsencode(path))
            for write in runtime.snapshot, runtime.snapshot_html:
                with self.assertRaises(ValueError):
                    write(path + "\0x")
            self.assertEqual(sorted(os.listdir(folder)),
                             ["now.html", "now.pickle"])

    def test_a_trim_returns_what_is_idle(self):
        with warmpool.Runtime(device="host") as runtime:
            runtime.pinned(1 << 20)
            self.assertGreater(held(runtime), 0)
            runtime.trim()
            self.assertEqual(held(runtime), 0)


def held(runtime):
    return runtime.statistics()["pinned"]["held_bytes"]["current"]


class Threads(unittest.TestCase):
    THREADS = 8

    def test_threads_allocate_and_free_each_others_buffers(self):
        wrong, shelf = [], [None] * self.THREADS
        start = threading.Barrier(self.THREADS)

        def work(me):
            start.wait()
            for i in range(300):
                buffer = warmpool.pinned(64 + 997 * (i % 50))
                buffer[0] = me
                view = memoryview(buffer).cast("B")
                shelf[(me + i) % self.THREADS] = view
                if view[0] != me or library.warm_owns(buffer.address) != 1:
                    wrong.append((me, i))
                capsule = buffer.__dlpack__()
                del buffer, capsule

        threads = [
            threading.Thread(target=work, args=(me,))
            for me in range(self.THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        shelf.clear()
        self.assertEqual(live(), 0)

    def test_a_recorded_stream_delays_the_next_use(self):
        with warmpool.Runtime(device="host") as runtime:
            stream = ctypes.c_void_p(new_stream(runtime))
            pointer = ctypes.c_void_p(runtime.pointer)
            gate = threading.Event()
            function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
                lambda _: gate.wait()
            )
            call = library.warm_stream_host_func
            call.argtypes = [ctypes.c_void_p] * 4
            self.assertEqual(
                call(pointer, stream, ctypes.cast(function, ctypes.c_void_p), 0),
                0,
            )
            buffer = runtime.pinned(6000)
            address = buffer.address
            buffer.record_stream(stream.value)
            del buffer
            later = runtime.pinned(6000)
            self.assertNotEqual(later.address, address)
            pending = runtime.statistics()["pinned"]["pending"]["current"]
            self.assertEqual(pending, 1)
            gate.set()
            wait = library.warm_stream_synchronize
            wait.argtypes = [ctypes.c_void_p] * 2
            self.assertEqual(wait(pointer, stream), 0)
            library.warm_poll.argtypes = [ctypes.c_void_p]
            self.assertEqual(library.warm_poll(pointer), 0)
            pending = runtime.statistics()["pinned"]["pending"]["current"]
            self.assertEqual(pending, 0)


class Frameworks(unittest.TestCase):
    """Without PyTorch and CuPy: what they are asked to do."""

    def test_the_host_device_is_refused(self):
        import types

        import warmpool.cupy
        import warmpool.torch

        torch = types.ModuleType("torch")
        torch.cuda = types.SimpleNamespace(is_initialized=lambda: False)
        built = types.SimpleNamespace(is_built=lambda: True)
        torch.backends = types.SimpleNamespace(cuda=built)
        sys.modules["torch"] = torch
        sys.modules["cupy"] = types.ModuleType("cupy")
        try:
            with warmpool.Runtime(device="host") as runtime:
                for call in (
                    warmpool.torch.use, warmpool.torch.mem_pool,
                    warmpool.cupy.use,
                ):
                    with self.assertRaises(warmpool.WarmpoolError) as caught:
                        call(runtime)
                    self.assertIn("driver host", caught.exception.message)
            torch.cuda.is_initialized = lambda: True
            with self.assertRaises(warmpool.WarmpoolError) as caught:
                warmpool.torch.use()
            self.assertIn("before the first use", caught.exception.message)
            built.is_built = lambda: False
            for call in warmpool.torch.use, warmpool.torch.mem_pool:
                with self.assertRaises(warmpool.WarmpoolError) as caught:
                    call()
                self.assertIn("without CUDA", caught.exception.message)
        finally:
            del sys.modules["torch"], sys.modules["cupy"]

    def test_functions_of_cupy_allocate_in_the_order_of_a_stream(self):
        allocate = entry.warmpool_cupy_malloc
        allocate.restype = ctypes.c_void_p
        allocate.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        free = entry.warmpool_cupy_free
        free.restype = None
        free.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int]
        runtime = warmpool.runtime()
        entry.warmpool_cupy_stream(None)
        first = allocate(runtime.pointer, 1000, 0)
        self.assertEqual(library.warm_owns(first), 1)
        free(runtime.pointer, first, 0)
        self.assertEqual(library.warm_owns(first), 0)
        self.assertEqual(allocate(runtime.pointer, 1000, 0), first)
        free(runtime.pointer, first, 0)
        self.assertIsNone(allocate(runtime.pointer, 1000, 99))


    def test_cupy_gets_memory_in_the_order_of_its_stream(self):
        import warmpool.cupy

        made, stream = fake_cupy()
        sys.modules["cupy"] = made
        try:
            device, pinned = warmpool.cupy.allocators(warmpool.runtime())
            stream.ptr = new_stream(warmpool.runtime())
            first = device(3000)
            self.assertEqual(library.warm_owns(first.ptr), 1)
            first.free()
            own, stream.ptr = stream.ptr, 0
            other = device(3000)
            self.assertNotEqual(other.ptr, first.ptr)
            other.free()
            stream.ptr = own
            again = device(3000)
            self.assertEqual(again.ptr, first.ptr)
            again.free()
            self.assertEqual(device(0).ptr, 0)
            with self.assertRaises(warmpool.OutOfMemory) as caught:
                device(1 << 50)
            self.assertIn("1024.0 TiB", caught.exception.message)
            memory, offset = pinned(5000)
        finally:
            del sys.modules["cupy"]
        self.assertEqual((memory.size, offset), (5000, 0))
        self.assertEqual(library.warm_owns(memory.ptr), 1)
        self.assertEqual(live(), 1)
        del memory
        self.assertEqual(live(), 0)


def fake_cupy():
    """CuPy's calls as its documentation has them: a module, and its stream."""
    import types

    class Allocator:
        def __init__(self, param, malloc, free, owner):
            kind = ctypes.CFUNCTYPE(
                ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
            )
            self.param, self.owner = param, owner
            self.allocate = kind(malloc)
            self.end = ctypes.CFUNCTYPE(
                None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int
            )(free)

        def malloc(self, size):
            ptr = self.allocate(self.param, size, 0) or 0 if size else 0
            return types.SimpleNamespace(
                ptr=ptr, free=lambda: self.end(self.param, ptr, 0)
            )

    stream = types.SimpleNamespace(ptr=0)
    module = types.ModuleType("cupy")
    module.cuda = types.SimpleNamespace(
        memory=types.SimpleNamespace(CFunctionAllocator=Allocator),
        get_current_stream=lambda: stream,
        PinnedMemoryPointer=lambda memory, offset: (memory, offset),
    )
    return module, stream


class Endings(unittest.TestCase):
    """Programs of their own, with what is left when the interpreter ends."""

    def ends(self, text, says=""):
        done = subprocess.run(
            [sys.executable, "-c", "import sys, warmpool\n" + text],
            capture_output=True, text=True, timeout=50,
        )
        found = done.returncode, done.stderr, done.stdout
        self.assertEqual(found, (0, "", says))

    def test_what_is_left_at_exit_ends_in_peace(self):
        """sys is cleared when the modules have no names any more."""
        for left in (
            "memoryview(buffer)", "buffer.__dlpack__()",
            "buffer.__dlpack__(max_version=(1, 0))",
            "[warmpool.Runtime(), buffer]",
        ):
            self.ends(f"""
buffer = warmpool.pinned((3, 4), "float32")
sys.left = {left}
del buffer
""")

    @unittest.skipUnless(numpy, "NumPy is not here")
    def test_arrays_that_are_left_at_exit_end_in_peace(self):
        self.ends("""
import numpy
sys.left = numpy.from_dlpack(warmpool.pinned(100))
""")
        self.ends("sys.left = warmpool.pinned(100).numpy()")

    def test_a_consumer_may_end_after_the_interpreter(self):
        self.ends(f"""
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import check_python, ctypes
kind = check_python.ctypes.CFUNCTYPE(None, ctypes.c_void_p)
for name, version in (b"dltensor", None), (b"dltensor_versioned", (1, 0)):
    capsule = warmpool.pinned(100).__dlpack__(max_version=version)
    managed = check_python.consume(capsule, name)
    ctypes.CDLL(None).__cxa_atexit(
        ctypes.c_void_p(managed.deleter),
        ctypes.c_void_p(ctypes.addressof(managed)), None)
""")

    def test_threads_may_be_in_calls_at_exit(self):
        self.ends("""
import threading
start = threading.Barrier(5)
def work():
    start.wait()
    while True:
        warmpool.pinned(1000).__dlpack__()
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
start.wait()
""")

    def test_a_forked_child_leaves_the_parents_buffers_alone(self):
        self.ends("""
import gc, os
buffer = warmpool.pinned(1000)
buffer[0], capsule = 7, buffer.__dlpack__()
child = os.fork()
if child == 0:
    buffer = capsule = None
    gc.collect()
    assert warmpool.Runtime(device="host").pinned(5).nbytes == 5
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
print(buffer[0], warmpool.statistics()["pinned"]["live"]["current"])
""", "7 1\n")


class Types(unittest.TestCase):
    @unittest.skipIf(
        sysconfig.get_config_var("Py_GIL_DISABLED")
        and sys.version_info < (3, 14),
        "Python 3.13 without its lock frees no class once a thread was started",
    )
    def test_classes_of_shapes_do_not_pile_up(self):
        first = weakref.ref(type(warmpool.pinned(1)))
        for i in range(5000):
            warmpool.pinned(i + 2)
        gc.collect()
        self.assertIsNone(first())


if __name__ == "__main__":
    unittest.main()
