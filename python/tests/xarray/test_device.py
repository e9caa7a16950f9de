"""What lies on a device and what on the host, and that nothing there is turned into NumPy on the way.

Without a GPU the device is played: arrays that refuse to become NumPy arrays, as CuPy's do, over reads to the host.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zoo
from equality import assert_same_mapping, assert_same_values

from headrace.xarray import _array, _dataset, _entrypoint


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A duck array that cannot be converted by accident."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data

    shape = property(lambda self: self._data.shape)
    dtype = property(lambda self: self._data.dtype)
    ndim = property(lambda self: self._data.ndim)
    size = property(lambda self: self._data.size)
    nbytes = property(lambda self: self._data.nbytes)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def get(self) -> np.ndarray[Any, Any]:
        return self._data

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(one, np.ndarray) and one.ndim for one in inputs):
            return NotImplemented
        if "out" in options:
            options["out"] = tuple(one._data for one in options["out"])
        return wrapped(getattr(ufunc, method)(*map(unwrapped, inputs), **options))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        inner = tuple([unwrapped(item) for item in one] if isinstance(one, list | tuple) else unwrapped(one) for one in args)
        return wrapped(function(*inner, **{key: unwrapped(value) for key, value in kwargs.items()}))

    def __getitem__(self, key: Any) -> DeviceArray:
        return DeviceArray(np.asarray(self._data[unwrapped(key)]))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[unwrapped(key)] = unwrapped(value)

    def astype(self, dtype: Any, copy: bool = True) -> DeviceArray:
        return DeviceArray(self._data.astype(dtype, copy=copy))

    def transpose(self, *axes: Any) -> DeviceArray:
        return DeviceArray(self._data.transpose(*axes))

    def reshape(self, *shape: Any) -> DeviceArray:
        return DeviceArray(self._data.reshape(*shape))


def unwrapped(value: Any) -> Any:
    return value._data if isinstance(value, DeviceArray) else value


def wrapped(value: Any) -> Any:
    return DeviceArray(value) if isinstance(value, np.ndarray) else value


class PlayedDevice:
    """headrace reading to a device that is host memory; notes who read what."""

    def __init__(self) -> None:
        self.reads: list[tuple[str, str, dict[str, Any]]] = []
        self.local = threading.local()

    @property
    def current(self) -> list[int]:
        """The devices that this thread has chosen, one within another."""
        return self.local.__dict__.setdefault("devices", [])

    def play(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original = _array.HeadraceArray.__init__

        def init(array: Any, source: Any, *rest: Any, **options: Any) -> None:
            original(array, source if isinstance(source, Source) else Source(source, self), *rest, **options)

        monkeypatch.setattr(_array.HeadraceArray, "__init__", init)
        cupy = SimpleNamespace(cuda=SimpleNamespace(Device=self.device), from_dlpack=lambda found: DeviceArray(found))
        for module in (_array, _entrypoint):
            monkeypatch.setattr(module, "import_cupy", lambda: cupy)

    @contextlib.contextmanager
    def device(self, index: int) -> Any:
        self.current.append(index)
        yield
        self.current.pop()


class Source:
    def __init__(self, array: Any, device: PlayedDevice) -> None:
        self.array = array
        self.played = device
        self.path, self.shape = array.path, array.shape

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __reduce__(self) -> Any:  # for dask's tokens, which are to depend on the array alone
        return Source, (self.array, None)

    def read(self, selection: Any, *, device: str | None = None, **options: Any) -> Any:
        if device is not None:
            assert self.played.current == [_array.device_index(device)]
            self.played.reads.append((self.path.rpartition("/")[2], device, options))
        return self.array.read(selection, **options)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> PlayedDevice:
    played = PlayedDevice()
    played.play(monkeypatch)
    return played


@pytest.fixture(scope="module", params=[2, 3])
def path(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("device") / f"v{request.param}.zarr"
    zoo.write_zoo(path, request.param, consolidated=True)
    return path


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


ON_HOST = {
    *("row", "column", "row_bounds", "time_holes", "time_float", "time_noleap", "time_360", "time_far", "time_scalar"),
    *("duration", "duration_holes", "duration_typed", "duration_scaled"),
    *("bytes", "characters", "labels", "words", "scalar", "scalar_packed", "crs", "latitude"),
}


@pytest.mark.parametrize("options", [{}, {"mask_and_scale": False}, {"decode_coords": "all"}], ids=str)
def test_values_on_the_device(path: Path, engine: Any, device: PlayedDevice, options: dict[str, Any]) -> None:
    expected = xr.open_dataset(path, engine="zarr", **options)
    found = xr.open_dataset(path, engine=engine, device="cuda:1", **options).load()
    on_device = set()
    for name, variable in found.variables.items():
        assert_same_mapping(expected[name].encoding, variable.encoding, f"encoding of {name}")
        assert_same_mapping(expected[name].attrs, variable.attrs, f"attributes of {name}")
        data = variable.data
        if isinstance(data, DeviceArray):
            on_device.add(name)
            data = data.get()
        assert_same_values(np.asarray(expected[name].values), np.asarray(data), name)
    if path.name == "v2.zarr" and options.get("mask_and_scale", True):
        assert found["flags"].dtype == object  # xarray has no missing bools but objects
        on_device.add("flags")
    assert on_device == set(found.variables) - ON_HOST
    assert {where for _, where, _ in device.reads} == {"cuda:1"}


def test_times_left_as_numbers_may_lie_on_the_device(path: Path, engine: Any, device: PlayedDevice) -> None:
    found = xr.open_dataset(path, engine=engine, device="cuda", decode_times=False, decode_timedelta=False).load()
    assert isinstance(found["time_holes"].data, DeviceArray)
    assert isinstance(found["duration"].data, DeviceArray)
    assert isinstance(found["row"].data, np.ndarray)


def test_device_of_single_variables(path: Path, engine: Any, device: PlayedDevice) -> None:
    found = xr.open_dataset(path, engine=engine, device={"packed": "cuda:2", "mapped": "host", "row": "cuda"}).load()
    assert [name for name, variable in found.variables.items() if isinstance(variable.data, DeviceArray)] == ["packed"]
    assert [(name, where) for name, where, _ in device.reads] == [("packed", "cuda:2")]


def test_decoding_is_part_of_the_read(path: Path, engine: Any, device: PlayedDevice) -> None:
    found = xr.open_dataset(path, engine=engine, device="cuda", cache=False)
    found["packed"].isel(row=slice(0, 3)).load()
    ((name, where, options),) = device.reads
    assert (name, where) == ("packed", "cuda")
    assert {key: options[key] for key in ("dtype", "scale", "offset", "fill")} == {
        "dtype": "float64", "scale": 0.01, "offset": 273.15, "fill": -999,
    }
    assert _dataset.is_fused(found.variables["packed"])
    # Several values to mask: the device's own operators do it, after the read.
    assert not _dataset.is_fused(found.variables["missing_values"])


def test_selections_on_the_device(path: Path, engine: Any, device: PlayedDevice) -> None:
    expected = xr.open_dataset(path, engine="zarr")
    found = xr.open_dataset(path, engine=engine, device="cuda", cache=False)
    points = {"row": xr.Variable("p", [0, 6, 3]), "column": xr.Variable("p", [9, 0, 4])}
    for name in ("packed", "missing_values", "unsigned_packed", "flags_legacy", "complex", "big_endian"):
        for part in ({"row": slice(None, None, -2)}, {"row": [5, 0], "column": 3}, points, {"row": 2, "column": 3}):
            data = found[name].isel(part).data
            assert isinstance(data, DeviceArray), (name, part)
            assert_same_values(np.asarray(expected[name].isel(part).values), data.get(), name)


def test_chunks_on_the_device(path: Path, engine: Any, device: PlayedDevice) -> None:
    pytest.importorskip("dask")
    expected = xr.open_dataset(path, engine="zarr")["packed"]
    found = xr.open_dataset(path, engine=engine, device="cuda", chunks={})
    assert found["packed"].chunks == ((2, 2, 2, 1), (4, 4, 2))
    assert isinstance(found["time_holes"].compute(scheduler="sync").data, np.ndarray)
    device.reads.clear()
    part = found["packed"].isel(row=slice(0, 4), column=slice(None, None, 3)).compute(scheduler="sync")
    assert isinstance(part.data, DeviceArray)
    assert_same_values(expected[:4, ::3].values, part.data.get())
    assert len(device.reads) == 6  # two rows of three chunks, and no more
    total = (found["packed"] * 2).sum("row").compute(scheduler="threads")
    assert isinstance(total.data, DeviceArray)
    np.testing.assert_allclose(total.data.get(), (expected * 2).sum("row").values)


def test_chunked_later(path: Path, engine: Any, device: PlayedDevice) -> None:
    dask = pytest.importorskip("dask")
    found = xr.open_dataset(path, engine=engine, device="cuda", cache=False)
    part = found["masked_int32"].isel(row=slice(1, None)).chunk(row=2)
    assert type(part.variable) is type(found["masked_int32"].variable)
    again = found["masked_int32"].isel(row=slice(1, None)).chunk(row=2)
    assert dask.base.tokenize(part) == dask.base.tokenize(again)
    assert part.chunk(row=3).chunks == ((3, 3), (10,))
    expected = xr.open_dataset(path, engine="zarr")["masked_int32"][1:].values
    assert_same_values(expected, part.compute(scheduler="sync").data.get())
    loaded = found["masked_int32"].load().chunk(row=2)
    assert isinstance(loaded.compute(scheduler="sync").data, DeviceArray)
