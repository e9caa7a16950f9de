#!/usr/bin/env python3
"""Lists skipped tests with their reasons and counts; fails where a skip is not expected.

A skip is a result of its own: a suite that silently runs half of itself looks as green as one that runs.
Each line of the file of expected skips is: PRESET-PATTERN TEST-PATTERN REASON."""
import argparse
import collections
import fnmatch
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def gtest_skips(folder):
    """(program/Suite.Test, reason) from the XML files that googletest wrote."""
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        program = re.sub(r"_\d+$", "", path.stem)
        try:
            cases = ElementTree.parse(path).getroot().iter("testcase")
        except ElementTree.ParseError:  # the program died; ctest has reported that
            continue
        for case in cases:
            name = f"{program}/{case.get('classname')}.{case.get('name')}"
            skipped = case.find("skipped")
            if skipped is not None:
                # "file:line\nreason"
                lines = [line.strip() for line in (skipped.get("message") or "").splitlines()]
                lines = [line for line in lines if line and not re.match(r"\S+:\d+$", line)]
                yield name, " ".join(lines) or "no reason given"
            elif case.get("status") == "notrun" and "DISABLED_" in name:
                yield name, "disabled"


def ctest_skips(junit):
    """(test, reason) for whole ctest entries that returned 77 or could not run."""
    if not pathlib.Path(junit).exists():
        return
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        if case.find("skipped") is None and case.get("status") not in ("notrun", "disabled"):
            continue
        output = (case.findtext("system-out") or "").strip().splitlines()
        message = case.find("skipped").get("message", "") if case.find("skipped") is not None else ""
        yield case.get("name"), output[-1].strip() if output else message or "no reason given"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", required=True)
    parser.add_argument("--junit", required=True)
    parser.add_argument("--gtest", required=True)
    parser.add_argument("--expected", required=True)
    args = parser.parse_args()

    rules = []
    for number, line in enumerate(pathlib.Path(args.expected).read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            fields = line.split(None, 2)
            if len(fields) != 3:
                sys.exit(f"{args.expected}:{number}: not PRESET-PATTERN TEST-PATTERN REASON")
            rules.append(fields)

    groups = collections.Counter()
    unexpected = []
    for name, reason in [*ctest_skips(args.junit), *gtest_skips(args.gtest)]:
        group = re.sub(r"\..*|/\d+$", "", name)  # one line a suite
        groups[group, reason] += 1
        if not any(fnmatch.fnmatchcase(args.preset, p) and fnmatch.fnmatchcase(name, t) for p, t, _ in rules):
            unexpected.append((name, reason))

    print(f"{args.preset}: {sum(groups.values())} skipped")
    for (group, reason), count in sorted(groups.items()):
        print(f"  {count:4} x {group}: {reason}")
    for name, reason in unexpected:
        print(f"  NOT EXPECTED to skip: {name}: {reason} (add it to {args.expected} if it should)")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
