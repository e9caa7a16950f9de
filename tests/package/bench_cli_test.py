#!/usr/bin/env python3
"""`headrace bench`: what it reports is what was done, faults planted in a file are found and named, page cache states are
reached, job files run, and errors are one line.

  bench_cli_test.py PATH_TO_HEADRACE JOBS_FOLDER [NAME...]

NAME limits the run to tests whose name contains it. Exit status 77 when everything passed but something had to be skipped."""
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zlib

from script_tests import Skip, run_tests

HEADRACE, JOBS = "", None
OK, FAILED, USAGE = 0, 1, 2
MIB = 1 << 20


def bench(*arguments, **extra):
    return subprocess.run([HEADRACE, "bench", "--device=host", *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, env=dict(os.environ, LC_ALL="C"), timeout=100, **extra)


def expect(code, *arguments, says="", **extra):
    """Runs and checks the exit code; a failure must be exactly one line in the documented form."""
    done = bench(*arguments, **extra)
    stderr = done.stderr.decode("utf-8", "replace")
    what = f"headrace bench {' '.join(map(str, arguments))} -> {done.returncode}: {stderr!r}"
    assert done.returncode == code, f"{what}, expected {code}"
    if code != OK:
        assert stderr.startswith("headrace: ") and stderr.endswith("\n") and stderr.count("\n") == 1, f"{what}: not one line"
        assert stderr.count("; ") == 2, f"{what}: not '<what>; <where>; <what to do>'"
    assert says in stderr, f"{what}: does not say {says!r}"
    return done


def result(*arguments, code=OK):
    return json.loads(expect(code, "--output-format=json", *arguments).stdout)


def largest_file(size):
    """A disk that is full after so many bytes, as the process sees it."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


def only_job(*arguments, code=OK):
    jobs = result(*arguments, code=code)["jobs"]
    assert len(jobs) == 1, jobs
    return jobs[0]


class Fixture:
    def __init__(self, root):
        self.root = root
        self.file = root / "data"
        self.file.write_bytes(os.urandom(4 * MIB))

    def verified(self, name, *arguments):
        path = self.root / name
        expect(OK, f"--filename={path}", "--rw=write", "--bs=16k", "--size=1m", "--verify=crc32c", *arguments)
        return path

    def in_memory(self):
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.root], capture_output=True, text=True).stdout.strip()
        return kind in ("tmpfs", "ramfs", "overlayfs")


def test_usage_errors(f):
    for arguments, says in ((["--blocksze=4k"], "did you mean '--blocksize'?"), (["--outputformat=json"], "--output-format"),
                            (["-x"], "'-x'"), (["--bs=7q"], "'7q'"), (["--rw=sideways"], "randread"),
                            (["--bs"], "--bs"), (["--output-format=xml"], "xml"),                             (["--path=tunnel"], "path"), (["--direct=1", "--path=mapped"], "contradict"),
                            (["--verify=sha512"], "crc32c"), (["--nice=5"], "nice is not supported: start"), (["--percentile_list=101"], "percentiles")):
        expect(USAGE, f"--filename={f.file}", *arguments, says=says)
    expect(USAGE, says="nothing to read or write")
    expect(USAGE, f.root / "none.fio", says="none.fio")
    expect(USAGE, f.root, says="job file")
    assert expect(OK, "--help").stdout.decode().count("--") > 40


def test_job_file_errors_name_the_line(f):
    job = f.root / "bad.fio"
    job.write_text("[global]\nfilename=x\n\n[a]\nio_depth=4\n")
    expect(USAGE, job, says="did you mean 'iodepth'?; " + str(job) + " line 5")
    job.write_text("[a]\nfilename=x\nbs=4k\nsize=\n")
    expect(USAGE, job, says="line 4")


def test_data_errors(f):
    expect(FAILED, f"--filename={f.root}/nowhere", says="nowhere")
    expect(FAILED, f"--filename={f.root}", says=str(f.root))
    expect(FAILED, f"--filename={f.file}", "--size=1g", says="larger than the file, which has 4MiB")
    expect(FAILED, f"--filename={f.file}", "--offset=4m", says="ends before")
    expect(FAILED, f"--filename={f.file}", "--bs=8m", says="bs=8MiB is larger")
    expect(FAILED, f"--filename={f.file}", "--bs=1000", "--direct=1", says="not a multiple of")
    expect(FAILED, f"--filename={f.root}/new", "--rw=write", says="size")
    expect(FAILED, f"--filename={f.file}", "--ramp_time=100", says="ramp_time")
    expect(FAILED, f"--zarr={f.root}/nothing.zarr", says="nothing.zarr")
    expect(FAILED, f"--paths={f.root}/no-list", says="no-list")
    (f.root / "list").write_text(f"{f.file}\n{f.root}/gone\n")
    expect(FAILED, f"--paths={f.root}/list", says="gone")
    expect(FAILED, f"--filename={f.file}", "--bs=4m", "--list=1000", "--iodepth=1000", says="the requests in flight need")
    expect(FAILED, f"--paths={f.root}/list", "--list=1048576", says="gone")
    (f.root / "list").write_text(f"{f.file}\n")
    expect(FAILED, f"--paths={f.root}/list", "--list=1048576", "--iodepth=16", says="the requests in flight need")
    expect(FAILED, f"--filename={f.root}/unmade", "--rw=write", "--bs=4k", says="give size")
    assert not (f.root / "unmade").exists()
    (f.root / "empty.fio").write_bytes(b"")
    expect(USAGE, f.root / "empty.fio", says="the file has no job")
    (f.root / "empty").write_bytes(b"")
    expect(FAILED, f"--filename={f.root}/empty", says="empty")


def test_counts_are_exact(f):
    for arguments, ios, requests in ((["--bs=64k"], 64, 64), (["--bs=64k", "--rw=randread", "--iodepth=8"], 64, 64),
                                     (["--bs=4k", "--rw=randread", "--list=100", "--iodepth=3"], 1024, 11),
                                     (["--bs=64k", "--loops=3", "--iodepth=5"], 192, 192),
                                     (["--bs=100000"], 41, 41), (["--bs=64k", "--size=50%"], 32, 32),
                                     (["--bs=64k", "--offset=1m", "--size=2m"], 32, 32),
                                     (["--bs=64k", "--iodepth=16", "--iodepth_batch_submit=4", "--iodepth_batch_complete=4"], 64, 64)):
        job = only_job(f"--filename={f.file}", *arguments)
        read, own = job["read"], job["headrace"]
        bs = 100000 if "--bs=100000" in arguments else int(arguments[0][5:-1]) * 1024
        assert read["total_ios"] == ios and read["io_bytes"] == ios * bs, (arguments, read)
        assert own["requests"] == requests, (arguments, own["requests"])
        assert sum(own["bytes_by_path"].values()) >= ios * bs, own
        assert read["lat_ns"]["N"] == requests and read["lat_ns"]["min"] <= read["lat_ns"]["percentile"]["50.000000"], read
        assert job["write"]["io_bytes"] == 0
        assert own["decoded_bytes"] is None and own["stored_bytes"] == ios * bs
    assert len(only_job(f"--filename={f.file}", "--bs=64k", "--loops=3")["headrace"]["passes"]) == 3


def test_time_limits(f):
    job = only_job(f"--filename={f.file}", "--bs=64k", "--time_based", "--runtime=300ms", "--ramp_time=200ms")
    assert 250 <= job["read"]["runtime"] <= 2000, job["read"]
    assert job["read"]["io_bytes"] > 4 * MIB, "time_based goes round"
    job = only_job(f"--filename={f.file}", "--bs=4k", "--runtime=60")
    assert job["read"]["io_bytes"] == 4 * MIB


def test_stages_alone(f):
    job = only_job(f"--filename={f.file}", "--bs=64k", "--no_io")
    assert sum(job["headrace"]["bytes_by_path"].values()) == 0 and job["headrace"]["io_skipped"] is True, job
    text = expect(OK, f"--filename={f.file}", "--bs=64k", "--no_io").stdout.decode()
    assert "handed on without I/O" in text and "read from files" not in text, text
    job = only_job(f"--filename={f.file}", "--bs=64k", "--no_copy")
    assert job["headrace"]["bus_bytes"] == 0 and job["headrace"]["copy_skipped"] is True, job


def test_threads_groups_and_stonewall(f):
    found = result(f"--filename={f.file}", "--bs=64k", "--numjobs=3")
    assert len(found["jobs"]) == 3 and {job["groupid"] for job in found["jobs"]} == {0}
    total = found["headrace"]["groups"][0]
    assert total["read"]["io_bytes"] == 12 * MIB and total["headrace"]["threads"] == 3
    job = only_job(f"--filename={f.file}", "--bs=64k", "--numjobs=4", "--group_reporting", "--size=1m", "--offset_increment=1m")
    assert job["read"]["io_bytes"] == 4 * MIB and job["headrace"]["threads"] == 4
    path = f.root / "two.fio"
    path.write_text(f"[global]\nfilename={f.file}\nbs=64k\n[a]\n[b]\nnew_group\n[c]\nstonewall\n")
    found = result(path)
    assert [(job["jobname"], job["groupid"]) for job in found["jobs"]] == [("a", 0), ("b", 1), ("c", 2)]
    assert found["global options"] == {"filename": str(f.file), "bs": "64k"}
    assert found["jobs"][1]["job options"] == {"name": "b", "new_group": "1", "device": "host"}


def test_text_says_of_what(f):
    text = expect(OK, f"--filename={f.file}", "--bs=64k", "--loops=2", "--numjobs=2").stdout.decode()
    rates = re.findall(r"B/s(.{0,16})", text)
    assert rates and all(after.startswith((" read from files", " over the bus")) for after in rates), text


def test_output_file(f):
    out = f.root / "out.json"
    expect(OK, f"--filename={f.file}", "--bs=64k", "--output-format=json+", f"--output={out}")
    assert json.loads(out.read_text())["jobs"][0]["read"]["clat_ns"]["bins"]
    out.unlink()
    expect(FAILED, f"--filename={f.file}", f"--output={f.root}/no/such/out.json")
    expect(FAILED, f"--filename={f.root}/nowhere", f"--output={out}")
    expect(FAILED, f"--filename={f.file}", "--bs=64k", "--output=/dev/full", says="space")
    expect(FAILED, f"--filename={f.file}", "--bs=64k", "--output-format=json", f"--output={out}", preexec_fn=largest_file(1000))
    assert not out.exists() and not [p for p in f.root.iterdir() if ".headrace-" in p.name], "there in part"


def test_report_and_trace(f):
    page, timeline = f.root / "run.html", f.root / "run.json"
    job = only_job(f"--filename={f.file}", "--bs=64k", "--iodepth=4", "--path=direct", "--device=host-staged", "--name=<b>",
                   f"--report={page}", f"--trace={timeline}")
    text = page.read_text()
    assert "read, direct" in text and "&lt;b&gt;" in text and "<b>" not in text
    events = [e for e in json.loads(timeline.read_text())["traceEvents"] if e["ph"] == "X"]
    assert sum(e["args"]["bytes"] for e in events if e["name"].startswith("read")) >= job["read"]["io_bytes"], len(events)
    expect(FAILED, f"--filename={f.file}", f"--report={f.root}/no/such.html", says="--report")


def test_write_and_verify(f):
    for arguments in ([], ["--iodepth=8", "--rw=randwrite"], ["--loops=3", "--list=7"], ["--verify_interval=512", "--iodepth=3"]):
        path = f.root / "written"
        job = only_job(f"--filename={path}", "--rw=write", "--bs=16k", "--size=1m", "--verify=crc32c", *arguments)
        blocks = 2048 if "--verify_interval=512" in arguments else 64
        assert job["headrace"]["verify"] == {"blocks": blocks, "bad_blocks": 0, "faults": []}, job["headrace"]["verify"]
        interval = [a for a in arguments if "interval" in a]
        job = only_job(f"--filename={path}", "--rw=randread", "--bs=16k", "--verify=crc32c", "--device=host-staged", *interval)
        assert job["headrace"]["verify"]["blocks"] == blocks and job["headrace"]["device"] == "host-staged"
        assert path.stat().st_size == MIB
    for way in ("direct", "buffered", "mapped"):
        for device in ("host", "host-staged"):
            job = only_job(f"--filename={path}", "--rw=randread", "--bs=64k", "--verify=crc32c", "--verify_interval=512",
                           "--iodepth=4", f"--path={way}", f"--device={device}")
            assert job["headrace"]["verify"]["blocks"] == 2048 and job["headrace"]["path"] == way, job
    job = only_job(f"--filename={path}", "--rw=write", "--bs=4k", "--size=1m", "--fsync=16", "--end_fsync")
    assert job["headrace"]["sync_lat_ns"]["N"] == 17 and job["write"]["total_ios"] == 256, job


def plant(path, change):
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def test_planted_faults(f):
    path = f.verified("flipped")
    plant(path, lambda data: data.__setitem__(70000, data[70000] ^ 0x10))
    done = expect(FAILED, f"--filename={path}", "--bs=16k", "--verify=crc32c", says="1 bad block found, first a flipped byte")
    assert f"{path} offset 70000" in done.stderr.decode()
    fault = only_job(f"--filename={path}", "--bs=16k", "--verify=crc32c", code=FAILED)["headrace"]["verify"]["faults"][0]
    assert fault["kind"] == "flipped byte" and fault["offset"] == 70000 and fault["file"] == str(path), fault
    assert re.fullmatch("0x[0-9a-f]{2}", fault["expected"]) and int(fault["expected"], 16) ^ int(fault["found"], 16) == 0x10

    path = f.verified("swapped")
    def swap(data):
        data[16384:32768], data[65536:81920] = data[65536:81920], data[16384:32768]
    plant(path, swap)
    verify = only_job(f"--filename={path}", "--bs=16k", "--verify=crc32c", code=FAILED)["headrace"]["verify"]
    assert verify["bad_blocks"] == 2 and [v["kind"] for v in verify["faults"]] == ["misplaced block"] * 2, verify
    assert verify["faults"][0]["offset"] == 16384 and "offset 65536," in verify["faults"][0]["found"], verify

    for at in (0, 5 * 16384):  # the first block as well: what is newest is then only known later
        path = f.verified("stale")
        old = path.read_bytes()
        f.verified("stale")
        plant(path, lambda data: data.__setitem__(slice(at, at + 16384), old[at:at + 16384]))
        verify = only_job(f"--filename={path}", "--bs=16k", "--verify=crc32c", code=FAILED)["headrace"]["verify"]
        assert verify["bad_blocks"] == 1 and verify["faults"][0]["kind"] == "stale block", verify
        assert verify["faults"][0]["offset"] == at and "sequence 2" in verify["faults"][0]["expected"], verify
        path.unlink()

    path = f.verified("fatal")
    path.write_bytes(bytes(MIB))
    verify = only_job(f"--filename={path}", "--bs=16k", "--verify=crc32c", "--verify_fatal", code=FAILED)["headrace"]["verify"]
    assert verify["blocks"] == 1 and verify["faults"][0]["kind"] == "foreign block", verify
    expect(FAILED, f"--filename={f.verified('seeded')}", "--bs=16k", "--verify=crc32c", "--randseed=2", says="64 bad blocks")


def test_full_disk(f):
    done = expect(FAILED, f"--filename={f.root}/big", "--rw=write", "--bs=64k", "--size=4m", "--output-format=json",
                  preexec_fn=largest_file(MIB))
    job = json.loads(done.stdout)["jobs"][0]
    assert job["error"] != 0 and job["write"]["io_bytes"] <= MIB and job["headrace"]["error"], job


def test_page_cache_states(f):
    if f.in_memory():
        raise Skip("the temporary directory is in memory, which has no cold state")
    file = f"--filename={f.file}"
    job = only_job(file, "--bs=64k", "--cache=warm")["headrace"]
    assert job["residency_before"] == {"pages": 1024, "resident_pages": 1024, "resident_share": 1}, job
    job = only_job(file, "--bs=64k", "--cache=cold")["headrace"]
    assert job["residency_before"]["resident_share"] < 0.1, job
    job = only_job(file, "--bs=64k", "--cache=half")["headrace"]
    assert 0.45 < job["residency_before"]["resident_share"] < 0.55, job
    kept = pathlib.Path("/dev/shm")
    if kept.is_dir() and os.access(kept, os.W_OK):
        with tempfile.NamedTemporaryFile(dir=kept) as memory:
            memory.write(bytes(MIB))
            memory.flush()
            expect(FAILED, f"--filename={memory.name}", "--bs=64k", "--cache=cold", says="cache=cold was not reached: 256 of 256 pages")


def test_whole_files(f):
    names = []
    for i in range(10):
        path = f.root / f"small-{i}"
        path.write_bytes(os.urandom(1000 * (i + 1)))
        names.append(f"{path}\n")
    (f.root / "list").write_text("".join(names))
    job = only_job(f"--paths={f.root}/list", "--list=4", "--iodepth=2", "--loops=2", "--rw=randread")
    assert job["read"]["total_ios"] == 20 and job["read"]["io_bytes"] == 110000 and job["headrace"]["requests"] == 6, job
    assert [p["bytes"] for p in job["headrace"]["passes"]] == [55000, 55000], job
    total = result(f"--paths={f.root}/list", "--numjobs=3")["headrace"]["groups"][0]
    assert total["read"]["total_ios"] == 10 and total["read"]["io_bytes"] == 55000, "threads share the list out"


def test_decode(f):
    store = f.root / "decoded.zarr"
    store.mkdir()
    (store / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": [4, 1000], "chunks": [1, 1000], "dtype": "<f4",
                                               "fill_value": 0, "order": "C", "filters": None,
                                               "compressor": {"id": "zlib", "level": 1}}))
    stored = [zlib.compress(os.urandom(2000) + bytes(2000)) for _ in range(3)]  # the fourth is missing
    for i, chunk in enumerate(stored):
        (store / f"{i}.0").write_bytes(chunk)
    job = only_job(f"--decode={store}", "--loops=5", "--device=host")
    decode = job["headrace"]["decode"]
    assert decode["chunks"] == 15 and decode["decoded_bytes"] == 15 * 4000, decode
    assert decode["encoded_bytes"] == 5 * sum(map(len, stored)) == job["read"]["io_bytes"], decode
    assert [s["name"] for s in decode["steps"]] == ["zlib", "assemble"] and decode["seconds"] > 0, decode
    assert only_job(f"--decode={store}", "--select=1", "--device=host")["headrace"]["decode"]["chunks"] == 1
    text = expect(OK, f"--decode={store}", "--numjobs=2", "--device=host").stdout.decode()
    assert " decoded" in text and "zlib " in text, text
    expect(USAGE, f"--decode={store}", "--iodepth=2", says="decode")
    expect(USAGE, f"--decode={store}", f"--zarr={store}", says="exclude")
    (store / "2.0").write_bytes(b"short")
    expect(FAILED, f"--decode={store}", "--device=host", says="2.0")


def test_zarr(f):
    store = f.root / "a.zarr"
    store.mkdir()
    (store / ".zarray").write_text(json.dumps({"zarr_format": 2, "shape": [64, 64], "chunks": [16, 64], "dtype": "<f4",
                                               "fill_value": 0, "order": "C", "filters": None, "compressor": None}))
    for i in range(4):
        (store / f"{i}.0").write_bytes(os.urandom(4096))
    job = only_job(f"--zarr={store}", "--loops=5", "--iodepth=2")
    own = job["headrace"]
    assert own["decoded_bytes"] == 5 * 16384 and own["stored_bytes"] == 5 * 16384 and job["read"]["total_ios"] == 5, job
    own = only_job(f"--zarr={store}", "--select=0:16, :")["headrace"]
    assert own["decoded_bytes"] == 4096 and own["stored_bytes"] == 4096, own
    text = expect(OK, f"--zarr={store}").stdout.decode()
    assert " stored" in text and " decoded" in text, text
    (store / "2.0").write_bytes(b"short")
    expect(FAILED, f"--zarr={store}")
    expect(FAILED, f"--zarr={store}", "--select=999", says="select")


def test_job_files_parse_and_run_small(f):
    names = sorted(JOBS.glob("*.fio"))
    assert len(names) >= 18, names
    path = f.verified("jobs", "--size=2m")
    for i in range(3):
        (f.root / f"piece-{i}").write_bytes(os.urandom(5000))
    (f.root / "pieces").write_text("".join(f"{f.root}/piece-{i}\n" for i in range(3)))
    for job_file in names:
        expect(OK, job_file, "--parse-only")
        source = f"--paths={f.root}/pieces" if "paths=" in job_file.read_text() else f"--filename={path}"
        small = [job_file, source, "--cache=as-is", "--path=auto", "--ramp_time=0"]
        if "filename" in source:
            small += ["--bs=16k", "--size=1m"]
        if "runtime=" in job_file.read_text():
            small.append("--runtime=20ms")
        if "direct=1" in job_file.read_text():
            small.append("--direct=0")
        found = result(*small)
        assert all(job["error"] == 0 and job["read"]["total_ios"] + job["write"]["total_ios"] > 0 for job in found["jobs"]), job_file


def test_directions_are_mixed(f):
    path = f.root / "mixed"
    job = only_job(f"--filename={path}", "--size=4m", "--rw=randrw", "--rwmixread=70", "--bs=4k,16k", "--iodepth=4")
    read, written = job["read"], job["write"]
    assert path.stat().st_size == 4 * MIB, "made whole before it is read"
    assert read["io_bytes"] == read["total_ios"] * 4096, job
    # What would lead beyond the end is shorter.
    assert 0 <= written["total_ios"] * 16384 - written["io_bytes"] < 4 * 16384, job
    assert 0.6 < read["total_ios"] / (read["total_ios"] + written["total_ios"]) < 0.8, job
    assert abs(read["io_bytes"] + written["io_bytes"] - 4 * MIB) <= 16384, job
    for side in (read, written):
        assert side["lat_ns"]["N"] == side["total_ios"] and side["clat_ns"]["percentile"] and side["bw_bytes"] > 0, side
    text = expect(OK, f"--filename={path}", "--rw=rw", "--bs=64k").stdout.decode()
    for row in ("read and written", "read from files", "written to files", "read latency", "write latency"):
        assert row in text, text
    job = only_job(f"--filename={path}", "--rw=randrw", "--bs=64k", "--unified_rw_reporting=mixed")
    assert job["mixed"]["io_bytes"] == 4 * MIB and "read" not in job, job
    found = result(f"--filename={path}", "--bs=64k", "--name=a", "--rw=read", "--name=b", "--rw=randwrite")
    assert [j["read"]["total_ios"] for j in found["jobs"]] == [64, 0] and found["jobs"][1]["write"]["total_ios"] == 64
    total = found["headrace"]["groups"][0]
    assert total["read"]["total_ios"] == 64 == total["write"]["total_ios"], total


def test_sizes_of_blocks_and_regions(f):
    file = f"--filename={f.file}"
    for arguments in (["--bs=4k-64k"], ["--bsrange=4k-64k", "--rw=randread"], ["--bssplit=4k/60:64k/40", "--rw=randread"]):
        read = only_job(file, *arguments, "--iodepth=4")["read"]
        assert 64 < read["total_ios"] < 1024 and abs(read["io_bytes"] - 4 * MIB) <= 65536, (arguments, read)
    assert only_job(file, "--bs=64k", "--io_size=1m")["read"]["total_ios"] == 16
    assert only_job(file, "--bs=64k", "--io_size=10m")["read"]["total_ios"] == 160
    assert only_job(file, "--bs=64k", "--io_size=50%")["read"]["total_ios"] == 32
    assert only_job(file, "--bs=64k", "--number_ios=10", "--iodepth=4")["read"]["total_ios"] == 10
    # 10 % of 4 MiB, rounded down to a block.
    log = f.root / "region"
    job = only_job(file, "--bs=64k", "--offset=10%", f"--write_lat_log={log}", "--log_offset=1")
    assert job["read"]["total_ios"] == 58, job["read"]
    offsets = [int(line.split(", ")[4]) for line in pathlib.Path(f"{log}_lat.1.log").read_text().splitlines()]
    assert offsets == list(range(6 * 65536, 4 * MIB, 65536)), offsets
    assert only_job(file, "--bs=64k", "--rw=randread", "--random_distribution=zipf:1.2")["read"]["total_ios"] == 64
    expect(FAILED, file, "--bs=512-64k", "--direct=1", "--bs_unaligned", says="alignment")


def test_files_of_a_job(f):
    done = only_job("--name=many", f"--directory={f.root}", "--nrfiles=4", "--size=1m", "--rw=write", "--bs=64k", "--numjobs=2",
                    "--group_reporting")
    assert done["write"]["total_ios"] == 32, done
    assert sorted(p.name for p in f.root.glob("many.*")) == [f"many.{t}.{n}" for t in range(2) for n in range(4)]
    assert {p.stat().st_size for p in f.root.glob("many.*")} == {MIB // 4}
    job = only_job(f"--opendir={f.root}", "--bs=64k", "--rw=randread")
    assert job["read"]["total_ios"] == 64 + 32, job["read"]
    job = only_job(f"--filename={f.root}/many.0.0:{f.root}/many.0.1", "--bs=64k", "--file_service_type=sequential")
    assert job["read"]["total_ios"] == 8, job["read"]
    job = only_job("--name=sized", f"--directory={f.root}", "--nrfiles=2", "--filesize=128k", "--size=1m", "--rw=randread", "--bs=64k")
    assert job["read"]["total_ios"] == 4 and (f.root / "sized.0.1").stat().st_size == 131072, job["read"]
    assert "made before the job" in job["headrace"]["notes"], job["headrace"]["notes"]
    only_job("--name=gone", f"--directory={f.root}", "--size=1m", "--rw=randread", "--unlink=1", "--filename_format=$jobname-$filenum")
    assert not (f.root / "gone-0").exists()
    expect(FAILED, f"--filename={f.root}/absent", "--size=1m", "--allow_file_create=0", says="absent")
    expect(FAILED, f"--filename={f.root}/absent", "--size=1m", "--readonly", says="absent")
    expect(FAILED, f"--filename={f.root}/absent", "--size=1m", "--verify=md5", says="absent")
    expect(FAILED, f"--filename={f.root}/absent", "--size=7p", says="free space")
    expect(FAILED, f"--opendir={f.root}/nothing", says="nothing")
    assert not (f.root / "absent").exists()
    expect(FAILED, "--name=most", f"--directory={f.root}", "--nrfiles=200", "--size=1m", "--rw=write", "--bs=4k", says="ulimit -n",
           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert not list(f.root.glob("most.*"))
    # What cannot begin leaves nothing behind.
    expect(FAILED, f"--filename={f.root}/small", "--rw=write", "--size=1k", "--bs=4k", says="bs=4KiB is larger")
    expect(FAILED, f"--filename={f.root}/small", "--rw=write", "--size=1m", "--bs=1000", "--direct=1", says="alignment")
    assert not (f.root / "small").exists()


def test_rates(f):
    file = f"--filename={f.file}"
    job = only_job(file, "--bs=64k", "--rate=8m", "--iodepth=4")
    assert 450 <= job["read"]["runtime"] <= 900, job["read"]  # 4 MiB
    job = only_job(file, "--bs=64k", "--rate=8m", "--time_based", "--runtime=2")
    read = job["read"]
    assert 3 <= read["bw_samples"] <= 4 and 7000 < read["bw_mean"] < 9500 and 110 < read["iops_mean"] < 150, read
    assert read["bw_min"] <= read["bw_mean"] <= read["bw_max"] + 1 and read["iops_min"] <= read["iops_mean"], read
    assert job["write"]["bw_samples"] == 0 == job["write"]["bw_max"], job["write"]
    job = only_job(file, "--bs=64k", "--rate_iops=200", "--number_ios=64")
    assert 290 <= job["read"]["runtime"] <= 700, job["read"]
    job = only_job(file, "--bs=64k", "--thinktime=10ms", "--thinktime_blocks=8", "--number_ios=64")
    assert 68 <= job["read"]["runtime"] <= 400, job["read"]
    assert job["read"]["lat_ns"]["percentile"]["50.000000"] < 8e6, "the wait is not in the latency"
    job = only_job(f"--filename={f.root}/rated", "--size=4m", "--rw=randrw", "--bs=64k", "--rate=,2m")
    assert 500 <= job["write"]["runtime"] <= 2500, job["write"]
    expect(FAILED, file, "--bs=64k", "--rate=1m", "--rate_min=2m", "--rate_cycle=200", says="rate_min")
    expect(FAILED, file, "--bs=4m", "--max_latency=1", says="max_latency")
    job = only_job(file, "--bs=64k", "--cpus_allowed=0")
    assert "cpus_allowed" in job["headrace"]["notes"]
    expect(FAILED, file, "--cpus_allowed=65000", says="cpus_allowed")


def test_jobs_that_end_together_or_begin_later(f):
    begun = time.monotonic()
    found = result(f"--filename={f.file}", "--bs=64k", "--name=long", "--time_based", "--runtime=60", "--name=short", "--time_based=0",
                   "--exitall")
    assert time.monotonic() - begun < 20 and all(job["error"] == 0 for job in found["jobs"]), found["jobs"]
    assert found["headrace"]["interrupted"] is False
    begun = time.monotonic()
    job = only_job(f"--filename={f.file}", "--bs=64k", "--startdelay=500ms")
    assert time.monotonic() - begun > 0.5 and job["read"]["runtime"] < 400, job["read"]


def test_logs(f):
    log = f.root / "l"
    result(f"--filename={f.root}/logged", "--size=1m", "--rw=randrw", "--bs=64k", f"--write_bw_log={log}", f"--write_lat_log={log}",
             f"--write_iops_log={log}", "--numjobs=2")
    for thread in (1, 2):
        for kind in ("bw", "lat", "clat", "slat", "iops"):
            lines = (f.root / f"l_{kind}.{thread}.log").read_text().splitlines()
            rows = [list(map(int, line.split(", "))) for line in lines]
            assert len(rows) == 16 and all(len(row) == 5 and row[2] in (0, 1) and row[3] == 65536 for row in rows), (kind, rows)
            assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    job = only_job(f"--filename={f.file}", "--bs=64k", "--rate=8m", f"--write_bw_log={f.root}/w", "--log_avg_msec=100", "--log_offset=1",
                   "--per_job_logs=0", "--log_unix_epoch=1")
    rows = [list(map(int, line.split(", "))) for line in (f.root / "w_bw.log").read_text().splitlines()]
    assert 4 <= len(rows) <= 8 and all(len(row) == 6 for row in rows), rows
    mean = sum(row[1] for row in rows) / len(rows)
    assert 6000 < mean < 11000, f"{mean} KiB/s of 8192, {job['read']}"
    assert abs(rows[0][0] - os.stat(f.root / "w_bw.log").st_mtime * 1000) < 60000, rows
    expect(FAILED, f"--filename={f.file}", f"--write_bw_log={f.root}/no/such", says="no/such")


def test_verify_sums(f):
    path = f.root / "summed"
    for sum_of in ("crc32c", "xxhash", "md5", "sha256", "pattern"):
        extra = ["--verify_pattern=0xdeadbeef%o"] if sum_of == "pattern" else []
        arguments = [f"--filename={path}", "--bs=16k", "--verify_interval=4k", f"--verify={sum_of}", *extra]
        job = only_job("--rw=randwrite", "--size=1m", *arguments)
        assert job["headrace"]["verify"] == {"blocks": 256, "bad_blocks": 0, "faults": []}, (sum_of, job["headrace"]["verify"])
        assert only_job("--rw=randread", "--iodepth=4", *arguments)["headrace"]["verify"]["bad_blocks"] == 0, sum_of
        job = only_job("--rw=write", "--size=1m", "--verify_only", *arguments)
        assert job["headrace"]["verify"]["blocks"] == 256 and job["write"]["total_ios"] == 0, sum_of
        plant(path, lambda data: data.__setitem__(70000, data[70000] ^ 0x10))
        expect(FAILED, *arguments, says="1 bad block found, first a flipped byte")
    expect(OK, "--rw=write", "--size=1m", f"--filename={path}", "--bs=4k-16k", "--verify=md5")
    expect(FAILED, f"--filename={path}", "--bs=4k", "--verify=sha256", says="another verify=SUM")
    for name, pattern, wanted in (("zeros", "--zero_buffers", bytes(MIB)), ("beef", "--buffer_pattern=0xbeef", b"\xbe\xef" * (MIB // 2))):
        expect(OK, f"--filename={f.root}/{name}", "--rw=write", "--size=1m", pattern)
        assert (f.root / name).read_bytes() == wanted, name
    expect(OK, f"--filename={f.root}/half", "--rw=write", "--size=1m", "--bs=64k", "--buffer_compress_percentage=50")
    assert 0.45 < len(zlib.compress((f.root / "half").read_bytes())) / MIB < 0.6


def test_notes(f):
    arguments = (f"--filename={f.file}", "--bs=64k", "--thread", "--gtod_reduce=1", "--end_fsync=1", "--mem=mmap", "--ioengine=psync")
    notes = only_job(*arguments, "--numjobs=2", "--group_reporting")["headrace"]["notes"].splitlines()
    for key in ("thread", "gtod_reduce", "end_fsync", "mem", "ioengine"):
        assert sum(note.startswith(f"{key}: ") for note in notes) == 1, (key, notes)
    text = expect(OK, *arguments).stdout.decode()
    assert text.count("end_fsync: changes nothing: nothing is written") == 1, text
    only_job(f"--filename={f.file}", "--bs=64k", "--description=nightly run")["desc"].index("nightly")
    said = expect(OK, *arguments, "--parse-only").stderr.decode()
    assert said.count("headrace: note: ") == 5, said


def test_direct_where_there_is_none(f):
    kept = pathlib.Path("/dev/shm")
    kind = subprocess.run(["stat", "-f", "-c", "%T", kept], capture_output=True, text=True).stdout.strip()
    if kind != "tmpfs" or not os.access(kept, os.W_OK):
        raise Skip("there is no tmpfs to write to")
    with tempfile.NamedTemporaryFile(dir=kept) as memory:
        memory.write(bytes(MIB))
        memory.flush()
        arguments = (f"--filename={memory.name}", "--bs=64k", "--direct=1")
        own = only_job(*arguments)["headrace"]
        if own["bytes_by_path"]["direct"] > 0:
            raise Skip("this kernel's tmpfs takes O_DIRECT")
        assert "direct=1: through the page cache" in own["notes"] and own["bytes_by_path"]["buffered"] == MIB, own
        assert "direct=1: through the page cache" in expect(OK, *arguments).stdout.decode()
        assert "through the page cache" in only_job(*arguments, "--rw=write")["headrace"]["notes"]


def test_variables_and_sections(f):
    job = f.root / "vars.fio"
    job.write_text("[global]\nfilename=${HR_FILE}\nbs=${HR_BS}\n[one]\n[two]\nstonewall\nrw=randread\n")
    variables = dict(os.environ, HR_FILE=str(f.file), HR_BS="64k")
    done = subprocess.run([HEADRACE, "bench", job, "--device=host", "--output-format=json"], env=variables, capture_output=True, timeout=60)
    found = json.loads(done.stdout)
    assert found["global options"]["filename"] == str(f.file) and len(found["jobs"]) == 2, done
    done = subprocess.run([HEADRACE, "bench", job, "--section=two", "--output-format=json"], env=variables, capture_output=True, timeout=60)
    assert [j["jobname"] for j in json.loads(done.stdout)["jobs"]] == ["two"]
    expect(USAGE, job, says="HR_FILE")
    job.write_text(f"[a]\nfilename={f.file}\n")
    expect(USAGE, job, "--section=b", says="'b'")
    expect(USAGE, f"--filename={f.file}", "--rw=write", "--readonly", says="readonly")
    both = expect(OK, f"--filename={f.file}", "--bs=64k", "--output-format=normal,json").stdout.decode()
    assert both.startswith("job: ") and '"jobs"' in both, both


def test_an_interrupt_prints_what_there_is(f):
    for number in (signal.SIGINT, signal.SIGTERM):
        for extra in ([], ["--rate=1m"], ["--thinktime=5s", "--numjobs=2"], ["--startdelay=20"]):
            command = [HEADRACE, "bench", "--device=host", f"--filename={f.file}", "--bs=64k", "--time_based", "--runtime=30",
                       "--output-format=json", *extra]
            started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.7)
            started.send_signal(number)
            begun = time.monotonic()
            output, errors = started.communicate(timeout=20)
            assert time.monotonic() - begun < 5 and started.returncode == -number, (extra, started.returncode, errors)
            found = json.loads(output)
            assert found["headrace"]["interrupted"] is True and found["jobs"][0]["headrace"]["interrupted"] is True
            assert found["jobs"][0]["error"] == 0, found["jobs"][0]
            if "--startdelay=20" not in extra:
                assert found["jobs"][0]["read"]["io_bytes"] > 0 and 200 < found["jobs"][0]["read"]["runtime"] < 3000, found["jobs"][0]
    # While a file is made nothing is left of it.
    command = [HEADRACE, "bench", "--device=host", f"--filename={f.root}/huge", "--size=3g", "--create_fsync=0"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=20)
    assert started.returncode == -signal.SIGINT and not (f.root / "huge").exists(), started.returncode


def test_a_progress_line_on_a_terminal_alone(f):
    command = [HEADRACE, "bench", "--device=host", f"--filename={f.file}", "--bs=64k", "--time_based", "--runtime=2"]
    ours, theirs = pty.openpty()
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    output, _ = started.communicate(timeout=30)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert re.search(r"bench( \[[#.]+\])? +\d+ % [\d.]+ .B/s, [\d,]+ IOPS", shown) and shown.endswith("\r\x1b[K"), repr(shown)
    assert b"IOPS" in output
    done = subprocess.run(command, capture_output=True, timeout=30)
    assert done.stderr == b"", done.stderr
    assert b" IOPS" in subprocess.run([*command, "--eta=always"], capture_output=True, timeout=30).stderr


def fio_or_skip():
    if shutil.which("fio") is None:
        raise Skip("fio is not installed")


def test_layout_is_fios(f):
    fio_or_skip()
    keys = ("--name=x", f"--filename={f.file}", "--rw=randread", "--bs=64k", "--size=4m", "--randrepeat=1")
    theirs = json.loads(subprocess.run(["fio", *keys, "--output-format=json"], capture_output=True, check=True, timeout=60).stdout)
    ours = result(*keys[:-1])
    own = {"headrace version", "headrace", "global options"}
    assert set(ours) - own <= set(theirs), set(ours) - set(theirs)
    job, their_job = ours["jobs"][0], theirs["jobs"][0]
    assert set(job) - own <= set(their_job), set(job) - set(their_job)
    for direction in ("read", "write"):
        assert set(job[direction]) <= set(their_job[direction]), set(job[direction]) - set(their_job[direction])
        for latency in ("slat_ns", "clat_ns"):
            assert set(job[direction][latency]) == set(their_job[direction][latency]), (direction, latency)
    assert list(job["read"]["clat_ns"]["percentile"]) == list(their_job["read"]["clat_ns"]["percentile"])
    for key in ("io_bytes", "io_kbytes", "total_ios"):
        assert job["read"][key] == their_job["read"][key], key
    for key, value in job["read"].items():
        assert isinstance(value, (int, float)) == isinstance(their_job["read"][key], (int, float)), key
    their_options = {k: v for k, v in their_job["job options"].items() if k != "randrepeat"}
    assert job["job options"] == dict(their_options, device="host"), job["job options"]


def test_totals_are_fios(f):
    fio_or_skip()
    for line in ("--rw=read --size=4m", "--rw=read --size=4m --io_size=1m", "--rw=read --size=4m --io_size=10m",
                 "--rw=randread --size=4m --number_ios=10", "--rw=read --size=4m --offset=10%", "--rw=read --size=1m --offset=1m",
                 "--rw=read --size=2m --offset_increment=1m --numjobs=2", "--rw=write --size=4m --nrfiles=4",
                 "--rw=write --nrfiles=4 --filesize=256k", "--rw=write --nrfiles=4 --filesize=256k --size=2m",
                 "--rw=read --size=4m --loops=3", "--rw=read:64k --size=4m", "--rw=randread:8 --size=4m",
                 "--rw=randread --size=4m --random_distribution=zipf:1.2", "--rw=randread --size=4m --norandommap=1",
                 "--rw=write --size=1m --file_append=1", "--rw=write --size=4m --io_size=50%"):
        totals = []
        for program in (["fio"], [HEADRACE, "bench", "--device=host"]):
            with tempfile.TemporaryDirectory(dir=f.root) as folder:
                arguments = ["--name=x", "--bs=64k", "--output-format=json", "--group_reporting", *line.split()]
                if "nrfiles" not in line:
                    pathlib.Path(folder, "f").write_bytes(os.urandom(8 * MIB if "read" in line else MIB))
                    arguments.append("--filename=f")
                done = subprocess.run([*program, *arguments], cwd=folder, capture_output=True, timeout=60, check=True)
                job = json.loads(done.stdout)["jobs"][0]
                totals.append([(job[way]["total_ios"], job[way]["io_bytes"]) for way in ("read", "write")])
        assert totals[0] == totals[1], (line, totals)


def test_fio_reads_the_host_jobs(f):
    fio_or_skip()
    for name in ("host-direct.fio", "host-buffered.fio"):
        done = subprocess.run(["fio", "--parse-only", JOBS / name], capture_output=True, timeout=60, cwd=f.root)
        assert done.returncode == 0, done.stderr


def test_fios_own_program_reads_json_plus(f):
    fio_or_skip()
    program = shutil.which("fio_jsonplus_clat2csv")
    # The distribution's interpreter has the distribution's modules.
    pythons = [python for python in ("/usr/bin/python3", sys.executable)
               if subprocess.run([python, "-c", "import six"], capture_output=True).returncode == 0]
    if program is None or not pythons:
        raise Skip("fio_jsonplus_clat2csv, or Python's six that it needs, is not installed")
    output = f.root / "plus.json"
    expect(OK, "--output-format=json+", f"--output={output}", "--bs=4k", "--name=a", f"--filename={f.file}", "--slat_percentiles=1",
           "--name=b", f"--filename={f.root}/b", "--size=1m", "--rw=randrw")
    for extra in ([], ["--validate"]):
        done = subprocess.run([pythons[0], program, output, f.root / "plus.csv", *extra], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "mismatch" not in done.stdout, (done.stdout, done.stderr)
    lines = (f.root / "plus_job1.csv").read_text().splitlines()
    header = [name.strip() for name in lines[0].split(",")]
    assert any(line.split(",")[header.index("write_lat_ns_count")].strip() for line in lines[1:]), lines[:3]


def main():
    global HEADRACE, JOBS
    HEADRACE, JOBS = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    return run_tests(globals(), sys.argv[3:], Fixture)


if __name__ == "__main__":
    sys.exit(main())
