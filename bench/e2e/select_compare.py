#!/usr/bin/env python3
"""Reads 1,000 random inner chunks of 64 KiB of one shard as one selection, page cache warm, into host memory: headrace compared with tensorstore,
zarr-python with zarrs, and (zstd) the bare library decoding the same chunks from memory on as many threads.

  select_compare.py SCRATCHDIR --bench build/dev/bench/select_bench [--rounds 5] [--n 5] [--threads 2] [--json FILE]

Writes its arrays (4,000 chunks: 262 MB raw, less with zstd) into SCRATCHDIR, unless they exist. Readers take turns by round; headrace
and the bare library alternate read by read within a round. A time is the median of its rounds, a round's time the median of n reads;
lead and share are medians of the per-round ratios, so that other load on the machine affects all readers of a round. Run it with a
Python that has tensorstore, zarr and zarrs. Exit code 1 if a target is missed: raw, twice as fast as the best peer; zstd, 0.9 of the
bare library.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy as np

ROWS, WIDTH, PICK = 4_000, 16_384, 1_000   # float32: 64 KiB per row


def write(path, codecs):
    import tensorstore as ts
    store = ts.open({
        "driver": "zarr3", "kvstore": f"file://{path}", "create": True, "delete_existing": True,
        "metadata": {
            "shape": [ROWS, WIDTH], "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [ROWS, WIDTH]}},
            "codecs": [{"name": "sharding_indexed", "configuration": {
                "chunk_shape": [1, WIDTH], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}] + codecs,
                "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}]}}).result()
    random = np.random.default_rng(1)
    wave = np.sin(np.arange(WIDTH, dtype=np.float32) / 300)
    noise = random.integers(0, 32, (ROWS, WIDTH), dtype=np.uint8).astype(np.float32)
    store.write(np.round(500 * wave) + noise).result()


def seconds(n, read):
    read()
    times = []
    for _ in range(n):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--bench", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--n", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    import tensorstore as ts
    import zarr
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline", "threading.max_workers": args.threads})
    args.scratch.mkdir(parents=True, exist_ok=True)
    rows = np.random.default_rng(2).permutation(ROWS)[:PICK]
    list_file = args.scratch / "rows.txt"
    list_file.write_text("\n".join(map(str, rows)) + "\n")
    results, missed = [], []
    for name, codecs in (("raw", []), ("zstd", [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}])):
        path = args.scratch / name
        if not (path / "zarr.json").exists():
            write(path, codecs)
        (path / "c/0/0").read_bytes()   # fills the page cache
        context = ts.Context({"data_copy_concurrency": {"limit": args.threads}, "file_io_concurrency": {"limit": args.threads}})
        theirs = ts.open({"driver": "zarr3", "kvstore": f"file://{path}"}, context=context).result()
        python = zarr.open_array(path, mode="r")
        reads = {
            "tensorstore": lambda: theirs.oindex[rows].read().result(),
            "zarrs": lambda: python.oindex[rows],
        }
        figures = {"headrace": [], "limit": [], "tensorstore": [], "zarrs": []}
        cpu_shares = []
        for _ in range(args.rounds):
            ours = json.loads(subprocess.run([args.bench, path, list_file, str(args.threads), str(args.n)], check=True,
                                             capture_output=True, text=True).stdout)
            if ours["chunks"] != PICK:
                sys.exit(f"{name}: {ours['chunks']} chunks were read, not {PICK}")
            figures["headrace"].append(ours["headrace_seconds"])
            figures["limit"].append(ours["limit_seconds"])
            cpu_shares.append(ours["limit_cpu_seconds"] / ours["headrace_cpu_seconds"])
            for peer, read in reads.items():
                figures[peer].append(seconds(args.n, read))
        median = {key: statistics.median(values) for key, values in figures.items()}
        rounds = list(zip(*figures.values()))
        lead = statistics.median(min(tensorstore, zarrs) / headrace for headrace, _, tensorstore, zarrs in rounds)
        share = statistics.median(limit / headrace for headrace, limit, _, _ in rounds)
        cpu_share = statistics.median(cpu_shares)
        good = lead >= 2 if name == "raw" else share >= 0.9
        if not good:
            missed.append(name)
        results.append({"layout": name, "median_seconds": median, "rounds_seconds": figures, "lead_over_better_peer": lead,
                        "share_of_limit": share, "share_of_limit_cpu": cpu_share, "target_met": good})
        print(f"{name:5} " + "  ".join(f"{key} {1e3 * value:.1f} ms" for key, value in median.items()) +
              f"  lead {lead:.2f}  share of limit {share:.2f} ({cpu_share:.2f} of its processor time)  {'ok' if good else 'MISSED'}", flush=True)
    if args.json:
        args.json.write_text(json.dumps({
            "command": " ".join(["select_compare.py", "SCRATCHDIR"] + sys.argv[2:]), "chunks": PICK, "of": ROWS, "chunk_bytes": 4 * WIDTH,
            "cpus": os.cpu_count(), "machine": platform.machine(), "load_average": os.getloadavg(), "threads": args.threads,
            "versions": {"tensorstore": __import__("importlib.metadata").metadata.version("tensorstore"), "zarr": zarr.__version__,
                         "zarrs": __import__("importlib.metadata").metadata.version("zarrs")},
            "results": results}, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
