"""Native arrays for arrays opened by zarr: their metadata, the location of their chunks, and the memory they fill."""

from __future__ import annotations

import atexit
import json
import os
import threading
import weakref
from dataclasses import dataclass
from math import prod
from operator import lt
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.storage import LocalStore, ZipStore

import headrace
from headrace._sources import open_store
from headrace._storage import Address
from headrace._stores import remote_address
from headrace.zarr._caller import Caller
from headrace.zarr._selection import KeyLayout, Selected

if TYPE_CHECKING:
    from collections.abc import Callable

    from zarr.abc.store import Store as ZarrStore
    from zarr.core.metadata import ArrayMetadata


class NotNative(Exception):
    """The reason why headrace cannot read something. `whole_array`: it applies to every selection of the array."""

    def __init__(self, reason: str, *, whole_array: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.whole_array = whole_array


# Chunks of at most this many bytes, stored and decoded, are read on the event loop's thread if they are in the page
# cache: switching threads would take longer.
_SMALL_BYTES = 128 << 10

# Incremented in a forked child, since native arrays and their threads belong to the process that created them.
_generation = 0


def generation() -> int:
    return _generation


def _forked() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def refusal(metadata: ArrayMetadata) -> str | None:
    """Why no chunk of such an array can be read natively, judging by zarr's metadata; None if nothing prevents it."""
    if KeyLayout.of(metadata) is None:
        return f"chunk key encoding {getattr(metadata, 'chunk_key_encoding', None)!r}"
    if grid_shape(metadata) is None:
        return f"chunk grid {type(metadata.chunk_grid).__name__}"
    dtype = metadata.dtype.to_native_dtype()
    if is_variable(dtype) and type(metadata.dtype).__name__ not in ("VariableLengthUTF8", "VariableLengthBytes"):
        return f"data type {metadata.dtype}"
    for codec in _codecs(metadata):
        # A codec that replaces zarr's own under the same name may behave differently.
        if not type(codec).__module__.partition(".")[0] in ("zarr", "numcodecs"):
            return f"codec {type(codec).__module__}.{type(codec).__qualname__}"
    return None


def _codecs(metadata: ArrayMetadata) -> list[Any]:
    if metadata.zarr_format == 2:
        compressor = [metadata.compressor] if metadata.compressor is not None else []
        return [*(metadata.filters or ()), *compressor]
    found: list[Any] = []
    queue = list(metadata.codecs)
    while queue:
        codec = queue.pop()
        found.append(codec)
        queue.extend(getattr(codec, "index_codecs", ()))
        inner = getattr(codec, "codecs", ())
        queue.extend(inner if isinstance(inner, tuple | list) else ())
    return found


def is_variable(dtype: np.dtype[Any]) -> bool:
    """Whether elements have variable length: objects, or NumPy's StringDType."""
    return dtype.hasobject or dtype.kind == "T"


def is_sharded(metadata: ArrayMetadata) -> bool:
    return metadata.zarr_format == 3 and any(hasattr(codec, "index_codecs") for codec in metadata.codecs)


def grid_shape(metadata: ArrayMetadata) -> tuple[int, ...] | None:
    """Shape of one stored object: a chunk, or a shard. None for a grid of several shapes."""
    if metadata.zarr_format == 2:
        return tuple(metadata.chunks)
    shape = getattr(metadata.chunk_grid, "chunk_shape", None)
    if shape is None or "Regular" not in type(metadata.chunk_grid).__name__:
        return None
    return tuple(shape)


def document(metadata: ArrayMetadata, shape: tuple[int, ...]) -> str:
    """The array's metadata as stored, with another shape and without entries that do not affect its chunks."""
    text: dict[str, Any] = dict(metadata.to_dict())
    text.pop("attributes", None)
    text.pop("dimension_names", None)
    text["shape"] = list(shape)
    if metadata.zarr_format == 2 and metadata.fill_value is None:
        # In this case zarr fills missing chunks with the type's default, which is NaT for times.
        text["fill_value"] = metadata.dtype.to_json_scalar(metadata.dtype.default_scalar(), zarr_format=2)
    return json.dumps(text)


def location(store: ZarrStore) -> str | None:
    """The URL by which headrace can read a store itself; None if objects must be requested through zarr.

    Accepts exact types only: a derived class may behave differently.
    """
    if type(store) is LocalStore or (isinstance(store, LocalStore) and getattr(type(store), "_headrace_local", False)):
        return os.path.abspath(store.root)
    if type(store) is ZipStore and store.read_only and getattr(store, "_zmode", None) == "r":
        path = getattr(store, "path", None)
        return None if path is None else "zip://" + os.path.abspath(path)
    return None


# Known remote stores, by id: the address if headrace can open it, else None.
_addresses: dict[int, tuple[weakref.ref[Any], Address | None]] = {}


def may_be_remote(store: ZarrStore) -> bool:
    return type(store).__name__ in ("FsspecStore", "ObjectStore")


def remote_location(store: ZarrStore) -> Address | None:
    """The address, with the store's own options, by which headrace can read a remote store itself; None: zarr must be
    used.

    The first call opens the store to find out, so do not call it on an event loop.
    """
    known = _addresses.get(id(store))
    if known is not None and known[0]() is store:
        return known[1]
    address = remote_address(store)
    if address is not None:
        # Objects that zarr has just written must be visible.
        if all(name != "missing_max_age" for name, _ in address.options):
            address = Address(address.url, [*address.options, ("missing_max_age", "0")])
        try:
            open_store(address, None)
        except headrace.HeadraceError:
            address = None  # options or credentials that only the zarr store has
    number = id(store)
    _addresses[number] = weakref.ref(store, lambda _: _addresses.pop(number, None)), address
    return address


@dataclass(frozen=True, slots=True)
class _Open:
    url: str | Address
    path: str
    generation: int
    grid: tuple[int, ...]  # number of chunks along each axis with which the array was opened
    array: Any


@dataclass(frozen=True, slots=True)
class SmallChunks:
    """A fast path for reads of single small chunks of arrays in local files.

    read(key, selection in the chunk, selection in the output, output, at_hand) returns READ, MISSING (not stored;
    filled), or 0 if another path must read it. at_hand: use only what the page cache holds. decodes: reading takes more
    than a copy. REQUIRES: the output has the array's type.
    """

    READ, MISSING = 1, 2

    store: Any
    root: Any  # of the store, whose root may be reassigned
    generation: int
    read: Callable[[str, Any, Any, Any, bool], int]
    decodes: bool


class NativeArrays:
    """The native array of one zarr array, opened on first use and reopened when the array has grown.

    Threads: any. Two concurrent first uses may both open it.
    """

    def __init__(self, metadata: ArrayMetadata) -> None:
        self._metadata = metadata
        extents = grid_shape(metadata)
        assert extents is not None
        self._extents = extents
        self._open: _Open | None = None
        self._small_chunks: SmallChunks | None = None
        self._layout = KeyLayout.of(metadata)
        dtype = metadata.dtype.to_native_dtype()
        self._small = (
            not is_variable(dtype)
            and dtype == dtype.newbyteorder("<")
            and prod(extents) * dtype.itemsize <= _SMALL_BYTES
        )

    def small_chunks_of(self, store: Any) -> SmallChunks | None:
        """The fast path, if get() has opened the array and its chunks are small."""
        small = self._small_chunks
        if small is None or small.store is not store or small.root is not store.root or small.generation != _generation:
            return None
        return small

    def keep_small_chunks(self, getter: Any, url: str | Address, prefix: str) -> None:
        """Creates the fast path for the array that get() returned. `prefix`: the part of its keys before the grid
        position.
        """
        store, held, layout = getter.store, self._open, self._layout
        if not self._small or held is None or layout is None or not store.root.is_absolute():
            return
        base = layout.base(prefix)
        if held.url != url or held.path != base or self.small_chunks_of(store) is not None:
            return
        array = held.array
        native_prefix = prefix if array.path == base else prefix[len(base) :].lstrip("/")
        read = array.chunk_reader(prefix, native_prefix, layout.separator, self._extents, _SMALL_BYTES)
        decodes = not set(array.codecs) <= {"bytes"}
        self._small_chunks = SmallChunks(store, store.root, _generation, read, decodes)

    def get(self, url: str | Address, path: str, last: tuple[int, ...]) -> Any:
        """The array whose objects lie at `url`/`path`, with a shape that includes the chunk at `last`.

        Raises NotNative if headrace cannot read such an array.
        """
        held = self._open
        if (
            held is not None
            and held.generation == _generation
            and held.path == path
            and held.url == url
            and all(map(lt, last, held.grid))
        ):
            return held.array
        # Nothing past the array's end is ever requested, so the shape may be larger: the array must then be reopened
        # only when it has doubled.
        grid = tuple(
            max(2 * (chunk + 1) if chunk * extent >= size else 0, -(-size // extent), 1)
            for chunk, extent, size in zip(last, self._extents, self._metadata.shape, strict=True)
        )
        text = document(self._metadata, tuple(n * extent for n, extent in zip(grid, self._extents, strict=True)))
        array = self._from_document(text, *_without_links(url, path))
        self._open = _Open(url, path, _generation, grid, array)
        self._small_chunks = None
        return array

    def get_temporary(self, url: str, path: str, last: tuple[int, ...]) -> Any:
        """As get(), for a temporary store, so the array is not kept."""
        shape = tuple((chunk + 1) * extent for chunk, extent in zip(last, self._extents, strict=True))
        return self._from_document(document(self._metadata, shape), url, path)

    def _from_document(self, text: str, url: str | Address, path: str) -> Any:
        try:
            # Others may write to the array at the same time, including shards that are open.
            return headrace.Array.from_document(url, path, self._metadata.zarr_format, text, revalidate=True)
        except (headrace.UnsupportedError, headrace.CorruptError, headrace.InvalidArgumentError) as error:
            raise NotNative(str(error), whole_array=True) from error


def _without_links(url: str | Address, path: str) -> tuple[str | Address, str]:
    """Resolves links at or above the array's directory: native reads do not leave the store's root."""
    if isinstance(url, Address) or url.startswith("zip://"):
        return url, path
    real = os.path.realpath(os.path.join(url, path))
    return (url, path) if real == os.path.normpath(os.path.join(os.path.realpath(url), path)) else (real, "")


# Long reads check whether their caller still waits: Ctrl-C ends zarr's wait, but not the read.
_LONG_READ_BYTES = 16 << 20
_LONG_READ_CHUNKS = 1024
_LOOK_SECONDS = 0.05  # interval of that check
_under_way: set[headrace.ReadFuture] = set()


def _stop_long_reads() -> None:
    for reading in list(_under_way):
        reading.cancel()


# The interpreter joins threads before it runs atexit functions.
getattr(threading, "_register_atexit", atexit.register)(_stop_long_reads)


def caller_of(out: Any, chunks: int, extents: tuple[int, ...]) -> Caller | None:
    """The caller that waits for the current task, if reading so many chunks of that shape into `out` may take long;
    else None.
    """
    elements = max(prod(out.shape), chunks * prod(extents))
    return Caller() if chunks > _LONG_READ_CHUNKS or elements * out.dtype.itemsize > _LONG_READ_BYTES else None


def _read(array: headrace.Array, selected: Selected, out: Any, caller: Caller | None) -> tuple[Any, headrace.Stats]:
    if out is None or caller is None:
        result, stats = array.read(selected.selection, indexing=selected.indexing, out=out, return_stats=True)
        return result, stats
    reading = array.read_async(selected.selection, indexing=selected.indexing, out=out)
    _under_way.add(reading)
    try:
        while True:
            try:
                return reading.result(_LOOK_SECONDS), reading.stats
            except headrace.TimeoutError:
                raise
            except TimeoutError:
                if caller is not None and caller.stopped_waiting():
                    reading.cancel()
    finally:
        _under_way.discard(reading)


# How often a shard that is rewritten during the read is retried. zarr's own pipeline would not notice the change.
_ATTEMPTS = 5


def _read_settled(array: headrace.Array, selected: Selected, out: Any, caller: Caller | None) -> tuple[Any, headrace.Stats]:
    for _ in range(_ATTEMPTS - 1):
        try:
            return _read(array, selected, out, caller)
        except headrace.RetriesExhaustedError:
            continue
    return _read(array, selected, out, caller)


class Target:
    """The output of a zarr read, as memory that a native read fills.

    Native reads return little-endian elements, and variable-length strings as objects.
    """

    __slots__ = ("_memory", "_out", "_variable")

    def __init__(self, out: Any, dtype: np.dtype[Any]) -> None:
        """Raises NotNative if the element type of `out` is not `dtype`, InvalidArgumentError if `out` is read-only."""
        if isinstance(out, np.ndarray) and not out.flags.writeable:
            raise headrace.InvalidArgumentError("out is read-only")
        # The read itself compares types of other libraries, such as torch.
        if isinstance(out.dtype, np.dtype) and out.dtype != dtype:
            raise NotNative(f"an output of {out.dtype} for an array of {dtype}")
        self._out = self._memory = out
        self._variable = is_variable(dtype)
        if isinstance(out, np.ndarray) and not self._variable:
            little = dtype.newbyteorder("<")
            if little != dtype:
                self._memory = out.view(little)

    def fill(self, array: headrace.Array, selected: Selected, caller: Caller | None) -> Any:
        """Reads `selected` into the output and returns the read's Stats. Raises NotNative if that is impossible.

        Raises headrace.CancelledError if the caller has stopped waiting.
        """
        try:
            given = None if self._variable else self._memory
            read, stats = _read_settled(array, selected, given, caller)
        except headrace.RetriesExhaustedError:
            raise
        except (headrace.UnsupportedError, headrace.InvalidArgumentError, headrace.StorageError) as error:
            raise NotNative(str(error)) from error
        except headrace.PermissionError as error:
            # This includes chunks that are links out of the store, which zarr follows. A real permission error recurs
            # in zarr's own read, which reports it.
            raise NotNative(str(error), whole_array=True) from error
        if self._variable:
            self._out[...] = read
        elif self._memory is not self._out:
            self._out[...] = self._memory.copy()
        return stats
