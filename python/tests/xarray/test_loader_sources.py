"""xarray objects and lists of arrays as sources of a Loader: samples equal what the objects show, and are read from their store."""

import pickle

import numpy as np
import pytest
import xarray as xr

import headrace

TIMES = np.arange("2001-01-28", "2001-02-17", dtype="datetime64[D]").astype("datetime64[ns]")


@pytest.fixture(params=[2, 3])
def store(tmp_path, request):
    random = np.random.default_rng(3)
    ds = xr.Dataset(
        {"t": (("time", "level", "y", "x"), random.integers(-300, 300, (20, 3, 4, 5)).astype("f4") / 10), "z": (("time", "y"), random.standard_normal((20, 4)).astype("f4")),
         "flat": (("y",), np.arange(4.0))},
        coords={"time": TIMES, "level": [1000, 500, 250], "y": np.linspace(10, 13, 4)})
    packed = {"dtype": "i2", "scale_factor": 0.1, "add_offset": 1.0, "_FillValue": -999, "chunks": (3, 2, 4, 5)}
    ds["t"][2, 1] = np.nan
    ds.to_zarr(tmp_path / "s.zarr", encoding={"t": packed, "z": {"chunks": (4, 4)}}, zarr_format=request.param, consolidated=False)
    return tmp_path / "s.zarr"


@pytest.fixture(params=["headrace", "zarr", "dask"])
def ds(store, request):
    engine = {"headrace": {"engine": "headrace"}, "zarr": {"engine": "zarr"}, "dask": {"engine": "headrace", "chunks": {}}}[request.param]
    return xr.open_dataset(store, consolidated=False, **engine)


def check(loader, expected, dims):
    """Windows of 3 along time hold what the object shows."""
    seen = 0
    for batch in loader:
        for place, sample in enumerate(batch.samples):
            for name, array in expected.items():
                wanted = array.isel(time=slice(3 * sample, 3 * sample + 3))
                got = batch[name].numpy()[place]
                assert got.shape == wanted.shape and got.dtype == wanted.dtype
                np.testing.assert_array_equal(got, wanted.values)
                told = loader.coordinates(sample, array=name)
                assert set(told) == {dim for dim in wanted.dims if dim in wanted.coords}
                for dim, values in told.items():
                    np.testing.assert_array_equal(values, wanted[dim].values)
            seen += 1
    assert seen == loader.samples > 0
    assert loader.where(0)["time"].tolist() == dims


def test_a_dataset_is_what_its_path_is(store, ds):
    """Without decoding, a dataset gives the same samples as its path."""
    raw = xr.open_dataset(store, engine="headrace", mask_and_scale=False, consolidated=False)
    options = {"input_dims": {"time": 3}, "batch_size": 2, "shuffle": True, "seed": 5}
    by_path, by_object = headrace.Loader(store, **options), headrace.Loader(raw, **options)
    assert by_path.samples == by_object.samples == 6
    for one, other in zip(by_path, by_object, strict=True):
        assert one.samples == other.samples and sorted(one) == ["t", "time", "z"] and sorted(other) == ["t", "z"]
        for name in other:
            assert np.array_equal(one[name].numpy(), other[name].numpy())
    check(headrace.Loader(ds, **options), {"t": ds["t"], "z": ds["z"]}, [0, 1, 2])
    check(headrace.Loader(ds["t"], **options), {"t": ds["t"]}, [0, 1, 2])
    check(headrace.Loader([ds["z"], ds["t"]], **options), {"t": ds["t"], "z": ds["z"]}, [0, 1, 2])
    assert next(iter(headrace.Loader(ds["t"], **options, dtype="float32")))["t"].dtype == np.float32


@pytest.mark.parametrize("engine", ["headrace", "zarr"])
def test_what_was_selected_is_read_so(store, engine):
    ds = xr.open_dataset(store, engine=engine, consolidated=False)
    options = {"input_dims": {"time": 3}, "batch_size": 2, "shuffle": True}
    later = ds.sel(time=slice("2001-02-01", "2001-02-12"))
    check(headrace.Loader(later, **options), {"t": later["t"], "z": later["z"]}, [4, 5, 6])
    other = ds["t"].isel(time=slice(18, 3, -2), level=[2, 0], x=[0, 4, 4, 1])
    check(headrace.Loader(other, **options), {"t": other}, [18, 16, 14])
    one = ds["t"].isel(time=slice(1, None)).isel(level=1).isel(time=slice(0, 12, 2), y=slice(1, 3))
    loader = headrace.Loader({"one": one, "z": ds["z"].isel(time=slice(1, 13, 2))}, **options)
    assert next(iter(loader))["one"].shape == (2, 3, 2, 5)
    check(loader, {"one": one}, [1, 3, 5])
    stacked = headrace.Loader({"a": one, "b": one}, stack="all", channels_last=True, **options)
    for batch in stacked:
        for place, sample in enumerate(batch.samples):
            np.testing.assert_array_equal(batch["all"].numpy()[place, ..., 1], one.isel(time=slice(3 * sample, 3 * sample + 3)).values)
    copy = pickle.loads(pickle.dumps(loader))
    check(copy, {"one": one}, [1, 3, 5])
    renamed = ds["t"].rename(time="t0", y="lat").isel(t0=slice(0, 4))
    assert next(iter(headrace.Loader(renamed, input_dims={"t0": 2, "lat": 4})))["t"].shape == (1, 2, 3, 4, 5)


