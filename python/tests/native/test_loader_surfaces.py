"""Features around a Loader's batches: epoch statistics, the report, normalisation by level, and adapters to other libraries."""

import html.parser
import json
import os
import pathlib
import pickle
import stat
import subprocess
import sys
import threading
import time
import tracemalloc

import native_stores as stores
import numpy as np
import pytest

import headrace
from headrace._timing import COLUMNS, Timings

DATA = (np.arange(12 * 3 * 4 * 5, dtype="<f4").reshape(12, 3, 4, 5) % 97)
DIMS = ["time", "level", "lat", "lon"]


@pytest.fixture
def path(tmp_path):
    return stores.write(tmp_path / "t", DATA, (2, 2, 4, 5), compress=True, attributes={"_ARRAY_DIMENSIONS": DIMS})


def statistics_of(data, by, name="t"):
    axes = tuple(axis for axis in range(data.ndim) if DIMS[axis] not in by and axis not in by)
    return {"arrays": {name: {"by": by, "shape": [data.shape[axis] for axis in range(data.ndim) if axis not in axes],
                              "mean": data.astype("f8").mean(axes).ravel().tolist(), "std": data.astype("f8").std(axes).ravel().tolist()}}}


@pytest.mark.parametrize("device", ["host", "host-staged"])
@pytest.mark.parametrize("by", [["level"], ["level", "lon"], [1]])
def test_normalised_by_level(path, by, device):
    statistics = statistics_of(DATA, by)
    pathlib.Path("stats.json").write_text(json.dumps(statistics))
    axes = tuple(axis for axis in range(4) if DIMS[axis] not in by and axis not in by)
    wanted = (DATA - DATA.astype("f8").mean(axes, keepdims=True)) / DATA.astype("f8").std(axes, keepdims=True)
    for normalise in (statistics, "stats.json"):
        loader = headrace.Loader(path, input_dims={"time": 2}, normalise=normalise, batch_size=2, shuffle=True, device=device)
        for batch in loader:
            for place, sample in enumerate(batch.samples):
                np.testing.assert_allclose(batch["t"].numpy()[place], wanted[2 * sample:2 * sample + 2], rtol=2e-5, atol=2e-6)
    # Levels in windows, padding left as it is, stacked with another array that has a single mean.
    both = {"arrays": {**statistics["arrays"], "u": {"by": [], "mean": 5.0, "std": 2.0}}}
    loader = headrace.Loader({"t": headrace.open(path), "u": headrace.open(path)}, input_dims={"time": 2, "level": 2}, boundary="pad", padding=9.0,
                             normalise=both, stack="x", batch_size=3, device=device)
    for batch in loader:
        for place, sample in enumerate(batch.samples):
            where = loader.where(sample)
            levels = where["level"]
            at = np.ix_(where["time"], levels, where["lat"], where["lon"])
            pad = (levels < 0)[None, :, None, None]
            np.testing.assert_allclose(batch["x"].numpy()[place, 0], np.where(pad, 9.0, wanted[at]), rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(batch["x"].numpy()[place, 1], np.where(pad, 9.0, (DATA[at] - 5) / 2), rtol=1e-6)


def test_statistics_that_do_not_fit_are_refused(path):
    good = statistics_of(DATA, ["level"])
    zero = statistics_of(DATA, ["level"])
    zero["arrays"]["t"]["std"][2] = 0.0
    null = statistics_of(DATA, ["level"])
    null["arrays"]["t"]["mean"][1] = None
    other = statistics_of(DATA[:, :2], ["level"])
    pathlib.Path("broken.json").write_text("{")
    for normalise, says, options in [
            (zero, "of 't' at level 2, mean is .* and std 0.0", {}), (null, "at level 1, mean is nan", {}), (other, r"are of \[2\] indices along level; it has \[3\]", {}),
            (statistics_of(DATA, ["level"], "u"), "no mean and std of 't'; it has 'u'", {}), ({"t": 1}, "no 'arrays'", {}), (3, "normalise: 3", {}),
            ("nowhere.json", "nowhere.json", {}), ("broken.json", "broken.json", {}), ({"arrays": {"t": {"by": ["depth"], "mean": [1], "std": [1]}}}, "by depth", {}),
            ({"arrays": {"t": {"by": [7], "mean": [1], "std": [1]}}}, "by 7", {}), ({"arrays": {"t": {"by": ["level"], "mean": "x", "std": [1]}}}, "not lists", {}),
            ({"arrays": {"t": {"mean": "x", "std": 1}}}, "not numbers", {}), (good, "give either normalise or mean and std", {"mean": 1.0})]:
        with pytest.raises(headrace.InvalidArgumentError, match=says):
            headrace.Loader(path, input_dims={"time": 2}, normalise=normalise, **options)
    wide = stores.write(path.parent / "wide", np.zeros((2, 1, 40, 40), "<f4"), (2, 1, 40, 40), attributes={"_ARRAY_DIMENSIONS": DIMS})
    each = {"arrays": {"wide": {"by": ["lat", "lon"], "mean": [0.0] * 1600, "std": [1.0] * 1600}}}
    with pytest.raises(headrace.UnsupportedError, match="1600 combinations of indices, which are too many"):
        headrace.Loader(wide, input_dims={"time": 1}, normalise=each)
    assert len(headrace.Loader(wide, input_dims={"time": 1, "lat": 20}, normalise=each)) == 4
    with pytest.raises(headrace.UnsupportedError, match="float32 or float64"):
        headrace.Loader(path, input_dims={"time": 2}, normalise=good, dtype="float16")


def test_the_cache_is_given_back(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, cache_bytes=1 << 20, leave_free_bytes=1 << 20, device="host-staged")
    assert [len(list(loader)) for _ in range(2)] == [len(DATA)] * 2
    assert not loader.stats["cache_released"]
    other = threading.Thread(target=loader.release_cache)
    other.start()
    assert [len(list(loader)) for _ in range(2)] == [len(DATA)] * 2
    other.join()
    assert loader.stats["cache_released"] and loader.stats["kept_bytes"] == 0
    with pytest.raises(headrace.InvalidArgumentError, match="leave_free_bytes"):
        headrace.Loader(path, input_dims={"time": 1}, leave_free_bytes=-1)


def test_a_loop_that_is_left_keeps_the_cache(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, shuffle=True, cache_bytes=1 << 20, device="host-staged")
    deadline, read = time.monotonic() + 30, -1
    while read != loader.stats["reads"].read_bytes:  # files written a moment ago are not kept
        assert time.monotonic() < deadline
        read = loader.stats["reads"].read_bytes
        list(loader)
    kept, first = loader.stats["kept_bytes"], loader.epoch
    assert kept > 0
    for epoch in range(first, first + 4):
        for batch in loader:
            assert batch.epoch == epoch and np.array_equal(batch["t"].numpy()[0, 0], DATA[batch.samples[0]])
            break
    assert loader.stats["kept_bytes"] == kept and loader.stats["reads"].read_bytes == read
    assert sorted(batch.samples[0] for batch in loader) == list(range(len(DATA)))


def test_epochs_in_figures(path):
    said = []
    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=2, progress=lambda done, of: said.append((done, of)))
    assert loader.epoch_stats == []
    for _ in range(2):
        for _ in loader:
            time.sleep(0.01)
    assert said == [(done, 6) for done in range(1, 7)] * 2
    assert [(one.epoch, one.batches) for one in loader.epoch_stats] == [(0, 6), (1, 6)]
    for one in loader.epoch_stats:
        assert one.seconds >= 0.06 and 0 <= one.wait_share <= 1
        assert one.decoded_bytes == DATA.nbytes and one.chunks > 0 and one.kept_share == 0
        assert sum(one.bytes_by_path.values()) == one.read_bytes > 0
        assert one.bottleneck.startswith(("The loop is the limit", "Loading "))
    for _ in loader:
        assert loader.epoch_stats[-1].batches == 1 and loader.epoch_stats[-1].epoch == 2  # the running epoch
        break
    assert len(loader.epoch_stats) == 3
    with pytest.raises(headrace.InvalidArgumentError, match="progress is a str"):
        headrace.Loader(path, input_dims={"time": 1}, progress="bar")


