"""A Loader disturbed in the middle of a loop: by states, other loops, other threads and forks."""

import os
import threading
import time

import native_stores as stores
import numpy as np
import pytest

import headrace

SHAPE = (40, 6, 8)
DATA = np.arange(np.prod(SHAPE), dtype="<f4").reshape(SHAPE)
DIMS = ["time", "lat", "lon"]


@pytest.fixture
def path(tmp_path):
    return stores.write(tmp_path / "t2m", DATA, (4, 6, 8), compress=True, attributes={"_ARRAY_DIMENSIONS": DIMS})


def loader_of(path, **options):
    return headrace.Loader(path, **{"input_dims": {"time": 1}, "batch_size": 4, "shuffle": True, "seed": 3, "device": "host-staged", **options})


def samples_of(batch):
    for place, sample in enumerate(batch.samples):
        np.testing.assert_array_equal(batch["t2m"].numpy()[place], DATA[sample:sample + 1])
    return batch.samples


def epoch_of(loop):
    return [samples_of(batch) for batch in loop]


def test_a_state_in_the_middle_of_a_loop_ends_it(path):
    plain = loader_of(path)
    epochs = [epoch_of(plain) for _ in range(3)]
    loader = loader_of(path)
    seen, held, state = [], [], None
    for number, batch in enumerate(loader):
        seen.append(samples_of(batch))
        held.append(batch)
        if number == 2:
            state = loader.state_dict()
        if number == 6:
            loader.load_state_dict(state)
            assert loader.state_dict() == state
    assert seen == epochs[0][:7]
    assert epoch_of(loader) == epochs[0][3:]
    assert epoch_of(loader) == epochs[1]
    assert [samples_of(batch) for batch in held] == seen  # batches of the previous native loader
    # In the next epoch, and back again.
    for batch in loader:
        loader.load_state_dict(state)
    assert epoch_of(loader) == epochs[0][3:]
    assert loader.epoch == 1


def test_a_state_that_is_refused_changes_nothing(path):
    other = loader_of(path, input_dims={"time": 2})
    epoch = epoch_of(loader_of(path))
    loader = loader_of(path)
    seen = []
    for batch in loader:
        seen.append(samples_of(batch))
        before = loader.state_dict()
        with pytest.raises(headrace.InvalidArgumentError, match="different: 'positions', 'range'"):
            loader.load_state_dict(other.state_dict())
        for broken in ({"headrace": "{"}, {"headrace": before["headrace"][:-2]}, {}, None, {"headrace": 3}):
            with pytest.raises(headrace.InvalidArgumentError if broken is None or not isinstance(broken.get("headrace"), str) else headrace.CorruptError):
                loader.load_state_dict(broken)
        assert loader.state_dict() == before
    assert seen == epoch


def test_a_loop_that_was_not_begun_takes_no_epoch(path):
    plain = loader_of(path)
    epochs = [epoch_of(plain) for _ in range(2)]
    loader = loader_of(path)
    first = iter(loader)
    second = iter(loader)
    assert samples_of(next(second)) == epochs[0][0]
    assert list(first) == []  # the later loop has replaced it
    assert epoch_of(second) == epochs[0][1:]
    assert epoch_of(loader) == epochs[1]
    # Nor does a loop between loading a state and looping over the rest of its epoch.
    state = loader_of(path).state_dict()
    loader.load_state_dict(state)
    iter(loader)
    assert epoch_of(loader) == epochs[0]


def test_threads_release_while_batches_come_and_states_change(path):
    loader = loader_of(path, cache_bytes=1 << 20)
    state = loader.state_dict()
    epoch = epoch_of(loader)
    stop = threading.Event()

    def release():
        while not stop.is_set():
            loader.release_cache()
            time.sleep(0.0003)

    threads = [threading.Thread(target=release) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for given in range(1, 10):
            loader.load_state_dict(state)
            batches = iter(loader)
            assert [samples_of(next(batches)) for _ in range(given)] == epoch[:given]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    loader.release_cache()
    loader.load_state_dict(state)
    assert epoch_of(loader) == epoch and not loader.stats["cache_released"]  # recreated


def test_two_loaders_in_two_threads(path):
    loaders = [loader_of(path, seed=seed, cache_bytes=1 << 20) for seed in range(2)]
    found, failed = [[], []], []

    def run(number):
        try:
            for _ in range(3):
                found[number].append(epoch_of(loaders[number]))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    loaders[0].release_cache()
    for thread in threads:
        thread.join()
    assert not failed
    assert found == [[epoch_of(loader) for _ in range(3)] for loader in (loader_of(path, seed=seed) for seed in range(2))]
    assert loaders[0].stats["cache_released"] and not loaders[1].stats["cache_released"]


def refused_in_a_child(calls):
    """Whether `calls` end with ForkedError in a forked child, within 30 seconds."""
    child = os.fork()
    if child == 0:
        try:
            calls()
        except headrace.ForkedError:
            os._exit(0)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 30
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.001)
    if done == (0, 0):
        os.kill(child, 9)
        os.waitpid(child, 0)
    return done == (child, 0)


def test_threads_that_use_one_loader(path):
    epoch = epoch_of(loader_of(path))
    loader = loader_of(path)
    failed, ended = [], []

    def run(number):
        try:
            for turn in range(20):
                batches = []
                for batch in loader:
                    batches.append(samples_of(batch))
                    if turn % 3 == number:
                        loader.state_dict(), loader.stats, loader.epoch
                    if len(batches) == 2 + turn % 5:
                        break
                assert len({tuple(batch) for batch in batches}) == len(batches)
                ended.append(number)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(ended) == 60
    loader.load_state_dict(loader_of(path).state_dict())
    assert epoch_of(loader) == epoch


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_takes_batches(path):
    loader = loader_of(path)
    stop = threading.Event()

    def run():
        while not stop.is_set():
            for _ in loader:
                pass

    def calls():
        nonlocal loader
        try:
            loader.state_dict()
            next(iter(loader))
        finally:
            del loader  # ends there, too

    thread = threading.Thread(target=run)
    thread.start()
    try:
        for turn in range(10):
            assert refused_in_a_child(calls), turn
    finally:
        stop.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_takes_nothing(path):
    epoch = epoch_of(loader_of(path))
    loader = loader_of(path, cache_bytes=1 << 20)
    batches, seen = iter(loader), []
    for number in range(len(epoch)):
        seen.append(samples_of(next(batches)))
        assert refused_in_a_child(lambda: (loader.release_cache(), next(batches))), number
    assert seen == epoch and not loader.stats["cache_released"]
