"""Groups and arrays of a store, described in xarray's terms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import headrace

DIMENSIONS_ATTRIBUTE = "_ARRAY_DIMENSIONS"
NAME_OF_NONE = "__values__"  # how xarray stores a variable called None

# Chunk sizes along one dimension: one number if all are equal, otherwise a tuple of all sizes.
Grid = tuple[int | tuple[int, ...], ...]


@dataclass(frozen=True)
class Location:
    """A store, and the options to open it with.

    Attributes:
        url: As :func:`headrace.open` takes it.
        storage_options: Its options for remote stores.
        lenient: Spec violations to accept, by name.
    """

    url: str
    storage_options: dict[str, Any] | None = field(default=None, repr=False)
    lenient: str = ""

    def open(self, path: str, *, consolidated: bool = True) -> headrace.Array | headrace.Group:
        return headrace.open(
            self.url, path, storage_options=self.storage_options, lenient=self.lenient, consolidated=consolidated
        )


@dataclass(frozen=True)
class Unopened:
    """An array that headrace cannot read; only its metadata is known.

    Attributes:
        store: The store that contains it.
        path: Its path there.
        shape: Shape of the array.
    """

    store: Location
    path: str
    shape: tuple[int, ...]

    @property
    def url(self) -> str:
        return self.store.url

    def open(self) -> headrace.Array:
        """Tries to open the array.

        Raises:
            headrace.HeadraceError: Why it cannot be read: usually a codec or a data type.
        """
        opened = self.store.open(self.path)
        if isinstance(opened, headrace.Array):
            return opened
        raise headrace.NotFoundError(f"{self.path!r} of {self.url!r} is not an array any more")


@dataclass(frozen=True)
class ArrayNode:
    """An array in a group.

    Attributes:
        name: Its name in the group.
        dtype: Type of its elements as xarray sees them; object if headrace does not know the type.
        grid: Chunk sizes, per dimension.
        shards: Shard sizes, per dimension; None if the array is not sharded.
        fill_value: A NumPy scalar, or a str; None if there is none.
        attrs: Attributes, except those that hold dimension names.
        dims: Names of the dimensions.
        metadata: The metadata document; None if unknown.
        source: The object that reads the array.
    """

    name: str
    zarr_format: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    grid: Grid
    shards: Grid | None
    fill_value: Any
    attrs: dict[str, Any]
    dims: tuple[Any, ...]
    metadata: Mapping[str, Any] | None
    source: headrace.Array | Unopened

    @property
    def key(self) -> str | None:
        """The variable's name in the dataset."""
        return None if self.name == NAME_OF_NONE else self.name


def string_dtype() -> np.dtype[Any]:
    """The type of variable-length strings in zarr-python: NumPy's StringDType if NumPy has it."""
    if hasattr(np.dtypes, "StringDType"):
        return np.dtype(np.dtypes.StringDType())
    from xarray.coding import strings

    create_vlen_dtype: Any = strings.create_vlen_dtype
    dtype: np.dtype[Any] = create_vlen_dtype(str)
    return dtype


def open_group(store: Location, path: str, *, consolidated: bool | None, zarr_format: int | None) -> headrace.Group:
    """Opens the group at `path` in `store` through the root's consolidated metadata, unless `consolidated` is False.

    Raises:
        headrace.NotFoundError: The group does not exist; also a KeyError and a FileNotFoundError.
        ValueError: `consolidated` is True and the root has no consolidated metadata, or the node is an array.
    """
    if consolidated is False:
        found = _open(store, path, consolidated=False)
    else:
        root = _open_root(store, path, required=consolidated is True)
        if root is None:
            found = _open(store, path, consolidated=True)
        else:
            found = _below(root, path, store.url) if path else root
    where = f"{path!r} in {store.url!r}" if path else repr(store.url)
    if not isinstance(found, headrace.Group):
        raise ValueError(f"{where} is an array, and a dataset is a group of arrays: open the group that holds it")
    if zarr_format is not None and found.zarr_format != zarr_format:
        raise headrace.NotFoundError(f"the group {where} is in Zarr v{found.zarr_format}, not v{zarr_format}")
    return found


def _open_root(store: Location, path: str, *, required: bool) -> headrace.Group | headrace.Array | None:
    """The root of the store; None if the root is no group, but `path` may still be one."""
    try:
        root = _open(store, "", consolidated=True)
    except headrace.NotFoundError:
        if required or not path:
            raise
        return None
    if required and not (isinstance(root, headrace.Group) and root.consolidated):
        raise ValueError(f"consolidated=True needs consolidated metadata, but {store.url!r} has none")
    return root


