"""A store of local files that reads objects directly into device memory if zarr requests that."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import gpu
from zarr.storage import LocalStore

import headrace

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype


class Store(LocalStore):
    """zarr's LocalStore, extended to read objects into GPU buffers (zarr.config.enable_gpu()) without a host copy.

    headrace.zarr.HeadracePipeline reads chunks of either store natively. This class serves zarr's own pipelines: arrays
    that headrace cannot read, and other readers of the store.

    Threads: any. Picklable. Errors: as LocalStore; headrace.HeadraceError if a read into device memory fails.
    """

    # Checked by headrace.zarr._native.location: objects are files below `root`, named by their keys.
    _headrace_local = True

    def __repr__(self) -> str:
        return f"headrace.zarr.Store({str(self)!r})"

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if prototype is None or not issubclass(prototype.buffer, gpu.Buffer):
            return await super().get(key, prototype, byte_range)
        await self._ensure_open()
        return await asyncio.to_thread(self._get_on_device, key, prototype, byte_range)

    if hasattr(LocalStore, "get_sync"):

        def get_sync(
            self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
        ) -> Buffer | None:
            if prototype is None or not issubclass(prototype.buffer, gpu.Buffer):
                return super().get_sync(key, prototype=prototype, byte_range=byte_range)
            self._ensure_open_sync()
            return self._get_on_device(key, prototype, byte_range)

    def _get_on_device(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None) -> Buffer | None:
        import cupy

        path = os.path.join(self.root, key)
        try:
            size = os.stat(path).st_size
            begin, end = _range(byte_range, size)
            memory: Any = cupy.empty(end - begin, dtype=cupy.uint8)
            if end > begin:
                with headrace.File(path) as file:
                    file.read_into(memory, file_offset=begin)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return prototype.buffer.from_array_like(memory)


def _range(byte_range: ByteRequest | None, size: int) -> tuple[int, int]:
    """(begin, end) of the range in an object of `size` bytes, clipped to it."""
    if byte_range is None:
        return 0, size
    if isinstance(byte_range, RangeByteRequest):
        return min(byte_range.start, size), min(byte_range.end, size)
    if isinstance(byte_range, OffsetByteRequest):
        return min(byte_range.offset, size), size
    if isinstance(byte_range, SuffixByteRequest):
        return max(0, size - byte_range.suffix), size
    raise TypeError(f"Unexpected byte_range, got {byte_range}.")
