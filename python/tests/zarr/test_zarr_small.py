"""Single small chunks are read on the event loop's thread if the page cache holds them: checks results and threads."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr_support import open_ours, open_own, same

import headrace
from headrace.zarr._native import SmallChunks

SHAPE, CHUNKS = (40, 30), (10, 10)
DATA = np.arange(1200, dtype="int32").reshape(SHAPE)
LAYOUTS: dict[str, dict[str, Any]] = {
    "v3": {"compressors": None},
    "v3-zstd": {},
    "v3-dots": {"compressors": None, "chunk_key_encoding": {"name": "v2", "separator": "."}},
    "v2": {"zarr_format": 2, "compressors": None},
    "v2-slash": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "sharded": {"chunks": (5, 5), "shards": CHUNKS},
}


class Calls:
    """Records each read of a small chunk: its thread, whether it was limited to data at hand, the result."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[str, bool, int]] = []
        first = SmallChunks.__init__

        def init(small: SmallChunks, store: Any, root: Any, generation: int, read: Any, decodes: bool) -> None:
            def noting(*arguments: Any) -> int:
                outcome: int = read(*arguments)
                self.seen.append((threading.current_thread().name, arguments[-1], outcome))
                return outcome

            first(small, store, root, generation, noting, decodes)

        monkeypatch.setattr(SmallChunks, "__init__", init)

    def take(self) -> list[tuple[str, bool, int]]:
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


def create(where: Path, **how: Any) -> Any:
    zarr.create_array(where, data=DATA, **{"chunks": CHUNKS, "fill_value": -1, **how})
    array = open_ours(where)
    same(array[:1, :1], DATA[:1, :1])  # opens the array
    return array


@pytest.mark.parametrize("layout", LAYOUTS)
def test_selections_of_one_chunk(tmp_path: Path, calls: Calls, layout: str) -> None:
    array = create(tmp_path, **LAYOUTS[layout])
    for selection in (
        np.s_[10:20, 10:20], np.s_[11:19, 12], np.s_[13, 29], np.s_[30:40:3, 1:10:4], np.s_[39:, 29:], np.s_[25:26, 0:10],
        np.s_[-1, -10:], np.s_[0:10, 0:10],
    ):
        calls.take()
        same(array[selection], DATA[selection])
        assert calls.take() == [("zarr_io", True, SmallChunks.READ)], selection


@pytest.mark.parametrize("dtype", ["bool", "u1", "f2", "c8", ">i4", "M8[s]", "U3", "S5", "T", [("a", "i2"), ("b", ">f8")]])
def test_types(tmp_path: Path, dtype: Any) -> None:
    data = np.arange(12).astype("i8").astype(dtype) if isinstance(dtype, str) and dtype[0] != "M" else np.zeros(12, dtype)
    zarr.create_array(tmp_path, data=data, chunks=(4,), zarr_format=2 if dtype == "S5" else 3)
    ours, own = open_ours(tmp_path), open_own(tmp_path)
    for begin in (0, 4, 8, 8):
        got, wanted = ours[begin : begin + 3], own[begin : begin + 3]
        assert got.dtype == wanted.dtype and (got == wanted).all()


