"""DeviceVariable: a variable whose values lie on a device, including in dask chunks.

When dask is requested, xarray assumes that a backend returns NumPy arrays, and wraps the data so that each task copies
it to the host. This variable passes dask a wrapper that keeps arrays on the device. All else is xarray's Variable.
"""

from __future__ import annotations

from typing import Any, Self

import xarray as xr
from xarray.core import indexing


class DeviceVariable(xr.Variable):
    """A variable that stays on its device when chunked."""

    __slots__ = ()

    def chunk(  # type: ignore[override]
        self,
        chunks: Any = {},  # noqa: B006 - xarray's own default
        name: str | None = None,
        lock: bool | None = None,
        inline_array: bool | None = None,
        chunked_array_type: Any = None,
        from_array_kwargs: Any = None,
        **chunks_kwargs: Any,
    ) -> Self:
        """As xarray's chunk(), but with CuPy arrays as chunks."""
        variable: Any = self
        if isinstance(self._data, indexing.ExplicitlyIndexed):
            source = LazyDeviceArray(self._data)
            variable = xr.Variable(self._dims, source, self._attrs, self._encoding, fastpath=True)
        chunked = xr.Variable.chunk(
            variable,
            chunks,
            name=name,
            lock=lock,
            inline_array=inline_array,
            chunked_array_type=chunked_array_type,
            from_array_kwargs=from_array_kwargs,
            **chunks_kwargs,
        )
        return self._replace(data=chunked._data)


class LazyDeviceArray:
    """Slices of xarray's lazy array as device arrays, in the form dask's `from_array` accepts.

    Threads: any. Picklable if the underlying array is.
    """

    def __init__(self, array: Any) -> None:
        self._array = indexing.as_indexable(array)
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.dtype = array.dtype
        self.ndim = len(self.shape)

    def __getitem__(self, key: Any) -> Any:
        indexer = indexing.OuterIndexer(indexing.expanded_indexer(key, self.ndim))
        return self._array.oindex[indexer].get_duck_array()

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # Its presence tells dask not to convert the array; it is never called.
        return NotImplemented

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return NotImplemented

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        return type(self).__name__, normalize_token(self._array)
