"""Stores of other libraries, as what headrace opens itself: known where their module is loaded, so that none is imported."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

from ._errors import InvalidArgumentError

_numbers = itertools.count()
_INSTEAD = "give the path or URL of what it reads; or let zarr-python fetch the objects, and headrace.zarr.enable() decode them"


def _is(store: Any, module: str, name: str) -> bool:
    """Exact types only: a class derived from one of another library's may do something else."""
    return type(store) is getattr(sys.modules.get(module), name, None)


def local_url(store: Any) -> str | None:
    """The path of a store of zarr-python or mapper of fsspec whose objects are local files; None for any other.

    InvalidArgumentError: a ZIP file that is still written to.
    """
    if _is(store, "zarr.storage", "LocalStore") or getattr(type(store), "_headrace_local", False):
        return os.path.abspath(store.root)
    if _is(store, "zarr.storage", "ZipStore"):
        if not store.read_only or getattr(store, "_zmode", "r") != "r":
            raise InvalidArgumentError(f"the ZipStore of {store.path} is open for writing, and the file is whole once it is "
                                       "closed: close it, and give its path or a ZipStore with mode='r'")
        return "zip://" + os.path.abspath(store.path)
    if _is(store, "zarr.storage", "FsspecStore"):
        return _below(store.fs, store.path)
    if _is(store, "fsspec.mapping", "FSMap"):
        return _below(store.fs, store.root)
    return None


def _below(files: Any, path: str) -> str | None:
    """`path` on a file system of fsspec."""
    if _is(files, "fsspec.implementations.asyn_wrapper", "AsyncFileSystemWrapper"):
        files = files.sync_fs
    if not _is(files, "fsspec.implementations.local", "LocalFileSystem"):
        return None
    return os.path.abspath(files._strip_protocol(path))


def reads_ranges(store: Any) -> bool:
    """Whether it is a store of the caller's own: an object with ``get_ranges``, which other libraries' have with other arguments."""
    kind = type(store)
    others = any(base.__module__.partition(".")[0] in ("zarr", "fsspec", "obstore") for base in kind.__mro__)
    return callable(getattr(kind, "get_ranges", None)) and not others


def objects_of(store: Any) -> dict[str, Any] | None:
    """What zarr-python's MemoryStore holds, by key; None for any other store."""
    if not _is(store, "zarr.storage", "MemoryStore"):
        return None
    return {key: value.as_numpy_array() for key, value in list(store._store_dict.items())}


def name_for_objects() -> str:
    """Of a store that nobody else has."""
    return f"zarr-memory-{os.getpid()}-{next(_numbers)}"


def refuse(store: Any) -> InvalidArgumentError:
    """What is said of a store that is none of these."""
    kind = type(store)
    if kind.__module__.partition(".")[0] in ("zarr", "fsspec"):
        files = getattr(store, "fs", None)
        over = f" over {type(files).__name__}" if files is not None else ""
        return InvalidArgumentError(f"a {kind.__name__}{over} holds no local files: {_INSTEAD}")
    return InvalidArgumentError(f"a store is a path or a URL, a store of zarr-python or mapper of fsspec over local files, or an "
                                f"object with get_ranges(key, ranges), not a {kind.__name__}")
