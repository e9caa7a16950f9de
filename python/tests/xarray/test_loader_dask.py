"""An epoch divided among the worker processes of a dask cluster; and loaders sent to workers."""

import numpy as np
import pytest
import xarray as xr

import headrace

distributed = pytest.importorskip("distributed")


def samples_of(loader):
    return [(sample, float(batch["t"].numpy()[place, 0, 0])) for batch in loader for place, sample in enumerate(batch.samples[:batch.valid])]


def part_of(rank, world, path):
    """Runs on a worker."""
    return samples_of(headrace.Loader(path, input_dims={"time": 1}, batch_size=3, shuffle=True, seed=1, rank=rank, world=world, tail="pad"))


def test_workers_share_an_epoch(tmp_path):
    data = np.arange(23 * 4, dtype="f4").reshape(23, 4)
    xr.Dataset({"t": (("time", "x"), data)}).to_zarr(tmp_path / "s.zarr", encoding={"t": {"chunks": (5, 4)}})
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        workers = list(client.scheduler_info()["workers"])
        parts = client.gather([client.submit(part_of, rank, 2, str(tmp_path / "s.zarr/t"), workers=[worker], pure=False)
                               for rank, worker in enumerate(workers)])
        assert sorted(parts[0] + parts[1]) == [(sample, data[sample, 0]) for sample in range(23)] and min(map(len, parts)) > 8

        loader = headrace.Loader(xr.open_dataset(tmp_path / "s.zarr", engine="headrace")["t"].isel(time=slice(3, None)), input_dims={"time": 1}, shuffle=True)
        batches = iter(loader)
        next(batches)
        elsewhere = client.submit(samples_of, loader, pure=False).result()
        assert elsewhere == samples_of(batches) and len(elsewhere) == 19
