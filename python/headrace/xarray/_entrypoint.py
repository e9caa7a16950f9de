"""HeadraceBackendEntrypoint: the xarray engine "headrace"."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import xarray as xr
from xarray.backends import BackendEntrypoint

import headrace
from headrace import _stores
from headrace._storage import Address
from headrace.xarray._array import device_index, import_cupy
from headrace.xarray._dataset import DecodeOptions, Option, Placement, read_dataset
from headrace.xarray._nodes import Location, child_groups, open_group

Device = str | None | Mapping[str, str | None]


class HeadraceBackendEntrypoint(BackendEntrypoint):
    """Opens Zarr v2 and v3 groups, with data read by headrace to the host or directly to a GPU.

    Values, types, attributes and encodings equal those of `engine="zarr"`; see `docs/guide/xarray.md`.
    """

    description: ClassVar[str] = "Open Zarr groups with headrace, on the host or on a GPU"
    url: ClassVar[str] = "docs/guide/xarray.md"
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """True for a path ending in .zarr if zarr-python is not installed; otherwise xarray's own engine opens it."""
        if isinstance(filename_or_obj, headrace.Group):
            return True
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        name = os.fspath(filename_or_obj)
        return isinstance(name, str) and name.rstrip("/").endswith(".zarr") and importlib.util.find_spec("zarr") is None

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | Mapping[str, bool] = True,
        decode_times: Option = True,
        concat_characters: bool | Mapping[str, bool] = True,
        decode_coords: bool | Literal["coordinates", "all"] = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | Mapping[str, bool] | None = None,
        decode_timedelta: Option = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: dict[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        device: Device = None,
        lenient: str = "",
    ) -> xr.Dataset:
        """Opens the group as a dataset whose variables are read when they are used.

        Args:
            filename_or_obj: A path or URL, as :func:`headrace.open` takes it; an open :class:`headrace.Group`, a
                :class:`headrace.MemoryStore`; or a zarr-python store or fsspec mapper over local files, HTTP, S3, GCS
                or Azure.
            group: Path of the group below that.
            mode: "r"; this engine cannot write.
            consolidated: None: use consolidated metadata if present. True: require it. False: ignore it.
            storage_options: Passed to :func:`headrace.open`; not allowed with a store that has its own options.
            zarr_format: 2 or 3: only this format is opened. None: either.
            use_zarr_fill_value_as_mask: Whether elements equal to the array's fill value are missing values. None: yes
                in Zarr v2, no in v3, which marks them by the attribute `_FillValue`.
            device: "cuda" or "cuda:1": variables become CuPy arrays there, except coordinates, times, text and single
                values, which are NumPy arrays. A mapping gives the device of each variable it names. None: the host.
            lenient: Spec violations to accept, as in :func:`headrace.open`.
            mask_and_scale, decode_times, concat_characters, decode_coords, drop_variables, use_cftime,
                decode_timedelta: As in :func:`xarray.open_dataset`.

        Raises:
            FileNotFoundError: The path does not exist or is not a group.
            ValueError: An invalid option, or required consolidated metadata is missing.
            KeyError: An array has no dimension names.
            ImportError: A device was named and CuPy is not installed.
        """
        options = DecodeOptions(
            mask_and_scale, decode_times, decode_timedelta, use_cftime, concat_characters, decode_coords, drop_variables
        )
        store, prefix = _location(filename_or_obj, storage_options, lenient)
        root = _open(filename_or_obj, store, prefix, group, mode, consolidated, zarr_format)
        return read_dataset(
            root,
            store,
            options,
            _placement(device),
            fill_value_is_mask=use_zarr_fill_value_as_mask,
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | Mapping[str, bool] = True,
        decode_times: Option = True,
        concat_characters: bool | Mapping[str, bool] = True,
        decode_coords: bool | Literal["coordinates", "all"] = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | Mapping[str, bool] | None = None,
        decode_timedelta: Option = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: dict[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        device: Device = None,
        lenient: str = "",
    ) -> dict[str, xr.Dataset]:
        """Opens the group and all groups below it as datasets, by path: "/" is the group itself.

        Arguments and errors: as for `open_dataset`.
        """
        options = DecodeOptions(
            mask_and_scale, decode_times, decode_timedelta, use_cftime, concat_characters, decode_coords, drop_variables
        )
        store, prefix = _location(filename_or_obj, storage_options, lenient)
        root = _open(filename_or_obj, store, prefix, group, mode, consolidated, zarr_format)
        placement = _placement(device)
        return {
            _key(path, group): read_dataset(
                child,
                store,
                options,
                placement,
                fill_value_is_mask=use_zarr_fill_value_as_mask,
            )
            for path, child in child_groups(root)
        }

    def open_datatree(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: bool | Mapping[str, bool] = True,
        decode_times: Option = True,
        concat_characters: bool | Mapping[str, bool] = True,
        decode_coords: bool | Literal["coordinates", "all"] = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | Mapping[str, bool] | None = None,
        decode_timedelta: Option = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: dict[str, Any] | None = None,
        zarr_format: int | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        device: Device = None,
        lenient: str = "",
    ) -> xr.DataTree:
        """Opens the group and all groups below it as a tree.

        Arguments and errors: as for `open_dataset`. Also raises ValueError if a group's dimensions or coordinates
        conflict with its parent's; :func:`xarray.open_groups` does not require that they agree.
        """
        datasets = self.open_groups_as_dict(
            filename_or_obj,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
            group=group,
            mode=mode,
            consolidated=consolidated,
            storage_options=storage_options,
            zarr_format=zarr_format,
            use_zarr_fill_value_as_mask=use_zarr_fill_value_as_mask,
            device=device,
            lenient=lenient,
        )
        return xr.DataTree.from_dict(datasets)


def _open(
    source: Any,
    store: Location,
    prefix: str,
    group: str | None,
    mode: str,
    consolidated: bool | None,
    zarr_format: int | None,
) -> headrace.Group:
    if mode != "r":
        raise ValueError(f"engine 'headrace' reads only: mode must be 'r', not {mode!r}; write with Dataset.to_zarr")
    below = (group or "").strip("/")
    if isinstance(source, headrace.Group):
        found = source[below] if below else source
        if not isinstance(found, headrace.Group):
            raise ValueError(f"{group!r} is an array, and a dataset is a group of arrays")
        return found
    path = "/".join(part for part in (prefix, below) if part)
    return open_group(store, path, consolidated=consolidated, zarr_format=zarr_format)


def _key(path: str, group: str | None) -> str:
    """The name that `open_groups` gives the group at `path`: absolute, or relative to the group that was requested."""
    return (path or ".") if group else f"/{path}"


def _location(source: Any, storage_options: dict[str, Any] | None, lenient: str) -> tuple[Location, str]:
    """The store's location, and a path in it."""
    address, prefix = _address_and_path(source)
    if lenient != "all":
        # xarray gives arrays without a name a reserved one and expects to read them.
        lenient = f"{lenient},reserved-names" if lenient else "reserved-names"
    if isinstance(address, Address):
        if storage_options and not isinstance(source, headrace.Group):
            raise ValueError(f"storage_options are given twice: a {type(source).__name__} has its own")
        return Location(address.url, dict(address.options), lenient), prefix
    return Location(address, storage_options, lenient), prefix


def _address_and_path(source: Any) -> tuple[str | Address, str]:
    """The URL (with options if there are any) and the path below it.

    Raises:
        TypeError: Neither a path nor a store that headrace can access itself.
        ValueError: A ZIP file that is open for writing.
    """
    if isinstance(source, headrace.Group):
        kept = source._reopen[0]
        return (kept if isinstance(kept, Address) else source.url), source.path
    if isinstance(source, headrace.MemoryStore):
        return source.url, ""
    if isinstance(source, str | os.PathLike):
        url = os.fspath(source)
        if isinstance(url, bytes):
            url = os.fsdecode(url)
        return (url if "://" in url else os.path.abspath(os.path.expanduser(url))), ""
    # zarr-python objects are recognised by class name, to avoid importing zarr.
    kind = type(source).__name__
    if kind == "StorePath" and hasattr(source, "store"):
        address, prefix = _address_and_path(source.store)
        return address, "/".join(part for part in (prefix, source.path.strip("/")) if part)
    found = _stores.local_url(source) or _stores.remote_address(source)
    if found is not None:
        return found, ""
    raise TypeError(
        f"engine 'headrace' opens paths, URLs, and stores of zarr-python and mappers of fsspec over local files, HTTP, S3, "
        f"GCS or Azure, not this {kind}: use engine='zarr', with headrace.zarr.enable() to decode with headrace"
    )


def _placement(device: Device) -> Placement:
    """Checks devices when opening, rather than at the first read."""
    named = device.values() if isinstance(device, Mapping) else [device]
    for one in named:
        if one is not None and one != "host":
            device_index(one)
            import_cupy()
    return Placement(dict(device) if isinstance(device, Mapping) else device)
