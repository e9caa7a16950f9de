#!/usr/bin/env python3
"""Delivers training batches, page cache warm: headrace.Loader compared with loaders written over zarr and tensorstore, torch's and xbatcher.

  loader_compare.py SCRATCHDIR [--device host] [--frames 128] [--rounds 5] [--loaders a,b] [--json FILE] [--what TEXT]

The array is crops_compare.py's: FRAMES x 721 x 1440 float32 in chunks of a frame, Blosc lz4 with shuffle. Three workloads, one epoch each:

  frames    every frame once, shuffled, batches of 8
  windows   windows of 4 frames that overlap by 3, shuffled, batches of 4: a frame is part of four samples
  crops     16 boxes of 1 x 128 x 128 of each frame, batches of 64; frames are shuffled, and a frame's crops stay together

All loaders deliver the same samples in the order that headrace computes, except xbatcher and insitubatch, which have their own; sums of
elements are compared. Each prepares its next batches while one is consumed; consuming takes no time here. A figure is the median of the
rounds' samples per second, a lead the median of the per-round ratios; loaders take turns.

  headrace           headrace.Loader; for crops 4 batches are read together
  zarr-processes     one process per CPU makes batches with zarr-python in shared memory, like torch's DataLoader
  zarr-threads       the same with one thread per CPU
  tensorstore        all reads of a batch are started, two batches ahead
  torch              torch.utils.data.DataLoader: one persistent worker per CPU makes batches with zarr-python, two batches ahead each
  xbatcher           xbatcher.BatchGenerator over xarray and dask, a frame per dask chunk, a thread one batch ahead; sequential, no crops
  dali, physicsnemo, insitubatch   described in loader_peers.py

With --device cuda, batches end in device memory. headrace delivers them there; those of the others are copied from pinned memory, filled
by torch's DataLoader or by pin_memory(). An epoch ends when the device has summed up its last batch.

Needs numpy, numcodecs, zarr, tensorstore and headrace; torch, xbatcher with dask, nvidia-dali-cuda130, nvidia-physicsnemo and insitubatch
for their loaders, and torch for --device cuda.
Exit code 1 if headrace is not four times as fast as the loaders over zarr.
"""

from __future__ import annotations

import argparse
import atexit
import collections
import functools
import json
import multiprocessing
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from importlib.metadata import version
from multiprocessing import shared_memory
from operator import truediv
from typing import Any, NamedTuple

import numpy as np
from crops_compare import COLUMNS, ROWS, prepare
from loader_parts import AHEAD, Batches, Box, Boxes, kept_ahead, make_batch, opened, shape_of, workers
from loader_peers import PACKAGES, PEERS

import headrace

TARGET = 4.0
OWN_ORDER = ("xbatcher", "insitubatch")  # loaders that take no order


class Sums(NamedTuple):
    samples: int
    total: float
    ordered: float  # batches are weighted with their numbers


OPTIONS: dict[str, dict[str, Any]] = {
    "frames": {"input_dims": {"time": 1}, "batch_size": 8, "shuffle": True},
    "windows": {"input_dims": {"time": 4}, "input_overlap": {"time": 3}, "batch_size": 4, "shuffle": True},
    "crops": {"input_dims": {"time": 1}, "crops": {"lat": 128, "lon": 128}, "crops_per_frame": 16, "batch_size": 64,
              "shuffle": "block", "block_groups": 16, "read_together": 4},
}


def open_loader(path: pathlib.Path, name: str, seed: int, device: str = "host") -> headrace.Loader:
    return headrace.Loader(path, dims=["time", "lat", "lon"], seed=seed, device=device, **OPTIONS[name])


