#!/usr/bin/env python3
"""Compares `headrace bench` on the host device with fio: both run the same two job files, in turn.

  host_fio.py FILE [--headrace build/release/bin/headrace] [--rounds 3] [--json OUT]

FILE is read (at least 1 GiB; created if missing). Rates are 1e9 bytes read from the file per second, medians.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

JOBS = pathlib.Path(__file__).resolve().parents[1] / "jobs"


def rate(command):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run(command + ["--output-format=json", "--output=" + out.name], check=True, stdout=subprocess.DEVNULL)
        return json.load(open(out.name))["jobs"][0]["read"]["bw_bytes"] / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--headrace", default="build/release/bin/headrace")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    if not pathlib.Path(options.file).exists():
        subprocess.run([options.headrace, "gen", "--raw", options.file, "--size", "1G"], check=True)
    rows = []
    for job, ours in (("host-direct", []), ("host-buffered", ["--path=buffered", "--cache=warm"])):
        path = str(JOBS / (job + ".fio"))
        # fio's command line can override a job file's file name only for options placed before the file, so edit the
        # text instead.
        text = pathlib.Path(path).read_text().replace("headrace-bench.dat", options.file)
        with tempfile.NamedTemporaryFile("w", suffix=".fio") as file:
            file.write(text)
            file.flush()
            rates = {"headrace bench": [], "fio": []}
            for _ in range(options.rounds):
                rates["headrace bench"].append(rate([options.headrace, "bench", "--device=host", *ours, file.name]))
                rates["fio"].append(rate(["fio", file.name]))
        row = {"job": job, **{who: round(statistics.median(all_), 3) for who, all_ in rates.items()}, "rounds": rates}
        row["ratio"] = round(row["headrace bench"] / row["fio"], 3)
        rows.append(row)
        print(json.dumps(row))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