def test_selections_that_disagree_are_refused_without_align(store):
    ds = xr.open_dataset(store, engine="headrace", consolidated=False)
    pair = {"x": ds["z"].isel(time=slice(0, 19)), "y": ds["z"].isel(time=slice(1, 20))}
    with pytest.raises(headrace.InvalidArgumentError, match="disagree along 'time': at index 0, .*'x'.* has 2001-01-28.*'y'.* has 2001-01-29"):
        headrace.Loader(pair, input_dims={"time": 1})
    batch = next(iter(headrace.Loader(pair, input_dims={"time": 1}, align={"time": "position"})))
    np.testing.assert_array_equal(batch["y"].numpy()[0], ds["z"].isel(time=slice(1, 2)).values)
    assert headrace.Loader({"x": ds["z"], "path": headrace.open(store)["z"]}, input_dims={"time": 1}).samples == 20


def test_what_is_in_memory_is_copied(store, ds):
    options = {"input_dims": {"time": 3}, "batch_size": 2, "shuffle": True}
    anomaly = (ds["t"] - ds["t"].mean("time")).compute()
    check(headrace.Loader({"anomaly": anomaly, "t": ds["t"]}, **options), {"anomaly": anomaly, "t": ds["t"]}, [0, 1, 2])
    loaded = ds["z"].load().transpose("y", "time")
    batch = next(iter(headrace.Loader(loaded, input_dims={"time": 3})))
    np.testing.assert_array_equal(batch["z"].numpy()[0], loaded.values[:, :3])
    mask = np.arange(20) % 3 == 0
    batch = next(iter(headrace.Loader({"mask": mask, "z": ds["z"]}, dims={"mask": ["time"]}, input_dims={"time": 3})))
    assert batch["mask"].numpy()[0].tolist() == [True, False, False]
    copy = pickle.loads(pickle.dumps(headrace.Loader({"mask": mask}, dims={"mask": ["time"]}, input_dims={"time": 20})))
    assert np.array_equal(next(iter(copy))["mask"].numpy()[0], mask)


def test_objects_are_aligned_by_their_own_coordinates(store, ds):
    calendar = xr.date_range("2001-01-01", periods=60, freq="D", calendar="noleap", use_cftime=True)
    other = xr.DataArray(np.arange(60.0), dims=["time"], coords={"time": TIMES[0] + np.arange(-20, 40) * np.timedelta64(12, "h")}, name="index")
    loader = headrace.Loader([ds["z"], other], input_dims={"time": 2}, align={"time": "equal"}, batch_size=3)
    for batch in loader:
        for place, sample in enumerate(batch.samples):
            times = loader.coordinates(sample, array="index")["time"]
            assert (times == TIMES[2 * sample:2 * sample + 2]).all()
            np.testing.assert_array_equal(batch["index"].numpy()[place], other.sel(time=times).values)
    with pytest.raises(headrace.InvalidArgumentError, match="noleap"):
        headrace.Loader([ds["z"], other.assign_coords(time=calendar)], input_dims={"time": 2}, align={"time": "equal"})
    both = other.assign_coords(time=calendar)
    loader = headrace.Loader({"a": both, "b": both.isel(time=slice(None, None, -1))}, input_dims={"time": 2}, align={"time": "equal"})
    assert loader.coordinates(3, array="b")["time"].tolist() == calendar[6:8].tolist()


def test_what_cannot_be_read_is_refused_by_name(store, ds):
    lazy = xr.open_dataset(store, engine="zarr", consolidated=False)
    chunked = xr.open_dataset(store, engine="zarr", consolidated=False, chunks={})
    times = lazy.assign(age=lazy["time"] - lazy["time"][0])
    points = xr.DataArray([0, 1], dims="point")
    for source, says in [
            (chunked["t"] + 1, "source 't': a dask array with operations"), (chunked["t"].isel(time=slice(3)), "with operations"),
            (lazy["t"].isel(x=points, y=points), "'t': selected by points"), (lazy["t"].transpose("x", ...), "points or transposed"),
            (times["age"], "timedelta64"), (lazy.drop_vars(["t", "z"]), "no variable of the dataset"), ([lazy["t"], lazy["t"]], "two arrays are called 't'"),
            ({"t": 3}, r"source\['t'\] is a int"), ([], "no array"), (np.zeros((3, 4)), "'data'.*dims="), (np.array(["a"]), "data")]:
        with pytest.raises(headrace.InvalidArgumentError, match=says):
            headrace.Loader(source, input_dims={"time": 2})
    with pytest.raises(headrace.InvalidArgumentError, match="<U1"):
        headrace.Loader(np.array(["a"]), dims=["time"], input_dims={"time": 1})
