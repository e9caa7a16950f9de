#!/usr/bin/env python3
"""Reads whole arrays to GPU memory from Python: headrace alone, in zarr and in xarray, compared with common alternatives, in one run.

  python_gpu.py DIR [--repeat 5] [--warmup 3] [--layouts v2_raw,...] [--device cuda] [--json FILE]

Writes bench_fields.py's array into DIR with tensorstore in several layouts (once). Each reader opens the array and reads all of it into
device memory ("open and read"), then reads it once more ("read"). The page cache is warm, first reads are not counted, readers take
turns, and every result is compared with the original. For a peer that cannot read a layout, the error is reported. Rates are decoded
bytes per second, medians. Needs headrace, numpy, tensorstore, zarr, xarray and, for a GPU, torch; zarrs and zarr's GPU mode (CuPy) are
measured if installed. --device host omits the GPU, to try the script.
"""
import argparse
import gc
import importlib.util
import json
import pathlib
import statistics
import sys
import time

import numpy as np
import tensorstore as ts
import xarray as xr
import zarr
from bench_fields import LAYOUTS, SHAPE, make

import headrace
import headrace.zarr as plug_in

CHOSEN = ["v2_raw", "v2_blosc_lz4", "v3_zstd3", "small_v2_blosc_lz4", "small_v3_zstd", "shard_zstd"]
OWN = "zarr.core.codec_pipeline.BatchedCodecPipeline"
DIMENSIONS = ["time", "latitude", "longitude"]


