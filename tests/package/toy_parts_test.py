#!/usr/bin/env python3
"""One folder and one line add a codec, a store, an engine and a device.

  toy_parts_test.py --source DIR --work DIR [--configure OPTION=VALUE]...

Copies what git tracks in DIR, adds tests/package/toys to it part by part, and checks that each part appears everywhere:
the conformance suites, the fault loop, the command line, Python's list (headrace::capabilities()), the README's table.
Then each toy is broken, and the suites must fail. Only the needed programs are built. The compiler's cache has most
objects, since adding a part recompiles no suite."""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

PARTS = {  # folder: the file with one line per part of its kind
    "codecs/toy": "codecs/CMakeLists.txt",
    "backends/store_toy": "backends/CMakeLists.txt",
    "backends/io_toy": "backends/CMakeLists.txt",
    "backends/dev_toy": "backends/CMakeLists.txt",
}
SUITES = {  # program: its cases that cover the toys
    "codec_conformance_test": "Table/*/toy",
    "codec_encode_test": "CodecEncode.EveryCodecReadsWhatItWrote",
    "store_conformance_test": "Store/*/toy:Stores.EveryOneInTheTableIsTested",
    "hostile_key_test": "Stores/Hostile*/toy",
    "fetcher_test": "Stores/*/toy",
    "engine_conformance_test": "Engine/*/toy:Engine/*/toy_one_thread",
    "engine_handover_test": "Engine/*/toy",
    "device_conformance_test": "Kinds/*/toy",
    "read_conformance_test": "All/*/toy_toy_toy_3:All/*/toy_toy_file_3:All/*/auto_toy_memory_3",
    "io_fault_test": "Engine/EngineFaults.*/toy",
    "fault_points_test": "FaultPoints.EachBelongsToAScenario:FaultPoints.StoresThatAreOneFileOrMany",
}
BROKEN = {  # source: a text in it, and a wrong replacement
    "codecs/toy/toy_codec.cc": ("apply(key_, plain.data()", "apply(key_ ^ std::byte{1}, plain.data()"),
    "backends/store_toy/toy_store.cc": ("subspan(at + key_bytes, bytes)", "subspan(at + key_bytes, bytes / 2)"),
    "backends/io_toy/toy_engine.cc": ("::pread(request.fd, request.buffer, request.length_bytes, offset)",
                                      "::pread(request.fd, request.buffer, request.length_bytes, offset + 1)"),
    "backends/dev_toy/toy_device.cc": ("std::memcpy(piece.dst, piece.src, piece.bytes)",
                                       "std::memcpy(piece.dst, piece.src, piece.bytes / 2)"),
}
NOTICE = ("codec_encode_test", "store_conformance_test", "engine_conformance_test", "device_conformance_test", "read_conformance_test",
          "io_fault_test", "fault_points_test")
TOYS = "tests/package/toys"
FAULTS = ("io_fault_test", "fault_points_test")  # in builds with fault points
KEY = 17  # of the toy codec


def run(*command, **extra):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **extra)
    if done.returncode != 0:
        sys.exit(f"+ {' '.join(map(str, command))} -> {done.returncode}\n{(done.stdout + done.stderr)[-6000:]}")
    return done.stdout


class Tree:
    """A copy of what git tracks, with its own history."""

    def __init__(self, source, root):
        self.root, self.toys = root, source / TOYS
        shutil.rmtree(root, ignore_errors=True)
        for name in run("git", "ls-files", "-z", cwd=source).split("\0"):
            if name and not name.startswith(TOYS) and (source / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source / name, root / name)
        self.git("init", "--quiet")
        self.commit("the tree")

    def git(self, *arguments):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return run("git", "-c", "user.name=test", "-c", "user.email=test", "-c", "core.autocrlf=false", *arguments, cwd=self.root, env=clean)

    def commit(self, subject):
        self.git("add", "--all", "--force", ":!build")
        self.git("commit", "--quiet", "--message", subject)

    def add_part(self, folder, listing):
        shutil.copytree(self.toys / folder, self.root / folder)
        with open(self.root / listing, "a") as file:
            file.write(f"add_subdirectory({pathlib.Path(folder).name})\n")
        self.commit(folder)
        elsewhere = self.git("diff", "--numstat", "HEAD^", "HEAD", "--", ".", f":!{folder}").splitlines()
        assert elsewhere == [f"1\t0\t{listing}"], f"{folder} takes more than one line elsewhere: {elsewhere}"
        print(f"{folder}, and:{self.git('diff', '--stat', 'HEAD^', 'HEAD', '--', '.', f':!{folder}').splitlines()[0]}")


def check_suites(build, environment):
    for program, cases in SUITES.items():
        report = build / f"{program}.json"
        run(build / "tests" / program, f"--gtest_filter={cases}", f"--gtest_output=json:{report}", cwd=build, env=environment)
        results = [(case["name"], case.get("result")) for suite in json.loads(report.read_text())["testsuites"] for case in suite["testsuite"]]
        ran = [name for name, result in results if result == "COMPLETED"]
        for pattern in cases.split(":"):
            last = pattern.rpartition("/" if "/" in pattern else ".")[2]
            assert any(name.endswith(last) for name in ran), f"{program}: nothing ran of {pattern}: {results}"
        print(f"{program}: {len(ran)} cases ran, {len(results) - len(ran)} skipped")


