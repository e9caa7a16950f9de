"""Converts headrace's description of an element type to NumPy, DLPack and the array interface."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ._errors import InvalidArgumentError

#: (kind, item_bytes, name, unit, fields); a field is (name, type, shape).
Described = tuple[str, int, str, str, tuple[Any, ...]]

_LETTERS = {"bool": "?", "int": "i", "uint": "u", "float": "f", "complex": "c", "datetime": "M", "timedelta": "m",
            "bytes": "S", "unicode": "U", "raw": "V"}
_DLPACK_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat16": 4, "complex": 5, "bool": 6}


@functools.lru_cache(maxsize=256)
def to_numpy(described: Described) -> np.dtype[Any]:
    """The NumPy type of one element as reads return it: little-endian and packed.

    bfloat16 needs the package ml_dtypes; variable-length strings have dtype object.
    """
    kind, item_bytes, name, unit, fields = described
    if kind == "struct":
        return np.dtype([(field, to_numpy(of), shape) if shape else (field, to_numpy(of)) for field, of, shape in fields])
    if kind in ("string", "variable_bytes"):
        return np.dtype(object)
    if kind == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise ImportError("elements of type bfloat16 need the package ml_dtypes on the host (pip install ml_dtypes); "
                              "or read them as another type: dtype='float32'") from None
        return np.dtype(ml_dtypes.bfloat16)
    if kind in ("datetime", "timedelta"):
        return np.dtype(f"<{_LETTERS[kind]}8" + (f"[{unit}]" if unit and unit != "generic" else ""))
    if kind == "unicode":
        return np.dtype(f"<U{item_bytes // 4}")
    if kind in ("bytes", "raw"):
        return np.dtype(f"|{_LETTERS[kind]}{item_bytes}")
    if kind == "bool":
        return np.dtype(bool)
    return np.dtype(f"<{_LETTERS[kind]}{item_bytes}")


def name_of(dtype: Any) -> str:
    """The name of `dtype` for conversion on read: "float32" for any spelling that NumPy or torch accepts."""
    if dtype is None:
        return ""
    if type(dtype).__module__ == "torch":
        return str(dtype).removeprefix("torch.")
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        if isinstance(dtype, str):
            return dtype  # "bfloat16"; the read rejects unknown types by name
        raise
    if not wanted.isnative:
        raise InvalidArgumentError(f"dtype={wanted.str!r}: elements are read little-endian; ask for "
                                   f"{wanted.newbyteorder('<').str!r}, and for .astype({wanted.str!r}) of the result")
    return wanted.name


def dlpack_type(described: Described) -> tuple[int, int] | None:
    """DLPack's (code, bits); None if DLPack has no such type."""
    kind, item_bytes = described[0], described[1]
    code = _DLPACK_CODES.get(kind)
    return None if code is None else (code, item_bytes * 8)


def typestr(described: Described) -> str | None:
    """The array interface's type string; None if it has none (bfloat16)."""
    if described[0] == "bfloat16":
        return None
    return to_numpy(described).str
