#!/usr/bin/env python3
"""Does each of several GPUs keep its rate when all of them are read to at the same time?

  gpus.py SCRATCH --build BUILD [--kinds whole,frames,frame,crops,batches] [--threads 1,4] [--rounds 3] [--seconds 1] [--gigabytes 2]
          [--json FILE]

BUILD is a build folder of preset `cuda` (gpus_bench in its bench/, headrace in its bin/). The array is Blosc lz4 of frames of 721 x 1440
float32, a frame a chunk, written to SCRATCH by `headrace gen`; its pages are cached. A row is a kind of read with so many threads per GPU.
The kind `batches` takes batches of frames from a Loader of the Python package in BUILD's python/ (gpus_batches.py), always with a process
for each GPU.
Each round measures, in an order that rotates:

  alone       one process that reads to one GPU, for each GPU in turn; the mean over GPUs
  together    one process that reads to all GPUs
  processes   a process for each GPU, all at the same time

`kept` is the mean rate of a GPU that way divided by its mean rate alone, the median over rounds: 1.0 means that no GPU takes
anything from another. Needs at least two GPUs.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time


def run(workers):
    """Runs command lines at the same time: all begin to measure once all are ready. Returns the lines of JSON of all."""
    running = [subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for words in workers]
    for process, words in zip(running, workers, strict=True):
        if process.stdout.readline() != "ready\n":
            sys.exit(f"gpus: {' '.join(words)} did not become ready")
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()
    rows = []
    for process, words in zip(running, workers, strict=True):
        text, _ = process.communicate()
        if process.returncode != 0:
            sys.exit(f"gpus: {' '.join(words)} ended with {process.returncode}")
        rows += [json.loads(line) for line in text.splitlines()]
    return rows


def mean(rows, name):
    return statistics.fmean(row[name] for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--kinds", default="whole,frames,frame,crops,batches")
    parser.add_argument("--threads", default="1,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--gigabytes", type=float, default=2)
    parser.add_argument("--commit", default="")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    names = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=True).stdout.split("\n")
    names = [name.strip() for name in names if name.strip()]
    if len(names) < 2:
        sys.exit("gpus: this machine has fewer than two GPUs")
    devices = [f"cuda:{i}" for i in range(len(names))]

    store = args.scratch / "gpus"
    subprocess.run([args.build / "bin/headrace", "gen", store, "--workload", "w1", "--size", str(int(args.gigabytes * 1e9)), "--codec", "blosc-lz4",
                    "--chunk", "1,721,1440", "--overwrite"], check=True, stdout=subprocess.DEVNULL)
    array = str(store / "geopotential")
    bench = str(args.build / "bench/gpus_bench")

    os.environ["PYTHONPATH"] = os.pathsep.join([str(args.build / "python"), *filter(None, [os.environ.get("PYTHONPATH")])])

    def worker(kind, threads, chosen):
        if kind == "batches":
            return [sys.executable, str(pathlib.Path(__file__).with_name("gpus_batches.py")), str(store), str(args.seconds), *chosen,
                    str(devices.index(chosen[0])), str(len(devices))]
        return [bench, array, kind, str(threads), str(args.seconds), *chosen]

    all_ways = {
        "alone": lambda kind, threads: [row for device in devices for row in run([worker(kind, threads, [device])])],
        "together": lambda kind, threads: run([worker(kind, threads, devices)]),
        "processes": lambda kind, threads: run([worker(kind, threads, [device]) for device in devices]),
    }
    rows = []
    for kind in args.kinds.split(","):
        ways = {name: way for name, way in all_ways.items() if kind != "batches" or name != "together"}
        for threads in map(int, args.threads.split(",") if kind != "batches" else "1"):
            found = {way: [] for way in ways}
            for turn in range(args.rounds):
                order = list(ways)[turn % len(ways):] + list(ways)[: turn % len(ways)]
                for way in order:
                    found[way].append(ways[way](kind, threads))
            row = {"kind": kind, "threads_per_gpu": threads}
            for way, rounds in found.items():
                row[way] = {"gb_s_per_gpu": [round(mean(r, "gb_s"), 2) for r in rounds],
                            "ms_p50": round(statistics.median(mean(r, "ms_p50") for r in rounds), 3),
                            "ms_p99": round(statistics.median(mean(r, "ms_p99") for r in rounds), 3)}
                if kind == "batches":
                    row[way]["cpu_ms"] = round(statistics.median(mean(r, "cpu_ms") for r in rounds), 2)
            for way in list(ways)[1:]:
                row[way]["kept"] = round(statistics.median(a / b for a, b in zip(row[way]["gb_s_per_gpu"], row["alone"]["gb_s_per_gpu"], strict=True)), 3)
            rows.append(row)
            print(json.dumps(row), flush=True)
    report = {"command": f"gpus.py SCRATCH --build build/cuda --kinds {args.kinds} --threads {args.threads} --rounds {args.rounds} --seconds {args.seconds:g} "
                         f"--gigabytes {args.gigabytes:g}", "gpus": names, "cpus": len(os.sched_getaffinity(0)), "commit": args.commit,
              "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": rows}
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
