"""Times decoded by CF attributes equal cftime's, for all units, calendars, zones and types; unknown ones are rejected."""

import pickle

import cftime
import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
from headrace._coordinates import coordinate_of

CALENDARS = ["standard", "gregorian", "proleptic_gregorian", "noleap", "365_day", "all_leap", "366_day", "360_day", "julian"]
SINCE = ["1970-01-01", "1900-1-1 00:00:0.0", "2000-02-29T12:30:15Z", "1850-12-30 06:00:00", "0001-01-01", "1582-10-16", "1999-12-30 23:59:59.25 UTC"]


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(CALENDARS), st.sampled_from(SINCE), st.sampled_from(["days", "hours", "minutes", "seconds", "milliseconds"]),
       st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.sampled_from(["<i4", "<i8", "<f8", "<u4"]), st.sampled_from([1, 0.5, 0.125]))
def test_times_are_those_of_cftime(calendar, since, unit, numbers, dtype, part):
    if calendar == "360_day" and since.startswith("2000-02-29"):
        since = since.replace("29", "30")
    if calendar in ("noleap", "365_day"):
        since = since.replace("02-29", "02-28")
    values = np.array(numbers) * (part if dtype == "<f8" else 1)
    values = values.astype(dtype)
    units = f"{unit} since {since}"
    coordinate = coordinate_of(values, "t", {"units": units, "calendar": calendar})
    for got, wanted in zip(coordinate.values, cftime.num2date(values, units.removesuffix(" UTC"), calendar, only_use_cftime_datetimes=True), strict=True):
        shown = str(got).replace(" ", "T").ljust(26, "0") if isinstance(got, np.datetime64) else got.strftime("%Y-%m-%dT%H:%M:%S") + f".{got.microsecond:06d}"
        assert shown[-26:] == (wanted.strftime("%Y-%m-%dT%H:%M:%S") + f".{wanted.microsecond:06d}").replace(" ", "0").zfill(26)[-26:]


def test_zones_and_fractions():
    for since, begin in [("2000-01-01 00:00 +02:00", "1999-12-31T22:00"), ("2000-01-01T00:00:00-0130", "2000-01-01T01:30"), ("2000-01-01 00:00:00.5", "2000-01-01T00:00:00.5"),
                         ("2000-1-1 3", "2000-01-01T03")]:
        assert coordinate_of([0], "t", {"units": f"hours since {since}"}).values[0] == np.datetime64(begin)
    assert coordinate_of(np.array([1_500]), "t", {"units": "nanoseconds since 2000-01-01"}).values[0] == np.datetime64("2000-01-01T00:00:00.000001")
    assert coordinate_of(np.array([3]), "t", {"units": "m", "scale_factor": 0.5, "add_offset": 1}).values.tolist() == [2.5]


@pytest.mark.parametrize(("values", "about", "says"), [
    ([1, 2], {"units": "months since 2000-01-01"}, "months"), ([1], {"units": "days since 2000-13-01"}, "2000-13-01"), ([1], {"units": "days since"}, "days since"),
    ([1], {"units": "days since 2000-01-01", "calendar": "mayan"}, "mayan"), ([1], {"units": "days since 2001-02-29", "calendar": "noleap"}, "noleap"),
    (np.array([np.datetime64("NaT", "ns")]), {}, "index 0"), (np.array([1e30]), {"units": "seconds since 2000-01-01"}, "64 bits"), (np.array([1 << 63], "<u8"), {"units": "ns since 2000-01-01"}, "64 bits"),
    (np.array([np.inf]), {"units": "seconds since 2000-01-01"}, "64 bits"), ([[1]], {}, "2 dimensions"), (np.array([1j]), {}, "complex128"), ([None, "a"], {}, "other than numbers"),
])
def test_what_cannot_be_told_is_refused(values, about, says):
    with pytest.raises(headrace.InvalidArgumentError, match=f"coordinate 'time' of 'x'.*{says}"):
        coordinate_of(values, "'time' of 'x'", about)


def test_labels_that_cannot_be_compared_are_shown_as_they_are(tmp_path):
    """Nothing aligns by these coordinates, so they do not prevent loading."""
    times = np.array(["2001-01-01", "NaT", "2001-01-03"], "datetime64[ns]")
    array = xr.DataArray(np.arange(3.0), dims=["time"], coords={"time": times}, name="a")
    loader = headrace.Loader(array, input_dims={"time": 3})
    assert np.array_equal(loader.coordinates(0)["time"], times, equal_nan=True)
    with pytest.raises(headrace.InvalidArgumentError, match="no value at index 1"):
        headrace.Loader({"a": array, "b": array}, input_dims={"time": 1}, align={"time": "equal"})
    stacked = xr.Dataset({"a": (("x", "y"), np.zeros((2, 3)))}, coords={"x": [1, 2], "y": [1, 2, 3]}).stack(point=("x", "y"))
    assert headrace.Loader(stacked, input_dims={"point": 2}).samples == 3
    plain = headrace.Loader({"a": array}, input_dims={"time": 1}, align={"time": "nearest"})  # nothing to align with
    assert pickle.loads(pickle.dumps(plain)).samples == 3


def test_stores_that_xarray_reads_otherwise(tmp_path):
    """ZIP files, stores in memory, and groups inside stores."""
    import zarr

    ds = xr.Dataset({"t": (("time", "x"), np.arange(12.0).reshape(6, 2))}, coords={"time": np.arange(6)})
    memory = zarr.storage.MemoryStore()
    ds.to_zarr(memory, consolidated=False)
    with zarr.storage.ZipStore(tmp_path / "s.zip", mode="w") as packed:
        ds.to_zarr(packed, consolidated=False)
    ds.to_zarr(tmp_path / "s.zarr", group="inner/deep", consolidated=False)
    for opened in [xr.open_zarr(memory, chunks=None, consolidated=False), xr.open_zarr(zarr.storage.ZipStore(tmp_path / "s.zip", mode="r"), consolidated=False),
                   xr.open_zarr(tmp_path / "s.zarr", group="inner/deep", chunks=None, consolidated=False),
                   xr.open_dataset(tmp_path / "s.zarr", group="inner/deep", engine="headrace")]:
        loader = headrace.Loader(opened.isel(time=slice(1, None)) if opened["t"].chunks is None else opened, input_dims={"time": 5})
        first = 1 if opened["t"].chunks is None else 0
        assert np.array_equal(next(iter(loader))["t"].numpy()[0], ds["t"].values[first:first + 5])


def test_a_window_larger_than_what_is_there_has_its_own_error():
    one, other = np.zeros((5, 1)), np.zeros((4, 1))
    options = {"dims": ["time", "x"], "align": {"time": "equal"}, "missing": "drop", "coordinates": {"time": {"a": np.arange(5), "b": np.arange(1, 5)}}}
    with pytest.raises(headrace.InvalidArgumentError, match="a window of 6 elements, but it has 5"):
        headrace.Loader({"a": one, "b": other}, input_dims={"time": 6}, **options)
    assert headrace.Loader({"a": one, "b": other}, input_dims={"time": 2}, **options).samples == 1
