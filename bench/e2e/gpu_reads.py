#!/usr/bin/env python3
"""Reads of all sizes into a GPU out of a warm page cache: a chunk, a crop, a frame, many of them, whole arrays, the first of a process.

  gpu_reads.py SCRATCH --build BUILD [--rounds 3] [--seconds 2] [--only REGEX] [--commit ID] [--json FILE]

BUILD is a build folder of preset `cuda`: crops_bench, device_read_bench and first_read_bench in its bench/, headrace in its bin/. Arrays are
written by `headrace gen` to SCRATCH (use tmpfs), 11 GB in all. A row's figure is the median of its rounds; rows take turns. Rows named "part"
decode what is selected, "whole" whole chunks. `reads` are milliseconds of the first sixteen reads of a process, medians by place; the first
includes nothing of opening the GPU. bus_gb_s is what `headrace doctor` measures from pinned memory.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import time

FRAME = "1,721,1440"
STORES = {  # name: codec, format, chunk, decoded bytes
    "lz4": ("blosc-lz4", "v2", FRAME, 6_400_000_000), "zstd": ("zstd:3", "v3", FRAME, 6_400_000_000), "blosc-zstd": ("blosc-zstd", "v2", FRAME, 800_000_000),
    "lz4-64": ("blosc-lz4", "v2", FRAME, 800_000_000), "zstd-64": ("zstd:3", "v3", FRAME, 800_000_000), "raw": ("none", "v3", FRAME, 800_000_000), "gzip": ("gzip", "v2", FRAME, 800_000_000), "shards": ("none", "sharded", "1,128,128", 800_000_000),
    "shards-zstd": ("zstd:3", "sharded", "1,128,128", 800_000_000), "files": ("none", "v2", "1,128,128", 710_000_000),
}
CALLS = {  # row: store, boxes of a call
    "64 crops of 4 x 128 x 128": ("lz4", "64 4 128 128"), "64 crops, zstd": ("zstd", "64 4 128 128"), "one crop": ("lz4", "1 1 128 128"),
    "one frame": ("lz4", "1 1 721 1440"), "16 frames": ("lz4", "16 1 721 1440"), "one frame, zstd": ("zstd", "1 1 721 1440"),
    "one chunk of 64 KiB of a shard": ("shards", "1 1 128 128 aligned"), "one chunk of 64 KiB of a shard, zstd": ("shards-zstd", "1 1 128 128 aligned"),
}
WHOLE = ("raw", "lz4-64", "lz4", "blosc-zstd", "zstd-64", "zstd", "gzip", "shards-zstd", "files")  # "files": chunk files of 64 KiB
FIRST = ("raw", "lz4-64", "blosc-zstd", "zstd-64", "gzip")


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"gpu_reads: {' '.join(map(str, words))} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def lines(*words):
    return [json.loads(line) for line in run(*words).splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--commit", default="")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    wanted = re.compile(args.only).search
    headrace, bench = args.build / "bin/headrace", args.build / "bench"
    for name, (codec, layout, chunk, size) in STORES.items():
        run(headrace, "gen", args.scratch / name, "--workload", "w1", "--codec", codec, "--format", layout, "--chunk", chunk, "--size", size, "--overwrite")
    array = {name: args.scratch / name / "geopotential" for name in STORES}
    doctor = json.loads(run(headrace, "doctor", "--json"))
    gpu = next(device for device in doctor["devices"] if device["name"].startswith("cuda"))

    rows = {}

    def call(name, store, boxes):
        for found in lines(bench / "crops_bench", array[store], "cuda", args.seconds, *boxes.split()):
            if found["way"] == "whole" and "crop" not in name:
                continue
            row = rows.setdefault(f"{name}, {found['way']}" if "crop" in name else name, {"ms_p50": [], "ms_p99": []})
            row["ms_p50"].append(found["ms_p50"])
            row["ms_p99"].append(found["ms_p99"])
            row["mb"] = 4e-6 * math.prod(map(int, boxes.split()[:4]))

    def whole(store):
        found = lines(bench / "device_read_bench", array[store], "--device", "cuda", "--repeat", 9, "--warmup", 12, "--keep-open")
        row = rows.setdefault(f"whole array, {store}", {"gb_s": []})
        row["gb_s"].append(statistics.median(one["decoded_gb_s"] for one in found))
        row["mb"] = found[0]["decoded_bytes"] / 1e6

    def first(store):
        found = lines(bench / "first_read_bench", "reads", 16, "cuda", array[store])[0]
        row = rows.setdefault(f"first reads, {store}", {"reads": [], "first_tensor_ms": []})
        row["reads"].append(found["reads_ms"])
        row["first_tensor_ms"].append(found["first_tensor_ms"])
        row["mb"] = found["mb"]

    jobs = [(name, lambda name=name, how=how: call(name, *how)) for name, how in CALLS.items()]
    jobs += [(f"whole array, {store}", lambda store=store: whole(store)) for store in WHOLE]
    jobs += [(f"first reads, {store}", lambda store=store: first(store)) for store in FIRST]
    for _ in range(args.rounds):
        for name, job in jobs:
            if wanted(name):
                job()
    table = []
    for name, row in rows.items():
        out = {"row": name, "mb": round(row["mb"], 2)}
        if "ms_p50" in row:
            out |= {"ms_p50": round(statistics.median(row["ms_p50"]), 3), "ms_p99": round(statistics.median(row["ms_p99"]), 3)}
            out["gb_s"] = round(row["mb"] / out["ms_p50"], 2)
        elif "gb_s" in row:
            out |= {"gb_s": round(statistics.median(row["gb_s"]), 2), "rounds": [round(rate, 2) for rate in row["gb_s"]]}
            out["of_bus"] = round(out["gb_s"] * 1e9 / gpu["pinned_to_device_bytes_per_second"], 3)
        else:
            reads = [round(statistics.median(column), 2) for column in zip(*row["reads"], strict=True)]
            steady = statistics.median(reads[-5:])
            out |= {"first_tensor_ms": round(statistics.median(row["first_tensor_ms"]), 2), "reads": reads, "second_of_steady": round(steady / reads[1], 3)}
            out["first_tensor_gb_s"] = round(row["mb"] / out["first_tensor_ms"], 2)
        table.append(out)
        print(json.dumps(out), flush=True)
    report = {"command": f"gpu_reads.py SCRATCH --build BUILD --rounds {args.rounds} --seconds {args.seconds:g}", "commit": args.commit, "gpu": gpu["description"],
              "bus_gb_s": round(gpu["pinned_to_device_bytes_per_second"] / 1e9, 2), "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": table}
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
