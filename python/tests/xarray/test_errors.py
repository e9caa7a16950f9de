"""Wrong paths, wrong options and unreadable arrays raise exceptions that say what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import headrace
from headrace.xarray import HeadraceBackendEntrypoint


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.zarr"
    root, group = xr.Dataset({"v": ("x", np.arange(4.0))}), xr.Dataset({"w": ("x", np.arange(4))})
    tree = xr.DataTree.from_dict({"/": root, "/g": group})
    tree.to_zarr(path, zarr_format=2)
    return path


def test_nothing_there(tmp_path: Path, engine: Any) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory.*missing.zarr"):
        xr.open_dataset(tmp_path / "missing.zarr", engine=engine)
    with pytest.raises(FileNotFoundError, match="No such file or directory.*missing.zarr"):
        xr.open_datatree(tmp_path / "missing.zarr", engine=engine)


@pytest.mark.parametrize("consolidated", [None, True, False])
def test_no_such_group(path: Path, engine: Any, consolidated: Any) -> None:
    with pytest.raises(FileNotFoundError, match="nothing_like_it") as caught:
        xr.open_dataset(path, engine=engine, group="nothing_like_it", consolidated=consolidated)
    assert isinstance(caught.value, KeyError)


def test_an_array_is_no_dataset(path: Path, engine: Any) -> None:
    for options in ({"group": "v"}, {"group": "v", "consolidated": False}, {"group": "g/w"}):
        with pytest.raises(ValueError, match="is an array"):
            xr.open_dataset(path, engine=engine, **options)
    with pytest.raises(ValueError, match="is an array"):
        xr.open_dataset(path / "v", engine=engine)


def test_wrong_format(path: Path, engine: Any) -> None:
    assert "v" in xr.open_dataset(path, engine=engine, zarr_format=2)
    with pytest.raises(FileNotFoundError, match="Zarr v2, not v3"):
        xr.open_dataset(path, engine=engine, zarr_format=3)


def test_reading_only(path: Path, engine: Any) -> None:
    assert "v" in xr.open_dataset(path, engine=engine, mode="r")
    with pytest.raises(ValueError, match="reads only"):
        xr.open_dataset(path, engine=engine, mode="r+")


def test_unknown_option(path: Path, engine: Any) -> None:
    with pytest.raises(TypeError, match="nonsense"):
        xr.open_dataset(path, engine=engine, nonsense=1)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cpu"])
def test_wrong_device(path: Path, engine: Any, device: str) -> None:
    with pytest.raises(ValueError, match="device must be"):
        xr.open_dataset(path, engine=engine, device=device)


def test_device_without_cupy(path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match="pip install cupy"):
        xr.open_dataset(path, engine=engine, device="cuda")
    assert "v" in xr.open_dataset(path, engine=engine, device="host")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_dimensions_without_names(tmp_path: Path, engine: Any, zarr_format: Any) -> None:
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group.create_array("nameless", shape=(3,), dtype="i4")
    with pytest.raises(KeyError, match="required for xarray to determine variable dimensions"):
        xr.open_dataset(tmp_path / "a.zarr", engine=engine)
    assert not xr.open_dataset(tmp_path / "a.zarr", engine=engine, drop_variables="nameless").variables


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_unknown_codec_fails_where_it_is_read(tmp_path: Path, engine: Any, zarr_format: Any) -> None:
    path = tmp_path / "a.zarr"
    dataset = xr.Dataset({"good": ("x", np.arange(4.0)), "bad": (("x", "y"), np.ones((4, 2), "f4"), {"units": "m"})})
    dataset.to_zarr(path, zarr_format=zarr_format, consolidated=False)
    if zarr_format == 2:
        document = path / "bad" / ".zarray"
        content = json.loads(document.read_text())
        content["compressor"] = {"id": "unheard_of", "level": 1}
    else:
        document = path / "bad" / "zarr.json"
        content = json.loads(document.read_text())
        content["codecs"][-1] = {"name": "unheard_of", "configuration": {"level": 1}}
    document.write_text(json.dumps(content))
    with xr.open_dataset(path, engine=engine, consolidated=False) as opened:
        assert opened["bad"].dims == ("x", "y")
        assert opened["bad"].shape == (4, 2)
        assert opened["bad"].dtype == np.float32
        assert opened["bad"].attrs == {"units": "m"}
        np.testing.assert_array_equal(opened["good"].values, np.arange(4.0))
        with pytest.raises(NotImplementedError, match="unheard_of"):
            opened["bad"].load()
        assert issubclass(headrace.UnsupportedError, NotImplementedError)


def test_a_chunk_that_is_broken(tmp_path: Path, engine: Any) -> None:
    path = tmp_path / "a.zarr"
    xr.Dataset({"v": ("x", np.arange(1000.0))}).to_zarr(path, zarr_format=2, encoding={"v": {"chunks": (500,)}})
    chunk = path / "v" / "1"
    chunk.write_bytes(chunk.read_bytes()[:20])
    with xr.open_dataset(path, engine=engine) as dataset:
        np.testing.assert_array_equal(dataset["v"].isel(x=slice(0, 500)).values, np.arange(500.0))
        with pytest.raises(headrace.CorruptError, match="v/1") as caught:
            dataset["v"].load()
        assert caught.value.key == "v/1" and str(path) in str(caught.value)


def test_engines_are_not_confused(path: Path) -> None:
    ours = HeadraceBackendEntrypoint()
    assert not ours.guess_can_open(path)
    assert not ours.guess_can_open("https://example.org/a.zarr")
    assert not ours.guess_can_open(object())
    assert ours.description and ours.url and ours.supports_groups
    # xarray's automatic choice of an engine remains zarr.
    assert xr.open_dataset(path)["v"].encoding["compressors"]


def test_not_a_path(engine: Any) -> None:
    with pytest.raises(TypeError, match="headrace.zarr.enable"):
        HeadraceBackendEntrypoint().open_dataset(zarr.storage.MemoryStore())


def test_what_may_be_opened(path: Path, engine: Any, tmp_path: Path) -> None:
    expected = xr.open_dataset(path, engine="zarr").load()
    store = zarr.storage.LocalStore(path)
    for source in (str(path), path, str(path) + "/", f"file://{path}", store, headrace.open(str(path))):
        xr.testing.assert_identical(HeadraceBackendEntrypoint().open_dataset(source).load(), expected)
    part = zarr.storage.StorePath(store, "g")
    assert "w" in HeadraceBackendEntrypoint().open_dataset(part)
    assert "w" in HeadraceBackendEntrypoint().open_dataset(headrace.open(str(path)), group="g")
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="w") as archive:
        expected.drop_encoding().to_zarr(archive, zarr_format=3, consolidated=False)
    found = HeadraceBackendEntrypoint().open_dataset(tmp_path / "a.zip", consolidated=False)
    xr.testing.assert_identical(found.load(), expected)


def test_stores_in_memory(path: Path, engine: Any) -> None:
    store = headrace.memory_store("xarray-test")
    for file in path.rglob("*"):
        if file.is_file():
            store.put(str(file.relative_to(path)), file.read_bytes())
    expected = xr.open_dataset(path, engine="zarr", group="g").load()
    for source in (store, store.url):
        xr.testing.assert_identical(HeadraceBackendEntrypoint().open_dataset(source, group="g").load(), expected)


def test_context_and_close(path: Path, engine: Any) -> None:
    with xr.open_dataset(path, engine=engine) as dataset:
        pass
    dataset.close()
    with xr.open_datatree(path, engine=engine) as tree:
        assert "w" in tree["g"]
