#!/usr/bin/env python3
"""Lists skipped tests with their reasons and counts; fails if a skip is not expected.

  report_skips.py --preset NAME --junit FILE --gtest DIR --pytest DIR --expected FILE [--whole FILE]
  report_skips.py --self-test

Skips need checking because a suite that silently skips half of its tests looks as green as one that runs them all. Each
line of the file of expected skips is: PRESET TEST REASON, three shell patterns. A test that skips for a reason other
than its line's is unexpected too. A case inside an entry of ctest is ENTRY/CASE.

--whole: a list of tests that the preset dev leaves to this one. Each must run, and may skip only what dev may skip."""
import argparse
import collections
import fnmatch
import pathlib
import re
import sys
import tempfile
import xml.etree.ElementTree as ElementTree


def cases(path):
    try:
        return list(ElementTree.parse(path).getroot().iter("testcase"))
    except (ElementTree.ParseError, FileNotFoundError):  # the program died; ctest has reported that
        return []


def gtest_skips(folder):
    """(program/Suite.Test, reason) from the XML files that googletest wrote."""
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        program = re.sub(r"_\d+$", "", path.stem)
        for case in cases(path):
            name = f"{program}/{case.get('classname')}.{case.get('name')}"
            skipped = case.find("skipped")
            if skipped is not None:
                # "file:line\nreason"
                lines = [line.strip() for line in (skipped.get("message") or "").splitlines()]
                lines = [line for line in lines if line and not re.match(r"\S+:\d+$", line)]
                yield name, " ".join(lines) or "no reason given"
            elif case.get("status") == "notrun" and "DISABLED_" in name:
                yield name, "disabled"


def pytest_skips(folder):
    """(suite/file.test, reason) from pytest's XML files, one per suite; includes expected failures."""
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        for case in cases(path):
            skipped = case.find("skipped")
            if skipped is None:
                continue
            reason = skipped.get("message") or ""
            if reason == "collection skipped":  # a whole file: ('path', line, 'Skipped: reason')
                reason = re.sub(r"""^\(.*, ['"]Skipped: (.*)['"]\)$""", r"\1", skipped.text or "", flags=re.S)
            home, name = (case.get("classname") or "").split(".")[-1], case.get("name")
            yield f"{path.stem}/{f'{home}.{name}' if home else name.split('.')[-1]}", " ".join(reason.split()) or "no reason given"


def ctest_skips(junit):
    """(test, reason) for entries of ctest that returned 77 or could not run: one for each printed line "skip  case:
    reason", else the last line of output."""
    for case in cases(junit):
        if case.find("skipped") is None and case.get("status") not in ("notrun", "disabled"):
            continue
        output = (case.findtext("system-out") or "").strip().splitlines()
        parts = [match for match in map(re.compile(r"skip  (\w+): (.*)").fullmatch, output) if match]
        for part in parts:
            yield f"{case.get('name')}/{part[1]}", part[2].strip()
        if not parts:
            message = case.find("skipped").get("message", "") if case.find("skipped") is not None else ""
            yield case.get("name"), output[-1].strip() if output else message or "no reason given"


def read_rules(path):
    rules = []
    for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            fields = line.split(None, 2)
            if len(fields) != 3:
                sys.exit(f"{path}:{number}: not PRESET TEST REASON")
            rules.append(fields)
    return rules


def matches(text, pattern):
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))  # names of cases contain brackets


def not_whole(names, run, skips, rules):
    """Lines about those tests among `names` that did not run, or of which not all cases ran."""
    for name in sorted(names - run):
        yield f"  NOT RUN, and left out elsewhere because it is to run here: {name}"
    for name, reason in skips:
        if name.split("/")[0] in names and not any(matches("dev", p) and matches(name, t) for p, t, _ in rules):
            yield f"  SKIPPED, and left out elsewhere because it is to run here: {name}: {reason}"


