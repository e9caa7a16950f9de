"""A Loader's samples through Ray Data and Ray Train, on a real local cluster."""

import os

import native_stores as stores
import numpy as np
import pytest

import headrace

ray = pytest.importorskip("ray")

DATA = np.arange(23 * 3 * 4, dtype="<f4").reshape(23, 3, 4)


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False,
             runtime_env={"env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}})
    yield
    ray.shutdown()


@pytest.fixture
def path(tmp_path):
    return stores.write(tmp_path / "t", DATA, (4, 3, 4), compress=True, attributes={"_ARRAY_DIMENSIONS": ["time", "y", "x"]})


@pytest.mark.parametrize("parallelism", [1, 3, 50])
def test_every_sample_comes_once(cluster, path, parallelism):
    from headrace.ray import LoaderDatasource

    source = LoaderDatasource(path, input_dims={"time": 2}, input_overlap={"time": 1}, batch_size=4, shuffle="block",
                              outputs={"x": {"time": 0}, "y": {"time": 1}})
    assert source.estimate_inmemory_data_size() == 22 * (2 * 12 * 4 + 8)
    assert len(source.get_read_tasks(parallelism)) == min(parallelism, 6)
    rows = ray.data.read_datasource(source, override_num_blocks=parallelism).take_all()
    assert sorted(row["sample"] for row in rows) == list(range(22))
    for row in rows:
        assert np.array_equal(row["x"], DATA[row["sample"]:row["sample"] + 1]) and np.array_equal(row["y"], DATA[row["sample"] + 1:row["sample"] + 2])


def test_arguments_that_are_rays_are_refused(path):
    from headrace.ray import LoaderDatasource

    for name in ("rank", "world", "tail", "device", "progress", "reader_group"):
        with pytest.raises(headrace.InvalidArgumentError, match=f"{name} is set by Ray"):
            LoaderDatasource(path, input_dims={"time": 2}, **{name: 1})
    with pytest.raises(headrace.InvalidArgumentError, match="input_dims"):
        LoaderDatasource(path, input_dims={"depth": 2})


def test_workers_of_ray_train_share_an_epoch(cluster, path, tmp_path):
    from ray import train
    from ray.train import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer  # base class of TorchTrainer, which does not need PyTorch

    def work(config):
        import headrace as there

        context = train.get_context()
        loader = there.Loader(config["path"], input_dims={"time": 1}, batch_size=2, shuffle=True, rank=context.get_world_rank(),
                              world=context.get_world_size(), device="host")
        seen = [sample for batch in loader for sample in batch.samples]
        with open(f"{config['out']}/{context.get_world_rank()}", "w") as file:
            file.write(" ".join(map(str, seen)))

    (tmp_path / "out").mkdir()
    DataParallelTrainer(work, train_loop_config={"path": str(path), "out": str(tmp_path / "out")}, scaling_config=ScalingConfig(num_workers=2),
                        run_config=RunConfig(storage_path=str(tmp_path / "runs"))).fit()
    parts = [[int(word) for word in (tmp_path / "out" / str(rank)).read_text().split()] for rank in range(2)]
    assert len(parts[0]) == len(parts[1]) == 10 and len({*parts[0], *parts[1]}) == 20
