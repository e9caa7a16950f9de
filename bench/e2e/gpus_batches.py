#!/usr/bin/env python3
"""Takes batches of an array from a headrace.Loader, without training on them, and prints their rate. One process of gpus.py.

  gpus_batches.py GROUP SECONDS DEVICE RANK WORLD     prints a line of JSON

GROUP: arrays with the dimensions time, latitude, longitude. A batch has four samples of two consecutive time steps of all arrays, as float32,
shuffled; each of the WORLD ranks takes its own. After a second and a half, in which reads settle, it prints "ready" and waits for a line of
input, so that several processes can begin together. cpu_ms: CPU time of the process for each batch.
"""
import json
import statistics
import sys
import time

import headrace

BATCH = 4


def batches(loader, seconds):
    """Milliseconds from batch to batch, over several epochs."""
    began = last = time.perf_counter()
    took = []
    while True:
        for _ in loader:
            now = time.perf_counter()
            took.append(1e3 * (now - last))
            last = now
            if now - began > seconds:
                return took


def main():
    group, seconds, device, rank, world = sys.argv[1:]
    fields = {name: array for name, array in headrace.open(group).arrays() if array.dims == ("time", "latitude", "longitude")}
    loader = headrace.Loader(fields, stack="fields", input_dims={"time": 2}, input_overlap={"time": 1}, batch_size=BATCH, shuffle=True, seed=1,
                             rank=int(rank), world=int(world), dtype="float32", device=device)
    batches(loader, 1.5)
    print("ready", flush=True)
    sys.stdin.readline()
    cpu = time.process_time()
    took = batches(loader, float(seconds))
    cpu = time.process_time() - cpu
    _, rows, columns = next(iter(fields.values())).shape
    batch_bytes = BATCH * 2 * len(fields) * 4 * rows * columns
    print(json.dumps({"device": device, "gb_s": round(batch_bytes * len(took) / sum(took) / 1e6, 2), "calls": len(took), "ms_p50": round(statistics.median(took), 3),
                      "ms_p99": round(sorted(took)[int(0.99 * len(took))], 3), "cpu_ms": round(1e3 * cpu / len(took), 2)}))


if __name__ == "__main__":
    main()
