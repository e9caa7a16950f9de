"""The pipeline: selection, fallback, failures, and transfer between processes."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr_support import OURS, OWN, open_ours, open_own, pipeline, same

import headrace
import headrace.zarr
from headrace.zarr import HeadracePipeline
from headrace.zarr._native import Target

SHAPE, CHUNKS = (23, 31), (5, 8)
DATA = np.arange(23 * 31, dtype="int32").reshape(SHAPE)


def create(where: Any, **how: Any) -> Any:
    how = {"chunks": CHUNKS, **how}
    return zarr.create_array(where, data=DATA, **how)


def kind_of(array: Any) -> type:
    return type(array._async_array.codec_pipeline)


# Selection


def test_enable_and_disable(tmp_path: Path) -> None:
    create(tmp_path)
    headrace.zarr.enable()
    try:
        assert kind_of(zarr.open_array(tmp_path)) is HeadracePipeline
        headrace.zarr.enable(strict=True)
        same(zarr.open_array(tmp_path)[...], DATA)
    finally:
        headrace.zarr.disable()
    assert zarr.config.get("codec_pipeline.path") == OWN
    assert kind_of(zarr.open_array(tmp_path)) is not HeadracePipeline


def test_enable_keeps_the_pipeline_chosen_before(tmp_path: Path) -> None:
    fused = "zarr.core.codec_pipeline.FusedCodecPipeline"
    if not hasattr(zarr.core.codec_pipeline, "FusedCodecPipeline"):
        pytest.skip("zarr has no second pipeline")
    with zarr.config.set({"codec_pipeline.path": fused}):
        headrace.zarr.enable()
        try:
            array = create(tmp_path)
            assert type(array._async_array.codec_pipeline._own).__name__ == "FusedCodecPipeline"
            same(array[...], DATA)
        finally:
            headrace.zarr.disable()
        assert zarr.config.get("codec_pipeline.path") == fused


def test_configuration_line() -> None:
    with zarr.config.set({"codec_pipeline.path": "headrace.zarr.HeadracePipeline"}):
        assert zarr.registry.get_pipeline_class() is HeadracePipeline
        assert kind_of(zarr.create_array({}, shape=1, dtype="i4")) is HeadracePipeline


def test_environment(tmp_path: Path) -> None:
    create(tmp_path)
    code = (
        f"import headrace.zarr, zarr; a = zarr.open_array({str(tmp_path)!r}); "
        "print(type(a._async_array.codec_pipeline).__name__, a._async_array.codec_pipeline._strict, int(a[...].sum()))"
    )
    environment = {**os.environ, "ZARR_CODEC_PIPELINE__PATH": OURS, "ZARR_HEADRACE__STRICT": "True"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["HeadracePipeline", "True", str(DATA.sum())]


def test_headrace_alone_does_not_import_zarr() -> None:
    code = "import headrace, sys; print('zarr' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# Fallback


class Reverse(numcodecs.abc.Codec):
    codec_id = "headrace-test-reverse"

    def encode(self, buf: Any) -> bytes:
        return bytes(buf)[::-1]

    def decode(self, buf: Any, out: Any = None) -> bytes:
        return bytes(buf)[::-1]


class Unknown(Reverse):
    """Looks like a codec of numcodecs; only the native side can reject it."""

    codec_id = "headrace-test-unknown"


Unknown.__module__ = "numcodecs.headrace_test"
numcodecs.register_codec(Reverse)
numcodecs.register_codec(Unknown)


@pytest.mark.parametrize("compressor", [Unknown(), Reverse()], ids=lambda c: c.codec_id)
def test_unknown_codecs_are_read_by_zarr(tmp_path: Path, compressor: Any, caplog: pytest.LogCaptureFixture) -> None:
    create(tmp_path, zarr_format=2, compressors=compressor)
    with pytest.raises(headrace.UnsupportedError, match="Reverse|headrace-test-unknown"):
        open_ours(tmp_path)[...]
    with caplog.at_level(logging.WARNING, logger="headrace.zarr"):
        array = open_ours(tmp_path, strict=False)
        same(array[...], DATA)
        same(array[3], DATA[3])
        same(open_ours(tmp_path, strict=False)[...], DATA)
    told = [r.getMessage() for r in caplog.records]
    assert len(told) == 1
    assert str(tmp_path) in told[0]


def test_strict_is_about_reading(tmp_path: Path) -> None:
    create(tmp_path, zarr_format=2, compressors=Reverse())
    with pytest.raises(headrace.UnsupportedError, match="codec .*Reverse") as caught:
        open_ours(tmp_path)[...]
    assert isinstance(caught.value, NotImplementedError)
    # When opening an array, zarr interprets NotImplementedError as "no such constructor". Writing must still work.
    with pipeline(OURS, strict=True):
        zarr.open_array(tmp_path, mode="r+")[0] = 5
    assert np.all(open_own(tmp_path)[0] == 5)


def test_rectilinear_grids(tmp_path: Path) -> None:
    try:
        with zarr.config.set({"array.rectilinear_chunks": True}):
            zarr.create_array(tmp_path, data=np.arange(10), chunks=[[2, 5, 3]])
            same(open_ours(tmp_path, strict=False)[1:9], np.arange(1, 9))
    except (TypeError, ValueError):
        pytest.skip("zarr has no rectilinear grids")


def test_a_replaced_codec_is_used(tmp_path: Path) -> None:
    """A program's own class for a standard codec remains in use."""
    create(tmp_path, compressors=zarr.codecs.GzipCodec())
    used = []

    class Gzip(zarr.codecs.GzipCodec):
        async def _decode_single(self, *args: Any) -> Any:
            used.append(1)
            return await super()._decode_single(*args)

    name = f"{Gzip.__module__}.{Gzip.__qualname__}"
    zarr.registry.register_codec("gzip", Gzip)
    with zarr.config.set({"codecs.gzip": name}):
        same(open_ours(tmp_path, strict=False)[...], DATA)
    assert used