def _open(store: Location, path: str, *, consolidated: bool) -> headrace.Group | headrace.Array:
    try:
        return store.open(path, consolidated=consolidated)
    except headrace.NotFoundError as error:
        where = f"no Zarr group {path!r} in {store.url!r}" if path else f"no Zarr group at {store.url!r}"
        raise headrace.NotFoundError(f"No such file or directory: {where}") from error


def _below(root: headrace.Group | headrace.Array, path: str, url: str) -> headrace.Group | headrace.Array:
    if not isinstance(root, headrace.Group):
        raise ValueError(f"{url!r} is an array and has no members")
    try:
        return root[path]
    except headrace.NotFoundError as error:
        source = "its consolidated metadata, which may be out of date (consolidated=False looks into the store)"
        there = source if root.consolidated else "the store"
        raise headrace.NotFoundError(f"no group {path!r} in {url!r} according to {there}") from error


def attributes_of(group: headrace.Group) -> dict[str, Any]:
    """The attributes of `group` as stored: in order, including numbers that are not valid JSON."""
    documents, prefix = group._documents or ({}, "")
    if prefix:  # a group below a root with consolidated metadata
        if group.zarr_format == 3:
            return dict(documents.get(prefix.rstrip("/"), {}).get("attributes") or {})
        return dict(documents.get(f"{prefix}.zattrs") or {})
    below = f"{group.path}/" if group.path else ""
    stored = group._store.get(f"{below}zarr.json" if group.zarr_format == 3 else f"{below}.zattrs")
    document = json.loads(stored or b"{}")
    return dict(document.get("attributes") or {}) if group.zarr_format == 3 else dict(document)


def child_groups(group: headrace.Group) -> Iterator[tuple[str, headrace.Group]]:
    """Yields `group` and all groups below it, parents first. Paths are relative to `group`, "" for itself."""
    yield "", group
    prefix = f"{group.path}/" if group.path else ""
    for member in group.members():
        if not member.is_array:
            path = member.path.removeprefix(prefix)
            child = group[path]
            if isinstance(child, headrace.Group):
                yield path, child


def child_arrays(
    group: headrace.Group, store: Location, dropped: frozenset[str] = frozenset()
) -> Iterator[ArrayNode]:
    """Yields the arrays in `group`, by name.

    Includes arrays that headrace cannot read; reading them fails. An array in `dropped` is skipped if not even its
    shape and dimensions can be determined.

    Raises:
        KeyError: An array does not name its dimensions.
        headrace.HeadraceError: Invalid metadata.
    """
    for member in group.children():
        if not member.is_array:
            continue
        name = member.path.rpartition("/")[2]
        try:
            yield _node(group, name, member.path, store)
        except (KeyError, headrace.HeadraceError):
            if name not in dropped:
                raise


def _node(group: headrace.Group, name: str, path: str, store: Location) -> ArrayNode:
    metadata, attributes = group.metadata(name), group.attributes(name)
    try:
        array = group[name]
    except headrace.UnsupportedError:
        return _unreadable(name, metadata, attributes, Unopened(store, path, tuple(metadata["shape"])))
    assert isinstance(array, headrace.Array)
    dims, attrs = _dims_and_attrs(name, array.zarr_format, tuple(array.shape), array.dims, attributes, metadata)
    dtype = np.dtype(array.dtype)
    if dtype.kind in "OT" and _is_text(metadata):
        dtype = string_dtype()
    elif array.zarr_format == 2 and dtype.kind in "iufc" and str(metadata.get("dtype", "")).startswith(">"):
        dtype = dtype.newbyteorder(">")  # xarray records the stored byte order in the encoding; reads return native numbers
    shape = tuple(array.shape)
    inner = _chunks_in_shards(metadata)
    stored = _grid(metadata, shape, tuple(array.shards or array.chunks))
    grid, shards = (stored, None) if inner is None else (inner, stored)
    return ArrayNode(
        name,
        array.zarr_format,
        shape,
        dtype,
        grid,
        shards,
        array.fill_value,
        attrs,
        dims,
        metadata,
        array,
    )


