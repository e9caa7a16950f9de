"""A Loader aligns, scales and returns the same data on a GPU as on the host."""

import native_stores as stores
import numpy as np
import pytest

import headrace

DEVICE = "cuda"
DIMS = ["time", "level", "lat", "lon"]
DATA = np.random.default_rng(6).normal(250, 20, size=(40, 5, 19, 24)).astype("<f4")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return stores.write(tmp_path_factory.mktemp("loader") / "t", DATA, (4, 3, 19, 24), compress=True, attributes={"_ARRAY_DIMENSIONS": DIMS})


def check(source, **options):
    host, device = (headrace.Loader(source, **options, device=device) for device in ("host", DEVICE))
    batches = 0
    for one, other in zip(host, device, strict=True):
        assert one.samples == other.samples and list(one) == list(other)
        for name in one:
            assert np.array_equal(one[name].numpy(), other[name].numpy(), equal_nan=True), (name, batches)
            assert np.array_equal(one[name].numpy(), other.torch()[name].cpu().numpy(), equal_nan=True)
        batches += 1
    assert batches == len(host) > 0


@pytest.mark.parametrize("missing", ["drop", "pad"])
def test_aligned_arrays(path, missing):
    order = np.random.default_rng(7).permutation(40)
    source = {"t": headrace.open(path), "back": DATA[::-1, :, ::-1].copy(), "mixed": DATA[order][:36]}
    check(source, dims={name: DIMS for name in source}, input_dims={"time": 4}, input_overlap={"time": 3}, batch_size=3, shuffle=True, seed=2,
          align={"time": "nearest", "lat": "equal"}, tolerance=0.3, missing=missing, padding=-5, stack={"x": ["t", "mixed"]},
          coordinates={"time": {"t": np.arange(40.0), "back": np.arange(39.0, -1, -1), "mixed": order[:36] + 0.25},
                       "lat": {"t": np.arange(19), "back": np.arange(18, -1, -1), "mixed": np.arange(2, 21)}})


@pytest.mark.parametrize("by", [["level"], ["level", "lon"], ["time"]])
@pytest.mark.parametrize("dtype", [None, "float64"])
def test_scaled_by_index(path, by, dtype):
    axes = tuple(axis for axis in range(4) if DIMS[axis] not in by)
    statistics = {"arrays": {"t": {"by": by, "mean": DATA.mean(axes, dtype="f8").ravel().tolist(), "std": DATA.std(axes, dtype="f8").ravel().tolist()}}}
    check(path, input_dims={"time": 3, "level": 2}, boundary="pad", padding=7.0, normalise=statistics, dtype=dtype, batch_size=4, shuffle=True)
    crops = {"crops": {"lat": 7, "lon": 9}, "crops_per_frame": 2, "crop_flip": ["lat", "lon"], "crop_wrap": ["lon"]}
    check(path, input_dims={"time": 3}, **crops, normalise=statistics, dtype=dtype, batch_size=4, shuffle=True)


def test_batches_for_dali_and_jax(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=8, device=DEVICE)
    for batch in loader.dali_source():
        assert batch[0].__cuda_array_interface__["shape"] == (8, 1, 5, 19, 24)
    assert loader.epoch_stats[-1].batches == 5
    jax = pytest.importorskip("jax")
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = jax.local_devices()
    if 8 % len(devices):
        devices = devices[:1]
    sharding = NamedSharding(Mesh(np.array(devices), ("batch",)), PartitionSpec("batch"))
    for batch in loader:
        assert np.array_equal(np.asarray(batch.jax(sharding)["t"]), batch["t"].numpy())
