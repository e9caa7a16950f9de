"""What xarray's writer needs to write a variable as it was stored: `Variable.encoding`."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

import numpy as np
from xarray.backends import zarr as reference

from headrace.xarray._nodes import ArrayNode


def encoding_of(node: ArrayNode, *, fill_value_is_mask: bool) -> dict[str, Any]:
    """The encoding of the variable made of `node`, equal to that of xarray's own Zarr engine.

    `compressors`, `filters` and `serializer` are zarr-python's codec objects, as its `create_array` takes them; they
    are there where zarr-python is installed and knows the codecs. Writing a dataset needs it anyway.
    """
    chunks = node.grid
    encoding: dict[str, Any] = {
        "chunks": chunks,
        "preferred_chunks": dict(zip(node.dims, chunks, strict=True)),
    }
    if node.dtype.kind == "T" and hasattr(reference.ZarrArrayWrapper, "_preserve_string_dtype"):
        # Newer xarrays keep the type where the encoding has it; earlier ones make objects of it.
        encoding["dtype"] = node.dtype
    encoding.update(_codecs(node))
    encoding["shards"] = node.shards
    if node.zarr_format == 3 and not fill_value_is_mask:
        encoding["fill_value"] = node.fill_value
    return encoding


def _codecs(node: ArrayNode) -> dict[str, Any]:
    if node.metadata is None:
        return {}
    try:
        import zarr
        from zarr.storage import MemoryStore, StorePath
    except ImportError:
        return {}
    try:
        document: Any = dict(node.metadata)
        array: Any = zarr.Array(zarr.AsyncArray(document, StorePath(MemoryStore(), "")))
        codecs: dict[str, Any] = {"compressors": array.compressors, "filters": array.filters}
        if node.zarr_format == 3:
            codecs["serializer"] = array.serializer
    except Exception:  # of many kinds: a codec or data type that this zarr-python does not know
        return {}
    return codecs


def decode_fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """An attribute `_FillValue` of an array in Zarr v3, in which xarray writes floats and bytes as base64.

    Raises:
        ValueError: It is none that `dtype` may have.
    """
    try:
        if dtype.kind in "OTU":
            return str(value)
        if dtype.kind == "S":
            return base64.standard_b64decode(value)
        if dtype.kind == "f":
            return _double(value)
        if dtype.kind == "c":
            real, imaginary = value
            return complex(_double(real), _double(imaginary))
        if dtype.kind == "b":
            return bool(value)
        if dtype.kind in "iu":
            return int(value)
    except (TypeError, ValueError, struct.error, binascii.Error) as error:
        raise ValueError(f"attribute _FillValue {value!r} is none that an array of {dtype} may have") from error
    raise ValueError(f"attribute _FillValue {value!r}: arrays of {dtype} have none")


def _double(value: str) -> float:
    (number,) = struct.unpack("<d", base64.standard_b64decode(value))
    return float(number)
