#!/usr/bin/env python3
"""headrace read --report and --trace: a page that is well formed and runs no script whatever the path is called, and a
timeline.

  report_test.py HEADRACE                  structure of both files
  report_test.py HEADRACE --browser [DIR]  how the page looks in a headless browser; the pictures are kept in DIR

The store is copied to a path that would run a script if the page did not escape it."""
import argparse
import html.parser
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORE = ROOT / "tests" / "data" / "climate" / "climate-v2.zarr" / "air_temperature"
HOSTILE = "<script>document.title='run'<\\script>&\"x\" onload='y'"
VOID = {"meta", "link", "br", "img", "input", "hr"}
STAGES = {"plan", "open", "read", "wait", "copy", "decode", "assemble", "register", "write"}
problems = []


def check(truth, what):
    if not truth:
        problems.append(what)


class Page(html.parser.HTMLParser):
    """Collects elements that are not closed in order, elements and attributes that run or fetch something, and the
    text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.bars = [], set(), "", 0
        self.feed(text)
        self.close()
        check(not self.open, f"not closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)
        self.bars += tag == "rect"
        for name, value in attributes:
            check(not name.startswith("on") and name not in ("src", "href"), f"<{tag} {name}={value}>")
            check(value is not None, f"<{tag} {name}> has no value")

    def handle_endtag(self, tag):
        check(self.open and self.open.pop() == tag, f"</{tag}> closes another element")

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "script"):
            self.text += data


def write_reports(headrace, folder):
    store = folder / HOSTILE
    shutil.copytree(STORE, store)
    page, timeline = folder / "read.html", folder / "read.json"
    done = subprocess.run([headrace, "read", store, "--device", "host-staged", "--report", page, "--trace", timeline],
                          capture_output=True, text=True)
    check(done.returncode == 0, f"exit code {done.returncode}: {done.stderr}")
    check(done.stdout.count("\n") == 1, "the reports change what is printed")
    return page, timeline


def check_page(path):
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    check("script" not in page.tags, "a script in the page")
    check(not page.tags & {"link", "img", "iframe", "object", "embed", "form"}, f"elements that fetch: {page.tags}")
    check(HOSTILE in page.text, "the path is not shown as it is")
    check(page.bars > 20, f"only {page.bars} bars")
    for words in ("bottleneck", "Timeline", "Stages", "Bytes by kind", "Bytes read by path", "decoded", "over the bus", "stored"):
        check(words in page.text, f"the page does not say '{words}'")
    check(len(text) < 2 << 20, f"{len(text)} bytes")


def check_timeline(path):
    document = json.loads(path.read_text(encoding="utf-8"))
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    names = {event["tid"]: event["args"]["name"] for event in document["traceEvents"] if event["name"] == "thread_name"}
    check(len(spans) > 20, f"only {len(spans)} spans")
    check({span["cat"] for span in spans} <= STAGES, "a category that is no stage")
    check({"plan", "read", "copy", "decode"} <= {span["cat"] for span in spans}, "a stage of the read is missing")
    check(all(span["tid"] in names for span in spans), "a row without a name")
    check(all(span["dur"] >= 0 and span["ts"] >= 0 for span in spans), "a span before the first or of negative length")
    decoded = sum(span["args"]["bytes"] for span in spans if span["cat"] == "decode")
    check(decoded > 0, "no decoded bytes")
    check("bottleneck" in document["otherData"]["bottleneck"], "no sentence")


def check_bench(headrace, folder):
    """The page of a bench shows what was measured, and request latencies."""
    file, path = folder / "bench.bin", folder / "bench.html"
    file.write_bytes(bytes(8 << 20))
    done = subprocess.run([headrace, "bench", "--name=some", f"--filename={file}", "--rw=randread", "--bs=64k", "--iodepth=4",
                           "--device=host", "--report", path], capture_output=True, text=True)
    check(done.returncode == 0, f"bench: exit code {done.returncode}: {done.stderr}")
    text = Page(path.read_text(encoding="utf-8")).text
    for words in ("Job: some", str(file), "randread", "64KiB", "iodepth", "Latency of reads: some", "99 % took at most", "This run", "--rw=randread"):
        check(words in text, f"the page of a bench does not say '{words}'")
    check("over the bus" not in text.split("What the words mean")[0], "a bus, where there is none")


def check_usage(headrace, folder):
    """Wrong usage gives exit code 2; a file that cannot be written gives 1 before anything is read; each prints one
    line."""
    for arguments, code in ((["--report", ""], 2), (["--trace", "-"], 2), (["--report", folder / "no" / "such.html"], 1),
                            (["--trace", "/dev/full"], 1)):
        done = subprocess.run([headrace, "read", STORE, "--device", "host", *arguments], capture_output=True, text=True)
        check(done.returncode == code, f"{arguments}: exit code {done.returncode}, not {code}")
        check(done.stderr.count("\n") == 1 and done.stderr.startswith("headrace: "), f"{arguments}: {done.stderr!r}")


def pixels(path):
    """Rows of a PNG with 8 bits per channel, as the browser writes it."""
    data = path.read_bytes()
    check(data[:8] == b"\x89PNG\r\n\x1a\n", f"{path.name} is not a PNG")
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
        packed += body if kind == b"IDAT" else b""
        at += length + 12
    channels = {2: 3, 6: 4}[colour]
    raw, stride = zlib.decompress(packed), width * channels
    rows, before = [], bytearray(stride)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            a = line[x - channels] if x >= channels else 0
            b, c = before[x], before[x - channels] if x >= channels else 0
            if kind == 1:
                line[x] = (line[x] + a) & 255
            elif kind == 2:
                line[x] = (line[x] + b) & 255
            elif kind == 3:
                line[x] = (line[x] + (a + b) // 2) & 255
            elif kind == 4:
                p = a + b - c
                line[x] = (line[x] + min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]) & 255
        rows.append([tuple(line[x:x + 3]) for x in range(0, stride, channels)])
        before = line
    return rows


def check_in_browser(page, folder):
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print("no chromium or google-chrome to look at the page with")
        sys.exit(77)
    pictures = {}
    for name, scheme in (("dark", 0), ("light", 1)):
        picture = folder / f"report-{name}.png"
        command = [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
                   f"--user-data-dir={page.parent}/profile", f"--blink-settings=preferredColorScheme={scheme}",
                   "--window-size=900,700", f"--screenshot={picture}", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        check(picture.exists(), f"the browser drew nothing: {done.stderr[-500:]}")
        check("CONSOLE" not in done.stderr, "the browser complains: " + done.stderr[-500:])
        if picture.exists():
            pictures[name] = pixels(picture)
    if len(pictures) == 2:
        for name, bright in (("light", True), ("dark", False)):
            flat = [pixel for row in pictures[name] for pixel in row]
            mean = sum(map(sum, flat)) / (3 * len(flat))
            check(mean > 180 if bright else mean < 70, f"{name}: mean brightness {mean:.0f}")
            check(len(set(flat)) > 50, f"{name}: only {len(set(flat))} colours: is there a picture?")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headrace")
    parser.add_argument("--browser", nargs="?", const="", metavar="DIR")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        page, timeline = write_reports(arguments.headrace, folder)
        if arguments.browser is None:
            check_page(page)
            check_timeline(timeline)
            check_bench(arguments.headrace, folder)
            check_usage(arguments.headrace, folder)
        else:
            keep = pathlib.Path(arguments.browser).resolve() if arguments.browser else folder
            keep.mkdir(parents=True, exist_ok=True)
            check_in_browser(page, keep)
    print("\n".join(problems) or "the reports are as they should be")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
