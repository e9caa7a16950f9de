#!/usr/bin/env python3
"""The command line tool's contract: exit codes, one-line errors, and output files that are either complete or absent.

  cli_test.py PATH_TO_HEADRACE [NAME...]

This script writes the test stores itself. NAME limits the run to tests whose name contains it."""
import hashlib
import json
import os
import pathlib
import pty
import resource
import shutil
import struct
import subprocess
import sys
import zlib

from script_tests import FAILED, OK, UNCHECKED, USAGE, Skip, expect_tool, run_tests, run_tool

HEADRACE = ""


def cli(*arguments, **extra):
    return run_tool([HEADRACE], *arguments, **extra)


def expect(code, *arguments, **extra):
    return expect_tool([HEADRACE], code, *arguments, **extra)


def v2_array(path, shape, chunks, dtype, items, compressor=None, missing=(), fill=0, attributes=None):
    """`items`: flat list of packed element bytes in C order. Shapes of rank 1 and 2 only."""
    path.mkdir(parents=True)
    (path / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": dtype, "fill_value": fill, "order": "C",
        "filters": None, "compressor": {"id": "zlib", "level": 1} if compressor == "zlib" else None}))
    if attributes is not None:
        (path / ".zattrs").write_text(json.dumps(attributes))
    rows, columns = (shape + [1])[:2]
    chunk_rows, chunk_columns = (chunks + [1])[:2]
    blank = bytes(len(items[0])) if items else b"\0"
    for i in range(-(-rows // chunk_rows)):
        for j in range(-(-columns // chunk_columns)):
            key = f"{i}.{j}" if len(shape) == 2 else str(i)
            if key in missing:
                continue
            raw = b"".join(items[r * columns + c] if r < rows and c < columns else blank
                           for r in range(i * chunk_rows, (i + 1) * chunk_rows)
                           for c in range(j * chunk_columns, (j + 1) * chunk_columns))
            (path / key).write_bytes(zlib.compress(raw, 1) if compressor == "zlib" else raw)


def floats(count):
    return [struct.pack("<f", i / 2) for i in range(count)]


class Fixture:
    def __init__(self, root):
        self.root = root
        self.data = b"".join(floats(77))
        v2_array(root / "a.zarr", [11, 7], [4, 3], "<f4", floats(77), "zlib", attributes={"unit": "K"})
        group = root / "g.zarr"
        group.mkdir()
        (group / ".zgroup").write_text('{"zarr_format": 2}')
        v2_array(group / "one", [5], [2], "<i2", [struct.pack("<h", i) for i in range(5)])
        (group / "sub").mkdir()
        (group / "sub" / ".zgroup").write_text('{"zarr_format": 2}')
        v2_array(group / "sub" / "two", [4, 4], [2, 2], "<f4", floats(16), "zlib", missing=("0.1",), fill=1.5)
        shutil.copytree(group, root / "broken.zarr")
        bad = root / "broken.zarr" / "bad"
        bad.mkdir()
        (bad / ".zarray").write_text('{"zarr_format": 2, "shape": ')
        shutil.copytree(group, root / "corrupt.zarr")
        (root / "corrupt.zarr" / "sub" / "two" / "1.1").write_bytes(b"not zlib at all")
        (root / "corrupt.zarr" / "one" / "1").write_bytes(b"\x01")       # short
        v3 = root / "v3.zarr"
        v3.mkdir()
        (v3 / "zarr.json").write_text(json.dumps({
            "zarr_format": 3, "node_type": "array", "shape": [6], "data_type": "int32", "fill_value": 9,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "dimension_names": ["time"],
            "attributes": {}}))
        (v3 / "c").mkdir()
        (v3 / "c" / "0").write_bytes(struct.pack("<4i", 1, 2, 3, 4))
        huge = root / "huge.zarr"
        huge.mkdir()
        (huge / ".zarray").write_text(json.dumps({
            "zarr_format": 2, "shape": [1 << 40, 1 << 20], "chunks": [1024, 1024], "dtype": "<f8", "compressor": None,
            "fill_value": 0, "order": "C", "filters": None}))
        (root / "plain").mkdir()
        (root / "plain" / "file.txt").write_text("nothing here")
        (root / "file.txt").write_text("nothing here")

    def leftovers(self, folder):
        return [p.name for p in folder.iterdir() if ".headrace-" in p.name]


def test_usage(f):
    a = f.root / "a.zarr"
    for arguments in ([], ["frobnicate"], ["read"], ["info"], ["verify"], ["read", ""], ["read", a, "--nonsense"],
                      ["read", a, "extra"], ["read", a, "--engine", "steam"], ["verify", a, "--engine", "steam"],
                      ["read", a, "--device", "abacus"], ["read", a, "--device", "cuda:x"], ["read", a, "--device", "cuda:"],
                      ["read", a, "--threads", "-1"], ["read", a, "--threads", "many"], ["read", a, "--threads", "99999"],
                      ["read", a, "-o", f.root / "x", "--raw", "--npy"], ["read", a, "--raw"], ["read", a, "--npy"],
                      ["read", a, "-o"], ["info", a, "--select", ":"]):
        expect(USAGE, *arguments)
    assert not (f.root / "x").exists()


def test_help_and_version(f):
    for arguments in (["--help"], ["info", "--help"], ["read", "--help"], ["verify", "--help"], ["bench", "--help"]):
        out = expect(OK, *arguments).stdout.decode()
        assert "Examples:" in out, out
    assert expect(OK, "--version").stdout.decode().startswith("headrace 0.")


def test_selection_text(f):
    for text in ("a", "1:2:3:4", "0:10 5", "::0", "::-1", "...,...", "1.5", "99999999999999999999", ":,"):
        done = cli("read", f.root / "a.zarr", "--select", text)
        assert done.returncode in (FAILED, USAGE) or text == ":,", (text, done)
    for text in ("a", "1:2:3:4", "0:10 5", "1.5"):
        expect(USAGE, "read", f.root / "a.zarr", "--select", text, says="--select")
    for text in ("11", "-12", "0,7", "0,0,0"):
        expect(FAILED, "read", f.root / "a.zarr", "--select", text)


def test_missing_and_not_zarr(f):
    for verb in ("info", "read", "verify", "index"):
        # verify cannot call a store that does not exist either good or damaged.
        code = UNCHECKED if verb == "verify" else FAILED
        expect(code, verb, f.root / "nowhere.zarr", says="nowhere.zarr")
        expect(code, verb, f.root / "plain", says="plain")
        expect(code, verb, f.root / "file.txt", says="file.txt")
        expect(code, verb, "ftp://example.org/x")
    expect(FAILED, "read", f.root / "a.zarr" / "nothing")


def test_cache(f):
    for arguments in (["cache"], ["cache", "frob"], ["cache", "ls"], ["cache", "stat", "--dir"]):
        expect(USAGE, *arguments)
    folder = f.root / "cache"
    expect(FAILED, "cache", "stat", "--dir", folder, says="cache")
    folder.mkdir(mode=0o700)
    (folder / "1-2.hrseg").write_bytes(b"no segment")
    data = json.loads(expect(OK, "cache", "ls", "--dir", folder, "--json").stdout)
    assert [one["state"] for one in data["segments"]] == ["foreign"] and data["file_bytes"] == 10, data
    assert b"foreign" in expect(OK, "cache", "ls", "--dir", folder).stdout
    assert json.loads(expect(OK, "cache", "stat", "--dir", folder, "--json").stdout)["segments"] == 1
    assert b"0 of 0 ranges are damaged" in expect(OK, "cache", "verify", "--dir", folder).stdout
    assert json.loads(expect(OK, "cache", "clear", "--dir", folder, "--json").stdout)["freed_bytes"] == 10
    assert not list(folder.glob("*.hrseg"))
    folder.chmod(0o777)
    expect(FAILED, "cache", "clear", "--dir", folder, says="cache")


def test_remote_advice(f):
    expect(FAILED, "info", "http://127.0.0.1:1/a.zarr", says="check the address, the network and the server")


def test_newline_in_path(f):
    expect(FAILED, "info", str(f.root / "no\nsuch\x1b[31m"))
    expect(USAGE, "read", f.root / "a.zarr", "--select", "a\nb")


def test_group_where_array_wanted(f):
    expect(FAILED, "read", f.root / "g.zarr", says="group")


def test_read_raw(f):
    out = f.root / "out.bin"
    expect(OK, "read", f.root / "a.zarr", "-o", out)
    assert out.read_bytes() == f.data
    expect(OK, "read", f.root / "a.zarr", "--select", "2:9:3, -1", "-o", out, "--raw")
    assert out.read_bytes() == b"".join(f.data[4 * (7 * r + 6):][:4] for r in (2, 5, 8))
    expect(OK, "read", f.root / "v3.zarr", "-o", out)
    assert struct.unpack("<6i", out.read_bytes()) == (1, 2, 3, 4, 9, 9)
    expect(OK, "read", f.root / "g.zarr/sub/two", "-o", out)
    assert struct.unpack("<16f", out.read_bytes())[2:4] == (1.5, 1.5)
    assert not f.leftovers(f.root)


def test_every_engine_and_device_gives_the_same(f):
    digest = hashlib.sha256(f.data).hexdigest()
    for engine in ("auto", "threads"):
        for device in ("host", "host-staged"):
            for threads in (1, 3):
                out = expect(OK, "read", f.root / "a.zarr", "--engine", engine, "--device", device, "--threads", threads,
                             "--sha256").stdout.decode()
                assert digest in out, out


def test_read_npy(f):
    out = f.root / "out.npy"
    expect(OK, "read", f.root / "a.zarr", "-o", out)
    content = out.read_bytes()
    assert content[:8] == b"\x93NUMPY\x01\x00"
    length = struct.unpack("<H", content[8:10])[0]
    header = eval(content[10:10 + length].decode("ascii"))
    assert header == {"descr": "<f4", "fortran_order": False, "shape": (11, 7)}, header
    assert (10 + length) % 64 == 0 and content[10 + length:] == f.data
    expect(OK, "read", f.root / "a.zarr", "-o", out, "--raw")
    assert out.read_bytes() == f.data


def test_read_converts(f):
    array, out = f.root / "packed.zarr", f.root / "out.npy"
    v2_array(array, [6], [2], ">i2", [struct.pack(">h", v) for v in (-5, 10, 9, 9, 3, 4)], missing=("1",), fill=-5)
    expect(OK, "read", array, "--dtype", "float32", "--scale", 0.5, "--offset", 100, "--nan-fill", "-o", out)
    content = out.read_bytes()
    assert b"'<f4'" in content, content
    values = struct.unpack("<6f", content[-24:])
    assert values[1] == 105 and values[4:] == (101.5, 102), values
    assert all(v != v for v in (values[0], values[2], values[3])), values
    report = json.loads(expect(OK, "read", array, "--dtype", "float64", "--json").stdout)
    assert (report["data_type"], report["result_type"], report["decoded_bytes"]) == ("int16", "float64", 48), report
    expect(USAGE, "read", array, "--dtype", "complex64", says="float32,float64")
    expect(FAILED, "read", array, "--nan-fill", says="int16 has no NaN")
    expect(FAILED, "read", array, "--scale", 2, says="dtype")


def test_standard_output(f):
    for target in ("-", "/dev/stdout"):
        done = expect(OK, "read", f.root / "a.zarr", "-o", target, "--sha256")
        assert done.stdout == f.data
        assert hashlib.sha256(f.data).hexdigest() in done.stderr.decode()
    expect(OK, "read", f.root / "a.zarr", "-o", "/dev/null")


def test_output_in_shared_memory_is_replaced(f):
    out = pathlib.Path(f"/dev/shm/headrace-test-{os.getpid()}.bin")
    if not out.parent.is_dir():
        raise Skip("no /dev/shm")
    try:
        out.write_bytes(bytes(1000))
        expect(OK, "read", f.root / "a.zarr", "--raw", "-o", out)
        assert out.read_bytes() == f.data, len(out.read_bytes())
    finally:
        out.unlink()


def test_json(f):
    data = json.loads(expect(OK, "read", f.root / "a.zarr", "--json", "--sha256", "--select", "0:4").stdout)
    assert data["shape"] == [4, 7] and data["decoded_bytes"] == 112 and data["array_shape"] == [11, 7], data
    assert data["sha256"] == hashlib.sha256(f.data[:112]).hexdigest() and data["output"] is None
    stats = data["stats"]
    assert stats["decoded_bytes"] == 112 and stats["chunks"] == 3 and stats["missing_chunks"] == 0, stats
    ways = ("direct_bytes", "engine_bytes", "buffered_bytes", "memory_bytes", "mapped_bytes", "store_bytes", "cache_bytes",
            "packed_bytes")
    assert stats["read_bytes"] == sum(stats[way] for way in ways), stats

    data = json.loads(expect(OK, "info", f.root / "a.zarr", "--json").stdout)
    assert (data["node_type"], data["zarr_format"], data["shape"], data["chunk_shape"]) == ("array", 2, [11, 7], [4, 3])
    assert data["data_type"] == "float32" and data["attributes"] == {"unit": "K"} and data["chunk_count"] == 9
    assert data["decoded_bytes"] == len(f.data) and data["stored_objects"] == 9 and data["shard_shape"] is None
    assert data["stored_bytes"] == sum(p.stat().st_size for p in (f.root / "a.zarr").iterdir() if p.name[0] != ".")
    assert all(set(c) == {"name", "gpu"} for c in data["codecs"]) and any("zlib" in c["name"] for c in data["codecs"]), data

    data = json.loads(expect(OK, "info", f.root / "v3.zarr", "--json").stdout)
    assert data["zarr_format"] == 3 and data["dimension_names"] == ["time"] and data["fill_value"] == "9", data

    data = json.loads(expect(OK, "verify", f.root / "g.zarr", "--json").stdout)
    assert data["ok"] and data["arrays"] == 2 and data["missing_chunks"] == 1 and data["bad_chunks"] == [], data


def test_info_text(f):
    out = expect(OK, "info", f.root / "a.zarr").stdout.decode()
    for word in ("Zarr v2", "[11, 7]", "float32", "[4, 3]", "zlib", "GPU", "308"):
        assert word in out, (word, out)
    out = expect(OK, "info", f.root / "g.zarr").stdout.decode()
    assert [line.split()[0] for line in out.splitlines() if line.lstrip().startswith("/")] == ["/one", "/sub", "/sub/two"], out


def test_info_of_a_folder_of_stores(f):
    """Also of v3 stores only, where the folder is not a group; verify accepts such a folder too."""
    folder = f.root / "stores"
    folder.mkdir()
    shutil.copytree(f.root / "v3.zarr", folder / "b.zarr")
    text = expect(OK, "info", folder).stdout.decode()
    assert text.startswith("folder") and "/b.zarr" in text and "int32" in text, text
    data = json.loads(expect(OK, "info", folder, "--json").stdout)
    assert (data["node_type"], data["zarr_format"]) == ("folder", None) and data["nodes"][0]["path"] == "b.zarr", data
    assert json.loads(expect(OK, "verify", folder, "--json").stdout)["arrays"] == 1
    shutil.copytree(f.root / "g.zarr", folder / "g.zarr")
    data = json.loads(expect(OK, "info", folder, "--json").stdout)
    assert (data["node_type"], data["zarr_format"]) == ("group", 2), data
    expect(FAILED, "info", f.root / "plain", says="no Zarr node here")


def test_info_marks_codecs_as_the_readme_does(f):
    assert "codecs          bytes (no decode step)\n" in expect(OK, "info", f.root / "v3.zarr").stdout.decode()
    assert "zlib (GPU)" in expect(OK, "info", f.root / "a.zarr").stdout.decode()


def test_info_says_where_references_begin(f):
    (f.root / "refs.json").write_text(json.dumps({"version": 1, "refs": {".zgroup": '{"zarr_format": 2}', "a/.zarray": json.dumps({
        "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "fill_value": 0, "order": "C", "filters": None,
        "compressor": None}), "a/0": ["file.txt", 0, 8]}}))
    for path in (f"reference://{f.root}/refs.json", f"reference://{f.root}/refs.json/a", f"reference://{f.root}/refs.json?root=/"):
        text = expect(OK, "info", path).stdout.decode()
        assert f"relative paths in the reference file begin at {f.root}\n" in text, text


def test_a_chunk_folder_is_no_node(f):
    """In a broken array, as a user who may not look into the folder."""
    if os.geteuid() != 0:
        raise Skip("needs root, to become an ordinary user")
    group = f.root / "group.zarr"
    group.mkdir()
    (group / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    shutil.copytree(f.root / "v3.zarr", group / "bad")
    (group / "bad" / "zarr.json").write_text("{")
    (group / "secret").mkdir()
    for path in (group / "bad" / "c", group / "secret"):
        path.chmod(0)
    program = f.root / "bin" / "headrace"
    program.parent.mkdir()
    shutil.copy(HEADRACE, program)
    f.root.chmod(0o755)

    def drop():
        os.setgid(65534)
        os.setuid(65534)
    done = subprocess.run([program, "info", group, "--no-consolidated", "--json"], capture_output=True, preexec_fn=drop)
    assert done.returncode == OK, done
    assert [node["path"] for node in json.loads(done.stdout)["nodes"]] == ["bad", "secret"], done.stdout


def test_broken_node_is_shown(f):
    out = expect(OK, "info", f.root / "broken.zarr").stdout.decode()
    assert "cannot be opened" in out and "/sub/two" in out, out
    data = json.loads(expect(OK, "info", f.root / "broken.zarr", "--json").stdout)
    assert [n["path"] for n in data["nodes"] if "error" in n] == ["bad"], data
    expect(FAILED, "info", f.root / "broken.zarr" / "bad")
    done = expect(FAILED, "verify", f.root / "broken.zarr", says="1 array damaged")
    assert b"damaged array  /bad" in done.stdout


def test_verify_lists_bad_chunks(f):
    out = expect(FAILED, "verify", f.root / "corrupt.zarr", says="2 chunks and 0 arrays damaged").stdout.decode()
    lines = [line for line in out.splitlines() if line.startswith("damaged chunk")]
    assert len(lines) == 2 and "one/1" in lines[0] and "sub/two/1.1" in lines[1], out
    done = expect(FAILED, "verify", f.root / "corrupt.zarr", "--json")
    data = json.loads(done.stdout)
    assert not data["ok"] and data["verdict"] == "damaged" and data["bad_chunk_count"] == 2, data
    assert data["unchecked_chunks"] == [] and data["unchecked_array_count"] == 0, data
    assert {"array", "key", "offset", "length", "code", "cause"} <= set(data["bad_chunks"][0]), data
    assert expect(OK, "verify", f.root / "g.zarr").stdout.count(b"\n") == 1
    # A read fails at the same chunk and leaves no output.
    out = f.root / "corrupt.bin"
    expect(FAILED, "read", f.root / "corrupt.zarr/sub/two", "-o", out, says="1.1")
    assert not out.exists() and not f.leftovers(f.root)


def test_verify_tells_damaged_from_unchecked(f):
    """A check that cannot be made says nothing about the stored bytes."""
    root = f.root / "unchecked.zarr"
    root.mkdir()
    (root / ".zgroup").write_text('{"zarr_format": 2}')
    v2_array(root / "good", [5], [2], "<i2", [struct.pack("<h", i) for i in range(5)])
    v2_array(root / "foreign", [5], [2], "<i2", [struct.pack("<h", i) for i in range(5)])
    metadata = json.loads((root / "foreign/.zarray").read_text())
    (root / "foreign/.zarray").write_text(json.dumps(dict(metadata, compressor={"id": "n5_wrapper"})))
    out = expect(UNCHECKED, "verify", root, says="0 chunks and 1 array could not be checked").stdout.decode()
    assert "unchecked array  /foreign" in out and "damaged" not in out, out
    data = json.loads(expect(UNCHECKED, "verify", root, "--json", says="may be good").stdout)
    assert data["verdict"] == "unchecked" and not data["ok"] and data["bad_chunks"] == data["bad_arrays"] == [], data
    assert [a["array"] for a in data["unchecked_arrays"]] == ["foreign"], data
    # A folder in place of a chunk cannot be read, but is no damage to stored data.
    (root / "good/1").unlink()
    (root / "good/1").mkdir()
    out = expect(UNCHECKED, "verify", root, says="1 chunk and 1 array could not be checked").stdout.decode()
    assert "unchecked chunk  good/1" in out, out
    # If both verdicts apply, damage wins.
    (root / "good/0").write_bytes(b"x")
    data = json.loads(expect(FAILED, "verify", root, "--json", says="damaged, 1 chunk and 1 array could not").stdout)
    assert data["verdict"] == "damaged" and [c["key"] for c in data["bad_chunks"]] == ["good/0"], data
    assert expect(UNCHECKED, "verify", f.root / "no such store", says="not found").stdout == b""


def test_misspelt_words(f):
    expect(USAGE, "ifno", f.root / "a.zarr", says="unknown command 'ifno', did you mean 'info'?")
    expect(USAGE, "read", f.root / "a.zarr", "--selct", "0", says="unknown option '--selct', did you mean '--select'?")
    expect(USAGE, "read", f.root / "a.zarr", "--selct=0", says="unknown option '--selct', did you mean '--select'?")
    expect(USAGE, "info", f.root / "a.zarr", "b.zarr", says="'b.zarr' is one argument too many")
    expect(USAGE, "read", f.root / "a.zarr", "--threads", "1025", says="1024")
    expect(USAGE, "read", f.root / "a.zarr", "--dtype", "float", says="float32")


def test_verify_reads_what_is_stored(f):
    """The time for a sparse array depends on its stored chunks only: 10^12 chunks are absent, and 10^9 whole shards."""
    sparse = f.root / "sparse.zarr"
    sparse.mkdir()
    (sparse / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [3 * 10**6, 10**6], "chunks": [3, 1], "dtype": "|u1", "fill_value": 7, "order": "C",
        "filters": None, "compressor": None}))
    for key, raw in (("5.7", b"abc"), ("5.8", b"def"), ("999999.999999", b"ghi"), ("12.0", b"short by one"), ("x.y", b"")):
        (sparse / key).write_bytes(raw)
    data = json.loads(expect(FAILED, "verify", sparse, "--json").stdout)
    assert [bad["key"] for bad in data["bad_chunks"]] == ["12.0"], data
    assert (data["chunks"], data["missing_chunks"]) == (3, 10**12 - 4), data
    (sparse / "12.0").unlink()
    data = json.loads(expect(OK, "verify", sparse, "--json").stdout)
    assert data["ok"] and (data["chunks"], data["missing_chunks"]) == (3, 10**12 - 3), data

    sharded = f.root / "sparse_shards.zarr"
    (sharded / "c").mkdir(parents=True)
    (sharded / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [4 * 10**9], "data_type": "uint8", "fill_value": 7,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {},
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [2], "codecs": ["bytes"], "index_location": "end",
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}]}))
    absent = 2**64 - 1
    for shard, index in (("7", (0, 2, absent, absent)), ("8", (0, 2, 1, 1)), ("999999999", (0, 2, 0, 2))):
        (sharded / "c" / shard).write_bytes(b"ab" + struct.pack("<4Q", *index))
    data = json.loads(expect(FAILED, "verify", sharded, "--json").stdout)
    assert [(bad["key"], bad["offset"], bad["length"]) for bad in data["bad_chunks"]] == [("c/8", 1, 1)], data
    assert (data["chunks"], data["missing_chunks"]) == (4, 10**9 - 3 + 1), data
    # If the list of keys exceeds the budget, the whole grid is visited.
    small = f.root / "small.zarr"
    shutil.copytree(f.root / "g.zarr", small)
    data = json.loads(expect(OK, "verify", small, "--json", "--stored-budget", "1M").stdout)
    assert data["ok"] and data["missing_chunks"] == 1, data


