"""_selection.reconstruct returns the selection that a batch was made from, or None."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.core.codec_pipeline import BatchedCodecPipeline

from headrace.zarr._selection import KeyLayout, Selected, reconstruct


class Capture(BatchedCodecPipeline):
    """zarr's own pipeline, recording the last batch it was asked to read."""

    last: tuple[list[Any], tuple[int, ...], tuple[int, ...]] | None = None

    async def read(self, batch_info: Any, out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        batch = list(batch_info)
        Capture.last = batch, out.shape, drop_axes
        return await super().read(batch, out, drop_axes)


zarr.registry.register_pipeline(Capture)
CAPTURE = f"{Capture.__module__}.{Capture.__qualname__}"


def batch_of(array: Any, kind: str, selection: Any) -> tuple[list[Any], tuple[int, ...], tuple[int, ...]]:
    Capture.last = None
    getattr(array, kind)[selection] if kind else array[selection]
    assert Capture.last is not None
    return Capture.last


def again(array: Any, batch: list[Any], shape: tuple[int, ...], drop: tuple[int, ...]) -> Selected | None:
    layout = KeyLayout.of(array.metadata)
    assert layout is not None
    split = layout.split(batch[0][0].path)
    assert split is not None
    assert layout.base(split[0]) == array.path
    return reconstruct(batch, layout, *split, array.shards or array.chunks, shape, drop)


def select(data: np.ndarray[Any, Any], extents: tuple[int, ...], found: Selected) -> np.ndarray[Any, Any]:
    # Chunks, and so slices, may extend past the array's end.
    padded = np.pad(data, [(0, -n % extent) for n, extent in zip(data.shape, extents, strict=True)])
    if found.indexing == "points":
        return padded[found.selection]
    axes = [[s] if isinstance(s, int) else np.arange(n)[s] for s, n in zip(found.selection, padded.shape, strict=True)]
    return padded[np.ix_(*axes)]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(("shape", "chunks"), [((17,), (5,)), ((13, 9), (4, 4)), ((7, 6, 11), (2, 6, 3))], ids=str)
def test_random_selections(shape: tuple[int, ...], chunks: tuple[int, ...], zarr_format: int) -> None:
    rng = random.Random(str((shape, zarr_format)))
    data = np.arange(np.prod(shape)).reshape(shape)
    with zarr.config.set({"codec_pipeline.path": CAPTURE}):
        array = zarr.create_array({}, name="g/a", data=data, chunks=chunks, zarr_format=zarr_format)

    def item(extent: int, advanced: bool) -> Any:
        kind = rng.randrange(5 if advanced else 3)
        if kind == 0:
            return rng.randrange(-extent, extent)
        if kind < 3:
            start = rng.randrange(extent)
            return slice(start, rng.randrange(start + 1, extent + 1), rng.randrange(1, 6))
        if kind == 3:
            return np.array([rng.randrange(-extent, extent) for _ in range(rng.randrange(1, 8))])
        mask = np.array([rng.random() < 0.4 for _ in range(extent)])
        mask[rng.randrange(extent)] = True
        return mask

    for _ in range(60):
        for kind in ("", "oindex", "vindex"):
            if kind == "vindex":
                selection: Any = tuple(np.array([rng.randrange(n) for _ in range(9)]) for n in shape)
            else:
                selection = tuple(item(n, kind == "oindex") for n in shape)
            batch, out_shape, drop = batch_of(array, kind, selection)
            found = again(array, batch, out_shape, drop)
            assert found is not None, (kind, selection)
            expected = getattr(array, kind)[selection] if kind else array[selection]
            np.testing.assert_array_equal(select(data, chunks, found).reshape(out_shape), np.reshape(expected, out_shape))


@pytest.fixture
def grid() -> tuple[Any, list[Any], tuple[int, ...], tuple[int, ...]]:
    with zarr.config.set({"codec_pipeline.path": CAPTURE}):
        array = zarr.create_array({}, data=np.arange(80).reshape(8, 10), chunks=(2, 5))
    return array, *batch_of(array, "", ...)


def test_whole_array_is_slices(grid: Any) -> None:
    found = again(*grid)
    assert found is not None
    assert found.selection == (slice(0, 8, 1), slice(0, 10, 1))
    assert found.last == (3, 1)


@pytest.mark.parametrize("change", ["swap", "drop", "repeat", "place", "part", "key", "step"])
def test_what_is_no_selection_is_refused(grid: Any, change: str) -> None:
    array, batch, shape, drop = grid
    batch = list(batch)
    getter, spec, inside, place, whole = batch[5]
    if change == "swap":
        batch[4], batch[5] = batch[5], batch[4]
    elif change == "drop":
        del batch[3]
    elif change == "repeat":
        batch[5] = batch[4]
    elif change == "place":
        batch[5] = getter, spec, inside, (place[0], slice(4, 9)), whole
    elif change == "part":
        batch[5] = getter, spec, (inside[0], slice(1, 5)), place, whole
    elif change == "key":
        batch[5] = batch[4][0], spec, inside, place, whole
    else:
        batch[5] = getter, spec, (slice(0, 2, 2), inside[1]), place, whole
    assert again(array, batch, shape, drop) is None


@pytest.mark.parametrize("at", [0, 2, 5])
@pytest.mark.parametrize("what", ["swapped places", "shifted place", "shorter part", "shifted part", "steps", "another chunk"])
def test_items_along_one_axis_mean_what_they_say(at: int, what: str) -> None:
    """For items that zarr would not produce, the result matches the items or is None."""
    data = np.arange(60)
    with zarr.config.set({"codec_pipeline.path": CAPTURE}):
        array = zarr.create_array({}, data=data, chunks=(10,))
    batch, shape, drop = batch_of(array, "", slice(3, 58))
    other = (at + 1) % 6
    getter, spec, (inside,), (place,), whole = batch[at]
    if what == "swapped places":
        batch[at], batch[other] = (
            (*batch[at][:3], batch[other][3], whole), (*batch[other][:3], batch[at][3], batch[other][4]),
        )
    elif what == "shifted place":
        batch[at] = getter, spec, (inside,), (slice(place.start + 1, place.stop + 1),), whole
    elif what == "shorter part":
        batch[at] = getter, spec, (slice(inside.start, inside.stop - 1),), (slice(place.start, place.stop - 1),), whole
    elif what == "shifted part":
        part = slice(0, inside.stop - inside.start) if at == 0 else slice(1, inside.stop)
        batch[at] = getter, spec, (part,), (place,), whole
    elif what == "steps":
        batch[at] = getter, spec, (slice(inside.start, inside.stop, 2),), (place,), whole
    else:
        batch[at] = batch[other][0], spec, (inside,), (place,), whole
    found = again(array, batch, shape, drop)
    wanted = np.full(60, -1)
    try:
        for item in batch:
            position = int(item[0].path.rpartition("/")[2])
            wanted[item[3][0]] = data[10 * position : 10 * position + 10][item[2][0]]
    except ValueError:  # parts and places differ in length
        assert found is None
        return
    if found is not None:
        np.testing.assert_array_equal(select(data, (10,), found), wanted[: shape[0]])


def test_output_of_another_shape_is_refused(grid: Any) -> None:
    array, batch, _, drop = grid
    assert again(array, batch, (8, 11), drop) is None
    assert again(array, batch, (8,), drop) is None


@pytest.mark.parametrize(
    ("layout", "path", "expected"),
    [
        (KeyLayout("c", "/", 2), "a/b/c/1/20", ("a/b/c/", (1, 20), "a/b")),
        (KeyLayout("c", "/", 2), "c/1/20", ("c/", (1, 20), "")),
        (KeyLayout("c", ".", 2), "a/c.1.20", ("a/c.", (1, 20), "a")),
        (KeyLayout("", ".", 2), "a.0/1.20", ("a.0/", (1, 20), "a.0")),
        (KeyLayout("", ".", 1), "7", ("", (7,), "")),
        (KeyLayout("", "/", 2), "9/1/20", ("9/", (1, 20), "9")),
        (KeyLayout("", "/", 2), "1/20", ("", (1, 20), "")),
        (KeyLayout("c", "/", 0), "a/c", ("a/c", (), "a")),
        (KeyLayout("", ".", 0), "0", ("0", (), "")),
    ],
)
def test_key_layouts(layout: KeyLayout, path: str, expected: tuple[str, tuple[int, ...], str]) -> None:
    prefix, position, base = expected
    assert layout.split(path) == (prefix, position)
    assert layout.base(prefix) == base
    assert layout.paths(prefix, [[p] for p in position]) == [path]
    assert layout.position(path, prefix) == position


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        (KeyLayout("c", "/", 2), "a/d/1/2"),
        (KeyLayout("c", "/", 2), "1/2"),
        (KeyLayout("c", ".", 2), "a/c.1"),
        (KeyLayout("", ".", 2), "a/1.x"),
        (KeyLayout("", "/", 2), "7"),
        (KeyLayout("c", "/", 0), "abc"),
    ],
)
def test_what_is_no_key(layout: KeyLayout, path: str) -> None:
    assert layout.split(path) is None
