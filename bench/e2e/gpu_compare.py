#!/usr/bin/env python3
"""Reads whole arrays to GPU memory, warm and cold: headrace compared with tensorstore with a copy, in one run.

  gpu_compare.py DIR --bench build/cuda/bench/device_read_bench [--repeat 5] [--copies 1] [--json FILE]

Writes bench_fields.py's array, concatenated --copies times, into DIR with tensorstore in several layouts (once), then times each reader
in turn. headrace's time is from opening the array to the finished tensor in device memory; tensorstore's from opening to the end of
`.cuda()` into the same kind of tensor: from pageable memory, as tensorstore returns it, and in a second row from a pinned buffer that is
kept. There are separate figures for headrace's first read of an array ("first", in a process that has read another one) and for later
reads of an array that stays open ("again"). "Cold" drops the page cache before every read (needs root). Rates are decoded bytes per
second, medians. Needs numpy, tensorstore, torch.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

import numpy as np
import tensorstore as ts
import torch

from bench_fields import LAYOUTS, SHAPE, make


def spec(root, name, shape=SHAPE):
    layout = LAYOUTS[name]
    return {**layout, "metadata": {**layout["metadata"], "shape": shape}, "kvstore": {"driver": "file", "path": str(root / name)}}


def drop_caches():
    subprocess.run(["sync"], check=True)
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")


def tensorstore_read(root, name, pinned):
    """Seconds from opening to a finished CUDA tensor, and the tensor."""
    short = {k: v for k, v in spec(root, name).items() if k != "metadata"}
    context = ts.Context({"cache_pool": {"total_bytes_limit": 0}, "file_io_concurrency": {"limit": 32}})
    start = time.perf_counter()
    array = ts.open(short, read=True, context=context).result()
    if pinned is None:
        out = torch.from_numpy(array.read().result()).cuda()
    else:
        ts.array(pinned.numpy(), copy=False).write(array).result()
        out = pinned.cuda(non_blocking=True)
    torch.cuda.synchronize()
    return time.perf_counter() - start, out


def headrace_read(args, root, name, repeat, warmup, *more):
    lines = subprocess.run([args.bench, str(root / name), "--device", "cuda", "--repeat", str(repeat), "--warmup", str(warmup), *more]
                           + args.bench_args.split(), check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def median_of(rows):
    return sorted(rows, key=lambda r: r["wall_s"])[len(rows) // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--bench-args", default="")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--no-cold", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    root = args.dir
    root.mkdir(parents=True, exist_ok=True)
    data = np.concatenate([make(20)] * args.copies)
    shape, nbytes = data.shape, data.nbytes
    pinned = torch.empty(shape, dtype=torch.float32, pin_memory=True)
    truth = torch.from_numpy(data).cuda()
    h2d = []
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        truth.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()
        h2d.append(time.perf_counter() - start)
    truth.copy_(torch.from_numpy(data))
    result = {"gpu": torch.cuda.get_device_name(0), "tensorstore": ts.__version__ if hasattr(ts, "__version__") else "?",
              "shape": shape, "decoded_bytes": nbytes, "pinned_h2d_gb_s": nbytes / statistics.median(h2d) / 1e9, "rows": []}
    print(f"{result['gpu']}: pinned host-to-device {result['pinned_h2d_gb_s']:.1f} GB/s", flush=True)
    for name in args.layouts.split(","):
        path = root / name
        if not path.exists():
            ts.open(spec(root, name, shape), create=True).result().write(data).result()
        row = {"layout": name, "stored_bytes": sum(p.stat().st_size for p in path.rglob("*") if p.is_file())}
        for cache in ("warm",) if args.no_cold else ("warm", "cold"):
            times = {"tensorstore": [], "tensorstore_pinned": []}
            ours = []
            if cache == "warm":
                _, out = tensorstore_read(root, name, None)
                assert torch.equal(out, truth), name
                del out
                _, out = tensorstore_read(root, name, pinned)
                assert torch.equal(out, truth), name
                del out
                for _ in range(args.repeat):
                    times["tensorstore"].append(tensorstore_read(root, name, None)[0])
                    times["tensorstore_pinned"].append(tensorstore_read(root, name, pinned)[0])
                ours = headrace_read(args, root, name, args.repeat, 2)
            else:
                for _ in range(3):
                    drop_caches()
                    times["tensorstore"].append(tensorstore_read(root, name, None)[0])
                # All reads in one process, so that threads and pinned slabs exist, as in the peer's process.
                ours = headrace_read(args, root, name, 3, 1, "--cold")
                times.pop("tensorstore_pinned")
            median = median_of(ours)
            rates = {k: nbytes / statistics.median(v) / 1e9 for k, v in times.items()}
            best = max(rates.values())
            row[cache] = {"headrace": median, "peers_decoded_gb_s": rates, "ratio_to_best_peer": median["decoded_gb_s"] / best}
            print(f"{name:20s} {cache}: headrace {median['decoded_gb_s']:6.2f}  "
                  + "  ".join(f"{k} {v:.2f}" for k, v in rates.items())
                  + f"  ratio {median['decoded_gb_s'] / best:.2f}  path {median['path']}", flush=True)
            if cache == "warm":
                other = "v2_raw" if name != "v2_raw" else "v2_blosc_lz4"
                other = ["--warm-with", str(root / other)] if (root / other).exists() else []
                row["first"] = median_of([headrace_read(args, root, name, 1, 0, *other)[0] for _ in range(3)])
                row["again"] = median_of(headrace_read(args, root, name, args.repeat, 8, "--keep-open", "--settle-ms", "20"))
                print(f"{'':20s} first read {row['first']['decoded_gb_s']:6.2f}  read again {row['again']['decoded_gb_s']:6.2f}"
                      f"  path {row['again']['path']}", flush=True)
        result["rows"].append(row)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
