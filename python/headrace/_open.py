"""Opens the array or group at a path of a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _core
from ._array import Array
from ._context import Context, usable_device
from ._errors import naming_store
from ._group import Group
from ._sources import known, open_store, url_of


def open(store: Any, path: str = "", *, storage_options: Mapping[str, Any] | None = None, context: Context | None = None,  # noqa: A001
         consolidated: bool = True, lenient: str = "", index_directory: str = "",
         revalidate: bool = False, device: str | None = None) -> Array | Group:
    """Opens an array or a group.

    store: a path; "file:///path"; a path through a ZIP file; "memory://name"; "reference:///refs.json"; "s3://bucket/path";
        "https://host/path"; "s3://bucket/x.zip"; "reference://s3://bucket/refs.json". Or a store of zarr-python (LocalStore, read-only ZipStore, or MemoryStore, whose current content is
        copied), or an fsspec mapper over local files. Or your own store: any object with ``get_ranges``, see ``headrace.RangeStore``.
    path: inside the store.
    storage_options: credentials and endpoint of a remote store, under the names of fsspec or obstore, such as {"anon": True} or
        {"access_key_id": ..., "secret_access_key": ..., "endpoint": ...} (docs/guide/remote.md). They override the environment and
        never appear in messages; pickles of what is opened contain them.
    consolidated: use a group's consolidated metadata, if it has any, for the nodes below it.
    lenient: spec violations to accept, by name, or "all". index_directory: saved decode indices of an array.
    revalidate: check on each read that open shards are still the ones in the store, for stores whose shards are replaced while
        open. Shards rewritten in place are always detected.
    device: default device of reads: "host" (the default), "cuda", "cuda:1", "auto". It must exist.

    Raises NotFoundError, CorruptError, UnsupportedError and other HeadraceErrors.
    """
    store = known(store, context, storage_options)
    opened, context = open_store(store, context)
    with naming_store(opened.url):
        core = _core.open(opened, path, lenient, consolidated, index_directory, revalidate)
    if isinstance(core, _core.Array):
        reopen = ("array", url_of(store), lenient, index_directory, revalidate)
        return Array(core, opened, path.strip("/"), context, reopen, usable_device(device))
    return Group(core, opened, context, (url_of(store), lenient, consolidated), usable_device(device))
