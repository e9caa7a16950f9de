"""Describes other libraries' tensors as targets of a read."""

from __future__ import annotations

import ctypes
import operator
import os
import sys
from typing import Any, NamedTuple

import numpy as np

from ._errors import InvalidArgumentError

_TORCH_TYPES = {"bool": "bool", "uint8": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
                "uint16": "uint16", "uint32": "uint32", "uint64": "uint64", "float16": "float16", "float32": "float32",
                "float64": "float64", "complex64": "complex64", "complex128": "complex128", "bfloat16": "bfloat16"}

#: Pointer, shape, and strides in bytes (None: C order).
View = tuple[int, tuple[int, ...], tuple[int, ...] | None]


class Target(NamedTuple):
    """Memory that a read writes to."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # bytes; None: C order
    dtype: Any  # a NumPy type, or "bfloat16"
    device: str
    stream: int | None  # the stream its owner works on, if known
    # Must stay alive while the memory is written: a buffer export, which its owner cannot revoke, or the owner of the
    # memory if that is another object.
    held: Any

    @property
    def view(self) -> View:
        return (self.pointer, self.shape, self.strides)


def _of_interface(out: Any, interface: Any, device: str | None, what: str, writable: bool) -> Target:
    """Describes an array-interface object. device: None to derive it from the pointer."""
    try:
        data = interface["data"]
        if not isinstance(data, tuple) or len(data) != 2:
            raise TypeError(f"data is a {type(data).__name__} and not (pointer, read-only)")
        pointer, read_only = operator.index(data[0]), bool(data[1])
        shape = tuple(operator.index(extent) for extent in interface["shape"])
        strides = interface.get("strides")
        if strides is not None:
            strides = tuple(operator.index(stride) for stride in strides)
        if pointer < 0 or min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
            raise ValueError(f"pointer {pointer}, shape {shape}, strides {strides}")
        dtype = np.dtype(interface["typestr"])
        descr = interface.get("descr")
        if dtype.kind == "V" and descr and [tuple(field) for field in descr] != [("", interface["typestr"])]:
            dtype = np.lib.format.descr_to_dtype([tuple(field) for field in descr])
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        missing = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InvalidArgumentError(f"{what} is a {type(out).__name__} whose array interface cannot be used: {missing}") from None
    if read_only and writable:
        raise InvalidArgumentError(f"{what} is read-only")
    if interface.get("mask") is not None:
        raise InvalidArgumentError(f"{what} has a mask; give a tensor without one")
    return Target(pointer, shape, strides, dtype, device or device_of_memory(pointer), interface.get("stream"), (out, interface))


_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


def _driver() -> Any:
    """The CUDA driver library if the process has loaded it; else None."""
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    except OSError:
        return None


def device_of_memory(pointer: int) -> str:
    """The GPU that owns an address; "cuda:0" if the driver does not know."""
    ordinal = ctypes.c_int(0)
    driver = _driver()
    if driver is None or driver.cuPointerGetAttribute(ctypes.byref(ordinal), _DEVICE_ORDINAL, ctypes.c_uint64(pointer)) != 0:
        return "cuda:0"
    return f"cuda:{ordinal.value}"


def _of_torch(out: Any, torch: Any, what: str, writable: bool) -> Target:
    if writable and out.requires_grad and out.is_leaf and torch.is_grad_enabled():
        raise InvalidArgumentError(f"{what} requires grad: read into a tensor without it, or under torch.no_grad()")
    if out.layout != torch.strided or out.is_conj() or out.is_neg():
        raise InvalidArgumentError(f"{what} must be a plain strided tensor")
    name = _TORCH_TYPES.get(str(out.dtype).removeprefix("torch."))
    if name is None:
        raise InvalidArgumentError(f"{what} has elements of type {out.dtype}, which arrays do not support")
    size = out.element_size()
    strides = tuple(stride * size for stride in out.stride())
    dtype: Any = name if name == "bfloat16" else np.dtype(name)
    held = out.detach()  # shares the memory, even if `out` is later given other memory
    if out.device.type == "cpu":
        return Target(held.data_ptr(), tuple(out.shape), strides, dtype, "host", None, held)
    if out.device.type != "cuda":
        raise InvalidArgumentError(f"{what} is on device '{out.device}'; reads support the host and CUDA devices")
    stream = torch.cuda.current_stream(out.device).cuda_stream
    return Target(held.data_ptr(), tuple(out.shape), strides, dtype, f"cuda:{out.device.index}", int(stream), held)


def _of_cuda_interface(out: Any, interface: Any, what: str, writable: bool) -> Target:
    index = getattr(getattr(out, "device", None), "id", None)
    if index is None and hasattr(out, "__dlpack_device__"):
        index = out.__dlpack_device__()[1]
    target = _of_interface(out, interface, None if index is None else f"cuda:{index}", what, writable)
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(out, cupy.ndarray):
        # CuPy's interface names the current stream of the current device, which may not be the array's device.
        target = target._replace(stream=_cupy_stream(cupy, int(target.device.partition(":")[2])))
    return target


def describe(out: Any, what: str = "out", *, writable: bool = True) -> Target:
    """Describes a NumPy array, a torch tensor, or an object with the (CUDA) array interface or the buffer protocol.

    what: its name in messages. Raises InvalidArgumentError if `out` is not a tensor, or is read-only although
    `writable` is set.
    """
    if isinstance(out, np.ndarray):
        if writable and not out.flags.writeable:
            raise InvalidArgumentError(f"{what} is read-only")
        if type(out) is not np.ndarray and isinstance(out, np.ma.MaskedArray):
            raise InvalidArgumentError(f"{what} has a mask; give a tensor without one")
        return Target(out.__array_interface__["data"][0], out.shape,
                      None if out.flags.c_contiguous else out.strides, out.dtype, "host", None, out)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(out, torch.Tensor):
        return _of_torch(out, torch, what, writable)
    interface = getattr(out, "__cuda_array_interface__", None)
    if interface is not None:
        return _of_cuda_interface(out, interface, what, writable)
    interface = getattr(out, "__array_interface__", None)
    if interface is not None:
        return _of_interface(out, interface, "host", what, writable)
    if hasattr(out, "__dlpack__"):
        kind = out.__dlpack_device__()[0]
        if kind != 1:
            raise InvalidArgumentError(f"{what} is on DLPack device {int(kind)}; give a tensor in host memory, or one with "
                                       "__cuda_array_interface__")
        return describe(np.from_dlpack(out), what, writable=writable)
    try:
        view = np.asarray(memoryview(out))
    except TypeError:
        raise InvalidArgumentError(f"{what} is a {type(out).__name__}, not a tensor: it has neither an array interface "
                                   "nor DLPack nor the buffer protocol") from None
    return describe(view, what, writable=writable)


def current_stream(device: str) -> int:
    """The caller's current stream on a GPU, according to torch or CuPy; 0: the default stream."""
    index = int(device.partition(":")[2] or 0)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_stream(index).cuda_stream)
    cupy = sys.modules.get("cupy")
    if cupy is not None:
        return _cupy_stream(cupy, index)
    return 0


def _cupy_stream(cupy: Any, index: int) -> int:
    """CuPy's current stream on a device."""
    return int(cupy.cuda.get_current_stream(index).ptr)


def check_type(target: Target, wanted: Any) -> None:
    """Raises InvalidArgumentError unless the target's element type is `wanted`, a NumPy type or "bfloat16"."""
    have = target.dtype
    if isinstance(have, str) or isinstance(wanted, str):
        if str(have) == str(wanted) or getattr(wanted, "name", None) == have:
            return
    elif have == wanted:  # includes names, offsets and byte order of fields
        return
    raise InvalidArgumentError(f"out has elements of type {have}, the read gives {wanted}; pass dtype= to convert, or an "
                               "out of that type")
