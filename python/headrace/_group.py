"""Group: a node of the Zarr hierarchy that contains arrays and groups."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _core, _dtypes
from ._array import Array
from ._context import Context, usable_device
from ._errors import NotFoundError, UnsupportedError, naming_store
from ._sources import known, open_store, url_of


class Member(NamedTuple):
    """A node below a group, as listings describe it."""

    path: str  # relative to the store
    name: str  # path relative to the group
    is_array: bool
    zarr_format: int
    shape: tuple[int, ...]  # for arrays
    dtype: np.dtype[Any] | None
    error: str  # what is wrong with the metadata; "" if it is valid


class Group:
    """A Zarr group, opened for reading: a mapping of names to arrays and groups. Created by ``headrace.open``."""

    def __init__(self, core: Any, store: Any, context: Context, reopen: tuple[Any, ...], device: str | None,
                 consolidated: tuple[dict[str, Any], str] | None = None) -> None:
        self._core = core
        self._store = store
        self._context = context
        self._reopen = reopen
        self.device = device
        # The consolidated documents, and this group's path prefix in them.
        self._documents = consolidated
        if consolidated is None and core.consolidated:
            self._documents = (self._read_consolidated(), "")

    @property
    def path(self) -> str:
        """Path in the store, "" for its root."""
        return self._core.path

    @property
    def zarr_format(self) -> int:
        return self._core.zarr_format

    @property
    def consolidated(self) -> bool:
        """Whether the nodes below come from consolidated metadata instead of the store."""
        return self._core.consolidated

    @property
    def attrs(self) -> dict[str, Any]:
        """The user's attributes; each access returns a new copy."""
        attributes: dict[str, Any] = json.loads(self._core.attributes)
        return attributes

    @property
    def url(self) -> str:
        """The URL of the store, without credentials, so safe to print."""
        return self._store.url

    def _name(self, path: str) -> str:
        return path[len(self.path) + 1:] if self.path else path

    def _listed(self, members: Any) -> list[Member]:
        out = []
        for member in members:
            dtype = None
            error = member.error
            if member.is_array and not error:
                try:
                    dtype = _dtypes.to_numpy(member.dtype)
                except ImportError as missing:
                    error = str(missing)
            out.append(Member(member.path, self._name(member.path), member.is_array, member.zarr_format, member.shape, dtype,
                              error))
        return out

    def members(self) -> list[Member]:
        """All nodes below this group, parents before their children."""
        with naming_store(self.url):
            return self._listed(self._core.members())

    def children(self) -> list[Member]:
        """The direct children."""
        with naming_store(self.url):
            return self._listed(self._core.children())

    def __getitem__(self, name: str) -> Array | Group:
        if not isinstance(name, str):
            raise TypeError(f"groups are indexed by names, not by {type(name).__name__}; open an array to read from it")
        try:
            return self._array(name)
        except NotFoundError:
            raise
        except Exception as error:
            if getattr(error, "code", None) != "invalid argument":
                raise
        return self._group(name)

    def _array(self, name: str) -> Array:
        path = f"{self.path}/{name.strip('/')}" if self.path else name.strip("/")
        with naming_store(self.url):
            core = self._core.array(name)
        return Array(core, self._store, path, self._context, ("array", self._reopen[0], self._reopen[1], "", False), self.device)

    def _group(self, name: str) -> Group:
        below = None
        if self._documents is not None:
            documents, prefix = self._documents
            below = (documents, f"{prefix}{name.strip('/')}/")
        with naming_store(self.url):
            core = self._core.group(name)
        return Group(core, self._store, self._context, self._reopen, self.device, below)

    def __contains__(self, name: object) -> bool:
        try:
            self[name]  # type: ignore[index]
        except NotFoundError:
            return False
        except UnsupportedError:
            return True
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def keys(self) -> list[str]:
        """Names of the direct children."""
        return [member.name for member in self.children()]

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """The arrays that are direct children, as (name, array)."""
        for member in self.children():
            if member.is_array:
                yield member.name, self._array(member.name)

    def groups(self) -> Iterator[tuple[str, Group]]:
        """The groups that are direct children, as (name, group)."""
        for member in self.children():
            if not member.is_array:
                yield member.name, self._group(member.name)

    # Metadata documents as stored, including those of unreadable arrays.

    def _read_consolidated(self) -> dict[str, Any]:
        below = f"{self.path}/" if self.path else ""
        if self.zarr_format == 3:
            document = json.loads(self._store.get(f"{below}zarr.json") or b"{}")
            return dict((document.get("consolidated_metadata") or {}).get("metadata") or {})
        return dict(json.loads(self._store.get(f"{below}.zmetadata") or b"{}").get("metadata") or {})

    def _document(self, name: str, file: str) -> dict[str, Any] | None:
        name = name.strip("/")
        if self._documents is not None:
            documents, prefix = self._documents
            found = documents.get(f"{prefix}{name}" if self.zarr_format == 3 else f"{prefix}{name}/{file}")
            return None if found is None else dict(found)
        path = f"{self.path}/{name}" if self.path else name
        stored = self._store.get(f"{path}/{file}")
        return None if stored is None else dict(json.loads(stored))

    def metadata(self, name: str) -> dict[str, Any]:
        """The metadata document of the array `name`: its zarr.json or .zarray. Raises NotFoundError."""
        found = self._document(name, "zarr.json" if self.zarr_format == 3 else ".zarray")
        if found is None:
            raise NotFoundError(f"no metadata of an array '{name}' in {self.url}/{self.path}")
        return found

    def attributes(self, name: str) -> dict[str, Any]:
        """The attributes of the array or group `name`, as stored."""
        if self.zarr_format == 3:
            return dict((self._document(name, "zarr.json") or {}).get("attributes") or {})
        return self._document(name, ".zattrs") or {}

    def __repr__(self) -> str:
        return f"headrace.Group({self.url!r}" + (f", path={self.path!r}" if self.path else "") + f", {len(self)} members)"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td style='text-align:left'>{html.escape(member.name)}</td><td>"
                       f"{html.escape(str(member.shape)) if member.is_array else 'group'}</td><td>"
                       f"{html.escape(str(member.dtype or member.error or ''))}</td></tr>" for member in self.children())
        attributes = html.escape(json.dumps(self.attrs, indent=1))
        return (f"<details open><summary><b>headrace.Group</b> {html.escape(self.url)}/{html.escape(self.path)}</summary>"
                f"<table>{rows}</table><details><summary>Attributes</summary><pre>{attributes}</pre></details></details>")

    def __reduce__(self) -> Any:
        return _reopen_group, (*self._reopen, self.path, self._context, self.device)


def _reopen_group(url: str, lenient: str, consolidated: bool, path: str, context: Context, device: str | None) -> Group:
    """Called by unpickling."""
    return open_group(url, path, context=context, lenient=lenient, consolidated=consolidated, device=device)


def open_group(store: Any, path: str = "", *, storage_options: Mapping[str, Any] | None = None, context: Context | None = None,
               lenient: str = "", consolidated: bool = True, device: str | None = None) -> Group:
    """Opens the group at `path`. Raises InvalidArgumentError if it is an array."""
    store = known(store, context, storage_options)
    opened, context = open_store(store, context)
    with naming_store(opened.url):
        core = _core.Group.open(opened, path, lenient, consolidated)
    return Group(core, opened, context, (url_of(store), lenient, consolidated), usable_device(device))
