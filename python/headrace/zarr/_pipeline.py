"""The codec pipeline that zarr calls to decode the chunks of a selection, and to encode chunks."""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from zarr.abc.codec import CodecPipeline
from zarr.core.array import create_codec_pipeline
from zarr.core.config import config
from zarr.storage import StorePath

import headrace
from headrace._storage import Address
from headrace.zarr import _foreign
from headrace.zarr._caller import Caller
from headrace.zarr._native import (
    NativeArrays,
    NotNative,
    SmallChunks,
    Target,
    caller_of,
    grid_shape,
    is_sharded,
    location,
    may_be_remote,
    refusal,
    remote_location,
)
from headrace.zarr._selection import BatchItem, KeyLayout, Selected, reconstruct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

    from zarr.abc.codec import Codec
    from zarr.abc.store import Store as ZarrStore
    from zarr.core.array_spec import ArraySpec
    from zarr.core.buffer import Buffer, NDBuffer
    from zarr.core.metadata import ArrayMetadata

_log = logging.getLogger("headrace.zarr")

_PRESENT: dict[str, Any] = {"status": "present"}
_MISSING: dict[str, Any] = {"status": "missing"}
_ONE_PRESENT, _ONE_MISSING = (_PRESENT,), (_MISSING,)

DEFAULT_FALLBACK = "zarr.core.codec_pipeline.BatchedCodecPipeline"

# Messages already logged about arrays not read natively. Bounded, because a program may open any number of arrays.
_logged: set[str] = set()
_MAX_LOGGED = 10_000

_pool: ThreadPoolExecutor | None = None


def _executor() -> ThreadPoolExecutor:
    """Threads that wait for native reads, so that zarr's event loop is not blocked. They release the GIL while waiting."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max_workers=32, thread_name_prefix="headrace-zarr")
    return _pool


def _drop_executor() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_executor)


def fallback_class() -> type[CodecPipeline]:
    """The class of zarr's own pipeline, used for what headrace cannot do: `headrace.fallback` of zarr.config."""
    name = config.get("headrace.fallback", None) or DEFAULT_FALLBACK
    module, _, qualname = str(name).rpartition(".")
    found: type[CodecPipeline] = getattr(import_module(module), qualname)
    return found