def test_samples_are_a_list_that_outlives_the_batch(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=5, tail="pad", memory_bytes=2 * 5 * DATA[0].nbytes + 1024, read_ahead=1)
    kept, later = [], []
    for batch in loader:
        assert type(batch.samples) is list and batch.samples is batch.samples
        kept.append(batch.samples)  # does not keep the batch's memory: there is room for two
    del batch
    for batch in loader:
        later.append(batch)  # requested after the next batch
        if len(later) == 2:
            assert [one.samples for one in later] == kept[:2] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
            break
    assert kept[2][:2] == [10, 11] and all(type(one) is int for one in kept[2])


def test_the_bottleneck_is_named():
    def of(wait, **stages):
        return headrace.EpochStats(0, 10, 100.0, wait, 10, 0, 10, 10, {}, {"read": 1.0, "decode": 1.0, "place": 1.0, **stages}).bottleneck

    assert of(1.0) == "The loop is the limit: it waited for batches 1% of its time."
    assert "is the limit: the loop waited 60% of its time, and most of the work was reading from the store (9.0 of 11.0 s of threads)" in of(60.0, read=9.0)
    assert "sometimes delays the loop" in of(20.0, decode=5.0) and "decoding" in of(20.0, decode=5.0)
    assert "placing" in of(90.0, place=2.0)


