"""Checks the arguments of a Loader and translates them for the native one."""

from __future__ import annotations

import json
import math
import operator
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _dtypes
from ._array import Array
from ._errors import InvalidArgumentError

BOUNDARIES = {"drop": 0, "partial": 1, "pad": 2, "wrap": 3}
TAILS = {"drop": 0, "pad": 1, "wrap": 2}


def value_for_array(what: str, value: Any, name: str, known: Sequence[str]) -> Any:
    """The value for one array, if `value` may be a mapping of array names."""
    if not isinstance(value, Mapping):
        return value
    for key in value:
        if key not in known:
            raise InvalidArgumentError(f"{what}: there is no array {key!r}; arrays: {', '.join(map(repr, known))}")
    return value.get(name, {"scale": 1.0, "offset": 0.0, "fill_as_nan": False, "padding": 0}.get(what))


def add_decoding(own: dict[str, Any], read: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the decoding of stored numbers (`read`), which is applied before the conversions in `own`."""
    if not read:
        return own
    scale, offset = number("scale", own["scale"]), number("offset", own["offset"])
    own["scale"], own["offset"] = read.get("scale", 1.0) * scale, read.get("offset", 0.0) * scale + offset
    for key in ("dtype", "fill"):
        own[key] = read.get(key) if own[key] is None else own[key]
    return own


def fold_mean_std(array: Array, own: dict[str, Any], *, by_index: bool = False) -> dict[str, Any]:
    """Folds mean and std into scale and offset. With statistics by index, chooses a type that holds the scaled values."""
    mean, std = own.pop("mean"), own.pop("std")
    if by_index and own["dtype"] is None and (array.dtype.kind != "f" or array.dtype.itemsize < 4):
        own["dtype"] = "float32"
    if mean is None and std is None:
        return own
    mean, std = number("mean", 0.0 if mean is None else mean), number("std", 1.0 if std is None else std)
    if not (np.isfinite(mean) and np.isfinite(std) and std > 0):
        raise InvalidArgumentError(f"mean = {mean} and std = {std}: both must be finite, and std must be positive")
    own["scale"], own["offset"] = number("scale", own["scale"]) / std, (number("offset", own["offset"]) - mean) / std
    if own["dtype"] is None and array.dtype.kind != "f":
        own["dtype"] = "float32"
    return own


def statistics(given: Any) -> Mapping[str, Any]:
    """The statistics of each array by `headrace stats`; `given` is their content or the name of their file."""
    source = given
    if not isinstance(source, Mapping):
        if not isinstance(source, str | os.PathLike):  # an int would name an open file descriptor, and close it
            raise InvalidArgumentError(f"normalise: {given!r} is neither the name of a file nor a mapping")
        try:
            with open(source, encoding="utf-8") as file:
                source = json.load(file)
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(f"normalise: {given!r} is not a file written by `headrace stats -o`: {error}") from None
    found = source.get("arrays") if isinstance(source, Mapping) else None
    if not isinstance(found, Mapping):
        raise InvalidArgumentError("normalise: the content has no 'arrays' entry, as `headrace stats -o` writes")
    return found


def scale_by(name: str, array: Array, dims: Sequence[str], statistics: Mapping[str, Any]) -> dict[str, Any]:
    """Mean and deviation of one array: {"mean", "std"} of the whole array, or per index {"dims", "scales", "offsets"}."""
    def refuse(what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"normalise: {what}")

    of = statistics.get(name)
    if not isinstance(of, Mapping) or "mean" not in of or "std" not in of:
        raise refuse(f"there is no mean and std of {name!r}; it has {', '.join(map(repr, statistics)) or 'nothing'}")
    by = of.get("by") or []
    if not by:
        if not all(isinstance(of[key], float | int) for key in ("mean", "std")):
            raise refuse(f"mean and std of {name!r} are not numbers")
        return {"mean": of["mean"], "std": of["std"]}
    axes = [axis if isinstance(axis, int) else list(dims).index(axis) if axis in dims else array.ndim for axis in by]
    if any(not 0 <= axis < array.ndim for axis in axes) or axes != sorted(set(axes)):
        raise refuse(f"statistics of {name!r} are by {', '.join(map(str, by))}; its dimensions are {', '.join(dims)}")
    shape = tuple(array.shape[axis] for axis in axes)
    try:
        mean, std = (np.array(of[key], np.float64) for key in ("mean", "std"))  # null becomes NaN
    except (TypeError, ValueError):
        raise refuse(f"mean and std of {name!r} are not lists of numbers") from None
    if tuple(of.get("shape", shape)) != shape or mean.shape != (math.prod(shape),) or std.shape != mean.shape:
        raise refuse(f"statistics of {name!r} are of {list(of.get('shape', mean.shape))} indices along {', '.join(map(str, by))}; it has {list(shape)}")
    bad = np.flatnonzero(~(np.isfinite(mean) & np.isfinite(std) & (std > 0)))
    if len(bad):
        at = ", ".join(f"{dim} {index}" for dim, index in zip(by, np.unravel_index(bad[0], shape), strict=True))
        raise refuse(f"of {name!r} at {at}, mean is {mean[bad[0]]} and std {std[bad[0]]}: both must be finite, and std must be positive")
    return {"dims": axes, "scales": (1 / std).tolist(), "offsets": (-mean / std).tolist()}


def stack_of(name: str, stack: str | Mapping[str, Sequence[str]] | None, known: Sequence[str]) -> str:
    if not isinstance(stack, Mapping):
        return stack or ""
    for channels in stack.values():
        for channel in channels:
            if channel not in known:
                raise InvalidArgumentError(f"stack: there is no array {channel!r}; arrays: {', '.join(map(repr, known))}")
    return next((to for to, channels in stack.items() if name in channels), "")


def described(array: Array, own: Mapping[str, Any]) -> _dtypes.Described:
    return array._core.result_dtype(_dtypes.name_of(own["dtype"]), number("scale", own["scale"]), number("offset", own["offset"]),
                                    bool(own["fill_as_nan"]) or own["fill"] is not None, False)


def sizes(what: str, given: Mapping[str, int] | None) -> list[tuple[str, int]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"{what} is a {type(given).__name__}; give a mapping of dimensions to sizes")
    return [(str(dim), count(f"{what}[{dim!r}]", size, 0)) for dim, size in given.items()]


def number(what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"{what} = {value!r} is not a number") from None


def elements(what: str, name: str, value: Any, dtype: np.dtype[Any]) -> bytes:
    """The bytes of one element of that type."""
    try:
        return np.asarray(value, dtype).reshape(()).tobytes()
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"{what} = {value!r} is not representable as {dtype}, the type of {name!r}: {error}") from None


def check_dims(what: str, given: Any, every_dim: set[str]) -> None:
    """Checks the keys of what may be a mapping of dimensions."""
    for dim in given if isinstance(given, Mapping) else ():
        if dim not in every_dim:
            raise InvalidArgumentError(f"{what}: there is no dimension {dim!r}; dimensions: {', '.join(map(repr, sorted(every_dim)))}")


def starts(given: Mapping[str, Sequence[int]] | None) -> list[tuple[str, list[int]]]:
    if given is None:
        return []
    if not isinstance(given, Mapping) or any(isinstance(begins, str) or not hasattr(begins, "__iter__") for begins in given.values()):
        raise InvalidArgumentError("input_starts: give a mapping of dimensions to lists of indices")
    return [(str(dim), [count(f"input_starts[{dim!r}]", begin, 0) for begin in begins]) for dim, begins in given.items()]


def count(what: str, value: Any, least: int = 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{what} is a {type(value).__name__}; give an integer") from None
    limit = 1 << (32 if what in ("rank", "world", "reader_group", "read_together", "read_ahead") else 64)
    if not least <= number < limit:
        raise InvalidArgumentError(f"{what} = {number} is not in {least} to {limit - 1}")
    return number


def choice(what: str, choices: Mapping[str, int], named: Any) -> int:
    if named not in choices:
        raise InvalidArgumentError(f"{what} = {named!r}; choose one of {', '.join(map(repr, choices))}")
    return choices[named]


def output(name: str, of: Mapping[str, Any]) -> tuple[str, str, int, int, int]:
    if not of:
        return name, "", 0, 1, 1
    if not isinstance(of, Mapping) or len(of) != 1:
        raise InvalidArgumentError(f"outputs[{name!r}] must give a slice of one dimension: {{'time': slice(0, 3)}}")
    dim, part = next(iter(of.items()))
    if isinstance(part, slice):
        if part.stop is None:
            raise InvalidArgumentError(f"outputs[{name!r}]: the slice of {dim!r} needs an end")
        part = range(part.start or 0, part.stop, part.step or 1)
    elif hasattr(part, "__index__"):
        part = range(operator.index(part), operator.index(part) + 1)
    places = list(part)
    step = places[1] - places[0] if len(places) > 1 else 1
    if not places or places[0] < 0 or step < 1 or any(b - a != step for a, b in zip(places, places[1:], strict=False)):
        raise InvalidArgumentError(f"outputs[{name!r}]: {part!r} are not places of {dim!r} in even steps from 0 on")
    return name, str(dim), places[0], len(places), step


def order(shuffle: bool | str, block_groups: int, partitions: int, batch_size: int, samples: Sequence[int] | None, weights: Sequence[float] | None,
          draws: int) -> tuple[Any, ...]:
    if samples is not None and weights is not None:
        raise InvalidArgumentError("samples and weights are two ways to choose: give one of them")
    if shuffle not in (False, True, "full", "block"):
        raise InvalidArgumentError(f"shuffle = {shuffle!r}; choose False, True or 'block'")
    if (samples is not None or weights is not None) and shuffle == "block":
        raise InvalidArgumentError("shuffle='block' works on all samples; it cannot be combined with samples or weights")
    if shuffle != "block" and partitions != 1:
        raise InvalidArgumentError(f"partitions = {partitions!r}, which only shuffle='block' has: give that as well, or leave partitions out")
    if samples is not None and not len(samples):
        raise InvalidArgumentError("samples: there are none")
    if samples is not None:
        return "list", [count("samples", index, 0) for index in samples], bool(shuffle)
    if weights is not None:
        return "weighted", [number("weights", weight) for weight in weights], count("draws", draws, 0)
    if shuffle == "block":
        return "block", count("block_groups", block_groups), count("partitions", partitions), count("batch_size", batch_size)
    return ("full",) if shuffle else ("sequential",)


def rank(rank: int | None, world: int | None) -> tuple[int, int]:
    if (rank is None) != (world is None):
        raise InvalidArgumentError("rank and world belong together: give both or neither")
    if rank is not None and world is not None:
        return rank, world
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def tensor_name(array: str, output: str, arrays: int) -> str:
    if not output:
        return array
    return output if arrays == 1 else f"{array}/{output}"