def evict(path: Path) -> bool:
    """Evicts `path` from the page cache. Returns whether its file system supports that."""
    probe = path.with_name("probe")
    probe.write_bytes(bytes(4096))
    for each in (path, probe):
        with open(each, "rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            try:
                cached = each == probe and os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
            except BlockingIOError:
                cached = False
    probe.unlink()
    return not cached


def test_what_the_page_cache_lacks_is_read_beside_the_loop(tmp_path: Path, calls: Calls) -> None:
    array = create(tmp_path, compressors=None)
    if not evict(tmp_path / "c/2/1"):
        pytest.skip("the file system of the test's folder keeps its files in memory")
    calls.take()
    same(array[20:30, 10:20], DATA[20:30, 10:20])
    seen = calls.take()
    assert [(at_hand, outcome) for _, at_hand, outcome in seen] == [(True, 0), (False, SmallChunks.READ)]
    assert seen[0][0] == "zarr_io" and seen[1][0].startswith("headrace-zarr")


def test_others_that_wait_for_the_loop_are_not_kept_by_decoding(tmp_path: Path, calls: Calls) -> None:
    array = create(tmp_path)

    async def together() -> list[Any]:
        return await asyncio.gather(*(array._async_array.getitem((slice(i, i + 10), slice(0, 10))) for i in (0, 10, 20)))

    calls.take()
    for i, got in zip((0, 10, 20), asyncio.run(together()), strict=True):
        same(got, DATA[i : i + 10, :10])
    assert any(name.startswith("headrace-zarr") for name, *_ in calls.take())


@pytest.mark.parametrize("layout", ["v3", "v3-zstd", "sharded"])
def test_missing_chunks(tmp_path: Path, calls: Calls, layout: str) -> None:
    array = create(tmp_path, **LAYOUTS[layout])
    (tmp_path / "c/1/0").unlink()
    calls.take()
    same(array[10:20, 0:10], np.full((10, 10), -1, "int32"))
    assert calls.take()[-1][-1] == (0 if layout == "sharded" else SmallChunks.MISSING)
    with zarr.config.set({"array.read_missing_chunks": False}):
        strict = open_ours(tmp_path)
        same(strict[0:10, 0:10], DATA[0:10, 0:10])
        with pytest.raises(Exception, match="c/1/0") as raised:
            strict[10:20, 0:10]
        assert not isinstance(raised.value, headrace.HeadraceError)


def test_what_is_broken_raises_with_its_key(tmp_path: Path) -> None:
    array = create(tmp_path)
    with open(tmp_path / "c/1/1", "r+b") as file:
        file.truncate(9)
    with pytest.raises(headrace.HeadraceError) as raised:
        array[10:20, 10:20]
    assert raised.value.key == "c/1/1"


def test_files_that_others_replace(tmp_path: Path) -> None:
    array = create(tmp_path, compressors=None)
    writer = zarr.open_array(tmp_path, mode="r+")
    for value in (7, 8):
        writer[0:10, 0:10] = value
        same(array[0:10, 0:10], np.full((10, 10), value, "int32"))


def test_arrays_that_grow(tmp_path: Path, calls: Calls) -> None:
    create(tmp_path, compressors=None)
    array = open_ours(tmp_path)
    same(array[0:10, 0:10], DATA[0:10, 0:10])
    writer = zarr.open_array(tmp_path, mode="r+")
    writer.resize((400, 30))
    writer[390:400, 20:30] = DATA[:10, :10]
    array = array.__class__(array._async_array.__class__(writer._async_array.metadata, array._async_array.store_path))
    same(array[390:400, 20:30], DATA[:10, :10])
    same(array[390:400, 20:30], DATA[:10, :10])
    writer[0:10, 0:10] = 3
    same(array[0:10, 0:10], np.full((10, 10), 3, "int32"))


def test_a_store_whose_root_is_changed(tmp_path: Path) -> None:
    array = create(tmp_path / "a", compressors=None)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    zarr.open_array(tmp_path / "b", mode="r+")[0:10, 0:10] = 5
    same(array[0:10, 0:10], DATA[0:10, 0:10])
    array._async_array.store_path.store.root = tmp_path / "b"
    same(array[0:10, 0:10], np.full((10, 10), 5, "int32"))
    same(array[0:10, 0:10], np.full((10, 10), 5, "int32"))


def test_relative_roots_follow_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("a", 1), ("b", 2)):
        zarr.create_array(tmp_path / name / "x", data=np.full(4, value), chunks=(4,))
    monkeypatch.chdir(tmp_path / "a")
    array = open_ours("x")
    same(array[:], np.full(4, 1))
    same(array[:], np.full(4, 1))
    monkeypatch.chdir(tmp_path / "b")
    same(array[:], np.full(4, 2))


def test_links(tmp_path: Path, calls: Calls) -> None:
    create(tmp_path / "real/x", compressors=None)
    (tmp_path / "store").mkdir()
    (tmp_path / "store/g").symlink_to(tmp_path / "real")
    array = open_ours(tmp_path / "store", path="g/x")
    for _ in range(2):
        calls.take()
        same(array[10:20, 10:20], DATA[10:20, 10:20])
    assert calls.take() == [("zarr_io", True, SmallChunks.READ)]


def test_outputs_that_are_given(tmp_path: Path, calls: Calls) -> None:
    from zarr.core.buffer import default_buffer_prototype

    array = create(tmp_path, compressors=None)
    wrap = default_buffer_prototype().nd_buffer.from_numpy_array
    room = np.zeros((10, 3, 10), "int32")
    calls.take()
    array.get_basic_selection(np.s_[0:10, 10:20], out=wrap(room[:, 1]))
    assert calls.take() == [("zarr_io", True, SmallChunks.READ)]
    same(room[:, 1], DATA[0:10, 10:20])
    assert not room[:, 0].any() and not room[:, 2].any()
    turned = np.zeros((10, 10), "int32")
    array.get_basic_selection(np.s_[0:10, 10:20], out=wrap(turned[::-1, ::-1]))
    same(turned, DATA[0:10, 10:20][::-1, ::-1])
    wide = np.zeros((10, 10), "int64")
    with pytest.raises(headrace.HeadraceError):
        array.get_basic_selection(np.s_[0:10, 10:20], out=wrap(wide))
    fixed = np.zeros((10, 10), "int32")
    fixed.flags.writeable = False
    with pytest.raises((headrace.HeadraceError, ValueError)):
        array.get_basic_selection(np.s_[0:10, 10:20], out=wrap(fixed))
    assert not fixed.any()


def test_arrays_without_dimensions(tmp_path: Path) -> None:
    for name, format_ in (("three", 3), ("two", 2)):
        zarr.create_array(tmp_path / name, data=np.array(7.5), zarr_format=format_)
        array = open_ours(tmp_path / name)
        assert array[()] == array[()] == 7.5


def test_large_chunks_are_read_beside_the_loop(tmp_path: Path, calls: Calls) -> None:
    data = np.zeros((2, 1 << 18), "u1")
    zarr.create_array(tmp_path, data=data, chunks=(1, 1 << 18))
    array = open_ours(tmp_path)
    same(array[0], data[0])
    same(array[0, :10], data[0, :10])
    assert calls.take() == []


def test_many_threads(tmp_path: Path) -> None:
    array = create(tmp_path)
    failed: list[BaseException] = []

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(100):
                i, j = (int(n) for n in random.integers((4, 3)))
                here = np.s_[10 * i : 10 * i + 10, 10 * j : 10 * j + 10]
                same(array[here], DATA[here])
        except BaseException as error:  # noqa: BLE001 - reported by the thread that started this one
            failed.append(error)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
