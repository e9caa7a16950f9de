"""Loader: batches of samples for training, read ahead, in an order that can be resumed."""

from __future__ import annotations

import json
import operator
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import _core, _dtypes
from ._array import Array
from ._context import device_of
from ._errors import InvalidArgumentError
from ._group import Group
from ._open import open as open_node
from ._tensor import Tensor

_BOUNDARIES = {"drop": 0, "partial": 1, "pad": 2, "wrap": 3}
_TAILS = {"drop": 0, "pad": 1, "wrap": 2}


class Batch(Mapping[str, Tensor]):
    """The tensors of one batch by name, [batch, (windows,) dimensions of the array...].

    Its memory is read into again once neither the batch nor anything that was made of its tensors is left, and what the
    streams that took them (``torch.from_dlpack`` says which) had queued by then is done. Work on other streams has to be
    waited for before.
    """

    __slots__ = ("_tensors", "epoch", "number", "samples", "valid")

    def __init__(self, tensors: dict[str, Tensor], samples: list[int], valid: int, epoch: int, number: int) -> None:
        self._tensors = tensors
        self.samples = samples  #: number of the sample at each place
        self.valid = valid  #: places that count; the others are repetitions (tail="pad")
        self.epoch = epoch
        self.number = number  #: of this rank's batches, since the epoch began or was resumed

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def torch(self) -> dict[str, Any]:
        """The same as torch tensors, without a copy."""
        return {name: tensor.torch() for name, tensor in self._tensors.items()}

    def jax(self) -> dict[str, Any]:
        """The same as jax.Arrays, as Tensor.jax() gives them."""
        return {name: tensor.jax() for name, tensor in self._tensors.items()}

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {tensor.shape}" for name, tensor in self._tensors.items())
        return f"headrace.Batch({shapes})"