# Failures


@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc", "crc32c", "none"])
def test_corrupted_chunk(tmp_path: Path, codec: str) -> None:
    Z = zarr.codecs
    codecs: dict[str, Any] = {
        "zstd": Z.ZstdCodec(), "gzip": Z.GzipCodec(), "blosc": Z.BloscCodec(), "crc32c": Z.Crc32cCodec(), "none": None
    }  # fmt: skip
    create(tmp_path, compressors=codecs[codec])
    key = tmp_path / "c" / "2" / "1"
    stored = bytearray(key.read_bytes())
    key.write_bytes(stored[: len(stored) // 2])
    ours = open_ours(tmp_path)
    with pytest.raises((headrace.CorruptError, headrace.ShortReadError), match="c/2/1") as caught:
        ours[...]
    assert caught.value.key == "c/2/1"
    same(ours[:10], DATA[:10])


def test_corrupted_shard_index(tmp_path: Path) -> None:
    create(tmp_path, shards=(10, 16))
    key = tmp_path / "c" / "1" / "0"
    stored = bytearray(key.read_bytes())
    stored[-7] ^= 1
    key.write_bytes(stored)
    with pytest.raises(headrace.CorruptError, match="c/1/0"):
        open_ours(tmp_path)[...]


def test_missing_chunks_may_be_an_error(tmp_path: Path) -> None:
    if "read_missing_chunks" not in zarr.config.get("array"):
        pytest.skip("zarr cannot be told so")
    create(tmp_path)
    (tmp_path / "c" / "2" / "1").unlink()
    with zarr.config.set({"array.read_missing_chunks": False}):
        ours = open_ours(tmp_path)
        same(ours[:10], DATA[:10])
        with pytest.raises(zarr.errors.ChunkNotFoundError, match=r"1 chunk.*not found[\s\S]*c/2/1"):
            ours[...]


@pytest.mark.parametrize("store", ["local", "memory"])
def test_status_of_each_chunk(tmp_path: Path, store: str) -> None:
    target: Any = tmp_path if store == "local" else zarr.storage.MemoryStore()
    array = zarr.create_array(target, shape=(20,), chunks=(5,), dtype="i4")
    array[5:10] = 1
    array[15:] = 2
    ours = open_ours(target)
    pipe = ours._async_array.codec_pipeline
    statuses: list[Any] = []
    read = pipe.read

    async def keep(*how: Any, **more: Any) -> Any:
        statuses.append(await read(*how, **more))
        return statuses[-1]

    pipe.read = keep
    same(ours[...], array[...])
    assert [s["status"] for s in statuses[0]] == ["missing", "present", "missing", "present"]


# Arrays that grow or shrink


def test_resize_and_append(tmp_path: Path) -> None:
    with pipeline(OURS, strict=True):
        array = zarr.create_array(tmp_path, data=np.arange(10), chunks=(4,))
        same(array[...], np.arange(10))
        array.append(np.arange(10, 50))
        same(array[...], np.arange(50))
        array.resize((7,))
        same(array[...], np.arange(7))
        array.resize((12,))
        same(array[...], np.r_[np.arange(8), np.zeros(4, int)])


def test_empty_array_grows(tmp_path: Path) -> None:
    with pipeline(OURS, strict=True):
        array = zarr.create_array(tmp_path, shape=(0, 3), chunks=(4, 2), dtype="i4")
        for i in range(20):
            array.append(np.full((3, 3), i))
        same(array[...], np.repeat(np.arange(20, dtype="i4"), 3)[:, None].repeat(3, 1))


# Threads and processes


def test_pickle(tmp_path: Path) -> None:
    create(tmp_path)
    array = open_ours(tmp_path)
    same(array[...], DATA)
    again = pickle.loads(pickle.dumps(array))
    assert kind_of(again) is HeadracePipeline
    assert again._async_array.codec_pipeline == array._async_array.codec_pipeline
    assert again._async_array.codec_pipeline._strict
    same(again[...], DATA)


def test_threads(tmp_path: Path) -> None:
    create(tmp_path)
    array = open_ours(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda i: array[i % 23], range(200)))
    for i, row in enumerate(rows):
        same(row, DATA[i % 23])


def test_tasks_of_one_loop(tmp_path: Path) -> None:
    create(tmp_path)
    array = open_ours(tmp_path)

    async def all_rows() -> list[Any]:
        return await asyncio.gather(*(array._async_array.getitem(i) for i in range(23)))

    same(np.stack(asyncio.run(all_rows())), DATA)


def _sum_in_child(array: Any, results: Any) -> None:
    results.put(int(array[...].sum()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_processes(tmp_path: Path, method: str) -> None:
    create(tmp_path)
    array = open_ours(tmp_path)
    same(array[...], DATA)
    context = multiprocessing.get_context(method)
    results = context.Queue()
    child = context.Process(target=_sum_in_child, args=(array, results))
    child.start()
    try:
        assert results.get(timeout=30) == DATA.sum()
    finally:
        child.join(10)
        child.kill()
    same(array[...], DATA)


def test_the_event_loop_is_not_blocked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coroutines on zarr's loop run while a read waits."""
    create(tmp_path)
    array = open_ours(tmp_path)
    going, ended = threading.Event(), threading.Event()
    fill = Target.fill

    def slow(*how: Any) -> Any:
        going.set()
        assert ended.wait(10)
        return fill(*how)

    monkeypatch.setattr(Target, "fill", slow)
    reader = ThreadPoolExecutor(1).submit(lambda: array[...])
    assert going.wait(10)
    zarr.create_array({}, data=np.arange(3))  # starts zarr's loop
    ended.set()
    same(reader.result(10), DATA)
