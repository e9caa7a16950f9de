"""Shards that change while arrays are open, as zarr versions that write in place do: a read returns old or new elements."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr_support import open_ours, same

import headrace
from headrace.zarr import _native

SHAPE = (64, 64)


def create(where: Path, value: int, compressors: Any = None) -> Any:
    # Inner chunks that compress differently, so they have different offsets in each version.
    data = np.random.default_rng(value).integers(0, 256 >> (value % 8), SHAPE).astype("uint16") + 1000 * value
    zarr.create_array(where, data=data.astype("uint16"), chunks=(8, 8), shards=(32, 32), compressors=compressors, overwrite=True)
    return data.astype("uint16")


def write_in_place(source: Path, target: Path) -> None:
    for shard in source.rglob("c/*/*"):
        with open(target / shard.relative_to(source), "r+b") as file:
            file.write(shard.read_bytes())
            file.truncate()


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_shards_rewritten_in_place(tmp_path: Path, compressors: Any) -> None:
    first = create(tmp_path / "a", 0, compressors)
    array = open_ours(tmp_path / "a")
    same(array[:], first)
    for value in range(1, 7):
        later = create(tmp_path / "b", value, compressors)
        write_in_place(tmp_path / "b", tmp_path / "a")
        time.sleep(value % 2 * 0.15)  # at once, and when the change is no longer recent
        same(array[:], later)
        same(array[40:50, 3:9], later[40:50, 3:9])


def failing(times: int, read: Callable[..., Any], seen: list[int]) -> Callable[..., Any]:
    def attempt(*arguments: Any) -> Any:
        seen.append(1)
        if len(seen) <= times:
            raise headrace.RetriesExhaustedError("the shard was changed while it was read")
        return read(*arguments)

    return attempt


def test_a_shard_rewritten_while_it_is_read_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = create(tmp_path, 0)
    seen: list[int] = []
    monkeypatch.setattr(_native, "_read", failing(3, _native._read, seen))
    same(open_ours(tmp_path)[:], data)
    assert len(seen) == 4


def test_a_shard_rewritten_all_the_time_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path, 0)
    monkeypatch.setattr(_native, "_read", failing(1000, _native._read, []))
    # Must not fall back to zarr's pipeline, which would not notice the change.
    with pytest.raises(headrace.RetriesExhaustedError):
        open_ours(tmp_path, strict=False)[:]
