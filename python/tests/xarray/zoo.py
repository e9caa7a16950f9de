"""A group with one array for each case of CF decoding, written by zarr-python in either format."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from xarray.backends.zarr import FillValueCoder

ROWS, COLUMNS = 7, 10
SHAPE = (ROWS, COLUMNS)


def _numbers(dtype: str, special: Any = None) -> np.ndarray[Any, Any]:
    """Reproducible values over the whole range of `dtype`, including both limits and `special`."""
    random = np.random.default_rng(7)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        values = random.integers(info.min, info.max, SHAPE, dtype=kind.newbyteorder("="), endpoint=True)
        values[0, :2] = info.min, info.max
        values[0, 4] = 0
    else:
        values = (random.standard_normal(SHAPE) * 1000).astype(kind.newbyteorder("="))
        values[0, :5] = np.nan, np.inf, -np.inf, 0.0, -0.0
    if special is not None:
        values[::3, 2] = special
        values[3, 6:] = special
    return values.astype(kind)


# name: (stored type, fill value of the array, attributes). In v3 the attribute _FillValue applies; in v2 the array's
# fill value.
PACKED: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "packed": ("i2", -999, {"_FillValue": -999, "scale_factor": 0.01, "add_offset": 273.15}),
    "packed_same_fill": ("i2", 0, {"_FillValue": 0, "scale_factor": 0.01, "add_offset": -1.5}),
    "scaled": ("i2", -999, {"_FillValue": -999, "scale_factor": 0.1}),
    "scaled_down": ("i2", -999, {"_FillValue": -999, "scale_factor": -0.1}),
    "scaled_no_fill": ("i2", None, {"scale_factor": 0.1, "add_offset": 5.0}),
    "scaled_down_no_fill": ("i1", None, {"scale_factor": -0.25}),
    "offset_only": ("u1", 255, {"_FillValue": 255, "add_offset": 100.0}),
    "offset_integer": ("u1", 255, {"_FillValue": 255, "add_offset": 100}),
    "scale_integer": ("i2", None, {"scale_factor": 10}),
    "scale_and_offset_integers": ("i2", None, {"scale_factor": 10, "add_offset": 3}),
    "scale_mixed": ("i2", -1, {"_FillValue": -1, "scale_factor": 10, "add_offset": 0.5}),
    "scale_list": ("i2", -1, {"_FillValue": -1, "scale_factor": [0.5], "add_offset": [1.0]}),
    "scale_one": ("i2", -1, {"_FillValue": -1, "scale_factor": 1.0, "add_offset": 0.0}),
    "packed_int32": ("i4", -(2**31), {"_FillValue": -(2**31), "scale_factor": 1e-5, "add_offset": 1e5}),
    "packed_uint32": ("u4", 2**32 - 1, {"_FillValue": 2**32 - 1, "scale_factor": 1e-5}),
    "packed_int64": ("i8", -(2**63), {"_FillValue": -(2**63), "scale_factor": 0.5, "add_offset": 1.0}),
    "packed_float32": ("f4", -999.0, {"_FillValue": -999.0, "scale_factor": 0.01, "add_offset": 3.5}),
    "packed_float32_scale": ("f4", -999.0, {"_FillValue": -999.0, "scale_factor": 0.01}),
    "packed_float64": ("f8", 1e20, {"_FillValue": 1e20, "scale_factor": 0.01, "add_offset": 3.5}),
    "packed_nan_fill": ("f4", float("nan"), {"_FillValue": float("nan"), "scale_factor": 2.0, "add_offset": 0.25}),
    "masked_int8": ("i1", -128, {"_FillValue": -128}),
    "masked_int16": ("i2", -999, {"_FillValue": -999}),
    "masked_int16_other": ("i2", 5, {"_FillValue": -999}),
    "masked_int32": ("i4", -999, {"_FillValue": -999}),
    "masked_int64": ("i8", -999, {"_FillValue": -999}),
    "masked_uint16": ("u2", 65535, {"_FillValue": 65535}),
    "masked_uint32": ("u4", 2**32 - 1, {"_FillValue": 2**32 - 1}),
    "masked_uint64": ("u8", 2**64 - 1, {"_FillValue": 2**64 - 1}),
    "masked_float16": ("f2", -999.0, {"_FillValue": -999.0}),
    "masked_float32": ("f4", 1e20, {"_FillValue": float(np.float32(1e20))}),
    "masked_float32_other": ("f4", 0.0, {"_FillValue": -999.0}),
    "masked_float64": ("f8", 1e20, {"_FillValue": 1e20}),
    "masked_nan": ("f8", float("nan"), {"_FillValue": float("nan")}),
    "masked_zero": ("f4", 0.0, {"_FillValue": 0.0}),
    "missing_value": ("i2", None, {"missing_value": -999}),
    "missing_value_same": ("i2", -999, {"_FillValue": -999, "missing_value": -999}),
    "missing_value_other": ("i2", -999, {"_FillValue": -999, "missing_value": -998, "scale_factor": 0.5}),
    "missing_values": ("i4", -999, {"_FillValue": -999, "missing_value": [-998, -997]}),
    "missing_value_float": ("f4", None, {"missing_value": -999.0}),
    "valid_range": ("i2", -999, {"_FillValue": -999, "valid_range": [-900, 900], "valid_min": -900}),
    "unsigned": ("i1", -1, {"_FillValue": -1, "_Unsigned": "true"}),
    "unsigned_packed": ("i1", -1, {"_FillValue": -1, "_Unsigned": "true", "scale_factor": 0.5, "add_offset": 10.0}),
    "unsigned_no_fill": ("i2", None, {"_Unsigned": "true"}),
    "signed": ("u1", 100, {"_FillValue": 100, "_Unsigned": "false"}),
    "unsigned_float": ("f4", None, {"_Unsigned": "true"}),
    "plain_float": ("f4", None, {"units": "K"}),
    "plain_int": ("i4", 0, {"flag_values": [0, 1], "flag_meanings": "no yes"}),
    "big_endian": (">i4", -999, {"_FillValue": -999}),
    "big_endian_packed": (">i2", -999, {"_FillValue": -999, "scale_factor": 0.01, "add_offset": 273.15}),
    "big_endian_float": (">f8", None, {}),
    "duration_scaled": ("i2", -999, {"_FillValue": -999, "units": "days", "scale_factor": 0.5}),
    "not_a_time": ("i2", -999, {"_FillValue": -999, "units": "days accumulated"}),
}


def write_zoo(path: Path, zarr_format: int, *, consolidated: bool) -> None:
    """Writes the group. The last rows of chunks of arrays in PACKED are not stored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        group = zarr.create_group(path, zarr_format=zarr_format)  # type: ignore[arg-type]
        group.attrs.update({"title": "zoo", "coordinates": "labels scalar", "_NCProperties": "hidden"})
        group.attrs.update({"b": float("nan"), "a": [1, 2.0]})
        zoo = _Writer(group, zarr_format)
        for name, (dtype, fill, attrs) in PACKED.items():
            special = attrs.get("_FillValue", attrs.get("missing_value"))
            data = _numbers(dtype, special)
            if isinstance(attrs.get("missing_value"), list):
                data[1, :2] = attrs["missing_value"]
            zoo.add(name, data, ("row", "column"), attrs, fill, chunks=(2, 4), rows=4)
        _add_times(zoo)
        _add_others(zoo)
        if consolidated:
            zarr.consolidate_metadata(path)


