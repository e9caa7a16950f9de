"""Engine "headrace" opens the same dataset as engine "zarr", with all decoding options."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zoo
from equality import assert_same, assert_same_variable

from headrace.xarray import _dataset

DATA = Path(__file__).resolve().parents[3] / "tests" / "data"
STORES = [(2, True), (2, False), (3, True), (3, False)]


@pytest.fixture(scope="module")
def zoos(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, bool], Path]:
    root = tmp_path_factory.mktemp("zoos")
    paths = {}
    for zarr_format, consolidated in STORES:
        paths[zarr_format, consolidated] = root / f"v{zarr_format}-{consolidated}.zarr"
        zoo.write_zoo(paths[zarr_format, consolidated], zarr_format, consolidated=consolidated)
    return paths


OPTIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "nothing decoded": {"decode_cf": False},
    "not masked": {"mask_and_scale": False},
    "some masked": {"mask_and_scale": {"packed": False, "unsigned": False}},
    "times as numbers": {"decode_times": False, "decode_timedelta": False},
    "times of a unit": {"decode_times": xr.coders.CFDatetimeCoder(time_unit="s")},
    # Excludes the variable whose missing time is outside cftime's range.
    "times as cftime": {"decode_times": xr.coders.CFDatetimeCoder(use_cftime=True), "drop_variables": "time_holes"},
    "durations only": {"decode_times": False, "decode_timedelta": True},
    "durations as numbers": {"decode_timedelta": False},
    "durations by a coder": {"decode_timedelta": xr.coders.CFTimedeltaCoder(time_unit="s")},
    "characters": {"concat_characters": False},
    "coordinates not decoded": {"decode_coords": False},
    "all coordinates": {"decode_coords": "all"},
    "dropped": {"drop_variables": ["packed", "row", "latitude"]},
    "dropped one": {"drop_variables": "mapped"},
    "no indexes": {"create_default_indexes": False},
    "explicit format and root": {"group": "/"},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zoo_is_the_same(zoos: Any, open_both: Any, zarr_format: int, options: dict[str, Any]) -> None:
    theirs, ours = open_both(zoos[zarr_format, True], **options)
    assert_same(theirs, ours)


@pytest.mark.parametrize("consolidated", [True, False, None])
@pytest.mark.parametrize("store", STORES, ids=str)
def test_choice_of_consolidated_metadata(zoos: Any, engine: Any, open_both: Any, store: Any, consolidated: Any) -> None:
    if consolidated and not store[1]:
        with pytest.raises(ValueError, match="consolidated"):
            xr.open_dataset(zoos[store], engine=engine, consolidated=True)
        return
    theirs, ours = open_both(zoos[store], consolidated=consolidated, zarr_format=store[0])
    assert_same(theirs, ours, values=False)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_parts_of_the_zoo_are_the_same(zoos: Any, open_both: Any, zarr_format: int) -> None:
    # Stored chunks, missing chunks, and both; steps; single elements; empty selections.
    parts: list[dict[str, Any]] = [{"row": 0}, {"row": slice(3, 7, 2), "column": 2}, {"row": [6, 0, 0]}]
    parts += [{"row": slice(5, None)}, {"column": slice(0, 0)}]
    for part in parts:
        theirs, ours = open_both(zoos[zarr_format, True], cache=False)
        selected = [dataset.isel(part) for dataset in (theirs, ours)]
        for name in zoo.PACKED:
            assert_same_variable(selected[0].variables[name], selected[1].variables[name], name)


def test_decoding_is_part_of_the_read_where_it_can_be(zoos: Any, engine: Any) -> None:
    # Fails if xarray renames the functions that _convert looks for.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v2 = xr.open_dataset(zoos[2, True], engine=engine, cache=False)
        v3 = xr.open_dataset(zoos[3, True], engine=engine, cache=False)
    # A mask value that differs from the array's fill value or equals it; arithmetic that headrace reproduces exactly.
    fused = {"packed", "packed_same_fill", "scaled", "scale_list", "packed_int32", "big_endian_packed"}
    fused |= {"masked_int16", "masked_float32"}
    # Two mask values, a reinterpretation, integer arithmetic, or nothing to decode.
    not_fused = {"missing_values", "unsigned", "scale_integer", "plain_float", "masked_int64", "scaled_down"}
    for dataset in (v2, v3):
        found = {name for name in zoo.PACKED if _dataset.is_fused(dataset.variables[name])}
        assert fused <= found
        assert not not_fused & found
    assert _dataset.is_fused(v3.variables["masked_int16_other"])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_fill_value_of_the_array_as_mask_or_not(tmp_path: Path, engine: Any, zarr_format: int) -> None:
    path = tmp_path / "a.zarr"
    xr.Dataset({"x": ("n", np.array([1, 2, 3], "i4"))}).to_zarr(
        path, zarr_format=zarr_format, encoding={"x": {"_FillValue" if zarr_format == 2 else "fill_value": 2}}
    )
    masked = xr.open_dataset(path, engine=engine, use_zarr_fill_value_as_mask=True)["x"]
    np.testing.assert_array_equal(masked.values, [1.0, np.nan, 3.0])
    plain = xr.open_dataset(path, engine=engine, use_zarr_fill_value_as_mask=False)["x"]
    assert plain.dtype == np.int32
    np.testing.assert_array_equal(plain.values, [1, 2, 3])


def written_by_xarray() -> xr.Dataset:
    random = np.random.default_rng(3)
    times = xr.date_range("2001-02-25", periods=6, freq="D", calendar="noleap", use_cftime=True)
    return xr.Dataset(
        {
            "temperature": (("time", "x", "y"), random.standard_normal((6, 5, 4)), {"units": "K"}),
            "counts": (("x", "y"), random.integers(0, 9, (5, 4), dtype="u1")),
            "name": ("x", np.array(["α", "b", "cc", "", "eeeee"], dtype=object)),
            "letters": ("x", np.array([b"a", b"b", b"cc", b"", b"d"])),
            "started": ("x", pd.to_datetime(["2000-01-01", "NaT", "2000-01-03", "1999-12-31", "2020-02-29"])),
            "lasted": ("x", pd.to_timedelta([1, 2, 3, None, 5], unit="h")),
            "yes": (("x", "y"), random.random((5, 4)) > 0.5),
            "calendar_time": ("time", times),
            "none": ((), 1.5),
        },
        coords={
            "time": pd.date_range("2000-01-01", periods=6),
            "x": np.arange(5) * 10.0,
            "label": ("y", list("abcd")),
            "area": (("x", "y"), random.random((5, 4))),
        },
        attrs={"history": "made", "numbers": [1, 2.5], "nothing": None},
    )


ENCODINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "packed": {"temperature": {"dtype": "i2", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": -9999}},
    "chunks": {"temperature": {"chunks": (4, 2, 3)}, "area": {"chunks": (2, 2)}},
    "units": {"time": {"units": "hours since 1990-01-01", "dtype": "f8"}},
}


@pytest.mark.parametrize("encoding", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_what_xarray_writes(tmp_path: Path, open_both: Any, zarr_format: Any, encoding: Any) -> None:
    path = tmp_path / "written.zarr"
    original = written_by_xarray()
    original.to_zarr(path, zarr_format=zarr_format, encoding=encoding)
    theirs, ours = open_both(path)
    assert_same(theirs, ours)
    if zarr_format == 2:  # zarr-python cannot write what it read: fixed-width text with the filter vlen-utf8
        theirs, ours = theirs.drop_vars("name"), ours.drop_vars("name")
    # Written again with the encoding that was read, it is identical on disk.
    ours.to_zarr(tmp_path / "ours.zarr", zarr_format=zarr_format)
    theirs.to_zarr(tmp_path / "theirs.zarr", zarr_format=zarr_format)
    assert documents(tmp_path / "ours.zarr") == documents(tmp_path / "theirs.zarr")


@pytest.mark.filterwarnings("ignore")
def test_shards_and_codecs_survive_a_round_trip(tmp_path: Path, open_both: Any) -> None:
    from zarr.codecs import ZstdCodec

    path = tmp_path / "sharded.zarr"
    encoding = {"v": {"chunks": (2, 3), "shards": (4, 6), "compressors": (ZstdCodec(level=5),)}}
    xr.Dataset({"v": (("a", "b"), np.arange(96.0).reshape(8, 12))}).to_zarr(path, zarr_format=3, encoding=encoding)
    theirs, ours = open_both(path)
    assert_same(theirs, ours)
    assert ours["v"].encoding["shards"] == (4, 6)
    ours.to_zarr(tmp_path / "ours.zarr", zarr_format=3)
    theirs.to_zarr(tmp_path / "theirs.zarr", zarr_format=3)
    assert documents(tmp_path / "ours.zarr") == documents(tmp_path / "theirs.zarr")


def documents(path: Path) -> dict[str, bytes]:
    """The content of every file below `path`: metadata and chunks."""
    found = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert found
    return found


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_names_that_the_specification_keeps_for_itself(
    tmp_path: Path, open_both: Any, zarr_format: Any, consolidated: bool
) -> None:
    # An array without a name, and a variable named None: xarray stores both as __something.
    xr.DataArray([1, 2, 3], dims="x").to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=consolidated)
    xr.Dataset({None: ("x", [1, 2, 3])}).to_zarr(tmp_path / "b.zarr", zarr_format=zarr_format, consolidated=consolidated)
    for name in ("a.zarr", "b.zarr"):
        theirs, ours = open_both(tmp_path / name, consolidated=consolidated)
        assert len(ours.data_vars) == 1
        assert_same(theirs, ours)


@pytest.mark.parametrize("name", ["climate-v2.zarr", "climate-v3.zarr"])
def test_stores_of_the_repository(open_both: Any, name: str) -> None:
    theirs, ours = open_both(DATA / "climate" / name)
    assert ours.data_vars
    assert_same(theirs, ours)


def test_a_netcdf_file_through_its_references(engine: Any) -> None:
    fsspec = pytest.importorskip("fsspec")
    from zarr.storage import FsspecStore

    references = DATA / "netcdf4" / "ocean.json"
    document = json.loads(references.read_text())
    # fsspec resolves paths from the working directory, headrace from the document's.
    document["templates"] = {name: str(references.parent / file) for name, file in document["templates"].items()}
    store = FsspecStore.from_mapper(fsspec.filesystem("reference", fo=document).get_mapper(""))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = xr.open_dataset(store, engine="zarr", consolidated=False)
        ours = xr.open_dataset(f"reference://{references}", engine=engine)
        assert ours.data_vars
        assert_same(theirs, ours)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_trees(tmp_path: Path, engine: Any, zarr_format: Any) -> None:
    path = tmp_path / "tree.zarr"
    leaf = written_by_xarray()
    tree = xr.DataTree.from_dict(
        {"/": leaf[["temperature"]], "/coarse": leaf[["counts"]], "/coarse/inner": leaf[["lasted"]], "/empty": xr.Dataset()}
    )
    tree.to_zarr(path, zarr_format=zarr_format)
    for group in (None, "/", "coarse", "/coarse/inner/"):
        theirs = xr.open_groups(path, engine="zarr", group=group)
        ours = xr.open_groups(path, engine=engine, group=group)
        assert set(ours) == set(theirs), group
        for name in theirs:
            assert_same(theirs[name], ours[name])
            assert list(ours[name].attrs) == list(theirs[name].attrs)
    with xr.open_datatree(path, engine=engine) as whole, xr.open_datatree(path, engine="zarr") as expected:
        xr.testing.assert_identical(whole, expected)
    with xr.open_datatree(path, engine=engine, group="coarse", chunks={}) as part:
        assert part["inner/lasted"].chunks is not None
    one = xr.open_dataset(path, engine=engine, group="coarse/inner")
    assert_same(xr.open_dataset(path, engine="zarr", group="coarse/inner"), one)
