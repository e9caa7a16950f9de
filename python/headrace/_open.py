"""Opening stores."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _core, _stores
from ._array import Array
from ._context import Context, context_or_default, device_of
from ._errors import InvalidArgumentError, UnsupportedError, naming_store
from ._group import Group


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


def _usable_device(device: str | None) -> str | None:
    """`device`, which is there: said now and not at the first read."""
    if device is not None:
        device_of(device)
    return device


def open_array(store: Any, path: str = "", *, context: Context | None = None, lenient: str = "", index_directory: str = "",
               revalidate: bool = False, device: str | None = None) -> Array:
    """The array at `path`; InvalidArgumentError where a group is."""
    store = known(store, context)
    opened, context = open_store(store, context)
    with naming_store(opened.url):
        core = _core.Array.open(opened, path, lenient, index_directory, revalidate)
    reopen = ("array", url_of(store), lenient, index_directory, revalidate)
    return Array(core, opened, path.strip("/"), context, reopen, _usable_device(device))


def open_group(store: Any, path: str = "", *, context: Context | None = None, lenient: str = "", consolidated: bool = True,
               device: str | None = None) -> Group:
    """The group at `path`; InvalidArgumentError where an array is."""
    store = known(store, context)
    opened, context = open_store(store, context)
    with naming_store(opened.url):
        core = _core.Group.open(opened, path, lenient, consolidated)
    return Group(core, opened, context, (url_of(store), lenient, consolidated), _usable_device(device))


def open(store: Any, path: str = "", *, storage_options: Mapping[str, Any] | None = None, context: Context | None = None,  # noqa: A001
         consolidated: bool = True, lenient: str = "", index_directory: str = "",
         revalidate: bool = False, device: str | None = None) -> Array | Group:
    """Opens an array or a group.

    store: a path; "file:///path"; a path through a ZIP file; "memory://name"; "reference:///refs.json". Or a store of
      zarr-python (LocalStore, ZipStore for reading; of a MemoryStore what it holds now, copied) or a mapper of fsspec
      over local files.
    path: inside the store. storage_options: of remote stores; local ones have none.
    consolidated: take what lies below a group from its consolidated metadata, where it has any.
    lenient: habits of writers to let pass, by name, or "all". index_directory: saved decode indices of an array.
    revalidate: arrays look at each read whether shards they keep open are still the ones in the store, for stores whose
        shards are replaced meanwhile. Shards rewritten in place are noticed either way.
    device: where reads of it go by default: "host" (the default), "cuda", "cuda:1", "auto". It must be there.

    Raises NotFoundError, CorruptError, UnsupportedError, ...
    """
    store = known(store, context)
    if storage_options:
        open_store(store, context)  # what cannot be opened at all has a better reason
        raise InvalidArgumentError(f"storage_options {sorted(storage_options)}: this store is local and takes none")
    try:
        return open_array(store, path, context=context, lenient=lenient, index_directory=index_directory,
                          revalidate=revalidate, device=device)
    except InvalidArgumentError as error:
        if "group" not in str(error):
            raise
    return open_group(store, path, context=context, lenient=lenient, consolidated=consolidated, device=device)
