"""Where arrays and groups are opened from: paths, URLs, and stores in memory."""

from __future__ import annotations

import os
from typing import Any

from . import _core, _stores
from ._context import Context, context_or_default
from ._errors import UnsupportedError


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


def known(store: Any, context: Context | None) -> str | MemoryStore:
    """Whatever ``open`` takes for a store, as a path, a URL, or a store in memory that is to be kept until it is open."""
    if isinstance(store, str | MemoryStore):
        return store
    if isinstance(store, bytes | os.PathLike):
        return os.fsdecode(os.fspath(store))
    url = _stores.local_url(store)
    if url is not None:
        return url
    objects = _stores.objects_of(store)
    if objects is None:
        raise _stores.refuse(store)
    copy = MemoryStore(_stores.name_for_objects(), context=context)
    for key, value in objects.items():
        copy.put(key, value)
    return copy


def url_of(store: str | MemoryStore) -> str:
    """A path or URL as text."""
    return store.url if isinstance(store, MemoryStore) else store


def open_store(store: str | MemoryStore, context: Context | None) -> tuple[Any, Context]:
    context = context_or_default(context)
    try:
        return _core.Store.open(context._core, url_of(store)), context
    except UnsupportedError as error:
        if "scheme" in str(error):
            error._advice = "; zarr-python has more stores, and headrace.zarr.enable() decodes what it fetches"
        raise