class Loader:
    """``for batch in loader`` gives the batches of one epoch; the next loop those of the next, in another order.

        loader = headrace.Loader("era5.zarr", input_dims={"time": 4}, input_overlap={"time": 3}, batch_size=16,
                                 outputs={"x": {"time": slice(0, 3)}, "y": {"time": slice(3, 4)}},
                                 shuffle="block", seed=1, device="cuda")
        for batch in loader:
            loss = model(batch["x"].torch(), batch["y"].torch())

    source: a path or URL, an Array, a Group (all its arrays that have the dimensions of input_dims), or a mapping of
        names to arrays. Sample i is sample i of each array. storage_options: of a URL, as for headrace.open.
    dims: names of an array's dimensions, where its metadata has none.
    input_dims, input_overlap, input_stride, batch_dims, concat_input_dims: as xbatcher has them; input_stride instead of
        an overlap.
    boundary: what windows at the end of a dimension do: "drop", "pad" or "wrap", or one of them for each dimension.
    outputs: parts of each window by name, each a slice (or a range) of one dimension. Tensors of several arrays are
        called "array/output".
    crops, crops_per_frame, crop_wrap, crop_flip: samples are boxes of this size at random places of the windows.
    shuffle: False, True (everything with everything), or "block": samples that share chunks stay near each other; in
        buffers of `block_groups` chunks, which are read once.
    samples, weights: only these samples; or samples drawn by weight, `draws` of them.
    rank, world: of torch.distributed where it is initialised, else 0 and 1. reader_group: ranks that get the same samples.
    tail: what happens to samples that fill no batch: "drop", "pad" or "wrap".
    dtype, scale, offset, fill_as_nan, fill: as for Array.read; a mapping of names where arrays differ.
    mean, std: normalise: what is read less mean, divided by std; floats, float32 where dtype says nothing. A number, or a
        mapping of names. normalise: both for each array out of a file that `headrace stats -o` has written, or its content.
    padding: elements beyond the end of an array (boundary "pad"), as they shall appear; 0.
    stack: all arrays are the channels of one tensor of this name, [batch, (windows,) channel, dimensions...]; or a mapping of
        such names to lists of arrays. channels_last: [batch, (windows,) dimensions..., channel].
    on_damage: "fail"; "skip": batches with a damaged chunk are passed over, and counted in `stats`; "nan": a damaged chunk's
        elements become NaN (floats only), counted in stats["reads"].damaged_chunks.
    read_together: batches whose chunks are read and decoded once for all of them. Without it those of a buffer of
        shuffle="block", as far as memory_bytes goes, and otherwise each by itself.
    read_ahead: reads begun before a batch of theirs is asked for.
    memory_bytes: most memory of the device for batches.
    cache_bytes: most memory of the device for chunks, which are not read again: it fills in the first epoch and keeps what it
        has. For chunks of files that the device decodes. cache: "decoded", or "encoded": as they are stored, so that more fit.

    Used by one thread at a time.
    """

    def __init__(self, source: Any, *, input_dims: Mapping[str, int], dims: Sequence[str] | None = None,
                 input_overlap: Mapping[str, int] | None = None, input_stride: Mapping[str, int] | None = None,
                 batch_dims: Mapping[str, int] | None = None, concat_input_dims: bool = False,
                 boundary: str | Mapping[str, str] = "drop", outputs: Mapping[str, Mapping[str, Any]] | None = None,
                 crops: Mapping[str, int] | None = None, crops_per_frame: int = 1, crop_wrap: Sequence[str] = (),
                 crop_flip: Sequence[str] = (), batch_size: int = 1, shuffle: bool | str = False, block_groups: int = 16,
                 seed: int = 0, samples: Sequence[int] | None = None, weights: Sequence[float] | None = None, draws: int = 0,
                 rank: int | None = None, world: int | None = None, reader_group: int = 1, tail: str = "drop",
                 dtype: Any = None, scale: Any = 1.0, offset: Any = 0.0, fill_as_nan: Any = False, fill: Any = None,
                 mean: Any = None, std: Any = None,
                 normalise: Any = None, padding: Any = 0, stack: str | Mapping[str, Sequence[str]] | None = None,
                 channels_last: bool = False, on_damage: str = "fail", device: str | None = None, read_together: int | None = None, read_ahead: int = 2,
                 memory_bytes: int = 4 << 30, cache_bytes: int = 0, cache: str = "decoded",
                 storage_options: Mapping[str, Any] | None = None) -> None:
        if not isinstance(input_dims, Mapping):
            raise InvalidArgumentError(f"input_dims is a {type(input_dims).__name__}; give a mapping of dimensions to sizes")
        arrays = _arrays_of(source, input_dims, dims, storage_options)
        if normalise is not None:
            if mean is not None or std is not None:
                raise InvalidArgumentError("normalise has mean and std: give it, or them")
            mean, std = _statistics(normalise, [name for name, _, _ in arrays])
        every_dim = {dim for _, _, names in arrays for dim in names}
        self._device = device_of(device)
        self._arrays = []
        for name, array, names in arrays:
            own = {"dtype": dtype, "scale": scale, "offset": offset, "fill_as_nan": fill_as_nan, "fill": fill, "mean": mean,
                   "std": std, "padding": padding}
            own = _normalised(array, {key: _of_array(key, value, name, arrays) for key, value in own.items()})
            described = _described(array, own)
            boundaries = boundary if isinstance(boundary, Mapping) else {}

            def sizes(what: str, given: Mapping[str, int] | None, names: tuple[str, ...] = names) -> list[tuple[str, int]]:
                # A dimension that this array lacks, and another one has, is no mistake.
                return [(dim, size) for dim, size in _sizes(what, given) if dim in names or dim not in every_dim]

            self._arrays.append({
                "name": name, "array": array._core, "dims": list(zip(names, array.shape, strict=True)),
                "input_dims": sizes("input_dims", input_dims), "input_overlap": sizes("input_overlap", input_overlap),
                "input_stride": sizes("input_stride", input_stride), "batch_dims": sizes("batch_dims", batch_dims),
                "concat_input_dims": bool(concat_input_dims),
                "boundary": _choice("boundary", _BOUNDARIES, "drop" if boundaries else boundary),
                "boundary_of": [(dim, _choice("boundary", _BOUNDARIES, of)) for dim, of in boundaries.items()
                                if dim in names or dim not in every_dim],
                "outputs": [_output(output, of) for output, of in (outputs or {}).items()],
                "crops": sizes("crops", crops), "crops_per_frame": _count("crops_per_frame", crops_per_frame),
                "crop_wrap": list(crop_wrap), "crop_flip": list(crop_flip),
                "dtype": _dtypes.name_of(own["dtype"]), "scale": float(own["scale"]), "offset": float(own["offset"]),
                "fill_as_nan": bool(own["fill_as_nan"]), "damage_as_nan": on_damage == "nan",
                "missing": b"" if own["fill"] is None else np.asarray(own["fill"], array.dtype).tobytes(),
                "padding": np.asarray(own["padding"], _dtypes.to_numpy(described)).tobytes(),
                "stack": _stack_of(name, stack, arrays),
            })
        self._order = _order(shuffle, block_groups, samples, weights, draws)
        rank, world = _rank(rank, world)
        self._options: dict[str, Any] = {
            "rank": _count("rank", rank, 0), "world": _count("world", world), "reader_group": _count("reader_group", reader_group),
            "batch_size": _count("batch_size", batch_size), "tail": _choice("tail", _TAILS, tail), "seed": _count("seed", seed, 0),
            "read_together": 0 if read_together is None else _count("read_together", read_together),
            "read_ahead": _count("read_ahead", read_ahead), "memory_bytes": _count("memory_bytes", memory_bytes), "cache_bytes": _count("cache_bytes", cache_bytes, 0), "state": None,
            "cache_encoded": _choice("cache", {"decoded": 0, "encoded": 1}, cache) == 1,
            "channels_last": bool(channels_last), "skip_damage": _choice("on_damage", {"fail": 0, "skip": 1, "nan": 2}, on_damage) == 1,
        }
        self._core = self._made()
        self._started = False
        named = len({array for array, _, _, _ in self._core.tensors})
        self._names = [_tensor_name(array, output, named) for array, output, _, _ in self._core.tensors]

    def _made(self) -> Any:
        core = _core.make_loader(self._device, self._arrays, self._order, self._options)
        # When the first loop over it began and its last batch was given, by time.monotonic(): as long as it counts.
        self._loops: list[float] = []
        return core

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return self._core.batches

    def __iter__(self) -> Iterator[Batch]:
        if self._started and self._core.batches_left == 0:
            self._core.next()  # the epoch's end, which the last loop did not ask for
        elif self._started:
            # The last loop was left in the middle of its epoch.
            self._options["state"] = self._core.state(self._core.epoch + 1)
            self._core = self._made()
        self._started = True
        return self._epoch(self._core)

    def _epoch(self, core: Any) -> Iterator[Batch]:
        described = [(shape, dtype) for _, _, dtype, shape in core.tensors]
        self._loops = self._loops or [time.monotonic()] * 2
        while core is self._core:
            given = core.next()
            self._loops[1] = time.monotonic()
            if given is None:
                self._started = False
                return
            memories, samples, valid, epoch, number = given
            tensors = {name: Tensor(memory, shape, dtype)
                       for name, memory, (shape, dtype) in zip(self._names, memories, described, strict=True)}
            del given, memories
            batch = Batch(tensors, samples, valid, epoch, number)
            del tensors
            yield batch
            del batch

    @property
    def samples(self) -> int:
        """Samples in all, of all ranks."""
        return self._core.sample_count

    @property
    def epoch(self) -> int:
        return self._core.epoch

    def where(self, sample: int, *, epoch: int | None = None, array: str | None = None, output: str | None = None,
              window: int = 0) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
        """What a sample takes of an array: for each dimension the indices of its elements, in the tensor's order; -1 is padding.

            batch = next(iter(loader))
            times = group["time"][...][loader.where(batch.samples[0], epoch=batch.epoch)["time"]]

        epoch: in which crops lie where they do; the one that is given now. array, output: by name, the first ones.
        window: of a sample that has several.
        """
        names = [described["name"] for described in self._arrays]
        if array is not None and array not in names:
            raise InvalidArgumentError(f"where: there is no array {array!r}; arrays: {', '.join(map(repr, names))}")
        number = 0 if array is None else names.index(array)
        outputs = [part[0] for part in self._arrays[number]["outputs"]] or [""]
        if output is not None and output not in outputs:
            raise InvalidArgumentError(f"where: there is no output {output!r}; outputs: {', '.join(map(repr, outputs))}")
        slices = self._core.where(number, _count("sample", sample, 0), self.epoch if epoch is None else _count("epoch", epoch, 0),
                                  _count("window", window, 0), 0 if output is None else outputs.index(output))
        out = {}
        for (dim, _), (begin, count, step, wrapped, wrapped_count, padding, flipped) in zip(
                self._arrays[number]["dims"], slices, strict=True):
            indices = np.concatenate([begin + step * np.arange(count, dtype=np.int64), wrapped + step * np.arange(wrapped_count, dtype=np.int64),
                                      np.full(padding, -1, np.int64)])
            out[dim] = indices[::-1] if flipped else indices
        return out

    @property
    def stats(self) -> dict[str, Any]:
        """Batches given, batches skipped for a damaged chunk, seconds that the consumer waited, and what was read, since the
        loader was made or a state loaded."""
        batches, skipped, wait, reads = self._core.stats
        return {"batches": batches, "skipped": skipped, "wait_seconds": wait, "reads": reads}

    def summary(self) -> str:
        """In two sentences: whether the loop or the reading is the limit, and what was read, for as long as `stats` counts."""
        stats, (begin, end) = self.stats, self._loops or (0.0, 0.0)
        reads, wall, wait = stats["reads"], end - begin, stats["wait_seconds"]
        share = wait / wall if wall > 0 else 0.0
        limit = "reading is the limit" if share > 0.5 else "reading holds it up at times" if share > 0.05 else "the loop is the limit"
        chunks = reads.chunks + reads.missing_chunks + reads.kept_chunks
        kept = f", {reads.kept_chunks / chunks:.0%} of them kept decoded" if reads.kept_chunks else ""
        if reads.kept_encoded_chunks:
            kept += f", {reads.kept_encoded_chunks / chunks:.0%} kept encoded"
        skipped = f", {stats['skipped']} more skipped for damaged chunks" if stats["skipped"] else ""
        damaged = f", {reads.damaged_chunks} damaged and NaN" if reads.damaged_chunks else ""
        return (f"{stats['batches']} batches in {wall:.1f} s{skipped}; the loop waited for {wait:.1f} s of them ({share:.0%}): {limit}. "
                f"{chunks} chunks{kept}{damaged}; {reads.read_bytes / 1e9:.2f} GB read ({reads.path or 'nothing'}), "
                f"{reads.decoded_bytes / 1e9:.2f} GB delivered.")

    def state_dict(self) -> dict[str, Any]:
        """Where the loop is: behind the last batch it was given, whatever has been read ahead. A few hundred bytes."""
        return {"headrace": self._core.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on behind what the loader with this state had given, on any number of ranks."""
        try:
            text = state["headrace"]
        except (KeyError, TypeError):
            raise InvalidArgumentError("this is no state_dict() of a headrace.Loader") from None
        before, self._options["state"] = self._options["state"], text
        try:
            self._core = self._made()
        except Exception:
            self._options["state"] = before
            raise
        self._started = False

    def torch_dataset(self) -> Any:
        """A torch IterableDataset of the batches as dicts of torch tensors, for ``DataLoader(dataset, batch_size=None)``
        and torchdata's StatefulDataLoader, both without workers: this loader has threads of its own."""
        return _torch_dataset(self)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {shape}" for name, (_, _, _, shape) in zip(self._names, self._core.tensors, strict=True))
        return f"headrace.Loader({self.samples} samples, {len(self)} batches, {shapes}, device='{self._device.name}')"


def _torch_dataset(loader: Loader) -> Any:
    try:
        from torch.utils.data import IterableDataset, get_worker_info
    except ImportError:
        raise ImportError("Loader.torch_dataset() needs PyTorch: https://pytorch.org/get-started") from None

    class Dataset(IterableDataset):  # type: ignore[misc]
        def __iter__(self) -> Iterator[dict[str, Any]]:
            if get_worker_info() is not None:
                raise InvalidArgumentError("num_workers must be 0: a headrace.Loader reads with threads of its own, and no "
                                           "process forked from this one can use it")
            for batch in loader:
                yield batch.torch()

        def __len__(self) -> int:
            return len(loader)

        def state_dict(self) -> dict[str, Any]:
            return loader.state_dict()

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            loader.load_state_dict(state)

    return Dataset()


def _arrays_of(source: Any, input_dims: Mapping[str, int], dims: Sequence[str] | None,
               storage_options: Mapping[str, Any] | None) -> list[tuple[str, Array, tuple[str, ...]]]:
    if not isinstance(source, (Array, Group, Mapping)):
        source = open_node(source, storage_options=storage_options)
    elif storage_options:
        raise InvalidArgumentError("storage_options are for a path or URL; what is open has its own")
    named: list[tuple[str, Any]]
    if isinstance(source, Array):
        named = [((source.path or source.url.rstrip("/")).rpartition("/")[2].removesuffix(".zarr") or "data", source)]
    elif isinstance(source, Group):
        named = [(name, array) for name, array in source.arrays() if set(input_dims) <= set(_dims_of(array, dims) or ())]
        if not named:
            raise InvalidArgumentError(f"no array of {source!r} has the dimensions of input_dims: {', '.join(map(repr, input_dims))}")
    else:
        named = list(source.items())
    arrays = []
    for name, array in named:
        if not isinstance(array, Array):
            raise InvalidArgumentError(f"source[{name!r}] is a {type(array).__name__}; give a headrace.Array")
        names = _dims_of(array, dims)
        if names is None:
            raise InvalidArgumentError(f"the dimensions of array {name!r} have no names: give dims=, {array.ndim} of them")
        arrays.append((name, array, names))
    return arrays


def _dims_of(array: Array, given: Sequence[str] | None) -> tuple[str, ...] | None:
    if given is not None:
        return tuple(given) if len(given) == array.ndim else None
    names = [name for name in array.dims or () if isinstance(name, str)]
    return tuple(names) if names and len(names) == array.ndim else None


def _of_array(what: str, value: Any, name: str, arrays: list[tuple[str, Array, tuple[str, ...]]]) -> Any:
    if not isinstance(value, Mapping):
        return value
    known = [array for array, _, _ in arrays]
    for key in value:
        if key not in known:
            raise InvalidArgumentError(f"{what}: there is no array {key!r}; arrays: {', '.join(map(repr, known))}")
    return value.get(name, {"scale": 1.0, "offset": 0.0, "fill_as_nan": False, "padding": 0}.get(what))


def _normalised(array: Array, own: dict[str, Any]) -> dict[str, Any]:
    """Without mean and std, which are part of scale and offset."""
    mean, std = own.pop("mean"), own.pop("std")
    if mean is None and std is None:
        return own
    mean, std = float(0.0 if mean is None else mean), float(1.0 if std is None else std)
    if not (np.isfinite(mean) and np.isfinite(std) and std > 0):
        raise InvalidArgumentError(f"mean = {mean} and std = {std}: both have to be finite, and std above 0")
    own["scale"], own["offset"] = float(own["scale"]) / std, (float(own["offset"]) - mean) / std
    if own["dtype"] is None and array.dtype.kind != "f":
        own["dtype"] = "float32"
    return own


def _statistics(source: Any, names: list[str]) -> tuple[dict[str, float], dict[str, float]]:
    if not isinstance(source, Mapping):
        with open(source, encoding="utf-8") as file:
            source = json.load(file)
    try:
        found = source["arrays"]
        mean = {name: found[name]["mean"] for name in names}
        std = {name: found[name]["std"] for name in names}
    except (KeyError, TypeError) as missing:
        raise InvalidArgumentError(f"normalise: there is no mean and std of {missing}; arrays: {', '.join(map(repr, names))}") from None
    for name in names:
        if not isinstance(mean[name], float | int) or not isinstance(std[name], float | int):
            raise InvalidArgumentError(f"normalise: mean and std of {name!r} are not one number each, as headrace stats gives without --by")
    return mean, std


def _stack_of(name: str, stack: str | Mapping[str, Sequence[str]] | None, arrays: list[tuple[str, Array, tuple[str, ...]]]) -> str:
    if not isinstance(stack, Mapping):
        return stack or ""
    known = [array for array, _, _ in arrays]
    for channels in stack.values():
        for channel in channels:
            if channel not in known:
                raise InvalidArgumentError(f"stack: there is no array {channel!r}; arrays: {', '.join(map(repr, known))}")
    return next((to for to, channels in stack.items() if name in channels), "")


def _described(array: Array, own: Mapping[str, Any]) -> _dtypes.Described:
    return array._core.result_dtype(_dtypes.name_of(own["dtype"]), float(own["scale"]), float(own["offset"]),
                                    bool(own["fill_as_nan"]), False)


def _sizes(what: str, given: Mapping[str, int] | None) -> list[tuple[str, int]]:
    if given is None:
        return []
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"{what} is a {type(given).__name__}; give a mapping of dimensions to sizes")
    return [(str(dim), _count(f"{what}[{dim!r}]", size, 0)) for dim, size in given.items()]


