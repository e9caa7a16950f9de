"""Every kind of selection reads the same as through zarr's own pipeline, in one native read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr_support import open_ours, open_own, same
from zarr.core.buffer import default_buffer_prototype

SHAPE, CHUNKS = (37, 23, 9), (10, 6, 4)


@pytest.fixture(params=[2, 3, "sharded"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any]:
    """(array read by headrace, the same array read by zarr)."""
    how: dict[str, Any] = {"zarr_format": 2} if request.param == 2 else {}
    if request.param == "sharded":
        how["shards"] = (20, 12, 4)
    array = zarr.create_array(tmp_path, shape=SHAPE, chunks=CHUNKS, dtype="int32", fill_value=-5, **how)
    array[:30] = np.arange(30 * 23 * 9).reshape(30, 23, 9)
    return open_ours(tmp_path), open_own(tmp_path)


BASIC = [
    np.s_[...], np.s_[0], np.s_[-1], np.s_[5:6], np.s_[3:29], np.s_[::2], np.s_[1::3, 2::5, ::4], np.s_[:, 7],
    np.s_[..., 3], np.s_[4, 5, 6], np.s_[9:11, 5:7, 3:5], np.s_[::11, ::7], np.s_[::25], np.s_[36, 22, 8],
    np.s_[10:10], np.s_[30:], np.s_[-3:, -2:, -1:], np.s_[2, ..., 1:3],
]  # fmt: skip


@pytest.mark.parametrize("selection", BASIC, ids=str)
def test_basic(both: tuple[Any, Any], selection: Any) -> None:
    ours, own = both
    same(ours[selection], own[selection])


MASK = np.arange(37) % 5 == 2
ORTHOGONAL = [
    ([1, 3, 30],), ([30, 3, 1],), ([5, 5, 36, 0, 12],), (slice(None), [20, 0, 7]), ([1, 11, 21], [0, 22], [8]),
    (MASK,), (MASK, [3, 2, 1], slice(1, 5)), (4, [0, 5, 9], slice(None)), ([-1, -37], 3, [0]), (slice(2, 30, 3), 1, [1, 1]),
    (MASK, slice(None), 2), ([7], [7], [7]), (np.array([3, 9], dtype="uint32"),),
]  # fmt: skip


@pytest.mark.parametrize("selection", ORTHOGONAL, ids=lambda s: repr(s)[:40])
def test_orthogonal(both: tuple[Any, Any], selection: Any) -> None:
    ours, own = both
    same(ours.oindex[selection], own.oindex[selection])


def test_points(both: tuple[Any, Any]) -> None:
    ours, own = both
    rng = np.random.default_rng(3)
    for count in (1, 7, 300):
        points = tuple(rng.integers(-n, n, count) for n in SHAPE)
        same(ours.vindex[points], own.vindex[points])
        ordered = tuple(np.sort(p % n) for p, n in zip(points, SHAPE, strict=True))
        same(ours.vindex[ordered], own.vindex[ordered])
    square = tuple(rng.integers(0, n, (3, 4)) for n in SHAPE)
    same(ours.vindex[square], own.vindex[square])


def test_masks(both: tuple[Any, Any]) -> None:
    ours, own = both
    mask = np.random.default_rng(4).random(SHAPE) < 0.02
    same(ours.vindex[mask], own.vindex[mask])
    same(ours.get_mask_selection(np.zeros(SHAPE, bool)), own.get_mask_selection(np.zeros(SHAPE, bool)))


@pytest.mark.parametrize("selection", [0, (1, 1), (slice(0, 1), -1), (slice(None), 0, 0)], ids=str)
def test_blocks(both: tuple[Any, Any], selection: Any) -> None:
    ours, own = both
    same(ours.blocks[selection], own.blocks[selection])


@pytest.mark.parametrize("order", ["C", "F"])
def test_out(both: tuple[Any, Any], order: str) -> None:
    ours, own = both
    make = default_buffer_prototype().nd_buffer.create
    out = make(shape=(10, 23, 9), dtype=np.dtype("int32"), order=order, fill_value=1)
    ours.get_basic_selection(np.s_[25:35], out=out)
    same(out.as_numpy_array(), own[25:35])


def test_out_with_gaps(both: tuple[Any, Any]) -> None:
    ours, own = both
    whole = np.zeros((74, 23, 18), "int32")
    nd_buffer = default_buffer_prototype().nd_buffer
    ours.get_basic_selection(..., out=nd_buffer.from_numpy_array(whole[::2, :, ::-2]))
    same(whole[::2, :, ::-2], own[...])
    assert not whole[1::2].any()
    assert not whole[:, :, ::2].any()


def test_out_of_another_type_is_converted_by_zarr(tmp_path: Path) -> None:
    zarr.create_array(tmp_path, data=np.arange(10), chunks=(3,))
    out = default_buffer_prototype().nd_buffer.create(shape=(10,), dtype=np.dtype("float32"), fill_value=0)
    open_ours(tmp_path, strict=False).get_basic_selection(..., out=out)
    same(out.as_numpy_array(), np.arange(10, dtype="float32"))


def test_bad_selections(both: tuple[Any, Any]) -> None:
    ours, _ = both
    for bad in (np.s_[37], np.s_[0, 0, 0, 0], np.s_[::-1]):
        with pytest.raises(IndexError):
            ours[bad]


def test_fields(tmp_path: Path) -> None:
    kind = np.dtype([("a", "<i4"), ("b", "<f8")])
    data = np.zeros(20, kind)
    data["a"], data["b"] = np.arange(20), np.arange(20) / 2
    zarr.create_array(tmp_path, data=data, chunks=(6,), zarr_format=2)
    ours, own = open_ours(tmp_path, strict=False), open_own(tmp_path)
    same(ours[3:9], own[3:9])
    try:
        expected = own["a"]
    except TypeError:  # some zarr releases cannot select a field
        with pytest.raises(TypeError):
            ours["a"]
    else:
        same(ours["a"], expected)
