"""Builds a decoded dataset from a group: which variables go to which device, and who decodes them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import xarray as xr
from xarray import conventions
from xarray.core import indexing

import headrace
from headrace.xarray._array import HeadraceArray
from headrace.xarray._convert import Conversion, read_options, steps_of
from headrace.xarray._device import DeviceVariable
from headrace.xarray._encoding import decode_fill_value, encoding_of
from headrace.xarray._nodes import ArrayNode, Location, attributes_of, child_arrays

_XARRAY_MAKES_INDEXES = "create_default_indexes" in inspect.signature(xr.open_dataset).parameters

Option = Any  # True, False, None, a coder, or a mapping of names to these


@dataclass(frozen=True)
class DecodeOptions:
    """The decoding options of :func:`xarray.open_dataset`, with the same names."""

    mask_and_scale: bool | Mapping[str, bool] = True
    decode_times: Option = True
    decode_timedelta: Option = None
    use_cftime: bool | Mapping[str, bool] | None = None
    concat_characters: bool | Mapping[str, bool] = True
    decode_coords: bool | Literal["coordinates", "all"] = True
    drop_variables: str | Iterable[str] | None = None

    @property
    def dropped(self) -> frozenset[str]:
        names = self.drop_variables
        return frozenset([names] if isinstance(names, str) else names or ())


@dataclass(frozen=True)
class Placement:
    """Where variables are read to.

    Attributes:
        device: None for the host, "cuda", "cuda:1"; or a mapping of variable names to these. If it is no mapping,
            variables that xarray and pandas need on the host stay there.
    """

    device: str | None | Mapping[str, str | None] = None

    def of(self, name: str, host_only: bool) -> str | None:
        if isinstance(self.device, Mapping):
            device = self.device.get(name)
        else:
            device = self.device
        if device is None or device == "host" or host_only:
            return None
        return device


def read_dataset(
    group: headrace.Group,
    store: Location,
    options: DecodeOptions,
    placement: Placement,
    *,
    fill_value_is_mask: bool | None,
) -> xr.Dataset:
    """The arrays of `group` as a dataset, all lazy; xarray creates the indexes."""
    nodes = list(child_arrays(group, store, options.dropped))
    is_mask = group.zarr_format == 2 if fill_value_is_mask is None else fill_value_is_mask
    attributes = attributes_of(group)
    host = _names_on_host(nodes, attributes, options)
    variables = {
        node.key: _variable(node, placement.of(node.name, node.name in host), fill_value_is_mask=is_mask)
        for node in nodes
    }
    attrs: Any = {key: value for key, value in attributes.items() if not key.lower().startswith("_nc")}
    decoded, attrs, coordinate_names = conventions.decode_cf_variables(
        variables,
        attrs,
        concat_characters=options.concat_characters,
        mask_and_scale=options.mask_and_scale,
        decode_times=options.decode_times,
        decode_coords=options.decode_coords,
        drop_variables=options.dropped,
        use_cftime=options.use_cftime,
        decode_timedelta=options.decode_timedelta,
    )
    data_variables: dict[Any, xr.Variable] = {}
    coordinates: dict[Any, xr.Variable] = {}
    for name, variable in decoded.items():
        variable = _absorb(variable)
        is_coordinate = name in coordinate_names or variable.dims == (name,)
        (coordinates if is_coordinate else data_variables)[name] = variable
    # Newer xarray versions create the indexes; with older ones the backend does, by Dataset's defaults.
    coords: Any = xr.Coordinates(coordinates, indexes={}) if _XARRAY_MAKES_INDEXES else coordinates
    dataset = xr.Dataset(data_variables, coords=coords, attrs=attrs)
    dataset.set_close(_nothing_to_close)
    return dataset


def _nothing_to_close() -> None:
    """Reads open and close the files they need. At module level because datasets are pickled."""


def _variable(node: ArrayNode, device: str | None, *, fill_value_is_mask: bool) -> xr.Variable:
    attrs = dict(node.attrs)
    if fill_value_is_mask:
        # In v2 the fill value has the meaning of netCDF's _FillValue.
        if node.fill_value is not None:
            attrs["_FillValue"] = node.fill_value
    elif "_FillValue" in attrs:
        attrs["_FillValue"] = decode_fill_value(attrs["_FillValue"], node.dtype)
    data = indexing.LazilyIndexedArray(HeadraceArray(node.source, node.dtype, device))
    return xr.Variable(node.dims, data, attrs, encoding_of(node, fill_value_is_mask=fill_value_is_mask))


def _absorb(variable: xr.Variable) -> xr.Variable:
    """Moves the decoding of `variable` into the read where that gives the same values and is needed."""
    found = steps_of(variable._data, lambda base: isinstance(base, HeadraceArray) and base.conversion is None)
    if found is None:
        return variable
    base, steps = found
    if base.device is not None and variable.dtype.kind not in "biufc":
        base.leave_device()  # xarray decodes it to objects: bools with missing values
        return variable
    if not steps:
        return _on_its_device(variable, base)
    options = read_options(base.dtype, steps)
    if options is not None:
        conversion = Conversion(variable.dtype, options)
    elif base.device is not None:
        conversion = Conversion(variable.dtype, {}, tuple(steps))
    else:
        return variable
    converted = base.converted(conversion)
    data = indexing.LazilyIndexedArray(converted)
    variable = xr.Variable(variable.dims, data, variable.attrs, variable.encoding, fastpath=True)
    return _on_its_device(variable, converted)


def _on_its_device(variable: xr.Variable, array: HeadraceArray) -> xr.Variable:
    if array.device is None:
        return variable
    return DeviceVariable(variable.dims, variable._data, variable.attrs, variable.encoding, fastpath=True)


def _names_on_host(nodes: list[ArrayNode], attrs: Mapping[str, Any], options: DecodeOptions) -> set[str]:
    """Names of variables that xarray or pandas handle with NumPy: coordinates, times, text, single values."""
    names: set[str] = set()
    for node in nodes:
        if node.dims == (node.name,) or not node.shape or node.dtype.kind not in "biufc" or _is_time(node, options):
            names.add(node.name)
            if options.decode_times and isinstance(node.attrs.get("bounds"), str):
                names.add(node.attrs["bounds"])  # bounds take over the units of their variable
    for holder in [attrs, *(node.attrs for node in nodes)]:
        coordinates = holder.get("coordinates")
        if isinstance(coordinates, str):
            names.update(coordinates.split())
    return names


def _is_time(node: ArrayNode, options: DecodeOptions) -> bool:
    units = node.attrs.get("units")
    times = _for_variable(options.decode_times, node.name, True)
    timedelta = _for_variable(options.decode_timedelta, node.name, None)
    if timedelta is None:
        timedelta = times
    if str(node.attrs.get("dtype", "")).startswith("timedelta64"):
        return bool(timedelta)
    if not isinstance(units, str):
        return False
    if "since" in units:
        return bool(times)
    return bool(timedelta) and units in _TIMEDELTA_UNITS


_TIMEDELTA_UNITS = frozenset(
    ["days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"]
)


def _for_variable(option: Any, name: str, default: Any) -> Any:
    return option.get(name, default) if isinstance(option, Mapping) else option


def is_fused(variable: xr.Variable) -> bool:
    """Whether the read itself decodes `variable`, which belongs to a newly opened dataset."""
    data: Any = variable._data
    while not isinstance(data, HeadraceArray):
        data = getattr(data, "array", None)
        if data is None or isinstance(data, np.ndarray):
            return False
    return data.conversion is not None and not data.conversion.steps
