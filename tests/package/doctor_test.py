#!/usr/bin/env python3
"""Runs `headrace doctor`: exit codes, the shape of its JSON, and its reports when something is forbidden.

  doctor_test.py PATH_TO_HEADRACE [NAME...]

NAME limits the run to tests whose name contains it. Tests that need root are skipped without it, with a message."""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from script_tests import Skip, run_tests

HEADRACE = ""
OK, FAILED, USAGE = 0, 1, 2
LARGE = 80 << 20


def doctor(code, *arguments, says="", **extra):
    done = subprocess.run([HEADRACE, "doctor", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          env=dict(os.environ, LC_ALL="C"), timeout=60, text=True, errors="replace", **extra)
    what = f"doctor {' '.join(map(str, arguments))} -> {done.returncode}: {done.stderr!r}"
    assert done.returncode == code, f"{what}, expected {code}"
    if code == OK:
        assert done.stderr == "", what
    else:
        assert done.stderr.startswith("headrace: ") and done.stderr.count("\n") == 1 and done.stderr.count("; ") >= 2, what
    assert says in done.stderr, f"{what}: does not say {says!r}"
    return done.stdout


def as_json(*arguments, code=OK, **extra):
    return json.loads(doctor(code, *arguments, "--json", **extra))


def large_file(folder):
    path = folder / "large.bin"
    path.write_bytes(os.urandom(1 << 20) * (LARGE >> 20))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


def test_no_path(folder):
    text = doctor(OK)
    for word in ("machine", "CPUs", "locked memory", "io_uring", "threads", "devices", "host", "GPUDirect"):
        assert word in text, (word, text)
    data = as_json("--quick")
    assert data["paths"] == [] and data["host"]["copy_one_core_bytes_per_second"] is None, data


def test_it_is_quick(folder):
    path = large_file(folder)
    start = time.monotonic()
    doctor(OK, path, folder)
    assert time.monotonic() - start < 20  # 3 s on a quiet machine
    data = as_json(path, "--quick")["paths"][0]
    assert data["direct_read_bytes_per_second"] is None and data["buffered_read_bytes_per_second"] is None, data


def test_usage(folder):
    for arguments in ([""], ["--nonsense"], ["--device", "abacus"], ["--device", "cuda:x"], ["--device"]):
        doctor(USAGE, *arguments)
    assert "Examples:" in doctor(OK, "--help")


def test_bad_paths(folder):
    good = folder / "good"
    good.write_bytes(b"x" * 10000)
    os.mkfifo(folder / "fifo")
    missing = folder / "no\nsuch\x1b[31m"
    for bad in (folder / "nowhere", folder / "fifo", good / "below", "/dev/null", missing):
        text = doctor(FAILED, bad, good, "--quick")
        assert str(good) in text and "\x1b" not in text, text
    doctor(FAILED, "ftp://host/key", says="neither a local path nor a supported URL")
    data = as_json(folder / "nowhere", good, "--quick", code=FAILED)
    assert "not found" in data["paths"][0]["error"] and data["paths"][0]["advice"] == [], data
    assert data["paths"][1]["error"] is None and data["paths"][1]["advice"], data
    assert as_json(f"file://{good}", "--quick")["paths"][0]["error"] is None


def test_full_device(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run([HEADRACE, "doctor", "--quick"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == FAILED and done.stderr.count(b"\n") == 1, done


def test_measured(folder):
    path = large_file(folder)
    data = as_json(path)
    host, found = data["host"], data["paths"][0]
    assert host["copy_one_core_bytes_per_second"] > 1e8 and host["memory_available_bytes"] > 0, host
    assert found["sample_file"] == str(path) and found["sample_bytes"] == LARGE, found
    assert found["filesystem"] and found["mount_point"] and found["mount_options"], found
    assert found["buffered_read_bytes_per_second"] > 0 and found["page_cache_read_bytes_per_second"] > 0, found
    assert found["direct_works"] in (True, False) and (found["direct_why_not"] is None) == found["direct_works"], found
    advice = {a["device"]: a for a in found["advice"]}
    assert advice["host"]["expected_bytes_per_second"] > 0 and advice["host"]["sentence"], advice
    assert advice["host"]["read_path"] in ("direct", "buffered"), advice
    names = {d["name"]: d for d in data["devices"]}
    assert names["host"]["usable"] and all(d["usable"] or d["why_not"] for d in data["devices"]), names


def test_a_store_of_small_files_is_measured(folder):
    """No file has 64 MiB, but all of them together do; files that were not cached are not cached afterwards."""
    for i in range(40):
        part = folder / "store.zarr" / str(i)
        part.parent.mkdir(exist_ok=True)
        with open(part, "wb") as file:
            file.write(os.urandom(2 << 20))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    found = as_json(folder / "store.zarr")["paths"][0]
    assert found["measured_files"] == 40 and found["measured_bytes"] == 40 << 21 and found["sample_bytes"] == 2 << 20, found
    assert found["buffered_read_bytes_per_second"] > 0 and found["page_cache_read_bytes_per_second"] > 0, found
    assert (found["direct_read_bytes_per_second"] is not None) == (found["direct_works"] and not found["is_memory"]), found
    assert {a["device"]: a for a in found["advice"]}["host"]["expected_bytes_per_second"] > 0, found
    assert "measured with" in doctor(OK, folder / "store.zarr")
    for i in range(2, 40):
        (folder / "store.zarr" / str(i)).unlink()
    found = as_json(folder / "store.zarr")["paths"][0]
    assert found["buffered_read_bytes_per_second"] is None and any("64 are needed" in w for w in found["warnings"]), found


def test_tmpfs(folder):
    if not os.access("/dev/shm", os.W_OK):
        raise Skip("there is no tmpfs to write to")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        found = as_json(large_file(pathlib.Path(memory)))["paths"][0]
    assert found["is_memory"] and found["filesystem"] == "tmpfs" and found["block_device"] is None, found
    assert found["advice"][0]["read_path"] == "buffered" and any("memory" in w for w in found["warnings"]), found


def test_device(folder):
    data = as_json("--device", "host", "--quick")
    assert [d["name"] for d in data["devices"]] == ["host"], data
    data = as_json("--device", "host-staged")
    assert data["devices"][0]["pinned_to_device_bytes_per_second"] > 0, data
    if not any(d["name"] == "cuda:0" for d in as_json("--quick")["devices"]):
        data = as_json("--device", "cuda", "--quick")
        assert not data["devices"][0]["usable"] and data["devices"][0]["why_not"], data


def test_memlock_of_an_ordinary_user(folder):
    """With 64 KiB of locked memory, as in a container, io_uring's buffers cannot be registered, and doctor says so."""
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    program = folder / "headrace"          # a place that another user can reach
    shutil.copy(HEADRACE, program)
    folder.chmod(0o755)
    path = large_file(folder)
    path.chmod(0o644)

    def become_nobody():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    done = subprocess.run([program, "doctor", path, "--json"], capture_output=True, text=True, timeout=60,
                          preexec_fn=become_nobody)
    assert done.returncode == OK, done
    data = json.loads(done.stdout)
    assert data["host"]["memlock_limit_bytes"] == 65536, data["host"]
    found = data["paths"][0]
    assert found["error"] is None and not found["cachestat_allowed"] and found["residency_source"] == "sampled", found
    uring = [e for e in data["engines"] if e["name"] == "io_uring"][0]
    if not uring["usable"]:
        raise Skip("io_uring is forbidden here: " + uring["why_not"])
    assert "RLIMIT_MEMLOCK" in uring["features"], uring
    assert any("RLIMIT_MEMLOCK" in w for w in data["warnings"]), data["warnings"]
    if found["advice"][0]["read_path"] == "direct":
        assert any("RLIMIT_MEMLOCK" in way for way in found["advice"][0]["faster"]), found


def test_unreadable_for_an_ordinary_user(folder):
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    program = folder / "headrace"
    shutil.copy(HEADRACE, program)
    folder.chmod(0o755)
    secret = folder / "secret"
    secret.mkdir(mode=0o700)
    (secret / "f").write_bytes(b"x")
    done = subprocess.run([program, "doctor", secret, "--quick"], capture_output=True, text=True, timeout=60,
                          user=65534, group=65534, extra_groups=[])
    assert done.returncode == FAILED and "permission denied" in done.stderr and done.stderr.count("\n") == 1, done


def test_few_files_and_no_proc(folder):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    data = as_json(large_file(folder), preexec_fn=few)
    assert data["host"]["open_files_limit"] == 32 and any("RLIMIT_NOFILE" in w for w in data["warnings"]), data
    if os.geteuid() != 0:
        raise Skip("only root can hide /proc and /sys")
    hide = "mount -t tmpfs none /sys && mount -t tmpfs none /proc && exec \"$0\" doctor --json \"$1\""
    done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", hide, HEADRACE, str(folder)],
                          capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr or "mount" in done.stderr:
        raise Skip("this container may not mount: " + done.stderr.strip())
    assert done.returncode == OK, done
    data = json.loads(done.stdout)
    assert data["host"]["memory_bytes"] is None and data["paths"][0]["mount_point"] is None, data
    assert data["paths"][0]["filesystem"] and data["paths"][0]["advice"], data


def url_report(code, url, *arguments, **extra):
    done = subprocess.run([HEADRACE, "doctor", url, "--quick", "--json", *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, **extra)
    assert done.returncode == code, done
    assert done.stderr.count("\n") == (code != OK) and "planted" not in done.stdout + done.stderr, done
    return json.loads(done.stdout)["remotes"][0] if done.stdout else None


def test_urls(folder):
    (folder / "x.bin").write_bytes(os.urandom(10000))
    # Only whole objects, with HTTP/1.0, as Python's own server provides.
    server = subprocess.Popen([sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        words = server.stdout.readline().split()
        address = f"http://127.0.0.1:{words[words.index('port') + 1]}"
        found = url_report(FAILED, address + "/x.bin?token=planted")
        if "libcurl" in str(found["error"]):
            raise Skip("this build has no libcurl")
        assert found["problem"] == "no-ranges" and found["ranges"] is False and found["http_version"] == "1.0", found
        assert found["url"] == address + "/x.bin" and found["origin"] == address, found
        assert found["what_to_do"] and found["sample_bytes"] is None or found["sample_bytes"] == 10000, found
        assert url_report(FAILED, address + "/none")["problem"] == "nothing-there"
        text = doctor(FAILED, address + "/none", folder, "--quick")
        assert address in text and str(folder) in text, text   # the others are reported all the same
    finally:
        server.kill()
        server.communicate()
    assert url_report(FAILED, address)["problem"] == "no-connection"
    assert url_report(FAILED, "http://planted:planted@127.0.0.1/x")["url"] == "http://127.0.0.1/x"
    assert url_report(FAILED, "s3://bucket", "--storage-option", "kye=planted")["problem"] == "url"
    doctor(USAGE, "s3://bucket", "--storage-option", "anon")
    doctor(FAILED, "ftp://127.0.0.1/x", "--quick", says="nor a supported URL")


def main():
    global HEADRACE
    HEADRACE = os.path.abspath(sys.argv[1])
    return run_tests(globals(), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
