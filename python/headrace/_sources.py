"""Where arrays and groups are opened from: paths, URLs, and stores in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from . import _core, _stores
from ._context import Context, context_or_default
from ._errors import InvalidArgumentError, UnsupportedError
from ._storage import Address, flat


class MemoryStore:
    """Named objects in this process's memory, as a store: ``headrace.open(store.url)``.

    Everyone who opens its name shares it; the objects are gone when the last of them is.
    """

    def __init__(self, name: str, *, context: Context | None = None) -> None:
        self.url = f"memory://{name}"
        self._store: Any = _core.Store.open(context_or_default(context)._core, self.url)

    def put(self, key: str, value: Any) -> None:
        """Stores the bytes of anything with the buffer protocol; replaces what was there."""
        self._store.put(key, value)

    def get(self, key: str) -> bytes | None:
        """The object's bytes, or None."""
        found: bytes | None = self._store.get(key)
        return found

    def close(self) -> None:
        """Lets go of the store; what others have open stays."""
        self._store = None

    def __repr__(self) -> str:
        return f"headrace.MemoryStore({self.url!r})"


def memory_store(name: str) -> MemoryStore:
    """The store of this process's memory with that name."""
    return MemoryStore(name)


class RangeStore(Protocol):
    """What a store of one's own has to have. headrace calls it from threads of its own, several at a time.

    May also have: ``get_size(key)``, the bytes of an object; ``list(prefix)``, the names directly below a prefix, those
    of directories with a "/" at their end; ``put(key, value)``; ``url``, what messages call the store; and, read when it is
    opened, how ranges are best asked for, in bytes: ``gap_bytes`` between two that are wanted, up to which they are one
    range (16 KiB unless said); ``group_bytes`` that one range takes of several at most (1 MiB); ``window_bytes`` to be
    wanted at a time (0: as of local files).
    """

    def get_ranges(self, key: str, ranges: list[tuple[int, int]]) -> Iterable[Any]:
        """For each (offset, length) something with the buffer protocol that holds these bytes of the object: fewer than
        ``length`` only where the object ends, which for an offset behind its end is none. A negative offset counts
        from the end: (-n, n) are the last n bytes, all of them where there are fewer.

        KeyError or FileNotFoundError where there is certainly no such object; whatever else is raised is an error of
        the read.
        """


Known = str | Address | MemoryStore | RangeStore


def known(store: Any, context: Context | None, storage_options: Mapping[str, Any] | None = None) -> Known:
    """Whatever ``open`` takes for a store, as a path, a URL, or a store that is to be kept until it is open."""
    found = _known(store, context)
    options = [] if storage_options is None else flat(storage_options)
    if not options:
        return found
    if isinstance(found, Address):
        raise InvalidArgumentError("storage_options are given twice")
    if not isinstance(found, str):
        raise InvalidArgumentError(f"storage_options: a {type(found).__name__} takes none")
    return Address(found, options)


def _known(store: Any, context: Context | None) -> Known:
    if isinstance(store, str | Address | MemoryStore) or _stores.reads_ranges(store):
        return store
    if isinstance(store, bytes | os.PathLike):
        return os.fsdecode(os.fspath(store))
    url = _stores.local_url(store)
    if url is not None:
        return url
    address = _stores.remote_address(store)
    if address is not None:
        return address
    objects = _stores.objects_of(store)
    if objects is None:
        raise _stores.refuse(store)
    copy = MemoryStore(_stores.name_for_objects(), context=context)
    for key, value in objects.items():
        copy.put(key, value)
    return copy


def url_of(store: Known) -> Any:
    """What opens the store again: a path or URL as text or with options, or the caller's own store."""
    return store.url if isinstance(store, MemoryStore) else store


def open_store(store: Known, context: Context | None) -> tuple[Any, Context]:
    context = context_or_default(context)
    if _stores.reads_ranges(store):
        url = getattr(store, "url", None)
        named = url if isinstance(url, str) else f"{type(store).__module__}.{type(store).__qualname__}"
        return _core.Store.of_object(context._core, store, named), context
    try:
        if isinstance(store, Address):
            return _core.Store.open(context._core, store.url, store.options), context
        return _core.Store.open(context._core, url_of(store)), context
    except UnsupportedError as error:
        if "scheme" in str(error):
            error._advice = "; zarr-python has more stores, and headrace.zarr.enable() decodes what it fetches"
        raise
