"""xarray engine "headrace": Zarr groups as datasets whose variables are read by headrace, on the host or a GPU.

Installed packages register it, so that `xarray.open_dataset(path, engine="headrace", device="cuda")` works without an
import of this module. Opening reads metadata; variables are read when they are needed.
"""

try:
    import xarray as _xarray  # noqa: F401
except ImportError as error:
    raise ImportError("headrace.xarray is an engine of xarray, which is not installed: pip install xarray") from error

from headrace.xarray._array import HeadraceArray
from headrace.xarray._entrypoint import HeadraceBackendEntrypoint

__all__ = ["HeadraceArray", "HeadraceBackendEntrypoint"]
