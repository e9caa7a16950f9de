"""Matches the arrays of one sample along a dimension by their coordinates: maps each index of the first array to an index of the others.

The matching is done once, by sorting and searching, when a loader is created. The native loader receives tables of positions, and
the window starts where they are irregular. There are no tables without alignment, or where the arrays already agree.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ._coordinates import Coordinate
from ._errors import HeadraceError, InvalidArgumentError
from ._loader_sources import Source

Positions = np.ndarray[Any, np.dtype[np.int64]]
_TOLERANCE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(days?|d|hours?|h|minutes?|min|seconds?|s)\s*")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


@dataclass
class Alignment:
    """For each aligned dimension: its size, the index of each position in each array, and where windows begin."""

    sizes: dict[str, int] = field(default_factory=dict)
    positions: list[dict[str, Positions]] = field(default_factory=list)  #: one per source, in source order; -1: the source lacks this position
    starts: dict[str, Positions] = field(default_factory=dict)  #: window starts of dimensions whose windows do not begin at every stride


@dataclass(frozen=True)
class Window:
    """One dimension's windows: where they begin, and which of their elements are used."""

    size: int
    stride: int
    boundary: str
    offsets: Positions
    starts: Positions | None = None  #: starts given by the user


def align_sources(sources: list[Source], how: Mapping[str, str], tolerance: Any, missing: str, windows: Mapping[str, Window]) -> Alignment:
    """Aligns `sources`. how: "equal", "nearest" or "position" by dimension. windows: the dimensions that have windows."""
    if missing not in ("raise", "drop", "pad"):
        raise InvalidArgumentError(f"missing = {missing!r}; choose 'raise', 'drop' or 'pad'")
    if not isinstance(how, Mapping):
        raise InvalidArgumentError(f"align is a {type(how).__name__}; give a mapping of dimensions to 'equal', 'nearest' or 'position'")
    out = Alignment(positions=[{} for _ in sources])
    every = sorted({dim for source in sources for dim in source.dims})
    for dim, mode in how.items():
        having = [number for number, source in enumerate(sources) if dim in source.dims]
        if not having:
            raise InvalidArgumentError(f"align: there is no dimension {dim!r}; dimensions: {', '.join(map(repr, every))}")
        if mode not in ("equal", "nearest", "position"):
            raise InvalidArgumentError(f"align[{dim!r}] = {mode!r}; choose 'equal', 'nearest' or 'position'")
        if mode != "position":
            _align_dim(sources, having, dim, mode, _value_for_dim("tolerance", tolerance, dim), missing, windows.get(dim), out)
    for number, source in enumerate(sources):
        if number > 0 and not how:
            _check_by_position(sources, number, source, windows)
    return out


def _align_dim(sources: list[Source], having: list[int], dim: str, mode: str, tolerance: Any, missing: str, window: Window | None,
               out: Alignment) -> None:
    if len(having) == 1:
        return  # nothing to align with
    first = sources[having[0]].coordinate(dim)
    if first is None:
        raise _no_coordinate(sources[having[0]], dim)
    found: dict[int, Positions] = {}
    for number in having[1:]:
        other = sources[number].coordinate(dim)
        if other is None:
            raise _no_coordinate(sources[number], dim)
        found[number] = match(first, other, mode, tolerance)
    there = np.ones(len(first), bool)
    for number, positions in found.items():
        has = positions >= 0
        if missing == "raise" and not has.all():
            raise _missing(first, sources[number].coordinate(dim), int(np.argmin(has)), dim, mode)
        there &= has
    size = len(first)
    if missing == "drop" and not there.all() and (window is None or window.size <= size):
        if window is not None:
            out.starts[dim] = _whole_windows(there, window)
        else:
            kept = np.flatnonzero(there)
            found = {having[0]: kept, **{number: positions[kept] for number, positions in found.items()}}
            size = len(kept)
        if not size or (window is not None and not len(out.starts[dim])):
            raise _nothing_left(first, [sources[number].coordinate(dim) for number in having[1:]], dim, window)
    out.sizes[dim] = size
    for number, positions in found.items():
        length = sources[number].shape[sources[number].dims.index(dim)]
        if length != size or not np.array_equal(positions, np.arange(size)):
            out.positions[number][dim] = positions


