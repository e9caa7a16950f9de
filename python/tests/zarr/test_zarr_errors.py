"""Failing reads through zarr: the right exception and location, and nothing keeps running."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore, MemoryStore
from zarr_support import OURS, open_ours, open_own, same

import headrace

DATA = np.arange(40 * 50, dtype="f4").reshape(40, 50)
KEY = "c/2/1"


def create(store: Any, **how: Any) -> None:
    zarr.create_array(store, data=DATA, chunks=(10, 25), **how)


def read_into(array: Any, memory: np.ndarray[Any, Any]) -> None:
    array.get_basic_selection(..., out=default_buffer_prototype().nd_buffer.from_ndarray_like(memory))


def test_damage_names_the_store(tmp_path: Path) -> None:
    create(tmp_path / "a")
    chunk = tmp_path / "a" / KEY
    chunk.write_bytes(chunk.read_bytes()[:20])
    for strict in (True, False):
        with pytest.raises(headrace.CorruptError) as caught:
            open_ours(tmp_path / "a", strict)[...]
        assert caught.value.key == KEY and caught.value.store == f"file://{tmp_path / 'a'}"
        assert str(tmp_path / "a") in str(caught.value)


def test_damage_in_a_store_that_zarr_fetches() -> None:
    store = MemoryStore()
    create(store)
    name = str(store)
    store._store_dict[KEY] = store._store_dict[KEY][:20]
    with pytest.raises(headrace.CorruptError) as caught:
        open_ours(store)[...]
    assert (caught.value.key, caught.value.store) == (KEY, name)


@pytest.mark.parametrize("strict", [True, False])
def test_read_only_memory(tmp_path: Path, strict: bool) -> None:
    create(tmp_path)
    fixed = np.zeros_like(DATA)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        read_into(open_ours(tmp_path, strict), fixed)


def test_memory_of_another_type(tmp_path: Path) -> None:
    """Falls back to zarr, which converts."""
    create(tmp_path)
    wide = np.zeros_like(DATA, "f8")
    read_into(open_ours(tmp_path, strict=False), wide)
    assert np.array_equal(wide, DATA)
    with pytest.raises(headrace.UnsupportedError, match=f"{tmp_path}: an output of float64 for an array of float32"):
        read_into(open_ours(tmp_path), wide)


def test_a_refusal_of_the_system_is_no_missing_feature(tmp_path: Path) -> None:
    create(tmp_path)
    (tmp_path / KEY).unlink()
    (tmp_path / KEY).mkdir()
    with pytest.raises(headrace.StorageError, match="is a directory") as caught:
        open_ours(tmp_path)[...]
    assert isinstance(caught.value, OSError) and caught.value.key == KEY


def test_missing_arrays(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(FileNotFoundError, match=str(path)):
            open_ours(path)


def test_a_fallback_of_some_reads_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    create(store, shards=(20, 50))
    with caplog.at_level(logging.WARNING, logger="headrace.zarr"):
        array = open_ours(store, strict=False)
        for row in (3, 4):
            same(array[row], open_own(store)[row])
        same(open_ours(store, strict=False)[7], DATA[7])
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"some of {store}" in told and "part of a shard in a MemoryStore" in told


def test_names_of_arrays_in_groups(tmp_path: Path) -> None:
    zarr.create_group(tmp_path).create_array("sub", data=DATA, chunks=(10, 25))
    with pytest.raises(headrace.UnsupportedError, match=f"cannot read {LocalStore(tmp_path)}/sub: an output"):
        read_into(open_ours(tmp_path, path="sub"), np.zeros_like(DATA, "f8"))


# Limited to two processors: more would read the array before Ctrl-C can be pressed.
PROGRAM = f"""
import asyncio, os, signal, threading, time
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
import numpy as np, zarr
from zarr.core.buffer import default_buffer_prototype
with zarr.config.set({{"codec_pipeline.path": {OURS!r}, "headrace.strict": True}}):
    import headrace.zarr
    array = zarr.open_array("long", mode="r")
array[0]
out = np.empty(array.shape, "f4")
buffer = default_buffer_prototype().nd_buffer.from_numpy_array(out)
async def read():
    task = asyncio.create_task(array._async_array.get_orthogonal_selection((slice(None),), out=buffer))
    await asyncio.sleep(0.2)
    task.cancel()
    await task
PRESS
try:
    WORK
except BaseException as error:
    print(type(error).__name__, time.monotonic())
"""
SYNC = PROGRAM.replace("WORK", "array.get_basic_selection(..., out=buffer)")
CTRL_C = SYNC.replace("PRESS", "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()")
# A small result: the amount that is read counts, not the size of the result.
COLUMN = CTRL_C.replace("array.get_basic_selection(..., out=buffer)", "array[:, 0]")
TASK = PROGRAM.replace("WORK", "asyncio.run(read())").replace("PRESS", "")
# 0.2 s after the end, nothing writes to the output and nothing uses the processor.
AFTER = """
time.sleep(0.2)
out[...] = 7
used = time.process_time()
time.sleep(0.5)
used = time.process_time() - used
assert all((row == 7).all() for row in out), "somebody still writes"
print("still used", used)
"""


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an array that takes seconds to read."""
    folder, rows = tmp_path_factory.mktemp("slow"), 1024
    array = zarr.create_array(
        folder / "long",
        shape=(rows, 1 << 18),
        chunks=(1, 1 << 18),
        dtype="f4",
        compressors=zarr.codecs.GzipCodec(level=1),
    )
    array[0] = np.arange(1 << 18, dtype="f4")
    for row in range(1, rows):
        (folder / "long" / "c" / str(row)).mkdir()
        os.link(folder / "long" / "c" / "0" / "0", folder / "long" / "c" / str(row) / "0")
    return folder


@pytest.mark.parametrize("program", [CTRL_C, COLUMN], ids=["all", "column"])
def test_ctrl_c_ends_the_program(long: Path, program: str) -> None:
    """Ctrl-C ends zarr's wait for a read, and the program exits without waiting for it, which would take seconds more."""
    late = []
    for _ in range(3):  # repeated, because others use the machine too
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=long, timeout=120)
        ended = time.monotonic()
        assert done.returncode == 0 and done.stdout.startswith("KeyboardInterrupt "), done
        late.append(ended - float(done.stdout.split()[1]))
        if late[-1] < 1.5:
            return
    pytest.fail(f"ended {late} s after Ctrl-C")


@pytest.mark.parametrize(("program", "error"), [(CTRL_C, "KeyboardInterrupt"), (COLUMN, "KeyboardInterrupt"), (TASK, "CancelledError")])
def test_reads_that_nobody_waits_for_stop(long: Path, program: str, error: str) -> None:
    done = []
    for _ in range(3):  # repeated, because others use the machine too
        done.append(
            subprocess.run([sys.executable, "-c", program + AFTER], capture_output=True, text=True, cwd=long, timeout=120)
        )
        if done[-1].returncode == 0:
            break
    assert done[-1].returncode == 0 and done[-1].stdout.startswith(error), done
    assert float(done[-1].stdout.split()[-1]) < 0.2, done
