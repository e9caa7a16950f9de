"""Translates xarray's indexers to selections of :meth:`headrace.Array.read`.

xarray passes three kinds of indexers: basic (integers and slices), outer (also one-dimensional integer arrays, each
along its own dimension) and vectorized (integer arrays broadcast against each other). headrace reads orthogonal
selections with slices of positive step, and lists of points. This module translates, and determines how the result must
be changed: flips for negative steps, a transposition, a reshape.
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
    """A native selection, and how to turn its result into the requested one.

    Attributes:
        selection: One entry per dimension of the array.
        indexing: How headrace interprets `selection`.
        shape: Shape of the native result.
        flips: Index applied to the result; empty if no step was negative.
        axes: Permutation of the result's axes; None: unchanged.
        reshape: Final shape; None: unchanged.
    """

    selection: tuple[NativeKey, ...]
    indexing: Literal["orthogonal", "points"]
    shape: tuple[int, ...]
    flips: tuple[slice, ...] = ()
    axes: tuple[int, ...] | None = None
    reshape: tuple[int, ...] | None = None

    def finish(self, result: Any) -> Any:
        """Turns the native `result`, an array of `shape` of any library, into the requested one."""
        if self.flips:
            result = result[self.flips]
        if self.axes is not None:
            result = result.transpose(self.axes)
        if self.reshape is not None:
            result = result.reshape(self.reshape)
        return result


def plan_orthogonal(key: tuple[Any, ...], shape: tuple[int, ...]) -> Plan:
    """Plans a basic or outer indexer: an integer, a slice or a 1-D integer array per dimension.

    Raises:
        IndexError: An integer is out of range, or the number of entries differs from the number of dimensions.
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
    """Plans a vectorized indexer: slices, and integer arrays that are broadcast against each other.

    Sliced dimensions come after the broadcast ones, as xarray defines. If each array varies along axes along which no
    other array varies, the selection is orthogonal and read as such: xarray expands earlier slices into such arrays.

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
    # Points: slices become arrays along their own axes, after the broadcast ones.
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
    """The orthogonal plan if each array varies along at most one axis, and no two along the same; else None."""
    varying: dict[int, int] = {}  # axis of the result: dimension of the array
    key: list[Any] = [slice(None)] * len(shape)
    for axis, indices in arrays.items():
        # Axes are counted from the right, where broadcasting aligns them.
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
    # The remaining dimensions, in the array's order; then in the result's order.
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
    """`item` with a positive step, the number of elements, and whether the order is reversed."""
    start, stop, step = item.indices(size)
    elements = range(start, stop, step)
    count = len(elements)
    if count == 0:
        return slice(0, 0, 1), 0, False
    if step < 0:
        return slice(elements[-1], start + 1, -step), count, True
    return slice(start, elements[-1] + 1, step), count, False


def _checked(indices: npt.NDArray[Any], size: int, axis: int) -> npt.NDArray[np.int64]:
    """`indices` as non-negative int64. Raises IndexError if one is out of range."""
    if indices.dtype == np.bool_:
        indices = np.flatnonzero(indices)
    elif indices.size and indices.dtype.kind not in "iu":
        raise IndexError(f"indices along axis {axis} must be integers, not {indices.dtype}")
    # Copied if read-only, as arrays of xarray and pandas often are; headrace rejects read-only indices.
    indices = indices.astype(np.int64, copy=not indices.flags.writeable)
    if indices.size == 0:
        return indices
    low, high = int(indices.min()), int(indices.max())
    if low < -size or high >= size:
        wrong = low if low < -size else high
        raise IndexError(f"index {wrong} is out of bounds for axis {axis} with size {size}")
    return indices if low >= 0 else np.where(indices < 0, indices + size, indices)


def _as_slice(indices: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """`indices` as a slice if they are ascending and evenly spaced, since a box is cheaper to plan than a list."""
    if indices.size == 0:
        return slice(0, 0, 1)
    first, last = int(indices[0]), int(indices[-1])
    if indices.size == 1:
        return slice(first, first + 1, 1)
    step = int(indices[1]) - first
    if step > 0 and last - first == step * (indices.size - 1) and bool(np.all(np.diff(indices) == step)):
        return slice(first, last + 1, step)
    return np.ascontiguousarray(indices)
