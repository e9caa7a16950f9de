#!/usr/bin/env python3
"""Measures the effect of a change: runs the GPU benchmarks of two builds in turn, on one machine in one run.

  compare_builds.py SCRATCH --before BUILD --after BUILD [--rounds 5] [--seconds 480] [--commits A,B] [--json FILE]

BUILD is a build folder of preset `cuda` (device_read_bench, file_bench and decode_bench in its bench/). Rows are: whole arrays read to
the GPU in every layout of bench_fields.py with a warm page cache; file transfers by path, size and number of threads; and batches
decoded in GPU memory. Each round runs both builds and swaps their order each time. A row's figure is the median of its rounds in
GB/s (10^9 bytes), its ratio the median of the pairs' ratios; the quartiles of the pairs show the machine's noise. Exits with 1 if a
row's upper quartile is below 0.97: more than 3 % slower in three of four rounds. Stops after --seconds, at the end of a round.
Needs numpy and tensorstore, and 5 GB in SCRATCH.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import tensorstore as ts

from bench_fields import LAYOUTS, make

SLOWER = 0.97
DECODES = r"^(lz4|blosc-lz4|zstd|blosc-zstd|gzip)/shuffle/era5/.*x(65536|1048576)$"


def lines_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"compare_builds: {command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def arrays(build, scratch):
    for name in LAYOUTS:
        rows = lines_of([build / "bench/device_read_bench", scratch / name, "--device", "cuda", "--repeat", 7, "--warmup", 3, "--keep-open"])
        yield f"array {name}", statistics.median(row["decoded_gb_s"] for row in rows)


def files(build, scratch):
    command = [build / "bench/file_bench", scratch, "--device", "cuda", "--gib", 2, "--repeat", 5, "--only", "first,warm,latency,files"]
    for row in lines_of(command):
        if row.get("who", "").startswith("headrace"):
            yield f"file {row['figure']}, {row['who']}", row["gbytes_per_s"]


def decodes(build, _):
    for row in lines_of([build / "bench/decode_bench", "--only", DECODES, "--total-mib", 512, "--repeat", 5]):
        if "row" in row:
            yield f"decode {row['row']}", row["decoded_gb_s"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--after", type=pathlib.Path, required=True)
    parser.add_argument("--commits", default=",")
    parser.add_argument("--parts", default="arrays,files,decodes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    started = time.monotonic()
    args.scratch.mkdir(parents=True, exist_ok=True)
    parts = [{"arrays": arrays, "files": files, "decodes": decodes}[name] for name in args.parts.split(",")]
    if arrays in parts:
        data = make(20)
        for name, layout in LAYOUTS.items():
            spec = {**layout, "kvstore": {"driver": "file", "path": str(args.scratch / name)}}
            ts.open(spec, create=True, delete_existing=True).result().write(data).result()
    values = {}
    rounds = 0
    while rounds < args.rounds and (rounds == 0 or time.monotonic() - started < args.seconds * rounds / (rounds + 1)):
        for part in parts:
            sides = ("before", "after") if rounds % 2 == 0 else ("after", "before")
            for side in sides:
                for row, rate in part(getattr(args, side), args.scratch):
                    values.setdefault(row, {"before": [], "after": []})[side].append(rate)
        rounds += 1
    results, slower = [], []
    for row, by in values.items():
        ratios = [after / before for before, after in zip(by["before"], by["after"])]
        if not ratios:
            continue
        quartiles = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        result = {"row": row, "before_gb_s": statistics.median(by["before"]), "after_gb_s": statistics.median(by["after"]),
                  "ratio": statistics.median(ratios), "quartiles": [quartiles[0], quartiles[2]]}
        results.append(result)
        if quartiles[2] < SLOWER:
            slower.append(row)
        print(f"{row:62s} {result['before_gb_s']:8.2f} {result['after_gb_s']:8.2f} GB/s  x {result['ratio']:.3f} "
              f"({quartiles[0]:.3f} to {quartiles[2]:.3f}){'  SLOWER' if row in slower else ''}")
    print(f"{len(results)} rows, {rounds} rounds, {time.monotonic() - started:.0f} s; slower: {len(slower)}")
    if args.json:
        smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout
        before, after = args.commits.split(",")
        args.json.write_text(json.dumps({"gpu": smi.strip(), "cpus": os.cpu_count(), "kernel": os.uname().release, "before": before,
                                         "after": after, "rounds": rounds, "slower": slower, "results": results}, indent=1) + "\n")
    return 1 if slower else 0


sys.exit(main())
