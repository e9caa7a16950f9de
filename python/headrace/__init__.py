"""headrace reads array data from storage to the GPU: it opens Zarr arrays and returns decoded tensors.

    import headrace
    array = headrace.open("era5.zarr")["t2m"]
    numpy_array = array[0]                               # on the host
    tensor = array.read(slice(0, 64), device="cuda")     # decoded on the GPU; torch.from_dlpack(tensor)
    array.read(0, out=torch_tensor)                      # into an existing tensor

The submodules ``headrace.zarr`` and ``headrace.xarray`` are plug-ins for those packages.
"""

from . import _core
from ._array import Array, open_array
from ._batch import Batch
from ._context import Context, default_context
from ._disk_cache import DiskCacheReport, DiskCacheSegment, clear_disk_cache, inspect_disk_cache
from ._errors import (
    CancelledError,
    CorruptError,
    DeviceLostError,
    ForkedError,
    HeadraceError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PermissionError,
    ResourceExhaustedError,
    RetriesExhaustedError,
    ShortReadError,
    StorageError,
    TimeoutError,
    UnsupportedError,
)
from ._files import File, IOFuture
from ._group import Group, Member, open_group
from ._loader import Loader
from ._open import open
from ._reading import ReadFuture
from ._sources import MemoryStore, RangeStore, memory_store
from ._tensor import Tensor
from ._timing import EpochStats

__version__: str = _core.version
Cancel = _core.Cancel
Stats = _core.Stats


def stats() -> _core.Stats:
    """Statistics of all reads of this process: chunks, bytes by kind and path, seconds by stage (summed over threads)."""
    return _core.total_stats()


def reset_stats() -> None:
    """Resets the statistics of this process to zero."""
    _core.reset_stats()


def device_names() -> list[str]:
    """Names of the devices usable on this machine, as ``device=`` takes them: "host", "host-staged", "cuda:0"."""
    return _core.device_names()


__all__ = [
    "Array", "Batch", "Cancel", "CancelledError", "Context", "CorruptError", "DeviceLostError", "DiskCacheReport",
    "DiskCacheSegment", "EpochStats", "File", "ForkedError", "Group",
    "HeadraceError",
    "IOFuture", "InternalError", "InvalidArgumentError", "Loader", "Member", "MemoryStore", "NotFoundError", "PermissionError",
    "RangeStore", "ReadFuture", "ResourceExhaustedError", "RetriesExhaustedError", "ShortReadError", "Stats", "StorageError", "Tensor",
    "TimeoutError", "UnsupportedError", "__version__", "clear_disk_cache", "default_context", "device_names", "inspect_disk_cache",
    "memory_store", "open", "open_array",
    "open_group", "reset_stats", "stats",
]
