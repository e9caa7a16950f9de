"""What fails in a read through zarr: the exception of the failure, where it is, and that nothing goes on at the end."""

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
    """zarr converts."""
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


PROGRAM = f"""
import os, signal, threading, time
import zarr
with zarr.config.set({{"codec_pipeline.path": {OURS!r}, "headrace.strict": True}}):
    import headrace.zarr
    array = zarr.open_array("long", mode="r")
array[0]
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    array[...]
except KeyboardInterrupt:
    print("stopped", time.monotonic())
"""


def test_ctrl_c_ends_the_program(tmp_path: Path) -> None:
    """Ctrl-C ends zarr's waiting for a read, and the program does not wait for it either: it would take seconds more."""
    rows = 2048
    array = zarr.create_array(tmp_path / "long", shape=(rows, 1 << 18), chunks=(1, 1 << 18), dtype="f4",
                              compressors=zarr.codecs.GzipCodec(level=1))
    array[0] = np.arange(1 << 18, dtype="f4")
    for row in range(1, rows):
        (tmp_path / "long" / "c" / str(row)).mkdir()
        os.link(tmp_path / "long" / "c" / "0" / "0", tmp_path / "long" / "c" / str(row) / "0")
    late = []
    for _ in range(3):  # others use the machine, too
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, timeout=120)
        ended = time.monotonic()
        assert done.returncode == 0 and done.stdout.startswith("stopped "), done
        late.append(ended - float(done.stdout.split()[1]))
        if late[-1] < 1.5:
            return
    pytest.fail(f"ended {late} s after Ctrl-C")