def take_or_missing(values: np.ndarray[Any, Any], at: Positions) -> np.ndarray[Any, Any]:
    """values[at]; NaN, NaT, "" or None where `at` is -1."""
    absent = at < 0
    if not absent.any():
        return values[at]
    kind = values.dtype.kind
    nothing: Any = {"M": np.datetime64("NaT", "us"), "U": "", "O": None}.get(kind, np.nan)
    return np.where(absent, nothing, (values.astype(np.float64) if kind in "iu" else values)[at])


def match(first: Coordinate, other: Coordinate, mode: str, tolerance: Any = None) -> Positions:
    """For each element of `first` its index in `other`, -1 where there is none.

    "equal": the same value; floats of different widths are compared in the narrower one. "nearest": the closest value, the earlier of two
    equally close ones, unless it is further away than `tolerance` (a number; for times a timedelta or "3 hours").
    """
    if first.is_time != other.is_time or (first.keys.dtype.kind in "US") != (other.keys.dtype.kind in "US"):
        raise InvalidArgumentError(f"align: coordinate {other.where} holds {_kind(other)}, and {first.where} {_kind(first)}")
    if first.calendar != other.calendar:
        raise InvalidArgumentError(f"align: coordinate {other.where} has times of the {other.calendar} calendar, and {first.where} of the "
                                   f"{first.calendar} one; give coordinates= in one of them")
    wanted, keys = first.keys, other.keys
    if wanted.dtype.kind == keys.dtype.kind == "f" and wanted.dtype != keys.dtype:
        narrow = min(wanted.dtype, keys.dtype, key=lambda dtype: dtype.itemsize)
        wanted, keys = wanted.astype(narrow), keys.astype(narrow)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        a, b = order[twice[0]], order[twice[0] + 1]
        raise InvalidArgumentError(f"align: coordinate {other.where} has {_value_text(other, a)} twice, at indices {a} and {b}, "
                                   "so the match is ambiguous")
    if not len(ordered):
        return np.full(len(wanted), -1, np.int64)
    right = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    if mode == "equal":
        has = ordered[right] == wanted
        return np.where(has, order[right], -1).astype(np.int64)
    if wanted.dtype.kind in "US":
        raise InvalidArgumentError(f"align: coordinate {first.where} holds text, which has no nearest match: choose 'equal'")
    left = np.maximum(right - 1, 0)
    if not first.is_time:  # unsigned integers have no negative differences
        wanted, ordered = wanted.astype(np.float64), ordered.astype(np.float64)
    to_left, to_right = np.abs(wanted - ordered[left]), np.abs(ordered[right] - wanted)
    chosen, distance = np.where(to_left <= to_right, left, right), np.minimum(to_left, to_right)
    limit = _limit(tolerance, first)
    has = np.ones(len(wanted), bool) if limit is None else distance <= limit
    return np.where(has, order[chosen], -1).astype(np.int64)


def _limit(tolerance: Any, coordinate: Coordinate) -> float | None:
    """The tolerance in the unit of Coordinate.keys."""
    if tolerance is None:
        return None
    if not coordinate.is_time:
        if isinstance(tolerance, bool) or not isinstance(tolerance, int | float | np.integer | np.floating) or not tolerance >= 0:
            raise InvalidArgumentError(f"tolerance = {tolerance!r}: coordinate {coordinate.where} holds numbers; give one that is not negative")
        return float(tolerance)
    if isinstance(tolerance, str) and (parts := _TOLERANCE.fullmatch(tolerance)):
        return float(parts[1]) * _SECONDS[parts[2][0]] * 1e6
    if isinstance(tolerance, datetime.timedelta):
        tolerance = np.timedelta64(tolerance)
    if not isinstance(tolerance, np.timedelta64) or np.isnat(tolerance) or tolerance < np.timedelta64(0, "us"):
        raise InvalidArgumentError(f"tolerance = {tolerance!r}: coordinate {coordinate.where} holds times; give a timedelta, or text such as '3 hours'")
    return float(tolerance / np.timedelta64(1, "us"))