def _add_times(zoo: _Writer) -> None:
    days = np.arange(ROWS, dtype="i4")
    zoo.add("row", days, ("row",), {"units": "days since 2000-01-01", "calendar": "standard", "bounds": "row_bounds"})
    zoo.add("row_bounds", np.stack([days, days + 1], -1), ("row", "edge"))
    holes = days.astype("i8")
    holes[2] = -1
    zoo.add("time_holes", holes, ("row",), {"units": "hours since 1970-01-01", "_FillValue": -1}, -1)
    zoo.add("time_float", days * 0.25, ("row",), {"units": "days since 2000-01-01"})
    zoo.add("time_noleap", days + 59, ("row",), {"units": "days since 2000-01-01", "calendar": "noleap"})
    zoo.add("time_360", days + 59, ("row",), {"units": "days since 2000-01-01", "calendar": "360_day"})
    zoo.add("time_far", days, ("row",), {"units": "days since 9000-01-01", "calendar": "standard"})
    zoo.add("duration", days, ("row",), {"units": "hours"})
    zoo.add("duration_holes", holes, ("row",), {"units": "minutes", "_FillValue": -1}, -1)
    zoo.add("duration_typed", days.astype("i8"), ("row",), {"units": "seconds", "dtype": "timedelta64[s]"})
    zoo.add("time_scalar", np.asarray(12, "i4"), (), {"units": "days since 2000-01-01"})