def test_links_are_walked_once(f):
    group = f.root / "linked.zarr"
    shutil.copytree(f.root / "g.zarr", group)
    for name in ("a", "b", "c"):
        (group / name).symlink_to(".")
    out = expect(OK, "info", group).stdout.decode()
    assert [line.split()[0] for line in out.splitlines() if line.lstrip().startswith("/")] == [
        "/a", "/b", "/c", "/one", "/sub", "/sub/two"], out
    assert json.loads(expect(OK, "verify", group, "--json").stdout)["arrays"] == 2


def test_strings(f):
    """Arrays of variable length: raw, JSON, text, digest; NumPy's format and devices are refused."""
    words = ["a", "", "gr\u00fcn", "x" * 100, "\"q\"", "f"]
    path = f.root / "strings.zarr"
    path.mkdir()
    (path / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [2, 3], "chunks": [1, 3], "dtype": "|O", "fill_value": "f", "order": "C",
        "filters": [{"id": "vlen-utf8"}], "compressor": {"id": "zlib", "level": 1}}))
    count = lambda n: struct.pack("<I", n)
    raw = b"".join(count(len(word.encode())) + word.encode() for word in words)
    first, last = (b"".join(count(len(w.encode())) + w.encode() for w in row) for row in (words[:3], words[3:]))
    (path / "0.0").write_bytes(zlib.compress(count(3) + first))
    (path / "1.0").write_bytes(zlib.compress(count(3) + last))
    out = f.root / "strings.out"
    expect(OK, "read", path, "-o", out, "--raw")
    assert out.read_bytes() == raw
    expect(OK, "read", path, "-o", out)
    assert json.loads(out.read_text()) == [words[:3], words[3:]], out.read_text()
    expect(OK, "read", path, "--select", "1, :2", "-o", out)
    assert json.loads(out.read_text()) == words[3:5]
    expect(OK, "read", path, "--select", "1, 2", "-o", out)
    assert json.loads(out.read_text()) == "f"
    done = json.loads(expect(OK, "read", path, "--json", "--sha256").stdout)
    assert done["sha256"] == hashlib.sha256(raw).hexdigest() and done["elements"] == 6 and done["item_bytes"] is None, done
    assert done["first_elements"][:3] == words[:3] and done["decoded_bytes"] == len(raw) - 6 * 4, done
    text = expect(OK, "read", path).stdout.decode()
    assert "6 elements" in text and '"gr\u00fcn"' in text, text
    for name, flag in ((out, "--npy"), (f.root / "strings.npy", None)):
        expect(USAGE, "read", path, "-o", name, *([flag] if flag else []), says="variable length")
    expect(USAGE, "read", path, "--dtype", "float32", says="cannot be converted")
    expect(USAGE, "read", path, "--device", "host-staged", says="read to the host")
    info = json.loads(expect(OK, "info", path, "--json").stdout)
    assert info["data_type"] == "string" and info["item_bytes"] is None and info["decoded_bytes"] is None, info
    assert "variable length" in expect(OK, "info", path).stdout.decode()
    expect(OK, "verify", path)
    (path / "1.0").write_bytes(zlib.compress(count(3) + last + b"!"))
    assert "follow the last" in expect(FAILED, "verify", path, says="1 chunk and 0 arrays damaged").stdout.decode()
    expect(FAILED, "read", path, "-o", f.root / "none.out", says="1.0")
    assert not (f.root / "none.out").exists() and not f.leftovers(f.root)


