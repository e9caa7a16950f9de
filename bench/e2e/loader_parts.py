"""What the loaders of loader_compare.py share: boxes, batches of them read with zarr-python, and jobs kept ahead."""

from __future__ import annotations

import collections
import functools
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from crops_compare import COLUMNS, ROWS

AHEAD = 2
Box = tuple[slice, ...]
Boxes = list[Box]
Batches = Callable[[list[Boxes]], Iterator[Any]]


def workers() -> int:
    return len(os.sched_getaffinity(0))


def shape_of(box: Box) -> tuple[int, ...]:
    full = (0, ROWS, COLUMNS)
    return tuple(box[axis].stop - box[axis].start if axis < len(box) else full[axis] for axis in range(3))


@functools.cache
def opened(path: str) -> Any:
    """The array as zarr-python reads it, opened once in each process."""
    import zarr

    return zarr.open_array(path, mode="r")


def make_batch(path: str, boxes: Boxes) -> np.ndarray[Any, Any]:
    array = opened(path)
    return np.stack([array[box] for box in boxes])


def kept_ahead(started: Iterable[Any], count: int) -> Iterator[Any]:
    """Yields `started` in order, each item once `count` later ones, or all, have been started."""
    waiting: collections.deque[Any] = collections.deque()
    for job in started:
        waiting.append(job)
        if len(waiting) > count:
            yield waiting.popleft()
    yield from waiting