def boxes_of(name: str, seed: int) -> Callable[[int], Box]:
    """Returns a function from a sample number to its box of the array."""
    if name != "crops":
        frames = OPTIONS[name]["input_dims"]["time"]
        return lambda i: (slice(i, i + frames),)
    random = np.random.default_rng(seed)

    def crop(i: int) -> Box:
        # Other places of the same frames than headrace draws: the amount to read and decode is equal.
        row, column = int(random.integers(ROWS - 127)), int(random.integers(COLUMNS - 127))
        return slice(i // 16, i // 16 + 1), slice(row, row + 128), slice(column, column + 128)

    return crop


def make_shared_batch(path: str, name: str, boxes: Boxes) -> None:
    array, memory = opened(path), shared_memory.SharedMemory(name=name)
    out = np.ndarray((len(boxes), *shape_of(boxes[0])), "f4", memory.buf)
    for place, box in enumerate(boxes):
        out[place] = array[box]
    del out
    memory.close()


def with_processes(path: pathlib.Path) -> Batches:
    pool = ProcessPoolExecutor(workers(), multiprocessing.get_context("spawn"), opened, (str(path),))
    slots: dict[int, list[shared_memory.SharedMemory]] = {}

    def batches(epoch: list[Boxes]) -> Iterator[np.ndarray[Any, Any]]:
        bytes_of = 4 * len(epoch[0]) * int(np.prod(shape_of(epoch[0][0])))
        count = workers() * AHEAD + 1
        ring = slots.setdefault(bytes_of, [shared_memory.SharedMemory(create=True, size=bytes_of) for _ in range(count)]
                                if bytes_of not in slots else [])
        waiting: collections.deque[tuple[Any, int, Boxes]] = collections.deque()
        for number, boxes in enumerate(epoch):
            waiting.append((pool.submit(make_shared_batch, str(path), ring[number % count].name, boxes), number % count, boxes))
            if len(waiting) == count:
                yield from finished(waiting, ring)
        while waiting:
            yield from finished(waiting, ring)

    def unlink() -> None:
        pool.shutdown()
        for ring in slots.values():
            for slot in ring:
                slot.close()
                slot.unlink()

    atexit.register(unlink)

    def finished(waiting: Any, ring: Any) -> Iterator[np.ndarray[Any, Any]]:
        made, slot, boxes = waiting.popleft()
        made.result()
        yield np.ndarray((len(boxes), *shape_of(boxes[0])), "f4", ring[slot].buf)

    return batches


def with_threads(path: pathlib.Path) -> Batches:
    opened(str(path))
    pool = ThreadPoolExecutor(workers())

    def batches(epoch: list[Boxes]) -> Iterator[np.ndarray[Any, Any]]:
        for job in kept_ahead((pool.submit(make_batch, str(path), boxes) for boxes in epoch), workers() * AHEAD):
            yield job.result()

    return batches


def with_tensorstore(path: pathlib.Path) -> Batches:
    import tensorstore as ts

    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}
    array = ts.open(spec, context=ts.Context({"cache_pool": {"total_bytes_limit": 0}}), read=True).result()

    def begin(boxes: Boxes) -> list[Any]:
        return [array[box].read() for box in boxes]

    def batches(epoch: list[Boxes]) -> Iterator[np.ndarray[Any, Any]]:
        for reads in kept_ahead(map(begin, epoch), AHEAD):
            yield np.stack([read.result() for read in reads])

    return batches


