#!/usr/bin/env python3
"""Times whole-array reads into host memory by other Zarr readers, page cache warm.

  peers.py DATADIR [--readers ts,zarrs] [--layouts NAME,...] [--n 5] [--json FILE]

DATADIR comes from gen_bench_data.py. Readers: ts (tensorstore), zarrs (zarr-python with the zarrs codec pipeline), zarr (zarr-python's
own pipeline). Destinations: "fresh" lets the reader allocate its result, including page faults; "touched" provides an array that was
written before, so that only the read is timed. The first read of each is untimed, and its SHA-256 is checked.
GB/s is 10^9 decoded bytes per second of wall time.
"""
import argparse
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import resource
import statistics
import sys
import time

import numpy as np


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def busy_seconds():
    """CPU time of the whole machine, to detect other load."""
    with open("/proc/stat") as file:
        ticks = [int(x) for x in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def open_tensorstore(path, threads):
    import tensorstore

    context = {"cache_pool": {"total_bytes_limit": 0}}  # every read decodes again
    if threads:
        context["data_copy_concurrency"] = {"limit": threads}
        context["file_io_concurrency"] = {"limit": max(threads, 4)}
    driver = "zarr" if (path / ".zarray").exists() else "zarr3"
    store = tensorstore.open({"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}, read=True,
                             context=tensorstore.Context(context)).result()

    def into(out):
        tensorstore.array(out, copy=False).write(store).result()
    return (lambda: store.read().result()), into


def open_zarr(path, threads, pipeline):
    import zarr
    from zarr.core.buffer import default_buffer_prototype

    zarr.config.set({"codec_pipeline.path": pipeline})
    if threads:
        zarr.config.set({"threading.max_workers": threads, "codec_pipeline.chunk_concurrent_maximum": threads})
    array = zarr.open_array(str(path), mode="r")
    wrap = default_buffer_prototype().nd_buffer.from_numpy_array
    return (lambda: array[...]), (lambda out: array.get_basic_selection(..., out=wrap(out)))


def open_reader(reader, path, threads):
    if reader == "ts":
        return open_tensorstore(path, threads)
    if reader == "zarrs":
        import zarrs  # noqa: F401

        return open_zarr(path, threads, "zarrs.ZarrsCodecPipeline")
    return open_zarr(path, threads, "zarr.core.codec_pipeline.BatchedCodecPipeline")


def timed(action):
    others, cpu, start = busy_seconds(), cpu_seconds(), time.perf_counter()
    result = action()
    wall = time.perf_counter() - start
    cpu = cpu_seconds() - cpu
    return result, wall, cpu, max(0.0, busy_seconds() - others - cpu)


def measure(reader, path, truth, destination, n, threads):
    fresh, into = open_reader(reader, path, threads)
    out = None
    if destination == "touched":
        out = np.full(truth["shape"], 1, truth["dtype"])
        action = lambda: into(out)  # noqa: E731
    else:
        action = fresh
    first = action()
    data = out if out is not None else first
    if hashlib.sha256(np.ascontiguousarray(data)).hexdigest() != truth["sha256"]:
        raise ValueError("other bytes")
    del data, first
    walls, cpus, others = [], [], []
    for _ in range(n):
        result, wall, cpu, other = timed(action)
        del result
        walls.append(wall)
        cpus.append(cpu)
        others.append(other)
    return walls, cpus, others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--readers", default="ts,zarrs")
    parser.add_argument("--layouts", default="", help="default: all in truth.json")
    parser.add_argument("--destinations", default="fresh,touched")
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: each reader's own default")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    truth = json.loads((args.data / "truth.json").read_text())
    rows, failed = [], 0
    for layout in args.layouts.split(",") if args.layouts else truth["layouts"]:
        for reader in args.readers.split(","):
            for destination in args.destinations.split(","):
                row = {"reader": reader, "layout": layout, "destination": destination}
                try:
                    walls, cpus, others = measure(reader, args.data / layout, truth, destination, args.n, args.threads)
                except Exception as error:  # noqa: BLE001 - a reader's failure is a result, too
                    failed += 1
                    row["error"] = f"{type(error).__name__}: {error}"[:200]
                    print(f"{reader:6s} {layout:20s} {destination:8s} {row['error'][:120]}", flush=True)
                else:
                    wall, chunks = statistics.median(walls), truth["layouts"][layout]["chunks"]
                    row.update(n=args.n, wall_s=wall, wall_min_s=min(walls), wall_max_s=max(walls), cpu_s=statistics.median(cpus),
                               other_cpu_s=max(others), decoded_bytes=truth["nbytes"], decoded_gb_per_s=truth["nbytes"] / wall / 1e9,
                               stored_bytes=truth["layouts"][layout]["stored"], us_per_chunk=wall / chunks * 1e6)
                    print(f"{reader:6s} {layout:20s} {destination:8s} {row['decoded_gb_per_s']:6.2f} GB/s decoded, {wall * 1e3:7.1f} ms "
                          f"({min(walls) * 1e3:.0f}-{max(walls) * 1e3:.0f}), cpu {row['cpu_s'] * 1e3:7.1f} ms, "
                          f"{row['us_per_chunk']:7.1f} us a chunk", flush=True)
                rows.append(row)
    if args.json:
        packages = {}
        for name in ("tensorstore", "zarr", "zarrs", "numcodecs", "numpy"):
            try:
                packages[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                pass
        args.json.write_text(json.dumps({"packages": packages, "python": platform.python_version(), "cpus": os.cpu_count(),
                                         "affinity": len(os.sched_getaffinity(0)), "kernel": platform.release(),
                                         "threads": args.threads, "cache": "warm", "rows": rows}, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