def report(preset, skips, rules):
    """Returns the lines to print, and whether every skip is expected."""
    groups = collections.Counter()
    unexpected = []
    for name, reason in skips:
        groups[re.sub(r"(?<=/)[^/]*\..*|/\d+$", "*", name), reason] += 1  # one line per suite
        if not any(matches(preset, p) and matches(name, t) and matches(reason, r) for p, t, r in rules):
            unexpected.append(f"  NOT EXPECTED to skip: {name}: {reason}")
    lines = [f"{preset}: {sum(groups.values())} skipped"]
    lines += [f"  {count:4} x {group}: {reason}" for (group, reason), count in sorted(groups.items())]
    return lines + unexpected, not unexpected


def self_test():
    rules = [["dev", "a_test/Suite.Case*", "no GPU: *"], ["?san", "*", "sanitizers keep malloc"], ["*", "py/f.t[cuda]", "no GPU"]]
    for preset, name, reason, expected in (
            ("dev", "a_test/Suite.Case/1", "no GPU: none", True), ("dev", "a_test/Suite.Case/1", "broken", False),
            ("dev", "a_test/Suite.Other", "no GPU: none", False), ("asan", "a_test/Suite.Case", "no GPU: none", False),
            ("tsan", "b_test/X.Y", "sanitizers keep malloc", True), ("dev", "py/f.t[cuda]", "no GPU", True)):
        if report(preset, [(name, reason)], rules)[1] != expected:
            sys.exit(f"self-test: {preset} {name}: {reason}: expected {expected}")
    skips = [("a_test/Suite.Case/1", "no plug-in"), ("b_test/X.Y", "sanitizers keep malloc"), ("d_test/X.Y", "sanitizers keep malloc")]
    found = [line.split(": ")[1] for line in not_whole({"a_test", "b_test", "c_test"}, {"a_test", "b_test", "d_test"}, skips, rules)]
    assert found == ["c_test", "b_test/X.Y"], found
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "a_test.xml").write_text("""<testsuites><testsuite>
<testcase name="One" classname="S"><skipped message="/a/b.cc:7&#xA;no disk"/></testcase><testcase name="Two" classname="S"/>
<testcase name="DISABLED_Three" status="notrun" classname="S"/></testsuite></testsuites>""")
        found = list(gtest_skips(folder))
        assert found == [("a_test/S.One", "no disk"), ("a_test/S.DISABLED_Three", "disabled")], found
        (folder / "a_test.xml").write_text("""<testsuites><testsuite>
<testcase classname="" name="python.tests.zarr.test_t"><skipped message="collection skipped">('/x/test_t.py', 3, "Skipped: no torch")</skipped></testcase>
<testcase classname="python.tests.native.test_a" name="test_b[cuda]"><skipped type="pytest.skip" message="no GPU">x</skipped></testcase>
<testcase classname="python.tests.native.test_a" name="test_c"/></testsuite></testsuites>""")
        found = list(pytest_skips(folder))
        assert found == [("a_test/test_t", "no torch"), ("a_test/test_a.test_b[cuda]", "no GPU")], found
        (folder / "a_test.xml").write_text("""<testsuite>
<testcase name="cli" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out>ok    x
skip  test_y: only root may
2 tests
test_y: only root may</system-out></testcase>
<testcase name="browser" status="notrun"><skipped message=""/><system-out>no browser
</system-out></testcase><testcase name="z" status="run"/></testsuite>""")
        found = list(ctest_skips(folder / "a_test.xml"))
        assert found == [("cli/test_y", "only root may"), ("browser", "no browser")], found
    print("self-test: reasons are read and compared")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    for option in ("--preset", "--junit", "--gtest", "--pytest", "--expected", "--whole"):
        parser.add_argument(option)
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return 0
    skips = [*ctest_skips(args.junit), *gtest_skips(args.gtest), *pytest_skips(args.pytest)]
    rules = read_rules(args.expected)
    lines, expected = report(args.preset, skips, rules)
    if args.whole:
        names = set(pathlib.Path(args.whole).read_text().split())
        partial = list(not_whole(names, {case.get("name") for case in cases(args.junit)}, skips, rules))
        lines += partial or [f"  {len(names)} tests that dev leaves out ran here"]
        expected = expected and bool(names) and not partial
    print("\n".join(lines))
    if not expected:
        print(f"  ({args.expected} lists what may be skipped, and for which reason)")
    return 0 if expected else 1


if __name__ == "__main__":
    sys.exit(main())
