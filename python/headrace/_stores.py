"""Recognises stores of other libraries that headrace can open itself. Looks only at loaded modules, so nothing is imported."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

from ._errors import InvalidArgumentError
from ._storage import Address, flat

_numbers = itertools.count()
_INSTEAD = "give the path or URL of what it reads; or let zarr-python fetch the objects, and headrace.zarr.enable() decode them"


def _is(store: Any, module: str, name: str) -> bool:
    """Whether `store` has exactly this type: a derived class may behave differently."""
    return type(store) is getattr(sys.modules.get(module), name, None)


def local_url(store: Any) -> str | None:
    """The path of a zarr-python store or fsspec mapper whose objects are local files; None for any other store.

    Raises InvalidArgumentError for a ZIP file that is open for writing.
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
    """The local path of `path` in an fsspec file system; None if it is not local."""
    if _is(files, "fsspec.implementations.asyn_wrapper", "AsyncFileSystemWrapper"):
        files = files.sync_fs
    if not _is(files, "fsspec.implementations.local", "LocalFileSystem"):
        return None
    return os.path.abspath(files._strip_protocol(path))


def remote_address(store: Any) -> Address | None:
    """The URL and options of a zarr-python store or fsspec mapper that headrace can access itself; None if they are unknown.
    Opening the address may still fail, if headrace does not support an option.
    """
    try:
        if _is(store, "zarr.storage", "FsspecStore"):
            return _address_of_files(store.fs, store.path)
        if _is(store, "fsspec.mapping", "FSMap"):
            return _address_of_files(store.fs, store.root)
        if _is(store, "zarr.storage", "ObjectStore"):
            return _address_of_objects(store.store)
    except (AttributeError, TypeError, ValueError, InvalidArgumentError):
        pass  # an unknown release of the library, or options that are not text
    return None


def _address_of_files(files: Any, path: str) -> Address | None:
    """The address of `path` in an fsspec file system."""
    if files.storage_args:
        return None
    if _is(files, "s3fs.core", "S3FileSystem"):
        url = "s3://" + path
    elif _is(files, "gcsfs.core", "GCSFileSystem"):
        url = "gs://" + path
    elif _is(files, "fsspec.implementations.http", "HTTPFileSystem"):
        url = path
    else:
        return None
    return None if "?" in url else Address(url, flat(files.storage_options))


def _address_of_objects(store: Any) -> Address | None:
    """The address of an obstore store."""
    options: dict[str, Any] = {"client_options": dict(store.client_options or {})}
    headers = options["client_options"].pop("default_headers", None)
    if headers:
        options["headers"] = {name: value.decode("latin-1") if isinstance(value, bytes) else value for name, value in headers.items()}
    # The timing of retries is left to headrace; only their number is taken over.
    options["retries"] = (store.retry_config or {}).get("max_retries")
    if _is(store, "obstore.store", "HTTPStore"):
        url = store.url
        return None if "?" in url else Address(url, flat(options))
    kinds = {"S3Store": ("s3", "bucket"), "GCSStore": ("gs", "bucket"), "AzureStore": ("az", "container_name")}
    for kind, (scheme, bucket) in kinds.items():
        if _is(store, "obstore.store", kind) and store.credential_provider is None:
            config = dict(store.config)
            url = f"{scheme}://{config.pop(bucket)}/{store.prefix or ''}"
            return None if "?" in url else Address(url.rstrip("/"), flat({**options, **config}))
    return None


def reads_ranges(store: Any) -> bool:
    """Whether it is the caller's own store: an object with ``get_ranges``. Other libraries' method of that name takes other arguments."""
    kind = type(store)
    others = any(base.__module__.partition(".")[0] in ("zarr", "fsspec", "obstore") for base in kind.__mro__)
    return callable(getattr(kind, "get_ranges", None)) and not others


def objects_of(store: Any) -> dict[str, Any] | None:
    """The content of a zarr-python MemoryStore, by key; None for any other store."""
    if not _is(store, "zarr.storage", "MemoryStore"):
        return None
    return {key: value.as_numpy_array() for key, value in list(store._store_dict.items())}


def name_for_objects() -> str:
    """A name for a store that nothing else uses."""
    return f"zarr-memory-{os.getpid()}-{next(_numbers)}"


def refuse(store: Any) -> InvalidArgumentError:
    """The error for an unsupported store."""
    kind = type(store)
    if kind.__module__.partition(".")[0] in ("zarr", "fsspec"):
        files = getattr(store, "fs", None)
        over = f" over {type(files).__name__}" if files is not None else ""
        return InvalidArgumentError(f"a {kind.__name__}{over} holds no local files: {_INSTEAD}")
    return InvalidArgumentError(f"a store is a path or a URL, a store of zarr-python or mapper of fsspec over local files, or an "
                                f"object with get_ranges(key, ranges), not a {kind.__name__}")
