"""Helpers shared by the tests of `headrace bench`: running it, its results, and files to run it on."""
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys

from script_tests import FAILED, OK, USAGE, Skip, expect_tool, run_tests  # noqa: F401 (for the scripts that import this)

MIB = 1 << 20
# The program and the folder of job files, from the test's command line.
HEADRACE, JOBS = str(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()


def expect(code, *arguments, **extra):
    return expect_tool([HEADRACE, "bench", "--device=host"], code, *arguments, parts_at_most=3, **extra)


def result(*arguments, code=OK):
    return json.loads(expect(code, "--output-format=json", *arguments).stdout)


def largest_file(size):
    """Limits file sizes, so that the process sees a full disk."""
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


def plant(path, change):
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def fio_or_skip():
    if shutil.which("fio") is None:
        raise Skip("fio is not installed")


def main(namespace):
    return run_tests(namespace, sys.argv[3:], Fixture)
