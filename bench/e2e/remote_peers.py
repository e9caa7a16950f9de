#!/usr/bin/env python3
"""Reads arrays of a bucket into NumPy: headrace, zarr-python over obstore and over s3fs, tensorstore, and curl, which fetches the same
objects and discards them.

  remote_peers.py SCRATCHDIR --server build/dev/tests/remote_server [--megabytes 1024] [--rounds 5] [--delays 0,20,100] [--json FILE]

The bucket is served on the loopback interface by this project's own server (one thread per connection, objects in memory), which delays
each answer by --delays milliseconds. So this measures the clients, not the network or the disk: compare CPU seconds per GB (user and
system, all threads of the client, 10^9 bytes; for curl the whole process) and, with a delay, the number of requests in flight. The
server uses the same CPUs, so rates mean little without a delay.

  chunks    chunks of 4 MiB as separate objects, the whole array
  shards    inner chunks of 64 KiB in shards of 64 MiB, the whole array
  column    the same, one eighth of each row of chunks: separate ranges of 64 KiB

All arrays are float32 without a codec. Clients take turns within a round. Each runs in its own process, which has already read something
and touched as much memory as it will need; figures are medians of the rounds. The first read of each is compared with the source.
"later" is the median of three more reads in the same process, which benefit from what the client has learned about its server and from
memory already allocated; it is omitted if a read takes longer than 1.5 seconds. A client that is not installed is skipped, and named in
the result. On a busy machine ("load" in the result) CPU times remain valid, but rates do not.

Needs numpy and zarr, and those of headrace, obstore, s3fs, tensorstore and curl that are to be measured.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from typing import Any

SIDE, TILE, DEEP = 1024, 128, 16  # a plane is 4 MiB, a tile 64 KiB, a shard 16 planes
CLIENTS = ("headrace", "tensorstore", "obstore", "s3fs", "curl")
LAYOUTS = ("chunks", "shards", "column")
PACKAGES = {"headrace": "headrace", "tensorstore": "tensorstore", "obstore": "obstore", "s3fs": "s3fs"}
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}
CURL_AT_ONCE = 64
LATER, SLOW_SECONDS = 3, 1.5


def make(folder: pathlib.Path, planes: int) -> None:
    import numpy as np
    import zarr

    done = folder / "done"
    if done.exists() and done.read_text() == str(planes):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    data = np.random.default_rng(7).integers(0, 1 << 30, (planes, SIDE, SIDE), dtype=np.int32).view(np.float32)
    for name, chunks, shards in (("chunks", (1, SIDE, SIDE), None), ("shards", (1, TILE, TILE), (DEEP, SIDE, SIDE))):
        array = zarr.create_array(str(folder / name), shape=data.shape, dtype="float32", chunks=chunks, shards=shards, compressors=None,
                                  filters=None)
        for first in range(0, planes, DEEP):
            array[first : first + DEEP] = data[first : first + DEEP]
    done.write_text(str(planes))


def selection(layout: str) -> tuple[Any, ...]:
    return (slice(None), slice(None), slice(0, TILE)) if layout == "column" else (slice(None),) * 3


def stored(layout: str) -> str:
    return "chunks" if layout == "chunks" else "shards"


def opened(client: str, endpoint: str, layout: str) -> Any:
    """Returns a function that reads the layout."""
    key, part = stored(layout), selection(layout)
    if client == "headrace":
        import headrace

        array = headrace.open_array(f"s3://bucket/{key}", storage_options={"endpoint_url": endpoint})
        return lambda: array[part]
    if client == "tensorstore":
        import tensorstore as ts

        store = ts.open({"driver": "zarr3", "kvstore": {"driver": "s3", "bucket": "bucket", "endpoint": endpoint, "aws_region": "us-east-1",
                                                        "path": key + "/"}}).result()
        return lambda: store[part].read().result()
    import zarr

    if client == "obstore":
        from obstore.store import S3Store
        from zarr.storage import ObjectStore

        store = ObjectStore(S3Store("bucket", prefix=key, endpoint=endpoint, region="us-east-1", access_key_id="bench",
                                    secret_access_key="bench", client_options={"allow_http": True},
                                    virtual_hosted_style_request=False), read_only=True)
        array = zarr.open_array(store, mode="r")
    else:
        array = zarr.open_array(f"s3://bucket/{key}", mode="r", storage_options={
            "key": "bench", "secret": "bench", "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}})
    return lambda: array[part]


def cpu(who: int = resource.RUSAGE_SELF) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def measure_curl(endpoint: str, layout: str, planes: int) -> dict[str, Any]:
    """Fetches the same bytes: whole objects, or for a column each of its inner chunks. Reads no index and assembles nothing."""
    lines = []
    if layout == "column":
        # Inner chunks are in the shard in numerical order.
        tiles = SIDE // TILE
        for shard in range(planes // DEEP):
            for number in range(0, DEEP * tiles * tiles, tiles):
                begin = number * TILE * TILE * 4
                lines += [f'url = "{endpoint}/bucket/shards/c/{shard}/0/0"', f'range = "{begin}-{begin + TILE * TILE * 4 - 1}"',
                          'output = "/dev/null"', "next"]
    else:
        count = planes if layout == "chunks" else planes // DEEP
        for i in range(count):
            lines += [f'url = "{endpoint}/bucket/{stored(layout)}/c/{i}/0/0"', 'output = "/dev/null"', "next"]
    before, begun = cpu(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = ["curl", "--silent", "--show-error", "--fail", "--parallel", "--parallel-max", str(CURL_AT_ONCE), "--config", "-"]
    subprocess.run(command, input="\n".join(lines[:-1]), text=True, check=True)
    return {"seconds": time.perf_counter() - begun, "cpu": cpu(resource.RUSAGE_CHILDREN) - before, "bytes": bytes_of(layout, planes)}


def bytes_of(layout: str, planes: int) -> int:
    return planes * SIDE * SIDE * 4 // (SIDE // TILE if layout == "column" else 1)


def measure(client: str, endpoint: str, layout: str, planes: int, folder: pathlib.Path | None) -> dict[str, Any]:
    """Runs in a separate process."""
    if client == "curl":
        return measure_curl(endpoint, layout, planes)
    import numpy as np

    read = opened(client, endpoint, layout)
    warm = opened(client, endpoint, "chunks" if layout == "chunks" else "column")
    if layout != "column":
        warm()[:1]
    # Touching memory for the first time can take longer than the read on a virtual machine. So touch as much as the result takes, and as
    # much again for the client, and free it.
    touched = np.ones(2 * bytes_of(layout, planes), np.uint8)
    del touched
    before, begun = cpu(), time.perf_counter()
    result = read()
    row = {"seconds": time.perf_counter() - begun, "cpu": cpu() - before, "bytes": int(np.asarray(result).nbytes), "later": []}
    if folder is not None:
        import zarr

        wanted = zarr.open_array(str(folder / stored(layout)), mode="r")[selection(layout)]
        row["equal"] = bool(np.array_equal(np.asarray(result).view(np.int32), wanted.view(np.int32)))
        del wanted
    # The first of these reads uses untouched memory and is not counted.
    for turn in range(LATER + 1 if row["seconds"] < SLOW_SECONDS else 0):
        before, begun = cpu(), time.perf_counter()
        result = read()
        if turn > 0:
            row["later"].append([time.perf_counter() - begun, cpu() - before])
    del result
    return row


def versions() -> dict[str, str]:
    found = {}
    for client, package in PACKAGES.items():
        try:
            found[client] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if shutil.which("curl"):
        found["curl"] = subprocess.run(["curl", "--version"], capture_output=True, text=True).stdout.split()[1]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--server", default="build/dev/tests/remote_server")
    parser.add_argument("--megabytes", type=int, default=1024, help="of each array, 2^20 bytes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--delays", default="0,20,100", help="milliseconds")
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--layouts", default=",".join(LAYOUTS))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        client, endpoint, layout, planes, folder = options.one
        print(json.dumps(measure(client, endpoint, layout, int(planes), pathlib.Path(folder) if folder != "-" else None)))
        return 0
    planes = options.megabytes // 4 // DEEP * DEEP
    make(options.scratch / "bucket", planes)
    there = versions()
    clients = [name for name in options.clients.split(",") if name in there]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | KEYS
    load, rows, failed = [], [], 0
    for delay in map(int, options.delays.split(",")):
        server = subprocess.Popen([options.server, str(options.scratch / "bucket"), str(delay)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
        assert server.stdout is not None
        endpoint = server.stdout.readline().strip()
        try:
            for layout in options.layouts.split(","):
                taken: dict[str, list[dict[str, Any]]] = {client: [] for client in clients}
                for turn in range(options.rounds):
                    load.append(os.getloadavg()[0])
                    for client in clients[turn % len(clients) :] + clients[: turn % len(clients)]:
                        folder = str(options.scratch / "bucket") if turn == 0 else "-"
                        done = subprocess.run([sys.executable, __file__, str(options.scratch), "--one", client, endpoint, layout, str(planes),
                                               folder], capture_output=True, text=True, env=environment)
                        if done.returncode != 0:
                            print(f"{client}, {layout}: {done.stderr.strip()[-400:]}", file=sys.stderr)
                            failed += 1
                            continue
                        row = json.loads(done.stdout.splitlines()[-1])
                        failed += not row.get("equal", True) or row["bytes"] != bytes_of(layout, planes)
                        taken[client].append(row)
                for client, found in taken.items():
                    if not found:
                        continue
                    size = bytes_of(layout, planes)
                    later = [one for row in found for one in row.get("later", [])]
                    rows.append({"delay_ms": delay, "layout": layout, "client": client,
                                 "cpu_seconds_per_gb": round(statistics.median(row["cpu"] for row in found) * 1e9 / size, 3),
                                 "gb_per_second": round(size * 1e-9 / statistics.median(row["seconds"] for row in found), 3),
                                 "seconds": [round(row["seconds"], 3) for row in found],
                                 "cpu_seconds": [round(row["cpu"], 3) for row in found]})
                    if later:
                        rows[-1] |= {"later_cpu_seconds_per_gb": round(statistics.median(used for _, used in later) * 1e9 / size, 3),
                                     "later_gb_per_second": round(size * 1e-9 / statistics.median(took for took, _ in later), 3)}
                    last = rows[-1]
                    print(f"{delay:4} ms  {layout:7} {client:12} {last['cpu_seconds_per_gb']:7.2f} CPU s/GB  "
                          f"{last['gb_per_second']:6.3f} GB/s" + (f", later {last['later_cpu_seconds_per_gb']:7.2f}, "
                                                                  f"{last['later_gb_per_second']:6.3f}" if later else ""), flush=True)
        finally:
            server.communicate()
    if options.json:
        document = {"command": f"remote_peers.py SCRATCH --megabytes {options.megabytes} --rounds {options.rounds} --delays {options.delays}",
                    "machine": f"{os.cpu_count()} CPUs, {platform.release()}", "load": {"least": round(min(load), 1), "most": round(max(load), 1)},
                    "versions": there, "left_out": [name for name in options.clients.split(",") if name not in there],
                    "array_bytes": planes * SIDE * SIDE * 4, "column_bytes": bytes_of("column", planes), "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
