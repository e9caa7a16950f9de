"""Plain files, with the interface of kvikIO's CuFile."""

import gc
import weakref

import numpy as np
import pytest

import headrace

DATA = np.random.default_rng(3).integers(0, 256, 3 << 20, np.uint8)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "f").write_bytes(DATA.tobytes())
    return tmp_path / "f"


@pytest.mark.parametrize("via", ["auto", "direct", "buffered"])
def test_reads_and_writes(path, tmp_path, via):
    with headrace.File(tmp_path / "new", "w+", via=via) as file:
        assert file.write(DATA) == DATA.nbytes and file.nbytes == DATA.nbytes
        file.sync()
        out = np.zeros_like(DATA)
        assert file.read(out) == DATA.nbytes and np.array_equal(out, DATA)
    assert (tmp_path / "new").read_bytes() == DATA.tobytes()
    with headrace.File(path, via=via) as file:
        part = np.zeros(5000, np.uint8)
        assert file.read(part, size=4000, file_offset=777, dev_offset=100) == 4000
        assert np.array_equal(part[100:4100], DATA[777:4777]) and not part[:100].any() and not part[4100:].any()


def test_futures(path):
    with headrace.File(path) as file:
        parts = [np.zeros(1 << 16, np.uint8) for _ in range(48)]
        futures = [file.pread(part, file_offset=i << 16) for i, part in enumerate(parts)]
        assert sum(future.get() for future in futures) == DATA.nbytes
        assert np.array_equal(np.concatenate(parts), DATA) and all(future.done() for future in futures)
    with headrace.File(path, "r+") as file:
        assert file.pwrite(np.ones(10, np.uint8), file_offset=5).get() == 10
    assert path.read_bytes()[5:15] == b"\1" * 10


def test_the_end_of_a_file(path):
    with headrace.File(path) as file:
        out = np.zeros(100, np.uint8)
        assert file.read(out, file_offset=DATA.nbytes - 10) == 10
        assert file.read(out, file_offset=DATA.nbytes + 10) == 0
        with pytest.raises(EOFError, match="10 bytes"):
            file.read_into(out, file_offset=DATA.nbytes - 10)
        assert file.read_into(np.zeros((10, 10), np.uint8)).shape == (10, 10)


def test_wrong_uses(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        headrace.File(tmp_path / "nope")
    with pytest.raises(ValueError, match="flags"):
        headrace.File(path, "x")
    with pytest.raises(ValueError):
        headrace.File(tmp_path)  # a directory
    file = headrace.File(path)
    with pytest.raises(ValueError, match="reading"):
        file.write(DATA)
    read_only = np.zeros(4, np.uint8)
    read_only.flags.writeable = False
    for wrong in [dict(tensor=read_only), dict(tensor=np.zeros((4, 4), np.uint8)[:, ::2]), dict(tensor="x"),
                  dict(tensor=np.zeros(4, np.uint8), size=5), dict(tensor=np.zeros(4, np.uint8), size=-1),
                  dict(tensor=np.zeros(4, np.uint8), file_offset=-1), dict(tensor=np.zeros(4, np.uint8), dev_offset=9)]:
        with pytest.raises(ValueError):
            file.read(**wrong)
    file.close()
    assert file.closed and "closed" in repr(file)
    with pytest.raises(ValueError, match="closed"):
        file.read(np.zeros(4, np.uint8))


def test_closing_lets_begun_transfers_end(tmp_path):
    """close() waits for all transfers, including queued ones; none continues after it."""
    large = np.random.default_rng(4).integers(0, 256, 32 << 20, np.uint8)
    file = headrace.File(tmp_path / "new", "w+")
    futures = [file.pwrite(large[i << 20:(i + 1) << 20], file_offset=i << 20) for i in range(32)]
    file.close()
    assert all(future.done() for future in futures) and {future.get() for future in futures} == {1 << 20}
    assert (tmp_path / "new").read_bytes() == large.tobytes()
    file = headrace.File(tmp_path / "new")
    outs = [np.zeros_like(large) for _ in range(8)]
    futures = [file.pread(out) for out in outs]
    file.close()
    assert {future.get() for future in futures} == {large.nbytes} and all(np.array_equal(out, large) for out in outs)
    with pytest.raises(ValueError, match="closed"):
        file.pread(outs[0])
    file.close()  # closing twice is allowed


def test_a_transfer_outlives_its_file(path):
    """Dropping a file without closing it does not stop its transfers."""
    outs = [np.zeros_like(DATA) for _ in range(8)]
    futures = [headrace.File(path).pread(out) for out in outs]
    assert {future.get() for future in futures} == {DATA.nbytes}
    assert all(np.array_equal(out, DATA) for out in outs)


def test_no_file_waits_for_the_garbage_collector(path):
    gc.disable()
    try:
        file = headrace.File(path)
        future, gone = file.pread(np.zeros_like(DATA)), weakref.ref(file)
        assert future.get() == DATA.nbytes
        del file
        assert gone() is None
    finally:
        gc.enable()
