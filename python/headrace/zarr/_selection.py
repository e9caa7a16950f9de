"""Reconstructs a selection of the array from zarr's list of chunks.

zarr passes a codec pipeline its split of the user's selection: one item per chunk, with the elements wanted from the
chunk and their place in the output. A native read plans better from the whole selection, so it is reconstructed here,
in coordinates of the array, and then verified: the items that the selection would produce are compared with those
given. If it cannot be reconstructed, the result is None.

Cost: most steps run once per chunk *along an axis*. The steps per chunk are whole-list operations of CPython, together
below a microsecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zarr.core.metadata import ArrayMetadata

# (byte getter, ArraySpec, selection in the chunk, selection in the output, whether the chunk is whole)
BatchItem = tuple[Any, Any, Any, Any, bool]
IndexArray = npt.NDArray[np.intp]

_chunk_selection = itemgetter(2)
_out_selection = itemgetter(3)


@dataclass(frozen=True, slots=True)
class Selected:
    """A selection in coordinates of the array.

    selection: for "orthogonal" an integer (drops the axis), slice or 1-D index array per axis; for "points" a 1-D
    index array per axis, all of one length. last: a grid position that, along each axis, is at least
    that of every chunk of the batch.
    """

    indexing: Literal["orthogonal", "points"]
    selection: tuple[int | slice | IndexArray, ...]
    last: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """How the keys of an array's chunks are formed from their grid positions.

    lead: "c" for the default encoding of Zarr v3, "" for that of v2. A 0-dimensional array has the single key "c" or
        "0".
    """

    lead: str
    separator: str
    ndim: int

    @classmethod
    def of(cls, metadata: ArrayMetadata) -> KeyLayout | None:
        """The layout; None if the array's key encoding is not one of the two in the specification."""
        ndim = len(metadata.shape)
        if metadata.zarr_format == 2:
            return cls("", metadata.dimension_separator, ndim)
        encoding: Any = metadata.chunk_key_encoding
        if not type(encoding).__module__.startswith("zarr.") or encoding.name not in ("default", "v2"):
            return None
        return cls("c" if encoding.name == "default" else "", encoding.separator, ndim)

    def split(self, path: str) -> tuple[str, tuple[int, ...]] | None:
        """Splits a chunk's path into the part before the grid position, and the grid position; None if it is no such
        path.
        """
        if self.ndim == 0:
            key = self.lead or "0"
            return (path, ()) if path == key or path.endswith("/" + key) else None
        lead = [self.lead] if self.lead else []
        if self.separator == "/":
            parts = path.split("/")[-self.ndim - len(lead) :]
        else:
            parts = path.rpartition("/")[2].split(self.separator)
        if len(parts) != self.ndim + len(lead) or parts[: len(lead)] != lead:
            return None
        numbers = parts[len(lead) :]
        try:
            position = tuple(map(int, numbers))
        except ValueError:
            return None
        return path[: len(path) - len(self.separator.join(numbers))], position

    def base(self, prefix: str) -> str:
        """The array's path, "" for the root of the store."""
        if self.ndim == 0:
            return prefix.rpartition("/")[0]
        tail = len(self.lead) + 1 if self.lead else 0
        return prefix[: len(prefix) - tail].rstrip("/")

    def position(self, path: str, prefix: str) -> tuple[int, ...] | None:
        if not path.startswith(prefix):
            return None
        if self.ndim == 0:
            return () if path == prefix else None
        try:
            position = tuple(map(int, path[len(prefix) :].split(self.separator)))
        except ValueError:
            return None
        return position if len(position) == self.ndim else None

    def paths(self, prefix: str, positions: Sequence[Sequence[int]]) -> list[str]:
        """Paths of the chunks at the outer product of `positions`, in C order."""
        if self.ndim == 0:
            return [prefix]
        texts = [[str(p) for p in axis] for axis in positions]
        if self.ndim == 1:
            return [prefix + text for text in texts[0]]
        texts[0] = [prefix + text for text in texts[0]]
        return list(map(self.separator.join, product(*texts)))


