"""Memory that a read writes to stays alive while anything may be written, and must have the type that is read."""

import ctypes
import gc
import mmap
import subprocess
import sys
import textwrap
import types
import weakref

import native_stores as stores
import numpy as np
import pytest

import headrace
from headrace import _target

DATA = np.arange(40 * 50, dtype="<f4").reshape(40, 50)
RECORDS = np.array([(1.5, 7), (2.5, 8), (3.5, 9), (4.5, 10)], [("t", "<f4"), ("n", "<i4")])


@pytest.fixture
def array(tmp_path):
    return headrace.open(stores.write(tmp_path / "a", DATA, (10, 25), compress=True))


# Lifetime


def ending_by_result(future):
    future.result()


def ending_by_done(future):
    while not future.done():
        pass


@pytest.mark.parametrize("end", [ending_by_result, ending_by_done])
def test_a_buffer_cannot_be_taken_away(array, end):
    """A buffer cannot be revoked until the caller knows that the read has ended."""
    for memory, take_away in ((mmap.mmap(-1, DATA.nbytes), mmap.mmap.close), (bytearray(DATA.nbytes), bytearray.clear)):
        view = memoryview(memory).cast("f", DATA.shape)
        future = array.read_async(out=view)
        view.release()
        with pytest.raises(BufferError):
            take_away(memory)
        end(future)
        assert bytes(memory) == DATA.tobytes()
        take_away(memory)
        del future


def test_a_buffer_of_a_read_that_fails(array, tmp_path):
    """A caught exception keeps no buffer exported, although its traceback refers to the read's locals."""
    (tmp_path / "a" / "0.0").write_bytes(b"damaged")
    for read in (array.read, lambda out: array.read_many([...], out=[out]), lambda out: array.read_async(out=out).result()):
        memory = bytearray(DATA.nbytes)
        view = memoryview(memory).cast("f", DATA.shape)
        with pytest.raises(headrace.CorruptError) as caught:
            read(out=view)
        view.release()
        memory.clear()
        assert caught.value.key == "0.0"


def test_a_buffer_under_a_blocking_read(tmp_path):
    path = stores.write(tmp_path / "a", np.zeros(64 << 20, "u1"), (1 << 20,), compress=True)
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(f"""
        import threading, time
        import headrace
        array = headrace.open({str(path)!r}, context=headrace.Context(threads=1))
        def refused():
            memory, seen, stop = bytearray(array.nbytes), [], threading.Event()
            def take_away():
                while not stop.wait(0.001):
                    try:
                        memory.clear()
                    except BufferError:
                        seen.append(1)
            thief = threading.Thread(target=take_away)
            thief.start()
            try:
                array.read(out=memory)
            except headrace.InvalidArgumentError:
                pass  # it was gone before the read began
            stop.set()
            thief.join()
            memory.clear()
            return len(seen) > 0
        print(any(refused() for _ in range(20)))
        """)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_the_owner_of_lent_memory(array):
    """A DLPack producer may hold no other reference to its memory."""

    class Lends:
        def __dlpack__(self, **how):
            memory = np.zeros_like(DATA)
            self.lent = weakref.ref(memory)
            return memory.__dlpack__(**how)

        def __dlpack_device__(self):
            return (1, 0)

    out = Lends()
    future = array.read_async(out=out)
    gc.collect()
    lent = out.lent()
    assert lent is not None and future.result() is out and np.array_equal(lent, DATA)
    del lent
    gc.collect()
    assert out.lent() is None


def test_a_buffer_of_a_transfer(tmp_path):
    (tmp_path / "f").write_bytes(bytes(range(256)) * 256)
    with headrace.File(tmp_path / "f", "r+") as file:
        for start in (file.pread, file.pwrite):
            memory = bytearray(1 << 16)
            futures = [start(memory) for _ in range(50)]
            try:
                memory.clear()  # may be too late
            except BufferError:
                pass
            assert {future.get() for future in futures} == {1 << 16}
            memory.clear()


# Type


@pytest.mark.parametrize("dtype", [
    [("n", "<i4"), ("t", "<f4")], [("t", ">f4"), ("n", ">i4")], [("t", "<f4"), ("n", ">i4")], [("x", "<f4"), ("n", "<i4")],
    [("x", "<i8")], [("t", "<f4"), ("n", "<u4")], "V8", "<i8",
    {"names": ["t", "n"], "formats": ["<f4", "<i4"], "offsets": [4, 0]},
    {"names": ["t", "n"], "formats": ["<f4", "<i4"], "offsets": [0, 8], "itemsize": 12}], ids=str)