def check_that_suites_notice(tree, build, environment):
    for source, (right, wrong) in BROKEN.items():
        text = (tree.root / source).read_text()
        assert text.count(right) == 1, source
        (tree.root / source).write_text(text.replace(right, wrong))
    notice = [program for program in NOTICE if program in SUITES]
    run("ninja", "-C", build, "-j2", *notice)
    for program in notice:
        done = subprocess.run([build / "tests" / program, f"--gtest_filter={SUITES[program]}"], cwd=build, env=environment, capture_output=True)
        assert done.returncode == 1, f"{program} does not notice toys that are wrong: {done.returncode}"
    print(f"{len(notice)} of {len(SUITES)} programs were given wrong toys, and failed")


def write_array(folder):
    """Writes an array of the toy codec, as a folder and as a file of the toy store; returns their paths and the
    elements' SHA-256."""
    content = bytes(range(240))
    metadata = {"zarr_format": 3, "node_type": "array", "shape": [240], "data_type": "uint8", "fill_value": 0,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [60]}},
                "chunk_key_encoding": {"name": "default"},
                "codecs": [{"name": "bytes"}, {"name": "toy", "configuration": {"key": KEY}}]}
    objects = {"zarr.json": json.dumps(metadata).encode()}
    for chunk in range(4):
        objects[f"c/{chunk}"] = bytes(byte ^ KEY for byte in content[60 * chunk:60 * chunk + 60])
    for name, data in objects.items():
        (folder / "array" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "array" / name).write_bytes(data)
    file = b"".join(f"{len(name)} {len(data)}\n{name}".encode() + data for name, data in sorted(objects.items()))
    (folder / "array.toy").write_bytes(file)
    return folder / "array", f"toy://{folder}/array.toy", hashlib.sha256(content).hexdigest()


def check_command_line(tool, folder):
    folder.mkdir(exist_ok=True)
    for verb, option in (("read", "--engine"), ("verify", "--engine"), ("bench", "--ioengine"), ("read", "--device"), ("bench", "--device")):
        lines = run(tool, verb, "--help").splitlines()
        at = next(number for number, line in enumerate(lines) if line.strip().startswith(option))
        assert "toy" in " ".join(lines[at:at + 2]), f"{verb} --help does not offer the toy: {lines[at:at + 2]}"
    path, url, digest = write_array(folder)
    for where in (path, url):
        got = json.loads(run(tool, "read", where, "--engine", "toy", "--device", "toy", "--sha256", "--json"))
        assert (got["sha256"], got["device"], got["engine"]) == (digest, "toy", "toy"), got
    run(tool, "verify", url)
    refused = subprocess.run([tool, "read", path, "--device", "train"], capture_output=True, text=True)
    assert refused.returncode == 2 and "toy" in refused.stderr, refused
    (folder / "data").write_bytes(bytes(1 << 16))
    job = run(tool, "bench", f"--filename={folder / 'data'}", "--bs=4k", "--direct=1", "--ioengine=toy", "--device=toy", "--output-format=json")
    assert '"toy"' in job, job
    report = json.loads(run(tool, "doctor", "--quick", "--json"))
    for kind in ("engines", "devices"):
        found = {part["name"]: part["usable"] for part in report[kind]}
        assert found.get("toy"), f"doctor: {kind}: {found}"
    # The result of headrace.capabilities() in the Python package.
    able = json.loads(run(tool, "info", "--capabilities", "--json"))
    for kind in ("engines", "devices", "stores"):
        assert "toy" in able[kind], able[kind]
    codec = next(row for row in able["codecs"] if row["name"] == "toy")
    assert codec["cpu"] and not codec["gpu"], codec
    print("the command line and doctor have the toys, and an array of all four is read")


def check_pages(tree, build):
    run(sys.executable, tree.root / "tests/package/check_layers.py")
    table = (sys.executable, tree.root / "tests/package/readme_test.py", "table", build / "tests/capability_table")
    assert subprocess.run(table, capture_output=True).returncode == 1, "the README's table does not tell of the toys' absence"
    run(*table, "--write")
    lines = tree.git("diff", "--unified=0", "--", "README.md").splitlines()
    added = [line for line in lines if line.startswith("+|")]
    assert len(added) == 4 and all("toy" in line for line in added), f"README.md: {lines}"
    print("the README's table is written with the toys:", *added[:3], f"{added[3][:40]}...", sep="\n  ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--configure", action="append", default=[])
    arguments = parser.parse_args()
    if "HEADRACE_FAULT_POINTS=ON" not in arguments.configure:
        for program in FAULTS:
            del SUITES[program]
    started = time.monotonic()
    tree = Tree(arguments.source, arguments.work)
    for folder, listing in PARTS.items():
        tree.add_part(folder, listing)
    build = tree.root / "build/dev"  # at the depth of the build whose objects the compiler's cache has
    run("cmake", "-S", tree.root, "-B", build, "-G", "Ninja", "-DHEADRACE_CUDA=OFF", *(f"-D{option}" for option in arguments.configure))
    configured = time.monotonic()
    run("ninja", "-C", build, "-j2", "capability_table", "headrace_cli", *SUITES)
    built = time.monotonic()
    environment = dict(os.environ, HEADRACE_SOURCE_DIR=str(tree.root), HEADRACE_BIN_DIR=str(build / "bin"))
    check_command_line(build / "bin/headrace", build / "toy-data")
    check_pages(tree, build)
    check_suites(build, environment)
    check_that_suites_notice(tree, build, environment)
    print(f"copied and configured in {configured - started:.0f} s, built in {built - configured:.0f} s, ran in {time.monotonic() - built:.0f} s")
    shutil.rmtree(tree.root)


if __name__ == "__main__":
    main()
