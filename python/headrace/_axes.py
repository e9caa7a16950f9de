"""NumPy's None and negative steps in an index: they change the layout of a result but not what is read."""

from __future__ import annotations

import operator
from typing import Any

from ._target import View

AS_READ, BACKWARDS, NEW = 1, -1, 0


def _is_backwards(item: Any) -> bool:
    step = item.step if isinstance(item, slice) else None
    return step is not None and hasattr(step, "__index__") and operator.index(step) < 0


def _is_integer(item: Any) -> bool:
    return hasattr(item, "__index__") and not getattr(item, "ndim", 0)


def plain_selection(selection: Any, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...] | None]:
    """Removes None and negative steps from a selection. Returns it, and how each axis of the result is produced.

    AS_READ: as it was read; BACKWARDS: reversed; NEW: length 1, absent from what is read. The second value is None if
    all axes are AS_READ.
    """
    items = selection if isinstance(selection, tuple) else (selection,)
    if not any(item is None or _is_backwards(item) for item in items):
        return selection, None
    unnamed = len(shape) - sum(item is not None and item is not Ellipsis for item in items)
    if not any(item is Ellipsis for item in items):
        items = (*items, Ellipsis)
    plain: list[Any] = []
    axes: list[int] = []
    dimension = 0
    for item in items:
        if item is None:
            axes.append(NEW)
            continue
        plain.append(item)
        if item is Ellipsis:
            dimension += unnamed
            axes += [AS_READ] * unnamed
            continue
        if _is_backwards(item) and dimension < len(shape):
            plain[-1] = _forwards(item, shape[dimension])
            axes.append(BACKWARDS)
        elif not _is_integer(item):
            axes.append(AS_READ)
        dimension += 1
    return tuple(plain), tuple(axes)


def _forwards(item: slice, extent: int) -> slice:
    """The same indices in ascending order."""
    indices = range(*item.indices(extent))
    return slice(indices[-1], indices[0] + 1, -indices.step) if indices else slice(0, 0)


def result_shape(read: tuple[int, ...], axes: tuple[int, ...] | None) -> tuple[int, ...]:
    """Shape of the result if `read` is the shape of what is read."""
    if axes is None:
        return read
    extents = iter(read)
    return tuple(1 if axis == NEW else next(extents) for axis in axes)


def view_to_read(view: View, axes: tuple[int, ...] | None, item_bytes: int) -> View:
    """The view to read into, so that the elements land in the memory of the result with the right layout."""
    if axes is None:
        return view
    pointer, shape, strides = view
    if strides is None:
        strides, step = (), item_bytes
        for extent in reversed(shape):
            strides = (step, *strides)
            step *= max(extent, 1)
    if 0 not in shape:
        pointer += sum((extent - 1) * stride for extent, stride, axis in zip(shape, strides, axes, strict=True)
                       if axis == BACKWARDS)
    kept = [(extent, stride * axis) for extent, stride, axis in zip(shape, strides, axes, strict=True) if axis != NEW]
    return pointer, tuple(extent for extent, _ in kept), tuple(stride for _, stride in kept)


def index_of(axes: tuple[int, ...]) -> tuple[Any, ...]:
    """The index that turns a NumPy array, as read, into the result."""
    return tuple(None if axis == NEW else slice(None, None, axis) for axis in axes)
