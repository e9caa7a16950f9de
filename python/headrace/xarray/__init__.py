"""xarray engine "headrace": opens Zarr groups as datasets whose variables are read by headrace, on the host or a GPU.

The installed package registers the engine: `xarray.open_dataset(path, engine="headrace", device="cuda")` works without
importing this module. Opening reads metadata only; variables are read when they are used.
"""

try:
    import xarray as _xarray  # noqa: F401
except ImportError as error:
    raise ImportError("headrace.xarray is an engine of xarray, which is not installed: pip install xarray") from error

from headrace.xarray._array import HeadraceArray
from headrace.xarray._entrypoint import HeadraceBackendEntrypoint

__all__ = ["HeadraceArray", "HeadraceBackendEntrypoint"]
