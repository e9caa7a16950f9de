"""Loader: batches of samples for training, prefetched, in a resumable order."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _core, _dtypes
from . import _loader_args as args
from ._alignment import Window, align_sources, take_or_missing
from ._batch import Batch
from ._context import device_of
from ._errors import InvalidArgumentError
from ._loader_sources import Source, sources_of
from ._progress import make_progress
from ._tensor import Tensor
from ._timing import Epochs, EpochStats, Timings


class Loader:
    """Reads batches of samples for training. ``for batch in loader`` yields the batches of one epoch; the next loop yields those of the next
    epoch, in another order. Leaving a loop early ends its epoch. Starting a second loop ends the first.

        loader = headrace.Loader("era5.zarr", input_dims={"time": 4}, input_overlap={"time": 3}, batch_size=16,
                                 outputs={"x": {"time": slice(0, 3)}, "y": {"time": slice(3, 4)}},
                                 shuffle="block", seed=1, device="cuda")
        for batch in loader:
            loss = model(batch["x"].torch(), batch["y"].torch())

    source: a path or URL, an Array, a Group (all its arrays that have the dimensions of input_dims), an xarray.Dataset (likewise) or
        DataArray, a NumPy array (copied); or a mapping of names to these, or a list of them. Sample i consists of sample i of each array.
    storage_options: options of a URL, as for headrace.open.
    dims: names of the dimensions, if an array's metadata has none; or a mapping of array names to them.
    align: how arrays are matched, by dimension: by "equal" or "nearest" coordinates (numbers, text, or times in CF units and calendars),
        relative to those of the first array with the dimension; or by "position". Default: by position, and arrays of different stores
        must have equal coordinates along dimensions with windows, if they have coordinates.
    tolerance: greatest distance for "nearest": a number, for times a timedelta or "3 hours"; or a mapping of dimensions to them. None: any.
    missing: if another array lacks a position: "raise"; "drop" the samples that need it (in a dimension without windows, its indices);
        or "pad".
    coordinates: by dimension, the values for all arrays or a mapping of array names to values. They replace the coordinate array of
        that name stored beside each array.
    input_dims, input_overlap, input_stride, batch_dims, concat_input_dims: as in xbatcher; input_stride replaces the overlap.
        input_starts: replaces both: the indices where windows begin, ascending.
    boundary: how windows past the end of a dimension are handled: "drop", "pad" or "wrap", or a mapping of dimensions to these.
    outputs: named parts of each window, each a slice (or range) along one dimension. With several arrays, tensors are named
        "array/output".
    crops, crops_per_frame, crop_wrap, crop_flip: samples are boxes of this size at random places of the windows.
    shuffle: False; True (full shuffle); or "block": samples that share chunks stay near each other, in buffers of `block_groups`
        chunks, which are read once.
    partitions: divides the chunks of shuffle="block" into so many parts that stay the same in every epoch. With one for each rank (or
        reader group), each rank reads only chunks of its own part, so that the caches of all ranks together hold each chunk once. The
        few samples that are left when the smallest part has no full batch any more are divided among all ranks.
    samples: use only these sample numbers (counted after missing="drop"). weights: draw `draws` samples with these weights.
    rank, world: default: those of torch.distributed if it is initialised, else 0 and 1. reader_group: ranks that get the same samples.
    tail: what happens to samples that do not fill a batch: "drop", "pad" or "wrap".
    dtype, scale, offset, fill_as_nan, fill: as for Array.read; or a mapping of array names to values.
    mean, std: normalise: subtract mean, then divide by std. The result is a float, float32 unless dtype or the array says otherwise. A
        number, or a mapping of array names to numbers. normalise: takes both per array from a file written by `headrace stats -o`, or
        from its content. Statistics made with --by apply per index of those dimensions (such as levels), to float32 and float64 tensors.
    padding: value of elements past the end of an array (boundary "pad"), after conversion; default 0.
    stack: name of one tensor that has all arrays as channels, [batch, (windows,) channel, dimensions...]; or a mapping of such names
        to lists of arrays. channels_last: [batch, (windows,) dimensions..., channel].
    on_damage: "fail"; "skip": skips batches with a damaged chunk and counts them in `stats`; "nan": elements of damaged chunks become
        NaN (floats only) and are counted in stats["reads"].damaged_chunks.
    read_together: number of batches that are read together, so that chunks they share are read and decoded once. Default: the batches
        of one buffer of shuffle="block", within memory_bytes; otherwise 1.
    read_ahead: number of reads started before one of their batches is requested.
    memory_bytes: limit of device memory for batches.
    cache_bytes: limit of device memory for cached chunks, which are not read again. The cache fills during the first epoch and evicts
        nothing. It holds chunks of files, and of stores that report versions. cache: "decoded", or "encoded": as stored, so that more
        fit; this applies to chunks that the device decodes and uncompressed ones.
    leave_free_bytes: device memory that the cache leaves to others, such as the model: it grows only while this much stays free. If
        less than half of it is free when a read starts, the cache is released, as by release_cache().
    host_cache_bytes: limit of host memory for stored chunks of remote stores, and of your own stores that report versions. Cached
        chunks are not requested again, on any device.
    progress: True for a bar of each epoch's batches (tqdm, on a terminal or in a notebook), or a function of (done, total).

    Use from one thread at a time. Of several threads each waits for the others, and a loop that one begins ends the others' loops. A pickle
    holds the arguments and the position; unpickling opens the arrays again.
    """

    def __init__(self, source: Any, *, input_dims: Mapping[str, int], dims: Any = None, align: Mapping[str, str] | None = None,
                 tolerance: Any = None, missing: str = "raise", coordinates: Mapping[str, Any] | None = None,
                 input_overlap: Mapping[str, int] | None = None, input_stride: Mapping[str, int] | None = None,
                 input_starts: Mapping[str, Sequence[int]] | None = None,
                 batch_dims: Mapping[str, int] | None = None, concat_input_dims: bool = False,
                 boundary: str | Mapping[str, str] = "drop", outputs: Mapping[str, Mapping[str, Any]] | None = None,
                 crops: Mapping[str, int] | None = None, crops_per_frame: int = 1, crop_wrap: Sequence[str] = (),
                 crop_flip: Sequence[str] = (), batch_size: int = 1, shuffle: bool | str = False, block_groups: int = 16,
                 partitions: int = 1, seed: int = 0, samples: Sequence[int] | None = None, weights: Sequence[float] | None = None, draws: int = 0,
                 rank: int | None = None, world: int | None = None, reader_group: int = 1, tail: str = "drop",
                 dtype: Any = None, scale: Any = 1.0, offset: Any = 0.0, fill_as_nan: Any = False, fill: Any = None,
                 mean: Any = None, std: Any = None,
                 normalise: Any = None, padding: Any = 0, stack: str | Mapping[str, Sequence[str]] | None = None,
                 channels_last: bool = False, on_damage: str = "fail", device: str | None = None, read_together: int | None = None, read_ahead: int = 2,
                 memory_bytes: int = 4 << 30, cache_bytes: int = 0, cache: str = "decoded", leave_free_bytes: int = 0, host_cache_bytes: int = 0, progress: Any = False,
                 storage_options: Mapping[str, Any] | None = None) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "source")}
        if not isinstance(input_dims, Mapping):
            raise InvalidArgumentError(f"input_dims is a {type(input_dims).__name__}; give a mapping of dimensions to sizes")
        self._sources = sources_of(source, input_dims, dims, coordinates, storage_options)
        self._given = {**given, "dims": None, "coordinates": None, "storage_options": None}
        names = [one.name for one in self._sources]
        statistics = None
        if normalise is not None:
            if mean is not None or std is not None:
                raise InvalidArgumentError("normalise includes mean and std: give either normalise or mean and std")
            statistics = args.statistics(normalise)
            self._given["normalise"] = {"arrays": statistics}
        if not callable(progress) and not isinstance(progress, bool):
            raise InvalidArgumentError(f"progress is a {type(progress).__name__}; give True, or a function of (done, in all)")
        every_dim = {dim for one in self._sources for dim in one.dims}
        shared: dict[str, list[tuple[str, Any]]] = {
            "input_dims": args.sizes("input_dims", input_dims), "input_overlap": args.sizes("input_overlap", input_overlap),
            "input_stride": args.sizes("input_stride", input_stride), "input_starts": args.starts(input_starts),
            "batch_dims": args.sizes("batch_dims", batch_dims), "crops": args.sizes("crops", crops)}
        for what, by_dim in (("boundary", boundary), ("tolerance", tolerance)):
            args.check_dims(what, by_dim, every_dim)
        if crops is None and (crop_wrap or crop_flip or crops_per_frame != 1):
            raise InvalidArgumentError("crop_wrap, crop_flip and crops_per_frame have no effect without crops: give crops")
        boundaries = boundary if isinstance(boundary, Mapping) else {}
        every_boundary = args.choice("boundary", args.BOUNDARIES, "drop" if boundaries else boundary)
        boundary_of = [(dim, args.choice("boundary", args.BOUNDARIES, of)) for dim, of in boundaries.items()]
        parts = [args.output(output, of) for output, of in (outputs or {}).items()]
        windows = _windows(shared, every_boundary, dict(boundary_of), parts)
        self._alignment = align_sources(self._sources, align or {}, tolerance, missing, windows)
        for dim, begins in self._alignment.starts.items():
            if concat_input_dims and dim in dict(shared["input_dims"]) and dim in dict(shared["batch_dims"]):
                raise InvalidArgumentError(f"missing='drop': samples have several windows along {dim!r} (concat_input_dims), of which some lack elements")
            for key in ("input_overlap", "input_stride", "input_starts"):
                shared[key] = [one for one in shared[key] if one[0] != dim]
            shared["input_starts"].append((dim, begins.tolist()))
        self._device = device_of(device)
        self._arrays, self._tables = [], []
        for number, one in enumerate(self._sources):
            own = {key: args.value_for_array(key, value, one.name, names) for key, value in {
                "dtype": dtype, "scale": scale, "offset": offset, "fill_as_nan": fill_as_nan, "fill": fill, "mean": mean, "std": std,
                "padding": padding}.items()}
            by: dict[str, Any] = {}
            if statistics is not None:
                found = args.scale_by(one.name, one.array, one.dims, statistics)
                own.update({key: found[key] for key in ("mean", "std") if key in found})
                by = {key: found[key] for key in ("dims", "scales", "offsets") if key in found}
            own = args.fold_mean_std(one.array, args.add_decoding(own, one.read), by_index=bool(by))
            described = args.described(one.array, own)
            self._tables.append(_tables(one, self._alignment.positions[number]))
            # A dimension that this array lacks but another one has is no error.
            of_array = {key: [pair for pair in pairs if pair[0] in one.dims or pair[0] not in every_dim] for key, pairs in shared.items()}
            self._arrays.append({
                "name": one.name, "array": one.array._core,
                "dims": [(dim, self._alignment.sizes.get(dim, size)) for dim, size in zip(one.dims, one.shape, strict=True)],
                **of_array, "concat_input_dims": bool(concat_input_dims), "boundary": every_boundary,
                "boundary_of": [pair for pair in boundary_of if pair[0] in one.dims or pair[0] not in every_dim],
                "outputs": parts, "crops_per_frame": args.count("crops_per_frame", crops_per_frame),
                "crop_wrap": list(crop_wrap), "crop_flip": list(crop_flip),
                "dtype": _dtypes.name_of(own["dtype"]), "scale": float(own["scale"]), "offset": float(own["offset"]),
                "fill_as_nan": bool(own["fill_as_nan"]) or own["fill"] is not None, "damage_as_nan": on_damage == "nan",
                "missing": b"" if own["fill"] is None else args.elements("fill", one.name, own["fill"], one.array.dtype),
                "padding": args.elements("padding", one.name, own["padding"], _dtypes.to_numpy(described)),
                "stack": args.stack_of(one.name, stack, names),
                "positions": [(axis, table.astype(np.int64).tobytes()) for axis, table in self._tables[-1].items()],
                "scale_by_dims": by.get("dims", []), "scales": by.get("scales", []), "offsets": by.get("offsets", []),
            })
        self._order = args.order(shuffle, block_groups, partitions, batch_size, samples, weights, draws)
        rank, world = args.rank(rank, world)
        self._options: dict[str, Any] = {
            "rank": args.count("rank", rank, 0), "world": args.count("world", world), "reader_group": args.count("reader_group", reader_group),
            "batch_size": args.count("batch_size", batch_size), "tail": args.choice("tail", args.TAILS, tail), "seed": args.count("seed", seed, 0),
            "read_together": 0 if read_together is None else args.count("read_together", read_together),
            "read_ahead": args.count("read_ahead", read_ahead), "memory_bytes": args.count("memory_bytes", memory_bytes), "cache_bytes": args.count("cache_bytes", cache_bytes, 0),
            "leave_free_bytes": args.count("leave_free_bytes", leave_free_bytes, 0),
            "host_cache_bytes": args.count("host_cache_bytes", host_cache_bytes, 0), "state": None,
            "channels_last": bool(channels_last), "skip_damage": args.choice("on_damage", {"fail": 0, "skip": 1, "nan": 2}, on_damage) == 1,
            "cache_encoded": args.choice("cache", {"decoded": 0, "encoded": 1}, cache) == 1,
        }
        self._progress = progress
        self._core = self._create_native()
        self._started = False  # whether a batch of this epoch has been requested
        self._loop: tuple[Any, int] | None = None  # the loop that receives batches: its native loader, and its number there
        named = len({array for array, _, _, _ in self._core.tensors})
        self._names = [args.tensor_name(array, output, named) for array, output, _, _ in self._core.tensors]
        self._shapes = [self._shape(array, shape) for array, _, _, shape in self._core.tensors]

    def _shape(self, array: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Drops dimensions that the xarray object does not have."""
        number = next(i for i, own in enumerate(self._arrays) if array in (own["name"], own["stack"]))
        dims = self._sources[number].dims
        first = len(shape) - len(dims) - bool(self._arrays[number]["stack"] and self._options["channels_last"])
        return tuple(size for axis, size in enumerate(shape) if not (first <= axis < first + len(dims) and dims[axis - first].startswith("<")))

    def _create_native(self) -> Any:
        core = _core.make_loader(self._device, self._arrays, self._order, self._options)
        # time.monotonic() when the first loop started and when its last batch was delivered, for as long as `stats` counts.
        self._loops: list[float] = []
        self._timings, self._epochs = Timings(), Epochs()
        return core

    def __len__(self) -> int:
        """Number of batches in a whole epoch."""
        return self._core.batches

    def __iter__(self) -> Iterator[Batch]:
        number = self._core.begin_loop()  # first, so that a loop in another thread takes no batch of this one
        if self._started and self._core.batches_left == 0:
            self._core.next(self._timings.ring)  # ends the epoch, which the last loop had not consumed
        elif self._started:
            # The last loop was left before the end of its epoch.
            self._core.restart_at(self._core.state(self._core.epoch + 1))
        self._started, self._loop = False, (self._core, number)
        return self._epoch(self._loop)

    def _epoch(self, loop: tuple[Any, int]) -> Iterator[Batch]:
        if loop is not self._loop:
            return
        (core, number), self._started = loop, True
        described = [(shape, dtype) for shape, (_, _, dtype, _) in zip(self._shapes, core.tensors, strict=True)]
        now = time.monotonic()
        self._loops = self._loops or [now] * 2
        ring, epochs, all_of_it = self._timings.ring, self._epochs, core.batches_left
        begin, done = epochs.begin(core, now), 0
        report, close = make_progress(self._progress, f"epoch {core.epoch}", "batches")
        try:
            while loop is self._loop:
                given = core.next(ring, number)
                if given is None:
                    if loop is self._loop:
                        self._started, self._loops[1] = False, time.monotonic()
                    return
                self._loops[1] = time.monotonic()
                memories, samples, valid, epoch, place = given
                tensors = {name: Tensor(memory, shape, dtype)
                           for name, memory, (shape, dtype) in zip(self._names, memories, described, strict=True)}
                del given, memories
                batch = Batch(tensors, samples, valid, epoch, place)
                del tensors
                done += 1
                if report is not None:
                    report(done, all_of_it)
                yield batch
                del batch
        finally:
            epochs.end(begin, core, time.monotonic())
            close()

    @property
    def samples(self) -> int:
        """Number of samples, over all ranks."""
        return self._core.sample_count

    @property
    def epoch(self) -> int:
        return self._core.epoch

    def where(self, sample: int, *, epoch: int | None = None, array: str | None = None, output: str | None = None,
              window: int = 0) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """The array indices of a sample: for each dimension, the indices of its elements in tensor order; -1 is padding.

            batch = next(iter(loader))
            times = group["time"][...][loader.where(batch.samples[0], epoch=batch.epoch)["time"]]

        epoch: the epoch whose crops are meant; default: the current one. array, output: names; default: the first ones.
        window: which window, for samples that have several.
        """
        number, indices = self._indices("where", sample, epoch, array, output, window)
        return {dim: self._stored(number, axis, indices[axis]) for axis, dim in enumerate(self._sources[number].dims) if not dim.startswith("<")}

    def coordinates(self, sample: int, *, epoch: int | None = None, array: str | None = None, output: str | None = None,
                    window: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        """The coordinates of a sample: for each dimension that has a coordinate, its values in tensor order. Times are datetime64, or cftime
        objects in other calendars; padding is NaN, NaT, "" or None. Values that cannot be decoded are returned as stored. Arguments as for
        `where`.

            batch = next(iter(loader))
            loader.coordinates(batch.samples[0], epoch=batch.epoch)["time"]
        """
        number, indices = self._indices("coordinates", sample, epoch, array, output, window)
        source, out = self._sources[number], {}
        for axis, dim in enumerate(source.dims):
            labels = None if dim.startswith("<") else source.labels(dim)
            if labels is not None:
                aligned = self._alignment.positions[number].get(dim)
                at = indices[axis] if aligned is None else np.where(indices[axis] >= 0, aligned[indices[axis]], -1)
                out[dim] = take_or_missing(labels, at)
        return out

    def _stored(self, number: int, axis: int, indices: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Converts indices of sample dimensions to indices of the stored array."""
        table = self._tables[number].get(axis)
        return indices if table is None else np.where(indices >= 0, table[indices], -1)

    def _indices(self, caller: str, sample: int, epoch: int | None, array: str | None, output: str | None,
                 window: int) -> tuple[int, list[np.ndarray[Any, np.dtype[np.int64]]]]:
        """The array's number, and the indices of the sample by axis."""
        names = [described["name"] for described in self._arrays]
        if array is not None and array not in names:
            raise InvalidArgumentError(f"{caller}: there is no array {array!r}; arrays: {', '.join(map(repr, names))}")
        number = 0 if array is None else names.index(array)
        outputs = [part[0] for part in self._arrays[number]["outputs"]] or [""]
        if output is not None and output not in outputs:
            raise InvalidArgumentError(f"{caller}: there is no output {output!r}; outputs: {', '.join(map(repr, outputs))}")
        slices = self._core.where(number, args.count("sample", sample, 0), self.epoch if epoch is None else args.count("epoch", epoch, 0),
                                  args.count("window", window, 0), 0 if output is None else outputs.index(output))
        out = []
        for begin, count, step, wrapped, wrapped_count, padding, flipped in slices:
            indices = np.concatenate([begin + step * np.arange(count, dtype=np.int64), wrapped + step * np.arange(wrapped_count, dtype=np.int64),
                                      np.full(padding, -1, np.int64)])
            out.append(indices[::-1] if flipped else indices)
        return number, out

    @property
    def stats(self) -> dict[str, Any]:
        """Counters since the loader was created or a state was loaded: batches delivered, batches skipped for damage, seconds the consumer
        waited, read statistics, device memory of cached chunks, whether it was released, and host memory of cached chunks.
        """
        batches, skipped, wait, reads, kept, released, host = self._core.stats
        return {"batches": batches, "skipped": skipped, "wait_seconds": wait, "reads": reads, "kept_bytes": kept, "cache_released": released,
                "host_kept_bytes": host}

    def release_cache(self) -> None:
        """Releases the device memory of cached chunks as the reads that use it finish; nothing is cached until the loader is recreated.
        Thread-safe: for example, for a training loop whose model ran out of memory.
        """
        self._core.release_cache()

    def summary(self) -> str:
        """Two sentences: whether the loop or the reading is the bottleneck, and what was read, over the period that `stats` covers."""
        stats, (begin, end) = self.stats, self._loops or (0.0, 0.0)
        reads, wall, wait = stats["reads"], end - begin, stats["wait_seconds"]
        share = wait / wall if wall > 0 else 0.0
        limit = "reading is the limit" if share > 0.5 else "reading holds it up at times" if share > 0.05 else "the loop is the limit"
        chunks = reads.chunks + reads.missing_chunks + reads.kept_chunks
        kept = f", {reads.kept_chunks / chunks:.0%} of them kept decoded" if reads.kept_chunks else ""
        if reads.kept_encoded_chunks:
            kept += f", {reads.kept_encoded_chunks / chunks:.0%} kept encoded"
        damaged = f", {reads.damaged_chunks} damaged and NaN" if reads.damaged_chunks else ""
        skipped = f", {stats['skipped']} more skipped for damaged chunks" if stats["skipped"] else ""
        return (f"{stats['batches']} batches in {wall:.1f} s{skipped}; the loop waited for {wait:.1f} s of them ({share:.0%}): {limit}. "
                f"{chunks} chunks{kept}{damaged}; {reads.read_bytes / 1e9:.2f} GB read ({reads.path or 'nothing'}), "
                f"{reads.decoded_bytes / 1e9:.2f} GB delivered.")

    @property
    def epoch_stats(self) -> list[EpochStats]:
        """Statistics per epoch (the last 1000) since the loader was created or a state was loaded, including the running one: share of
        waiting, bytes by path, share of chunks found in the decoded cache, and the bottleneck in one sentence.
        """
        return self._epochs.all(time.monotonic())

    def report(self, path: str | os.PathLike[str], *, title: str = "headrace.Loader") -> None:
        """Writes a self-contained HTML page: a picture of where the time of each of the last batches went, and a table of epochs.

        The last 4096 batches are recorded, in memory of fixed size. Raises OSError if `path` cannot be written; an existing file is then
        left unchanged.
        """
        from ._report import write_report

        write_report(path, title, self.summary(), self.epoch_stats, self._timings, repr(self))

    def state_dict(self) -> dict[str, Any]:
        """The position after the last batch delivered, regardless of read-ahead. A few hundred bytes."""
        return {"headrace": self._core.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes after the last batch that the saved loader delivered, on any number of ranks. Ends a running loop."""
        text = state.get("headrace") if isinstance(state, Mapping) else None
        if not isinstance(text, str):
            raise InvalidArgumentError("this is not a state_dict() of a headrace.Loader")
        before, self._options["state"] = self._options["state"], text
        try:
            self._core = self._create_native()
        except Exception:
            self._options["state"] = before
            raise
        self._started, self._loop = False, None

    def torch_dataset(self) -> Any:
        """A torch IterableDataset that yields each batch as a dict of torch tensors, for ``DataLoader(dataset, batch_size=None)`` and
        torchdata's StatefulDataLoader. Use both without workers: this loader has its own threads.
        """
        from ._surfaces import torch_dataset

        return torch_dataset(self)

    def dali_source(self) -> Any:
        """A source of batches for NVIDIA DALI, one epoch per iteration: ``fn.external_source(source=s, num_outputs=len(s.names), batch=True,
        device="gpu", cycle="raise")``; use device "cpu" if the loader's device is the host. `names` gives the tensor of each output.
        """
        from ._surfaces import DaliSource

        return DaliSource(self)

    def __reduce__(self) -> Any:
        return _again, (tuple(self._sources), self._given, self.state_dict())

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {shape}" for name, shape in zip(self._names, self._shapes, strict=True))
        return f"headrace.Loader({self.samples} samples, {len(self)} batches, {shapes}, device='{self._device.name}')"


def _again(sources: tuple[Source, ...], given: dict[str, Any], state: dict[str, Any]) -> Loader:
    """Called by unpickling."""
    loader = Loader(sources, **given)
    loader.load_state_dict(state)
    return loader


def _windows(shared: Mapping[str, list[tuple[str, Any]]], boundary: int, boundary_of: Mapping[str, int],
             outputs: list[tuple[str, str, int, int, int]]) -> dict[str, Window]:
    """The windows of each dimension that has some."""
    names = {number: name for name, number in args.BOUNDARIES.items()}
    overlap, stride, starts = (dict(shared[key]) for key in ("input_overlap", "input_stride", "input_starts"))
    out = {}
    for dim, size in {**dict(shared["batch_dims"]), **dict(shared["input_dims"])}.items():
        # Elements that no output uses may be missing.
        used = [first + step * np.arange(count) for _, along, first, count, step in outputs if along == dim]
        offsets = np.unique(np.concatenate(used)) if outputs and len(used) == len(outputs) else np.arange(size)
        begins = np.asarray(starts[dim], np.int64) if dim in starts else None
        out[dim] = Window(size, max(1, stride.get(dim, size - overlap.get(dim, 0))), names[boundary_of.get(dim, boundary)], offsets, begins)
    return out


def _tables(source: Source, aligned: Mapping[str, np.ndarray[Any, np.dtype[np.int64]]]) -> dict[int, np.ndarray[Any, np.dtype[np.int64]]]:
    """For each axis that needs one, a table from sample indices to stored indices."""
    out = {}
    for axis, dim in enumerate(source.dims):
        view, positions = source.views.get(axis), aligned.get(dim)
        if positions is not None and view is not None:
            out[axis] = np.where(positions >= 0, view[positions], -1)
        elif positions is not None or view is not None:
            out[axis] = positions if view is None else view  # type: ignore[assignment]
    return out
