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
    """A named store of objects in this process's memory: ``headrace.open(store.url)``.

    All users of a name share the objects, which are freed when the last user releases the store.
    """

    def __init__(self, name: str, *, context: Context | None = None) -> None:
        self.url = f"memory://{name}"
        self._store: Any = _core.Store.open(context_or_default(context)._core, self.url)

    def put(self, key: str, value: Any) -> None:
        """Stores the bytes of an object with the buffer protocol, replacing an existing value."""
        self._store.put(key, value)

    def get(self, key: str) -> bytes | None:
        """The object's bytes, or None."""
        found: bytes | None = self._store.get(key)
        return found

    def close(self) -> None:
        """Releases the store; other users keep theirs."""
        self._store = None

    def __repr__(self) -> str:
        return f"headrace.MemoryStore({self.url!r})"


def memory_store(name: str) -> MemoryStore:
    """The in-memory store of this process with that name."""
    return MemoryStore(name)


class RangeStore(Protocol):
    """The interface of a custom store. headrace calls it from its own threads, several at a time.

    Optional members: ``get_size(key)``, the size of an object in bytes; ``list(prefix)``, the names directly below a
    prefix, directories with a trailing "/"; ``put(key, value)``; ``url``, the store's name in messages. Read once when
    the store is opened, in bytes: ``gap_bytes``, ranges at most this far apart are merged (default 16 KiB);
    ``group_bytes``, limit of a merged range (default 1 MiB); ``window_bytes``, amount to keep requested at a time (0:
    as for local files).
    """

    def get_ranges(self, key: str, ranges: list[tuple[int, int]]) -> Iterable[Any]:
        """Returns, for each (offset, length), an object with the buffer protocol that holds those bytes of the object.
        It is shorter than ``length`` only if the object ends there, and empty for an offset past the end. A negative
        offset counts from the end: (-n, n) is the last n bytes, or the whole object if it is shorter.

        Raise KeyError or FileNotFoundError only if the object certainly does not exist. Any other exception is an error
        of the read.
        """


Known = str | Address | MemoryStore | RangeStore


def known(store: Any, context: Context | None, storage_options: Mapping[str, Any] | None = None) -> Known:
    """Converts anything that ``open`` accepts as a store to a path, a URL, or a store that must be kept alive until it
    is open.
    """
    found = _known(store, context)
    options = [] if storage_options is None else flat(storage_options)
    if not options:
        return found
    if isinstance(found, Address):
        raise InvalidArgumentError("storage_options are given twice")
    if not isinstance(found, str):
        raise InvalidArgumentError(f"storage_options: a {type(found).__name__} does not accept them")
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
    """What reopens the store: a path or URL (with options if there are any), or the caller's own store object."""
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