def _add_others(zoo: _Writer) -> None:
    flags = _numbers("i1") > 0
    zoo.add("flags", flags, ("row", "column"), {}, False)
    zoo.add("flags_legacy", flags.astype("i1"), ("row", "column"), {"dtype": "bool"}, None)
    zoo.add("column", np.linspace(-1, 1, COLUMNS), ("column",), {"units": "degrees_east"})
    zoo.add("bytes", np.array([b"ab", b"cde", b""] * 2 + [b"xyz"], "S3"), ("row",))
    zoo.add("characters", np.frombuffer(b"abcdefghijklmnopqrstu", "S1").reshape(ROWS, 3), ("row", "string3"))
    zoo.add("labels", np.array(["a", "bc", "", "äöü", "e", "f", "g"], "U3"), ("row",))
    zoo.add_strings("words", ["a", "bc", "", "äöü", "a longer one", "f", "g"], ("row",))
    zoo.add("complex", (_numbers("f4") + 1j * _numbers("f8")).astype("c8"), ("row", "column"))
    zoo.add("scalar", np.asarray(3.5), (), {"units": "m"})
    zoo.add("scalar_packed", np.asarray(7, "i2"), (), {"scale_factor": 0.5, "add_offset": 1.0})
    zoo.add("empty", np.zeros((0, COLUMNS), "f4"), ("nothing", "column"))
    zoo.add("crs", np.asarray(0, "i4"), (), {"grid_mapping_name": "latitude_longitude"})
    zoo.add("latitude", _numbers("f4"), ("row", "column"), {"units": "degrees_north"})
    attrs = {"coordinates": "latitude", "grid_mapping": "crs", "bad": float("nan")}
    zoo.add("mapped", _numbers("f4"), ("row", "column"), attrs)


class _Writer:
    def __init__(self, group: zarr.Group, zarr_format: int) -> None:
        self._group = group
        self._zarr_format = zarr_format

    def add(
        self,
        name: str,
        data: np.ndarray[Any, Any],
        dims: tuple[str, ...],
        attrs: dict[str, Any] | None = None,
        fill: Any = None,
        *,
        chunks: tuple[int, ...] | None = None,
        rows: int | None = None,
    ) -> None:
        array = self._group.create_array(
            name,
            shape=data.shape,
            dtype=data.dtype,
            chunks=chunks or tuple(max(size, 1) for size in data.shape),
            fill_value=fill if fill is not None or self._zarr_format == 2 else _ZERO.get(data.dtype.kind, 0),
            dimension_names=dims if self._zarr_format == 3 else None,
        )
        self._describe(array, dims, attrs or {}, data.dtype)
        if data.ndim:
            array[:rows] = data[:rows]
        else:
            array[...] = data

    def add_strings(self, name: str, words: list[str], dims: tuple[str, ...]) -> None:
        names = dims if self._zarr_format == 3 else None
        array = self._group.create_array(name, shape=(len(words),), dtype=str, dimension_names=names)
        self._describe(array, dims, {}, np.dtype(object))
        array[:] = np.array(words, dtype=object)

    def _describe(self, array: Any, dims: tuple[str, ...], attrs: dict[str, Any], dtype: np.dtype[Any]) -> None:
        attrs = dict(attrs)
        if self._zarr_format == 2:
            attrs.pop("_FillValue", None)
            attrs["_ARRAY_DIMENSIONS"] = list(dims)
        elif "_FillValue" in attrs:
            attrs["_FillValue"] = FillValueCoder.encode(attrs["_FillValue"], dtype)
        array.attrs.update(attrs)


_ZERO = {"b": False, "S": b"", "U": ""}
