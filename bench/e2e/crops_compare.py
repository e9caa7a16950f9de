#!/usr/bin/env python3
"""Reads random crops of large Blosc chunks into host memory, page cache warm: headrace compared with tensorstore and zarrs.

  crops_compare.py SCRATCHDIR [--frames 512] [--crops 64] [--rounds 15] [--readers a,b] [--json FILE]

Writes an array of FRAMES x 721 x 1440 float32 in chunks of one frame (v2, Blosc lz4 with shuffle; 3.5 MB stored each) into SCRATCHDIR
unless it exists. Each round draws CROPS boxes of 4 x 128 x 128, which each reader in turn reads into separate memory, in the order of
the round; the results of every round are compared. A time is the median of the rounds, a lead the median of the per-round ratios,
CPU the minimum of the rounds (user and system, all threads).

  headrace           Array.read_many, one call
  headrace-whole     the same with verify="whole": every chunk is decoded completely
  tensorstore        all reads are started, then waited for; no cache
  tensorstore-cache  the same with an initially empty cache of 1 GB, so that a chunk is decoded once for all crops
  zarrs              zarr-python with zarrs' pipeline, one crop after the other, each with all threads
  zarrs-threads      the same with one Python thread per CPU

Needs numpy, numcodecs, zarr, zarrs, tensorstore and headrace. Exit code 1 if headrace is not three times as fast as the best other reader.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from operator import truediv
from typing import Any

import numpy as np

ROWS, COLUMNS, CROP = 721, 1440, (4, 128, 128)
TARGET = 3.0
Boxes = list[tuple[slice, slice, slice]]
Read = Callable[[Boxes], list[Any]]


def interpolation(points: int, known: int) -> np.ndarray[Any, Any]:
    """The matrix that interpolates `known` values linearly to `points` values."""
    at = np.linspace(0, known - 1, points)
    left = np.minimum(at.astype(int), known - 2)
    out = np.zeros((points, known), "f4")
    out[np.arange(points), left] = 1 - (at - left)
    out[np.arange(points), left + 1] = at - left
    return out


def prepare(path: pathlib.Path, frames: int) -> int:
    """Writes a smooth field with full-precision noise. Returns the number of stored bytes."""
    from numcodecs import Blosc

    codec = Blosc("lz4", 5, 1)
    path.mkdir(parents=True, exist_ok=True)
    metadata = {
        "zarr_format": 2, "shape": [frames, ROWS, COLUMNS], "chunks": [1, ROWS, COLUMNS], "dtype": "<f4",
        "compressor": codec.get_config(), "fill_value": 0.0, "filters": None, "order": "C",
    }
    (path / ".zarray").write_text(json.dumps(metadata))
    north, east = interpolation(ROWS, 61), interpolation(COLUMNS, 121).T

    def make(frame: int) -> int:
        file = path / f"{frame}.0.0"
        if not file.exists():
            random = np.random.default_rng(frame)
            field = (north @ random.standard_normal((61, 121), dtype="f4") @ east) * 20
            field += random.standard_normal((ROWS, COLUMNS), dtype="f4") * np.float32(0.3)
            file.write_bytes(codec.encode(np.ascontiguousarray(field, "f4")))
        return len(file.read_bytes())  # fills the page cache

    with ThreadPoolExecutor() as pool:
        return sum(pool.map(make, range(frames)))


def open_headrace(path: pathlib.Path, verify: str) -> Read:
    import headrace

    array = headrace.open(str(path))
    return lambda boxes: array.read_many(boxes, verify=verify)


def open_tensorstore(path: pathlib.Path, cached: bool) -> Read:
    import tensorstore as ts

    def opened() -> Any:
        context = ts.Context({"cache_pool": {"total_bytes_limit": 10**9 if cached else 0}})
        spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}
        return ts.open(spec, context=context, read=True).result()

    once = opened()

    def read(boxes: Boxes) -> list[Any]:
        array = opened() if cached else once  # reopened, so that nothing is cached from earlier rounds
        return [each.result() for each in [array[box].read() for box in boxes]]

    return read


def open_zarrs(path: pathlib.Path, threads: int) -> Read:
    import zarr
    import zarrs  # noqa: F401

    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}):
        array: Any = zarr.open_array(str(path), mode="r")
    if threads == 1:
        return lambda boxes: [array[box] for box in boxes]
    pool = ThreadPoolExecutor(threads)
    return lambda boxes: list(pool.map(lambda box: array[box], boxes))


def readers(path: pathlib.Path) -> dict[str, Callable[[], Read]]:
    cpus = len(os.sched_getaffinity(0))
    return {
        "headrace": lambda: open_headrace(path, "as_read"),
        "headrace-whole": lambda: open_headrace(path, "whole"),
        "tensorstore": lambda: open_tensorstore(path, False),
        "tensorstore-cache": lambda: open_tensorstore(path, True),
        "zarrs": lambda: open_zarrs(path, 1),
        "zarrs-threads": lambda: open_zarrs(path, cpus),
    }


def draw(random: np.random.Generator, frames: int, crops: int) -> Boxes:
    shape = (frames, ROWS, COLUMNS)
    begins = [[int(random.integers(shape[axis] - CROP[axis] + 1)) for axis in range(3)] for _ in range(crops)]
    return [tuple(slice(at, at + size) for at, size in zip(begin, CROP, strict=True)) for begin in begins]  # type: ignore[misc]


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--frames", type=int, default=512)
    parser.add_argument("--crops", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--readers", default="")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    path = args.scratch / "crops"
    stored = prepare(path, args.frames)
    wanted = args.readers.split(",") if args.readers else list(readers(path))
    reads = {name: make() for name, make in readers(path).items() if name in wanted}
    wall: dict[str, list[float]] = {name: [] for name in reads}
    cpu: dict[str, list[float]] = {name: [] for name in reads}
    random = np.random.default_rng(20261126)
    for number in range(args.rounds + 1):
        boxes = draw(random, args.frames, args.crops)
        first: list[Any] | None = None
        names = list(reads)
        for name in names[number % len(names):] + names[:number % len(names)]:
            used, start = cpu_seconds(), time.perf_counter()
            result = reads[name](boxes)
            took, worked = time.perf_counter() - start, cpu_seconds() - used
            if number > 0:  # the first round starts threads and allocates memory
                wall[name].append(took)
                cpu[name].append(worked)
            first = result if first is None else first
            for one, other in zip(result, first, strict=True):
                assert np.array_equal(np.asarray(one), np.asarray(other)), f"{name} reads something else"
    peers = [name for name in reads if not name.startswith("headrace")]
    lead = {name: statistics.median(map(truediv, wall[name], wall["headrace"])) for name in reads if "headrace" in reads}
    for name in reads:
        print(f"{name:18s} {statistics.median(wall[name]) * 1e3:8.1f} ms, CPU {min(cpu[name]) * 1e3:8.1f} ms, x {lead.get(name, 0):.2f}")
    least = min((lead[name] for name in peers if name in lead), default=0.0)
    print(f"headrace is {least:.2f} times as fast as the best of the others")
    if args.json:
        about = {
            "command": "crops_compare.py SCRATCHDIR " + " ".join(sys.argv[2:]).replace(str(args.json), "FILE"),
            "cpus": len(os.sched_getaffinity(0)),
            "machine": platform.machine(),
            "load_average": os.getloadavg(),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in ("zarr", "zarrs", "tensorstore", "numcodecs", "numpy")},
            "array": [args.frames, ROWS, COLUMNS],
            "stored_bytes": stored,
            "crops": args.crops,
            "crop": CROP,
            "delivered_bytes": args.crops * int(np.prod(CROP)) * 4,
            "median_seconds": {name: statistics.median(times) for name, times in wall.items()},
            "least_cpu_seconds": {name: min(times) for name, times in cpu.items()},
            "rounds_seconds": wall,
            "lead_over": lead,
        }
        args.json.write_text(json.dumps(about, indent=1) + "\n")
    return 0 if least >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
