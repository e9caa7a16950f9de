#!/usr/bin/env python3
"""Compares the path that `auto` chooses with the best fixed one: block sizes from 7 bytes to 16 MiB, sequential and random, with a cold
and a warm page cache, with few and many requests in flight.

  path_sweep.py HEADRACE FILE [--seconds 1] [--rounds 4] [--most-rounds 12] [--busy 0.1] [--device host] [--output results.json]

FILE: at least 256 MiB, on the file system to be measured; its pages are evicted for the cold rows. A round runs every path once, every
second round in reverse order, so that slow drifts affect all paths alike. A row's figure is the median of the rounds' ratios of auto to
the best fixed path, with a 90 % confidence interval. A row is `below` if the whole interval is below 0.9, and `level` if none of it is.
Rows that are not level get more rounds of the paths that may still be the best, whatever the first rounds suggest, and end as `below`
or `undecided`. Rounds in which other processes used more than --busy of the CPUs are repeated, at most three times.
Exit code 1 if auto is below.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import time

SIZES = [7, 512, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20]
FIXED = {"host": ["direct", "buffered"], "other": ["direct", "buffered", "mapped"]}
LOWEST = 0.9
REPEATS = 3  # of a round in which other processes were busy


def interval(values):
    """A 90 % confidence interval of the median of the distribution that the values come from; their whole range if they are too few."""
    ordered = sorted(values)
    n, cut = len(ordered), 0
    # The median is outside if at most `cut` values are on one side of it.
    while 2 * sum(math.comb(n, k) for k in range(cut + 2)) * 0.5 ** n <= 0.1:
        cut += 1
    return ordered[cut], ordered[-1 - cut]


def verdict(ratios):
    """The verdict on a row: "below", "level" or "undecided"."""
    low, high = interval(ratios)
    return "below" if high < LOWEST else "level" if low >= LOWEST else "undecided"


def ratios_of(rates):
    """The ratio of auto to the best fixed path in each round that both ran in, and that path: the one with the highest median.
    `rates`: for each path, its rate by round number.
    """
    best = max((path for path in rates if path != "auto"), key=lambda path: statistics.median(rates[path].values()))
    return [rates["auto"][number] / value if value > 0 else 1.0 for number, value in rates[best].items()], best


def contenders(rates, best):
    """The paths that may be faster than auto or than the best one, and so deserve more rounds."""
    least = interval(rates[best].values())[0]
    return ["auto", *(path for path in rates if path != "auto" and interval(rates[path].values())[1] >= least)]


class OthersUse:
    """Share of CPU time used by other processes, and by other machines on the same hardware, since construction."""

    def __init__(self):
        self.begun, self.busy, self.own = time.monotonic(), self.busy_seconds(), self.own_seconds()

    @staticmethod
    def busy_seconds():
        fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        user, nice, system, _, _, irq, softirq, steal = fields  # excludes idle time and waiting for disks
        return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def own_seconds():
        return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))

    def share(self):
        seconds = (time.monotonic() - self.begun) * os.cpu_count()
        return max(0.0, (self.busy_seconds() - self.busy) - (self.own_seconds() - self.own)) / seconds


class Row:
    def __init__(self, arguments, cache, rw, depth, size):
        self.arguments, self.cache, self.rw, self.depth, self.size = arguments, cache, rw, depth, size
        self.rates = {path: {} for path in ["auto", *FIXED.get(arguments.device, FIXED["other"])]}
        self.others, self.rounds, self.chosen = [], 0, None

    def rate(self, path):
        command = [self.arguments.headrace, "bench", f"--filename={self.arguments.file}", f"--rw={self.rw}", f"--bs={self.size}",
                   f"--iodepth={self.depth}", f"--path={path}", f"--cache={self.cache}", f"--device={self.arguments.device}",
                   f"--runtime={self.arguments.seconds}", "--output-format=json"]  # each block once, or as much as the time allows
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 20 * self.arguments.seconds)
        if done.returncode != 0:
            return None  # direct I/O needs whole blocks
        job = json.loads(done.stdout)["jobs"][0]
        if path == "auto":
            self.chosen = job["headrace"]["bytes_by_path"]
        return job["read"]["bw_bytes"]

    def run_round(self, paths):
        order = paths if self.rounds % 2 == 0 else paths[::-1]
        for _ in range(REPEATS):
            watch = OthersUse()
            found = {path: self.rate(path) for path in order}
            others = watch.share()
            if others <= self.arguments.busy:
                break
        for path, value in found.items():
            if value is None:
                del self.rates[path]
            else:
                self.rates[path][self.rounds] = value
        self.rounds += 1
        self.others.append(others)

    def run(self):
        for _ in range(self.arguments.rounds):
            self.run_round(list(self.rates))
        ratios, best = ratios_of(self.rates)
        while verdict(ratios) != "level" and self.rounds < self.arguments.most_rounds:
            self.run_round(contenders(self.rates, best))
            ratios, best = ratios_of(self.rates)
        low, high = interval(ratios)
        return {"cache": self.cache, "rw": self.rw, "iodepth": self.depth, "block_bytes": self.size, "rounds": self.rounds,
                "bytes_per_second": {path: statistics.median(values.values()) for path, values in self.rates.items()},
                "best": best, "auto_over_best": round(statistics.median(ratios), 3), "interval": [round(low, 3), round(high, 3)],
                "verdict": verdict(ratios), "auto_bytes_by_path": self.chosen, "others_cpu_share": round(statistics.median(self.others), 3)}


def show(row):
    rates = ", ".join(f"{path} {value / 1e6:9.2f}" for path, value in row["bytes_per_second"].items())
    low, high = row["interval"]
    print(f"{row['cache']:5} {row['rw']:9} depth {row['iodepth']:3} {row['block_bytes']:9}: {rates} MB/s  {row['auto_over_best']:5.2f} "
          f"({low:.2f} to {high:.2f}, {row['rounds']} rounds)" + ("" if row["verdict"] == "level" else "  " + row["verdict"].upper()),
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headrace")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--most-rounds", type=int, default=12)
    parser.add_argument("--busy", type=float, default=0.1)
    parser.add_argument("--device", default="host")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=SIZES)
    parser.add_argument("--depths", type=lambda text: [int(depth) for depth in text.split(",")], default=[1, 32])
    parser.add_argument("--caches", type=lambda text: text.split(","), default=["cold", "warm"])
    parser.add_argument("--orders", type=lambda text: text.split(","), default=["read", "randread"])
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    # The guard pages of builds with fault points prevent huge pages, which doubles the time of direct reads into 4 KiB pages.
    os.environ["HEADRACE_HOST_GUARD"] = "off"
    rows = []
    for cache in arguments.caches:
        for rw in arguments.orders:
            for depth in arguments.depths:
                for size in arguments.sizes:
                    rows.append(Row(arguments, cache, rw, depth, size).run())
                    show(rows[-1])
    count = {word: sum(row["verdict"] == word for row in rows) for word in ("level", "below", "undecided")}
    print(f"{len(rows)} rows: {count['level']} level, {count['below']} below {LOWEST}, {count['undecided']} undecided")
    if arguments.output:
        machine = {"platform": platform.platform(), "cpus": os.cpu_count()}
        arguments.output.write_text(json.dumps({"command": sys.argv[3:], "machine": machine, "rows": rows}, indent=1) + "\n")
    return 1 if count["below"] else 0


if __name__ == "__main__":
    sys.exit(main())
