#!/usr/bin/env python3
"""Reads arrays of many small chunk files with programs of several builds in turn: chunk_files.py SCRATCH NAME=PROGRAM... [--rounds N] [--json
FILE]

PROGRAM is a build's device_read_bench. Arrays have 4,096 raw chunks of 64 KiB in three layouts: all in one folder (Zarr v2), eight per
folder, and one per folder. The page cache is warm. Each round starts each program twice for each array and device: for few reads and for
many. Reported are the first read of a store (wall time in milliseconds), a later read of the open array (likewise, the median of a run),
and the CPU time of a later read per file (microseconds over all threads: the difference between many reads and few). Figures are medians
over the rounds. Needs 270 MB in SCRATCH per array, and 270 MB of memory.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess

FILES, CHUNK_BYTES = 4096, 1 << 16
FEW, MANY = 3, 18
# Chunks along each dimension, and the key format.
LAYOUTS = {"one folder": ((4096,), "v2"), "eight in a folder": ((64, 8, 8), "v3"), "a folder each": ((4096, 1), "v3")}


def make(folder, grid, version):
    shape = [*grid[:-1], grid[-1] * CHUNK_BYTES]
    chunk = [1] * (len(grid) - 1) + [CHUNK_BYTES]
    folder.mkdir(parents=True, exist_ok=True)
    if version == "v2":
        (folder / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": shape, "chunks": chunk, "dtype": "|u1", "fill_value": 0, "order": "C",
                                                    "compressor": None, "filters": None}))
    else:
        (folder / "zarr.json").write_text(json.dumps({
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "uint8", "fill_value": 0, "attributes": {},
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}}, "codecs": [{"name": "bytes"}],
            "chunk_key_encoding": {"name": "default"}}))
    data = os.urandom(CHUNK_BYTES)
    for i in range(FILES):
        rest, place = i, []
        for count in reversed(grid):
            place.insert(0, str(rest % count))
            rest //= count
        path = folder / (".".join(place) if version == "v2" else "/".join(["c", *place]))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


# Returns the wall seconds of each read, and the CPU seconds of all of them.
def run(program, array, device, reads):
    command = [program, str(array), "--device", device, "--keep-open", "--warmup", "0", "--repeat", str(reads)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return [json.loads(line)["wall_s"] for line in out.splitlines()], spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--devices", default="host,host-staged")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    programs = dict(text.split("=", 1) for text in args.programs)
    for name, (grid, version) in LAYOUTS.items():
        make(args.scratch / name.replace(" ", "-"), grid, version)
    rows = {(layout, device): {name: {"first_ms": [], "later_ms": [], "cpu_us_per_file": []} for name in programs}
            for layout in LAYOUTS for device in args.devices.split(",")}
    for number in range(args.rounds):
        for (layout, device), of in rows.items():
            array = args.scratch / layout.replace(" ", "-")
            for name, program in list(programs.items())[:: 1 if number % 2 == 0 else -1]:
                few, few_spent = run(program, array, device, FEW)
                many, many_spent = run(program, array, device, MANY)
                of[name]["first_ms"] += [few[0] * 1e3, many[0] * 1e3]
                of[name]["later_ms"].append(statistics.median(many[2:]) * 1e3)
                of[name]["cpu_us_per_file"].append((many_spent - few_spent) / (MANY - FEW) / FILES * 1e6)
    results = [{"layout": layout, "device": device,
                "median": {name: {what: round(statistics.median(values), 3) for what, values in figures.items()} for name, figures in of.items()},
                "rounds": {name: {what: [round(value, 3) for value in values] for what, values in figures.items()} for name, figures in of.items()}}
               for (layout, device), of in rows.items()]
    for row in results:
        print(row["layout"], row["device"], row["median"])
    if args.json:
        args.json.write_text(json.dumps({"rounds": args.rounds, "files": FILES, "chunk_bytes": CHUNK_BYTES, "cpus": os.cpu_count(),
                                         "kernel": os.uname().release, "load_average": os.getloadavg(), "results": results}) + "\n")


main()
