"""Which variables are on a device and which on the host, and that device data is never converted to NumPy.

Each test runs with a simulated device (host reads into arrays that refuse conversion to NumPy, like CuPy's), and on a
GPU if there are one and CuPy.
"""

from __future__ import annotations

import contextlib
import importlib.util
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

import headrace
from headrace.xarray import _array, _dataset, _entrypoint


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A duck array that cannot be converted to NumPy by accident."""

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


class Device:
    """The device of a test; records reads.

    Attributes:
        array_type: Type of the arrays of variables on it.
        reads: Name, device and options of every read to it.
    """

    def __init__(self, real: bool) -> None:
        self.real = real
        self.array_type: Any = _array.import_cupy().ndarray if real else DeviceArray
        self.reads: list[tuple[str, str, dict[str, Any]]] = []
        self.local = threading.local()

    def name(self, index: int) -> str:
        """Name of device `index`; a real machine is only assumed to have one GPU."""
        return "cuda:0" if self.real else f"cuda:{index}"

    def names(self, dataset: xr.Dataset) -> set[Any]:
        """Names of the variables on this device."""
        return {name for name, variable in dataset.variables.items() if isinstance(variable.data, self.array_type)}

    @property
    def current(self) -> list[int]:
        """Stack of simulated devices that this thread has made current."""
        return self.local.__dict__.setdefault("devices", [])

    @contextlib.contextmanager
    def choose(self, index: int) -> Any:
        self.current.append(index)
        yield
        self.current.pop()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        original = _array.HeadraceArray.__init__

        def init(array: Any, source: Any, *rest: Any, **options: Any) -> None:
            original(array, source if isinstance(source, Source) else Source(source, self), *rest, **options)

        monkeypatch.setattr(_array.HeadraceArray, "__init__", init)
        if not self.real:
            cupy = SimpleNamespace(cuda=SimpleNamespace(Device=self.choose), from_dlpack=lambda found: DeviceArray(found))
            for module in (_array, _entrypoint):
                monkeypatch.setattr(module, "import_cupy", lambda: cupy)


class Source:
    """Wraps an array; records its device reads, and makes them host reads if the device is simulated."""

    def __init__(self, array: Any, device: Device | None) -> None:
        self.array = array
        self.on = device
        self.path, self.shape = array.path, array.shape

    def __getattr__(self, name: str) -> Any:
        return getattr(self.array, name)

    def __reduce__(self) -> Any:  # so that dask's tokens depend on the array alone
        return Source, (self.array, None)

    def read(self, selection: Any, *, device: str | None = None, **options: Any) -> Any:
        if device is not None:
            assert self.on is not None
            self.on.reads.append((self.path.rpartition("/")[2], device, options))
            if self.on.real:
                return self.array.read(selection, device=device, **options)
            assert self.on.current == [_array.device_index(device)]
        return self.array.read(selection, **options)


GPU = "cuda:0" in headrace.device_names() and importlib.util.find_spec("cupy") is not None


@pytest.fixture(params=["played", *(["gpu"] if GPU else [])])
def device(request: Any, monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device(real=request.param == "gpu")
    found.install(monkeypatch)
    return found


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
def test_values_on_the_device(path: Path, engine: Any, device: Device, options: dict[str, Any]) -> None:
    expected = xr.open_dataset(path, engine="zarr", **options)
    found = xr.open_dataset(path, engine=engine, device=device.name(1), **options).load()
    on_host = set(ON_HOST)
    for name, variable in found.variables.items():
        assert_same_mapping(expected[name].encoding, variable.encoding, f"encoding of {name}")
        assert_same_mapping(expected[name].attrs, variable.attrs, f"attributes of {name}")
        data = variable.data.get() if isinstance(variable.data, device.array_type) else variable.data
        assert_same_values(np.asarray(expected[name].values), np.asarray(data), name)
    if path.name == "v2.zarr" and options.get("mask_and_scale", True):
        assert found["flags"].dtype == object  # xarray represents bools with missing values as objects
        on_host.add("flags")
    assert device.names(found) == set(found.variables) - on_host
    assert {where for _, where, _ in device.reads} == {device.name(1)}


def test_times_left_as_numbers_may_lie_on_the_device(path: Path, engine: Any, device: Device) -> None:
    found = xr.open_dataset(path, engine=engine, device="cuda", decode_times=False, decode_timedelta=False).load()
    assert {"time_holes", "duration"} <= device.names(found)
    assert isinstance(found["row"].data, np.ndarray)


def test_device_of_single_variables(path: Path, engine: Any, device: Device) -> None:
    devices = {"packed": device.name(2), "mapped": "host", "row": "cuda"}
    found = xr.open_dataset(path, engine=engine, device=devices).load()
    assert device.names(found) == {"packed"}
    assert [(name, where) for name, where, _ in device.reads] == [("packed", device.name(2))]


def test_decoding_is_part_of_the_read(path: Path, engine: Any, device: Device) -> None:
    found = xr.open_dataset(path, engine=engine, device="cuda", cache=False)
    found["packed"].isel(row=slice(0, 3)).load()
    ((name, where, options),) = device.reads
    assert (name, where) == ("packed", "cuda")
    assert {key: options[key] for key in ("dtype", "scale", "offset", "fill")} == {
        "dtype": "float64", "scale": 0.01, "offset": 273.15, "fill": -999,
    }
    assert _dataset.is_fused(found.variables["packed"])
    # Several values to mask: done by the device array's operators after the read.
    assert not _dataset.is_fused(found.variables["missing_values"])


def test_selections_on_the_device(path: Path, engine: Any, device: Device) -> None:
    expected = xr.open_dataset(path, engine="zarr")
    found = xr.open_dataset(path, engine=engine, device="cuda", cache=False)
    points = {"row": xr.Variable("p", [0, 6, 3]), "column": xr.Variable("p", [9, 0, 4])}
    for name in ("packed", "missing_values", "unsigned_packed", "flags_legacy", "complex", "big_endian"):
        for part in ({"row": slice(None, None, -2)}, {"row": [5, 0], "column": 3}, points, {"row": 2, "column": 3}):
            data = found[name].isel(part).data
            assert isinstance(data, device.array_type), (name, part)
            assert_same_values(np.asarray(expected[name].isel(part).values), data.get(), name)


def test_chunks_on_the_device(path: Path, engine: Any, device: Device) -> None:
    pytest.importorskip("dask")
    expected = xr.open_dataset(path, engine="zarr")["packed"]
    found = xr.open_dataset(path, engine=engine, device="cuda", chunks={})
    assert found["packed"].chunks == ((2, 2, 2, 1), (4, 4, 2))
    assert isinstance(found["time_holes"].compute(scheduler="sync").data, np.ndarray)
    device.reads.clear()
    part = found["packed"].isel(row=slice(0, 4), column=slice(None, None, 3)).compute(scheduler="sync")
    assert isinstance(part.data, device.array_type)
    assert_same_values(expected[:4, ::3].values, part.data.get())
    assert len(device.reads) == 6  # two rows of three chunks
    total = (found["packed"] * 2).sum("row").compute(scheduler="threads")
    assert isinstance(total.data, device.array_type)
    np.testing.assert_allclose(total.data.get(), (expected * 2).sum("row").values)


def test_chunked_later(path: Path, engine: Any, device: Device) -> None:
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
    assert isinstance(loaded.compute(scheduler="sync").data, device.array_type)