class ZarrBatches:
    """The dataset of torch's workers: an index is the list of a batch's boxes."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = str(path)

    def __getitem__(self, boxes: Boxes) -> Any:
        import torch

        return torch.from_numpy(make_batch(self.path, boxes))


def with_torch(path: pathlib.Path, pinned: bool) -> Batches:
    from torch.utils.data import DataLoader

    sampler: list[Boxes] = []  # indexes of ZarrBatches: replaced each epoch, while the workers persist
    loader: Any = DataLoader(
        ZarrBatches(path), batch_size=None, sampler=sampler, num_workers=workers(), prefetch_factor=AHEAD,
        persistent_workers=True, pin_memory=pinned, multiprocessing_context="spawn")

    def batches(epoch: list[Boxes]) -> Iterator[Any]:
        sampler[:] = epoch
        return iter(loader)

    return batches


def with_xbatcher(path: pathlib.Path) -> Batches:
    import dask
    import dask.array
    import xarray as xr
    import xbatcher

    dask.config.set(scheduler="threads", num_workers=workers())
    field = xr.DataArray(dask.array.from_array(opened(str(path)), chunks=(1, ROWS, COLUMNS)), dims=["time", "lat", "lon"])

    def batches(epoch: list[Boxes]) -> Iterator[Any]:
        frames = shape_of(epoch[0][0])[0]
        generator = xbatcher.BatchGenerator(
            field, {"time": frames, "lat": ROWS, "lon": COLUMNS}, {"time": frames - 1} if frames > 1 else {},
            preload_batch=False)
        size = len(epoch[0])
        windows = len(generator) // size * size

        def made(first: int) -> np.ndarray[Any, Any]:
            return np.stack(dask.compute(*(generator[i].data for i in range(first, first + size))))

        # One thread prepares the next batches; dask's threads decode their chunks.
        with ThreadPoolExecutor(1) as ahead:
            for job in kept_ahead((ahead.submit(made, first) for first in range(0, windows, size)), AHEAD):
                yield job.result()

    return batches


def run(make: Callable[[], Iterator[Any]]) -> tuple[float, Sums]:
    """Runs an epoch. Returns its seconds, including all reading, and the sums of its samples' first elements."""
    begin, samples, total, ordered = time.perf_counter(), 0, 0.0, 0.0
    for number, batch in enumerate(make()):
        samples += batch.shape[0]
        part = batch[:, 0, 0, 0].sum()
        total += part
        ordered += part * (number + 1)
    sums = Sums(samples, float(total), float(ordered))  # waits for the device
    return time.perf_counter() - begin, sums


def first_elements(path: pathlib.Path, boxes: Boxes) -> np.ndarray[Any, Any]:
    """The first element of each box, read with zarr-python, each frame once."""
    array = opened(str(path))
    places: dict[int, list[int]] = {}
    for place, box in enumerate(boxes):
        places.setdefault(box[0].start, []).append(place)
    out = np.empty(len(boxes))

    def fill(frame: int) -> None:
        field = array[frame]
        for place in places[frame]:
            _, row, column = [*(edge.start for edge in boxes[place]), 0, 0][:3]
            out[place] = field[row, column]

    with ThreadPoolExecutor(workers()) as pool:
        list(pool.map(fill, places))
    return out


def check(name: str, sums: dict[str, Sums], epoch: list[Boxes], others: dict[str, Batches], path: pathlib.Path) -> None:
    """Fails if a loader gave other samples, or gave them in another order without having an order of its own."""
    parts = first_elements(path, [box for boxes in epoch for box in boxes]).reshape(len(epoch), -1).sum(1)
    for each, one in sums.items():
        assert one.samples == sums["headrace"].samples, f"{name}: {each} gives {one.samples} samples"
        if name == "crops" and each == "headrace":
            continue  # its crops are at other places
        total = parts.sum()
        if name == "windows" and each in OWN_ORDER:
            # The windows that fill no batch are others than with headrace.
            frames = getattr(others[each], "frames", range(one.samples))
            assert len(set(frames)) == one.samples, f"{name}: {each} repeats samples"
            total = first_elements(path, [(slice(frame, frame + 1),) for frame in frames]).sum()
        assert np.isclose(one.total, total, atol=0.01), f"{name}: {each} reads something else"
        ordered = (parts * np.arange(1, len(parts) + 1)).sum()
        assert each in OWN_ORDER or np.isclose(one.ordered, ordered, atol=0.1), f"{name}: {each} has another order"


