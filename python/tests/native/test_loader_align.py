"""Arrays matched by coordinates: each sample holds what looking up its coordinates one by one gives."""

import datetime
import itertools
import pickle

import native_stores as stores
import numpy as np
import pytest

import headrace

RANDOM = np.random.default_rng(11)
DAYS = {"units": "days since 2001-03-01", "calendar": "standard"}


def write_store(path, name, data, dims, coordinates, attributes=None, chunks=None):
    """Writes a group with one array and coordinates of some of its dimensions; a coordinate may be (values, attributes)."""
    stores.write_group(path)
    stores.write(path / name, data, chunks or tuple(min(3, size) for size in data.shape), attributes={"_ARRAY_DIMENSIONS": dims, **(attributes or {})})
    for dim, values in coordinates.items():
        values, about = values if isinstance(values, tuple) else (values, {})
        values = np.asarray(values)
        stores.write(path / dim, values, values.shape, attributes={"_ARRAY_DIMENSIONS": [dim], **about}, fill=None)
    return headrace.open(path)[name]


def unlike(*shape):
    return RANDOM.integers(1, 1 << 30, shape).astype("<i8")


def looked_up(values, keys, wanted, tolerance=None):
    """For each of `wanted` the row of `values` with the nearest of `keys`, None if it is too far; looked up one by one."""
    out = []
    for key in wanted:
        best = min(range(len(keys)), key=lambda i: (abs(keys[i] - key), keys[i]))
        out.append(None if tolerance is not None and abs(keys[best] - key) > tolerance else values[best])
    return out


def test_equal_coordinates_whatever_their_order(tmp_path):
    times = np.arange(20)
    other_times = RANDOM.permutation(np.arange(-5, 30))
    field, stations = unlike(20, 4, 6), unlike(35, 3)
    a = write_store(tmp_path / "a", "field", field, ["time", "lat", "lon"], {"time": (times.astype("<i8"), DAYS)})
    # The same days, as hours since another date.
    b = write_store(tmp_path / "b", "obs", stations, ["time", "station"],
                    {"time": ((other_times * 24.0 + 59 * 24), {"units": "hours since 2001-01-01 00:00:00", "calendar": "proleptic_gregorian"})})
    loader = headrace.Loader({"field": a, "obs": b}, input_dims={"time": 3}, input_overlap={"time": 2}, align={"time": "equal"}, batch_size=4, shuffle=True)
    assert loader.samples == 18
    row = {time: place for place, time in enumerate(other_times)}
    for batch in loader:
        for place, sample in enumerate(batch.samples):
            assert np.array_equal(batch["field"].numpy()[place], field[sample:sample + 3])
            rows = [row[time] for time in range(sample, sample + 3)]
            assert np.array_equal(batch["obs"].numpy()[place], stations[rows])
            assert loader.where(sample, array="obs")["time"].tolist() == rows
            for name in ("field", "obs"):
                seen = loader.coordinates(sample, array=name)
                assert list(seen) == ["time"]
                assert (seen["time"] == np.datetime64("2001-03-01") + np.arange(sample, sample + 3)).all()


@pytest.mark.parametrize("boundary", ["drop", "pad", "wrap"])
@pytest.mark.parametrize("stride", [1, 2])
def test_missing_drop_leaves_out_exactly_the_samples_that_need_it(tmp_path, boundary, stride):
    field, other = unlike(23, 2), unlike(23, 2)
    has = np.array([time not in (3, 4, 11, 22) for time in range(23)])
    a = write_store(tmp_path / "a", "a", field, ["time", "x"], {"time": np.arange(23)})
    b = write_store(tmp_path / "b", "b", other[has], ["time", "x"], {"time": np.flatnonzero(has)})
    options = {"input_dims": {"time": 5}, "input_stride": {"time": stride}, "boundary": boundary, "padding": -1}
    for outputs in (None, {"x": {"time": slice(0, 2)}, "y": {"time": 4}}):
        plain = headrace.Loader(a, **options, outputs=outputs)
        used = [0, 1, 4] if outputs else range(5)
        windows = [plain.where(sample, output=output)["time"] for sample in range(plain.samples) for output in [None]]
        begins = [window[0] for window in windows]
        wanted = [begin for begin in begins
                  if all(has[(begin + at) % 23] if boundary == "wrap" else begin + at >= 23 or has[begin + at] for at in used)]
        loader = headrace.Loader({"a": a, "b": b}, **options, outputs=outputs, align={"time": "equal"}, missing="drop", shuffle="block", block_groups=2)
        assert 0 < loader.samples == len(wanted) < len(begins)
        assert [loader.where(sample)["time"][0] for sample in range(loader.samples)] == wanted
        seen = 0
        for batch in loader:
            sample = batch.samples[0]
            for name, tensor in batch.items():
                source, _, output = name.partition("/")
                at = loader.where(sample, array="a", output=output or None)["time"]
                data = field if source == "a" else other
                assert np.array_equal(tensor.numpy()[0], np.where(at[:, None] >= 0, data[at], -1)), (name, sample)
            seen += 1
        assert seen == loader.samples


