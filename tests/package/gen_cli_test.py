#!/usr/bin/env python3
"""`headrace gen`: the same seed gives the same bytes, stores verify, and no failure leaves anything that looks
finished.

  gen_cli_test.py PATH_TO_HEADRACE [NAME...]

NAME limits the run to tests whose name contains it."""
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time

from script_tests import FAILED, OK, USAGE, Skip, expect_tool, run_tests, run_tool

HEADRACE = ""
SMALL = ("--workload", "w1", "--scale", "0.0001")  # one time: 12.5 MB


def cli(*arguments, **extra):
    return run_tool([HEADRACE], *arguments, **extra)


def expect(code, *arguments, **extra):
    return expect_tool([HEADRACE], code, *arguments, quiet=True, **extra)


def tree(folder):
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*")) if p.is_file()}


def file_size_limit(limit_bytes):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    return limit


def test_usage(root):
    for arguments in ([], ["x"], ["--workload", "w1"], ["x", "--workload", "w9"], ["x", *SMALL, "--codec", "zip"],
                      ["x", *SMALL, "--codec", "zstd:99"], ["x", *SMALL, "--codec", "lz4:1"], ["x", *SMALL, "--size", "1M"],
                      ["x", "--workload", "w1", "--scale", "0"], ["x", "--workload", "w1", "--scale", "-1"],
                      ["x", "--workload", "w1", "--scale", "nan"], ["x", "--workload", "w1", "--scale", "1e300"],
                      ["x", "--workload", "w1", "--scale", "inf"], ["x", "--workload", "w1", "--size", "0"], ["x", "--workload", "w1", "--size", "10"],
                      ["x", *SMALL, "--format", "v4"], ["x", *SMALL, "--chunk", "1,721"], ["x", *SMALL, "--chunk", "0,1,1"],
                      ["x", *SMALL, "--chunk", "1,722,1440"], ["x", *SMALL, "--chunk", "a"], ["x", *SMALL, "--chunk", "1,,1"],
                      ["x", *SMALL, "--seed", "-1"], ["x", *SMALL, "--threads", "-1"], ["x", *SMALL, "--raw", "y"],
                      ["x", *SMALL, "--content", "field"], ["x", *SMALL, "--count", "3"],
                      ["--raw", "x"], ["--raw", "", "--size", "1"], ["--raw", "x", "--size", "1", "--workload", "w1"],
                      ["--raw", "x", "--size", "1", "--codec", "lz4"], ["--raw", "x", "--size", "many"],
                      ["--raw", "x", "--size", "1", "--files", "y", "--count", "1"], ["--raw", "x", "--size", "1", "--count", "2"],
                      ["--files", "x", "--size", "1"], ["--files", "x", "--count", "1"],
                      ["--files", "x", "--count", "0", "--size", "1"], ["--raw", "x", "--size", "1", "--content", "poetry"],
                      ["--files", "x", "--count", "99999999", "--size", "999999999999"],
                      ["s3://bucket/x", *SMALL]):
        expect(USAGE, "gen", *arguments, cwd=root)
    assert not any(root.iterdir()), list(root.iterdir())
    assert b"Examples:" in expect(OK, "gen", "--help").stdout


def test_threads_and_seeds(root):
    for number, arguments in enumerate((("--codec", "none"), ("--codec", "blosc-lz4", "--format", "sharded"))):
        one, two, other = (root / f"{name}{number}" for name in ("one", "two", "other"))
        expect(OK, "gen", one, *SMALL, *arguments, "--threads", 1)
        expect(OK, "gen", two, *SMALL, *arguments, "--threads", 4)
        expect(OK, "gen", other, *SMALL, *arguments, "--seed", 5)
        assert tree(one) == tree(two)
        # The root's metadata contain the seed; the coordinates do not depend on it.
        same = {name for name, digest in tree(one).items() if tree(other)[name] == digest}
        assert same and not any("wind" in name and "c/" in name for name in same), same
    for arguments in (("--raw",), ("--raw", "--content", "field")):
        expect(OK, "gen", *arguments[1:], "--raw", root / "a", "--size", "9000001", "--threads", 1, "--overwrite")
        expect(OK, "gen", *arguments[1:], "--raw", root / "b", "--size", "9000001", "--threads", 4, "--overwrite")
        assert (root / "a").read_bytes() == (root / "b").read_bytes() and (root / "a").stat().st_size == 9000001


