#!/usr/bin/env python3
"""Keeps the README true: its C++ compiles and prints what the page shows, and its table matches the build.

  readme_test.py extract OUT.cc        the page's ```cpp block, for the build to compile
  readme_test.py run PROGRAM           PROGRAM's output is the ```text block that follows
  readme_test.py table PROGRAM [--write]   PROGRAM's output is the text between the capability markers
"""
import difflib
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BEGIN = "<!-- capabilities: written by tests/package/readme_test.py table PROGRAM --write -->\n"
END = "<!-- end of capabilities -->\n"


def example(page):
    match = re.search(r"^```cpp\n(.*?)^```\n(?:.*?^```text\n(.*?)^```\n)?", page, re.S | re.M)
    if not match or match[2] is None:
        sys.exit("README.md: no ```cpp block followed by a ```text block with its output")
    return match[1], match[2]


def compare(shown, actual, what):
    if shown == actual:
        return 0
    print(f"README.md: {what}")
    print("".join(difflib.unified_diff(shown.splitlines(True), actual.splitlines(True), "README.md", "this build")))
    return 1


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("extract", "run", "table"):
        sys.exit(__doc__)
    verb, target = arguments[:2]
    page = README.read_text()
    if verb == "extract":
        line = page[:page.index("```cpp\n")].count("\n") + 2
        pathlib.Path(target).write_text(f'#line {line} "{README}"\n' + example(page)[0])
        return 0
    run = subprocess.run([target], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=100)
    if run.returncode != 0:
        print(f"{target} failed with status {run.returncode}")
        return 1
    if verb == "run":
        return compare(example(page)[1], run.stdout, "the example prints something else than the page shows")
    begin, end = page.index(BEGIN) + len(BEGIN), page.index(END)
    if "--write" in arguments:
        README.write_text(page[:begin] + run.stdout + page[end:])
        return 0
    return compare(page[begin:end], run.stdout, f"the capability table is not this build's: readme_test.py table {target} --write")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