def test_missing_pad_and_nearest_with_a_tolerance(tmp_path):
    hours, days = np.arange(100.0), np.array([30.0, 54.0, 6.0])
    hourly, daily = unlike(100, 2), unlike(3, 2)
    a = write_store(tmp_path / "a", "hourly", hourly, ["time", "x"], {"time": (hours, {"units": "hours since 2020-02-28"})})
    b = write_store(tmp_path / "b", "daily", daily, ["time", "x"], {"time": (days * 3600, {"units": "seconds since 2020-02-28"})})
    for tolerance, limit in [(None, None), ("12 hours", 12), (np.timedelta64(90, "m"), 1.5), (datetime.timedelta(hours=2), 2), ({"time": "0 s"}, 0)]:
        loader = headrace.Loader({"hourly": a, "daily": b}, input_dims={"time": 10}, align={"time": "nearest"}, tolerance=tolerance, missing="pad",
                                 padding=-7, dtype="float64", batch_size=3, tail="pad")
        wanted = looked_up(daily, days, hours, limit)
        assert any(row is None for row in wanted) == (limit is not None)
        for batch in loader:
            for place, sample in enumerate(batch.samples):
                rows = [[-7, -7] if row is None else row.tolist() for row in wanted[10 * sample:10 * sample + 10]]
                assert batch["daily"].numpy()[place].tolist() == rows
        told = loader.coordinates(3, array="daily")["time"]
        nearest = looked_up(days, days, hours, limit)[30:40]
        for time, day in zip(told, nearest, strict=True):
            assert np.isnat(time) if day is None else time == np.datetime64("2020-02-28") + np.timedelta64(int(day), "h")


def test_dimensions_without_windows_are_matched_too(tmp_path):
    """Grids in opposite order, one with more points: samples contain the common points, for any number of arrays."""
    lat, lon = np.linspace(-30, 30, 7), np.arange(0.0, 12.0)
    field = unlike(4, 7, 12)
    a = write_store(tmp_path / "a", "a", field, ["time", "lat", "lon"], {"lat": lat, "lon": lon.astype("<f4")})
    other = unlike(4, 9, 10)
    lat_b, lon_b = np.linspace(40, -40, 9), np.arange(1.0, 11.0)
    b = write_store(tmp_path / "b", "b", other, ["time", "lat", "lon"], {"lat": lat_b, "lon": lon_b})
    third = unlike(4, 6)
    c = write_store(tmp_path / "c", "c", third, ["time", "lon"], {"lon": np.arange(11.0, 5.0, -1.0)})
    loader = headrace.Loader({"a": a, "b": b, "c": c}, input_dims={"time": 1}, align={"lat": "equal", "lon": "equal"}, missing="drop")
    common = [value for value in lon if 6 <= value <= 10]
    for batch in loader:
        sample = batch.samples[0]
        assert batch["a"].shape == batch["b"].shape == (1, 1, 7, 5) and batch["c"].shape == (1, 1, 5)
        for name, data, lats, lons in [("a", field, lat, lon), ("b", other, lat_b, lon_b)]:
            rows = [int(np.flatnonzero(np.isclose(lats, value))[0]) for value in lat]
            columns = [int(np.flatnonzero(lons == value)[0]) for value in common]
            assert np.array_equal(batch[name].numpy()[0, 0], data[sample][np.ix_(rows, columns)])
        assert np.array_equal(batch["c"].numpy()[0, 0], third[sample][[int(11 - value) for value in common]])
        assert np.array_equal(loader.coordinates(sample, array="b")["lat"], lat)


