"""zarr results as torch tensors, without CuPy."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from zarr.core.buffer import BufferPrototype, cpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self, SupportsIndex

    import numpy.typing as npt

_TYPES = frozenset(
    ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64",
     "complex64", "complex128"]
)  # fmt: skip


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError("torch tensors as results need the package torch: pip install torch") from error
    return torch


class TorchNDBuffer(cpu.NDBuffer):
    """A zarr buffer that holds its elements in a torch tensor on `device`.

    Selected for single reads by `prototype=headrace.zarr.torch_prototype("cuda:1")`, or for all reads by
    `zarr.config.set({"ndbuffer": "headrace.zarr.TorchNDBuffer"})`. headrace fills the tensor on the device; data read
    by zarr's own pipeline is decoded on the host and copied. Elements of types that torch lacks (times, strings,
    records, big-endian numbers) are NumPy arrays on the host.
    """

    device: ClassVar[str] = "cuda"

    @classmethod
    def create(
        cls,
        *,
        shape: Iterable[int],
        dtype: npt.DTypeLike,
        order: Literal["C", "F"] = "C",
        fill_value: Any | None = None,
    ) -> Self:
        kind = np.dtype(dtype)
        if kind.name not in _TYPES or not kind.isnative:
            return super().create(shape=shape, dtype=dtype, order=order, fill_value=fill_value)
        made = cls.empty(tuple(shape), kind, order)
        made._tensor[...] = 0 if fill_value is None else np.asarray(fill_value, kind).item()
        return made

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: npt.DTypeLike, order: Literal["C", "F"] = "C") -> Self:
        kind = np.dtype(dtype)
        if kind.name not in _TYPES or not kind.isnative:
            return super().empty(shape, dtype, order)
        torch = _torch()
        extents = shape[::-1] if order == "F" else shape
        tensor = torch.empty(tuple(map(int, extents)), dtype=getattr(torch, kind.name), device=cls.device)
        return cls(tensor.permute(*reversed(range(len(shape)))) if order == "F" and len(shape) > 1 else tensor)

    @property
    def _tensor(self) -> Any:
        """The tensor; None if the elements are a NumPy array."""
        return None if isinstance(self._data, np.ndarray) else self._data

    @property
    def dtype(self) -> np.dtype[Any]:
        if self._tensor is None:
            return super().dtype
        return np.dtype(str(self._tensor.dtype).removeprefix("torch."))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._data.shape)

    def as_numpy_array(self) -> npt.NDArray[Any]:
        if self._tensor is None:
            return super().as_numpy_array()
        array: npt.NDArray[Any] = self._tensor.cpu().numpy()
        return array

    def as_scalar(self) -> Any:
        if math.prod(self.shape) != 1:
            raise ValueError("Buffer does not contain a single scalar value")
        return self.as_numpy_array().reshape(())[()]

    def __getitem__(self, key: Any) -> Self:
        return super().__getitem__(key) if self._tensor is None else type(self)(self._tensor[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, cpu.NDBuffer):
            value = value._data
        tensor = self._tensor
        if tensor is None:
            super().__setitem__(key, value if isinstance(value, np.ndarray | np.generic) else np.asarray(value))
            return
        if isinstance(value, np.ndarray | np.generic):
            # Copied, because torch does not support negative strides or read-only arrays.
            value = _torch().from_numpy(np.array(value, dtype=self.dtype)).to(tensor.device)
        tensor[key] = value

    # The methods below serve zarr's own pipeline, which processes chunks on the host.

    def astype(self, dtype: npt.DTypeLike, order: Literal["K", "A", "C", "F"] = "K") -> Self:
        return type(self)(self.as_numpy_array().astype(dtype, order=order))

    def copy(self) -> Self:
        return type(self)(self._data.copy() if self._tensor is None else self._tensor.clone())

    def transpose(self, axes: SupportsIndex | Sequence[SupportsIndex] | None) -> Self:
        return type(self)(self.as_numpy_array().transpose(axes))

    def fill(self, value: Any) -> None:
        self[...] = np.asarray(value, self.dtype)

    def all_equal(self, other: Any, equal_nan: bool = True) -> bool:
        host = self if self._tensor is None else type(self)(self.as_numpy_array())
        return super(TorchNDBuffer, host).all_equal(other, equal_nan)


@functools.cache
def torch_prototype(device: str = "cuda") -> BufferPrototype:
    """The `prototype` argument that makes zarr's reads return torch tensors on `device`: "cuda", "cuda:1", "cpu".

    array.get_basic_selection(np.s_[0:8], prototype=headrace.zarr.torch_prototype()); also for the other get_ methods.
    Raises ImportError without torch.
    """
    _torch()
    on_device = type("TorchNDBuffer", (TorchNDBuffer,), {"device": device, "__module__": TorchNDBuffer.__module__})
    return BufferPrototype(buffer=cpu.Buffer, nd_buffer=on_device)
