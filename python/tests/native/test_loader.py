"""Training batches on the host and on the simulated GPU."""

import gc
import itertools
import json
import pathlib
import signal
import threading
import time

import native_stores as stores
import numpy as np
import pytest

import headrace

SHAPE = (25, 6, 8)
DATA = np.arange(np.prod(SHAPE), dtype="<f4").reshape(SHAPE)
DIMS = ["time", "lat", "lon"]


@pytest.fixture
def path(tmp_path):
    return stores.write(tmp_path / "t2m", DATA, (4, 3, 8), compress=True, attributes={"_ARRAY_DIMENSIONS": DIMS})


@pytest.fixture(params=["host", "host-staged"])
def device(request):
    return request.param


def test_windows_with_outputs_shuffled(path, device):
    loader = headrace.Loader(path, input_dims={"time": 4}, input_overlap={"time": 3}, batch_size=5, shuffle=True, seed=3,
                             outputs={"x": {"time": slice(0, 3)}, "y": {"time": 3}}, device=device)
    assert (len(loader), loader.samples, loader.epoch) == (4, 22, 0)
    assert repr(loader) == (f"headrace.Loader(22 samples, 4 batches, x: (5, 3, 6, 8), y: (5, 1, 6, 8), device='{device}')")
    orders = []
    for epoch in range(3):
        seen = []
        for number, batch in enumerate(loader):
            assert (batch.epoch, batch.number, batch.valid, list(batch)) == (epoch, number, 5, ["x", "y"])
            for place, sample in enumerate(batch.samples):
                assert np.array_equal(batch["x"].numpy()[place], DATA[sample:sample + 3])
                assert np.array_equal(batch["y"].numpy()[place], DATA[sample + 3:sample + 4])
            seen += batch.samples
        assert len(set(seen)) == 20
        orders.append(seen)
    assert orders[0] != orders[1] != orders[2]
    assert loader.stats["batches"] == 12 and loader.stats["reads"].chunks > 0