def test_several_samples_may_have_one_partner(tmp_path):
    """Observations at repeated times, each with the field of its time; text coordinates."""
    field, obs = unlike(5, 3), unlike(8, 1)
    names = np.array(["e", "a", "d", "b", "c"])
    wanted = np.array(["a", "a", "b", "e", "d", "c", "c", "a"])
    a = stores.write(tmp_path / "field", field, (2, 3), attributes={"_ARRAY_DIMENSIONS": ["site", "x"]})
    b = stores.write(tmp_path / "obs", obs, (3, 1), attributes={"_ARRAY_DIMENSIONS": ["site", "y"]})
    loader = headrace.Loader({"obs": headrace.open(b), "field": headrace.open(a)}, input_dims={"site": 1}, align={"site": "equal"},
                             coordinates={"site": {"obs": wanted, "field": names}})
    for batch in loader:
        sample = batch.samples[0]
        assert np.array_equal(batch["field"].numpy()[0, 0], field[list(names).index(wanted[sample])])
        assert loader.coordinates(sample, array="field")["site"].tolist() == [wanted[sample]]


def test_states_and_pickles_know_the_alignment(tmp_path):
    a = write_store(tmp_path / "a", "a", unlike(12, 2), ["time", "x"], {"time": np.arange(12)})
    b = write_store(tmp_path / "b", "b", unlike(12, 2), ["time", "x"], {"time": np.arange(11, -1, -1)})
    memory = unlike(12, 2)

    def loader(**options):
        return headrace.Loader({"a": a, "b": b, "m": memory}, dims={"m": ["time", "x"]}, input_dims={"time": 2}, shuffle=True, seed=4,
                               coordinates={"time": {"m": np.arange(12)}}, **options)

    one = loader(align={"time": "equal"})
    batches = iter(one)
    next(batches), next(batches)
    copy = pickle.loads(pickle.dumps(one))
    for mine, its in zip(batches, copy, strict=True):
        assert mine.samples == its.samples
        assert all(np.array_equal(mine[name].numpy(), its[name].numpy()) for name in ("a", "b", "m"))
    with pytest.raises(headrace.InvalidArgumentError, match="different: 'samples of b'"):
        loader(align={"time": "position"}).load_state_dict(one.state_dict())


def test_stores_that_disagree_are_refused_without_align(tmp_path):
    times = np.arange(10)
    a = write_store(tmp_path / "a", "a", unlike(10, 2), ["time", "x"], {"time": (times, DAYS)})
    for number, (other, says) in enumerate([
            (np.r_[0:4, 5:11], r"at index 4, 'time' of 'a' \(.*/a\) has 2001-03-05T00:00:00.000000 and 'time' of 'b' \(.*/b\) has 2001-03-06"),
            (np.arange(9), r"at index 9, .* has 2001-03-10T00:00:00.000000 and .* ends"), (np.arange(12), r"at index 10, .*'a'.* ends")]):
        b = write_store(tmp_path / f"{number}" / "b", "b", unlike(len(other), 2), ["time", "x"], {"time": (other, DAYS)})
        with pytest.raises(headrace.InvalidArgumentError, match=f"disagree along 'time': {says}"):
            headrace.Loader({"a": a, "b": b}, input_dims={"time": 1})
        if len(other) == 10:
            assert headrace.Loader({"a": a, "b": b}, input_dims={"time": 1}, align={"time": "position"}).samples == 10
    same = write_store(tmp_path / "same", "b", unlike(10, 2), ["time", "x"], {"time": (times * 24, {"units": "hours since 2001-03-01"})})
    assert headrace.Loader({"a": a, "b": same}, input_dims={"time": 1}).samples == 10
    unknown = write_store(tmp_path / "unknown", "b", unlike(10, 2), ["time", "x"], {"time": (times, {"units": "fortnights since 2001-03-01"})})
    assert headrace.Loader({"a": a, "b": unknown}, input_dims={"time": 1}).samples == 10  # no alignment was requested