def test_index(f):
    store = f.root / "era.zarr"
    expect(OK, "gen", store, "--workload", "w1", "--codec", "zstd", "--size", "16M", "--chunk", "1,721,1440")
    array, place = store / "geopotential", f.root / "era.zarr.hrindex" / "geopotential"
    before = sorted((p, p.stat().st_mtime_ns) for p in store.rglob("*"))
    expect(FAILED, "index", array, "--check", says="headrace index")
    made = json.loads(expect(OK, "index", array, "--json").stdout)
    assert made["chunks"] == made["indexed"] > 0 and made["codec"] == "zstd" and made["without"] == 0, made
    assert 0 < made["index_bytes"] <= made["decoded_bytes"] / 192 and made["stored_bytes"] > 0, made
    file = pathlib.Path(made["file"])
    assert file.parent == place.resolve() and file.stat().st_size == made["file_bytes"], made
    assert "0 saved indices are for other bytes" in expect(OK, "index", array, "--check").stdout.decode()
    elsewhere = f.root / "elsewhere"
    text = expect(OK, "index", array, "--out", elsewhere).stdout.decode()
    assert "have an index (zstd)" in text and (elsewhere / file.name).read_bytes() == file.read_bytes(), text
    assert sorted((p, p.stat().st_mtime_ns) for p in store.rglob("*")) == before, "the store is not written to"
    plain = expect(OK, "read", array, "--device", "host", "--sha256").stdout
    for content in (file.read_bytes(), b"", b"hrindex", file.read_bytes()[:-1]):
        file.write_bytes(content)
        done = expect(OK, "read", array, "--index", place, "--device", "host", "--sha256")
        assert done.stdout.split(b"sha256")[1] == plain.split(b"sha256")[1]
        ignored = b"ignored" in done.stderr
        assert ignored == (len(content) != made["file_bytes"]) and b"decode indices" in done.stderr, done.stderr
    expect(FAILED, "index", array, "--check", says="index")
    # One chunk is replaced by another.
    expect(OK, "index", array)
    chunks = sorted(p for p in array.iterdir() if not p.name.startswith("."))
    if len(chunks) > 1:
        chunks[0].write_bytes(chunks[1].read_bytes())
        data = json.loads(expect(FAILED, "index", array, "--check", "--json").stdout)
        assert data["stale"] == 1 and data["missing"] == 0, data
    expect(FAILED, "index", f.root / "a.zarr", says="no decode indices")
    expect(FAILED, "index", f.root / "g.zarr", says="group")
    expect(FAILED, "index", f.root / "nothing.zarr", says="nothing.zarr")
    expect(USAGE, "index")


