"""Loaders of several processes with partitions: together they read each chunk once, and nothing in later epochs."""
import json
import os
import subprocess
import sys
import time

import native_stores as stores
import numpy as np
import pytest

import headrace

RANKS, TIMES, BATCH = 2, 64, 4
CHUNK_BYTES = 6 * 8 * 4

RANK = """
import json, sys
import headrace
path, device, rank, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
loader = headrace.Loader(path, input_dims={"time": 1}, crops={"lat": 3, "lon": 3}, crops_per_frame=2, shuffle="block", block_groups=4, seed=5, rank=rank,
                         world=%d, batch_size=%d, cache_bytes=1 << 28, device=device, **options)
epochs = []
for _ in range(3):
    before = loader.stats["reads"].read_bytes
    samples = [sample for batch in loader for sample in batch.samples]
    epochs.append({"read_bytes": loader.stats["reads"].read_bytes - before, "samples": samples})
print(json.dumps(epochs))
""" % (RANKS, BATCH)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    data = np.arange(TIMES * 48, dtype="<f4").reshape(TIMES, 6, 8)
    path = str(stores.write(tmp_path_factory.mktemp("partitions") / "t2m", data, (1, 6, 8), attributes={"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]}))
    time.sleep(0.3)  # files written a moment ago are not kept
    return path


def epochs_of(path, options):
    """What each rank reports, each a process on a GPU of its own if there are enough."""
    gpus = [name for name in headrace.device_names() if name.startswith("cuda")]
    devices = gpus[:RANKS] if len(gpus) >= RANKS else ["host-staged"] * RANKS
    running = [subprocess.Popen([sys.executable, "-c", RANK, path, device, str(rank), json.dumps(options)], stdout=subprocess.PIPE, text=True,
                                env=dict(os.environ)) for rank, device in enumerate(devices)]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    return [json.loads(text) for text in said]


def test_all_ranks_together_read_each_byte_once(path):
    ranks = epochs_of(path, {"partitions": RANKS})
    assert sum(epochs[0]["read_bytes"] for epochs in ranks) == TIMES * CHUNK_BYTES
    for epoch in (1, 2):
        assert [epochs[epoch]["read_bytes"] for epochs in ranks] == [0, 0]
    for epoch in range(3):
        assert sorted(sample for epochs in ranks for sample in epochs[epoch]["samples"]) == list(range(2 * TIMES))
    frames = [{sample // 2 for sample in epochs[0]["samples"]} for epochs in ranks]
    assert frames == [{sample // 2 for sample in epochs[2]["samples"]} for epochs in ranks] and not frames[0] & frames[1]
    assert ranks[0][0]["samples"] != ranks[0][1]["samples"]


def test_without_partitions_ranks_share_chunks(path):
    ranks = epochs_of(path, {})
    assert sum(epochs[0]["read_bytes"] for epochs in ranks) > TIMES * CHUNK_BYTES
    assert sum(epochs[1]["read_bytes"] for epochs in ranks) > 0


def test_another_number_of_ranks_resumes(path):
    """Positions do not depend on the number of ranks: three ranks deliver what two have left."""
    how = {"input_dims": {"time": 1}, "shuffle": "block", "block_groups": 2, "partitions": 2, "seed": 3, "tail": "pad"}
    two = [headrace.Loader(path, rank=rank, world=2, batch_size=4, **how) for rank in range(2)]
    seen = []
    for loader in two:
        batches = iter(loader)
        for _ in range(3):
            seen += next(batches).samples
    state = two[0].state_dict()
    for rank in range(3):
        loader = headrace.Loader(path, rank=rank, world=3, batch_size=4, **how)
        loader.load_state_dict(state)
        for batch in loader:
            seen += batch.samples[:batch.valid]
    assert sorted(seen) == list(range(TIMES))


def test_mistakes_are_named(path):
    for options, text in (({"shuffle": True, "partitions": 2}, "partitions = 2, which only shuffle='block' has"),
                          ({"shuffle": "block", "partitions": 0}, "partitions"),
                          ({"shuffle": "block", "partitions": 65}, "partitions: 65, but the samples have only 64 groups")):
        with pytest.raises(headrace.InvalidArgumentError, match=text):
            headrace.Loader(path, input_dims={"time": 1}, **options)
