#!/usr/bin/env python3
"""Measures the cost of Python: microseconds per call beyond the time inside the library, and per additional chunk; and the cost of a
Loader batch for the thread that consumes it.

  python_cost.py [--only rows|loader] [--json FILE]      needs the package headrace; zarr too for its plug-in

Arrays are uncompressed, in a temporary folder, in the page cache, and read into existing memory. A row is the median of 7 rounds;
`library_us` is the time that the read itself reports (Stats.wall_seconds). For a Loader: CPU time of the loop's thread per batch, until
the batch is released. Between batches the loop sleeps to simulate training, so that the next one is ready. loader_bench measures the
same in C++.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time

import numpy as np

import headrace


def write(path, chunks):
    path.mkdir()
    (path / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": [chunks * 256], "chunks": [256], "dtype": "<f4",
                                              "order": "C", "filters": None, "fill_value": 0, "compressor": None}))
    for i in range(chunks):
        (path / str(i)).write_bytes(np.full(256, i, "<f4").tobytes())
    return path


def write_rows(path, rows, columns, rows_per_chunk):
    path.mkdir()
    (path / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": [rows, columns], "chunks": [rows_per_chunk, columns], "dtype": "<u4",
                                              "order": "C", "filters": None, "fill_value": 0, "compressor": None}))
    for i in range(rows // rows_per_chunk):
        (path / f"{i}.0").write_bytes(np.full((rows_per_chunk, columns), i, "<u4").tobytes())


def measure(read, calls):
    """Median over rounds of (us per call, us of it inside the library)."""
    rounds = []
    for _ in range(7):
        headrace.reset_stats()
        begin = time.perf_counter()
        for _ in range(calls):
            read()
        whole = time.perf_counter() - begin
        rounds.append((whole / calls * 1e6, headrace.stats().wall_seconds / calls * 1e6))
    rounds.sort(key=lambda row: row[0] - row[1])
    return rounds[len(rounds) // 2]


def loader_rows(folder):
    path = pathlib.Path(folder) / "windows"
    write_rows(path, 4096, 64, 8)
    rows = []
    takes = {"taken": lambda batch: batch["x"], "taken as NumPy's (DLPack)": lambda batch: np.from_dlpack(batch["x"])}
    for what, take in takes.items():
        for batch_size in (4, 64, 256):
            loader = headrace.Loader({"x": str(path)}, dims=["time", "i"], input_dims={"time": 2}, input_stride={"time": 1},
                                     batch_size=batch_size, shuffle=True, device="host")
            rounds, taken, batches = [], 0, 0
            while len(rounds) < 8:
                given = iter(loader)
                while True:
                    begin = time.thread_time_ns()
                    batch = next(given, None)
                    if batch is None:
                        break
                    elements = take(batch)
                    del batch, elements
                    taken += time.thread_time_ns() - begin
                    batches += 1
                    time.sleep(0.002)
                    if batches == 100:
                        rounds.append(taken / batches * 1e-3)
                        taken = batches = 0
            rows.append({"what": what, "batch_size": batch_size, "consumer_us_per_batch": sorted(rounds[1:])[3]})
            print(f"a Loader's batch of {batch_size:3} samples, {what:26} {rows[-1]['consumer_us_per_batch']:6.1f} us")
    return rows


def read_rows(folder):
    many = 2000
    rows = []
    path = write(pathlib.Path(folder) / "a", many)
    array = headrace.open(path)
    ways = {"headrace, given memory": lambda stop, out: array.read(slice(0, stop), out=out),
            "headrace, new memory": lambda stop, out: array[0:stop]}
    try:
        import zarr
        from headrace import zarr as plug_in

        plug_in.enable()
        opened = zarr.open_array(path, mode="r")
        ways["zarr with headrace's pipeline"] = lambda stop, out: opened[0:stop]
        from zarr.core.codec_pipeline import BatchedCodecPipeline
        from zarr.registry import register_pipeline

        class Nothing(BatchedCodecPipeline):
            async def read(self, batch_info, out, drop_axes=()):
                return ({"status": "present"},) * len(list(batch_info))

        Nothing.__qualname__ = "Nothing"
        register_pipeline(Nothing)
        zarr.config.set({"codec_pipeline.path": f"{__name__}.Nothing"})
        alone = zarr.open_array(path, mode="r")
        ways["zarr reading nothing"] = lambda stop, out: alone[0:stop]
    except ImportError as error:
        print(f"not measured: {error}", file=sys.stderr)
    for name, read in ways.items():
        single, several = np.empty(256, "f4"), np.empty(256 * many, "f4")
        read(256, single), read(256 * many, several)
        one = measure(lambda: read(256, single), 500)
        lot = measure(lambda: read(256 * many, several), 5)
        beyond_one, beyond_lot = one[0] - one[1], lot[0] - lot[1]
        rows.append({"what": name, "one_chunk_us": one[0], "library_us": one[1], "beyond_us": beyond_one,
                     "each_further_chunk_us": (beyond_lot - beyond_one) / (many - 1)})
        print(f"{name:32} one chunk {one[0]:7.1f} us, {beyond_one:7.1f} beyond the library; "
              f"each further chunk {rows[-1]['each_further_chunk_us']:.3f} us")
    return rows


PARTS = {"rows": read_rows, "loader": loader_rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {name: rows(folder) for name, rows in PARTS.items() if arguments.only in (None, name)}
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({"python": sys.version.split()[0], **found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
