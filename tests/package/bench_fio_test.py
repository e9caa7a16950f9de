#!/usr/bin/env python3
"""`headrace bench` does what fio's options say: mixed directions, sizes, several files, rates, logs, checksums,
variables in job files. When interrupted it still reports a result, and its totals and JSON match fio's.

  bench_fio_test.py PATH_TO_HEADRACE JOBS_FOLDER [NAME...]

NAME limits the run to tests whose name contains it. Exit status 77 when everything passed but something had to be
skipped."""
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

from bench_tests import FAILED, HEADRACE, JOBS, MIB, OK, USAGE, expect, fio_or_skip, main, only_job, plant, result
from script_tests import Skip


def test_directions_are_mixed(f):
    path = f.root / "mixed"
    job = only_job(f"--filename={path}", "--size=4m", "--rw=randrw", "--rwmixread=70", "--bs=4k,16k", "--iodepth=4")
    read, written = job["read"], job["write"]
    assert path.stat().st_size == 4 * MIB, "made whole before it is read"
    assert read["io_bytes"] == read["total_ios"] * 4096, job
    # A request that would extend beyond the end is shortened.
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
    # A job that cannot start leaves nothing behind.
    expect(FAILED, f"--filename={f.root}/small", "--rw=write", "--size=1k", "--bs=4k", says="bs=4KiB is larger")
    expect(FAILED, f"--filename={f.root}/small", "--rw=write", "--size=1m", "--bs=1000", "--direct=1", says="alignment")
    assert not (f.root / "small").exists()


def test_files_made_and_jobs_left_out(f):
    for rw in ("read", "randwrite"):
        job = only_job(f"--filename={f.root}/made-{rw}", f"--rw={rw}", "--bs=64k", "--size=1m", "--create_only=1")
        assert (f.root / f"made-{rw}").stat().st_size == MIB and job["read"]["total_ios"] == job["write"]["total_ios"] == 0, job
        assert "create_only: nothing was read or written" in job["headrace"]["notes"], job["headrace"]["notes"]
        text = expect(OK, f"--filename={f.root}/made-{rw}", f"--rw={rw}", "--size=1m", "--create_only=1").stdout.decode()
        assert "create_only: nothing" in text, text
    found = result(f"--filename={f.file}", "--bs=64k", "--name=a", "--name=quiet", "--stats=0", "--name=c", "--stats=1")
    assert [j["jobname"] for j in found["jobs"]] == ["a", "c"], found["jobs"]
    assert found["headrace"]["groups"][0]["read"]["io_bytes"] == 8 * MIB, found["headrace"]["groups"]
    assert result(f"--filename={f.file}", "--bs=64k", "--stats=0")["jobs"] == []
    expect(FAILED, f"--filename={f.file}", "--bs=64k", "--verify=md5", "--stats=0", says="64 bad blocks")
    job = only_job("--name=drawn", f"--directory={f.root}", "--nrfiles=4", "--size=1m", "--rw=randread", "--file_service_type=zipf:1.2")
    assert job["read"]["total_ios"] == 256, job["read"]
    expect(USAGE, f"--paths={f.root}/list", "--create_only", says="create_only makes files")


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
    for sum_of in ("crc32c", "crc7", "crc16", "crc32", "crc64", "xxhash", "md5", "sha256", "pattern"):
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