def test_refusals_name_parameter_store_and_place(tmp_path):
    times = np.arange(6)
    a = write_store(tmp_path / "a", "a", unlike(6, 2), ["time", "x"], {"time": (times, DAYS)})
    number = itertools.count()

    def refused(match, values=times, about=DAYS, source=None, **options):
        values = np.asarray(values)
        folder = tmp_path / f"b{next(number)}"
        b = write_store(folder, "b", unlike(len(values), 2), ["time", "x"], {"time": (values, about)})
        with pytest.raises(headrace.InvalidArgumentError, match=match):
            headrace.Loader(source or {"a": a, "b": b}, **{"input_dims": {"time": 2}, "align": {"time": "equal"}, **options})

    refused(r"'time' of 'a' .* has 2001-03-05T00:00:00.000000 at index 4, and 'time' of 'b' \(.*b0\) has no match; missing='drop'", np.arange(4))
    refused("no match within the tolerance", np.arange(4), align={"time": "nearest"}, tolerance="1 h")
    refused(r"missing='drop': no window of 2 along 'time' is in all of them \('time' of 'a' .*: 2001-03-01.* to 2001-03-06.*; .*: 2001-03-21", times + 20, missing="drop")
    refused("has 2001-03-03T00:00:00.000000 twice, at indices 1 and 2", [0, 2, 2, 3, 4, 5])
    refused("no value at index 3", [0, 1, 2, np.nan, 4, 5])
    refused("no value at index 2", [0, 1, -9, 3, 4, 5], {**DAYS, "_FillValue": -9})
    refused("units 'fortnights since 2001-01-01'", about={"units": "fortnights since 2001-01-01"})
    refused("units 'days since the flood'", about={"units": "days since the flood"})
    refused("2001-02-30", about={"units": "days since 2001-02-30"})
    refused("beyond what microseconds", [0, 1, 2, 3, 4, 1 << 60])
    refused("of 'b' .* holds numbers, and .* times", about={})
    refused("align: there is no dimension 'level'; dimensions: 'time', 'x'", align={"level": "equal"})
    refused("no one-dimensional coordinate 'x'.*coordinates=", align={"x": "equal"})
    refused("align\\['time'\\] = 'near'", align={"time": "near"})
    refused("align is a str", align="equal")
    refused("missing = 'skip'", missing="skip")
    refused("tolerance = 3.*timedelta", align={"time": "nearest"}, tolerance=3)
    refused("tolerance = 'soon'", align={"time": "nearest"}, tolerance="soon")
    refused("tolerance = .*-1", align={"time": "nearest"}, tolerance=np.timedelta64(-1, "h"))
    refused("coordinates: there is no dimension 'level'", coordinates={"level": times})
    refused("there is no array 'c'", coordinates={"time": {"c": times}})
    refused("3 values, and array 'a' has 6", coordinates={"time": {"a": [1, 2, 3]}})
    refused("has 2 dimensions", coordinates={"time": {"a": np.zeros((6, 1))}})
    refused("values other than numbers, times and text", coordinates={"time": {"a": np.array([object()] * 6)}})
    refused("concat_input_dims", [0, 1, 2, 3, 5], missing="drop", concat_input_dims=True, batch_dims={"time": 4})
    refused("no nearest match", align={"time": "nearest"}, coordinates={"time": list("abcdef")})
    refused("align\\['time'\\] = None", align={"time": None})
    refused("no one-dimensional coordinate 'time'", source={"a": a, "b": unlike(6, 2)}, dims={"b": ["time", "x"]})


def test_windows_begin_where_a_list_says(tmp_path):
    data = unlike(20, 3)
    array = stores.write(tmp_path / "a", data, (4, 3), attributes={"_ARRAY_DIMENSIONS": ["time", "x"]})
    loader = headrace.Loader(array, input_dims={"time": 4}, input_starts={"time": [1, 2, 9, 16]}, shuffle="block", block_groups=2)
    seen = {batch.samples[0]: batch["a"].numpy()[0] for batch in loader}
    assert all(np.array_equal(seen[sample], data[begin:begin + 4]) for sample, begin in enumerate([1, 2, 9, 16])) and len(seen) == 4
    for starts, says in [({"time": [3, 2]}, "ascend"), ({"time": [17]}, "17"), ({"x": [0]}, "'x'"), ({"time": []}, "no window"), ([1], "input_starts: give"),
                         ({"time": [-1]}, "input_starts"), ({"time": [1.5]}, "input_starts")]:
        with pytest.raises(headrace.InvalidArgumentError, match=says):
            headrace.Loader(array, input_dims={"time": 4}, input_starts=starts)
