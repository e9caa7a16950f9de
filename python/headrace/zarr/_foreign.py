"""Stores that only zarr can access: their objects are fetched through zarr and read from memory."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zarr.core.buffer import cpu
from zarr.core.common import concurrent_map
from zarr.core.config import config

import headrace

try:
    from zarr.abc.store import _store_supports_sync_io as supports_sync
except ImportError:  # zarr < 3.4

    def supports_sync(store: object) -> bool:
        return False


if TYPE_CHECKING:
    from collections.abc import Iterator

    from zarr.core.buffer import Buffer

    from headrace.zarr._selection import BatchItem

_numbers = itertools.count()


async def fetch(batch: list[BatchItem]) -> list[Buffer | None]:
    """Fetches the chunks' objects, None for missing ones; at most `async.concurrency` of zarr.config at a time."""
    getter, spec = batch[0][:2]
    # Stored bytes are decoded from host memory, even if the elements go to a device.
    prototype = spec.prototype if issubclass(spec.prototype.buffer, cpu.Buffer) else cpu.buffer_prototype
    if supports_sync(getter.store):
        return await asyncio.to_thread(lambda: [item[0].get_sync(prototype=prototype) for item in batch])

    async def get(getter: Any) -> Buffer | None:
        found: Buffer | None = await getter.get(prototype=prototype)
        return found

    return await concurrent_map([(item[0],) for item in batch], get, config.get("async.concurrency"))


@contextmanager
def memory_of(batch: list[BatchItem], objects: list[Buffer | None]) -> Iterator[str]:
    """The URL of a native in-memory store that holds the objects while the context is active."""
    store = headrace.memory_store(f"zarr-plugin-{next(_numbers)}")
    try:
        for item, stored in zip(batch, objects, strict=True):
            if stored is not None:
                store.put(item[0].path, stored.as_numpy_array())
        yield store.url
    finally:
        store.close()