def test_records_go_to_equal_records(tmp_path, dtype):
    array = headrace.open(stores.write(tmp_path / "a", RECORDS, (3,), fill=None))

    class Interface:
        def __init__(self, of):
            self.of = of
            self.__array_interface__ = of.__array_interface__

    in_order = not isinstance(dtype, dict) or dtype["offsets"][0] == 0
    for wrap in (lambda out: out, Interface, *((memoryview,) if in_order else ())):
        good = np.zeros(4, RECORDS.dtype)
        array.read(out=wrap(good))
        assert np.array_equal(good, RECORDS)
        out = np.zeros(4, dtype)
        with pytest.raises(ValueError, match="out has elements of type .* the read gives .*'t', '<f4'"):
            array.read(out=wrap(out))
        assert not out.view("u1").any()


def test_records_with_one_field(tmp_path):
    data = np.array([(1.5,), (2.5,)], [("t", "<f4")])
    array = headrace.open(stores.write(tmp_path / "a", data, (2,), fill=None))
    out = np.zeros(2, data.dtype)
    array.read(out=types.SimpleNamespace(__array_interface__=out.__array_interface__))
    assert np.array_equal(out, data)
    with pytest.raises(ValueError, match="elements of type"):
        array.read(out=np.zeros(2, "<f4"))


ODD = {
    "bytes as data": {"data": b"abcd"}, "no data": {"data": None}, "a pointer alone": {"data": 4096},
    "a pointer that is a text": {"data": ("4096", False)}, "a negative pointer": {"data": (-8, False)},
    "three things as data": {"data": (4096, False, 1)}, "a list as data": {"data": [4096, False]},
    "no shape": {"shape": None}, "a negative extent": {"shape": (-4,)}, "no type": {"typestr": None},
    "a type that is none": {"typestr": "|z9"}, "strides of another rank": {"strides": (1, 1)}}


@pytest.mark.parametrize("kind", ["__array_interface__", "__cuda_array_interface__"])
@pytest.mark.parametrize("odd", ODD)
def test_interfaces_that_are_odd(array, tmp_path, kind, odd):
    interface = {"shape": (4,), "typestr": "|u1", "data": (4096, False), "version": 3, **ODD[odd]}
    interface = {name: value for name, value in interface.items() if value is not None}
    out = types.SimpleNamespace(**{kind: interface})
    (tmp_path / "f").write_bytes(bytes(8))
    for use in (lambda: array.read((0, slice(0, 4)), out=out), lambda: headrace.File(tmp_path / "f").read(out)):
        with pytest.raises(headrace.InvalidArgumentError, match="SimpleNamespace whose array interface cannot be used"):
            use()
    with pytest.raises(headrace.InvalidArgumentError, match="array interface cannot be used"):
        array.read(out=types.SimpleNamespace(**{kind: 7}))


# GPU memory as other libraries describe it


class FakeCupy(types.ModuleType):
    """Two devices, of which 1 is current; each has a current stream."""

    class ndarray:  # noqa: N801
        device = types.SimpleNamespace(id=0)
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3, "stream": 0x111}

    class cuda:  # noqa: N801
        @staticmethod
        def get_current_stream(device=-1):
            return types.SimpleNamespace(ptr=0x111 if device in (-1, 1) else 0x100)


def test_the_stream_is_that_of_the_memorys_device(monkeypatch):
    cupy = FakeCupy("cupy")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "torch", None)
    target = _target.describe(cupy.ndarray())
    assert (target.device, target.stream) == ("cuda:0", 0x100)
    assert _target.current_stream("cuda:0") == 0x100 and _target.current_stream("cuda:1") == 0x111


def test_the_driver_knows_whose_memory_it_is(monkeypatch):
    class Driver:
        known = True

        def cuPointerGetAttribute(self, into, attribute, pointer):  # noqa: N802
            assert (attribute, pointer.value) == (9, 1 << 40)
            ctypes.cast(into, ctypes.POINTER(ctypes.c_int))[0] = 3
            return 0 if self.known else 1

    driver = Driver()
    out = types.SimpleNamespace(__cuda_array_interface__={"shape": (4,), "typestr": "<f4", "data": (1 << 40, False)})
    monkeypatch.setattr(_target, "_driver", lambda: driver)
    assert _target.describe(out).device == "cuda:3"
    driver.known = False
    assert _target.describe(out).device == "cuda:0"
    monkeypatch.setattr(_target, "_driver", lambda: None)
    assert _target.describe(out).device == "cuda:0"
