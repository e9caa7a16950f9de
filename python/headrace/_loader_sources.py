"""The sources of a Loader: paths, arrays, groups, xarray and NumPy objects, resolved to named arrays with named dimensions."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _core, _stores
from ._array import Array, open_array
from ._context import default_context
from ._coordinates import Coordinate, coordinate_of
from ._errors import InvalidArgumentError, NotFoundError
from ._group import Group
from ._open import open as open_node
from ._sources import MemoryStore

_CHUNK_BYTES = 4 << 20  # chunk size of arrays copied from memory


@dataclasses.dataclass
class Source:
    """One array of a sample, and the selected part of it."""

    name: str
    array: Array
    dims: tuple[str, ...]  #: names beginning with "<" are dimensions of one element that the xarray object does not have
    views: dict[int, np.ndarray[Any, np.dtype[np.int64]]] = dataclasses.field(default_factory=dict)  #: selected indices by axis; absent: all
    read: dict[str, Any] = dataclasses.field(default_factory=dict)  #: dtype, scale, offset and fill that decode the stored numbers
    given: dict[str, tuple[Any, str]] = dataclasses.field(default_factory=dict)  #: by dimension, coordinates given by the caller and their names in messages
    coordinates: dict[str, Coordinate | None] = dataclasses.field(default_factory=dict)  #: cache of coordinates; None: there is none
    in_memory: bool = False  #: a copy in memory, which other processes do not have

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(self.views[axis]) if axis in self.views else size for axis, size in enumerate(self.array.shape))

    @property
    def shown(self) -> tuple[str, ...]:
        return tuple(dim for dim in self.dims if not dim.startswith("<"))

    @property
    def folder(self) -> tuple[str, str]:
        """Where its coordinates are stored: a URL, and a path below it."""
        if self.array.path:
            return self.array.url, self.array.path.rpartition("/")[0]
        return self.array.url.rstrip("/").rpartition("/")[0], ""

    @property
    def described(self) -> str:
        return f"array {self.name!r} ({self.array.url}{'/' + self.array.path if self.array.path else ''})"

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        if self.in_memory:
            state["array"] = np.asarray(self.array.read(device="host"))
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.in_memory:
            self.array = array_in_memory(self.name, state["array"])

    def coordinate(self, dim: str) -> Coordinate | None:
        """The coordinate of the selected indices; None if there is none. Raises InvalidArgumentError if it is unusable."""
        if dim not in self.coordinates:
            self.coordinates[dim] = self._read_coordinate(dim)
        return self.coordinates[dim]

    def labels(self, dim: str) -> np.ndarray[Any, Any] | None:
        """The coordinate's values; as stored, if they are unusable as a coordinate."""
        try:
            coordinate = self.coordinate(dim)
            return None if coordinate is None else coordinate.values
        except InvalidArgumentError:
            found = self._stored_coordinate(dim)
            return None if found is None else np.asarray(found[0])

    def _read_coordinate(self, dim: str) -> Coordinate | None:
        found = self._stored_coordinate(dim)
        return None if found is None else coordinate_of(*found)

    def _stored_coordinate(self, dim: str) -> tuple[Any, str, dict[str, Any]] | None:
        """Values, their name in messages, and attributes."""
        if dim in self.given:
            return *self.given[dim], {}
        axis = self.dims.index(dim)
        url, folder = self.folder
        path = f"{folder}/{dim}" if folder else dim
        try:
            if self.array.path:
                stored = Array(_core.Array.open(self.array._store, path, self.array._reopen[2], "", False), self.array._store, path,
                               self.array._context, ("array", self.array._reopen[1], self.array._reopen[2], "", False), None)
            elif isinstance(self.array._reopen[1], str) and url:
                stored = open_array(f"{url}/{dim}", context=self.array._context)
            else:
                return None
        except (NotFoundError, InvalidArgumentError):
            return None  # missing, or a group; a caller that needs one reports it
        if stored.shape != (self.array.shape[axis],):
            return None
        values = np.asarray(stored.read(device="host"))
        if axis in self.views:
            values = values[self.views[axis]]
        return values, f"{dim!r} of {self.name!r} ({url})", stored.attrs


def sources_of(source: Any, input_dims: Mapping[str, int], dims: Any, coordinates: Mapping[str, Any] | None,
               storage_options: Mapping[str, Any] | None = None) -> list[Source]:
    """All sources, named, in order. Raises InvalidArgumentError naming what cannot be read."""
    if isinstance(source, tuple) and source and all(isinstance(one, Source) for one in source):
        return list(source)  # the sources of an unpickled loader
    found = [_source(name, item, dims) for name, item in _named(source, input_dims, dims, storage_options)]
    if not found:
        raise InvalidArgumentError("source holds no array")
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise InvalidArgumentError(f"source: two arrays are called {name!r}; give a mapping of names to arrays")
    if coordinates is not None and not isinstance(coordinates, Mapping):
        raise InvalidArgumentError(f"coordinates is a {type(coordinates).__name__}; give a mapping of dimensions to values")
    for dim, given in (coordinates or {}).items():
        if not any(dim in one.dims for one in found):
            raise InvalidArgumentError(f"coordinates: there is no dimension {dim!r}")
        if isinstance(given, Mapping) and (unknown := sorted(set(given) - set(names))):
            raise InvalidArgumentError(f"coordinates[{dim!r}]: there is no array {unknown[0]!r}; arrays: {', '.join(map(repr, names))}")
        for one in found:
            values = given.get(one.name) if isinstance(given, Mapping) else given
            if dim in one.dims and values is not None:
                one.coordinates[dim] = _given(one, dim, values)
    return found


