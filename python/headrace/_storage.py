"""Flattens the nested storage options of fsspec and obstore to the (name, value) pairs that the library takes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ._errors import InvalidArgumentError

_MOST_NESTED = 8


def flat(options: Mapping[str, Any], prefix: str = "", depth: int = 0) -> list[tuple[str, str]]:
    """The options as (name, value); nested names are joined with dots. None values are omitted.

    Raises InvalidArgumentError for a value that is not text, a number, a flag, or a mapping of these.
    """
    if not isinstance(options, Mapping):
        raise InvalidArgumentError(f"storage_options is a mapping of names to values, not a {type(options).__name__}")
    out: list[tuple[str, str]] = []
    for name, value in options.items():
        if not isinstance(name, str):
            raise InvalidArgumentError(f"names of storage options are text, not of type {type(name).__name__}")
        full = prefix + name
        if value is None:
            continue
        if isinstance(value, Mapping):
            if depth == _MOST_NESTED:
                raise InvalidArgumentError("storage options are nested too deep")
            out += flat(value, f"{full}.", depth + 1)
            continue
        out.append((full, _text(full, value)))
    return out


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, timedelta):
        return repr(value.total_seconds())
    if isinstance(value, os.PathLike):
        return os.fsdecode(os.fspath(value))
    shown = name if name.replace("_", "").replace(".", "").replace("-", "").isalnum() else "..."
    raise InvalidArgumentError(f"the storage option {shown!r} is of type {type(value).__name__}: options are text, numbers, flags, "
                               "and mappings of these")


class Address:
    """A URL with the options of its store. repr() and str() omit the options; a pickle contains them."""

    __slots__ = ("options", "url")

    def __init__(self, url: str, options: list[tuple[str, str]]) -> None:
        self.url = url
        self.options = options

    def __repr__(self) -> str:
        return f"{self.url!r} with storage_options"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self.url, self.options) == (other.url, other.options)

    def __hash__(self) -> int:
        return hash(self.url)

    def __reduce__(self) -> Any:
        return Address, (self.url, self.options)