def test_every_format_and_codec_verifies(root):
    digests = set()
    for format in ("v2", "v3", "sharded"):
        for codec in ("none", "lz4", "zstd", "zstd:1", "gzip", "blosc-lz4:1", "blosc-zstd"):
            store = root / f"{format}-{codec}"
            made = json.loads(expect(OK, "gen", store, *SMALL, "--format", format, "--codec", codec, "--json").stdout)
            assert made["format"] == format and made["codec"].startswith(codec), made
            assert made["decoded_bytes"] == 3 * 4152960 + 8 + 4 * (721 + 1440), made
            checked = json.loads(expect(OK, "verify", store, "--json").stdout)
            assert checked["ok"] and checked["arrays"] == 6 and checked["missing_chunks"] == 0, checked
            assert checked["chunks"] == made["chunks"] and checked["stats"]["decoded_bytes"] == made["decoded_bytes"], checked
            read = json.loads(expect(OK, "read", store / "geopotential", "--device", "host", "--sha256", "--json").stdout)
            digests.add(read["sha256"])
            info = json.loads(expect(OK, "info", store / "geopotential", "--json").stdout)
            assert info["dimension_names"] == ["time", "latitude", "longitude"] and info["attributes"]["units"] == "m2 s-2", info
    assert len(digests) == 1, digests


def test_text_report(root):
    done = expect(OK, "gen", root / "x", *SMALL, "--codec", "blosc-zstd")
    assert done.stdout.count(b"\n") == 1 and b"decoded" in done.stdout and b"stored" in done.stdout, done
    expect(OK, "gen", f"file://{root}/y/", *SMALL)
    assert sorted(p.name for p in root.iterdir()) == ["x", "y"]


def test_existing_outputs_are_kept(root):
    store, plain, file = root / "store", root / "plain", root / "file"
    expect(OK, "gen", store, *SMALL)
    before = tree(store)
    expect(FAILED, "gen", store, *SMALL, "--seed", 2, says="--overwrite")
    assert tree(store) == before
    expect(OK, "gen", store, *SMALL, "--seed", 2, "--overwrite")
    assert tree(store) != before
    plain.mkdir()
    (plain / "precious").write_text("mine")
    expect(FAILED, "gen", plain, *SMALL, "--overwrite", says="not a Zarr store")
    expect(FAILED, "gen", "--files", plain, "--count", 1, "--size", 1, "--overwrite", says="precious")
    expect(FAILED, "gen", "--raw", plain, "--size", 1, "--overwrite", says="not a regular file")
    file.write_text("mine")
    expect(FAILED, "gen", file, *SMALL, "--overwrite", says="not a directory")
    expect(FAILED, "gen", "--raw", file, "--size", 1)
    assert file.read_text() == "mine" and (plain / "precious").read_text() == "mine"
    link = root / "link"
    link.symlink_to(store)
    expect(FAILED, "gen", link, *SMALL, "--overwrite", says="not a directory")
    expect(OK, "gen", "--raw", file, "--size", 10, "--overwrite")
    assert file.stat().st_size == 10
    (root / "new.headrace-partial").mkdir()
    expect(FAILED, "gen", root / "new", *SMALL, says=f"{root}/new.headrace-partial exists")
    assert not [p for p in root.iterdir() if "partial" in p.name and p.name != "new.headrace-partial"]


def test_places_that_cannot_be_written(root):
    for place in (root / "no" / "such" / "folder", "/proc/x", root / ("n" * 300)):
        expect(FAILED, "gen", place, *SMALL)
        expect(FAILED, "gen", "--raw", place, "--size", 5)
        expect(FAILED, "gen", "--files", place, "--size", 5, "--count", 2)
    if os.geteuid() != 0:
        locked = root / "locked"
        locked.mkdir(mode=0o500)
        expect(FAILED, "gen", locked / "x", *SMALL, says="ermission")
        locked.chmod(0o700)


