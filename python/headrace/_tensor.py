"""Tensor: elements in device memory that other libraries can share without a copy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _core, _dtypes


class Tensor:
    """Elements in C order in device memory. They are complete, so consumers need not synchronise.

    torch, CuPy, JAX and others import it by DLPack (``torch.from_dlpack(t)``) or by the CUDA array interface. The
    memory stays allocated while anything references it.
    """

    __slots__ = ("_described", "_memory", "shape")

    def __init__(self, memory: Any, shape: tuple[int, ...], described: _dtypes.Described) -> None:
        self._memory = memory
        self.shape = shape
        self._described = described

    @classmethod
    def empty(cls, device: Any, shape: tuple[int, ...], described: _dtypes.Described) -> Tensor:
        return cls(_core.DeviceMemory(device, max(1, math.prod(shape) * described[1])), shape, described)

    @property
    def dtype(self) -> np.dtype[Any]:
        return _dtypes.to_numpy(self._described)

    @property
    def device(self) -> str:
        return self._memory.device.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self._described[1]

    @property
    def pointer(self) -> int:
        """Address of the first element."""
        return self._memory.pointer

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.shape[0]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._memory.dlpack_device

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        # The read has already synchronised with the device, so the consumer's stream needs no event.
        device = self._memory.dlpack_device
        if stream == 0 and device[0] == 2:
            raise BufferError("stream 0 means nothing to DLPack: 1 is the default stream, -1 asks for no synchronisation")
        if dl_device is not None and tuple(dl_device) != device:
            if tuple(dl_device) != (1, 0) or copy is False:
                raise BufferError(f"the tensor is on DLPack device {device}, not on {tuple(dl_device)}")
            return self.numpy().__dlpack__(max_version=max_version)
        if copy:
            raise BufferError("DLPack export does not copy; copy in the library that imports the tensor")
        kind = _dtypes.dlpack_type(self._described)
        if kind is None:
            raise BufferError(f"DLPack has no type for elements of type {self.dtype}; view them as integers")
        if device[0] == 2:
            # None and -1 name no stream; the default stream is assumed.
            self._memory.used_on(1 if stream is None or stream == -1 else int(stream))
        return self._memory.exported(list(self.shape), *kind).__dlpack__(max_version=max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        typestr = _dtypes.typestr(self._described)
        if self.__dlpack_device__()[0] != 2 or typestr is None:
            raise AttributeError(f"no CUDA array interface for elements of type {self._described[2]} on {self.device}")
        self._memory.used_on(1)
        # There is no "stream" entry because no synchronisation is needed.
        return {"shape": self.shape, "typestr": typestr, "data": (self.pointer if self.size else 0, False), "version": 3}

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy in host memory."""
        out = np.empty(self.shape, self.dtype)
        if out.nbytes:
            self._memory.copy_to_host(out.__array_interface__["data"][0], 0, out.nbytes)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a tensor in device memory must be copied to become a NumPy array")
        out = self.numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def torch(self) -> Any:
        """A torch tensor that shares this memory."""
        try:
            import torch
        except ImportError:
            raise ImportError("Tensor.torch() needs PyTorch: https://pytorch.org/get-started") from None
        return torch.from_dlpack(self)

    def jax(self) -> Any:
        """A jax.Array that shares this memory, or a copy if it is host memory that JAX cannot use in place."""
        try:
            from jax import dlpack
        except ImportError:
            raise ImportError("Tensor.jax() needs JAX: https://docs.jax.dev") from None
        return dlpack.from_dlpack(self)

    def cupy(self) -> Any:
        """A CuPy array that shares this memory."""
        try:
            import cupy
        except ImportError:
            raise ImportError("Tensor.cupy() needs CuPy: pip install cupy-cuda13x (or -cuda12x)") from None
        return cupy.from_dlpack(self)

    def __repr__(self) -> str:
        return f"headrace.Tensor(shape={self.shape}, dtype={self._described[2]}, device='{self.device}')"
