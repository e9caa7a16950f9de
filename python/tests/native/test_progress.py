"""Progress bars: one per read, closed when the read ends, even by an error."""

import gc
import sys
import types

import native_stores as stores
import numpy as np
import pytest

import headrace
from headrace import _progress

DATA = np.arange(40 * 50, dtype="<f4").reshape(40, 50)


@pytest.fixture
def bars(monkeypatch):
    """Replaces tqdm by a recorder; each bar knows whether it is closed."""
    made = []

    class Bar:
        def __init__(self, **how):
            self.n, self.total, self.closed = 0, None, False
            made.append(self)

        def update(self, n):
            self.n += n

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    monkeypatch.setattr(_progress, "_somebody_looks", lambda: True)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    return made


@pytest.fixture
def array(tmp_path):
    return headrace.open(stores.write(tmp_path / "a", DATA, (10, 25), compress=True))


def test_reads_that_succeed(array, bars):
    array.read(progress=True)
    array.read_many([0, 1], progress=True)
    array.read_async(progress=True).result()
    assert [bar.closed for bar in bars] == [True] * 3


def test_reads_that_fail(array, bars, tmp_path):
    (tmp_path / "a" / "0.0").write_bytes(b"damaged")
    for read in (array.read, lambda **how: array.read_many([0], **how), lambda **how: array.read_async(**how).result()):
        with pytest.raises(headrace.CorruptError):
            read(progress=True)
    assert [bar.closed for bar in bars] == [True] * 3


def test_reads_that_do_not_begin(array, bars, monkeypatch):
    class Refuses:
        def __getattr__(self, name):
            return getattr(core, name)

        def start(self, *arguments):
            raise headrace.ResourceExhaustedError("no memory")

    for options in ({"fill": "x"}, {"device": "tpu"}, {"out": np.empty(3)}, {"dtype": ">f4"}):
        for read in (array.read, array.read_async):
            with pytest.raises(headrace.HeadraceError):
                read(progress=True, **options)
    core = array._core
    monkeypatch.setattr(array, "_core", Refuses())
    with pytest.raises(MemoryError):
        array.read_async(progress=True)
    assert all(bar.closed for bar in bars)


def test_reads_that_nobody_waits_for(array, bars):
    array.read_async(progress=True)
    gc.collect()
    future = array.read_async(progress=True)
    future.cancel()
    del future
    gc.collect()
    assert [bar.closed for bar in bars] == [True] * 2
