"""Writes Zarr arrays without any Zarr library, so that tests of the package need only NumPy."""

from __future__ import annotations

import gzip
import itertools
import json
import pathlib
from typing import Any

import numpy as np


def write(path: Any, data: np.ndarray, chunks: tuple[int, ...], *, compress: bool = False, fill: Any = 0,
          skip: tuple[tuple[int, ...], ...] = (), attributes: dict[str, Any] | None = None,
          dimension_names: tuple[str, ...] | None = None) -> pathlib.Path:
    """Writes a v2 array of whole chunks, except those in `skip` (grid positions)."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    dtype = data.dtype.descr if data.dtype.names else data.dtype.str
    document = {"zarr_format": 2, "shape": data.shape, "chunks": chunks, "dtype": dtype, "order": "C", "filters": None,
                "fill_value": fill, "compressor": {"id": "gzip", "level": 1} if compress else None}
    (path / ".zarray").write_text(json.dumps(document))
    (path / ".zattrs").write_text(json.dumps(attributes or {}))
    grid = [range(-(-extent // chunk)) for extent, chunk in zip(data.shape, chunks, strict=True)]
    for place in itertools.product(*grid):
        if place in skip:
            continue
        chunk = np.zeros(chunks, data.dtype)
        part = data[tuple(slice(at * size, (at + 1) * size) for at, size in zip(place, chunks, strict=True))]
        chunk[tuple(slice(0, extent) for extent in part.shape)] = part
        stored = chunk.tobytes()
        (path / ".".join(map(str, place))).write_bytes(gzip.compress(stored, 1) if compress else stored)
    return path


def write_rectilinear(path: Any, data: np.ndarray, edges: tuple[tuple[int, ...], ...]) -> pathlib.Path:
    """Writes a v3 array of numbers with chunks of varying shape: `edges` has the chunk lengths along each axis."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": edges}}
    document = {"zarr_format": 3, "node_type": "array", "shape": data.shape, "data_type": data.dtype.name, "chunk_grid": grid,
                "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
                "codecs": [{"name": "bytes", "configuration": {"endian": "little"}},
                           {"name": "gzip", "configuration": {"level": 1}}]}
    (path / "zarr.json").write_text(json.dumps(document))
    ends = [list(itertools.accumulate(axis)) for axis in edges]
    for place in itertools.product(*(range(len(axis)) for axis in edges)):
        part = data[tuple(slice(end[at] - axis[at], end[at]) for at, axis, end in zip(place, edges, ends, strict=True))]
        chunk = path.joinpath("c", *map(str, place))
        chunk.parent.mkdir(parents=True, exist_ok=True)
        chunk.write_bytes(gzip.compress(np.ascontiguousarray(part).tobytes(), 1))
    return path


def write_strings(path: Any, items: list[str], *, repeat: int = 1) -> pathlib.Path:
    """Writes a v2 array of variable-length strings: `repeat` chunks of `items` each."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    document = {"zarr_format": 2, "shape": [len(items) * repeat], "chunks": [len(items)], "dtype": "|O", "order": "C",
                "filters": [{"id": "vlen-utf8"}], "fill_value": "", "compressor": None}
    (path / ".zarray").write_text(json.dumps(document))
    encoded = [item.encode() for item in items]
    body = len(items).to_bytes(4, "little") + b"".join(len(item).to_bytes(4, "little") + item for item in encoded)
    for number in range(repeat):
        (path / str(number)).write_bytes(body)
    return path


def write_group(path: Any, attributes: dict[str, Any] | None = None) -> pathlib.Path:
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zattrs").write_text(json.dumps(attributes or {}))
    return path
