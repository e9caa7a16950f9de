#!/usr/bin/env python3
"""Reads whole arrays into host memory, page cache warm: headrace compared with the limit of the bare libraries, tensorstore and zarrs.

  host_compare.py DATADIR --bench build/bench/bench/read_bench [--rounds 3] [--n 5] [--layouts NAME,...] [--json FILE]

DATADIR comes from gen_bench_data.py. For each layout, rounds of read_bench (limit and headrace alternating) and of each peer are
interleaved, so that all see the same state of the machine. A figure is the median of its rounds, a round's figure the median of n reads.
Run it with a Python that has tensorstore, zarr and zarrs. Exit code 1 if a target is missed: 0.93 of the limit for large compressed
chunks, 0.85 raw, 0.9 for sharded small chunks, 0.85 for small chunks as files, and faster than every peer into a touched and into a
fresh array.
"""
import argparse
import collections
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def target(layout):
    if layout.startswith("shard_"):
        return 0.9
    return 0.85 if layout.startswith("small_") or layout.endswith("_raw") else 0.93


def output_of(command, path):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return json.loads(path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--bench", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--layouts", default="")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    truth = json.loads((args.data / "truth.json").read_text())
    rows, missed, about = [], [], {}
    print("decoded GB/s          limit  headrace  share (target)   fresh | tensorstore touched, fresh | zarrs touched, fresh | lead")
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "out.json"
        for layout in args.layouts.split(",") if args.layouts else truth["layouts"]:
            for path in (args.data / layout).rglob("*"):
                if path.is_file():
                    path.read_bytes()   # fills the page cache
            row, figures = {}, collections.defaultdict(list)
            for _ in range(args.rounds):
                for ours in output_of([str(args.bench), str(args.data), "--only", layout, "--repeat", str(args.n), "--json", str(out)],
                                      out):
                    row.update(ours, target=target(layout))
                    for key in ("limit_decoded_gb_s", "headrace_decoded_gb_s", "share_of_limit", "headrace_fresh_array_decoded_gb_s"):
                        figures[key].append(ours[key])
                if not row:
                    break   # read_bench has no limit for it
                theirs = output_of([sys.executable, str(HERE / "peers.py"), str(args.data), "--layouts", layout, "--n", str(args.n),
                                    "--json", str(out)], out)
                about = {key: theirs[key] for key in ("packages", "python", "cpus", "kernel", "cache")}
                for peer in theirs["rows"]:
                    figures[f"{peer['reader']}_{peer['destination']}_decoded_gb_s"].append(round(peer["decoded_gb_per_s"], 3))
            if not row:
                continue
            row.update({key: statistics.median(values) for key, values in figures.items()}, rounds=figures)
            row["lead_touched"] = row["headrace_decoded_gb_s"] / max(row["ts_touched_decoded_gb_s"], row["zarrs_touched_decoded_gb_s"])
            row["lead_fresh"] = row["headrace_fresh_array_decoded_gb_s"] / max(row["ts_fresh_decoded_gb_s"],
                                                                              row["zarrs_fresh_decoded_gb_s"])
            rows.append(row)
            if row["share_of_limit"] < row["target"] or min(row["lead_touched"], row["lead_fresh"]) <= 1:
                missed.append(layout)
            print(f"{layout:20s} {row['limit_decoded_gb_s']:6.2f} {row['headrace_decoded_gb_s']:9.2f}  {row['share_of_limit']:5.3f} "
                  f"({row['target']:4.2f})  {row['headrace_fresh_array_decoded_gb_s']:9.2f} | {row['ts_touched_decoded_gb_s']:8.2f} "
                  f"{row['ts_fresh_decoded_gb_s']:8.2f} | {row['zarrs_touched_decoded_gb_s']:8.2f} {row['zarrs_fresh_decoded_gb_s']:8.2f} | "
                  f"{row['lead_touched']:.2f}x {row['lead_fresh']:.2f}x", flush=True)
    if args.json:
        head = dict(about, machine=platform.machine(), affinity=len(os.sched_getaffinity(0)), missed=missed)
        args.json.write_text(json.dumps(dict(head, rows=rows), indent=1) + "\n")
    if missed:
        print("missed: " + ", ".join(missed))
    sys.exit(1 if missed or not rows else 0)


if __name__ == "__main__":
    main()
