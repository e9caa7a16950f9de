#!/usr/bin/env python3
"""headrace read -o keeps only a part of the selection in memory at a time, and writes the same bytes whatever the parts
are.

  stream_test.py PATH_TO_HEADRACE [NAME...]"""
import hashlib
import itertools
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import time
import zlib

from script_tests import run_tests

HEADRACE = ""
MIB = 1 << 20
DEVICES = ("host", "host-staged")


def cli(*arguments, code=0, **extra):
    done = subprocess.run([HEADRACE, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, timeout=200, **extra)
    assert done.returncode == code, f"headrace {' '.join(map(str, arguments))} -> {done.returncode}: {done.stderr}"
    return done


def v2_array(path, shape, chunks, element, dtype="<u2", order="C", fill=0, missing=lambda at: False):
    """Elements are element(index), packed by struct; chunks are compressed with zlib."""
    path.mkdir(parents=True)
    (path / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": fill, "order": order, "filters": None,
        "compressor": {"id": "zlib", "level": 1}}))
    code = {"<u2": "<H", "<i4": "<i"}[dtype]
    for at in itertools.product(*(range(-(-n // c)) for n, c in zip(shape, chunks))):
        if missing(at):
            continue
        ranges = [range(i * c, (i + 1) * c) for i, c in zip(at, chunks)]
        cells = itertools.product(*ranges) if order == "C" else (i[::-1] for i in itertools.product(*ranges[::-1]))
        inside = (element(i) if all(k < n for k, n in zip(i, shape)) else 0 for i in cells)
        (path / ".".join(map(str, at))).write_bytes(zlib.compress(b"".join(struct.pack(code, v) for v in inside), 1))


def sparse_array(path, shape, chunks, value, sharded=None):
    """int32, one stored chunk's worth of `value` at the origin; all other elements are the fill value 3."""
    path.mkdir(parents=True)
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]
    stored = chunks
    if sharded:
        stored = sharded
        codecs = [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": chunks, "codecs": codecs, "index_location": "end",
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]
    (path / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "int32", "fill_value": 3, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": stored}}, "codecs": codecs,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}))
    compressor = zlib.compressobj(1, wbits=31)
    elements = 1
    for n in chunks:
        elements *= n
    packed = compressor.compress(struct.pack("<i", value) * elements) + compressor.flush()
    if sharded:
        inner = 1
        for n, c in zip(sharded, chunks):
            inner *= n // c
        packed += struct.pack("<2Q", 0, len(packed)) + b"\xff" * 16 * (inner - 1)
    (path / ("c" + ".0" * len(shape))).write_bytes(packed)


def strings_array(path, shape, chunks, codecs=(), fill=""):
    path.mkdir(parents=True)
    (path / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "string", "fill_value": fill, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "codecs": [{"name": "vlen-utf8"}, *codecs],
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}))


def counted(words):
    return b"".join(struct.pack("<I", len(word)) + word for word in words)


def peak_of(*arguments, limit=None):
    """The JSON of a run and its peak memory in bytes."""
    def prepare():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    child = subprocess.Popen([HEADRACE, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=prepare)
    out, err = child.stdout.read(), child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close(), child.stderr.close()
    assert child.returncode == 0, (arguments, err)
    return json.loads(out if out.startswith(b"{") else err), usage.ru_maxrss * 1024


def check_sparse(out, header, shape, chunks, value):
    """Checks elements around the stored chunk and at places all over the file."""
    with open(out, "rb") as file:
        def element(index):
            at = 0
            for i, n in zip(index, shape):
                at = at * n + i
            file.seek(header + 4 * at)
            return struct.unpack("<i", file.read(4))[0]
        chance = random.Random(1)
        for _ in range(3000):
            index = [chance.choice((chance.randrange(n), c - 1, min(n - 1, c), 0, n - 1)) for n, c in zip(shape, chunks)]
            want = value if all(i < c for i, c in zip(index, chunks)) else 3
            assert element(index) == want, (index, element(index), want)


def test_memory_stays_within_the_budget(f):
    """Chunks with small rows; rows of chunks of 768 MiB, which are cut along later axes; shards."""
    cases = (("rows", [640, 512, 1024], [64, 128, 256], None), ("wide", [2, 192, 1048576], [1, 192, 4096], None),
             ("shards", [640, 512, 1024], [32, 128, 256], [512, 512, 1024]))
    for name, shape, chunks, shards in cases:
        array, out = f / name, f / "out.npy"
        sparse_array(array, shape, chunks, 7, shards)
        total = 4 * shape[0] * shape[1] * shape[2]
        assert total >= 5 << 28
        run, peak = peak_of("read", array, "--device", "host", "-o", out, "--json", "--slab", "64M", "--threads", 2)
        assert peak < 400 * MIB, f"{name}: {peak / MIB:.0f} MiB"
        assert run["stats"]["decoded_bytes"] == run["decoded_bytes"] == total, run
        assert out.stat().st_size == 128 + total, out.stat()
        check_sparse(out, 128, shape, chunks, 7)
        out.unlink()


def test_a_limit_of_address_space_is_enough(f):
    """With the default part size, and an address space limit smaller than the selection."""
    array, out = f / "rows", f / "out.raw"
    sparse_array(array, [832, 512, 1024], [64, 128, 256], -5)
    peak_of("read", array, "--device", "host", "-o", out, "--raw", "--json", "--threads", 2, limit=3 << 29)
    assert out.stat().st_size == 13 << 27
    check_sparse(out, 0, [832, 512, 1024], [64, 128, 256], -5)


def test_a_pipe_and_a_hash_get_the_elements_in_order(f):
    """The order is right even if a row of chunks does not fit the budget."""
    shape, chunks = [64, 256, 4096], [64, 64, 256]
    sparse_array(f / "a", shape, chunks, 9)
    whole = cli("read", f / "a", "--device", "host", "--raw", "-o", "-").stdout
    assert len(whole) == 4 * 64 * 256 * 4096
    parts = cli("read", f / "a", "--device", "host", "--raw", "-o", "-", "--slab", "8M").stdout
    assert parts == whole
    digest = json.loads(cli("read", f / "a", "--device", "host", "--sha256", "--slab", "8M", "--json").stdout)["sha256"]
    assert digest == hashlib.sha256(whole).hexdigest()
    out = f / "both"
    run = json.loads(cli("read", f / "a", "--device", "host", "--sha256", "--raw", "-o", out, "--slab", "8M", "--json").stdout)
    assert run["sha256"] == digest and out.read_bytes() == whole


def test_each_chunk_is_decoded_once(f):
    v2_array(f / "a", [40, 30, 50], [7, 8, 9], lambda i: i[0] * 1500 + i[1] * 50 + i[2])
    for slab in (1, 3000, 20000, 100000):
        run = json.loads(cli("read", f / "a", "--device", "host", "-o", f / "out", "--slab", slab, "--json").stdout)
        assert run["stats"]["chunks"] == 6 * 4 * 6, (slab, run["stats"])
        assert run["stats"]["stored_bytes"] == sum(p.stat().st_size for p in (f / "a").iterdir() if p.name != ".zarray")


def test_selections_and_layouts(f):
    """Several parts give the same as one part, and as the elements computed in Python."""
    shape = [11, 9, 10]
    value = lambda i: i[0] * 1000 + i[1] * 100 + i[2]  # noqa: E731
    arrays = {order: f / f"a-{order}" for order in "CF"}
    for order, path in arrays.items():
        v2_array(path, shape, [4, 3, 5], value, order=order, fill=7, missing=lambda at: at == (1, 1, 1))
    gone = lambda i: (i[0] // 4, i[1] // 3, i[2] // 5) == (1, 1, 1)  # noqa: E731
    every = [list(range(n)) for n in shape]
    cases = {
        "": every, "2:9": [every[0][2:9], every[1], every[2]], "::3, 1:8:2, :": [every[0][::3], every[1][1:8:2], every[2]],
        "5": [[5], every[1], every[2]], "..., 7": [every[0], every[1], [7]], "3, 4, 5": [[3], [4], [5]],
        "[9,1,1,8,0], :, [0,9,5]": [[9, 1, 1, 8, 0], every[1], [0, 9, 5]], ":, 4, ::4": [every[0], [4], every[2][::4]],
        "4:4": [[], every[1], every[2]], "[3,3,3,3,3,3,3], [2,2,2,2], [1,1,1]": [[3] * 7, [2] * 4, [1] * 3]}
    for order, (select, axes), device in itertools.product("CF", cases.items(), DEVICES):
        want = b"".join(struct.pack("<H", 7 if gone(i) else value(i)) for i in itertools.product(*axes))
        for slab in (1, 40, 150, 700, 1 << 20):
            out = f / "out.npy"
            cli("read", arrays[order], "--select", select, "--device", device, "-o", out, "--slab", slab)
            got = out.read_bytes()
            assert got[128:] == want, (order, select, device, slab)
            assert cli("read", arrays[order], "--select", select, "--device", device, "--raw", "-o", "-", "--slab", slab).stdout == want
    for slab in (1, 8, 100):
        pairs = [(10, 8, 9), (0, 0, 0), (5, 4, 7), (10, 8, 9), (1, 2, 3)]
        lists = ", ".join(str([p[d] for p in pairs]) for d in range(3))
        got = cli("read", arrays["C"], "--points", lists, "--raw", "-o", "-", "--slab", slab).stdout
        assert got == b"".join(struct.pack("<H", 7 if gone(p) else value(p)) for p in pairs), slab
        got = cli("read", arrays["C"], "--blocks", "1:, 0", "--raw", "-o", "-", "--slab", slab).stdout
        assert got == b"".join(struct.pack("<H", value(i)) for i in itertools.product(every[0][4:], every[1][:3], every[2])), slab
        got = cli("read", arrays["F"], "--dtype", "float64", "--scale", "0.5", "--raw", "-o", f / "f", "--slab", slab) and (f / "f").read_bytes()
        assert got == b"".join(struct.pack("<d", (7 if gone(i) else value(i)) / 2) for i in itertools.product(*every)), slab
    scalar = f / "scalar"
    scalar.mkdir()
    (scalar / ".zarray").write_text('{"zarr_format": 2, "shape": [], "chunks": [], "dtype": "<i4", "fill_value": 0, "order": "C", '
                                    '"filters": null, "compressor": null}')
    (scalar / "0").write_bytes(struct.pack("<i", 42))
    assert cli("read", scalar, "--raw", "-o", "-", "--slab", 1).stdout == struct.pack("<i", 42)


def test_an_interrupt_or_a_bad_chunk_leaves_nothing(f):
    sparse_array(f / "a", [1536, 512, 1024], [64, 128, 256], 7)
    folder = f / "out"
    folder.mkdir()
    child = subprocess.Popen([HEADRACE, "read", f / "a", "-o", folder / "x.npy", "--slab", "16M"])
    until = time.monotonic() + 30
    while not any(p.stat().st_size > 32 * MIB for p in folder.iterdir()) and time.monotonic() < until:
        time.sleep(0.01)
    assert child.poll() is None and list(folder.iterdir()), "it ended before it could be interrupted"
    child.send_signal(signal.SIGINT)
    assert child.wait(30) == -signal.SIGINT and not list(folder.iterdir())
    v2_array(f / "b", [40, 30], [5, 30], lambda i: i[0])
    (f / "b" / "6.0").write_bytes(b"no zlib")
    done = cli("read", f / "b", "-o", folder / "y.npy", "--slab", 300, code=1)
    assert b"key 6.0" in done.stderr and not list(folder.iterdir()), done.stderr


def test_strings_larger_than_memory_may_be(f):
    """1.3 GiB of strings through 64 MiB: in chunks of 4 MiB, and as the fill value of chunks that are not stored. The
    first parts have short elements, so that the estimated size is wrong when the long ones begin."""
    chunk, chunks, long, fill, bound = 4096, 384, 1024, "f" * 1000, 300 * MIB
    array, raw, text = f / "a", f / "out.raw", f / "out.json"
    strings_array(array, [chunk * chunks], [chunk], [{"name": "gzip", "configuration": {"level": 1}}], fill)
    words = {"short": [b"s%d" % i for i in range(chunk)], "long": [b"%0*d" % (long, i) for i in range(chunk)], "fill": [fill.encode()] * chunk}
    kinds = ["short" if i < 64 else "long" if i % 4 else "fill" for i in range(chunks)]
    for kind in ("short", "long"):
        packer = zlib.compressobj(1, wbits=31)
        (f / kind).write_bytes(packer.compress(struct.pack("<I", chunk) + counted(words[kind])) + packer.flush())
    for i, kind in enumerate(kinds):
        if kind != "fill":
            os.link(f / kind, array / f"c.{i}")
    as_raw = {kind: counted(elements) for kind, elements in words.items()}
    as_json = {kind: b", ".join(b'"' + e + b'"' for e in elements) for kind, elements in words.items()}
    total = sum(len(as_raw[kind]) for kind in kinds)
    assert total > 4 * bound
    run, peak = peak_of("read", array, "-o", raw, "--raw", "--json", "--slab", "64M", "--threads", 2)
    assert peak < bound, f"{peak / MIB:.0f} MiB"
    assert run["elements"] == chunk * chunks and run["decoded_bytes"] == run["stats"]["decoded_bytes"] == total - 4 * chunk * chunks, run
    with open(raw, "rb") as file:
        for i, kind in enumerate(kinds):
            assert file.read(len(as_raw[kind])) == as_raw[kind], i
        assert not file.read(1)
    raw.unlink()
    del kinds[192:]
    assert sum(len(as_json[kind]) for kind in kinds) > 1.5 * bound
    run, peak = peak_of("read", array, "--select", f":{chunk * len(kinds)}", "-o", text, "--sha256", "--json", "--slab", "64M", "--threads", 2)
    assert peak < bound, f"{peak / MIB:.0f} MiB"
    assert run["sha256"] == hashlib.sha256(b"".join(as_raw[kind] for kind in kinds)).hexdigest()
    with open(text, "rb") as file:
        for i, kind in enumerate(kinds):
            want = (b", " if i else b"[") + as_json[kind]
            assert file.read(len(want)) == want, i
        assert file.read() == b"]\n"


def test_parts_of_strings_are_what_one_part_is(f):
    """Every selection and format, with any part size: smaller than every element, and larger than each."""
    shape = [7, 5, 6]
    chance = random.Random(3)
    words = {i: b"" if chance.randrange(4) == 0 else b"%d%d%d" % i * chance.randrange(1, 120) for i in
             itertools.product(*map(range, shape))}
    strings_array(f / "a", shape, [3, 2, 4], fill="fill")
    for at in itertools.product(range(3), range(3), range(2)):
        ranges = [range(i * c, (i + 1) * c) for i, c in zip(at, (3, 2, 4))]
        inside = [words.get(i, b"") for i in itertools.product(*ranges)]
        if at == (1, 1, 1):
            words.update((i, b"fill") for i in itertools.product(*ranges) if i in words)
        else:
            (f / "a" / ("c." + ".".join(map(str, at)))).write_bytes(struct.pack("<I", len(inside)) + counted(inside))
    every = [list(range(n)) for n in shape]
    cases = {
        "": every, "2:6": [every[0][2:6], every[1], every[2]], "::3, 1:4:2": [every[0][::3], every[1][1:4:2], every[2]],
        "..., 5": [every[0], every[1], 5], "3, 4, 5": [3, 4, 5], "[6,1,1,0], :, [0,5]": [[6, 1, 1, 0], every[1], [0, 5]],
        "2:2": [[], every[1], every[2]]}
    def nested(axes, at=()):
        if not axes:
            return words[at].decode()
        first, *rest = axes
        return [nested(rest, (*at, i)) for i in first] if isinstance(first, list) else nested(rest, (*at, first))
    for select, axes in cases.items():
        want = counted(words[i] for i in itertools.product(*(a if isinstance(a, list) else [a] for a in axes)))
        json_text = cli("read", f / "a", "--select", select, "-o", "-").stdout
        assert json.loads(json_text) == nested(axes) if select != "2:2" else json_text == b"[]\n", (select, json_text)
        for slab in (1, 30, 400, 3000, 1 << 20):
            asked = ("read", f / "a", "--select", select, "--slab", slab)
            assert cli(*asked, "--raw", "-o", "-").stdout == want, (select, slab)
            assert cli(*asked, "-o", "-").stdout == json_text, (select, slab)
            run = json.loads(cli(*asked, "--sha256", "--json").stdout)
            assert run["sha256"] == hashlib.sha256(want).hexdigest() and run["elements"] * 4 + run["decoded_bytes"] == len(want), run
    got = cli("read", f / "a", "--points", "[6, 0, 6], [4, 0, 4], [5, 1, 5]", "--raw", "-o", "-", "--slab", 1).stdout
    assert got == counted(words[i] for i in ((6, 4, 5), (0, 0, 1), (6, 4, 5)))


if __name__ == "__main__":
    HEADRACE = str(pathlib.Path(sys.argv[1]).resolve())
    sys.exit(run_tests(globals(), sys.argv[2:]))
