#!/usr/bin/env python3
"""Keeps the guides true: the program at the start of each compiles, runs, and prints what the page shows.

  guide_test.py extract PAGE OUT                the page's first ```c or ```cpp block, for the build to compile; which of
                                                them, OUT's ending says: .c or .cc
  guide_test.py run PAGE PROGRAM [--write]      PROGRAM's output is the page's first ```text block
  guide_test.py console PAGE HEADRACE [--write] each "$ headrace ..." of ```console blocks prints what follows it"""
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def settle(page, text, actual, write):
    """Compares the page with `actual`, its right content; with --write, replaces it."""
    if actual == text:
        return 0
    if write:
        page.write_text(actual)
        return 0
    print("".join(difflib.unified_diff(text.splitlines(True), actual.splitlines(True), str(page), "this build")))
    return 1


def main(arguments):
    if len(arguments) < 3 or arguments[0] not in ("extract", "run", "console"):
        sys.exit(__doc__)
    verb, page, target = arguments[0], pathlib.Path(arguments[1]).resolve(), arguments[2]
    write = "--write" in arguments
    text = page.read_text()
    if verb == "extract":
        language = "c" if target.endswith(".c") else "cpp"
        match = re.search(rf"^```{language}\n(.*?)^```\n", text, re.S | re.M)
        line = text[:match.start(1)].count("\n") + 1
        pathlib.Path(target).write_text(f'#line {line} "{page}"\n' + match[1])
        return 0
    if verb == "run":
        run = subprocess.run([target], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=100)
        if run.returncode != 0:
            print(f"{target} failed with status {run.returncode}")
            return 1
        return settle(page, text, re.sub(r"(?<=^```text\n).*?(?=^```\n)", lambda _: run.stdout, text, count=1, flags=re.S | re.M), write)

    failures = []

    def rerun(match):
        out = ""
        for command in re.findall(r"^\$ (headrace .*)$", match[0], re.M):
            run = subprocess.run([os.path.abspath(target), *shlex.split(command)[1:]], cwd=ROOT, text=True, timeout=100,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if run.returncode != 0:
                failures.append(f"{command} failed with status {run.returncode}: {run.stdout}")
            out += f"$ {command}\n{run.stdout}"
        return out
    actual = re.sub(r"(?<=^```console\n).*?(?=^```\n)", rerun, text, flags=re.S | re.M)
    print("\n".join(failures), end="")
    return 1 if failures else settle(page, text, actual, write)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
