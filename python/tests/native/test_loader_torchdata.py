"""torchdata's StatefulDataLoader over Loader.torch_dataset(): a mid-epoch state restores exactly the rest of the epoch."""

import json
import pickle

import native_stores as stores
import numpy as np
import pytest

import headrace

stateful = pytest.importorskip("torchdata.stateful_dataloader")

DATA = np.arange(24 * 3 * 4, dtype="<f4").reshape(24, 3, 4)


@pytest.fixture
def path(tmp_path):
    return stores.write(tmp_path / "t", DATA, (4, 3, 4), attributes={"_ARRAY_DIMENSIONS": ["time", "y", "x"]})


def loop_over(path, state=None, **options):
    """A StatefulDataLoader, as a program creates it at the start or from a checkpoint."""
    loader = headrace.Loader(path, input_dims={"time": 1}, batch_size=4, shuffle=True, seed=3, device="host", **options)
    loop = stateful.StatefulDataLoader(loader.torch_dataset(), batch_size=None)
    if state is not None:
        loop.load_state_dict(state)
    return loop


def samples_of(batch):
    """The samples whose elements lie in the batch: samples are frames of consecutive numbers."""
    frames = (batch["t"][:, 0, 0, 0].numpy() // 12).astype(int).tolist()
    np.testing.assert_array_equal(batch["t"][:, 0].numpy(), DATA[frames])
    return frames


def epoch_of(loop):
    return [samples_of(batch) for batch in loop]


@pytest.mark.parametrize("given", range(6))
def test_what_is_left_of_an_epoch(path, given):
    whole = loop_over(path)
    epochs = [epoch_of(whole) for _ in range(3)]
    assert [sorted(sum(epoch, [])) for epoch in epochs] == [list(range(24))] * 3 and epochs[0] != epochs[1]
    for epoch in range(2):
        first = loop_over(path)
        for _ in range(epoch):
            epoch_of(first)
        batches = iter(first)
        assert [samples_of(next(batches)) for _ in range(given)] == epochs[epoch][:given]
        state = pickle.loads(pickle.dumps(first.state_dict()))
        again = loop_over(path, state)
        assert epoch_of(again) == epochs[epoch][given:]
        assert epoch_of(again) == epochs[epoch + 1]
        # The loader that the state was taken from continues as well.
        assert [samples_of(batch) for batch in batches] == epochs[epoch][given:]
        assert epoch_of(first) == epochs[epoch + 1]


@pytest.mark.parametrize("ended", [False, True])
def test_behind_the_last_batch_the_next_epoch_begins(path, ended):
    whole = loop_over(path)
    epochs = [epoch_of(whole) for _ in range(3)]
    first = loop_over(path)
    batches = iter(first)
    assert [samples_of(next(batches)) for _ in range(6)] == epochs[0]
    if ended:
        assert next(batches, None) is None
    again = loop_over(path, first.state_dict())
    assert [epoch_of(again) for _ in range(2)] == epochs[1:]


def test_a_resumed_loop_is_left_and_resumed_again(path):
    epoch = epoch_of(loop_over(path))
    seen, state = [], None
    for _ in range(len(epoch)):
        loop = loop_over(path, state)
        seen.append(samples_of(next(iter(loop))))
        state = loop.state_dict()
    assert seen == epoch


def test_two_ranks_go_on_where_one_was(path):
    one = loop_over(path)
    batches = iter(one)
    seen = [samples_of(next(batches)) for _ in range(2)]
    state = one.state_dict()
    left = [epoch_of(loop_over(path, state, rank=rank, world=2)) for rank in range(2)]
    assert [len(batches) for batches in left] == [2, 2]
    assert sorted(sum(seen + left[0] + left[1], [])) == list(range(24))


def test_what_does_not_fit_is_refused(path):
    loop = loop_over(path)
    next(iter(loop))
    state = loop.state_dict()
    other = headrace.Loader(path, input_dims={"time": 2}, batch_size=4, shuffle=True, seed=3, device="host")
    changed = stateful.StatefulDataLoader(other.torch_dataset(), batch_size=None)
    changed.load_state_dict(state)
    with pytest.raises(headrace.InvalidArgumentError, match="input_dims|samples"):
        next(iter(changed))
    with pytest.raises((RuntimeError, headrace.InvalidArgumentError), match="num_workers must be 0"):
        next(iter(stateful.StatefulDataLoader(other.torch_dataset(), batch_size=None, num_workers=1)))
    assert "headrace" in json.dumps(state)