def _count(what: str, value: Any, least: int = 1) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{what} is a {type(value).__name__}; give an integer") from None
    limit = 1 << (32 if what in ("rank", "world", "reader_group", "read_together", "read_ahead") else 64)
    if not least <= number < limit:
        raise InvalidArgumentError(f"{what} = {number} is not in {least} to {limit - 1}")
    return number


def _choice(what: str, choices: Mapping[str, int], named: Any) -> int:
    if named not in choices:
        raise InvalidArgumentError(f"{what} = {named!r}; choose one of {', '.join(map(repr, choices))}")
    return choices[named]


def _output(name: str, of: Mapping[str, Any]) -> tuple[str, str, int, int, int]:
    if not of:
        return name, "", 0, 1, 1
    if not isinstance(of, Mapping) or len(of) != 1:
        raise InvalidArgumentError(f"outputs[{name!r}] has to say a slice of one dimension: {{'time': slice(0, 3)}}")
    dim, part = next(iter(of.items()))
    if isinstance(part, slice):
        if part.stop is None:
            raise InvalidArgumentError(f"outputs[{name!r}]: the slice of {dim!r} needs an end")
        part = range(part.start or 0, part.stop, part.step or 1)
    elif hasattr(part, "__index__"):
        part = range(operator.index(part), operator.index(part) + 1)
    places = list(part)
    step = places[1] - places[0] if len(places) > 1 else 1
    if not places or places[0] < 0 or step < 1 or any(b - a != step for a, b in zip(places, places[1:], strict=False)):
        raise InvalidArgumentError(f"outputs[{name!r}]: {part!r} are no places of {dim!r} in even steps from 0 on")
    return name, str(dim), places[0], len(places), step


