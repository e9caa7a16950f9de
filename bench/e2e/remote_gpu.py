#!/usr/bin/env python3
"""Reads an array from a web server on the same machine into a GPU, and compares the rate with curl's.

  remote_gpu.py SCRATCHDIR --headrace build/cuda/bin/headrace [--nginx nginx] [--device cuda] [--gigabytes 4] [--connections 16,64]
                [--rounds 3] [--seconds 5] [--before HEADRACE] [--kvikio PYTHON] [--json FILE]

`headrace gen` writes one array of float32 fields, Blosc lz4 with shuffle, in chunks of 4 MB; nginx serves the folder, whose files are
in the page cache. The following run in turn, for each number of connections and --rounds times:

  curl       --parallel, one process per CPU but at most one per connection: the same objects, discarded
  gpu        `headrace bench --zarr URL --device DEVICE`: the array into device memory, decoded there
  before     the same with another build of headrace, if --before names one
  kvikio     kvikIO's RemoteFile with that interpreter, which needs CuPy: one thread per connection reads object after object, with known
             sizes, into device memory; nothing is decoded
  cached     as gpu, with a disk cache that holds everything: asks the server for versions once per session, then reads the disk
  local      as gpu, from the folder itself, without a server

Rates are 10^9 stored bytes per second, medians of the rounds, and except for curl also decoded bytes; CPU seconds are those of the
client per 10^9 stored bytes. Server and client share the CPUs. `gpu_of_curl` is the target figure: 0.95 means that the server limits
the read. `cached_of_local`: the rate of a read through the cache relative to that of a local file. Needs nginx and curl.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time
from typing import Any

ARRAY = "geopotential"
PORT = 8937
CONF = """daemon off; {user} worker_processes auto; pid {run}/pid; error_log {run}/error.log;
events {{ worker_connections 4096; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000; default_type application/octet-stream;
  client_body_temp_path {run}/1; proxy_temp_path {run}/2; fastcgi_temp_path {run}/3; uwsgi_temp_path {run}/4; scgi_temp_path {run}/5;
  server {{ listen 127.0.0.1:{port} backlog=1024 reuseport; root {root}; }} }}
"""


# Arguments: connections and seconds; input: a URL and a size per line.
KVIKIO = """
import itertools, json, resource, sys, threading, time
import cupy, kvikio, kvikio.defaults
connections, seconds = int(sys.argv[1]), float(sys.argv[2])
kvikio.defaults.set({"num_threads": connections})
objects = [(url, int(size)) for url, size in (line.split() for line in sys.stdin)]
turns, stop, counts = itertools.count(), threading.Event(), [0] * connections
def work(mine):
    memory = cupy.empty(max(size for _, size in objects), "u1")
    while not stop.is_set():
        url, size = objects[next(turns) % len(objects)]
        with kvikio.RemoteFile.open_http(url, size) as file:
            counts[mine] += file.read(memory[:size])
