#!/usr/bin/env python3
"""Writes one C++ source that includes several tests, so that shared headers are compiled once.

  batch_sources.py OUTPUT SOURCE...

Each source's unnamed namespaces are placed in a namespace named after the source, so that equal names do not conflict.
Messages, debuggers and googletest still show the original file and line. Paths are relative to the working directory, which is the
build folder, so that other clones can use the compiler's cache.
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDED = re.compile(r'^(#include ")([^"]+)"', re.M)
OPENED = re.compile(r"^namespace \{$", re.M)
CLOSED = re.compile(r"^\}  // namespace$", re.M)


def batch(sources):
    for source in sources:
        text = source.read_text()
        if len(OPENED.findall(text)) != len(CLOSED.findall(text)):
            sys.exit(f"{source}: a line 'namespace {{' has no line '}}  // namespace', or the other way round (or add ALONE to its headrace_test)")
        home = source.parent.relative_to(ROOT)
        text = INCLUDED.sub(lambda m: f'{m[1]}{home / m[2]}"' if (source.parent / m[2]).exists() else m[0], text)
        text = OPENED.sub(f"namespace {source.stem}_cc {{ namespace {{", text)
        yield f'#line 1 "{os.path.relpath(source)}"\n' + CLOSED.sub("} }", text)


def main():
    output, *sources = map(pathlib.Path, sys.argv[1:])
    output.write_text("".join(batch(sources)))


if __name__ == "__main__":
    main()
