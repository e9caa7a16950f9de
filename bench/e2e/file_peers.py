#!/usr/bin/env python3
"""Measures kvikIO and torch.cuda.gds on the rows of file_bench: a file to GPU memory, by block size and threads.

  file_peers.py FILE [--json OUT.jsonl]

FILE contains at least 1 GiB. Prints one JSON object per row, with file_bench's row names: "gbytes_per_s" is 1e9 bytes
of the file per second, the median of three rounds after a warm-up. Peers that are not installed are skipped with a
message. Cold rows evict the file's pages before each round.
"""
import argparse
import json
import os
import statistics
import sys
import time

KI, MI, GI = 1 << 10, 1 << 20, 1 << 30
SIZES = [4 * KI, 16 * KI, 64 * KI, 256 * KI, MI, 4 * MI, 16 * MI]


def drop(path):
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def warm(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(8 * MI):
            pass


def median(round_, before=None, repeat=3):
    times = []
    for i in range(repeat + 1):
        if before:
            before()
        start = time.perf_counter()
        round_()
        if i:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def total_for(block):
    return GI if block >= 64 * KI else GI // 16


def kvikio_rows(path, emit):
    import cupy
    import kvikio
    import kvikio.defaults as defaults

    memory = cupy.empty(GI, dtype=cupy.uint8)
    for threads in (1, 4, 16):
        defaults.set({"num_threads": threads, "gds_threshold": 0})
        for block in SIZES:
            total = total_for(block)
            defaults.set({"task_size": max(block, 64 * KI), "bounce_buffer_size": max(block, 4 * MI)})
            with kvikio.CuFile(path, "r") as file:
                def read():
                    futures = [file.pread(memory[at:at + block], block, at) for at in range(0, total, block)]
                    for future in futures:
                        future.get()
                emit(f"table_warm_{block // KI}k_{threads}t", "kvikIO", total, median(read))
        for block in (64 * KI, MI, 4 * MI):
            with kvikio.CuFile(path, "r") as file:
                def read_cold():
                    futures = [file.pread(memory[at:at + block], block, at) for at in range(0, GI, block)]
                    for future in futures:
                        future.get()
                emit(f"table_cold_{block // KI}k_{threads}t", "kvikIO", GI, median(read_cold, lambda: drop(path), 1))
        warm(path)


def torch_rows(path, emit):
    import torch
    import torch.cuda.gds as gds

    file = gds.GdsFile(path, os.O_RDONLY)
    for block in SIZES:
        storage = torch.empty(block, dtype=torch.uint8, device="cuda").untyped_storage()
        total = min(total_for(block), 256 * MI)

        def read():
            for at in range(0, total, block):
                file.load_storage(storage, at)
            torch.cuda.synchronize()
        emit(f"table_warm_{block // KI}k_1t", "torch.cuda.gds", total, median(read))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--json")
    options = parser.parse_args()
    out = open(options.json, "w", buffering=1) if options.json else sys.stdout

    def emit(figure, who, total, seconds):
        print(json.dumps({"figure": figure, "who": who, "limit": "h2d", "gbytes_per_s": round(total / seconds / 1e9, 3)}),
              file=out, flush=True)

    warm(options.file)
    for name, rows in (("kvikIO", kvikio_rows), ("torch.cuda.gds", torch_rows)):
        try:
            rows(options.file, emit)
        except Exception as error:  # a peer that does not run is no failure
            print(json.dumps({"who": name, "left_out": f"{type(error).__name__}: {error}"}), file=out, flush=True)


if __name__ == "__main__":
    main()
