#!/usr/bin/env python3
"""Compiles the plug-in's device code for the oldest GPU that a wheel has machine code for, whatever GPU this build is
for, unless it is that one. The code of GPU tests, which builds without a GPU leave out, and code with variants for
newer GPUs are compiled for the newest GPU.

  device_code_test.py BUILD_DIR [LAUNCHER...]      the compiler's cache and its settings, as CMake calls it

Takes the commands from BUILD_DIR/compile_commands.json and stops each one at PTX, without host code. It passes "-c", so
that the compiler's cache avoids compiling unchanged code again. First it checks that a source that needs a newer GPU is
refused."""
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from wheel_contents import CUBINS


def to_ptx(command, architecture, target, source=None):
    """The same command for one architecture, without machine code and host code."""
    out, skip = sys.argv[2:], False
    for word in shlex.split(command):
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MD"):
            skip = word != "-MD"
        elif not word.startswith(("--generate-code", "--compress-mode", "-arch")):
            out.append(str(source) if source and word.endswith(".cu") else word)
    return [*out, "-ptx", f"-arch=compute_{architecture}", "-o", str(target)]


def has_code_for_newer(source):
    """Whether a source, or a header next to it, checks which GPU it is compiled for."""
    texts = [source.read_text()]
    for name in re.findall(r'#include "([^"]+)"', texts[0]):
        if (header := source.parent / name).exists():
            texts.append(header.read_text())
    return any("__CUDA_ARCH__ >= " in text for text in texts)


def compile_one(entry, architecture, source=None):
    with tempfile.TemporaryDirectory() as folder:
        command = to_ptx(entry["command"], architecture, pathlib.Path(folder) / "ptx.o", source)
        done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"{source or entry['file']} for compute_{architecture}: {done.stderr[-2000:]}"


def main():
    build = pathlib.Path(sys.argv[1])
    sources = [entry for entry in json.loads((build / "compile_commands.json").read_text()) if entry["file"].endswith(".cu")]
    entries = [entry for entry in sources if "headrace_cuda.dir" in entry["command"]]
    tests = [entry for entry in sources if "_test.dir" in entry["command"] or "decode_campaign.dir" in entry["command"]]
    assert len(entries) >= 10, f"{len(entries)} sources of the plug-in in {build}/compile_commands.json"
    assert len(tests) >= 5, f"{len(tests)} sources of GPU tests there"
    oldest, newest = min(CUBINS), max(CUBINS)
    with tempfile.TemporaryDirectory() as folder:
        newer = pathlib.Path(folder) / "newer.cu"
        newer.write_text("__global__ void k(unsigned* out) { *out = __reduce_xor_sync(0xffffffffu, *out); }\n")
        assert compile_one(entries[0], 80, newer) is None, "a source for compute capability 8.0 does not compile for it"
        assert compile_one(entries[0], 75, newer) is not None, "this test sees nothing"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        built = [entry for entry in entries if f"code=[compute_{oldest}]" in entry["command"]]
        others = tests + [entry for entry in entries if has_code_for_newer(pathlib.Path(entry["file"]))]
        jobs = [(entry, oldest) for entry in entries if entry not in built] + [(entry, newest) for entry in others]
        failed = [text for text in pool.map(lambda job: compile_one(*job), jobs) if text]
    print("\n".join(failed) or f"{len(entries)} sources compile for compute_{oldest}, {len(built)} of them by the build; "
          f"{len(others)}, of tests for the most part, for compute_{newest}")
    return 1 if failed else 0


sys.exit(main())