def _whole_windows(there: np.ndarray[Any, Any], window: Window) -> Positions:
    """Starts of the windows whose used elements are all present."""
    size = len(there)
    if window.starts is not None:
        begins = window.starts
    elif window.boundary == "drop":
        begins = np.arange(0, size - window.size + 1, window.stride)
    elif window.boundary == "wrap":
        begins = np.arange(0, size, window.stride)
    else:  # the fewest windows that reach the last element
        count = -(-(size - window.size) // window.stride) + 1
        begins = np.arange(count) * window.stride
        begins = begins[begins < size]
    whole = np.ones(len(begins), bool)
    for offset in window.offsets:
        at = begins + offset
        # Positions past the end are padding, or wrap around to the beginning.
        whole &= there[at % size] if window.boundary == "wrap" else np.where(at < size, there[np.minimum(at, size - 1)], True)
    return begins[whole].astype(np.int64)


def _check_by_position(sources: list[Source], number: int, source: Source, windows: Mapping[str, Window]) -> None:
    """Without align: checks that an array of another store, or with another selection, than an earlier array has the same coordinates along
    dimensions with windows.
    """
    for dim in windows:
        if dim not in source.dims:
            continue
        before = next((other for other in sources[:number]
                       if dim in other.dims and (other.folder != source.folder or dim in other.given or dim in source.given)), None)
        if before is None:
            continue
        try:
            first, other = before.coordinate(dim), source.coordinate(dim)
            if first is None or other is None:
                continue
            at = match(first, other, "equal")
        except (HeadraceError, ImportError):
            continue  # alignment was not requested, so unusable coordinates are no error
        if len(first) == len(other) and np.array_equal(at, np.arange(len(first))):
            continue
        common = min(len(first), len(other))
        differ = np.flatnonzero(at[:common] != np.arange(common))
        index = int(differ[0]) if len(differ) else common
        told = [f"{coordinate.where} {'ends' if index >= len(coordinate) else 'has ' + _value_text(coordinate, index)}" for coordinate in (first, other)]
        raise InvalidArgumentError(f"the arrays disagree along {dim!r}: at index {index}, {told[0]} and {told[1]}; align={{{dim!r}: 'equal'}} "
                                   f"matches them, and align={{{dim!r}: 'position'}} matches them by position")


def _value_for_dim(what: str, value: Any, dim: str) -> Any:
    return value.get(dim) if isinstance(value, Mapping) else value


def _kind(coordinate: Coordinate) -> str:
    return "times" if coordinate.is_time else "text" if coordinate.keys.dtype.kind in "US" else "numbers"


def _value_text(coordinate: Coordinate, index: int) -> str:
    value = coordinate.values[index]
    return repr(value) if isinstance(value, str) else str(value)


def _no_coordinate(source: Source, dim: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"align: {source.described} has no one-dimensional coordinate {dim!r} stored beside it: give coordinates={{{dim!r}: "
                                f"{{{source.name!r}: values}}}}")


def _missing(first: Coordinate, other: Coordinate | None, index: int, dim: str, mode: str) -> InvalidArgumentError:
    assert other is not None
    near = " within the tolerance" if mode == "nearest" else ""
    return InvalidArgumentError(f"align: {first.where} has {_value_text(first, index)} at index {index}, and {other.where} has no match{near}; "
                                f"missing='drop' leaves such samples out, and missing='pad' fills them")


def _nothing_left(first: Coordinate, others: list[Coordinate | None], dim: str, window: Window | None) -> InvalidArgumentError:
    def span(coordinate: Coordinate) -> str:
        if not len(coordinate):
            return f"{coordinate.where}: nothing"
        low, high = np.argsort(coordinate.keys, kind="stable")[[0, -1]]
        return f"{coordinate.where}: {_value_text(coordinate, low)} to {_value_text(coordinate, high)}"

    spans = "; ".join(span(coordinate) for coordinate in [first, *others] if coordinate is not None)
    what = f"no window of {window.size} along {dim!r} is" if window is not None else f"nothing along {dim!r} is"
    return InvalidArgumentError(f"align, missing='drop': {what} in all of them ({spans})")