def test_too_large(f):
    expect(FAILED, "read", f.root / "huge.zarr", "--device", "host", says="bytes")
    out = f.root / "huge.bin"
    expect(OK, "read", f.root / "huge.zarr", "--device", "host", "--select", "-1, -2:", "-o", out)
    assert out.read_bytes() == bytes(16)
    expect(FAILED, "read", f.root / "huge.zarr", "--device", "host", "-o", f.root / "all.bin", says="free")
    assert not f.leftovers(f.root)
    expect(OK, "info", f.root / "huge.zarr")


def test_unwritable_output(f):
    a = f.root / "a.zarr"
    expect(FAILED, "read", a, "-o", f.root / "no" / "such" / "folder.bin")
    expect(FAILED, "read", a, "-o", f.root)                       # a directory
    expect(FAILED, "read", a, "-o", "/proc/version")
    expect(FAILED, "read", a, "-o", f.root / ("n" * 300))
    if os.geteuid() != 0:
        locked = f.root / "locked"
        locked.mkdir(mode=0o500)
        expect(FAILED, "read", a, "-o", locked / "x.bin")


def test_disk_full(f):
    expect(FAILED, "read", f.root / "a.zarr", "-o", "/dev/full", says="No space left")
    expect(FAILED, "read", f.root / "a.zarr", "--npy", "-o", "/dev/full", says="No space left")
    with open("/dev/full", "w") as full:
        done = subprocess.run([HEADRACE, "info", f.root / "a.zarr"], stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == FAILED and done.stderr.count(b"\n") == 1, done
    # A file size limit of 100 bytes: the old content stays, and no temporary file is left.
    out = f.root / "full" / "out.bin"
    out.parent.mkdir()
    out.write_bytes(b"before")

    def limit():
        import signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    expect(FAILED, "read", f.root / "a.zarr", "--engine", "threads", "-o", out, preexec_fn=limit)
    assert out.read_bytes() == b"before" and list(out.parent.iterdir()) == [out]


def test_output_is_replaced_whole(f):
    out, link = f.root / "real.bin", f.root / "link.bin"
    out.write_bytes(b"old")
    out.chmod(0o640)
    link.symlink_to(out)
    expect(OK, "read", f.root / "a.zarr", "-o", link)
    assert link.is_symlink() and out.read_bytes() == f.data and out.stat().st_mode & 0o777 == 0o640


def test_text_reports(f):
    done = expect(OK, "read", f.root / "a.zarr")
    assert done.stdout.count(b"\n") == 1 and b"decoded" in done.stdout and done.stderr == b"", done
    done = expect(OK, "read", f.root / "a.zarr", "-o", f.root / "quiet.bin")
    assert done.stdout == b"" and done.stderr == b"", done
    out = expect(OK, "read", f.root / "a.zarr", "--stats", "--device", "host-staged").stdout.decode()
    for word in ("stored", "over the bus", "decoded", "page cache", "direct", "plan", "assemble", "wall", "engine"):
        assert word in out, (word, out)


def test_no_progress_bar_for_short_work(f):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(HEADRACE, [HEADRACE, "read", str(f.root / "a.zarr"), "-o", "/dev/null"])
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 0 and seen == b"", (status, seen)


def main():
    global HEADRACE
    HEADRACE = os.path.abspath(sys.argv[1])
    return run_tests(globals(), sys.argv[2:], Fixture)


if __name__ == "__main__":
    sys.exit(main())
