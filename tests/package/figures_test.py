#!/usr/bin/env python3
"""The figures of one run agree: --json, --stats, --report and --trace report the same bytes, seconds and decoders.

  figures_test.py PATH_TO_HEADRACE [NAME...]

Reads every kind of store in every way, cold and warm, and adds up the figures of each run."""
import collections
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

from script_tests import run_tests

HEADRACE = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIMATE = ROOT / "tests" / "data" / "climate"
PATHS = ("direct_bytes", "engine_bytes", "buffered_bytes", "memory_bytes", "mapped_bytes", "packed_bytes")
UNITS = {"byte": 1, "bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "s": 1, "ms": 1e-3, "us": 1e-6}
DEVICES = ("host", "host-staged")
ATTEMPTS = 3


def repeated(what, check):
    """Tries again, because two clock readings differ if the thread is descheduled between them, but not every time."""
    for attempt in range(ATTEMPTS):
        try:
            return check()
        except AssertionError as error:
            if attempt + 1 == ATTEMPTS:
                raise AssertionError(f"{what}: {error}") from error


def cli(*arguments):
    done = subprocess.run([HEADRACE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"headrace {' '.join(map(str, arguments))} -> {done.returncode}: {done.stderr}"
    return done


def evict(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def number(text):
    """The first figure with a unit in a text, as bytes or seconds; or a plain count."""
    found = re.match(r"\s*([\d,.]+)\s*([A-Za-z]*)", text)
    assert found, text
    return float(found[1].replace(",", "")) * UNITS.get(found[2], 1)


def near(text, value, what):
    """Checks that a printed figure of three digits equals `value`."""
    assert abs(number(text) - value) <= max(0.006 * value, 6e-9), f"{what}: {text!r} is not {value}"


class Page(html.parser.HTMLParser):
    """Rows of the tables by their first cell, and the text of the verdict."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.rows, self.text, self.cells, self.verdict, self.within = {}, "", None, "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.within.append((tag, dict(attributes).get("class")))
        if tag == "tr":
            self.cells = []
        elif tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        while self.within and self.within.pop()[0] != tag:
            pass
        if tag == "tr":
            self.rows.setdefault(self.cells[0].strip(), self.cells)
            self.cells = None

    def handle_data(self, data):
        if any(tag in ("style", "svg") for tag, _ in self.within):
            return
        self.text += data
        if self.cells:
            self.cells[-1] += data
        if ("section", "verdict") in self.within:
            self.verdict += data


def check_stats(stats, run, device):
    """The figures of one Stats are consistent."""
    assert sum(stats[path] for path in PATHS) == stats["read_bytes"], stats
    # Unpacking yields more bytes than are read.
    assert stats["read_bytes"] >= stats["stored_bytes"] or stats["packed_bytes"] > 0, stats
    assert stats["gpu_decoded_bytes"] + stats["cpu_decoded_bytes"] + stats["undecoded_bytes"] == stats["decoded_bytes"], stats
    assert 0 <= stats["undecoded_bytes"] and stats["gpu_chunks"] + stats["cpu_chunks"] <= stats["chunks"], stats
    assert device != "host" or stats["gpu_chunks"] == stats["gpu_decoded_bytes"] == stats["bus_bytes"] == 0, stats
    read = stats["direct_bytes"] + stats["engine_bytes"] + stats["buffered_bytes"] + stats["packed_bytes"]
    assert read == 0 or stats["read_seconds"] > 0, "bytes were read in no time"
    assert (stats["direct_bytes"] + stats["engine_bytes"] > 0) == (stats["engine"] != "none"), stats
    assert ("direct" in stats["path"]) == (stats["direct_bytes"] > 0), stats
    assert run["seconds"] == stats["wall_seconds"] <= run["run_seconds"], run


def check_text(text, stats, device):
    """The lines of --stats show the figures of the JSON."""
    rows = {}
    for line in text.splitlines():
        found = re.match(r"  (\s*\S.*?)\s{2,}(\S.*)$", line) or re.match(r"  (.{20}) (.*)$", line)
        if found:
            rows.setdefault(found[1].strip(), found[2])
    assert rows["chunks"] == f"{stats['chunks']:,}", rows
    for name, key in (("stored", "stored_bytes"), ("read", "read_bytes"), ("direct", "direct_bytes"), ("mapped", "mapped_bytes"),
                      ("page cache", "buffered_bytes"), ("memory", "memory_bytes"), ("unpacked", "packed_bytes"), ("decoded", "decoded_bytes"),
                      ("not to decode", "undecoded_bytes")):
        near(rows[name], stats[key], name)
    assert ("over the bus" in rows) == (device != "host"), rows
    assert (f"by {device}" in rows) == (device != "host"), rows
    assert "GPU" not in text, text


def check_report(page, timeline, run, device):
    stats, wall = run["stats"], run["run_seconds"]
    spans = [event for event in timeline["traceEvents"] if event["ph"] == "X"]
    rows = {event["tid"]: event["args"]["name"] for event in timeline["traceEvents"] if event["name"] == "thread_name"}
    assert timeline["otherData"]["lost_events"] == 0
    # The JSON, the trace, the verdict and the page's tables show one wall time.
    assert abs(timeline["otherData"]["wall_seconds"] - wall) < 20e-6, (timeline["otherData"], wall)
    last = max(span["ts"] + span["dur"] for span in spans) * 1e-6
    assert abs(last - wall) < 20e-6, (last, wall)
    near(re.search(r"of ([\d.e+]+ [mu]?s);", page.verdict)[1], wall, "the verdict")
    near(re.search(r"tracks in\s+([\d.]+ [mu]?s)", page.text)[1], wall, "the timeline")
    near(page.rows["wall time of the read"][1], stats["wall_seconds"], "wall time of the read")
    # The seconds of each stage equal those of --stats; the device's own work is counted separately.
    seconds, by_device, read_bytes = collections.Counter(), collections.Counter(), 0
    for span in spans:
        kind = by_device if rows[span["tid"]].startswith("device") else seconds
        kind[span["cat"]] += span["dur"] * 1e-6
        read_bytes += span["args"]["bytes"] if span["cat"] == "read" else 0
    for stage in ("plan", "open", "read", "decode", "assemble"):
        counted = stats[f"{stage}_seconds"]
        slack = 2e-9 * len(spans) + 1e-4 * counted
        assert abs(seconds[stage] - counted) <= slack, f"{stage}: {seconds[stage]} in the trace, {counted} in --stats"
        if counted > 0:
            near(page.rows[stage][6], counted, f"the page's seconds of {stage}")
    assert seconds["copy"] == 0, "a copy is the device's"
    assert device != "host" or not by_device, by_device
    # Mapped and in-memory bytes are used without being read.
    assert read_bytes == stats["read_bytes"] - stats["mapped_bytes"] - stats["memory_bytes"], (read_bytes, stats)
    for name, key in (("stored: encoded bytes used", "stored_bytes"), ("decoded: delivered", "decoded_bytes"),
                      ("direct (O_DIRECT)", "direct_bytes"), ("memory", "memory_bytes"), ("unpacked (ZIP members)", "packed_bytes"),
                      ("of these decoded by the CPU", "cpu_decoded_bytes"),
                      ("of these not to decode: stored as they are, or filled", "undecoded_bytes")):
        near(page.rows[name][1], stats[key], name)
    assert ("over the bus" in page.rows) == (device != "host"), page.rows
    if device != "host":
        near(page.rows[f"of these decoded on {device}"][1], stats["gpu_decoded_bytes"], "decoded on the device")
    assert "GPU" not in page.text, page.text[max(0, page.text.index("GPU") - 100):][:200]


class Stores:
    """Small stores of all kinds under one folder: name, path."""

    def __init__(self, root):
        self.root = root
        shutil.copytree(CLIMATE, root / "climate")
        for codec in ("none", "blosc-zstd"):
            cli("gen", root / codec, "--workload", "w1", "--scale", "0.003", "--codec", codec)
        for name, array in (("packed", "climate-v2.zarr/air_temperature"), ("packed-shards", "climate-v3.zarr/surface_temperature")):
            with zipfile.ZipFile(root / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as packed:
                for path in sorted(path for path in (CLIMATE / array).rglob("*") if path.is_file()):
                    packed.write(path, path.relative_to(CLIMATE / array))
        self.arrays = {
            "raw": root / "none" / "geopotential", "blosc": root / "blosc-zstd" / "geopotential",
            "zlib": root / "climate" / "climate-v2.zarr" / "air_temperature",
            "sharded": root / "climate" / "climate-v3.zarr" / "surface_temperature", "zip": root / "packed.zip",
            "zip, sharded": root / "packed-shards.zip"}

    def read(self, array, *options):
        """One run with everything it can print: its JSON, page and trace."""
        page, trace = self.root / "page.html", self.root / "trace.json"
        done = cli("read", array, "--json", "--report", page, "--trace", trace, *options)
        out = done.stdout if done.stdout.startswith("{") else done.stderr
        return json.loads(out), Page(page.read_text(encoding="utf-8")), json.loads(trace.read_text())


def test_reads(f):
    seen = set()
    for name, array in f.arrays.items():
        for device in DEVICES:
            for engine in ("auto", "threads"):
                for cold in (True, False):
                    def right(array=array, device=device, engine=engine, cold=cold):
                        if cold:
                            evict(f.root)
                        run, page, trace = f.read(array, "--device", device, "--engine", engine)
                        check_stats(run["stats"], run, device)
                        assert run["run_seconds"] == run["seconds"], run
                        check_report(page, trace, run, device)
                        return {path for path in PATHS if run["stats"][path] > 0}

                    seen |= repeated(f"{name} on {device} by {engine}, {'cold' if cold else 'warm'}", right)
    assert {"buffered_bytes", "memory_bytes", "packed_bytes"} <= seen and seen & {"direct_bytes", "engine_bytes"}, seen


def test_text(f):
    for name, array in f.arrays.items():
        for device in DEVICES:
            cli("read", array, "--device", device)  # so that both of the following reads find the data cached
            text = cli("read", array, "--device", device, "--engine", "threads", "--stats").stdout
            run = json.loads(cli("read", array, "--device", device, "--engine", "threads", "--json").stdout)
            try:
                check_text(text, run["stats"], device)
            except AssertionError as error:
                raise AssertionError(f"{name} on {device}: {error}") from error
            took = re.search(r"decoded in ([\d.]+ [mu]?s)", text)[1]
            wall = re.search(r"^  wall +([\d.]+ [mu]?s)", text, re.M)[1]
            assert took == wall, text


def test_output(f):
    """Post-processing counts for the run, not for the read; parts add up."""
    out = f.root / "out.npy"
    for device in DEVICES:
        for slab in ("1M", "256M"):
            def right(device=device, slab=slab):
                run, page, trace = f.read(f.arrays["blosc"], "--device", device, "-o", out, "--sha256", "--slab", slab)
                check_stats(run["stats"], run, device)
                check_report(page, trace, run, device)
                assert run["stats"]["decoded_bytes"] == run["decoded_bytes"], run
                near(page.rows["whole run, including output and hashing (-o, --sha256)"][1], run["run_seconds"], "the whole run")
                written = sum(e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] == "write")
                assert written == run["decoded_bytes"], (written, run)

            repeated(f"{device}, slabs of {slab}", right)
    strings = ROOT / "tests" / "data" / "variable"
    for array in sorted(path.parent for path in strings.rglob(".zarray"))[:3]:
        def read(array=array):
            run, page, trace = f.read(array, "-o", f.root / "strings.json")
            check_stats(run["stats"], run, "host")
            check_report(page, trace, run, "host")

        repeated(array.name, read)


def test_verify(f):
    for device in DEVICES:
        for store in (f.root / "climate" / "climate-v3.zarr", f.root / "climate" / "climate-v2.zarr", f.root / "packed.zip"):
            evict(f.root)
            run = json.loads(cli("verify", store, "--device", device, "--json").stdout)
            check_stats(run["stats"], run, device)
            assert run["chunks"] == run["stats"]["chunks"] and run["missing_chunks"] == run["stats"]["missing_chunks"], run
            text = cli("verify", store, "--device", device).stdout
            assert "GPU" not in text, text


def test_the_report_says_which_run_it_is_of(f):
    run, page, _ = f.read(f.arrays["zlib"], "--device", "host", "--select", "0:2")
    assert "--select 0:2" in page.rows["command"][1] and "--json" in page.rows["command"][1], page.rows["command"]
    version = cli("--version").stdout.split()[1]
    assert page.rows["headrace"][1] == version, page.rows["headrace"]
    assert re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC", page.rows["written"][1]), page.rows["written"]
    assert os.uname().nodename == page.rows["machine"][1] and os.uname().release in page.rows["system"][1]
    assert "CPU" in page.rows["processor"][1] and number(page.rows["memory of the machine"][1]) > 1e6
    words = page.text.split("What the words mean")[1]
    for word in ("wave", "span", "worker", "decode"):
        assert word in words, words


if __name__ == "__main__":
    HEADRACE = str(pathlib.Path(sys.argv[1]).resolve())
    sys.exit(run_tests(globals(), sys.argv[2:], Stores))
