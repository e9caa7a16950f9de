#!/usr/bin/env python3
"""Writes one reanalysis-like float32 array, 64 x 721 x 1440 (266 MB), in the layouts that the end-to-end benchmark reads.

  gen_bench_data.py OUT [--layouts NAME,...]

The field comes from bench_fields.py. OUT/truth.json has the SHA-256 of the values (C order, little endian) and every layout's size;
no .npy copy is kept. Needs zarr >= 3, numcodecs, numpy. The same seed gives the same data.
"""
import argparse
import hashlib
import json
import pathlib
import shutil

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

from bench_fields import FIELD, INNER, SHAPE, SHARD, make


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
        truth = {"layouts": {}}  # with another seed, the existing files hold other data
    truth.update(shape=list(SHAPE), dtype="float32", nbytes=data.nbytes, sha256=sha, seed=args.seed,
                 packages={"zarr": zarr.__version__, "numcodecs": numcodecs.__version__, "numpy": np.__version__})
    for name in args.layouts.split(","):
        zarr_format, chunks, shards, compressor = layouts()[name]
        path = args.out / name
        shutil.rmtree(path, ignore_errors=True)
        # The fill value does not occur in the data, so every chunk is stored.
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