class HeadracePipeline(CodecPipeline):
    """Reads all chunks of a selection in one native read, directly into the output array; writes through zarr's own
    pipeline.

    Selected by `zarr.config.set({"codec_pipeline.path": "headrace.zarr.HeadracePipeline"})` or `headrace.zarr.enable()`
    before arrays are opened. Arrays that headrace cannot read go through zarr's own pipeline. This is logged once per
    array ("headrace.zarr", warning), or raised as headrace.UnsupportedError if `headrace.strict` of zarr.config is
    true.

    Threads: any. Picklable.
    """

    def __init__(self, metadata: ArrayMetadata, own: CodecPipeline, *, strict: bool = False) -> None:
        self._metadata = metadata
        self._own = own
        self._strict = strict
        self._refusal = refusal(metadata)
        self._dtype: np.dtype[Any] = metadata.dtype.to_native_dtype()
        self._layout = KeyLayout.of(metadata)
        self._extents = grid_shape(metadata)
        self._sharded = is_sharded(metadata)
        self._arrays = NativeArrays(metadata) if self._refusal is None else None

    @classmethod
    def from_codecs(cls, codecs: Iterable[Codec]) -> Self:
        """Returns zarr's own pipeline: without an array's metadata nothing can be read natively."""
        return fallback_class().from_codecs(codecs)  # type: ignore[return-value]

    @classmethod
    def from_array_metadata_and_store(cls, array_metadata: ArrayMetadata, store: ZarrStore) -> Self:
        strict = bool(config.get("headrace.strict", False))
        # As zarr does for a store without a special pipeline; this calls from_codecs() above.
        return cls(array_metadata, create_codec_pipeline(array_metadata), strict=strict)

    def evolve_from_array_spec(self, array_spec: ArraySpec) -> Self:
        return type(self)(self._metadata, self._own.evolve_from_array_spec(array_spec), strict=self._strict)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (type(self), self._metadata, self._own, self._strict)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeadracePipeline) and self._own == other._own and self._strict == other._strict

    def __hash__(self) -> int:
        return hash((type(self), self._strict))

    def __repr__(self) -> str:
        return f"HeadracePipeline({self._own!r})"

    def __iter__(self) -> Iterator[Codec]:
        return iter(self._own)  # type: ignore[call-overload]

    # The codecs' properties, and single chunks, are left to zarr's own pipeline.

    @property
    def supports_partial_decode(self) -> bool:
        return self._own.supports_partial_decode

    @property
    def supports_partial_encode(self) -> bool:
        return self._own.supports_partial_encode

    def validate(self, **what: Any) -> None:
        self._own.validate(**what)

    def compute_encoded_size(self, byte_length: int, array_spec: ArraySpec) -> int:
        return self._own.compute_encoded_size(byte_length, array_spec)

    async def decode(
        self, chunk_bytes_and_specs: Iterable[tuple[Buffer | None, ArraySpec]]
    ) -> Iterable[NDBuffer | None]:
        return await self._own.decode(chunk_bytes_and_specs)

    async def encode(
        self, chunk_arrays_and_specs: Iterable[tuple[NDBuffer | None, ArraySpec]]
    ) -> Iterable[Buffer | None]:
        return await self._own.encode(chunk_arrays_and_specs)

    async def write(self, batch_info: Iterable[BatchItem], value: NDBuffer, drop_axes: tuple[int, ...] = ()) -> None:
        await self._own.write(batch_info, value, drop_axes)

    async def read(
        self, batch_info: Iterable[BatchItem], out: NDBuffer, drop_axes: tuple[int, ...] = ()
    ) -> tuple[Any, ...]:
        """Fills `out` and reports for each chunk whether it was stored ("present" or "missing").

        Raises headrace.CorruptError or another headrace.HeadraceError, with the chunk's key, if a stored chunk cannot
        be read.
        """
        batch = batch_info if isinstance(batch_info, list) else list(batch_info)
        if not batch:
            return ()
        if len(batch) == 1 and (read := await self._read_small(batch[0], out)) is not None:
            return read
        try:
            if self._refusal is not None:
                raise NotNative(self._refusal, whole_array=True)
            return await self._read(batch, out, drop_axes)
        except NotNative as why:
            self._log_once(why, batch[0][0])
        return await self._own.read(batch, out, drop_axes)

    async def _read_small(self, item: BatchItem, out: NDBuffer) -> tuple[Any, ...] | None:
        """Reads a small chunk by the fast path. None: it must still be read."""
        getter = item[0]
        if self._refusal is not None or not isinstance(getter, StorePath):
            return None
        assert self._arrays is not None
        small = self._arrays.small_chunks_of(getter.store)
        memory: Any = out.as_ndarray_like()
        if small is None or type(memory) is not np.ndarray or memory.dtype != self._dtype:
            return None
        loop = asyncio.get_running_loop()
        read = 0
        # Runs on the loop's own thread if the read is only a copy, or if nothing else is ready to run; loops other than
        # asyncio's do not tell.
        if not small.decodes or not getattr(loop, "_ready", True):
            read = small.read(getter.path, item[2], item[3], memory, True)
        if not read:
            read = await loop.run_in_executor(_executor(), small.read, getter.path, item[2], item[3], memory, False)
        if not read:
            return None
        return _ONE_PRESENT if read == SmallChunks.READ else _ONE_MISSING

    async def _read(self, batch: list[BatchItem], out: NDBuffer, drop_axes: tuple[int, ...]) -> tuple[Any, ...]:
        first = batch[0][0]
        if not isinstance(first, StorePath):
            raise NotNative(f"chunks of a {type(first).__name__}")
        store = first.store
        run = asyncio.get_running_loop().run_in_executor
        url: str | Address | None = location(store)
        if url is None and may_be_remote(store):
            url = await run(_executor(), remote_location, store)
        caller = caller_of(out, len(batch), self._extents or ())
        try:
            if url is not None:
                missing = await run(_executor(), self._read_native, url, batch, out, drop_axes, caller)
            else:
                if self._sharded and not all(item[4] for item in batch):
                    raise NotNative(f"a part of a shard in a {type(store).__name__}, which zarr reads by ranges")
                objects = await _foreign.fetch(batch)
                missing = await run(_executor(), self._read_fetched, objects, batch, out, drop_axes, caller)
        except asyncio.CancelledError:
            if caller is not None:
                caller.mark_cancelled()
            raise
        if missing is None:
            missing = [not there for there in await asyncio.gather(*(store.exists(item[0].path) for item in batch))]
        if not missing:
            return (_PRESENT,) * len(batch)
        return tuple(_MISSING if is_missing else _PRESENT for is_missing in missing)

    def _read_native(
        self, url: str | Address, batch: list[BatchItem], out: NDBuffer, drop_axes: tuple[int, ...], caller: Caller | None
    ) -> list[bool] | None:
        """Which chunks are missing; [] if all are stored, None if that was not determined."""
        prefix, path, selected, target = self._prepare(batch, out, drop_axes)
        assert self._arrays is not None
        stats = target.fill(self._arrays.get(url, path, selected.last), selected, caller)
        local = isinstance(url, str) and not url.startswith("zip://")
        if len(batch) == 1 and local:
            self._arrays.keep_small_chunks(batch[0][0], url, prefix)
        if stats.missing_chunks == 0:
            return []
        if not self._sharded and stats.missing_chunks == len(batch):
            return [True] * len(batch)
        if not local:
            return None
        return [not os.path.exists(f"{url}/{item[0].path}") for item in batch]

    def _read_fetched(
        self,
        objects: list[Buffer | None],
        batch: list[BatchItem],
        out: NDBuffer,
        drop_axes: tuple[int, ...],
        caller: Caller | None,
    ) -> list[bool]:
        _, path, selected, target = self._prepare(batch, out, drop_axes)
        assert self._arrays is not None
        try:
            with _foreign.memory_of(batch, objects) as url:
                target.fill(self._arrays.get_temporary(url, path, selected.last), selected, caller)
        except headrace.HeadraceError as error:
            error.store = str(batch[0][0].store)  # not the memory store that its objects were fetched to
            raise
        return [stored is None for stored in objects]

    def _prepare(
        self, batch: list[BatchItem], out: NDBuffer, drop_axes: tuple[int, ...]
    ) -> tuple[str, str, Selected, Target]:
        """The prefix of the array's keys, its path in the store, the selection, and the memory for it."""
        layout, extents = self._layout, self._extents
        assert layout is not None and extents is not None
        target = Target(out.as_ndarray_like(), self._dtype)
        key = batch[0][0].path
        split = layout.split(key)
        if split is None:
            raise NotNative(f"a chunk called {key!r}")
        selected = reconstruct(batch, layout, *split, extents, out.shape, drop_axes)
        if selected is None:
            raise NotNative("a selection that is neither orthogonal nor a list of points")
        return split[0], layout.base(split[0]), selected, target

    def _log_once(self, why: NotNative, getter: Any) -> None:
        """Logs the reason once per array; raises in strict mode."""
        where = self._array_of(getter)
        if self._strict:
            if isinstance(why.__cause__, headrace.StorageError | headrace.PermissionError):
                raise why.__cause__  # the cause is not a missing feature
            raise headrace.UnsupportedError(f"headrace cannot read {where}: {why.reason}") from why.__cause__
        what = where
        if why.whole_array:
            self._refusal = why.reason
        else:
            what = f"some of {where}"
        if what not in _logged:
            if len(_logged) >= _MAX_LOGGED:
                _logged.clear()
            _logged.add(what)
            _log.warning("zarr's own pipeline reads %s: headrace cannot: %s", what, why.reason)

    def _array_of(self, getter: Any) -> str:
        """The array that a chunk belongs to, derived from its key."""
        if not isinstance(getter, StorePath):
            return str(getter)
        split = None if self._layout is None else self._layout.split(getter.path)
        path = getter.path if self._layout is None or split is None else self._layout.base(split[0])
        return f"{getter.store}/{path}" if path else str(getter.store)


def _unpickle(cls: type[HeadracePipeline], metadata: ArrayMetadata, own: CodecPipeline, strict: bool) -> HeadracePipeline:
    return cls(metadata, own, strict=strict)