def device_name(device: str) -> str:
    if device == "host":
        return device
    import torch

    return str(torch.cuda.get_device_name(device))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--frames", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loaders", default="zarr-processes,zarr-threads,tensorstore")
    parser.add_argument("--device", default="host")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--what", default="", help="what the JSON file should say about the run, such as other load")
    args = parser.parse_args()
    path = args.scratch / f"loader-{args.frames}"
    stored = prepare(path, args.frames)
    makers: dict[str, Callable[[pathlib.Path], Any]] = {
        "zarr-processes": with_processes, "zarr-threads": with_threads, "tensorstore": with_tensorstore,
        "torch": lambda path: with_torch(path, args.device != "host"), "xbatcher": with_xbatcher,
        **{name: functools.partial(make, device=args.device) for name, make in PEERS.items()}}
    others = {name: makers[name](path) for name in args.loaders.split(",") if name}

    def placed(batches: Iterator[Any]) -> Iterator[Any]:
        """Moves host batches to the device."""
        if args.device == "host":
            yield from batches
            return
        import torch

        for batch in batches:
            tensor = batch if torch.is_tensor(batch) else torch.from_numpy(batch).pin_memory()
            yield tensor.to(args.device, non_blocking=True)

    report: dict[str, Any] = {}
    least = float("inf")
    for name in ("frames", "windows", "crops"):
        rates: dict[str, list[float]] = {loader: [] for loader in ["headrace", *others]}
        for number in range(args.rounds + 1):
            # The others get headrace's order without computing it.
            box_of = boxes_of(name, number)
            epoch = [[box_of(sample) for sample in batch.samples] for batch in open_loader(path, name, number)]

            def headrace_batches(name: str = name, number: int = number) -> Iterator[Any]:
                if args.device == "host":
                    from_dlpack = np.from_dlpack
                else:
                    from torch import from_dlpack
                for batch in open_loader(path, name, number, args.device):
                    yield from_dlpack(next(iter(batch.values())))

            names = [each for each in rates if each != "xbatcher" or name != "crops"]
            sums: dict[str, Sums] = {}
            for each in names[number % len(names):] + names[:number % len(names)]:
                took, sums[each] = run(headrace_batches if each == "headrace" else lambda each=each: placed(others[each](epoch)))
                if number > 0:  # the first round starts threads and processes and allocates memory
                    rates[each].append(sums[each].samples / took)
            check(name, sums, epoch, others, path)
        rates = {each: figures for each, figures in rates.items() if figures}
        lead = {each: statistics.median(map(truediv, rates["headrace"], rates[each])) for each in rates}
        report[name] = {each: {"samples_per_second": statistics.median(rates[each]), "lead_over": lead[each], "rounds": rates[each]}
                        for each in rates}
        for each in rates:
            print(f"{name:8s} {each:16s} {statistics.median(rates[each]):9.1f} samples/s, x {lead[each]:.2f}", flush=True)
        least = min([least, *(lead[each] for each in rates if each.startswith(("zarr", "torch", "xbatcher")))])
    if least < float("inf"):
        print(f"headrace is at least {least:.2f} times as fast as the loaders over zarr")
    if args.json:
        given = " ".join(sys.argv[2:]).replace(str(args.json), "FILE").replace(f" --what {args.what}", "")
        about = {
            **({"what": args.what} if args.what else {}),
            "command": f"loader_compare.py SCRATCHDIR {given}",
            "cpus": workers(), "machine": platform.machine(), "load_average": os.getloadavg(),
            "python": platform.python_version(), "array": [args.frames, ROWS, COLUMNS], "stored_bytes": stored,
            "device": device_name(args.device),
            "versions": {package: version(package) for package in ["zarr", "tensorstore", "numcodecs", "numpy", *(
                package for name in others for package in PACKAGES.get(name, [name] if name in ("torch", "xbatcher") else []))]},
            "workloads": report,
        }
        args.json.write_text(json.dumps(about, indent=1) + "\n")
    return 0 if least >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
