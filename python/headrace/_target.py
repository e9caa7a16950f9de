"""Where the elements of a read go: other libraries' tensors, described."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from ._errors import InvalidArgumentError

_TORCH_TYPES = {"bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
                "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16", "float32": "float32",
                "float64": "float64", "complex64": "complex64", "complex128": "complex128", "bfloat16": "bfloat16"}


class Target(NamedTuple):
    """Memory that elements are written to."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # bytes; None: C order
    dtype: Any  # a NumPy type, or "bfloat16"
    device: str
    stream: int | None  # on which its owner works, if it says

    @property
    def view(self) -> tuple[int, tuple[int, ...], tuple[int, ...] | None]:
        return (self.pointer, self.shape, self.strides)


def _of_interface(interface: dict[str, Any], device: str, what: str, writable: bool) -> Target:
    pointer, read_only = interface["data"]
    if read_only and writable:
        raise InvalidArgumentError(f"{what} is read-only")
    if interface.get("mask") is not None:
        raise InvalidArgumentError(f"{what} has a mask; give a tensor without one")
    strides = interface.get("strides")
    descr = interface.get("descr")
    dtype = np.dtype(interface["typestr"])
    if dtype.kind == "V" and descr and len(descr) > 1:
        dtype = np.dtype([tuple(field) for field in descr])
    return Target(int(pointer), tuple(interface["shape"]), None if strides is None else tuple(strides), dtype, device,
                  interface.get("stream"))


def _of_torch(out: Any, torch: Any, what: str, writable: bool) -> Target:
    if writable and out.requires_grad and out.is_leaf and torch.is_grad_enabled():
        raise InvalidArgumentError(f"{what} requires grad: read into a tensor without it, or under torch.no_grad()")
    if out.layout != torch.strided or out.is_conj() or out.is_neg():
        raise InvalidArgumentError(f"{what} must be a plain strided tensor")
    name = _TORCH_TYPES.get(str(out.dtype).removeprefix("torch."))
    if name is None:
        raise InvalidArgumentError(f"{what} has elements of type {out.dtype}, which no array has")
    size = out.element_size()
    strides = tuple(stride * size for stride in out.stride())
    dtype: Any = name if name == "bfloat16" else np.dtype(name)
    if out.device.type == "cpu":
        return Target(out.data_ptr(), tuple(out.shape), strides, dtype, "host", None)
    if out.device.type != "cuda":
        raise InvalidArgumentError(f"{what} lies on device '{out.device}'; the host and CUDA devices are read to")
    stream = torch.cuda.current_stream(out.device).cuda_stream
    return Target(out.data_ptr(), tuple(out.shape), strides, dtype, f"cuda:{out.device.index}", int(stream))


def describe(out: Any, what: str = "out", *, writable: bool = True) -> Target:
    """What `out` is: a NumPy array, a torch tensor, or anything with the (CUDA) array interface or the buffer protocol.

    what: how failures call it. Raises InvalidArgumentError where it is no tensor, or where `writable` and nothing can be
    written to it.
    """
    if isinstance(out, np.ndarray):
        if writable and not out.flags.writeable:
            raise InvalidArgumentError(f"{what} is read-only")
        if type(out) is not np.ndarray and isinstance(out, np.ma.MaskedArray):
            raise InvalidArgumentError(f"{what} has a mask; give a tensor without one")
        return Target(out.__array_interface__["data"][0], out.shape,
                      None if out.flags.c_contiguous else out.strides, out.dtype, "host", None)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(out, torch.Tensor):
        return _of_torch(out, torch, what, writable)
    interface = getattr(out, "__cuda_array_interface__", None)
    if interface is not None:
        index = getattr(getattr(out, "device", None), "id", None)
        if index is None and hasattr(out, "__dlpack_device__"):
            index = out.__dlpack_device__()[1]
        return _of_interface(interface, f"cuda:{index or 0}", what, writable)
    interface = getattr(out, "__array_interface__", None)
    if interface is not None:
        return _of_interface(interface, "host", what, writable)
    if hasattr(out, "__dlpack__"):
        kind = out.__dlpack_device__()[0]
        if kind != 1:
            raise InvalidArgumentError(f"{what} lies on DLPack device {int(kind)}; give a tensor on the host, or one with "
                                       "__cuda_array_interface__")
        return describe(np.from_dlpack(out), what, writable=writable)
    try:
        view = np.asarray(memoryview(out))
    except TypeError:
        raise InvalidArgumentError(f"{what} is a {type(out).__name__}, which is no tensor: it has neither an array interface "
                                   "nor DLPack nor the buffer protocol") from None
    return describe(view, what, writable=writable)


def current_stream(device: str) -> int:
    """The stream on which the caller works on a GPU, as far as one of its libraries says; 0: the default stream."""
    index = int(device.partition(":")[2] or 0)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_stream(index).cuda_stream)
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        return int(cupy.cuda.get_current_stream().ptr)
    return 0


def check_type(target: Target, wanted: Any) -> None:
    """Raises InvalidArgumentError unless the target's elements are `wanted`, a NumPy type or "bfloat16"."""
    have = target.dtype
    if isinstance(have, str) or isinstance(wanted, str):
        if str(have) == str(wanted) or getattr(wanted, "name", None) == have:
            return
    elif have == wanted or (have.kind == wanted.kind == "V" and have.itemsize == wanted.itemsize):
        return
    raise InvalidArgumentError(f"out has elements of type {have}, the read gives {wanted}; pass dtype= to convert, or an "
                               "out of that type")