def test_full_disk(root):
    # A file size limit stands for a full disk: no object, file or directory is left.
    expect(FAILED, "gen", root / "x", *SMALL, "--threads", 1, preexec_fn=file_size_limit(1 << 20), says="geopotential/0.0.0")
    expect(FAILED, "gen", "--raw", root / "y", "--size", "2M", preexec_fn=file_size_limit(1 << 20), says="output")
    expect(FAILED, "gen", "--files", root / "z", "--count", 3, "--size", "2M", preexec_fn=file_size_limit(1 << 20))
    assert not any(root.iterdir()), list(root.iterdir())
    # The store it would have replaced is kept.
    expect(OK, "gen", root / "x", *SMALL)
    before = tree(root)
    expect(FAILED, "gen", root / "x", *SMALL, "--seed", 3, "--overwrite", preexec_fn=file_size_limit(1 << 20))
    assert tree(root) == before
    # A store larger than the free space is refused before anything is written.
    expect(FAILED, "gen", root / "vast", "--workload", "w4", "--scale", 1000, says="free")
    expect(FAILED, "gen", "--raw", root / "vast", "--size", "900000T")
    assert tree(root) == before


def test_full_file_system(root):
    """The same with a real ENOSPC, if a small file system can be mounted."""
    mounted = root / "small"
    mounted.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", mounted], capture_output=True).returncode != 0:
        raise Skip("mounting is not permitted here")
    try:
        expect(FAILED, "gen", mounted / "x", *SMALL, says="free")
        expect(FAILED, "gen", mounted / "x", "--workload", "w5", "--scale", "0.1", says="No space left")
        expect(FAILED, "gen", "--raw", mounted / "y", "--size", "20M", says="No space left")
        expect(FAILED, "gen", "--files", mounted / "z", "--count", 40, "--size", "1M", says="No space left")
        assert not any(mounted.iterdir()), list(mounted.iterdir())
    finally:
        subprocess.run(["umount", mounted], check=True)


def test_interrupt(root):
    for number, (arguments, sign) in enumerate(((("x", "--workload", "w1", "--scale", "0.05"), signal.SIGINT),
                                                (("--raw", "x", "--size", "4G"), signal.SIGTERM),
                                                (("--files", "x", "--count", "200000", "--size", "4k"), signal.SIGHUP))):
        run = subprocess.Popen([HEADRACE, "gen", *arguments], cwd=root, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        partial = root / "x.headrace-partial"
        for _ in range(1000):
            if partial.exists() or run.poll() is not None:
                break
            time.sleep(0.01)
        time.sleep(0.05)
        run.send_signal(sign)
        stderr = run.communicate(timeout=60)[1]
        assert run.returncode == -sign, (number, run.returncode, stderr)
        assert b"interrupted" in stderr, stderr
        assert not any(root.iterdir()), list(root.iterdir())


def test_files(root):
    expect(OK, "gen", "--files", root / "many", "--count", 30, "--size", "4k")
    names = sorted(p.name for p in (root / "many").iterdir())
    assert names == [f"{i:08}" for i in range(30)], names
    contents = {(root / "many" / name).read_bytes() for name in names}
    assert len(contents) == 30 and {len(c) for c in contents} == {4096}
    # Concatenated, they are the raw file of the same seed.
    expect(OK, "gen", "--raw", root / "raw", "--size", 30 * 4096)
    assert b"".join((root / "many" / name).read_bytes() for name in names) == (root / "raw").read_bytes()
    expect(OK, "gen", "--files", root / "many", "--count", 2, "--size", "3", "--overwrite")
    assert sorted(p.stat().st_size for p in (root / "many").iterdir()) == [3, 3]
    expect(OK, "gen", "--raw", root / "empty", "--size", 0)
    assert (root / "empty").stat().st_size == 0
    made = json.loads(expect(OK, "gen", "--files", root / "j", "--count", 2, "--size", 10, "--json").stdout)
    assert made["files"] == 2 and made["file_bytes"] == 10 and made["stored_bytes"] == 20, made


def main():
    global HEADRACE
    HEADRACE = os.path.abspath(sys.argv[1])
    return run_tests(globals(), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