def _given(one: Source, dim: str, values: Any) -> Coordinate:
    coordinate = coordinate_of(values, f"{dim!r} of {one.name!r} (coordinates=)")
    size = one.shape[one.dims.index(dim)]
    if len(coordinate) != size:
        raise InvalidArgumentError(f"coordinates[{dim!r}]: {len(coordinate)} values, and array {one.name!r} has {size} indices there")
    return coordinate


def _is_xarray(item: Any, name: str) -> bool:
    return isinstance(item, getattr(sys.modules.get("xarray"), name, ()))


def _is_leaf(item: Any) -> bool:
    return isinstance(item, Array | np.ndarray) or _is_xarray(item, "DataArray") or _is_xarray(item, "Variable")


def _named(source: Any, input_dims: Mapping[str, int], dims: Any, storage_options: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    if not isinstance(source, Array | Group | Mapping | list | tuple) and not _is_leaf(source) and not _is_xarray(source, "Dataset"):
        source = open_node(source, storage_options=storage_options)
    elif storage_options:
        raise InvalidArgumentError("storage_options are for a path or URL; an open store or array has its own")
    if _is_leaf(source):
        return [(_name_of(source) or "data", source)]
    if isinstance(source, list | tuple):
        opened = [item if _is_leaf(item) else _opened(item, f"source[{number}]") for number, item in enumerate(source)]
        return [(_name_of(item) or str(number), item) for number, item in enumerate(opened)]
    if isinstance(source, Group):
        named: list[tuple[str, Any]] = [(name, array) for name, array in source.arrays() if set(input_dims) <= set(_dims_of(array, name, dims) or ())]
        if not named:
            raise InvalidArgumentError(f"no array of {source!r} has the dimensions of input_dims: {', '.join(map(repr, input_dims))}")
        return named
    if _is_xarray(source, "Dataset"):
        named = [(str(name), variable) for name, variable in source.data_vars.items() if set(input_dims) <= set(map(str, variable.dims))]
        if not named:
            raise InvalidArgumentError(f"no variable of the dataset has the dimensions of input_dims: {', '.join(map(repr, input_dims))}")
        return named
    return [(str(name), item if _is_leaf(item) else _opened(item, f"source[{name!r}]")) for name, item in source.items()]


def _opened(item: Any, what: str) -> Array:
    if isinstance(item, str | os.PathLike):
        item = open_node(item)
    if not isinstance(item, Array):
        raise InvalidArgumentError(f"{what} is a {type(item).__name__}; give a headrace.Array, a path of one, an xarray.DataArray or a NumPy array")
    return item


def _name_of(item: Any) -> str:
    if isinstance(item, Array):
        return (item.path or item.url.rstrip("/")).rpartition("/")[2].removesuffix(".zarr")
    return str(getattr(item, "name", None) or "")


def _dims_of(array: Any, name: str, given: Any) -> tuple[str, ...] | None:
    if isinstance(given, Mapping):
        given = given.get(name)
    if given is not None:
        return tuple(given) if len(given) == array.ndim else None
    if isinstance(array, np.ndarray):
        return None
    names = [dim for dim in array.dims or () if isinstance(dim, str)]
    return tuple(names) if names and len(names) == array.ndim else None


def _source(name: str, item: Any, dims: Mapping[str, Sequence[str]] | Sequence[str] | None) -> Source:
    if _is_xarray(item, "DataArray") or _is_xarray(item, "Variable"):
        from ._xarray_sources import source_of_xarray

        return source_of_xarray(name, item)
    names = _dims_of(item, name, dims)
    if names is None:
        raise InvalidArgumentError(f"the dimensions of array {name!r} have no names: give dims=, {item.ndim} of them")
    if isinstance(item, Array):
        return Source(name, item, names)
    return Source(name, array_in_memory(name, item), names, in_memory=True)


def array_in_memory(name: str, values: np.ndarray[Any, Any]) -> Array:
    """Copies a NumPy array into an in-memory Array with chunks of whole rows. Raises InvalidArgumentError if it is not numeric."""
    if values.dtype.kind not in "biufc" or values.ndim == 0 or values.size == 0:
        raise InvalidArgumentError(f"source {name!r}: an array of {values.dtype} and shape {values.shape} in memory; numbers of at least one "
                                   "dimension, and at least one of them, can be read from there")
    values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    rows = max(1, min(values.shape[0], _CHUNK_BYTES // max(1, values.nbytes // values.shape[0])))
    store = MemoryStore(_stores.name_for_objects(), context=default_context())
    document = {"zarr_format": 2, "shape": values.shape, "chunks": [rows, *values.shape[1:]], "dtype": values.dtype.str, "order": "C",
                "filters": None, "fill_value": None, "compressor": None}
    store.put(".zarray", json.dumps(document).encode())
    for number in range(math.ceil(values.shape[0] / rows)):
        part = values[number * rows:(number + 1) * rows]
        if len(part) < rows:
            part = np.concatenate([part, np.zeros((rows - len(part), *values.shape[1:]), values.dtype)])
        store.put(".".join(map(str, [number, *[0] * (values.ndim - 1)])), part.tobytes())
    return open_array(store)
