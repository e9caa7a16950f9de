"""Which tests pass with NVIDIA's library and not with ours: compare_tests.py OURS.xml THEIRS.xml

Reads what pytest --junitxml wrote. One line a test that differs, then a line of counts. Ends with 0 if tests pass with
ours and among them all that pass with theirs, with 1 if not, with 2 if theirs could not be read.
"""

import collections
import sys
import xml.etree.ElementTree as ElementTree


def outcomes(path):
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        outcome = "passed"
        for child in case:
            if child.tag in ("failure", "error"):
                outcome = "failed"
            elif child.tag == "skipped":  # expected failures, too
                outcome = child.get("type", "").rpartition(".")[2] or "skipped"
        name = case.get("classname", "") + "::" + case.get("name", "")
        # A test may be listed twice, when what comes after it fails.
        found[name] = outcome if found.get(name, "passed") == "passed" else found[name]
    return found


def counts(found):
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(collections.Counter(found.values()).items()))


try:
    theirs = outcomes(sys.argv[2])
except (OSError, ElementTree.ParseError) as error:
    print(f"NVIDIA's gave no results: {error}")
    sys.exit(2)
try:
    ours = outcomes(sys.argv[1])
except (OSError, ElementTree.ParseError) as error:
    print(f"ours gave no results: {error}")
    sys.exit(1)
worse = 0
for name in sorted(ours.keys() | theirs.keys()):
    mine, other = ours.get(name, "not run"), theirs.get(name, "not run")
    if mine == other:
        continue
    worse += other == "passed"
    print(f"{name}: ours {mine}, NVIDIA's {other}")
print(f"{worse} passed only with NVIDIA's; ours: {counts(ours)}; NVIDIA's: {counts(theirs)}")
sys.exit(1 if worse or "passed" not in ours.values() else 0)