def _unreadable(
    name: str, metadata: Mapping[str, Any], attributes: Mapping[str, Any], source: Unopened
) -> ArrayNode:
    """Describes an array that cannot be opened, from its metadata."""
    zarr_format = int(metadata["zarr_format"])
    shape = source.shape
    names = metadata.get("dimension_names")
    dims, attrs = _dims_and_attrs(name, zarr_format, shape, names, attributes, metadata)
    stored = metadata["dtype"] if zarr_format == 2 else metadata["data_type"]
    try:
        dtype = np.dtype(stored) if isinstance(stored, str) else np.dtype(object)
    except TypeError:
        dtype = np.dtype(object)
    if zarr_format == 2:
        chunks = tuple(int(size) for size in metadata["chunks"])
    else:
        chunks = tuple(metadata["chunk_grid"].get("configuration", {}).get("chunk_shape", shape))
    inner, stored_grid = _chunks_in_shards(metadata), _grid(metadata, shape, chunks)
    grid, shards = (stored_grid, None) if inner is None else (inner, stored_grid)
    return ArrayNode(name, zarr_format, shape, dtype, grid, shards, None, attrs, dims, metadata, source)


def _dims_and_attrs(
    name: str,
    zarr_format: int,
    shape: tuple[int, ...],
    names: Any,
    attributes: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if zarr_format == 3:
        dims = tuple(names or ())
        if len(dims) != len(shape):
            raise KeyError(
                f"array {name!r} is missing the `dimension_names` metadata which is required for xarray to determine "
                "variable dimensions."
            )
        return dims, dict(attributes)
    found = attributes.get(DIMENSIONS_ATTRIBUTE)
    if found is None:
        # NCZarr stores dimension names together with the shape, as full paths.
        references = metadata.get("_NCZARR_ARRAY", {}).get("dimrefs")
        if references is None:
            raise KeyError(
                f"array {name!r} is missing the attribute `{DIMENSIONS_ATTRIBUTE}` and the NCZarr metadata, which are "
                "required for xarray to determine variable dimensions."
            )
        found = [str(reference).rpartition("/")[2] for reference in references]
    if len(found) != len(shape):
        raise KeyError(f"array {name!r} has {len(shape)} dimensions, and `{DIMENSIONS_ATTRIBUTE}` names {found!r}.")
    hidden = {key for key in attributes if key == DIMENSIONS_ATTRIBUTE or key.lower().startswith("_nc")}
    return tuple(found), {key: value for key, value in attributes.items() if key not in hidden}


def _is_text(metadata: Mapping[str, Any]) -> bool:
    """Whether elements are variable-length strings, rather than bytes or other objects."""
    if metadata.get("zarr_format") == 3:
        return bool(metadata.get("data_type") == "string")
    return any(codec.get("id") == "vlen-utf8" for codec in metadata.get("filters") or ())


def _chunks_in_shards(metadata: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Shape of the inner chunks; None if the array is not sharded."""
    for codec in metadata.get("codecs", ()):
        if isinstance(codec, Mapping) and codec.get("name") == "sharding_indexed":
            return tuple(codec["configuration"]["chunk_shape"])
    return None


def _grid(metadata: Mapping[str, Any], shape: tuple[int, ...], chunks: tuple[int, ...]) -> Grid:
    """`chunks`, but with the sizes of all chunks along dimensions where they differ."""
    grid = metadata.get("chunk_grid", {})
    if grid.get("name") != "rectilinear":
        return chunks
    sizes: list[int | tuple[int, ...]] = []
    for extent, spec in zip(shape, grid["configuration"]["chunk_shapes"], strict=True):
        if isinstance(spec, int):
            sizes.append(spec)
            continue
        edges: list[int] = []
        for edge in spec:  # a size, or [size, repeat count]
            edges.extend([edge[0]] * edge[1] if isinstance(edge, list) else [edge])
        sizes.append(_compact(edges, extent))
    return tuple(sizes)


def _compact(edges: list[int], extent: int) -> int | tuple[int, ...]:
    """Chunk sizes clipped to `extent`; one number if only the last chunk is smaller."""
    sizes: list[int] = []
    left = extent
    for edge in edges:
        if left <= 0:
            break
        sizes.append(min(edge, left))
        left -= edge
    if not sizes:
        return (0,)
    regular = len(set(sizes[:-1])) <= 1 and sizes[-1] <= sizes[0]
    return sizes[0] if regular else tuple(sizes)