def reconstruct(
    batch: list[BatchItem],
    layout: KeyLayout,
    prefix: str,
    first: tuple[int, ...],
    extents: tuple[int, ...],
    out_shape: tuple[int, ...],
    drop_axes: tuple[int, ...] = (),
) -> Selected | None:
    """The selection from which zarr made `batch`; None if it cannot be reconstructed.

    extents: shape of a chunk of the grid (of a shard, if there are shards). drop_axes: axes of length 1 that the
    output does not have. REQUIRES: `prefix`, `first` = layout.split(path of the batch's first item).
    """
    if not isinstance(batch[0][3], tuple):
        return _points(batch, layout, prefix, extents, out_shape)
    if len(batch) == 1:
        found = _one_chunk(batch[0], first, extents, out_shape)
        if found is not None:
            return found
    lengths = _axis_lengths(batch, layout, prefix, first)
    if lengths is None:
        return None
    strides = [prod(lengths[axis + 1 :]) for axis in range(layout.ndim)]
    positions = _positions(batch, layout, prefix, first, lengths, strides)
    if positions is None:
        return None

    chunk_axes = [
        [batch[k * stride][2][axis] for k in range(length)]
        for axis, (length, stride) in enumerate(zip(lengths, strides, strict=True))
    ]
    mesh = any(isinstance(axis[0], np.ndarray) and axis[0].ndim > 1 for axis in chunk_axes)
    dropped = [
        axis in drop_axes if mesh else not isinstance(selectors[0], slice | np.ndarray)
        for axis, selectors in enumerate(chunk_axes)
    ]
    kept = [axis for axis, is_dropped in enumerate(dropped) if not is_dropped]
    if len(batch[0][3]) != len(kept) or len(out_shape) != len(kept):
        return None
    out_axes = [[batch[k * strides[axis]][3][i] for k in range(lengths[axis])] for i, axis in enumerate(kept)]
    try:
        if mesh:
            chunk_axes = [[_flat(s) for s in axis] for axis in chunk_axes]
            out_axes = [[_flat(s) for s in axis] for axis in out_axes]
            same = _is_mesh(map(_chunk_selection, batch), chunk_axes) and _is_mesh(map(_out_selection, batch), out_axes)
        else:
            # Selections along an axis are the same objects for every chunk, so list comparison succeeds by identity.
            same = list(map(_chunk_selection, batch)) == list(product(*chunk_axes)) and list(
                map(_out_selection, batch)
            ) == list(product(*out_axes))
    except ValueError:  # raised by arrays that are not identical objects
        return None
    if not same:
        return None

    selection: list[int | slice | IndexArray] = []
    out_lengths = iter(out_shape)
    out_of = iter(out_axes)
    for axis in range(layout.ndim):
        item: int | slice | IndexArray | None
        if dropped[axis]:
            item = _index(positions[axis], extents[axis], chunk_axes[axis])
        else:
            item = _along(positions[axis], extents[axis], chunk_axes[axis], next(out_of), next(out_lengths))
        if item is None:
            return None
        selection.append(item)
    return Selected("orthogonal", tuple(selection), tuple(max(p) for p in positions))


