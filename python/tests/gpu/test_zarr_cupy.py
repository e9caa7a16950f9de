"""zarr-python's GPU mode (`zarr.config.enable_gpu()`) with headrace's pipeline: results are CuPy arrays."""

import numpy as np
import pytest

cupy = pytest.importorskip("cupy")
zarr = pytest.importorskip("zarr", minversion="3.1")  # the package, not the sibling folder of tests

import headrace  # noqa: E402
import headrace.zarr as plug_in  # noqa: E402

DATA = np.random.default_rng(3).integers(0, 1000, (37, 91, 180)).astype("<f4")
SELECTIONS = [np.s_[...], np.s_[5:30:3, 7], np.s_[3, 10:80, -1], np.s_[0:1], np.s_[4:4]]
COMPRESSORS = {
    "raw": None,
    "zstd": zarr.codecs.ZstdCodec(level=3),
    "gzip": zarr.codecs.GzipCodec(),
    "blosc": zarr.codecs.BloscCodec(cname="lz4"),
}


@pytest.fixture(autouse=True)
def gpu_mode():
    with zarr.config.set({}):  # restores the settings afterwards
        zarr.config.enable_gpu()
        plug_in.enable(strict=True)
        yield


@pytest.fixture(params=COMPRESSORS)
def path(request, tmp_path):
    with zarr.config.set({"buffer": "zarr.buffer.cpu.Buffer", "ndbuffer": "zarr.buffer.cpu.NDBuffer"}):
        zarr.create_array(tmp_path, data=DATA, chunks=(5, 40, 60), compressors=COMPRESSORS[request.param])
    return tmp_path


def test_selections(path):
    array = zarr.open_array(path, mode="r")
    for selection in SELECTIONS:
        got = array[selection]
        assert isinstance(got, cupy.ndarray)
        assert got.dtype == DATA.dtype and got.shape == DATA[selection].shape
        np.testing.assert_array_equal(got.get(), DATA[selection])
    np.testing.assert_array_equal(array.oindex[[20, 1], 3:9].get(), DATA[[20, 1], 3:9])


def test_shards(tmp_path):
    with zarr.config.set({"buffer": "zarr.buffer.cpu.Buffer", "ndbuffer": "zarr.buffer.cpu.NDBuffer"}):
        zarr.create_array(tmp_path, data=DATA, chunks=(5, 13, 60), shards=(10, 91, 180))
    got = zarr.open_array(tmp_path, mode="r")[...]
    assert isinstance(got, cupy.ndarray)
    np.testing.assert_array_equal(got.get(), DATA)


def test_a_kernel_on_the_callers_stream_sees_finished_elements(path):
    array = zarr.open_array(path, mode="r")
    want = float(DATA.astype("f8").sum())
    for _ in range(20):
        with cupy.cuda.Stream(non_blocking=True) as stream:
            total = array[...].sum(dtype="f8")
            stream.synchronize()
        assert abs(float(total) - want) < 1e-3


def test_a_damaged_chunk_names_its_key(tmp_path):
    with zarr.config.set({"buffer": "zarr.buffer.cpu.Buffer", "ndbuffer": "zarr.buffer.cpu.NDBuffer"}):
        zarr.create_array(tmp_path, data=DATA, chunks=(37, 91, 180), compressors=COMPRESSORS["zstd"])
    chunk = tmp_path / "c" / "0" / "0" / "0"
    damaged = bytearray(chunk.read_bytes())
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    chunk.write_bytes(damaged)
    with pytest.raises(headrace.CorruptError, match="c/0/0/0"):
        zarr.open_array(tmp_path, mode="r")[...]


def test_tensors_are_cupy_arrays_without_a_copy(path):
    tensor = headrace.open(path, device="cuda").read()
    shared = cupy.from_dlpack(tensor)
    assert shared.data.ptr == tensor.pointer
    np.testing.assert_array_equal(shared.get(), DATA)
    np.testing.assert_array_equal(tensor.cupy().get(), DATA)
    out = cupy.empty((91, 37, 180), "f4").transpose(1, 0, 2)
    headrace.open(path).read(out=out)
    np.testing.assert_array_equal(out.get(), DATA)