def test_a_ring_keeps_the_last_batches_in_the_memory_it_has():
    timings = Timings(capacity=5)
    times = [float(column) for column in range(len(COLUMNS) - 1)]
    asked = COLUMNS.index("asked")
    for number in range(12):
        times[asked] = float(number)
        timings.ring.add(times)
    rows = timings.rows()
    assert rows[:, asked].tolist() == [7, 8, 9, 10, 11]
    assert rows[:-1, -1].tolist() == [8, 9, 10, 11] and np.isnan(rows[-1, -1])  # a batch is left when the next one is requested
    timings.leave(11.5)
    assert timings.rows()[-1, -1] == 11.5
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        timings.ring.add(times)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 500, grown


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.text, self.bars = [], [], "", {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "line"):
            self.open.append(tag)
        for name, value in attributes:
            assert name not in ("src", "href") and not name.startswith("on"), (tag, name)
            if tag == "rect" and name == "class":
                self.bars[value] = self.bars.get(value, 0) + 1

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in ("meta", "line"):
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += data


def test_the_report_shows_every_batch(path):
    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=2, read_together=2)
    loader.report("empty.html")
    for _ in range(3):
        for _ in loader:
            time.sleep(0.002)
    loader.report(pathlib.Path("run.html"), title="<script>alert(1)</script>")
    text = pathlib.Path("run.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.open and "script" not in page.tags and "<script>alert(1)</script>" in page.text
    assert "http" not in text.replace("http-equiv", "")  # the page loads no external resources
    for words in ("epoch 2, batch 5", "waited", "read together with it", "bottleneck", loader.epoch_stats[1].bottleneck, loader.summary()):
        assert words in page.text, words
    # Bars in the timeline and in the chart of all batches, and one in each key.
    assert page.bars["loop"] == page.bars["wait"] == 18 + 18 + 2 and page.bars["read"] == 9 + 1 and page.bars["plan"] == 9 + 1
    pathlib.Path("plain").write_text("")  # the report must be as readable for others as any new file
    assert stat.S_IMODE(os.stat("run.html").st_mode) == stat.S_IMODE(os.stat("plain").st_mode)
    assert Page(pathlib.Path("empty.html").read_text()).bars == {}


def test_a_report_that_cannot_be_written_leaves_what_was_there(path, monkeypatch):
    loader = headrace.Loader(path, input_dims={"time": 1})
    pathlib.Path("kept.html").write_text("kept")
    with pytest.raises(OSError):
        loader.report("nowhere/run.html")
    pathlib.Path("folder").mkdir()
    with pytest.raises(OSError):
        loader.report("folder")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        loader.report("kept.html")
    assert pathlib.Path("kept.html").read_text() == "kept"
    assert sorted(os.listdir()) == ["folder", "kept.html", "t"]


def test_a_report_goes_where_links_and_pipes_lead(path):
    loader = headrace.Loader(path, input_dims={"time": 1})
    pathlib.Path("real.html").write_text("old")
    os.symlink("real.html", "link.html")
    loader.report(b"link.html", title="\udcff")
    assert os.path.islink("link.html") and "headrace.Loader(" in pathlib.Path("real.html").read_text()
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True)
    loader.report("pipe")
    assert "</html>" in reader.communicate(timeout=60)[0] and stat.S_ISFIFO(os.stat("pipe").st_mode)


