"""HeadraceArray: one Zarr array behind xarray's lazy indexing."""

from __future__ import annotations

import asyncio
import pickle
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from headrace.xarray._convert import Conversion
from headrace.xarray._indexing import Plan, plan_orthogonal, plan_vectorized

if TYPE_CHECKING:
    import headrace
    from headrace.xarray._nodes import Unopened


@dataclass(frozen=True)
class Elsewhere:
    """A pickled array of another process.

    It is reopened when it is read, not when it is unpickled: dask's scheduler may have no access to the store.
    """

    pickled: bytes
    url: str
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: headrace.Array) -> Elsewhere:
        return cls(pickle.dumps(array), array.url, array.path, tuple(array.shape), array.dtype)

    def open(self) -> headrace.Array:
        array: headrace.Array = pickle.loads(self.pickled)
        return array


class HeadraceArray(BackendArray):
    """Reads selections of one array, to NumPy on the host or to CuPy on a device.

    Picklable: an unpickled one opens the array again, by URL and path, when it is read. Threads: any, at the same time.

    Attributes:
        shape: Shape of the array.
        dtype: Type of the elements that reads return: as stored, or after `conversion`.
    """

    __slots__ = ("_array", "_conversion", "_device", "dtype", "shape")

    def __init__(
        self,
        array: headrace.Array | Unopened | Elsewhere,
        dtype: np.dtype[Any],
        device: str | None = None,
        conversion: Conversion | None = None,
    ) -> None:
        self._array = array
        self._device = device
        self._conversion = conversion
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.dtype: np.dtype[Any] = dtype if conversion is None else conversion.dtype

    @property
    def device(self) -> str | None:
        """The device that reads go to; None is the host."""
        return self._device

    @property
    def conversion(self) -> Conversion | None:
        return self._conversion

    def converted(self, conversion: Conversion) -> HeadraceArray:
        """The same array with decoding by `conversion`."""
        return HeadraceArray(self._array, self.dtype, self._device, conversion)

    def leave_device(self) -> None:
        """Switches reads to the host. Only for arrays that have not been handed out yet."""
        self._device = None

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.VectorizedIndexer):
            return self._read(plan_vectorized(key.tuple, self.shape))
        return self._read(plan_orthogonal(key.tuple, self.shape))

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> Any:
        # Reads release the GIL, so reads in several threads overlap.
        return await asyncio.to_thread(self.__getitem__, key)

    def _read(self, plan: Plan) -> Any:
        options = {} if self._conversion is None else self._conversion.options
        array: Any = self._array
        if isinstance(array, Elsewhere):
            array = self._array = array.open()
        elif not hasattr(array, "read"):
            array = array.open()
        if self._device is None:
            result = array.read(plan.selection, indexing=plan.indexing, **options)
            # A single element may be returned as a scalar, including strings.
            result = np.asarray(result, dtype=self.dtype if self.dtype.kind in "OT" else None)
        else:
            cupy = import_cupy()
            with cupy.cuda.Device(device_index(self._device)):
                result = array.read(plan.selection, indexing=plan.indexing, device=self._device, **options)
                return self._finish(cupy.from_dlpack(result), plan)
        return self._finish(result, plan)

    def _finish(self, result: Any, plan: Plan) -> Any:
        if self._conversion is not None:
            result = self._conversion.finish(result)
        return plan.finish(result)

    def __getstate__(self) -> tuple[Any, ...]:
        array: Any = self._array
        return Elsewhere.of(array) if hasattr(array, "read") else array, self._device, self._conversion, self.shape, self.dtype

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._array, self._device, self._conversion, self.shape, self.dtype = state

    def __dask_tokenize__(self) -> Any:
        # Identifies the data by location, not by content, as xarray's own Zarr arrays do.
        return (type(self).__name__, *_identity(self._array), self._device, repr(self._conversion))

    def __repr__(self) -> str:
        where = "" if self._device is None else f" on {self._device}"
        url, path, *_ = _identity(self._array)
        return f"<headrace {path!r} of {url!r}, shape {self.shape}, {self.dtype}{where}>"


def _identity(array: headrace.Array | Unopened | Elsewhere) -> tuple[str, str, str, tuple[int, ...]]:
    return array.url, array.path, str(getattr(array, "dtype", "")), tuple(array.shape)


def device_index(device: str) -> int:
    """The ordinal in "cuda" or "cuda:1".

    Raises:
        ValueError: Anything else.
    """
    kind, colon, ordinal = device.partition(":")
    if kind != "cuda" or (colon and not ordinal.isdecimal()):
        raise ValueError(f"device must be None, 'host', 'cuda' or 'cuda:<number>', not {device!r}")
    return int(ordinal or 0)


def import_cupy() -> Any:
    """The module cupy, in which variables on a device are held.

    Raises:
        ImportError: It is not installed, with the way to install it.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about missing drivers: reads report them better
            import cupy
    except ImportError as error:
        raise ImportError(
            "variables on a GPU are CuPy arrays, and CuPy is not installed: pip install cupy-cuda13x (or cupy-cuda12x); "
            "without it, open with device=None and the data comes as NumPy arrays"
        ) from error
    return cupy