def _order(shuffle: bool | str, block_groups: int, samples: Sequence[int] | None, weights: Sequence[float] | None,
           draws: int) -> tuple[Any, ...]:
    if samples is not None and weights is not None:
        raise InvalidArgumentError("samples and weights are two ways to choose: give one of them")
    if shuffle not in (False, True, "full", "block"):
        raise InvalidArgumentError(f"shuffle = {shuffle!r}; choose False, True or 'block'")
    if (samples is not None or weights is not None) and shuffle == "block":
        raise InvalidArgumentError("shuffle='block' is for all samples, and not for samples or weights")
    if samples is not None:
        return "list", [_count("samples", number, 0) for number in samples], bool(shuffle)
    if weights is not None:
        return "weighted", [float(weight) for weight in weights], _count("draws", draws, 0)
    if shuffle == "block":
        return "block", _count("block_groups", block_groups)
    return ("full",) if shuffle else ("sequential",)


def _rank(rank: int | None, world: int | None) -> tuple[int, int]:
    if (rank is None) != (world is None):
        raise InvalidArgumentError("rank and world belong together: give both or neither")
    if rank is not None and world is not None:
        return rank, world
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _tensor_name(array: str, output: str, arrays: int) -> str:
    if not output:
        return array
    return output if arrays == 1 else f"{array}/{output}"
