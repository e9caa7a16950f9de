#!/usr/bin/env python3
"""`headrace bench`: its report matches what was done, faults planted in a file are found and named, page cache states
are reached, job files run, and each error is one line.

  bench_cli_test.py PATH_TO_HEADRACE JOBS_FOLDER [NAME...]

NAME limits the run to tests whose name contains it. Exit status 77 when everything passed but something had to be
skipped."""
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import zlib

from bench_tests import FAILED, HEADRACE, JOBS, MIB, OK, USAGE, expect, largest_file, main, only_job, plant, result
from script_tests import Skip


def test_usage_errors(f):
    for arguments, says in ((["--blocksze=4k"], "did you mean '--blocksize'?"), (["--outputformat=json"], "--output-format"),
                            (["-x"], "'-x'"), (["--bs=7q"], "'7q'"), (["--rw=sideways"], "randread"),
                            (["--bs"], "--bs"), (["--output-format=xml"], "xml"), (["--path=tunnel"], "path"),
                            (["--direct=1", "--path=mapped"], "contradict"), (["--verify=sha3-256"], "crc32c"),
                            (["--nice=5"], "nice is not supported: start"), (["--percentile_list=101"], "percentiles")):
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

    for at in (0, 5 * 16384):  # including the first block, where the newest version is only known later
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


def test_an_interrupt_ends_a_job_whose_server_is_silent(f):
    class Silent(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.headers["Range"] != "bytes=0-0":
                self.server.asked.set()
                self.server.stop.wait(60)
                return
            self.send_response(206)
            self.send_header("Content-Range", "bytes 0-0/65536")
            self.send_header("Content-Length", "1")
            self.end_headers()
            self.wfile.write(b"x")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        server.asked, server.stop, server.daemon_threads = threading.Event(), threading.Event(), True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/a/x?sig=planted"
        tool = subprocess.Popen([HEADRACE, "bench", f"--filename={url}", "--bs=4k", "--iodepth=4", "--output-format=json"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            if not server.asked.wait(30):
                said = tool.communicate()[1].decode()
                raise Skip("this build has no libcurl") if "libcurl" in said else AssertionError(said)
            tool.send_signal(signal.SIGINT)
            out, err = tool.communicate(timeout=10)
        finally:
            tool.kill()
            server.stop.set()
            server.shutdown()
    assert tool.returncode == -signal.SIGINT and b"planted" not in out + err, (tool.returncode, out, err)
    assert json.loads(out)["headrace"]["interrupted"] is True, out


if __name__ == "__main__":
    sys.exit(main(globals()))
