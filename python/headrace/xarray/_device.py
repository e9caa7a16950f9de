"""DeviceVariable: a variable whose values lie on a device, also in the chunks of dask.

xarray takes what a backend reads for NumPy arrays once dask is asked for: it wraps the data so that each task copies it
to the host. This variable hands dask an array of its own kind instead. Everything else is xarray's Variable.
"""

from __future__ import annotations

from typing import Any, Self

import xarray as xr
from xarray.core import indexing


class DeviceVariable(xr.Variable):
    """A variable that :meth:`chunk` leaves on its device."""

    __slots__ = ()

    def chunk(  # type: ignore[override]
        self,
        chunks: Any = {},  # noqa: B006 - as xarray's own
        name: str | None = None,
        lock: bool | None = None,
        inline_array: bool | None = None,
        chunked_array_type: Any = None,
        from_array_kwargs: Any = None,
        **chunks_kwargs: Any,
    ) -> Self:
        """As xarray's, whose chunks then are CuPy arrays."""
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
    """Slices of xarray's lazy array as arrays of the device: what dask's `from_array` takes.

    Threads: any. Picklable, as the array below is.
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
        # That it is here tells dask not to convert; nothing calls it.
        return NotImplemented

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return NotImplemented

    def __dask_tokenize__(self) -> Any:
        from dask.base import normalize_token

        return type(self).__name__, normalize_token(self._array)
