#!/usr/bin/env python3
"""Compares the tests of a build with tests/test_count.txt, and finds test files that belong to no build target.

  count_tests.py BUILD_DIR [--write]

Tests most often rot by being in the tree but not in the build, so the number of ctest entries per label is committed.
Tests labelled gpu or cuda exist only with a CUDA compiler and are counted only there."""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNTS = ROOT / "tests" / "test_count.txt"
NEEDS_COMPILER = {"gpu", "cuda"}
HEADER = """# ctest entries per label in the dev preset; an entry with two labels counts for both.
# Adding or removing a test changes this file: tests/package/count_tests.py build/dev --write
"""


def ctest_entries(build):
    out = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    for test in json.loads(out.stdout)["tests"]:
        labels = [p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"]
        yield test["name"], (labels[0] if labels else ["none"]), test.get("command", [])


def count(entries, with_cuda):
    counts = collections.Counter()
    for _, labels, _ in entries:
        if NEEDS_COMPILER & set(labels):
            counts.update({label: 1 for label in labels if label in NEEDS_COMPILER and with_cuda})
        else:
            counts.update(labels)
            counts["total"] += 1
    return dict(counts)


def read_counts():
    lines = COUNTS.read_text().splitlines() if COUNTS.exists() else []
    return {label: int(n) for label, n in (line.split() for line in lines if line and not line.startswith("#"))}


def only_with_cuda(path):
    """Whether a file is CUDA code, or belongs to a target with CUDA sources, which does not exist without a CUDA
    compiler."""
    path = pathlib.Path(path)
    if path.suffix == ".cu" or {"gpu", "dev_cuda"} & set(path.parts):
        return True
    lists = path.parent / "CMakeLists.txt"
    targets = re.findall(r"add_(?:executable|library)\(([^)]*)\)", lists.read_text()) if lists.exists() else []
    homes = [sources.split() for sources in targets if path.name in sources.split()]
    return bool(homes) and all(any(source.endswith(".cu") for source in home) for home in homes)


def orphans(build, entries, with_cuda):
    """Test, fuzz and benchmark files that no target compiles and no test runs."""
    compiled = {os.path.realpath(os.path.join(c["directory"], c["file"]))
                for c in json.loads((pathlib.Path(build) / "compile_commands.json").read_text())}
    for path in [path for path in compiled if "_joined_" in path]:  # several sources compiled as one
        sources = re.findall(r'#include "(.+)"', pathlib.Path(path).read_text())
        compiled.update(os.path.realpath(os.path.join(os.path.dirname(path), source)) for source in sources)
    run = {os.path.realpath(argument) for _, _, command in entries for argument in command if argument.endswith((".py", ".cmake"))}
    # For tests that are compiled together, only the program's name is left.
    joined = {name for name, _, _ in entries if os.path.islink(os.path.join(build, "tests", name))}
    pattern = re.compile(r"_(test|fuzz|bench)\.(cc|cu|c|py|cmake)$")
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith(".") and not (folder == str(ROOT) and f in ("build", "python"))]
        for name in files:
            path = os.path.realpath(os.path.join(folder, name))
            if not pattern.search(name) or path in compiled or path in run or (name.endswith("_test.cc") and name[:-3] in joined):
                continue
            if not with_cuda and only_with_cuda(path):
                continue
            yield os.path.relpath(path, ROOT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", metavar="BUILD_DIR")
    parser.add_argument("--write", action="store_true", help="update tests/test_count.txt")
    args = parser.parse_args()

    cache = (pathlib.Path(args.build) / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CUDA_COMPILER:\w+=(.+)$", cache, re.M)
    with_cuda = bool(compiler) and not compiler[1].endswith("NOTFOUND")
    entries = list(ctest_entries(args.build))
    counts = count(entries, with_cuda)

    problems = [f"{path}: in no target of this build" for path in sorted(orphans(args.build, entries, with_cuda))]
    expected = read_counts()
    if args.write:
        if not with_cuda:
            counts.update({label: n for label, n in expected.items() if label in NEEDS_COMPILER})
        lines = [f"{label} {counts[label]}\n" for label in sorted(counts, key=lambda x: (x == "total", x))]
        COUNTS.write_text(HEADER + "".join(lines))
    else:
        for label in sorted(set(counts) | set(expected)):
            if label in NEEDS_COMPILER and not with_cuda:
                continue
            if counts.get(label, 0) != expected.get(label, 0):
                problems.append(f"label {label}: {counts.get(label, 0)} tests, tests/test_count.txt says {expected.get(label, 0)}"
                                f" (count_tests.py {args.build} --write)")
    print("\n".join(problems) or "; ".join(f"{label} {n}" for label, n in sorted(counts.items())))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
