"""What xarray asks of an array, in the terms of :meth:`headrace.Array.read`.

xarray hands a backend three kinds of indexers: basic (integers and slices), outer (also one-dimensional integer
arrays, each of its own dimension) and vectorized (integer arrays that are broadcast against each other). headrace
reads orthogonal selections with slices of positive step, and lists of points. This module translates, and says what
has to be done to the result: flips for negative steps, a transposition, a shape.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

# One entry per dimension of the array.
NativeKey = int | slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """A native selection, and how its result becomes the one that was asked for.

    Attributes:
        selection: One entry per dimension of the array.
        indexing: How headrace is to understand `selection`.
        shape: Shape of what headrace returns.
        flips: Applied to the result as an index; empty where no step was negative.
        axes: Order of the result's axes; None: as they are.
        reshape: Shape of the final result; None: as it is.
    """

    selection: tuple[NativeKey, ...]
    indexing: Literal["orthogonal", "points"]
    shape: tuple[int, ...]
    flips: tuple[slice, ...] = ()
    axes: tuple[int, ...] | None = None
    reshape: tuple[int, ...] | None = None

    def finish(self, result: Any) -> Any:
        """`result`, an array of `shape` of whatever library, as it was asked for."""
        if self.flips:
            result = result[self.flips]
        if self.axes is not None:
            result = result.transpose(self.axes)
        if self.reshape is not None:
            result = result.reshape(self.reshape)
        return result


def plan_orthogonal(key: tuple[Any, ...], shape: tuple[int, ...]) -> Plan:
    """The plan for a basic or outer indexer: an integer, a slice or a 1-D integer array for each dimension.

    Raises:
        IndexError: An integer is out of range, or there is not one entry per dimension.
    """
    _one_entry_per_dimension(key, shape)
    selection: list[NativeKey] = []
    result_shape: list[int] = []
    flips: list[slice] = []
    for axis, (item, size) in enumerate(zip(key, shape, strict=True)):
        if isinstance(item, slice):
            forwards, count, flipped = _forwards(item, size)
            selection.append(forwards)
            result_shape.append(count)
            flips.append(slice(None, None, -1) if flipped else slice(None))
        elif np.ndim(item) == 0:
            selection.append(_checked(np.asarray(operator.index(item)), size, axis).item())
        else:
            indices = _checked(np.asarray(item), size, axis)
            selection.append(_as_slice(indices))
            result_shape.append(indices.size)
            flips.append(slice(None))
    flipped = any(item.step == -1 for item in flips)
    return Plan(tuple(selection), "orthogonal", tuple(result_shape), tuple(flips) if flipped else ())


def plan_vectorized(key: tuple[Any, ...], shape: tuple[int, ...]) -> Plan:
    """The plan for a vectorized indexer: slices, and integer arrays that are broadcast against each other.

    Dimensions that are sliced come behind the broadcast ones, as xarray defines it. Where every array varies along
    axes that no other array varies along, the selection is orthogonal and is read as one: xarray expands slices that
    were taken earlier into such arrays.

    Raises:
        IndexError: An integer is out of range, or the arrays cannot be broadcast.
    """
    _one_entry_per_dimension(key, shape)
    arrays: dict[int, npt.NDArray[np.int64]] = {}
    slices: dict[int, slice] = {}
    for axis, (item, size) in enumerate(zip(key, shape, strict=True)):
        if isinstance(item, slice):
            slices[axis] = item
        else:
            arrays[axis] = _checked(np.asarray(item), size, axis)
    if not arrays:
        return plan_orthogonal(key, shape)
    try:
        broadcast = np.broadcast_shapes(*(indices.shape for indices in arrays.values()))
    except ValueError as error:
        raise IndexError(f"indexers of shapes {[a.shape for a in arrays.values()]} cannot be broadcast") from error

    plan = _plan_as_orthogonal(arrays, slices, broadcast, shape)
    if plan is not None:
        return plan
    # Points: slices become arrays along axes of their own, behind the broadcast ones.
    trailing = [np.arange(*item.indices(shape[axis]), dtype=np.int64) for axis, item in slices.items()]
    full_shape = broadcast + tuple(indices.size for indices in trailing)
    points: list[NativeKey] = [0] * len(shape)
    for axis, indices in arrays.items():
        lead = indices.reshape(indices.shape + (1,) * len(trailing))
        points[axis] = np.broadcast_to(lead, full_shape).flatten()
    for position, (axis, indices) in enumerate(zip(slices, trailing, strict=True)):
        own = indices.reshape((-1,) + (1,) * (len(trailing) - position - 1))
        points[axis] = np.broadcast_to(own, full_shape).flatten()
    count = int(np.prod(full_shape, dtype=np.int64))
    return Plan(tuple(points), "points", (count,), reshape=full_shape)


def _plan_as_orthogonal(
    arrays: dict[int, npt.NDArray[np.int64]], slices: dict[int, slice], broadcast: tuple[int, ...], shape: tuple[int, ...]
) -> Plan | None:
    """The plan where each array varies along at most one axis of the result, all of them different; None elsewhere."""
    varying: dict[int, int] = {}  # axis of the result: dimension of the array
    key: list[Any] = [slice(None)] * len(shape)
    for axis, indices in arrays.items():
        # Counted from the right, where broadcasting aligns them.
        wide = [d - indices.ndim + len(broadcast) for d, size in enumerate(indices.shape) if size != 1]
        if len(wide) > 1 or (wide and wide[0] in varying):
            return None
        if wide:
            varying[wide[0]] = axis
            key[axis] = indices.reshape(-1)
        else:
            key[axis] = int(indices.reshape(-1)[0])
    for axis, item in slices.items():
        key[axis] = item
    inner = plan_orthogonal(tuple(key), shape)
    # Dimensions that are left, in the array's order; then in the order of the result.
    left = [axis for axis in range(len(shape)) if not isinstance(key[axis], int)]
    wanted = [varying[position] for position in sorted(varying)] + list(slices)
    axes = tuple(left.index(axis) for axis in wanted)
    sliced = tuple(inner.shape[left.index(axis)] for axis in slices)
    return Plan(
        inner.selection,
        "orthogonal",
        inner.shape,
        inner.flips,
        None if axes == tuple(range(len(axes))) else axes,
        broadcast + sliced,
    )


def _one_entry_per_dimension(key: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    if len(key) != len(shape):
        raise IndexError(f"{len(key)} indexers for an array of {len(shape)} dimensions")


def _forwards(item: slice, size: int) -> tuple[slice, int, bool]:
    """`item` with a positive step, the number of elements, and whether they come in reverse order."""
    start, stop, step = item.indices(size)
    elements = range(start, stop, step)
    count = len(elements)
    if count == 0:
        return slice(0, 0, 1), 0, False
    if step < 0:
        return slice(elements[-1], start + 1, -step), count, True
    return slice(start, elements[-1] + 1, step), count, False


def _checked(indices: npt.NDArray[Any], size: int, axis: int) -> npt.NDArray[np.int64]:
    """`indices`, counted from the front."""
    if indices.dtype == np.bool_:
        indices = np.flatnonzero(indices)
    elif indices.size and indices.dtype.kind not in "iu":
        raise IndexError(f"indices along axis {axis} must be integers, not {indices.dtype}")
    # A copy: what xarray and pandas hand out is often read-only, which headrace does not take.
    indices = indices.astype(np.int64, copy=not indices.flags.writeable)
    if indices.size == 0:
        return indices
    low, high = int(indices.min()), int(indices.max())
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {size}")
    return indices if low >= 0 else np.where(indices < 0, indices + size, indices)


def _as_slice(indices: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """`indices` as a slice, where they are evenly spaced and ascending: a box is cheaper to plan than a list."""
    if indices.size == 0:
        return slice(0, 0, 1)
    first, last = int(indices[0]), int(indices[-1])
    if indices.size == 1:
        return slice(first, first + 1, 1)
    step = int(indices[1]) - first
    if step > 0 and last - first == step * (indices.size - 1) and bool(np.all(np.diff(indices) == step)):
        return slice(first, last + 1, step)
    return np.ascontiguousarray(indices)