def now():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), sum(counts), used.ru_utime + used.ru_stime
threads = [threading.Thread(target=work, args=(i,)) for i in range(connections)]
for thread in threads: thread.start()
time.sleep(2)
begin = now()
time.sleep(seconds)
end = now()
stop.set()
for thread in threads: thread.join()
took, bytes_, cpu = (b - a for a, b in zip(begin, end))
print(json.dumps({"seconds": took, "bytes": bytes_, "cpu": cpu}))
"""


def kvikio(python: str, urls: list[str], sizes: list[int], connections: int, seconds: float) -> dict[str, float]:
    done = subprocess.run([python, "-c", KVIKIO, str(connections), str(seconds)], capture_output=True, text=True,
                          input="".join(f"{url} {size}\n" for url, size in zip(urls, sizes, strict=True)))
    if done.returncode != 0:
        raise SystemExit(f"remote_gpu: kvikio: {done.stderr}")
    out: dict[str, float] = json.loads(done.stdout)
    return out


def client_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(run: Any) -> dict[str, float]:
    """Converts the result of `run`, a dict with bytes and optionally seconds, to rates."""
    cpu, begun = client_cpu(), time.perf_counter()
    out = run()
    seconds = out.get("seconds", time.perf_counter() - begun)
    gigabytes = out["bytes"] / 1e9
    return {"stored_gb_s": gigabytes / seconds, "cpu_s_per_gb": out.get("cpu", client_cpu() - cpu) / out.get("all_bytes", out["bytes"]) * 1e9}


def curl(urls: list[str], sizes: int, connections: int, seconds: float) -> dict[str, float]:
    """Fetches all objects repeatedly, for about as long as the others run."""
    processes = max(1, min(len(os.sched_getaffinity(0)), connections))

    def all_of_them(passes: int) -> float:
        jobs = []
        for i in range(processes):
            mine = urls[i::processes] * passes
            text = "\nnext\n".join(f'url = "{url}"\noutput = "/dev/null"' for url in mine)
            at_once = connections // processes + (i < connections % processes)
            job = subprocess.Popen(["curl", "--silent", "--fail", "--parallel", "--parallel-max", str(at_once), "--config", "-"],
                                   stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            jobs.append((job, text))
        begun = time.perf_counter()
        for job, text in jobs:
            assert job.stdin is not None
            job.stdin.write(text)
            job.stdin.close()
        for job, _ in jobs:
            if job.wait() != 0:
                raise SystemExit(f"remote_gpu: curl ends with status {job.returncode}")
        return time.perf_counter() - begun

    passes = max(1, round(seconds / all_of_them(1)))
    return {"seconds": all_of_them(passes), "bytes": sizes * passes, "all_bytes": sizes * (passes + 1)}


def bench(headrace: str, seconds: float, connections: int, *words: str, cache: str = "off") -> dict[str, float]:
    done = subprocess.run([headrace, "bench", *words, "--time_based", "--runtime", str(seconds), "--ramp_time", "2", "--output-format", "json"],
                          capture_output=True, text=True, env={**os.environ, "HEADRACE_HTTP_CONNECTIONS": str(connections),
                                                               "HEADRACE_CACHE_DIR": cache, "HEADRACE_PLACEMENT_FILE": "off"})
    if done.returncode != 0:
        raise SystemExit(f"remote_gpu: headrace bench {' '.join(words)}: {done.stderr}")
    read = json.loads(done.stdout)["jobs"][0]["read"]
    return {"seconds": read["runtime"] / 1000, "bytes": read["io_bytes"], "all_bytes": read["io_bytes"] * (seconds + 2) / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scratch", type=pathlib.Path)
    parser.add_argument("--headrace", required=True)
    parser.add_argument("--nginx", default="nginx")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--connections", default="16,64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--before", help="another headrace to compare with")
    parser.add_argument("--kvikio", help="an interpreter that has kvikio and cupy")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    root = given.scratch.resolve()
    store = root / "remote_gpu.zarr"
    # The workload has three such arrays.
    subprocess.run([given.headrace, "gen", str(store), "--workload", "w1", "--codec", "blosc-lz4", "--size", f"{int(3 * given.gigabytes * 1e9)}",
                    "--overwrite"], check=True, stdout=subprocess.DEVNULL)
    objects = sorted(path for path in (store / ARRAY).iterdir() if not path.name.startswith("."))
    sizes = sum(path.stat().st_size for path in objects)
    for path in objects:
        path.read_bytes()
    info = json.loads((store / ARRAY / ".zarray").read_text())
    decoded = 4
    for extent in info["shape"]:
        decoded *= extent
    base = f"http://127.0.0.1:{PORT}/{store.name}/{ARRAY}"
    urls = [f"{base}/{path.name}" for path in objects]
    try:
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    except OSError:
        gpu = ""
    out: dict[str, Any] = {"what": "remote_gpu", "gpu": gpu, "stored_bytes": sizes, "decoded_bytes": decoded, "objects": len(objects), "device": given.device,
                           "cpus": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
                           "http_threads": os.environ.get("HEADRACE_HTTP_THREADS", ""), "headrace": subprocess.run([given.headrace, "--version"], capture_output=True, text=True).stdout.strip(), "rows": []}
    with tempfile.TemporaryDirectory() as run:
        pathlib.Path(run).chmod(0o755)
        conf = pathlib.Path(run) / "nginx.conf"
        conf.write_text(CONF.format(run=run, user="user root;" if os.geteuid() == 0 else "", port=PORT, root=root))
        server = subprocess.Popen([given.nginx, "-c", str(conf), "-e", f"{run}/error.log"])
        try:
            deadline = time.monotonic() + 10
            while subprocess.run(["curl", "--silent", "--fail", "-o", "/dev/null", urls[0]]).returncode != 0:
                if time.monotonic() > deadline or server.poll() is not None:
                    raise SystemExit("remote_gpu: nginx does not answer: " + (pathlib.Path(run) / "error.log").read_text())
                time.sleep(0.1)
            cache = str(root / "remote_gpu.cache")
            bench(given.headrace, 8, 16, "--zarr", base, "--device", given.device, cache=cache)  # fills the cache
            for connections in map(int, given.connections.split(",")):
                def read(path: str, headrace: str = given.headrace, cache: str = "off", count: int = connections) -> dict[str, float]:
                    return bench(headrace, given.seconds, count, "--zarr", path, "--device", given.device, cache=cache)

                ways = {
                    "curl": lambda c=connections: curl(urls, sizes, c, given.seconds),
                    "gpu": lambda: read(base),
                    "cached": lambda: read(base, cache=cache),
                    "local": lambda: read(str(store / ARRAY)),
                }
                if given.before:
                    ways["before"] = lambda: read(base, given.before)
                if given.kvikio:
                    ways["kvikio"] = lambda c=connections: kvikio(
                        given.kvikio, urls, [path.stat().st_size for path in objects], c, given.seconds)
                rounds: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
                for _ in range(given.rounds):
                    for name, way in ways.items():
                        rounds[name].append(measured(way))
                row: dict[str, Any] = {"connections": connections}
                for name, runs in rounds.items():
                    rates = [one["stored_gb_s"] for one in runs]
                    row[name] = {"stored_gb_s": round(statistics.median(rates), 3), "least": round(min(rates), 3), "most": round(max(rates), 3),
                                 "cpu_s_per_gb": round(statistics.median(one["cpu_s_per_gb"] for one in runs), 3)}
                    if name not in ("curl", "kvikio"):
                        row[name]["decoded_gb_s"] = round(statistics.median(rates) * decoded / sizes, 2)
                row["gpu_of_curl"] = round(row["gpu"]["stored_gb_s"] / row["curl"]["stored_gb_s"], 3)
                row["cached_of_local"] = round(row["cached"]["stored_gb_s"] / row["local"]["stored_gb_s"], 3)
                out["rows"].append(row)
                print(json.dumps(row), flush=True)
        finally:
            server.terminate()
            server.wait()
    if given.json:
        given.json.write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
