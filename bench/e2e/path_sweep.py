#!/usr/bin/env python3
"""How the path that `auto` chooses compares with the best fixed one: block sizes from 7 bytes to 16 MiB, in sequence and at random, out
of a cold and a warm page cache, with few and many requests in flight.

  path_sweep.py HEADRACE FILE [--seconds 1] [--repeats 3] [--device host] [--output results.json]

FILE: of at least 256 MiB, on the file system to be measured; its pages are dropped for the cold rows. Of the repeats the median counts.
Exit code 1 where auto is below 0.9 of the best fixed path."""
import argparse
import json
import pathlib
import platform
import statistics
import subprocess
import sys

SIZES = [7, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20]
FIXED = {"host": ["direct", "buffered"], "other": ["direct", "buffered", "mapped"]}
LOWEST = 0.9


def rate(arguments, size, rw, cache, depth, path):
    command = [arguments.headrace, "bench", f"--filename={arguments.file}", f"--rw={rw}", f"--bs={size}", f"--iodepth={depth}",
               f"--path={path}", f"--cache={cache}", f"--device={arguments.device}", f"--runtime={arguments.seconds}",
               "--output-format=json"]  # each block once, or what of them the time allows
    done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 20 * arguments.seconds)
    if done.returncode != 0:
        return None  # direct I/O needs whole blocks
    return json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headrace")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="host")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=SIZES)
    parser.add_argument("--depths", type=lambda text: [int(depth) for depth in text.split(",")], default=[1, 32])
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    fixed = FIXED.get(arguments.device, FIXED["other"])
    rows, low = [], 0
    for cache in ("cold", "warm"):
        for rw in ("read", "randread"):
            for depth in arguments.depths:
                for size in arguments.sizes:
                    runs = {path: [] for path in ["auto", *fixed]}
                    for _ in range(arguments.repeats):  # in turn, so that what else the machine does hits all alike
                        for path, values in runs.items():
                            if None not in values:
                                values.append(rate(arguments, size, rw, cache, depth, path))
                    median = {path: statistics.median(values) for path, values in runs.items() if None not in values}
                    best = max(value for path, value in median.items() if path != "auto")
                    ratio = median["auto"] / best if best > 0 else 1.0
                    low += ratio < LOWEST
                    rows.append({"cache": cache, "rw": rw, "iodepth": depth, "block_bytes": size, "bytes_per_second": median,
                                 "auto_over_best": round(ratio, 3)})
                    print(f"{cache:5} {rw:9} depth {depth:3} {size:9}: " + ", ".join(
                        f"{path} {value / 1e6:9.2f}" for path, value in median.items()) + f" MB/s  {ratio:5.2f}"
                        + ("  LOW" if ratio < LOWEST else ""), flush=True)
    print(f"{len(rows)} rows, {low} below {LOWEST}")
    if arguments.output:
        arguments.output.write_text(json.dumps({"command": sys.argv[1:], "machine": platform.platform(), "rows": rows}, indent=1) + "\n")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
