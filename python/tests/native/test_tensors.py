"""Tensors in device memory and their export; the device is the simulated GPU, so that any machine can run this."""

import gc

import native_stores as stores
import numpy as np
import pytest

import headrace

DATA = np.arange(6 * 7, dtype="<f4").reshape(6, 7)


@pytest.fixture
def tensor(tmp_path):
    return headrace.open(stores.write(tmp_path / "a", DATA, (4, 4), compress=True), device="host-staged").read()


def test_what_it_says_of_itself(tensor):
    assert (tensor.shape, tensor.ndim, tensor.size, tensor.nbytes, len(tensor)) == ((6, 7), 2, 42, 168, 6)
    assert tensor.dtype == np.float32 and tensor.device == "host-staged" and tensor.pointer
    assert repr(tensor) == "headrace.Tensor(shape=(6, 7), dtype=float32, device='host-staged')"
    assert np.array_equal(tensor.numpy(), DATA) and np.array_equal(np.asarray(tensor), DATA)
    assert np.asarray(tensor, dtype="f8").dtype == np.float64
    with pytest.raises(ValueError):
        np.array(tensor, copy=False)
    with pytest.raises(AttributeError, match="CUDA"):
        tensor.__cuda_array_interface__


def test_dlpack_versioned_and_legacy(tensor):
    assert tensor.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(tensor.__dlpack__())
    shared = np.from_dlpack(tensor)
    assert np.array_equal(shared, DATA) and shared.__array_interface__["data"][0] == tensor.pointer
    for wrong in [{"dl_device": (2, 0)}, {"copy": True}]:
        with pytest.raises(BufferError):
            tensor.__dlpack__(**wrong)


def test_memory_lives_as_long_as_somebody_holds_it(tmp_path):
    array = headrace.open(stores.write(tmp_path / "a", DATA, (4, 4)), device="host-staged")
    tensor = array.read()
    shared = np.from_dlpack(tensor)
    capsule = tensor.__dlpack__(max_version=(1, 0))
    del tensor
    gc.collect()
    others = [array.read() for _ in range(20)]  # would reuse memory that was freed
    assert np.array_equal(shared, DATA) and len(others) == 20
    del capsule  # never consumed: its deleter runs here
    gc.collect()


def test_reads_into_a_tensor_of_another_library(tmp_path):
    class Interface:  # an imitation of CuPy on the host
        def __init__(self, array):
            self.__array_interface__ = array.__array_interface__
            self.array = array

    array = headrace.open(stores.write(tmp_path / "a", DATA, (4, 4)))
    out = Interface(np.zeros_like(DATA))
    assert array.read(out=out) is out and np.array_equal(out.array, DATA)

    class Packed:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kwargs):
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    packed = Packed(np.zeros_like(DATA))
    try:
        array.read(out=packed)
    except headrace.InvalidArgumentError as error:  # a NumPy version that exports unversioned arrays as read-only views
        assert "read-only" in str(error)
    else:
        assert np.array_equal(packed.array, DATA)


def test_types_without_a_dlpack_type(tmp_path):
    times = np.arange(10).astype("<M8[s]")
    tensor = headrace.open(stores.write(tmp_path / "a", times, (4,), fill=None), device="host-staged").read()
    with pytest.raises(BufferError, match="datetime"):
        tensor.__dlpack__()
    assert np.array_equal(tensor.numpy(), times)


def test_empty_tensors(tmp_path):
    array = headrace.open(stores.write(tmp_path / "a", DATA, (4, 4)), device="host-staged")
    empty = array.read(slice(3, 3))
    assert empty.shape == (0, 7) and empty.numpy().shape == (0, 7) and np.from_dlpack(empty).shape == (0, 7)
    scalar = array.read((1, 2))
    assert scalar.shape == () and scalar.numpy() == DATA[1, 2]
    with pytest.raises(TypeError):
        len(scalar)


def test_vindex_on_a_device(tmp_path):
    array = headrace.open(stores.write(tmp_path / "a", DATA, (4, 4)), device="host-staged")
    got = array.vindex[[[0, 1], [2, 3]], [[1], [2]]]
    assert got.shape == (2, 2) and np.array_equal(got.numpy(), DATA[[[0, 1], [2, 3]], [[1], [2]]])


def test_hints_where_a_library_is_missing(tensor, monkeypatch):
    import sys

    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pytorch.org"):
        tensor.torch()
    with pytest.raises(ImportError, match="cupy-cuda"):
        tensor.cupy()
