"""Native arrays for arrays that zarr has opened: what describes them, where their chunks lie, what memory they fill."""

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
    """Why headrace cannot read something of zarr's. `whole_array`: nothing of this array, whatever is selected."""

    def __init__(self, reason: str, *, whole_array: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.whole_array = whole_array


# Chunks of at most so many bytes, stored and decoded, are read on the event loop's own thread where they are in the page
# cache: a change of threads takes longer.
_SMALL_BYTES = 128 << 10

# Incremented in a forked child: native arrays and their threads belong to the process that made them.
_generation = 0


def generation() -> int:
    return _generation


def _forked() -> None:
    global _generation
    _generation += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def refusal(metadata: ArrayMetadata) -> str | None:
    """Why no chunk of such an array can be read natively, as far as zarr's metadata tells it; None if nothing does."""
    if KeyLayout.of(metadata) is None:
        return f"chunk key encoding {getattr(metadata, 'chunk_key_encoding', None)!r}"
    if grid_shape(metadata) is None:
        return f"chunk grid {type(metadata.chunk_grid).__name__}"
    dtype = metadata.dtype.to_native_dtype()
    if is_variable(dtype) and type(metadata.dtype).__name__ not in ("VariableLengthUTF8", "VariableLengthBytes"):
        return f"data type {metadata.dtype}"
    for codec in _codecs(metadata):
        # Codecs that a program has registered in place of zarr's own may do something else under the same name.
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
    """Whether elements are objects, or strings of NumPy's type for strings of any length."""
    return dtype.hasobject or dtype.kind == "T"


def is_sharded(metadata: ArrayMetadata) -> bool:
    return metadata.zarr_format == 3 and any(hasattr(codec, "index_codecs") for codec in metadata.codecs)


def grid_shape(metadata: ArrayMetadata) -> tuple[int, ...] | None:
    """Shape of what one stored object holds: a chunk, or a shard. None where it is not one shape."""
    if metadata.zarr_format == 2:
        return tuple(metadata.chunks)
    shape = getattr(metadata.chunk_grid, "chunk_shape", None)
    if shape is None or "Regular" not in type(metadata.chunk_grid).__name__:
        return None
    return tuple(shape)


def document(metadata: ArrayMetadata, shape: tuple[int, ...]) -> str:
    """The array's metadata as stored, with another shape and without what says nothing about its chunks."""
    text: dict[str, Any] = dict(metadata.to_dict())
    text.pop("attributes", None)
    text.pop("dimension_names", None)
    text["shape"] = list(shape)
    if metadata.zarr_format == 2 and metadata.fill_value is None:
        # zarr reads chunks that are not there as the type's default then, which is NaT for times.
        text["fill_value"] = metadata.dtype.to_json_scalar(metadata.dtype.default_scalar(), zarr_format=2)
    return json.dumps(text)


def location(store: ZarrStore) -> str | None:
    """The URL of a store that can be read without it; None where objects have to be asked of it.

    Exact types only: a class derived from one of zarr's may do something else.
    """
    if type(store) is LocalStore or (isinstance(store, LocalStore) and getattr(type(store), "_headrace_local", False)):
        return os.path.abspath(store.root)
    if type(store) is ZipStore and store.read_only and getattr(store, "_zmode", None) == "r":
        path = getattr(store, "path", None)
        return None if path is None else "zip://" + os.path.abspath(path)
    return None


# Remote stores, by their id: whether headrace has opened them, and where.
_addresses: dict[int, tuple[weakref.ref[Any], Address | None]] = {}


def may_be_remote(store: ZarrStore) -> bool:
    return type(store).__name__ in ("FsspecStore", "ObjectStore")


def remote_location(store: ZarrStore) -> Address | None:
    """Where a store lies that headrace can ask in zarr's place, by the store's own options; None: zarr has to be asked.

    Opens it to know that, the first time: not for event loops.
    """
    known = _addresses.get(id(store))
    if known is not None and known[0]() is store:
        return known[1]
    address = remote_address(store)
    if address is not None:
        # What zarr has just written is there.
        if all(name != "missing_max_age" for name, _ in address.options):
            address = Address(address.url, [*address.options, ("missing_max_age", "0")])
        try:
            open_store(address, None)
        except headrace.HeadraceError:
            address = None  # options or credentials that only the store knows
    number = id(store)
    _addresses[number] = weakref.ref(store, lambda _: _addresses.pop(number, None)), address
    return address


@dataclass(frozen=True, slots=True)
class _Open:
    url: str | Address
    path: str
    generation: int
    grid: tuple[int, ...]  # chunks along each axis that the array was opened with
    array: Any


@dataclass(frozen=True, slots=True)
class SmallChunks:
    """Reads of single small chunks of an array in local files, without what larger ones need.

    read(key, selection in the chunk, selection in the output, output, at_hand): READ, MISSING (not stored, and filled),
    or 0: it has to be read in another way. at_hand: only what the page cache holds. REQUIRES: the type of the output is
    the array's. decodes: takes more than a copy.
    """

    READ, MISSING = 1, 2

    store: Any
    root: Any  # of the store, which may be given another
    generation: int
    read: Callable[[str, Any, Any, Any, bool], int]
    decodes: bool


class NativeArrays:
    """The native array of one zarr array, opened when first needed and again when the array has grown.

    Threads: any; two that come first at once may both open it.
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
        """Once get() has opened the array, if its chunks are small."""
        small = self._small_chunks
        if small is None or small.store is not store or small.root is not store.root or small.generation != _generation:
            return None
        return small

    def keep_small_chunks(self, getter: Any, url: str | Address, prefix: str) -> None:
        """Makes small_chunks_of() for the array that get() has given. `prefix`: of its keys, up to the grid position."""
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
        """The array whose objects lie at `url`/`path`, large enough to have a chunk at `last`.

        NotNative: headrace cannot read such an array.
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
        # What lies behind the array's end is never asked for, so that it may as well be longer: it has then only to be
        # opened again when it has doubled.
        grid = tuple(
            max(2 * (chunk + 1) if chunk * extent >= size else 0, -(-size // extent), 1)
            for chunk, extent, size in zip(last, self._extents, self._metadata.shape, strict=True)
        )
        text = document(self._metadata, tuple(n * extent for n, extent in zip(grid, self._extents, strict=True)))
        array = self._from_document(text, *_without_links(url, path))
        self._open = _Open(url, path, _generation, grid, array)
        self._small_chunks = None
        return array

    def once(self, url: str, path: str, last: tuple[int, ...]) -> Any:
        """The same for a store that will not be there again."""
        shape = tuple((chunk + 1) * extent for chunk, extent in zip(last, self._extents, strict=True))
        return self._from_document(document(self._metadata, shape), url, path)

    def _from_document(self, text: str, url: str | Address, path: str) -> Any:
        try:
            # Others may write to the array meanwhile, shards that are open included.
            return headrace.Array.from_document(url, path, self._metadata.zarr_format, text, revalidate=True)
        except (headrace.UnsupportedError, headrace.CorruptError, headrace.InvalidArgumentError) as error:
            raise NotNative(str(error), whole_array=True) from error


def _without_links(url: str | Address, path: str) -> tuple[str | Address, str]:
    """Where an array lies whose directory, or one above it in the store, is a link: native reads stay below a root."""
    if isinstance(url, Address) or url.startswith("zip://"):
        return url, path
    real = os.path.realpath(os.path.join(url, path))
    return (url, path) if real == os.path.normpath(os.path.join(os.path.realpath(url), path)) else (real, "")


# Reads that somebody may not want to wait for: Ctrl-C ends zarr's waiting for them, not the reads.
_LONG_READ_BYTES = 16 << 20
_LONG_READ_CHUNKS = 1024
_LOOK_SECONDS = 0.05  # how soon it is seen that nobody waits
_under_way: set[headrace.ReadFuture] = set()


def _stop_long_reads() -> None:
    for reading in list(_under_way):
        reading.cancel()


# The interpreter waits for threads before it calls what atexit knows.
getattr(threading, "_register_atexit", atexit.register)(_stop_long_reads)


def caller_of(out: Any, chunks: int, extents: tuple[int, ...]) -> Caller | None:
    """Who waits for the current task to read into `out` from so many chunks of that shape, if that may take long."""
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
                if caller is not None and caller.gone():
                    reading.cancel()
    finally:
        _under_way.discard(reading)


# A shard that is rewritten while it is read is read again so often. zarr's own pipeline would not notice.
_ATTEMPTS = 5


def _read_settled(array: headrace.Array, selected: Selected, out: Any, caller: Caller | None) -> tuple[Any, headrace.Stats]:
    for _ in range(_ATTEMPTS - 1):
        try:
            return _read(array, selected, out, caller)
        except headrace.RetriesExhaustedError:
            continue
    return _read(array, selected, out, caller)


class Target:
    """The output of a zarr read as memory that a native read fills.

    Native reads give little-endian elements, and strings of variable length as objects.
    """

    __slots__ = ("_memory", "_out", "_variable")

    def __init__(self, out: Any, dtype: np.dtype[Any]) -> None:
        """NotNative: `out` has elements of another type than `dtype`, the array's. InvalidArgumentError: it is read-only."""
        if isinstance(out, np.ndarray) and not out.flags.writeable:
            raise headrace.InvalidArgumentError("out is read-only")
        # Types that are not NumPy's, as torch's, are compared by the read itself.
        if isinstance(out.dtype, np.dtype) and out.dtype != dtype:
            raise NotNative(f"an output of {out.dtype} for an array of {dtype}")
        self._out = self._memory = out
        self._variable = is_variable(dtype)
        if isinstance(out, np.ndarray) and not self._variable:
            little = dtype.newbyteorder("<")
            if little != dtype:
                self._memory = out.view(little)

    def fill(self, array: headrace.Array, selected: Selected, caller: Caller | None) -> Any:
        """Reads `selected` into the output; the Stats of the read. NotNative: that cannot be done.

        headrace.CancelledError where the caller has gone meanwhile.
        """
        try:
            given = None if self._variable else self._memory
            read, stats = _read_settled(array, selected, given, caller)
        except headrace.RetriesExhaustedError:
            raise
        except (headrace.UnsupportedError, headrace.InvalidArgumentError, headrace.StorageError) as error:
            raise NotNative(str(error)) from error
        except headrace.PermissionError as error:
            # Chunks that are links out of the store among them, which zarr follows. What is really forbidden zarr's own
            # read runs into as well, and says so.
            raise NotNative(str(error), whole_array=True) from error
        if self._variable:
            self._out[...] = read
        elif self._memory is not self._out:
            self._out[...] = self._memory.copy()
        return stats