def test_crops_conversion_and_padding(path, device):
    crops = headrace.Loader(path, input_dims={"time": 1}, crops={"lat": 2, "lon": 5}, crops_per_frame=3, crop_wrap=["lon"],
                            batch_size=15, shuffle="block", block_groups=2, read_together=2, dtype="float64", scale=2, device=device)
    assert crops.samples == 75 and len(crops) == 5
    for batch in crops:
        for place, sample in enumerate(batch.samples):
            got = batch["t2m"].numpy()[place, 0]
            assert got.dtype == np.float64
            first = int(got[0, 0] / 2) % 48
            row, column = first // 8, first % 8
            wanted = np.take(DATA[sample // 3, row:row + 2], range(column, column + 5), axis=1, mode="wrap") * 2.0
            assert np.array_equal(got, wanted)
    padded = headrace.Loader(path, input_dims={"time": 10}, boundary="pad", padding=-1, device=device)
    assert len(padded) == 3
    last = list(padded)[-1]["t2m"].numpy()[0]
    assert np.array_equal(last[:5], DATA[20:]) and (last[5:] == -1).all()


def test_where_a_sample_lies(path, device):
    """Each tensor holds the elements that where() names: in padded windows, in wrapped and flipped crops, and in each output."""
    def check(loader, padding=0):
        for _ in range(2):
            for batch in loader:
                for place, sample in enumerate(batch.samples):
                    for name, tensor in batch.items():
                        where = loader.where(sample, epoch=batch.epoch, output=name if name in ("x", "y") else None)
                        assert list(where) == DIMS
                        wanted = DATA[np.ix_(*where.values())]
                        for axis, indices in enumerate(where.values()):
                            wanted = np.moveaxis(np.moveaxis(wanted, axis, -1) * (indices >= 0) + padding * (indices < 0), -1, axis)
                        assert np.array_equal(tensor.numpy()[place], wanted), (sample, name)

    check(headrace.Loader(path, input_dims={"time": 4, "lat": 4}, input_overlap={"time": 2}, boundary="pad", shuffle=True, batch_size=3,
                          outputs={"x": {"time": slice(0, 3)}, "y": {"time": slice(1, 4, 2)}}, device=device))
    crops = headrace.Loader(path, input_dims={"time": 2}, crops={"lat": 3, "lon": 5}, crops_per_frame=3, crop_wrap=["lon"], crop_flip=["lat", "lon"],
                            shuffle=True, seed=4, batch_size=6, device=device)
    check(crops)
    assert all((crops.where(3)[dim] == crops.where(3, epoch=crops.epoch)[dim]).all() for dim in DIMS)
    for wrong in ({"array": "no"}, {"output": "no"}, {"sample": 99}, {"window": 1}):
        with pytest.raises(headrace.InvalidArgumentError):
            crops.where(**{"sample": 0, **wrong})


def test_summary_names_the_limit(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=5)
    assert loader.summary().startswith("0 batches in 0.0 s; ")
    for _ in loader:
        time.sleep(0.02)
    said = loader.summary()
    assert said.startswith("5 batches in 0.") and ": the loop is the limit. " in said and " chunks; " in said, said
    loader.load_state_dict(loader.state_dict())
    assert loader.summary().startswith("0 batches in 0.0 s; ")


def test_several_arrays(path, tmp_path):
    stations = np.arange(25 * 3, dtype="<i8").reshape(25, 3)
    other = stores.write(tmp_path / "stations", stations, (25, 3), attributes={"_ARRAY_DIMENSIONS": ["time", "station"]})
    source = {"t2m": headrace.open(path), "obs": headrace.open(other)}
    loader = headrace.Loader(source, input_dims={"time": 2, "lat": 6}, batch_size=3, dtype={"obs": "float32"})
    for batch in loader:
        assert batch["t2m"].shape == (3, 2, 6, 8) and batch["obs"].dtype == np.float32
        for place, sample in enumerate(batch.samples):
            assert np.array_equal(batch["obs"].numpy()[place], stations[2 * sample:2 * sample + 2])
    with pytest.raises(headrace.InvalidArgumentError, match="'wind'"):
        headrace.Loader(source, input_dims={"time": 2}, dtype={"wind": "float32"})


@pytest.mark.parametrize("channels_last", [False, True])
def test_stack_and_normalise(path, tmp_path, channels_last):
    other = stores.write(tmp_path / "u10", (DATA + 7).astype("<i2"), (5, 6, 8), attributes={"_ARRAY_DIMENSIONS": DIMS})
    source = {"t2m": headrace.open(path), "u10": headrace.open(other)}
    mean, std = {"t2m": 100.0, "u10": 7.0}, {"t2m": 2.0, "u10": 0.5}
    loader = headrace.Loader(source, input_dims={"time": 1}, batch_size=5, stack="x", channels_last=channels_last, mean=mean, std=std)
    for batch in loader:
        got = batch["x"].numpy()
        assert got.shape == ((5, 1, 6, 8, 2) if channels_last else (5, 2, 1, 6, 8)) and got.dtype == np.float32
        got = np.moveaxis(got, -1, 1) if channels_last else got
        for place, sample in enumerate(batch.samples):
            assert np.allclose(got[place, 0, 0], (DATA[sample] - 100) / 2, rtol=1e-6)
            assert np.allclose(got[place, 1, 0], DATA[sample] / 0.5, rtol=1e-6)
    statistics = {"arrays": {name: {"mean": mean[name], "std": std[name]} for name in source}}
    pathlib.Path("stats.json").write_text(json.dumps(statistics))
    for normalise in (statistics, "stats.json"):
        again = headrace.Loader(source, input_dims={"time": 1}, batch_size=5, stack="x", normalise=normalise)
        assert np.allclose(next(iter(again))["x"].numpy()[:, 1, 0], DATA[:5] / 0.5, rtol=1e-6)
    with pytest.raises(headrace.InvalidArgumentError, match="'u10'"):
        headrace.Loader(source, input_dims={"time": 1}, normalise={"arrays": {"t2m": {"mean": 0, "std": 1}}})
    with pytest.raises(headrace.InvalidArgumentError, match="std"):
        headrace.Loader(source, input_dims={"time": 1}, std=0)
    with pytest.raises(headrace.InvalidArgumentError, match="'v10'"):
        headrace.Loader(source, input_dims={"time": 1}, stack={"x": ["v10"]})


def test_group_takes_the_arrays_that_have_the_dimensions(path, tmp_path):
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    stores.write(tmp_path / "lat", np.arange(6.0), (6,), attributes={"_ARRAY_DIMENSIONS": ["lat"]})
    assert list(next(iter(headrace.Loader(tmp_path, input_dims={"time": 1})))) == ["t2m"]
    with pytest.raises(headrace.InvalidArgumentError, match="'depth'"):
        headrace.Loader(tmp_path, input_dims={"depth": 1})


def test_samples_and_weights(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, samples=[3, 20, 3])
    assert [batch.samples for batch in loader] == [[3], [20], [3]]
    weights = np.zeros(25)
    weights[7] = 1
    assert [batch.samples for batch in headrace.Loader(path, input_dims={"time": 1}, weights=weights, draws=2, batch_size=2)] == [[7, 7]]


def test_ranks_share_an_epoch_and_a_state_goes_on(path):
    def loader(rank, world, **options):
        return headrace.Loader(path, input_dims={"time": 1}, shuffle=True, seed=8, batch_size=2, rank=rank, world=world, **options)

    ranks = [loader(rank, 2) for rank in range(2)]
    seen = []
    for first, second in itertools.islice(zip(*ranks, strict=True), 3):
        seen += first.samples + second.samples
    state = ranks[0].state_dict()
    assert state == ranks[1].state_dict()
    single = loader(0, 1)
    single.load_state_dict(state)
    rest = [sample for batch in single for sample in batch.samples]
    assert len(seen) == 12 and len(rest) == 12 and len(set(seen + rest)) == 24
    assert single.epoch == 1 and sum(len(batch.samples) for batch in single) == 24
    with pytest.raises(headrace.InvalidArgumentError, match="different: "):
        headrace.Loader(path, input_dims={"time": 2}, shuffle=True).load_state_dict(state)
    with pytest.raises(headrace.InvalidArgumentError, match="state_dict"):
        single.load_state_dict({"epoch": 3})


def test_a_loop_that_is_left_ends_its_epoch(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, shuffle=True, seed=2)
    epochs = []
    for _ in range(20):
        for batch in loader:
            epochs.append(batch.epoch)
            break
    assert epochs == list(range(20))
    last = [batch.epoch for batch in itertools.islice(loader, 25)]  # all batches, without requesting the end of the epoch
    assert [next(iter(loader)).epoch, *last] == [21] + [20] * 25


def test_batches_live_as_long_as_their_tensors(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, memory_bytes=6 * 256)
    kept = [np.from_dlpack(batch["t2m"]) for batch in itertools.islice(loader, 2)]
    batches = iter(loader)
    kept += [np.from_dlpack(next(batches)["t2m"]) for _ in range(3)]
    del batches
    with pytest.raises(headrace.ResourceExhaustedError, match="held"):
        kept += [np.from_dlpack(batch["t2m"]) for batch in loader]
    assert np.array_equal(kept[0][0, 0], DATA[kept[0][0, 0, 0, 0].astype(int) // 48])
    del loader
    gc.collect()
    for array in kept:
        assert np.array_equal(array[0, 0], DATA[int(array[0, 0, 0, 0]) // 48])


def test_refusals_name_the_parameter(path):
    for options, names in [
        ({"input_dims": {"time": 26}}, "time"), ({"input_dims": {"level": 1}}, "level"), ({"input_dims": 3}, "input_dims"),
        ({"input_overlap": {"time": 1}}, "overlap"), ({"boundary": "mirror"}, "boundary"), ({"tail": "cut"}, "tail"),
        ({"boundary": "partial", "input_dims": {"time": 2}}, "smaller"), ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 26}, "batch"), ({"batch_size": 1.5}, "batch_size"), ({"rank": 1, "world": 1}, "rank"),
        ({"rank": 1}, "world"), ({"rank": 0, "world": 0}, "world"), ({"shuffle": "some"}, "shuffle"),
        ({"samples": [25]}, "25"), ({"samples": [1], "weights": [1.0]}, "weights"), ({"memory_bytes": 100}, "memory_bytes"),
        ({"outputs": {"x": {"time": slice(0, 2)}}}, "x"), ({"outputs": {"x": {"time": slice(None)}}}, "'x'"),
        ({"outputs": {"x": {"time": [0, 1, 3]}}}, "'x'"), ({"crops": {"lat": 7}}, "lat"), ({"dtype": "int37"}, "int37"),
        ({"dims": ["a", "b"]}, "dims"), ({"crop_wrap": ["lon"]}, "give crops"), ({"samples": []}, "samples: there are none"),
        ({"weights": [1.0]}, "weights: 1 of them, and there are 25 samples"), ({"weights": ["a"] * 25}, "weights = 'a'"), ({"boundary": {"level": "pad"}}, "boundary: there is no dimension 'level'"),
        ({"tolerance": {"level": 1}}, "tolerance: there is no dimension"), ({"padding": "a"}, "padding = 'a'"), ({"padding": [1, 2]}, "padding = "), ({"fill": "a"}, "fill = 'a'"),
        ({"mean": "a"}, "mean = 'a'"), ({"scale": "a"}, "scale = 'a'"), ({"offset": None}, "offset = None"), ({"coordinates": 3}, "coordinates is a int"),
        ({"input_starts": {"time": 3}}, "input_starts"), ({"device": "gpu9"}, "gpu9"), ({"read_ahead": 0}, "read_ahead"),
    ]:
        with pytest.raises((headrace.HeadraceError, ValueError), match=names):
            headrace.Loader(path, **{"input_dims": {"time": 1}, **options})
    bare = stores.write(path.parent / "bare", DATA, (4, 3, 8))
    with pytest.raises(headrace.InvalidArgumentError, match="dims="):
        headrace.Loader(bare, input_dims={"time": 1})
    assert len(headrace.Loader(bare, input_dims={"time": 1}, dims=DIMS)) == 25


def test_damage_is_an_error_that_names_the_chunk(path):
    (path / "2.1.0").write_bytes(b"no gzip")
    with pytest.raises(headrace.CorruptError, match=r"2\.1\.0"):
        list(headrace.Loader(path, input_dims={"time": 1}))
    skips = headrace.Loader(path, input_dims={"time": 1}, on_damage="skip")
    assert [batch.samples[0] for batch in skips] == [*range(8), *range(12, 25)] and skips.stats["skipped"] == 4
    with pytest.raises(headrace.InvalidArgumentError, match="NaN"):
        headrace.Loader(path, input_dims={"time": 1}, on_damage="nan", dtype="int32")
    replaces = headrace.Loader(path, input_dims={"time": 1}, on_damage="nan", dtype="float32")
    frames = np.concatenate([batch["t2m"].numpy()[:, 0] for batch in replaces])
    wanted = DATA.astype("f4")
    wanted[8:12, 3:] = np.nan
    assert np.array_equal(frames, wanted, equal_nan=True) and replaces.stats["reads"].damaged_chunks == 4 and "4 damaged and NaN" in replaces.summary()


def test_ctrl_c_ends_the_waiting(tmp_path):
    slow = stores.write(tmp_path / "slow", np.zeros((4, 2000, 2000)), (1, 2000, 2000), attributes={"_ARRAY_DIMENSIONS": DIMS})
    loader = headrace.Loader(slow, input_dims={"time": 1})
    main = threading.main_thread().ident
    threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        while True:
            for _ in loader:
                pass
    assert time.monotonic() - begin < 10


def test_jax(path):
    """Batches as JAX arrays, which stay valid after the loader has moved on."""
    pytest.importorskip("jax")
    loader = headrace.Loader(path, input_dims={"time": 2}, batch_size=3, device="host")
    seen = [(batch.samples, batch.jax()["t2m"]) for batch in loader]
    for samples, array in seen:
        assert type(array).__module__.startswith("jax")
        assert np.array_equal(np.asarray(array), np.stack([DATA[2 * sample:2 * sample + 2] for sample in samples]))


def test_torch_dataset(path):
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader

    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=5, shuffle=True)
    seen = 0
    for batch in DataLoader(loader.torch_dataset(), batch_size=None):
        assert isinstance(batch["t2m"], torch.Tensor) and batch["t2m"].shape == (5, 1, 6, 8)
        seen += 1
    assert seen == len(loader)
    with pytest.raises((RuntimeError, headrace.InvalidArgumentError), match="num_workers must be 0"):  # torch recreates the error
        next(iter(DataLoader(loader.torch_dataset(), batch_size=None, num_workers=1)))
