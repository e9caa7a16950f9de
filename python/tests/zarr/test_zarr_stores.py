"""All kinds of stores: those that headrace reads itself, and those whose objects zarr fetches."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr_support import OURS, open_ours, open_own, pipeline, same
from zarr.storage import LocalStore, MemoryStore, WrapperStore, ZipStore

import headrace

SHAPE, CHUNKS = (23, 31), (5, 8)
DATA = np.arange(23 * 31, dtype="int32").reshape(SHAPE)


def fill(store: Any, **how: Any) -> None:
    array = zarr.create_array(store, shape=SHAPE, chunks=CHUNKS, dtype="int32", fill_value=4, **how)
    array[:20] = DATA[:20]


def check(store: Any, strict: bool = True) -> None:
    ours, own = open_ours(store, strict), open_own(store)
    for selection in (np.s_[...], np.s_[3:17:4, -2], np.s_[22, 30]):
        same(ours[selection], own[selection])
    same(ours.oindex[[20, 1], 3:9], own.oindex[[20, 1], 3:9])
    same(ours.vindex[[20, 1], [30, 0]], own.vindex[[20, 1], [30, 0]])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_memory(zarr_format: int) -> None:
    store = MemoryStore()
    fill(store, zarr_format=zarr_format)
    check(store)


def test_whole_shards_in_memory() -> None:
    store = MemoryStore()
    fill(store, shards=(10, 16))
    ours = open_ours(store)
    same(ours[...], open_own(store)[...])
    same(ours[:10, 16:], open_own(store)[:10, 16:])


def test_parts_of_shards_elsewhere_are_read_by_zarr() -> None:
    store = MemoryStore()
    fill(store, shards=(10, 16))
    check(store, strict=False)
    with pytest.raises(headrace.UnsupportedError, match="part of a shard in a MemoryStore"):
        open_ours(store)[3]


@pytest.mark.parametrize("shards", [None, (10, 16)], ids=["chunks", "shards"])
def test_zip(tmp_path: Path, shards: Any) -> None:
    where = tmp_path / "a.zip"
    with ZipStore(where, mode="w") as store:
        fill(store, **({"shards": shards} if shards else {}))
    with ZipStore(where, mode="r") as store:
        check(store)


def test_zip_being_written(tmp_path: Path) -> None:
    with pipeline(OURS, strict=True), ZipStore(tmp_path / "a.zip", mode="w") as store:
        array = zarr.create_array(store, data=DATA, chunks=CHUNKS)
        same(array[...], DATA)


def test_fsspec() -> None:
    pytest.importorskip("fsspec")
    from zarr.storage import FsspecStore

    store = FsspecStore.from_url("memory://zarr-plugin")
    fill(store)
    check(store)


class Slow(WrapperStore[MemoryStore]):
    """Yields to the event loop before each object, and counts concurrent fetches."""

    now = most = 0
    _supports_sync_io = False

    async def get(self, *how: Any, **more: Any) -> Any:
        Slow.now += 1
        Slow.most = max(Slow.most, Slow.now)
        await asyncio.sleep(0.005)
        Slow.now -= 1
        return await super().get(*how, **more)


def test_objects_elsewhere_are_fetched_concurrently() -> None:
    memory = MemoryStore()
    fill(memory)
    Slow.now = Slow.most = 0
    with zarr.config.set({"async.concurrency": 6}):
        same(open_ours(Slow(memory))[...], open_own(memory)[...])
    assert Slow.most == 6


class Changing(LocalStore):
    """Derived from zarr's store, with its own file access."""

    async def get(self, key: str, *how: Any, **more: Any) -> Any:
        return await super().get(key.replace("c/0/0", "c/1/0"), *how, **more)

    def get_sync(self, key: str, **more: Any) -> Any:
        return super().get_sync(key.replace("c/0/0", "c/1/0"), **more)


def test_derived_stores_are_asked(tmp_path: Path) -> None:
    fill(tmp_path)
    same(open_ours(Changing(tmp_path))[:5, :8], DATA[5:10, :8])


def test_local_store_and_ours(tmp_path: Path) -> None:
    fill(tmp_path)
    check(LocalStore(tmp_path))
    check(headrace.zarr.Store(tmp_path))
    check(str(tmp_path))


def test_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fill("a.zarr")
    check("a.zarr")


@pytest.mark.parametrize("name", ["with space", "ünïcode", "per%20cent", "que?ry#x"])
def test_odd_paths(tmp_path: Path, name: str) -> None:
    fill(LocalStore(tmp_path / name))
    check(LocalStore(tmp_path / name))


def test_links_to_arrays(tmp_path: Path) -> None:
    """An array elsewhere, linked from its group or below a linked group."""
    fill(tmp_path / "elsewhere" / "a")
    group = tmp_path / "group"
    zarr.create_group(group)
    (group / "link").symlink_to(tmp_path / "elsewhere" / "a")
    (group / "up").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "root").symlink_to(group)
    for root in (group, tmp_path / "root"):
        for path in ("link", "up/a"):
            same(open_ours(root, path=path)[...], open_own(root, path=path)[...])


def test_links_to_chunks(tmp_path: Path) -> None:
    fill(tmp_path / "a")
    fill(tmp_path / "b")
    key = tmp_path / "a" / "c" / "0" / "0"
    key.unlink()
    key.symlink_to(tmp_path / "b" / "c" / "1" / "0")
    same(open_ours(tmp_path / "a", strict=False)[:5, :8], DATA[5:10, :8])
    with pytest.raises(headrace.PermissionError, match="outside the store's root"):
        open_ours(tmp_path / "a")[...]


def test_directory_in_place_of_a_chunk(tmp_path: Path) -> None:
    """zarr treats it as a missing chunk."""
    fill(tmp_path)
    key = tmp_path / "c" / "0" / "0"
    key.unlink()
    key.mkdir()
    ours = open_ours(tmp_path, strict=False)
    same(ours[...], open_own(tmp_path)[...])
    assert ours[0, 0] == 4


@pytest.mark.parametrize("shards", [None, (10, 16)], ids=["chunks", "shards"])
def test_what_was_written_meanwhile_is_seen(tmp_path: Path, shards: Any) -> None:
    """Written by this array, by another one, and outside zarr."""
    fill(tmp_path, **({"shards": shards} if shards else {}))
    ours = open_ours(tmp_path)
    same(ours[:20], DATA[:20])
    with zarr.config.set({"codec_pipeline.path": "headrace.zarr.HeadracePipeline", "headrace.strict": True}):
        writer = zarr.open_array(tmp_path, mode="r+")
    writer[3:7, 4:9] = -1
    expected = DATA.copy()
    expected[3:7, 4:9] = -1
    expected[20:] = 4
    same(ours[...], expected)
    same(writer[...], expected)
    writer[21] = -2
    expected[21] = -2
    same(ours[...], expected)
    key = tmp_path / "c" / "0" / "0"
    os.unlink(key)
    step = (slice(0, (shards or CHUNKS)[0]), slice(0, (shards or CHUNKS)[1]))
    expected[step] = 4
    same(ours[...], expected)