def test_a_loader_goes_to_other_processes(path):
    """A pickled loader works in a fresh interpreter, as in spawned workers."""
    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=2, shuffle=True, seed=7)
    batches = iter(loader)
    next(batches)
    pathlib.Path("loader.pickle").write_bytes(pickle.dumps(loader))
    program = "import pickle; print([batch.samples for batch in pickle.load(open('loader.pickle', 'rb'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == str([batch.samples for batch in batches]), done.stderr


def test_a_source_for_dali(path):
    """Behaves as fn.external_source requires of an iterable with cycle="raise"; uses DALI itself where it is installed."""
    loader = headrace.Loader(path, input_dims={"time": 2}, batch_size=2, shuffle=True, seed=3, outputs={"x": {"time": 0}, "y": {"time": 1}}, device="host")
    source = loader.dali_source()
    assert source.names == ("x", "y") and len(source) == 3
    epochs = []
    for _ in range(2):
        seen = []
        for batch in iter(source):
            assert isinstance(batch, tuple) and all(isinstance(one, np.ndarray) and one.shape == (2, 1, 3, 4, 5) for one in batch)
            seen.append([one.copy() for one in batch])
        for _ in range(3):  # a prefetching pipeline requests more
            with pytest.raises(StopIteration):
                next(source)
        epochs.append(seen)
    again = headrace.Loader(path, input_dims={"time": 2}, batch_size=2, shuffle=True, seed=3)
    for seen in epochs:
        for batch, (x, y) in zip(again, seen, strict=True):
            assert np.array_equal(batch["t"].numpy()[:, :1], x) and np.array_equal(batch["t"].numpy()[:, 1:], y)
    pytest.importorskip("nvidia.dali")
    from nvidia.dali import fn, pipeline_def

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipeline(source):
        return tuple(fn.external_source(source=source, num_outputs=2, batch=True, cycle="raise"))

    built = pipeline(headrace.Loader(path, input_dims={"time": 2}, batch_size=2, shuffle=True, seed=3, device="host",
                                     outputs={"x": {"time": 0}, "y": {"time": 1}}).dali_source())
    built.build()
    for seen in epochs:
        for x, y in seen:
            got = built.run()
            assert np.array_equal(got[0].as_array(), x) and np.array_equal(got[1].as_array(), y)
        with pytest.raises(StopIteration):
            built.run()
        built.reset()


def test_jax_arrays_over_local_devices(path):
    """In a separate process, where JAX has four CPUs."""
    pytest.importorskip("jax")
    program = """
import sys
import jax
import numpy as np
import headrace
from jax.sharding import Mesh, NamedSharding, PartitionSpec

mesh = Mesh(np.array(jax.local_devices()), ("batch",))
by_batch, everywhere = NamedSharding(mesh, PartitionSpec("batch")), NamedSharding(mesh, PartitionSpec())
kept = []
loader = headrace.Loader(sys.argv[1], input_dims={"time": 1}, batch_size=4, shuffle=True, device="host")
for batch in loader:
    kept.append((batch.jax(by_batch)["t"], batch.jax({"t": everywhere})["t"], batch["t"].numpy()))
for sharded, whole, wanted in kept:
    assert len(sharded.addressable_shards) == 4 and {shard.data.shape for shard in sharded.addressable_shards} == {(1, *wanted.shape[1:])}
    assert whole.is_fully_replicated and np.array_equal(np.asarray(sharded), wanted) and np.array_equal(np.asarray(whole), wanted)
    assert float(jax.jit(lambda x: x.sum())(sharded)) == wanted.sum()
try:
    next(iter(headrace.Loader(sys.argv[1], input_dims={"time": 1}, batch_size=3, device="host"))).jax(by_batch)
except headrace.InvalidArgumentError as error:
    assert "tensor 't'" in str(error), error
else:
    raise SystemExit("3 samples went over 4 devices")
print("sharded", len(kept))
"""
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"})
    assert done.stdout.strip() == "sharded 3", done.stderr
