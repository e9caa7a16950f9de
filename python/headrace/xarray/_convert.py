"""Moves the decoding of packed numbers into the read.

xarray decodes a variable by wrapping its data in functions that run one after another when values are needed: mask,
scale and offset, bool. After xarray has decided everything (types, attributes, encoding, warnings), `_dataset._absorb`
inspects that chain. Steps that headrace computes with bit-identical results become options of the read. On the host,
other steps are left to xarray. On a device, where xarray's functions would need NumPy arrays, the same steps run with
the operators of the device array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from xarray.core import indexing


@dataclass(frozen=True)
class Mask:
    """Replaces elements equal to one of `values`, compared as `dtype`, by `becomes`."""

    values: tuple[Any, ...]
    becomes: Any
    dtype: np.dtype[Any]

    def __call__(self, data: Any) -> Any:
        # Always copies: data may be a view of the array that was read.
        data = data.astype(self.dtype, copy=True)
        masked = None
        for value in self.values:
            equal = data == value
            masked = equal if masked is None else masked | equal
        if masked is not None:
            data[masked] = self.becomes
        return data


@dataclass(frozen=True)
class Scale:
    """x * factor + offset, computed in `dtype`; None skips an operation."""

    factor: Any
    offset: Any
    dtype: np.dtype[Any]

    def __call__(self, data: Any) -> Any:
        data = data.astype(self.dtype, copy=True)
        if self.factor is not None:
            data *= self.factor
        if self.offset is not None:
            data += self.offset
        return data


@dataclass(frozen=True)
class Cast:
    """Conversion to `dtype` by NumPy's astype: reinterprets signedness, makes bool of 0 and 1."""

    dtype: np.dtype[Any]

    def __call__(self, data: Any) -> Any:
        return data.astype(self.dtype)


Step = Mask | Scale | Cast


@dataclass(frozen=True)
class Conversion:
    """Decoding from stored elements to the elements that xarray shows.

    Attributes:
        dtype: Type of the result.
        options: Keyword arguments of :meth:`headrace.Array.read` that convert during the read; may be empty.
        steps: Steps to apply after the read, first to last.
    """

    dtype: np.dtype[Any]
    options: dict[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()

    def finish(self, data: Any) -> Any:
        for step in self.steps:
            data = step(data)
        return data


def steps_of(data: Any, is_base: Callable[[Any], bool]) -> tuple[Any, list[Step]] | None:
    """The array below xarray's lazy functions, and the steps they perform, first to last.

    `is_base` recognises that array. Returns None if a layer is unknown, or if a selection has already been applied.
    """
    steps: list[Step] = []
    while True:
        if isinstance(data, indexing.LazilyIndexedArray):
            if not all(isinstance(k, slice) and k == slice(None) for k in data.key.tuple):
                return None
            if is_base(data.array):
                return data.array, steps[::-1]
            data = data.array  # earlier xarray versions wrap the decoded array in a second lazy layer
            continue
        layer = _step_of(data)
        if layer is None:
            return None
        steps.append(layer)
        data = data.array


def _step_of(data: Any) -> Step | None:
    """The step of the outermost layer. Layers are recognised by class name, as xarray offers no public way; unknown
    names give None.
    """
    kind = type(data).__name__
    if kind == "BoolTypeArray":
        return Cast(np.dtype(bool))
    if kind == "NativeEndiannessArray":
        return Cast(data.dtype)
    if kind != "_ElementwiseFunctionArray":
        return None
    function = getattr(data, "func", None)
    if not isinstance(function, partial) or function.args:
        return None
    name, given = function.func.__name__, dict(function.keywords)
    if name == "_apply_mask" and given.keys() == {"encoded_fill_values", "decoded_fill_value", "dtype"}:
        values = tuple(given["encoded_fill_values"])
        return Mask(values, given["decoded_fill_value"], np.dtype(given["dtype"]))
    if name == "_scale_offset_decoding" and given.keys() == {"scale_factor", "add_offset", "dtype"}:
        return Scale(given["scale_factor"], given["add_offset"], np.dtype(given["dtype"]))
    if function.func is np.asarray and given.keys() == {"dtype"}:
        return Cast(np.dtype(given["dtype"]))
    return None


def read_options(stored: np.dtype[Any], steps: list[Step]) -> dict[str, Any] | None:
    """Read options with the same result as `steps`, bit for bit; None if there are none."""
    if not steps or stored.kind not in "iuf":
        return None
    rest = list(steps)
    if rest[0] == Cast(stored.newbyteorder("=")):
        rest.pop(0)  # a byte order conversion: reads return native byte order
        if not rest:
            return {}
    missing: Any = None
    dtype: np.dtype[Any] | None = None
    if isinstance(rest[0], Mask):
        mask = rest.pop(0)
        assert isinstance(mask, Mask)
        if not _masks_one_element(mask, stored):
            return None
        missing, dtype = mask.values[0], mask.dtype
    factor: Any = None
    offset: Any = None
    if rest and isinstance(rest[0], Scale):
        scale = rest.pop(0)
        assert isinstance(scale, Scale)
        # A different type for the second step would round twice.
        if (dtype is not None and scale.dtype != dtype) or not _scales_alike(scale, stored):
            return None
        dtype, factor, offset = scale.dtype, scale.factor, scale.offset
    if rest or dtype is None:
        return None
    options: dict[str, Any] = {"dtype": dtype.name}
    if missing is not None:
        options["fill"] = missing
    if factor is not None:
        options["scale"] = float(factor)
    if offset is not None:
        options["offset"] = float(offset)
    return options


def _exact(stored: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether `wanted` represents every stored number exactly."""
    # NumPy considers int64 to float64 safe although it rounds.
    return bool(wanted.kind == "f" and np.can_cast(stored, wanted, "safe") and (stored.kind == "f" or stored.itemsize < 8))


def _masks_one_element(mask: Mask, stored: np.dtype[Any]) -> bool:
    """Whether `mask` turns the elements of exactly one stored value into NaN."""
    if len(mask.values) != 1 or not _exact(stored, mask.dtype):
        return False
    (value,) = mask.values
    if not _is_number(value) or not math.isfinite(value):
        return False
    becomes_nan = isinstance(mask.becomes, float | np.floating) and math.isnan(mask.becomes)
    limits = np.iinfo(stored) if stored.kind in "iu" else np.finfo(stored)
    if not becomes_nan or not limits.min <= value <= limits.max:
        return False
    # Same comparison as xarray: elements as mask.dtype against the value in its own type.
    element = np.asarray(value).astype(stored)
    return bool(element == value and element.astype(mask.dtype) == value)


def _scales_alike(scale: Scale, stored: np.dtype[Any]) -> bool:
    """Whether headrace multiplies and adds in `scale.dtype`, as NumPy does."""
    if not _exact(stored, scale.dtype) or scale.dtype.itemsize < 4:
        return False
    for operand in (scale.factor, scale.offset):
        # With a NumPy scalar of another width, NumPy would compute in that width.
        if operand is not None and (type(operand) not in (int, float) or not math.isfinite(operand)):
            return False
        if isinstance(operand, int) and abs(operand) > 1 << 53:
            return False
    # -0.0 + 0.0 is 0.0. headrace always adds the offset (default 0) if it scales at all; NumPy adds an offset only if
    # there is one.
    adds = (scale.factor not in (None, 1)) or (scale.offset not in (None, 0))
    negative_zero = stored.kind == "f" or (scale.factor is not None and scale.factor < 0)
    return not negative_zero or adds == (scale.offset is not None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
