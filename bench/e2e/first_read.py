#!/usr/bin/env python3
"""Measures the first cold read of a process, with programs of several builds in turn: first_read.py SCRATCH NAME=PROGRAM... [--rounds N] [--json
FILE]

PROGRAM is a build's first_read_bench. Each round starts each program once per method of reading; figures are medians in milliseconds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

WAYS = {"file direct host": ("file", "direct", "host"), "file direct host-staged": ("file", "direct", "host-staged"),
        "file auto host-staged": ("file", "auto", "host-staged"), "array host": ("array", "host"),
        "array host-staged": ("array", "host-staged")}


def make_data(scratch):
    file, array = scratch / "file", scratch / "array.zarr"
    file.write_bytes(os.urandom(1 << 20))
    (array / "c").mkdir(parents=True, exist_ok=True)
    (array / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [1 << 16], "data_type": "uint8", "fill_value": 0, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4096]}}, "codecs": [{"name": "bytes"}],
        "chunk_key_encoding": {"name": "default"}}))
    for i in range(16):
        (array / "c" / str(i)).write_bytes(os.urandom(4096))
    return {"file": file, "array": array}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    programs = dict(text.split("=", 1) for text in args.programs)
    data = make_data(args.scratch)
    times = {way: {name: {"read": [], "process": []} for name in programs} for way in WAYS}
    for number in range(args.rounds):
        for way, arguments in WAYS.items():
            for name, program in list(programs.items())[:: 1 if number % 2 == 0 else -1]:
                time.sleep(0.3)  # the kernel frees pinned memory some time after the previous process has ended
                out = subprocess.run([program, *arguments, data[arguments[0]]], capture_output=True, check=True, text=True).stdout
                for what, value in zip(("read", "process"), out.split()):
                    times[way][name][what].append(float(value))
    results = [{"way": way, "median_ms": {name: {what: statistics.median(values) for what, values in of.items()} for name, of in by.items()},
                "rounds_ms": by} for way, by in times.items()]
    for row in results:
        print(row["way"], row["median_ms"])
    if args.json:
        args.json.write_text(json.dumps({"rounds": args.rounds, "cpus": os.cpu_count(), "kernel": os.uname().release,
                                         "load_average": os.getloadavg(), "results": results}, indent=1) + "\n")


main()
