"""Inspects, verifies and clears the directory in which remote stores cache what they read."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import _core
from ._errors import InvalidArgumentError


@dataclass(frozen=True)
class DiskCacheSegment:
    """One file of the cache directory. Sizes are in bytes."""

    name: str
    file_bytes: int
    #: number of cached object ranges
    records: int
    #: bytes of object data
    data_bytes: int
    #: records whose checksum is wrong; 0 without ``verify``
    damaged_records: int
    #: incomplete bytes at the end, left by a killed process
    torn_bytes: int
    #: full, with an index of its records
    sealed: bool
    #: a process is appending to it
    growing: bool
    #: not a segment of this directory
    foreign: bool


@dataclass(frozen=True)
class DiskCacheReport:
    """Contents of the cache directory, and its use by the stores of this process. Sizes are in bytes."""

    #: with symbolic links resolved
    directory: str
    segments: tuple[DiskCacheSegment, ...]
    file_bytes: int
    records: int
    data_bytes: int
    damaged_records: int
    #: free space of the file system for this user
    disk_free_bytes: int
    #: whether stores of this process use it; if none do, the fields below are 0 and ""
    in_use: bool
    #: limit for all segments together
    most_bytes: int
    hits: int
    hit_bytes: int
    misses: int
    added_records: int
    added_bytes: int
    #: records that were not cached: no room, or the disk was too slow
    dropped_records: int
    #: the first error that prevented caching or serving a record
    problem: str


def _directory(directory: str | os.PathLike[str] | None) -> str:
    named = os.fspath(directory) if directory is not None else os.environ.get("HEADRACE_CACHE_DIR", "")
    if not isinstance(named, str) or named in ("", "off"):
        raise InvalidArgumentError("no cache directory is named: give one, or set HEADRACE_CACHE_DIR")
    return named


def inspect_disk_cache(directory: str | os.PathLike[str] | None = None, *, verify: bool = False) -> DiskCacheReport:
    """What the disk cache of remote stores holds (storage option ``cache_dir``). None: the directory in
    HEADRACE_CACHE_DIR.

    verify: reads all data and compares checksums; changes nothing. Safe while stores use the directory.
    Raises NotFoundError if the directory does not exist, PermissionError if another user owns it or may write to it.
    """
    fields = _core.inspect_disk_cache(_directory(directory), verify)
    segments = tuple(DiskCacheSegment(**segment) for segment in fields.pop("segments"))
    return DiskCacheReport(segments=segments, **fields)


def clear_disk_cache(directory: str | os.PathLike[str] | None = None) -> int:
    """Removes everything, also segments that stores have open: they then read from their servers. Returns the bytes
    freed.

    Raises the same errors as :func:`inspect_disk_cache`.
    """
    return _core.clear_disk_cache(_directory(directory))
