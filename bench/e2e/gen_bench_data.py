#!/usr/bin/env python3
"""Writes one reanalysis-like float32 array, 64 x 721 x 1440 (266 MB), in the layouts that the end-to-end benchmark reads.

  gen_bench_data.py OUT [--layouts NAME,...]

The field is a zonal mean, travelling waves and spatially correlated noise, rounded to 1/512 K: like data that was packed before it
reached Zarr, the low mantissa bits are zero and the middle ones look random.  OUT/truth.json has the SHA-256 of the values (C order,
little endian) and every layout's size; no .npy copy is kept.  Needs zarr >= 3, numcodecs, numpy.  The same seed gives the same data."""
import argparse
import hashlib
import json
import pathlib
import shutil

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

SHAPE = (64, 721, 1440)
FIELD = (1, 721, 1440)     # one time step: 4.2 MB
INNER = (1, 91, 180)       # 64 KiB
SHARD = (8, 728, 1440)     # 8 x 8 x 8 inner chunks; 728 is the first multiple of 91 above 721


def smoothed(noise, radius):
    """A running mean along both axes, periodic in longitude."""
    for axis, mode in ((0, "edge"), (1, "wrap")):
        width = [(0, 0), (0, 0)]
        width[axis] = (radius + 1, radius)
        total = np.cumsum(np.pad(noise, width, mode=mode), axis=axis)
        upper = np.take(total, range(2 * radius + 1, total.shape[axis]), axis=axis)
        noise = (upper - np.take(total, range(0, total.shape[axis] - 2 * radius - 1), axis=axis)) / (2 * radius + 1)
    return noise


def make(seed):
    rng = np.random.default_rng(seed)
    lat = np.linspace(np.pi / 2, -np.pi / 2, SHAPE[1])[:, None]
    lon = np.linspace(0, 2 * np.pi, SHAPE[2], endpoint=False)[None]
    weather = np.zeros(SHAPE[1:])
    for radius, size in ((40, 6.0), (12, 2.0), (3, 0.5)):  # standard deviations in K
        part = smoothed(smoothed(rng.normal(size=SHAPE[1:]), radius), radius)
        weather += size * part / part.std()
    data = np.empty(SHAPE, "f4")
    for step in range(SHAPE[0]):
        field = 255 + 40 * np.cos(lat) ** 2 + 4 * np.sin(5 * lon + 0.2 * step) * np.cos(lat) ** 4
        field += np.roll(weather, 4 * step, axis=1) + rng.normal(0, 0.04, SHAPE[1:])
        data[step] = np.rint(field * 512) / 512
    return data


def layouts():
    lz4_v2, zstd_v2 = numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE), numcodecs.Blosc("zstd", 5, numcodecs.Blosc.SHUFFLE)
    zstd = ZstdCodec(level=3)
    lz4 = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=4)
    return {
        "v2_raw": (2, FIELD, None, None),
        "v2_blosc_lz4": (2, FIELD, None, lz4_v2),
        "v2_blosc_zstd": (2, FIELD, None, zstd_v2),
        "v3_raw": (3, FIELD, None, None),
        "v3_zstd3": (3, FIELD, None, zstd),
        "shard_raw": (3, INNER, SHARD, None),
        "shard_zstd": (3, INNER, SHARD, zstd),
        "shard_blosc_lz4": (3, INNER, SHARD, lz4),
        "small_v3_raw": (3, INNER, None, None),
        "small_v3_zstd": (3, INNER, None, zstd),
        "small_v2_blosc_lz4": (2, INNER, None, lz4_v2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--layouts", default=",".join(layouts()))
    parser.add_argument("--seed", type=int, default=20)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    data = make(args.seed)
    record = args.out / "truth.json"
    truth = json.loads(record.read_text()) if record.exists() else {"layouts": {}}
    sha = hashlib.sha256(data.tobytes()).hexdigest()
    if truth.get("sha256", sha) != sha:
        truth = {"layouts": {}}  # another seed: what is there describes other data
    truth.update(shape=list(SHAPE), dtype="float32", nbytes=data.nbytes, sha256=sha, seed=args.seed,
                 packages={"zarr": zarr.__version__, "numcodecs": numcodecs.__version__, "numpy": np.__version__})
    for name in args.layouts.split(","):
        zarr_format, chunks, shards, compressor = layouts()[name]
        path = args.out / name
        shutil.rmtree(path, ignore_errors=True)
        # The fill value does not occur in the data, so every chunk is written.
        array = zarr.create_array(str(path), shape=SHAPE, dtype="float32", chunks=chunks, shards=shards, compressors=compressor,
                                  fill_value=0, zarr_format=zarr_format)
        array[...] = data
        sizes = [p.stat().st_size for p in path.rglob("*") if p.is_file()]
        inner = int(np.prod([-(-n // c) for n, c in zip(SHAPE, chunks)]))
        truth["layouts"][name] = {"chunks": inner, "files": len(sizes), "stored": sum(sizes)}
        record.write_text(json.dumps(truth, indent=1) + "\n")
        print(f"{name:20s} {inner:5d} chunks in {len(sizes):5d} files, {sum(sizes) / 1e6:6.1f} MB, ratio {data.nbytes / sum(sizes):.2f}",
              flush=True)


if __name__ == "__main__":
    main()