def _one_chunk(
    item: BatchItem, position: tuple[int, ...], extents: tuple[int, ...], out_shape: tuple[int, ...]
) -> Selected | None:
    """Fast path for a single chunk with integers and slices. None: not this case."""
    selection: list[int | slice | IndexArray] = []
    kept = 0
    for at, extent, inside in zip(position, extents, item[2], strict=True):
        if type(inside) is slice:
            low, high, step = inside.indices(extent)
            if kept == len(out_shape):
                return None
            place = item[3][kept]
            if type(place) is not slice or place.start != 0 or place.stop != out_shape[kept] or place.step not in (None, 1):
                return None
            if step < 1 or -(-(high - low) // step) != out_shape[kept]:
                return None
            selection.append(slice(at * extent + low, at * extent + high, step))
            kept += 1
        elif isinstance(inside, int):
            if not 0 <= inside < extent:
                return None
            selection.append(at * extent + inside)
        else:
            return None
    return Selected("orthogonal", tuple(selection), position) if kept == len(item[3]) == len(out_shape) else None


def _axis_lengths(
    batch: list[BatchItem], layout: KeyLayout, prefix: str, first: tuple[int, ...]
) -> list[int] | None:
    """Number of chunks along each axis if the batch is an outer product in C order."""
    count = len(batch)
    if count == 1:
        return [1] * layout.ndim
    last = layout.position(batch[-1][0].path, prefix)
    if last is None:
        return None
    lengths = [b - a + 1 for a, b in zip(first, last, strict=True)]
    if min(lengths) > 0 and prod(lengths) == count:
        return lengths
    # Chunks are left out: count along each axis until an outer axis advances.
    lengths = [1] * layout.ndim
    stride = 1
    for axis in reversed(range(layout.ndim)):
        length = 1
        while stride * length < count:
            position = layout.position(batch[stride * length][0].path, prefix)
            if position is None:
                return None
            if position[:axis] != first[:axis]:
                break
            length += 1
        lengths[axis] = length
        stride *= length
    return lengths if stride == count else None


def _positions(
    batch: list[BatchItem],
    layout: KeyLayout,
    prefix: str,
    first: tuple[int, ...],
    lengths: list[int],
    strides: list[int],
) -> list[Sequence[int]] | None:
    """Grid positions along each axis (a range if none is left out). None: the batch is not their outer product."""
    paths = [item[0].path for item in batch]
    ends = [layout.position(paths[(length - 1) * stride], prefix) for length, stride in zip(lengths, strides, strict=True)]
    if all(end is not None for end in ends):
        ranges: list[Sequence[int]] = [range(at, at + length) for at, length in zip(first, lengths, strict=True)]
        if all(end[axis] == ranges[axis][-1] for axis, end in enumerate(ends) if end is not None):
            if paths == layout.paths(prefix, ranges):
                return ranges
    positions: list[Sequence[int]] = []
    for axis, (length, stride) in enumerate(zip(lengths, strides, strict=True)):
        along = [layout.position(paths[k * stride], prefix) for k in range(length)]
        if any(p is None for p in along):
            return None
        positions.append([p[axis] for p in along if p is not None])
    return positions if paths == layout.paths(prefix, positions) else None


def _flat(selector: Any) -> Any:
    return selector.ravel() if isinstance(selector, np.ndarray) else selector


def _is_mesh(items: Any, axes: list[list[Any]]) -> bool:
    """Whether each item selects the outer product of its axes' selections, as slices or in numpy.ix_ form."""
    for item, expected in zip(items, product(*axes), strict=True):
        if len(item) != len(expected):
            return False
        for axis, (given, wanted) in enumerate(zip(item, expected, strict=True)):
            if isinstance(wanted, np.ndarray):
                shape = [1] * len(item)
                shape[axis] = wanted.size
                if not (isinstance(given, np.ndarray) and given.shape == tuple(shape)):
                    return False
                if not np.array_equal(given.ravel(), wanted):
                    return False
            elif given != wanted:
                return False
    return True


def _index(positions: Sequence[int], extent: int, selectors: list[Any]) -> int | None:
    if len(positions) != 1:
        return None
    selector = selectors[0]
    if isinstance(selector, np.ndarray):
        if selector.size != 1 or selector.dtype.kind not in "iu":
            return None
        selector = selector.item()
    at = int(selector)
    return positions[0] * extent + at if 0 <= at < extent else None


def _along(
    positions: Sequence[int], extent: int, selectors: list[Any], places: list[Any], out_length: int
) -> slice | IndexArray | None:
    """The selection along one axis, merged from `selectors` in each chunk, which go to `places` of the output."""
    if all(isinstance(s, slice) for s in selectors) and all(isinstance(p, slice) for p in places):
        found = _as_slice(positions, extent, selectors, places, out_length)
        if found is not None:
            return found
    wanted = np.full(out_length, -1, dtype=np.intp)
    for position, selector, place in zip(positions, selectors, places, strict=True):
        if isinstance(selector, slice):
            inside = np.arange(*selector.indices(extent))
        elif selector.dtype == bool:
            inside = np.flatnonzero(selector)
        else:
            inside = selector
        if inside.size == 0 or int(inside.min()) < 0 or int(inside.max()) >= extent:
            return None
        try:
            wanted[place] = inside + position * extent
        except (ValueError, IndexError):
            return None
    return wanted if int(wanted.min()) >= 0 else None


def _as_slice(
    positions: Sequence[int], extent: int, selectors: list[slice], places: list[slice], out_length: int
) -> slice | None:
    low, high, step = selectors[0].indices(extent)
    start = positions[0] * extent + low
    if isinstance(positions, range) and step == 1 and high == extent:
        # Whole chunks except the first and last: checked by one comparison per list.
        inner = len(positions) - 2
        last = selectors[-1].indices(extent)
        starts = [0, *range(extent - low, extent - low + (inner + 1) * extent, extent)]
        if (
            last[0] == 0
            and last[2] == 1
            and starts[-1] + last[1] == out_length
            and selectors[1:-1] == [slice(0, extent, 1)] * inner
            and places == list(map(slice, starts, [*starts[1:], out_length]))
        ):
            return slice(start, start + out_length, 1)
    done = 0
    for position, selector, place in zip(positions, selectors, places, strict=True):
        low, high, stride = selector.indices(extent)
        count = len(range(low, high, stride))
        if stride != step or count == 0:
            return None
        if position * extent + low != start + done * step or place.start != done or place.stop != done + count:
            return None
        done += count
    if done != out_length:
        return None
    return slice(int(start), int(start) + (done - 1) * step + 1, step)


def _points(
    batch: list[BatchItem], layout: KeyLayout, prefix: str, extents: tuple[int, ...], out_shape: tuple[int, ...]
) -> Selected | None:
    """The selection of a batch whose chunks each have lists of coordinates of equal length, one per axis."""
    ndim = layout.ndim
    if ndim == 0 or len(out_shape) != 1:
        return None
    positions = [layout.position(item[0].path, prefix) for item in batch]
    if any(p is None for p in positions):
        return None
    grid = np.array(positions, dtype=np.intp)
    counts = []
    for item in batch:
        inside = item[2]
        if not (isinstance(inside, tuple) and len(inside) == ndim):
            return None
        if not all(isinstance(a, np.ndarray) and a.ndim == 1 and a.dtype.kind in "iu" for a in inside):
            return None
        counts.append(len(inside[0]))
        if any(len(a) != counts[-1] for a in inside):
            return None
    total = sum(counts)
    if total != out_shape[0]:
        return None
    coordinates = []
    for axis, extent in enumerate(extents):
        inside = np.concatenate([item[2][axis] for item in batch]).astype(np.intp, copy=False)
        if int(inside.min()) < 0 or int(inside.max()) >= extent:
            return None
        coordinates.append(inside + np.repeat(grid[:, axis] * extent, counts))

    places = list(map(_out_selection, batch))
    if all(isinstance(p, slice) for p in places):
        done = 0
        for place, count in zip(places, counts, strict=True):
            if place.start != done or place.stop != done + count or place.step not in (None, 1):
                return None
            done += count
    elif all(isinstance(p, np.ndarray) and p.ndim == 1 for p in places):
        order = np.concatenate(places)
        if len(order) != total or np.bincount(order, minlength=total).max(initial=0) != 1:
            return None
        for axis in range(ndim):
            placed = np.empty(total, dtype=np.intp)
            placed[order] = coordinates[axis]
            coordinates[axis] = placed
    else:
        return None
    last = grid.max(axis=0)
    return Selected("points", tuple(coordinates), tuple(int(p) for p in last))
