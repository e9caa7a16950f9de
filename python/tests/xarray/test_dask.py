"""Chunked datasets: equal values, picklable tasks, stable names."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from equality import assert_same

import headrace

dask = pytest.importorskip("dask")


def sample(start: str = "2000-01-01") -> xr.Dataset:
    random = np.random.default_rng(5)
    return xr.Dataset(
        {
            "t": (("time", "y", "x"), random.integers(-500, 500, (8, 6, 10)).astype("f8") * 0.25, {"units": "K"}),
            "name": ("x", np.array(list("abcdefghij"), dtype=object)),
        },
        coords={"time": pd.date_range(start, periods=8), "y": np.arange(6.0), "area": ("x", np.arange(10.0))},
    )


PACKED = {"t": {"dtype": "i2", "scale_factor": 0.25, "_FillValue": -32768, "chunks": (2, 3, 5)}}


@pytest.fixture(scope="module", params=[2, 3])
def path(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dask") / "a.zarr"
    sample().to_zarr(path, zarr_format=request.param, encoding=PACKED)
    return path


@pytest.mark.parametrize("chunks", [{}, {"time": 3}, "auto", -1, {"time": 4, "x": (5, 3, 2)}])
@pytest.mark.filterwarnings("ignore:The specified chunks separate")
def test_chunks_are_the_same(path: Path, open_both: Any, chunks: Any) -> None:
    # dask cannot choose chunks for text.
    theirs, ours = open_both(path, chunks=chunks, drop_variables="name" if chunks == "auto" else None)
    assert_same(theirs, ours)
    assert ours["t"].chunks is not None


def test_computations(path: Path, open_both: Any) -> None:
    theirs, ours = open_both(path, chunks={})
    for compute in (
        lambda ds: ds.mean("time"),
        lambda ds: ds["t"].isel(time=slice(None, None, -2), x=[9, 0, 3]),
        lambda ds: ds["t"].groupby("time.day").max(),
        lambda ds: ds["t"].isel(x=xr.Variable("p", [0, 4, 4]), y=xr.Variable("p", [5, 0, 1])),
    ):
        for scheduler in ("threads", "sync"):
            found = [compute(ds).compute(scheduler=scheduler) for ds in (theirs, ours)]
            xr.testing.assert_identical(found[0], found[1])


def test_names_do_not_change(path: Path, engine: Any) -> None:
    from dask.base import tokenize

    def names(**options: Any) -> dict[Any, str]:
        with xr.open_dataset(path, engine=engine, chunks={}, **options) as dataset:
            return {name: array.data.name for name, array in dataset.data_vars.items()}

    assert names() == names()
    assert names() != names(mask_and_scale=False)
    first, second = (xr.open_dataset(path, engine=engine) for _ in range(2))
    assert tokenize(first["t"]) == tokenize(second["t"])
    assert tokenize(first["t"]) != tokenize(first["area"])
    assert tokenize(first["t"]) != tokenize(xr.open_dataset(path, engine=engine, mask_and_scale=False)["t"])


@pytest.mark.parametrize("chunks", [None, {}])
def test_pickled_without_its_values(path: Path, engine: Any, chunks: Any) -> None:
    dataset = xr.open_dataset(path, engine=engine, chunks=chunks)
    stored = pickle.dumps(dataset[["t"]])
    again = pickle.loads(stored)
    xr.testing.assert_identical(again.compute(), dataset[["t"]].compute())
    again.close()
    if chunks is None:
        assert len(stored) < 6000, "the array's 960 elements are in it"


def test_opened_where_it_is_read(path: Path, engine: Any, tmp_path: Path) -> None:
    """dask's scheduler unpickles tasks but may have no access to the store."""
    there = tmp_path / "there.zarr"
    shutil.copytree(path, there)
    stored = pickle.dumps(xr.open_dataset(there, engine=engine, drop_variables="name"))
    there.rename(tmp_path / "away.zarr")
    again = pickle.loads(stored)
    passed_on = pickle.loads(pickle.dumps(again))
    with pytest.raises(FileNotFoundError, match="there.zarr"):
        again["t"].load()
    (tmp_path / "away.zarr").rename(there)
    for one in (again, passed_on):
        xr.testing.assert_identical(one.compute(), sample().drop_vars("name"))


