"""Measures loading one storage through torch.cuda.gds from the page cache: torch_load.py FILE NAME [BYTES]

Prints one JSON object per line: the first load, which initialises the library, and the median of later loads.
"""

import json
import os
import statistics
import sys
import time

import torch
from torch.cuda import gds

LOADS = 5
path, name = sys.argv[1:3]
size = min(int(sys.argv[3]) if len(sys.argv) > 3 else 1 << 30, os.path.getsize(path))
with open(path, "rb") as plain:  # fills the page cache
    while plain.read(64 << 20):
        pass
storage = torch.empty(size, dtype=torch.uint8, device="cuda").untyped_storage()
file = gds.GdsFile(path, os.O_RDONLY)
seconds = []
for _ in range(1 + LOADS):
    torch.cuda.synchronize()
    begin = time.perf_counter()
    file.load_storage(storage, 0)
    torch.cuda.synchronize()
    seconds.append(time.perf_counter() - begin)
speed = {"first": seconds[0], "median": statistics.median(seconds[1:])}
for load, took in speed.items():
    figure = {"library": name, "call": "torch.cuda.gds load", "load": load, "size_bytes": size}
    print(json.dumps(figure | {"gb_per_s": round(size / took / 1e9, 3)}))
