#!/usr/bin/env python3
"""Reads whole arrays into NumPy through zarr-python, page cache warm: headrace's codec pipeline compared with zarr's own (batched and
fused) and zarrs', and tensorstore for comparison.

  zarr_compare.py SCRATCHDIR [--layouts a,b] [--readers a,b] [--rounds 9] [--json FILE]

On a shared machine: chrt -f 10 zarr_compare.py ...
Writes an array of 64 x 721 x 1440 float32 (266 MB) in ten layouts into SCRATCHDIR, 1.8 GB in all, unless they exist.
Readers take turns within a round, so that other load affects all of them. A time is the median of the rounds, a lead the
median of the per-round ratios, CPU the minimum of the rounds (user and system, all threads). Every reader's first read is
compared with the source. Also measures reads of one 64 KiB chunk, and their cost without any pipeline.

Needs zarr, zarrs, tensorstore and headrace. Exit code 1 if a target is missed: faster than zarrs in every layout, by 1.3 on
uncompressed and on 64 KiB chunks, and 4 times as fast as zarr's own pipeline on shards.
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
from importlib.metadata import version
from operator import truediv
from typing import Any

import numpy as np
import zarr
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline

import headrace.zarr  # noqa: F401 - registers the pipeline

SHAPE, FIELD, TILE, SHARD = (64, 721, 1440), (1, 721, 1440), (1, 91, 180), (8, 728, 1440)
PIPELINES = {
    "headrace": "headrace.zarr.HeadracePipeline",
    "zarrs": "zarrs.ZarrsCodecPipeline",
    "zarr": "zarr.core.codec_pipeline.BatchedCodecPipeline",
    "zarr-fused": "zarr.core.codec_pipeline.FusedCodecPipeline",
}


class Nothing(BatchedCodecPipeline):
    async def read(self, batch_info: Any, out: Any, drop_axes: tuple[int, ...] = ()) -> Any:
        return ({"status": "present"},) * len(list(batch_info))


register_pipeline(Nothing)
# Slow readers get fewer rounds.
SELDOM = {"zarr": 3, "zarr-fused": 3}


def layouts() -> dict[str, dict[str, Any]]:
    import numcodecs

    zstd = zarr.codecs.ZstdCodec(level=3)
    lz4, blosc_zstd = numcodecs.Blosc("lz4", 5, 1), numcodecs.Blosc("zstd", 5, 1)
    return {
        "v2_raw": {"zarr_format": 2, "chunks": FIELD, "compressors": None},
        "v2_blosc_lz4": {"zarr_format": 2, "chunks": FIELD, "compressors": lz4},
        "v2_blosc_zstd": {"zarr_format": 2, "chunks": FIELD, "compressors": blosc_zstd},
        "v3_raw": {"chunks": FIELD, "compressors": None},
        "v3_zstd3": {"chunks": FIELD, "compressors": zstd},
        "v3_shard_raw": {"chunks": TILE, "shards": SHARD, "compressors": None},
        "v3_shard_zstd": {"chunks": TILE, "shards": SHARD, "compressors": zstd},
        "small_v3_raw": {"chunks": TILE, "compressors": None},
        "small_v3_zstd": {"chunks": TILE, "compressors": zstd},
        "small_v2_blosc_lz4": {"zarr_format": 2, "chunks": TILE, "compressors": lz4},
    }


def target_over_zarrs(layout: str) -> float:
    return 1.3 if "raw" in layout or "small" in layout else 1.0


def field() -> np.ndarray[Any, Any]:
    """A smooth field with fine noise of fixed absolute precision, as in the output of weather models."""
    random = np.random.default_rng(0)
    y = np.linspace(-np.pi / 2, np.pi / 2, SHAPE[1])[:, None]
    x = np.linspace(0, 2 * np.pi, SHAPE[2])[None]
    eddies = np.kron(random.normal(0, 1, (SHAPE[1] // 4 + 1, SHAPE[2] // 4)), np.ones((4, 4)))[: SHAPE[1]]
    out = np.empty(SHAPE, "float32")
    for i in range(SHAPE[0]):
        values = 280 + 30 * np.cos(y) + 5 * np.sin(3 * x + i / 10) * np.cos(2 * y)
        values += np.roll(eddies, 3 * i, 1) + random.normal(0, 0.04, SHAPE[1:])
        out[i] = np.round(values * 512) / 512
    return out


def prepare(scratch: pathlib.Path, wanted: list[str]) -> np.ndarray[Any, Any]:
    scratch.mkdir(parents=True, exist_ok=True)
    truth = scratch / "truth.npy"
    if not truth.exists():
        np.save(truth, field())
    data = np.load(truth, mmap_mode="r")
    for name in wanted:
        if not (scratch / name).exists():
            zarr.create_array(scratch / name, shape=SHAPE, dtype="float32", fill_value=0, **layouts()[name])[...] = data
    return data


def opener(reader: str, path: pathlib.Path) -> Callable[[], Any]:
    if reader == "tensorstore":
        import tensorstore

        driver = "zarr" if (path / ".zarray").exists() else "zarr3"
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}
        context = tensorstore.Context({"cache_pool": {"total_bytes_limit": 0}})
        store = tensorstore.open(spec, context=context, read=True).result()
        return lambda: store.read().result()
    if reader == "zarrs":
        import zarrs  # noqa: F401
    with zarr.config.set({"codec_pipeline.path": PIPELINES[reader], "headrace.strict": True}):
        array = zarr.open_array(path, mode="r")
    return lambda: array[...]


def warm(path: pathlib.Path) -> None:
    """Reads all files into the page cache, since the kernel may have evicted pages."""
    for file in path.rglob("*"):
        if file.is_file():
            file.read_bytes()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def compare(scratch: pathlib.Path, layout: str, readers: list[str], rounds: int, truth: Any) -> dict[str, Any]:
    reads = {reader: opener(reader, scratch / layout) for reader in readers}
    for reader, read in reads.items():
        assert np.array_equal(read(), truth), f"{reader} reads {layout} wrong"
    wall: dict[str, list[float]] = {reader: [] for reader in readers}
    cpu: dict[str, list[float]] = {reader: [] for reader in readers}
    for number in range(rounds):
        for reader, read in reads.items():
            if number >= SELDOM.get(reader, rounds):
                continue
            warm(scratch / layout)
            used, start = cpu_seconds(), time.perf_counter()
            result = read()
            wall[reader].append(time.perf_counter() - start)
            cpu[reader].append(cpu_seconds() - used)
            del result
    lead = {
        reader: statistics.median(map(truediv, wall[reader], wall["headrace"]))
        for reader in readers
        if reader != "headrace" and "headrace" in readers
    }
    return {
        "layout": layout,
        "median_seconds": {reader: statistics.median(times) for reader, times in wall.items()},
        "least_cpu_seconds": {reader: min(times) for reader, times in cpu.items()},
        "rounds_seconds": wall,
        "lead_over": lead,
    }


def one_chunk(scratch: pathlib.Path, readers: list[str], count: int = 1500) -> dict[str, Any]:
    """Reads one uncompressed 64 KiB chunk, readers taking turns. "nothing": a pipeline that reads nothing."""
    times: dict[str, list[float]] = {}
    arrays = {}
    for reader in [*(reader for reader in readers if reader in PIPELINES), "nothing"]:
        with zarr.config.set({"codec_pipeline.path": PIPELINES.get(reader, f"{__name__}.Nothing")}):
            arrays[reader] = zarr.open_array(scratch / "small_v3_raw", mode="r")
        times[reader] = []
    for number in range(count + 10):
        for reader, array in arrays.items():
            start = time.perf_counter()
            array[3:4, 91:182, 180:360]
            if number >= 10:
                times[reader].append(time.perf_counter() - start)
    lead = {reader: statistics.median(map(truediv, times[reader], times["headrace"])) for reader in arrays if "headrace" in arrays}
    return {"median_microseconds": {reader: statistics.median(each) * 1e6 for reader, each in times.items()},
            "least_microseconds": {reader: min(each) * 1e6 for reader, each in times.items()}, "lead_over": lead}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--layouts", default=",".join(layouts()))
    parser.add_argument("--readers", default="headrace,zarrs,tensorstore,zarr,zarr-fused")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    wanted, readers = args.layouts.split(","), args.readers.split(",")
    truth = prepare(args.scratch, wanted)
    missed = []
    results = []
    for layout in wanted:
        row = compare(args.scratch, layout, readers, args.rounds, truth)
        results.append(row)
        print(f"{layout:20s}" + "".join(f"  {r} {s * 1e3:.0f} ms" for r, s in row["median_seconds"].items()), flush=True)
        print(" " * 20 + "".join(f"  {reader} x {lead:.2f}" for reader, lead in row["lead_over"].items()), flush=True)
        if row["lead_over"].get("zarrs", 9) < target_over_zarrs(layout):
            missed.append(f"{layout}: {row['lead_over']['zarrs']:.2f} times zarrs, not {target_over_zarrs(layout)}")
        if "shard" in layout and row["lead_over"].get("zarr", 9) < 4:
            missed.append(f"{layout}: {row['lead_over']['zarr']:.2f} times zarr's own pipeline, not 4")
    single = one_chunk(args.scratch, readers) if "small_v3_raw" in wanted else {}
    for reader, us in single.get("median_microseconds", {}).items():
        print(f"one chunk of 64 KiB: {reader} {us:.0f} us, at best {single['least_microseconds'][reader]:.0f}, "
              f"x {single['lead_over'].get(reader, 0):.2f}")
    if single and single["lead_over"].get("zarrs", 9) < 1.3:
        missed.append(f"one chunk of 64 KiB: {single['lead_over']['zarrs']:.2f} times zarrs, not 1.3")
    print("missed: " + "; ".join(missed) if missed else "every target met")
    if args.json:
        command = "zarr_compare.py SCRATCHDIR " + " ".join(a for a in sys.argv[2:])
        about = {
            "command": command.replace(str(args.json), "FILE"),
            "cpus": os.cpu_count(),
            "machine": platform.machine(),
            "load_average": os.getloadavg(),
            "python": platform.python_version(),
            "versions": {name: version(name) for name in ("zarr", "zarrs", "tensorstore", "numcodecs", "numpy")},
            "decoded_bytes": truth.nbytes,
            "results": results,
            "one_chunk": single,
            "missed": missed,
        }
        args.json.write_text(json.dumps(about, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