def test_files_side_by_side(tmp_path: Path, engine: Any) -> None:
    paths = []
    for number, start in enumerate(("2000-01-01", "2000-01-09", "2000-01-17")):
        paths.append(tmp_path / f"{number}.zarr")
        sample(start).to_zarr(paths[-1], zarr_format=2, encoding=PACKED)
    options = {"combine": "by_coords", "data_vars": "minimal", "coords": "minimal", "compat": "override", "join": "override"}
    with (
        xr.open_mfdataset(paths, engine=engine, **options) as ours,
        xr.open_mfdataset(paths, engine="zarr", **options) as theirs,
        xr.open_mfdataset(paths, engine=engine, parallel=True, **options) as parallel,
    ):
        assert_same(theirs, ours)
        assert ours.sizes["time"] == 24
        xr.testing.assert_identical(parallel.compute(), theirs.compute())


def test_written_back_in_chunks(path: Path, engine: Any, tmp_path: Path) -> None:
    with xr.open_dataset(path, engine=engine, chunks={}, drop_variables="name") as dataset:
        dataset.to_zarr(tmp_path / "again.zarr", zarr_format=3 if "serializer" in dataset["t"].encoding else 2)
        xr.testing.assert_identical(xr.open_dataset(tmp_path / "again.zarr", engine="zarr").load(), dataset.load())


def test_two_processes(path: Path, engine: Any) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
        xr.open_dataset(path, engine=engine, chunks={}) as dataset,
    ):
        client.wait_for_workers(2, timeout=60)
        xr.testing.assert_identical(dataset.compute(), xr.open_dataset(path, engine="zarr").load())
        mean = dataset["t"].mean("time").persist()
        np.testing.assert_allclose(mean.values, sample()["t"].mean("time").values)
        # A dataset without chunks is sent to another process and read there.
        lazy = xr.open_dataset(path, engine=engine)
        workers = client.scheduler_info(n_workers=-1)["workers"]
        found = client.gather([client.submit(_where_and_sum, lazy, workers=[one], pure=False) for one in workers])
        assert len({process for process, _ in found}) == 2
        assert {total for _, total in found} == {float(sample()["t"].sum())}


def test_failures_come_back_from_other_processes(tmp_path: Path, engine: Any) -> None:
    """Errors keep their class and location: for a damaged chunk, and for a store that the worker cannot find."""
    distributed = pytest.importorskip("distributed")
    path = tmp_path / "a.zarr"
    sample().to_zarr(path, zarr_format=2, encoding=PACKED)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        xr.open_dataset(path, engine=engine, chunks={}) as dataset,
    ):
        chunk = path / "t" / "0.0.0"
        chunk.write_bytes(chunk.read_bytes()[:10])
        with pytest.raises(headrace.CorruptError, match="t/0.0.0") as caught:
            dataset["t"].load()
        assert caught.value.key == "t/0.0.0" and str(path) in str(caught.value)
        sample().to_zarr(tmp_path / "b.zarr", zarr_format=2)
        gone = xr.open_dataset(tmp_path / "b.zarr", engine=engine, chunks={}, drop_variables="name")
        (tmp_path / "b.zarr").rename(tmp_path / "moved.zarr")
        with pytest.raises(FileNotFoundError, match="b.zarr") as missing:
            gone["t"].load()
        assert isinstance(missing.value, headrace.NotFoundError)


def _where_and_sum(dataset: xr.Dataset) -> tuple[int, float]:
    import os

    return os.getpid(), float(dataset["t"].sum())