def write(root, name, data):
    """Writes a group with one array, `field`, with named dimensions."""
    folder = root / name / "field"
    if folder.exists():
        return
    layout = json.loads(json.dumps(LAYOUTS[name]))
    version = 2 if layout["driver"] == "zarr" else 3
    if version == 3:
        layout["metadata"]["dimension_names"] = DIMENSIONS
    ts.open({**layout, "kvstore": {"driver": "file", "path": str(folder)}}, create=True).result().write(data).result()
    if version == 2:
        (root / name / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": DIMENSIONS}))
    else:
        (root / name / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')


class Readers:
    """The readers; each returns the elements in device memory."""

    def __init__(self, device):
        self.device, self.on_gpu = device, device != "host"
        if self.on_gpu:
            import torch

            self.torch = torch
            self.pinned = torch.empty(SHAPE, pin_memory=True)

    def to_device(self, array):
        if not self.on_gpu:
            return array
        out = self.torch.from_numpy(array).to(self.device)
        self.torch.cuda.synchronize()
        return out

    def empty(self):
        return self.torch.empty(SHAPE, device=self.device) if self.on_gpu else np.empty(SHAPE, "f4")

    # Each method opens the array and returns a function that reads it.

    def headrace(self, path):
        array = headrace.open(path / "field")
        return lambda: array.read(out=self.empty())

    def headrace_new(self, path):
        array = headrace.open(path / "field", device=self.device)
        return lambda: self.torch.from_dlpack(array.read()) if self.on_gpu else array.read()

    def zarr_headrace(self, path):
        plug_in.enable(strict=True)
        array = zarr.open_array(path / "field", mode="r")
        if not self.on_gpu:
            return lambda: array[...]
        return lambda: array.get_basic_selection(..., prototype=plug_in.torch_prototype(self.device))

    def xarray_headrace(self, path):
        dataset = xr.open_dataset(path, engine="headrace", device=self.device, chunks=None)

        def read():
            loaded = dataset.compute()["field"].data
            return self.torch.from_dlpack(loaded) if self.on_gpu and not isinstance(loaded, self.torch.Tensor) else loaded

        return read

    def _gpu_mode(self, path, pipeline):
        """zarr-python with GPU buffers: returns a CuPy array."""
        chosen = {"buffer": "zarr.buffer.gpu.Buffer", "ndbuffer": "zarr.buffer.gpu.NDBuffer", "codec_pipeline.path": pipeline}
        with zarr.config.set(chosen):
            array = zarr.open_array(path / "field", mode="r")

        def read():
            with zarr.config.set(chosen):
                got = array[...]
            self.torch.cuda.synchronize()
            return self.torch.from_dlpack(got)

        return read

    def zarr_headrace_cupy(self, path):
        return self._gpu_mode(path, "headrace.zarr.HeadracePipeline")

    def zarr_gpu(self, path):
        return self._gpu_mode(path, OWN)

    def zarr(self, path, pipeline=OWN):
        with zarr.config.set({"codec_pipeline.path": pipeline}):
            array = zarr.open_array(path / "field", mode="r")

        def read():
            with zarr.config.set({"codec_pipeline.path": pipeline}):
                return self.to_device(array[...])

        return read

    def zarrs(self, path):
        import zarrs  # noqa: F401 - registers itself

        return self.zarr(path, "zarrs.ZarrsCodecPipeline")

    def _tensorstore(self, path):
        driver = "zarr3" if (path / "zarr.json").exists() else "zarr"
        context = ts.Context({"cache_pool": {"total_bytes_limit": 0}, "file_io_concurrency": {"limit": 32}})
        return ts.open({"driver": driver, "kvstore": {"driver": "file", "path": str(path / "field")}}, read=True,
                       context=context).result()

    def tensorstore(self, path):
        array = self._tensorstore(path)
        return lambda: self.to_device(array.read().result())

    def tensorstore_pinned(self, path):
        array = self._tensorstore(path)

        def read():
            ts.array(self.pinned.numpy(), copy=False).write(array).result()
            out = self.pinned.to(self.device, non_blocking=True)
            self.torch.cuda.synchronize()
            return out

        return read


def measure(opener, path, truth):
    """Seconds of opening and reading, and of a second read."""
    seconds, read = [], None
    for _ in range(2):
        got = None
        gc.collect()  # so that freeing earlier readers' objects is not timed
        begin = time.perf_counter()
        read = read or opener(path)
        got = read()
        seconds.append(time.perf_counter() - begin)
        if not bool((got == truth).all()):
            sys.exit(f"{opener.__name__} read other elements than were written into {path}")
    return seconds


def rates(times, column, decoded_bytes):
    """GB/s by reader, and the ratios to report."""
    out = {name: round(decoded_bytes / statistics.median(each[column] for each in all_of) / 1e9, 3) for name, all_of in times.items()}
    peers = [out[name] for name in ("zarr", "zarr_gpu", "zarrs", "tensorstore", "tensorstore_pinned") if name in out]
    out["zarr_of_headrace"] = round(out["zarr_headrace"] / out["headrace_new"], 3)
    out["xarray_of_headrace"] = round(out["xarray_headrace"] / out["headrace_new"], 3)
    out["zarr_over_best_peer"] = round(out["zarr_headrace"] / max(peers), 2)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--layouts", default=",".join(CHOSEN))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    readers = Readers(arguments.device)
    names = ["headrace", "headrace_new", "zarr_headrace", "xarray_headrace", "zarr", "tensorstore"]
    if importlib.util.find_spec("zarrs"):
        names.insert(5, "zarrs")
    if readers.on_gpu:
        names.append("tensorstore_pinned")
        if importlib.util.find_spec("cupy"):
            names[3:3] = ["zarr_headrace_cupy", "zarr_gpu"]
    data = make(20)
    truth = readers.to_device(data)
    rows = []
    about = {"device": arguments.device, "python": sys.version.split()[0], "zarr": zarr.__version__, "xarray": xr.__version__,
             "shape": list(SHAPE), "unit": "GB/s of decoded elements", "repeat": arguments.repeat, "rows": rows}
    if readers.on_gpu:
        about["gpu"] = readers.torch.cuda.get_device_name()
    for layout in arguments.layouts.split(","):
        path = arguments.dir / layout
        arguments.dir.mkdir(parents=True, exist_ok=True)
        write(arguments.dir, layout, data)
        row = {"layout": layout}
        times = {name: [] for name in names}
        for trial in range(arguments.warmup + arguments.repeat):
            for name in list(times):
                try:
                    seconds = measure(getattr(readers, name), path, truth)
                except Exception as error:  # a layout that a peer cannot read is a result too
                    if "headrace" in name:
                        raise
                    row.setdefault("failed", {})[name] = f"{type(error).__name__}: {error}"[:200]
                    del times[name]
                    continue
                if trial >= arguments.warmup:
                    times[name].append(seconds)
        row["open and read"] = rates(times, 0, data.nbytes)
        row["read"] = rates(times, 1, data.nbytes)
        rows.append(row)
        print(json.dumps(row), flush=True)
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
