"""Lists tests that pass with NVIDIA's library but not with headrace's: compare_tests.py OURS.xml THEIRS.xml

Reads the output of pytest --junitxml. Prints one line per differing test, then a line of counts. Exits with 0 if tests
pass with ours, including all that pass with theirs; 1 if not; 2 if theirs could not be read.
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
            elif child.tag == "skipped":  # includes expected failures
                outcome = child.get("type", "").rpartition(".")[2] or "skipped"
        name = case.get("classname", "") + "::" + case.get("name", "")
        # pytest lists a test twice if its teardown fails.
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
