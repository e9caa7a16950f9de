"""What xarray's writer needs to write a variable as it was stored: `Variable.encoding`."""

from __future__ import annotations

import base64
import binascii
import functools
import json
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


# What says which codecs an array has, and what else zarr-python wants to see of an array. Many variables of a dataset
# have the same.
_SAID_OF_CODECS = frozenset(
    ("zarr_format", "node_type", "shape", "data_type", "dtype", "chunk_grid", "chunk_key_encoding", "chunks")
    + ("codecs", "storage_transformers", "compressor", "filters", "order", "dimension_separator", "fill_value")
)


def _codecs(node: ArrayNode) -> dict[str, Any]:
    if node.metadata is None:
        return {}
    try:
        said = {key: value for key, value in node.metadata.items() if key in _SAID_OF_CODECS}
        return dict(_codecs_of(json.dumps(said, sort_keys=True)))
    except Exception:  # of many kinds: no zarr-python, or a codec or data type that it does not know
        return {}


@functools.lru_cache(maxsize=256)
def _codecs_of(document: str) -> dict[str, Any]:
    import zarr
    from zarr.storage import MemoryStore, StorePath

    metadata: Any = {**json.loads(document), "attributes": {}}
    array: Any = zarr.Array(zarr.AsyncArray(metadata, StorePath(MemoryStore(), "")))
    codecs: dict[str, Any] = {"compressors": array.compressors, "filters": array.filters}
    if metadata["zarr_format"] == 3:
        codecs["serializer"] = array.serializer
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
