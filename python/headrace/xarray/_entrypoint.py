"""HeadraceBackendEntrypoint: `engine="headrace"` of xarray."""

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
    """Opens Zarr groups, v2 and v3, with their data read by headrace: to the host, or straight to a GPU.

    Values, types, attributes and encodings are those of `engine="zarr"`; see `docs/guide/xarray.md`.
    """

    description: ClassVar[str] = "Open Zarr groups with headrace, on the host or on a GPU"
    url: ClassVar[str] = "docs/guide/xarray.md"
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """True for a path that ends in .zarr where zarr-python, whose engine opens it otherwise, is not installed."""
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
        """The group as a dataset whose variables are read when they are needed.

        Args:
            filename_or_obj: A path or URL, as :func:`headrace.open` takes it; an open :class:`headrace.Group`, a
                :class:`headrace.MemoryStore`; or a store of zarr-python or mapper of fsspec over local files, HTTP, S3,
                GCS or Azure.
            group: Path of the group below that.
            mode: "r": this engine does not write.
            consolidated: None: by consolidated metadata where there is any. True: only so. False: never.
            storage_options: Passed on to :func:`headrace.open`; not beside a store that has options of its own.
            zarr_format: 2 or 3: nothing else is opened. None: whatever there is.
            use_zarr_fill_value_as_mask: Whether elements equal to the array's fill value are missing values. None: in
                Zarr v2, and not in v3, which says so by the attribute `_FillValue`.
            device: "cuda" or "cuda:1": variables become CuPy arrays there, except coordinates, times, text and single
                values, which are NumPy arrays. A mapping gives the device of each variable it names. None: the host.
            lenient: Habits of writers that the specifications forbid, to let pass: as in :func:`headrace.open`.
            mask_and_scale, decode_times, concat_characters, decode_coords, drop_variables, use_cftime,
                decode_timedelta: As in :func:`xarray.open_dataset`.

        Raises:
            FileNotFoundError: Nothing there, or no group.
            ValueError: An option that makes no sense; consolidated metadata that is missing.
            KeyError: An array does not say how its dimensions are called.
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
        """The group and every group below it as datasets, by path: "/" is the group itself.

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
        """The group and every group below it as a tree.

        Arguments and errors: as for `open_dataset`; and ValueError where a group's dimensions or coordinates do not
        agree with its parent's, which :func:`xarray.open_groups` does not ask for.
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
    """How `open_groups` calls the group at `path`: absolute below the root, relative below a group that was asked for."""
    return (path or ".") if group else f"/{path}"


def _location(source: Any, storage_options: dict[str, Any] | None, lenient: str) -> tuple[Location, str]:
    """The store, and a path in it."""
    address, prefix = _address_and_path(source)
    if lenient != "all":
        # xarray gives such names to arrays without one, and so reads them.
        lenient = f"{lenient},reserved-names" if lenient else "reserved-names"
    if isinstance(address, Address):
        if storage_options and not isinstance(source, headrace.Group):
            raise ValueError(f"storage_options are given twice: a {type(source).__name__} has its own")
        return Location(address.url, dict(address.options), lenient), prefix
    return Location(address, storage_options, lenient), prefix


def _address_and_path(source: Any) -> tuple[str | Address, str]:
    """URL, with its options where there are any, and path below it.

    Raises:
        TypeError: Neither a path nor a store whose objects headrace can ask for itself.
        ValueError: A ZIP file that is still written to.
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
    # zarr-python's, known by what it is called so that zarr is not imported for it.
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
    """Checked now: at the first read it would be late."""
    named = device.values() if isinstance(device, Mapping) else [device]
    for one in named:
        if one is not None and one != "host":
            device_index(one)
            import_cupy()
    return Placement(dict(device) if isinstance(device, Mapping) else device)
