"""Opening whatever a store has at a path."""

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
      "https://host/path". Or a store of
      zarr-python (LocalStore, ZipStore for reading; of a MemoryStore what it holds now, copied) or a mapper of fsspec
      over local files. Or a store of the caller's own: any object with ``get_ranges``, as ``headrace.RangeStore`` says.
    path: inside the store. storage_options: who asks a remote store, and where; names of fsspec or obstore, as
      {"anon": True} or {"access_key_id": ..., "secret_access_key": ..., "endpoint": ...} (docs/guide/remote.md). They go
      before the environment, and are in no message; pickles of what is opened have them.
    consolidated: take what lies below a group from its consolidated metadata, where it has any.
    lenient: habits of writers to let pass, by name, or "all". index_directory: saved decode indices of an array.
    revalidate: arrays look at each read whether shards they keep open are still the ones in the store, for stores whose
        shards are replaced meanwhile. Shards rewritten in place are noticed either way.
    device: where reads of it go by default: "host" (the default), "cuda", "cuda:1", "auto". It must be there.

    Raises NotFoundError, CorruptError, UnsupportedError, ...
    """
    store = known(store, context, storage_options)
    opened, context = open_store(store, context)
    with naming_store(opened.url):
        core = _core.open(opened, path, lenient, consolidated, index_directory, revalidate)
    if isinstance(core, _core.Array):
        reopen = ("array", url_of(store), lenient, index_directory, revalidate)
        return Array(core, opened, path.strip("/"), context, reopen, usable_device(device))
    return Group(core, opened, context, (url_of(store), lenient, consolidated), usable_device(device))
