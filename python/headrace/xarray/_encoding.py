"""`Variable.encoding`: what xarray's writer needs to write a variable as it was stored."""

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
    """The encoding of the variable made from `node`, equal to that of xarray's own Zarr engine.

    `compressors`, `filters` and `serializer` are zarr-python codec objects, as its `create_array` takes them. They are
    present only if zarr-python is installed, which writing requires anyway, and knows the codecs.
    """
    chunks = node.grid
    encoding: dict[str, Any] = {
        "chunks": chunks,
        "preferred_chunks": dict(zip(node.dims, chunks, strict=True)),
    }
    if node.dtype.kind == "T" and hasattr(reference.ZarrArrayWrapper, "_preserve_string_dtype"):
        # Newer xarray versions keep the type if the encoding has it; earlier ones convert to objects.
        encoding["dtype"] = node.dtype
    encoding.update(_codecs(node))
    encoding["shards"] = node.shards
    if node.zarr_format == 3 and not fill_value_is_mask:
        encoding["fill_value"] = node.fill_value
    return encoding


# Metadata entries that determine the codecs, and those that zarr-python requires. Many variables of a dataset share
# them, so they serve as a cache key.
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
    except Exception:  # several kinds: zarr-python is missing, or does not know a codec or data type
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
    """Decodes the attribute `_FillValue` of a Zarr v3 array, where xarray writes floats and bytes as base64.

    Raises:
        ValueError: The value is invalid for `dtype`.
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
        raise ValueError(f"attribute _FillValue {value!r} is not valid for an array of {dtype}") from error
    raise ValueError(f"attribute _FillValue {value!r}: arrays of {dtype} must not have one")


def _double(value: str) -> float:
    (number,) = struct.unpack("<d", base64.standard_b64decode(value))
    return float(number)
