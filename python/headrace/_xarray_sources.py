"""xarray objects as sources of a Loader: data in a store is read from there, with the object's selection and decoding applied."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._array import Array
from ._errors import HeadraceError, InvalidArgumentError
from ._loader_sources import Source, array_in_memory
from ._open import open as open_node
from .xarray import HeadraceArray
from .xarray._convert import Step, _step_of, read_options

_INSTEAD = "give the path of its store, or load() it, which copies it into memory"


def source_of_xarray(name: str, item: Any) -> Source:
    """Makes a Source of an xarray.DataArray or Variable. Lazy data is read from its store as batches need it; other data is copied.

    Raises InvalidArgumentError for lazy computations, for selections by points, and for decoding that a read cannot do.
    """
    variable = getattr(item, "variable", item)
    dims = tuple(map(str, variable.dims))
    coordinates = getattr(item, "coords", {})
    given = {dim: (coordinates[dim].values, f"{dim!r} of {name!r} (xarray)") for dim in dims if dim in coordinates and coordinates[dim].ndim == 1}
    layers = _layers_of(name, variable._data)
    if layers is None:
        return Source(name, array_in_memory(name, np.asarray(variable.values)), dims, given=given, in_memory=True)
    base, selection, steps = layers
    array = _array_of(name, base)
    read = _reads_as(name, base, array, steps)
    left = iter(dims)
    names, views = [], {}
    for axis, (chosen, size) in enumerate(zip(selection, array.shape, strict=True)):
        names.append(f"<{axis}>" if np.ndim(chosen) == 0 else next(left))
        indices = np.atleast_1d(chosen)
        if not np.array_equal(indices, np.arange(size)):
            views[axis] = indices
    return Source(name, array, tuple(names), views, read, given)


def _layers_of(name: str, data: Any) -> tuple[Any, list[Any], list[Step]] | None:
    """Unwraps xarray's layers: the array in the store, the selected indices by axis, and the decoding steps, first step first.

    Returns None if the elements are in memory.
    """
    if hasattr(data, "dask"):
        # The lazy array that xarray put into the graph. It is absent once operations were added.
        graph = dict(data.dask)
        data = graph.get(f"original-{data.name}")
        if data is None:
            raise InvalidArgumentError(f"source {name!r}: a dask array with operations that are still to be done; {_INSTEAD}, or open it without "
                                       "chunks=, and select from that")
    keys: list[Any] = []
    steps: list[Step] = []
    while True:
        kind = type(data).__name__
        if isinstance(data, np.ndarray) or kind in ("NumpyIndexingAdapter", "PandasIndexingAdapter", "PandasMultiIndexingAdapter"):
            return None
        if isinstance(data, HeadraceArray) or kind == "ZarrArrayWrapper":
            break
        if kind in ("MemoryCachedArray", "CopyOnWriteArray", "ImplicitToExplicitIndexingAdapter"):
            data = data.array
        elif kind == "LazilyIndexedArray":
            keys.append(data.key.tuple)
            data = data.array
        elif (step := _step_of(data)) is not None:
            steps.append(step)
            data = data.array
        elif kind == "LazilyVectorizedIndexedArray":
            raise InvalidArgumentError(f"source {name!r}: selected by points or transposed; {_INSTEAD}")
        else:
            raise InvalidArgumentError(f"source {name!r}: unsupported wrapper {kind} around the stored array; {_INSTEAD}")
    selection: list[Any] = [np.arange(size) for size in data.shape]
    for key in reversed(keys):
        parts = iter(key)
        selection = [chosen if np.ndim(chosen) == 0 else chosen[next(parts)] for chosen in selection]
    return data, selection, steps[::-1]


def _array_of(name: str, base: Any) -> Array:
    if isinstance(base, HeadraceArray):
        array: Any = base._array
        return array if isinstance(array, Array) else array.open()
    stored = getattr(base, "_array", None)
    try:
        opened = open_node(getattr(stored, "store", None), getattr(stored, "path", ""))
    except HeadraceError as error:
        raise InvalidArgumentError(f"source {name!r}: {error}") from None
    if not isinstance(opened, Array):
        raise InvalidArgumentError(f"source {name!r}: {stored!r} is not an array; {_INSTEAD}")
    return opened


def _reads_as(name: str, base: Any, array: Array, steps: list[Step]) -> dict[str, Any]:
    if not isinstance(base, HeadraceArray) or base.conversion is None:
        options = read_options(array.dtype, steps) if steps else {}
    else:
        options = base.conversion.options if not base.conversion.steps and not steps else None
    if options is None:
        raise InvalidArgumentError(f"source {name!r}: xarray decodes it in a way that a read does not ({', '.join(map(str, steps))}); open it with "
                                   f"mask_and_scale=False and give scale= and offset=, or {_INSTEAD}")
    return dict(options)


