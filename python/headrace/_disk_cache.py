"""The directory in which remote stores keep what they read: looked at, checked, emptied."""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import _core
from ._errors import InvalidArgumentError


@dataclass(frozen=True)
class DiskCacheSegment:
    """One file of the directory. Sizes are bytes."""

    name: str
    file_bytes: int
    #: ranges of objects that are kept in it
    records: int
    #: of the objects
    data_bytes: int
    #: whose checksum is wrong; 0 without ``verify``
    damaged_records: int
    #: at its end, of a process that was killed
    torn_bytes: int
    #: full, and with a list of its records
    sealed: bool
    #: a process appends to it now
    growing: bool
    #: no segment of this directory
    foreign: bool


@dataclass(frozen=True)
class DiskCacheReport:
    """What the directory holds, and what stores of this process have had of it. Sizes are bytes."""

    #: without links
    directory: str
    segments: tuple[DiskCacheSegment, ...]
    file_bytes: int
    records: int
    data_bytes: int
    damaged_records: int
    #: of the file system, for this user
    disk_free_bytes: int
    #: whether stores of this process use it now; what follows is 0 and "" where none do
    in_use: bool
    #: that the segments may have together
    most_bytes: int
    hits: int
    hit_bytes: int
    misses: int
    added_records: int
    added_bytes: int
    #: not kept: no room, or the disk was too slow
    dropped_records: int
    #: the first thing that kept something from being kept or served
    problem: str


def _directory(directory: str | os.PathLike[str] | None) -> str:
    named = os.fspath(directory) if directory is not None else os.environ.get("HEADRACE_CACHE_DIR", "")
    if not isinstance(named, str) or named in ("", "off"):
        raise InvalidArgumentError("no cache directory is named: give one, or set HEADRACE_CACHE_DIR")
    return named


def inspect_disk_cache(directory: str | os.PathLike[str] | None = None, *, verify: bool = False) -> DiskCacheReport:
    """What is in the cache of remote stores (storage option ``cache_dir``); None: the directory that HEADRACE_CACHE_DIR names.

    verify: reads all data and compares checksums, which changes nothing. May be called while stores use the directory.
    NotFoundError: there is no such directory; PermissionError: it belongs to somebody else, or others can write to it.
    """
    fields = _core.inspect_disk_cache(_directory(directory), verify)
    segments = tuple(DiskCacheSegment(**segment) for segment in fields.pop("segments"))
    return DiskCacheReport(segments=segments, **fields)


def clear_disk_cache(directory: str | os.PathLike[str] | None = None) -> int:
    """Removes all that is kept, also what stores have open: they read from their servers then. Gives the bytes freed.

    Raises as :func:`inspect_disk_cache`.
    """
    return _core.clear_disk_cache(_directory(directory))