def spoil_while_running(path, arguments, once):
    """Runs a job and changes a byte after the header of 4 KiB blocks that it has written: of one block, or of all.
    Returns the offsets of those bytes."""
    started = subprocess.Popen([HEADRACE, "bench", "--device=host", f"--filename={path}", "--bs=4k", "--size=256k", "--verify=crc32c",
                                "--output-format=json", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    spoilt = []
    while started.poll() is None and not (once and spoilt):
        data = path.read_bytes() if path.exists() else b""
        written = [at for at in range(0, len(data), 4096) if data[at:at + 7] == b"HRVERIF" and at + 100 not in spoilt]
        if len(written) < 3:
            time.sleep(0.01)
            continue
        with open(path, "r+b") as file:
            for at in written[1:2] if once else written:
                file.seek(at + 100)
                file.write(bytes([data[at + 100] ^ 0x40]))
                spoilt.append(at + 100)
        if not once:
            spoilt.clear()
    output, errors = started.communicate(timeout=60)
    return spoilt, json.loads(output)["jobs"][0], errors.decode(), started.returncode


def test_jobs_verify_what_they_wrote(f):
    path = f.root / "mixed"
    for arguments in (["--rw=randrw"], ["--rw=rw", "--iodepth=8"], ["--rw=randrw", "--loops=5", "--iodepth=8", "--list=3"],
                      ["--rw=randrw", "--norandommap", "--loops=5", "--iodepth=16"], ["--rw=randrw", "--bs=4k,16k", "--loops=5", "--iodepth=4"],
                      ["--rw=randrw", "--bs=4k-64k", "--iodepth=16", "--loops=5", "--verify_interval=512"],
                      ["--rw=randrw", "--random_distribution=zoned:80/10:20/90", "--loops=5", "--iodepth=32", "--device=host-staged"],
                      ["--rw=rw:64k", "--verify=md5"], ["--rw=randrw", "--verify=pattern", "--verify_pattern=0xdeadbeef%o", "--loops=3"],
                      ["--rw=randrw", "--time_based", "--runtime=500ms", "--iodepth=32"], ["--rw=randrw", "--path=direct", "--loops=3"],
                      ["--rw=randrw", "--numjobs=2", "--size=512k", "--offset_increment=512k", "--group_reporting"],
                      ["--rw=randrw", "--nrfiles=3", "--loops=3", f"--directory={f.root}"],
                      ["--rw=randwrite", "--norandommap", "--loops=3", "--iodepth=16"], ["--rw=randwrite", "--bs=4k-64k", "--iodepth=16"],
                      ["--rw=randwrite", "--random_distribution=zipf:1.2", "--iodepth=16", "--list=3"]):
        file = [] if "--nrfiles=3" in arguments else [f"--filename={path}"]
        job = only_job(*file, "--bs=16k", "--size=1m", "--verify=crc32c", *arguments)
        blocks = job["headrace"]["verify"]["blocks"]
        assert blocks > 0 and job["headrace"]["verify"]["bad_blocks"] == 0, (arguments, job["headrace"]["verify"])
        if arguments == ["--rw=randrw"]:
            assert blocks == job["write"]["total_ios"], "of one pass nothing is read twice, and every written block in the end"
            assert only_job(*file, "--bs=16k", "--size=1m", "--verify=crc32c", *arguments, "--do_verify=0")["headrace"]["verify"]["blocks"] == 0
        if "--loops=5" in arguments:
            unread = only_job(*file, "--bs=16k", "--size=1m", "--verify=crc32c", *arguments, "--do_verify=0")["headrace"]["verify"]["blocks"]
            assert 0 < unread < blocks, (arguments, unread, blocks)
    # Damage done while the job runs is found at its end, or by a read of the mix.
    spoilt, job, errors, code = spoil_while_running(f.root / "spoilt", ["--rw=randrw", "--rate_iops=40"], once=True)
    verify = job["headrace"]["verify"]
    assert code == FAILED and verify["bad_blocks"] == 1 and "1 bad block found, first a flipped byte" in errors, (code, verify, errors)
    assert verify["faults"][0]["offset"] == spoilt[0] and verify["faults"][0]["kind"] == "flipped byte", (spoilt, verify)
    _, job, errors, code = spoil_while_running(f.root / "again", ["--rw=randrw", "--rate_iops=200", "--loops=8", "--do_verify=0"], once=False)
    assert code == FAILED and job["headrace"]["verify"]["bad_blocks"] > 0, (code, job["headrace"]["verify"], errors)
    expect(USAGE, f"--filename={path}", "--rw=randrw", "--verify=crc32c", "--verify_only", says="do_verify")


def test_notes(f):
    arguments = (f"--filename={f.file}", "--bs=64k", "--thread", "--gtod_reduce=1", "--end_fsync=1", "--mem=mmap", "--ioengine=psync")
    notes = only_job(*arguments, "--numjobs=2", "--group_reporting")["headrace"]["notes"].splitlines()
    for key in ("thread", "gtod_reduce", "end_fsync", "mem", "ioengine"):
        assert sum(note.startswith(f"{key}: ") for note in notes) == 1, (key, notes)
    text = expect(OK, *arguments).stdout.decode()
    assert text.count("end_fsync: has no effect: nothing is written") == 1, text
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
    # Interrupted while it makes a file, it leaves nothing of it.
    command = [HEADRACE, "bench", "--device=host", f"--filename={f.root}/huge", "--size=3g", "--create_fsync=0"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=20)
    assert started.returncode == -signal.SIGINT and not (f.root / "huge").exists(), started.returncode


def test_a_progress_line_on_a_terminal_alone(f):
    command = [HEADRACE, "bench", "--device=host", f"--filename={f.file}", "--bs=64k", "--rate=64m", "--time_based", "--runtime=2"]
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
                 "--rw=randread --size=4m --bs=4k,16k --bs_is_seq_rand=1 --norandommap=1", "--rw=read --size=4m --bs=16k,4k --bs_is_seq_rand=1",
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


def shares_by_zone(program, folder, *arguments):
    """For reads and for writes: their number, and the share of them in each twentieth of the file."""
    log = folder / "zones"
    file = folder / "zoned"
    if not file.exists():
        file.write_bytes(os.urandom(4 * MIB))
    subprocess.run([*program, "--name=x", f"--filename={file}", "--bs=4k", "--loops=20", f"--write_lat_log={log}", "--log_offset=1",
                    *arguments], capture_output=True, timeout=60, check=True, cwd=folder)
    found = {}
    for line in pathlib.Path(f"{log}_lat.1.log").read_text().splitlines():
        fields = [field.strip() for field in line.split(",")]
        found.setdefault(int(fields[2]), [0] * 20)[int(fields[4]) * 20 // (4 * MIB)] += 1
    return {way: (sum(counts), [count / sum(counts) for count in counts]) for way, counts in found.items()}


def test_zones_are_fios(f):
    fio_or_skip()
    for line in ("--rw=randread --random_distribution=zoned:60/10:30/20:10/70", "--rw=randwrite --random_distribution=zoned:50/5:30/15:20/",
                 "--rw=randrw --random_distribution=zoned:70/50:25/25:5/25", "--rw=randread --random_distribution=zoned:50/20:50/30",
                 "--rw=randread --random_distribution=zoned:50/20:50", "--rw=randread --random_distribution=zoned:0/50:100/50",
                 "--rw=randrw --random_distribution=zoned_abs:60/1m:30/1m:10/2m",
                 "--rw=randread --random_distribution=zoned_abs:60/1m:40/1m --offset=1m --size=3m"):
        theirs = shares_by_zone(["fio"], f.root, *line.split())
        ours = shares_by_zone([HEADRACE, "bench", "--device=host"], f.root, *line.split())
        assert theirs.keys() == ours.keys(), (line, theirs.keys(), ours.keys())
        for way in theirs:
            # The standard deviation of a share of 10,000 draws is at most 0.005; each program draws the same in every run.
            assert all(abs(a - b) < 0.02 for a, b in zip(theirs[way][1], ours[way][1])), (line, way, theirs[way], ours[way])
            assert abs(theirs[way][0] - ours[way][0]) < 0.03 * theirs[way][0], (line, way, theirs[way][0], ours[way][0])
    expect(FAILED, f"--filename={f.file}", "--rw=randread", "--random_distribution=zoned_abs:50/3m:50/3m", says="the zones have 6MiB")


def test_fio_reads_the_host_jobs(f):
    fio_or_skip()
    for name in ("host-direct.fio", "host-buffered.fio"):
        done = subprocess.run(["fio", "--parse-only", JOBS / name], capture_output=True, timeout=60, cwd=f.root)
        assert done.returncode == 0, done.stderr


def test_fios_own_program_reads_json_plus(f):
    fio_or_skip()
    program = shutil.which("fio_jsonplus_clat2csv")
    # The distribution's interpreter has the modules that the distribution packages.
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


if __name__ == "__main__":
    sys.exit(main(globals()))
