#!/usr/bin/env python3
"""The build that users make links no test-only code.

  release_build_test.py --source DIR --work DIR [--configure ARG]...

Configures as preset release does (static, no developer mode) and reads the link commands. A library that CMake does not
know as a target would appear there as -lheadrace_..., and would fail to link only on a user's machine."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--source", type=pathlib.Path, required=True)
parser.add_argument("--work", type=pathlib.Path, required=True)
parser.add_argument("--configure", action="append", default=[])
arguments = parser.parse_args()
build = arguments.work / "release-build"
shutil.rmtree(build, ignore_errors=True)
done = subprocess.run(["cmake", "-S", arguments.source, "-B", build, "-G", "Ninja", "-DHEADRACE_DEVELOPER_MODE=OFF",
                       "-DCMAKE_BUILD_TYPE=Release", "-DHEADRACE_CUDA=OFF", *arguments.configure], capture_output=True, text=True)
if done.returncode != 0:
    sys.exit((done.stdout + done.stderr)[-4000:])
commands = subprocess.run(["ninja", "-C", build, "-t", "commands", "bin/headrace"], check=True, capture_output=True, text=True).stdout
unknown = sorted(set(re.findall(r"-lheadrace\w*", commands)))
test_only = sorted(set(re.findall(r"\S*lib(?:blosc|gtest)\S*", commands)))
if unknown or test_only:
    sys.exit(f"the release build links {unknown + test_only}")
if "libheadrace.a" not in commands:
    sys.exit("the link command of bin/headrace was not found")
