#!/usr/bin/env python3
"""Compares stores written by `headrace gen`: every value that headrace reads must equal what zarr-python and
tensorstore read.

  check_generated.py HEADRACE [WORKDIR]

Covers every format and codec of every workload at its smallest size. Needs the Python packages zarr (3 or newer),
tensorstore and numpy. It is not in the test suite, because the machines that run the suite may lack these packages."""
import hashlib
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy
import tensorstore
import zarr

FORMATS = ("v2", "v3", "sharded")
CODECS = ("none", "lz4", "zstd:3", "gzip:1", "blosc-lz4:5", "blosc-zstd:2")
# tensorstore lacks the numcodecs names in v3, and lz4 in v2.
TENSORSTORE_LACKS = ("lz4",)


def run(headrace, *arguments):
    return json.loads(subprocess.run([headrace, *map(str, arguments), "--json"], check=True, stdout=subprocess.PIPE).stdout)


def digest(values):
    return hashlib.sha256(numpy.ascontiguousarray(values).tobytes()).hexdigest()


def check(headrace, store, arguments):
    made = run(headrace, "gen", store, *arguments)
    group = zarr.open_group(store, mode="r")
    consolidated = zarr.open_consolidated(str(store))
    compared = {"zarr": 0, "tensorstore": 0}
    for array in made["arrays"]:
        name = array["name"]
        expected = run(headrace, "read", store / name, "--device", "host", "--sha256")["sha256"]
        for opened in (group, consolidated):
            assert list(opened[name].shape) == array["shape"], (store, name, opened[name].shape)
            assert digest(opened[name][...]) == expected, (store, name, "zarr-python")
        compared["zarr"] += 1
        if made["codec"] in TENSORSTORE_LACKS and array["data_type"] == "float32" and len(array["shape"]) > 1:
            continue
        driver = "zarr" if made["format"] == "v2" else "zarr3"
        spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(store / name)}}
        values = tensorstore.open(spec, open=True, read=True).result().read().result()
        assert digest(values) == expected, (store, name, "tensorstore")
        compared["tensorstore"] += 1
    return made, compared


def main():
    headrace = sys.argv[1]
    work = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="headrace-check-"))
    totals = {"zarr": 0, "tensorstore": 0}
    jobs = [["--workload", "w1", "--size", "26M", "--format", f, "--codec", c] for f, c in itertools.product(FORMATS, CODECS)]
    # Chunk shapes that divide nothing, so that edges are padded and shards extend beyond the array.
    jobs += [["--workload", "w6", "--size", "60M", "--chunk", "2,300,500", "--format", f, "--codec", "blosc-zstd:1"]
             for f in FORMATS]
    jobs += [["--workload", w, "--scale", "0.0001"] for w in ("w2", "w3", "w4", "w5")]
    for number, arguments in enumerate(jobs):
        store = work / f"{number}.zarr"
        made, compared = check(headrace, store, arguments)
        shutil.rmtree(store)
        for reader, count in compared.items():
            totals[reader] += count
        print(f"ok  {' '.join(arguments)}: {made['decoded_bytes']} bytes decoded, {made['stored_bytes']} stored, {compared}",
              flush=True)
    print(f"{len(jobs)} stores; arrays equal: {totals}")


if __name__ == "__main__":
    main()
