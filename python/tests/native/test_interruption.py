"""Ctrl-C stops every long operation within 0.2 s, and nothing continues in the background."""

import json
import os
import subprocess
import sys
import textwrap

import native_stores as stores
import numpy as np
import pytest

LATE = 0.2

PROGRAM = """
import asyncio, os, signal, sys, threading, time
import numpy as np
import headrace
context = headrace.Context(threads=1)
PREPARE
def press():
    time.sleep(0.1)
    press.at = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
presser = threading.Thread(target=press)
presser.start()
try:
    while True:
        WORK
except KeyboardInterrupt:
    late = time.monotonic() - press.at
presser.join()
out[...] = 7
time.sleep(0.3)
assert (out == 7).all(), "somebody still writes"
print(late, flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    data = np.zeros((256, 1 << 18), "<f4")  # 256 MiB of zeros, small once compressed
    data[:, ::4096] = np.arange(256, dtype="<f4")[:, None]
    stores.write(folder / "a", data, (1, 1 << 18), compress=True)
    stores.write_strings(folder / "s", ["x" * 20] * 100_000, repeat=100)
    with open(folder / "f", "wb") as file:
        file.truncate(256 << 20)
    # Gigabytes per chunk, of which little is selected.
    write_one_chunk_often(folder / "tall", (1, 1 << 18), 8192)
    many = stores.write_strings(folder / "words", ["x" * 20] * 100_000)
    document = json.loads((many / ".zarray").read_text())
    (many / ".zarray").write_text(json.dumps({**document, "shape": [100_000 * 1000]}))
    for number in range(1, 1000):
        os.link(many / "0", many / str(number))
    return folder


def write_one_chunk_often(path, chunk, rows):
    stores.write(path, np.zeros(chunk, "<f4"), chunk, compress=True)
    for row in range(1, rows):
        os.link(path / "0.0", path / f"{row}.0")
    document = json.loads((path / ".zarray").read_text())
    (path / ".zarray").write_text(json.dumps({**document, "shape": [rows, chunk[1]]}))


ARRAY = "array = headrace.open('a', context=context); out = np.empty(array.shape, array.dtype)"
FILE = "file = headrace.File('f', 'r+', context=context); out = np.empty(256 << 20, 'u1')"
TALL = "array = headrace.open('tall', context=context); out = np.empty(1); rows = np.arange(8192)"
WAYS = {
    "read": (ARRAY, "array.read(out=out)"),
    "a new result": (ARRAY, "array[...]"),
    "read_many": (ARRAY, "array.read_many([slice(0, 128), slice(128, 256)], out=[out[:128], out[128:]])"),
    "a future": (ARRAY, "array.read_async(out=out).result()"),
    "await": (ARRAY + "\nasync def waiting(): await array.read_async(out=out)", "asyncio.run(waiting())"),
    "strings": ("array = headrace.open('s', context=context); out = np.empty(1)", "array[...]"),
    "a column": (TALL, "array[:, 0]"),
    "a column of many": (TALL, "array.read_many([(slice(0, 8192, 2), 0), (slice(1, 8192, 2), 0)])"),
    "points": (TALL, "array.vindex[rows, 7]"),
    "lists": (TALL, "array[rows, ::-100_000]"),
    "a few strings": ("array = headrace.open('words', context=context); out = np.empty(1)", "array[::100_000]"),
    "strings in batches": ("array = headrace.open('words', context=context); out = np.empty(1)",
                           "array.read_many([slice(0, None, 300_000), slice(1, None, 300_000)])"),
    "a file": (FILE, "file.read(out)"),
    "a file in the background": (FILE, "file.pread(out).get()"),
    "writing": (FILE, "file.write(out)"),
}


LEFT = """
import gc, os, pathlib, signal, threading, time
import headrace
array, file = headrace.open("a"), headrace.File("f")
out = bytearray(256 << 20)
def resources():
    gc.collect()
    memory = int(pathlib.Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])
    return len(os.listdir("/proc/self/fd")), threading.active_count(), memory
def interrupted():
    presser = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    presser.start()
    try:
        while True:
            array[...]
            file.read(out)
    except KeyboardInterrupt:
        presser.join()
array[...], file.read(out)  # what the first of each opens stays open
for _ in range(3):
    interrupted()
before = resources()
for _ in range(10):
    interrupted()
after = resources()
assert after[0] <= before[0] and after[1] <= before[1] and after[2] - before[2] < 100 << 10, (before, after)
"""


def test_nothing_is_left(folder):
    done = subprocess.run([sys.executable, "-c", LEFT], capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0 and not done.stderr, done


def stops(program, folder):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=folder,
                          env=os.environ)
    assert done.returncode == 0 and not done.stderr, done
    return float(done.stdout)


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c(folder, way):
    prepare, work = WAYS[way]
    program = textwrap.dedent(PROGRAM).replace("PREPARE", prepare).replace("WORK", work)
    late = []
    for _ in range(6):  # repeated, because others use the machine too
        late.append(stops(program, folder))
        if late[-1] < LATE:
            return
    pytest.fail(f"stopped after {late} s")
