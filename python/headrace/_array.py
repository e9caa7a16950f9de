"""Array: one Zarr array, indexed like a NumPy array."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _axes, _core, _dtypes, _target
from ._context import Context, device_of, stream_pointer, usable_device
from ._errors import InvalidArgumentError, naming_store
from ._progress import make_progress
from ._reading import Prepared, ReadFuture, ReadOptions, Request, indexing_number
from ._sources import known, open_store, url_of
from ._tensor import Tensor

_MAX_STRING_BYTES = 1 << 40
_STRINGS_AT_A_TIME = 1 << 18


class _Indexer:
    """What ``array.oindex``, ``array.vindex`` and ``array.blocks`` return."""

    __slots__ = ("_array", "_indexing")

    def __init__(self, array: Array, indexing: str) -> None:
        self._array = array
        self._indexing = indexing

    def __getitem__(self, selection: Any) -> Any:
        if self._indexing == "points":
            selection, shape = _broadcast_points(selection, self._array.shape)
            return _reshaped(self._array.read(selection, indexing="points"), shape)
        return _scalar(self._array.read(selection, indexing=self._indexing))


def _broadcast_points(selection: Any, extent: tuple[int, ...]) -> tuple[Any, tuple[int, ...] | None]:
    """Coordinates broadcast to a common shape and flattened, and that shape; a mask is returned unchanged."""
    items = selection if isinstance(selection, tuple) else (selection,)
    if len(items) == 1 and getattr(np.asarray(items[0]), "dtype", None) == bool:
        return np.asarray(items[0]), None
    if any(isinstance(item, slice) or item is Ellipsis or item is None for item in items):
        raise IndexError("vindex takes one integer or list of integers for each dimension, or a mask; slices belong to oindex")
    if len(items) != len(extent):
        raise IndexError(f"vindex needs {len(extent)} lists of coordinates, one for each dimension; these are {len(items)}")
    try:
        arrays = np.broadcast_arrays(*(np.asarray(item) for item in items))
    except ValueError as error:
        raise IndexError(f"coordinates do not broadcast to one shape: {error}") from None
    return tuple(array.ravel() for array in arrays), arrays[0].shape


def _reshaped(result: Any, shape: tuple[int, ...] | None) -> Any:
    if shape is None or shape == result.shape:
        return result
    if isinstance(result, Tensor):
        return Tensor(result._memory, shape, result._described)
    return _scalar(result.reshape(shape))


def _scalar(result: Any) -> Any:
    return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result


class Array:
    """One Zarr array, opened for reading. Created by ``headrace.open``.

    ``array[selection]`` takes integers, slices, an ellipsis, None, and a list or mask per axis; lists select orthogonally.
    ``array.oindex`` does the same under zarr's name, ``array.vindex`` reads single points, ``array.blocks`` whole chunks. Results
    are NumPy arrays, or a ``Tensor`` if the array was opened for a GPU.

    Thread-safe. A pickle holds the array's location; unpickling opens the array again.
    """

    def __init__(self, core: Any, store: Any, path: str, context: Context, reopen: tuple[Any, ...], device: str | None,
                 document: str | None = None) -> None:
        self._core = core
        self._store = store
        self._context = context
        self._reopen = reopen
        self._document = document
        info = core.info()
        self._info = info
        self._described: _dtypes.Described = info["dtype"]
        self._variable = self._described[0] in ("string", "variable_bytes")
        self.path = path
        self.device = device
        self.shape: tuple[int, ...] = info["shape"]

    # Properties

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of an element as reads return it: little-endian."""
        return _dtypes.to_numpy(self._described)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Decoded bytes of all elements; for variable-length strings, the bytes of the Python references."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[int, ...]:
        """Shape of the unit that is decoded at a time: the chunk, or the inner chunk of a sharded array."""
        return self._info["chunk_shape"]

    @property
    def shards(self) -> tuple[int, ...] | None:
        return self._info["shard_shape"] or None

    @property
    def chunk_count(self) -> int:
        return self._info["chunk_count"]

    def stored_chunks(self) -> np.ndarray[Any, Any]:
        """Grid indices of the chunks (shards, if the array is sharded) that have an object in the store.

        One row of ``ndim`` numbers per chunk, in C order, found by listing the store. All other chunks hold the fill value.
        """
        count, indices = self._core.stored_chunks()
        return np.array(indices, dtype=np.uint64).reshape(count, self.ndim)

    @property
    def codecs(self) -> tuple[str, ...]:
        """Codec names in encoding order; for a sharded array, the codecs of the inner chunks."""
        return self._info["codecs"]

    @property
    def zarr_format(self) -> int:
        return self._info["zarr_format"]

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """Names of the dimensions (in format 2, xarray's attribute); None if the array has none."""
        return self._info["dimension_names"] or None

    @property
    def fill_value(self) -> Any:
        """Value of the elements whose chunk is not stored; None if the metadata does not define it."""
        if self._info["fill_text"] == "null":
            return None
        if self._variable:
            fill = self._info["fill"]
            return fill.decode() if self._described[0] == "string" else fill
        return np.frombuffer(self._info["fill"], self.dtype)[0]

    @property
    def attrs(self) -> dict[str, Any]:
        """The user's attributes; each access returns a new copy."""
        attributes: dict[str, Any] = json.loads(self._info["attributes"])
        return attributes

    @property
    def metadata(self) -> dict[str, Any]:
        """The array's own metadata document (zarr.json, or .zarray), as stored."""
        if self._document is None:
            name = "zarr.json" if self.zarr_format == 3 else ".zarray"
            stored = self._store.get(f"{self.path}/{name}" if self.path else name)
            self._document = (stored or b"{}").decode()
        document: dict[str, Any] = json.loads(self._document)
        return document

    @property
    def url(self) -> str:
        """The URL of the store, without credentials, so safe to print."""
        return self._store.url

    # Reading

    def __getitem__(self, selection: Any) -> Any:
        return _scalar(self.read(selection))

    @property
    def oindex(self) -> _Indexer:
        return _Indexer(self, "orthogonal")

    @property
    def vindex(self) -> _Indexer:
        return _Indexer(self, "points")

    @property
    def blocks(self) -> _Indexer:
        """Indexing by grid position: of chunks, or of shards if the array is sharded."""
        return _Indexer(self, "blocks")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array in a store must be read to become a NumPy array")
        out = self.read(device="host")
        return out if dtype is None else out.astype(dtype, copy=False)

    def read(self, selection: Any = ..., *, indexing: str = "orthogonal", out: Any = None, device: str | None = None,
             stream: Any = None, dtype: Any = None, scale: float = 1.0, offset: float = 0.0, fill_as_nan: bool = False,
             fill: Any = None, damage_as_nan: bool = False, placement: str = "auto", verify: str = "as_read", progress: Any = None,
             cancel: Any = None, return_stats: bool = False) -> Any:
        """Reads a selection and blocks until all elements are in place. Ctrl-C interrupts it.

        selection: an integer, a slice, an ellipsis, a list or mask along an axis, None for a new axis, or a tuple of these.
        indexing: "orthogonal"; "points": one list of coordinates per dimension; "blocks": chunk numbers.
        out: written to and returned: a NumPy, torch or CuPy array, or any object with the (CUDA) array interface; any strides.
        device: "host", "cuda" or "cuda:1", if out is not given; default: the array's own. Results on a GPU are Tensors.
        stream: the caller's CUDA stream; the read starts after the work queued on it. Default: the stream that out's owner
          uses, or the current stream of torch or CuPy.
        dtype: convert to this type. scale, offset: an element x becomes x * scale + offset.
        fill_as_nan: elements equal to the fill value become NaN (dtype must be a float). fill: elements equal to this
          stored value become NaN instead.
        damage_as_nan: elements of damaged chunks become NaN (dtype must be a float) and are counted in
          Stats.damaged_chunks; otherwise the first damaged chunk raises.
        placement: which processor decodes for a GPU: "auto", "cpu", "gpu".
        verify: "whole": each chunk is read and decoded completely. Otherwise unselected parts of a chunk may be skipped, and
          damage in them is not detected.
        progress: True for a bar (tqdm) on a terminal or in a notebook, or a function of (chunks done, total chunks).
        cancel: a headrace.Cancel; cancelling it makes the read raise CancelledError.
        return_stats: return (result, Stats).

        Raises IndexError for a selection outside the array, and subclasses of HeadraceError.
        """
        options = ReadOptions(indexing, device, stream, dtype, scale, offset, fill_as_nan, fill, damage_as_nan, placement, verify, progress, cancel)
        result, stats = self._read(selection, out, options)
        return (result, stats) if return_stats else result

    def _read(self, selection: Any, out: Any, options: ReadOptions) -> tuple[Any, _core.Stats]:
        if self._variable:
            return self._read_strings(selection, out, options)
        prepared = self._prepare([selection], None if out is None else [out], options)
        stats = self._run(prepared)
        return prepared.results[0], stats

    def _run(self, prepared: Prepared) -> _core.Stats:
        """Runs the read that _prepare() described."""
        try:
            with naming_store(self.url):
                return self._core.read(*prepared.request)
        finally:
            prepared.end()

    def read_many(self, selections: Sequence[Any], *, indexing: str = "orthogonal", out: Sequence[Any] | None = None,
                  device: str | None = None, stream: Any = None, dtype: Any = None, scale: float = 1.0, offset: float = 0.0,
                  fill_as_nan: bool = False, fill: Any = None, damage_as_nan: bool = False, placement: str = "auto",
                  verify: str = "as_read", progress: Any = None, cancel: Any = None, return_stats: bool = False) -> Any:
        """Reads several selections, planned together: each chunk is read and decoded once, however many selections use it.

        out: one tensor per selection, all on one device, none overlapping another. The other arguments are those of ``read``.
        Returns a list.
        """
        if not isinstance(selections, Sequence | np.ndarray):
            raise TypeError(f"read_many takes a list of selections, not {type(selections).__name__}")
        if out is not None and len(out) != len(selections):
            raise InvalidArgumentError(f"{len(out)} outs for {len(selections)} selections")
        if not len(selections):
            return ([], _core.Stats()) if return_stats else []
        options = ReadOptions(indexing, device, stream, dtype, scale, offset, fill_as_nan, fill, damage_as_nan, placement, verify, progress, cancel)
        if self._variable:
            outs = [None] * len(selections) if out is None else list(out)
            results, sum_of_all = [], _core.Stats()
            for selection, one in zip(selections, outs, strict=True):
                result, stats = self._read(selection, one, options)
                results.append(result)
                sum_of_all.add(stats)
            return (results, sum_of_all) if return_stats else results
        prepared = self._prepare(selections, out, options)
        stats = self._run(prepared)
        return (prepared.results, stats) if return_stats else prepared.results

    def read_async(self, selection: Any = ..., *, indexing: str = "orthogonal", out: Any = None, device: str | None = None,
                   stream: Any = None, dtype: Any = None, scale: float = 1.0, offset: float = 0.0,
                   fill_as_nan: bool = False, fill: Any = None, damage_as_nan: bool = False, placement: str = "auto",
                   verify: str = "as_read", progress: Any = None, cancel: Any = None) -> ReadFuture:
        """Starts a read and returns a ReadFuture: ``await array.read_async(...)``, or ``.result()``. Arguments as in ``read``."""
        if self._variable:
            raise InvalidArgumentError("strings of variable length are read by read(), which blocks")
        options = ReadOptions(indexing, device, stream, dtype, scale, offset, fill_as_nan, fill, damage_as_nan, placement, verify, progress, cancel)
        prepared = self._prepare([selection], None if out is None else [out], options)
        try:
            reading = self._core.start(*prepared.request, (prepared.results, prepared.held.copy()))
        except BaseException:
            prepared.close()
            raise
        finally:
            prepared.held.clear()
        return ReadFuture(reading, prepared.results[0], prepared.close, self)

    def chunk_reader(self, prefix: str, native_prefix: str, separator: str, extents: Sequence[int],
                     limit_bytes: int) -> Callable[[str, Any, Any, Any, bool], int]:
        """For codec pipelines: a function that reads one stored object without waiting; see _core.ChunkReader."""
        return _core.ChunkReader(self._core, self._store, device_of("host"), prefix, native_prefix, separator, extents,
                                 limit_bytes).read

    def _prepare(self, selections: Sequence[Any], outs: Sequence[Any] | None, options: ReadOptions) -> Prepared:
        core = self._core
        mode, placed = indexing_number(options.indexing), options.placement_number
        scale, offset = float(options.scale), float(options.offset)
        name = _dtypes.name_of(options.dtype)
        described = self._described
        if options.converts:
            described = core.result_dtype(name, scale, offset, options.maps_fill_to_nan, bool(options.damage_as_nan))
        plain = [_axes.plain_selection(selection, self.shape) if mode == 0 else (selection, None)
                 for selection in selections]
        shapes = [_axes.result_shape(core.result_shape(selection, mode), axes) for selection, axes in plain]
        pointer = 0 if options.stream is None else stream_pointer(options.stream)
        results: list[Any] = []
        views: list[_target.View] = []
        held: list[Any] = []
        if outs is None:
            where = device_of(options.device if options.device is not None else self.device)
            on_host = where.name == "host"
            for shape in shapes:
                if on_host:
                    array = np.empty(shape, _dtypes.to_numpy(described))
                    results.append(array)
                    views.append((array.__array_interface__["data"][0], shape, None))
                else:
                    tensor = Tensor.empty(where, shape, described)
                    results.append(tensor)
                    views.append((tensor.pointer, shape, None))
            if options.stream is None and not on_host and where.name.startswith("cuda"):
                pointer = _target.current_stream(where.name)
        else:
            targets = [_target.describe(out) for out in outs]
            wanted = "bfloat16" if described[0] == "bfloat16" else _dtypes.to_numpy(described)
            for target, shape in zip(targets, shapes, strict=True):
                held.append(target.held)
                _target.check_type(target, wanted)
                if target.shape != shape:
                    raise InvalidArgumentError(f"out has shape {target.shape}, the selection has {shape}")
                if target.device != targets[0].device:
                    raise InvalidArgumentError(f"outs are on {targets[0].device} and {target.device}: put all on one device")
                views.append(target.view)
            named = None if options.device is None else device_of(options.device).name
            if named not in (None, targets[0].device, "host-staged"):
                raise InvalidArgumentError(f"out is on {targets[0].device}, not on {options.device}")
            where = device_of(options.device if options.device is not None else targets[0].device)
            results.extend(outs)
            if options.stream is None and where.name.startswith("cuda"):
                pointer = targets[0].stream if targets[0].stream is not None else _target.current_stream(where.name)
        views = [_axes.view_to_read(view, axes, described[1]) for view, (_, axes) in zip(views, plain, strict=True)]
        missing = b"" if options.fill is None else self._element(options.fill)
        report, close = make_progress(options.progress, self.path or self.url)
        request = Request(selections=[selection for selection, _ in plain], indexing=mode, targets=views, device=where,
                          stream=pointer, dtype=name, scale=scale, offset=offset, fill_as_nan=options.maps_fill_to_nan,
                          missing=missing, damage_as_nan=bool(options.damage_as_nan), placement=placed, whole=options.whole, collect_errors=False, progress=report, cancel=options.token)
        return Prepared(request, results, held, close)

    def _element(self, value: Any) -> bytes:
        """One stored element as bytes."""
        try:
            element = np.asarray(value).astype(self.dtype)
            fits = element.ndim == 0 and (element == value or element != element)
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise InvalidArgumentError(f"fill={value!r} is not representable as {self.dtype}")
        return element.tobytes()

    def _read_strings(self, selection: Any, out: Any, options: ReadOptions) -> tuple[Any, _core.Stats]:
        if options.converts:
            raise InvalidArgumentError("strings of variable length are not converted: no dtype, scale, offset or fill")
        if device_of(options.device if options.device is not None else self.device).name != "host":
            raise InvalidArgumentError("strings of variable length are read to the host: device='host'")
        mode = indexing_number(options.indexing)
        axes = None
        if mode == 0:
            selection, axes = _axes.plain_selection(selection, self.shape)
        read_shape = self._core.result_shape(selection, mode)
        shape = _axes.result_shape(read_shape, axes)
        if out is not None and not (isinstance(out, np.ndarray) and out.dtype == object and out.shape == shape):
            raise InvalidArgumentError(f"out must be a NumPy array of objects with shape {shape}")
        report, close = make_progress(options.progress, self.path or self.url)
        try:
            with naming_store(self.url):
                items, stats = self._core.read_strings(selection, mode, _MAX_STRING_BYTES, report, options.token)
        finally:
            close()
        result = np.empty(len(items), object)
        for begin in range(0, len(items), _STRINGS_AT_A_TIME):  # in steps, so that Ctrl-C is noticed
            result[begin:begin + _STRINGS_AT_A_TIME] = items[begin:begin + _STRINGS_AT_A_TIME]
        result = result.reshape(read_shape)
        if axes is not None:
            result = result[_axes.index_of(axes)]
        if out is None:
            return result, stats
        out[...] = result
        return out, stats

    # Display

    def __repr__(self) -> str:
        return (f"headrace.Array({self.url!r}" + (f", path={self.path!r}" if self.path else "") +
                f", shape={self.shape}, dtype={self._described[2]}, chunks={self.chunks}" +
                (f", shards={self.shards}" if self.shards else "") + f", codecs={'+'.join(self.codecs) or 'none'})")

    def _repr_html_(self) -> str:
        rows = {"Store": self.url, "Path": self.path or "/", "Format": f"Zarr v{self.zarr_format}",
                "Shape": " × ".join(map(str, self.shape)) or "scalar", "Type": self._described[2],
                "Chunks": " × ".join(map(str, self.chunks)) + f" ({self.chunk_count})",
                "Shards": " × ".join(map(str, self.shards)) if self.shards else "–",
                "Codecs": ", ".join(f"{name} ({'GPU' if gpu else 'CPU'})" for name, gpu in
                                    zip(self.codecs, self._info["codec_on_gpu"], strict=True)) or "–",
                "Decoded": f"{self._info['decoded_bytes']:,} bytes", "Fill value": self._info["fill_text"]}
        cells = "".join(f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{html.escape(str(value))}"
                        "</td></tr>" for name, value in rows.items())
        attributes = html.escape(json.dumps(self.attrs, indent=1))
        return (f"<details open><summary><b>headrace.Array</b></summary><table>{cells}</table>"
                f"<details><summary>Attributes</summary><pre>{attributes}</pre></details></details>")

    # Pickling and opening

    def __reduce__(self) -> Any:
        return _reopen_array, (*self._reopen, self.path, self._context, self.device)

    @classmethod
    def from_document(cls, url: Any, path: str, zarr_format: int, document: str, *, context: Context | None = None,
                      lenient: str = "", revalidate: bool = False, device: str | None = None) -> Array:
        """Creates an array from metadata that the caller has: the text of its zarr.json (format 3) or .zarray (2). Reads nothing.

        Stored chunks are looked up at `path` in the store at `url`. revalidate: check on each read that open shards are still
        the ones in the store; for stores that are written to at the same time.
        """
        url = known(url, context)
        store, context = open_store(url, context)
        core = _core.Array.from_document(store, path, zarr_format, document, lenient, revalidate)
        reopen = ("document", url_of(url), zarr_format, document, lenient, revalidate)
        return cls(core, store, path, context, reopen, device, document)


def _reopen_array(kind: str, url: str, *rest: Any) -> Array:
    """Called by unpickling: opens the array where it is stored."""
    *about, path, context, device = rest
    if kind == "document":
        zarr_format, document, lenient, revalidate = about
        return Array.from_document(url, path, zarr_format, document, context=context, lenient=lenient, revalidate=revalidate,
                                   device=device)
    lenient, index_directory, revalidate = about
    return open_array(url, path, context=context, lenient=lenient, index_directory=index_directory, revalidate=revalidate,
                      device=device)


def open_array(store: Any, path: str = "", *, storage_options: Mapping[str, Any] | None = None, context: Context | None = None,
               lenient: str = "", index_directory: str = "", revalidate: bool = False, device: str | None = None) -> Array:
    """Opens the array at `path`. Raises InvalidArgumentError if it is a group."""
    store = known(store, context, storage_options)
    opened, context = open_store(store, context)
    with naming_store(opened.url):
        core = _core.Array.open(opened, path, lenient, index_directory, revalidate)
    reopen = ("array", url_of(store), lenient, index_directory, revalidate)
    return Array(core, opened, path.strip("/"), context, reopen, usable_device(device))
