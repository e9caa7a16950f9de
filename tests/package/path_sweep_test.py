#!/usr/bin/env python3
"""bench/e2e/path_sweep.py calls a row "below" only if all measurements agree, measures more rounds while they do not,
and tries every path in both orders.

  path_sweep_test.py [NAME...]

A stand-in for headrace supplies the rates."""
import json
import math
import pathlib
import random
import subprocess
import sys

from script_tests import run_tests

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench" / "e2e"
sys.path.insert(0, str(BENCH))
import path_sweep  # noqa: E402

# Started some hundred times, so slow imports are avoided.
STAND_IN = f"""#!{sys.executable} -IS
import json, os, sys
folder = os.path.dirname(__file__)
path = next(word[7:] for word in sys.argv if word.startswith("--path="))
with open(f"{{folder}}/rates") as file:
    rates = json.load(file)[path]
with open(f"{{folder}}/calls", "a+") as file:
    file.seek(0)
    before = file.read().split()
    file.write(f" {{path}}")
rate = rates[before.count(path) % len(rates)]
if rate is None:
    sys.exit(1)
print(json.dumps({{"jobs": [{{"read": {{"bw_bytes": rate}}, "headrace": {{"bytes_by_path": {{}}}}}}]}}))
"""


def sweep(folder, *arguments, **rates):
    """Returns the row, the exit code, the output and the paths in the order of their runs."""
    program, calls, output = folder / "headrace", folder / "calls", folder / "out.json"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    calls.unlink(missing_ok=True)
    (folder / "rates").write_text(json.dumps(rates))
    done = subprocess.run([sys.executable, BENCH / "path_sweep.py", program, folder / "data", "--sizes=4096", "--depths=1", "--caches=warm",
                           "--orders=read", "--busy=2", f"--output={output}", *arguments], capture_output=True, text=True, timeout=100)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(output.read_text())["rows"][0], done.returncode, done.stdout, calls.read_text().split()


def test_a_row_that_is_level(folder):
    row, code, text, calls = sweep(folder, auto=[990, 1010], direct=[1000], buffered=[500])
    assert (row["verdict"], row["best"], row["rounds"], code) == ("level", "direct", 4, 0), row
    assert row["auto_over_best"] == 1.0 and row["interval"] == [0.99, 1.01] and row["bytes_per_second"]["buffered"] == 500, row
    there = ["auto", "direct", "buffered"]
    assert calls == (there + there[::-1]) * 2, calls
    assert "1 level, 0 below" in text and "BELOW" not in text, text


def test_a_row_that_is_below(folder):
    row, code, text, _ = sweep(folder, auto=[800, 850], direct=[1000], buffered=[500])
    assert (row["verdict"], row["rounds"], code) == ("below", 12, 1) and row["interval"] == [0.8, 0.85] and "BELOW" in text, (row, text)


def test_rounds_that_do_not_agree(folder):
    row, code, text, calls = sweep(folder, auto=[600, 1200], direct=[1000], buffered=[500])
    assert (row["verdict"], row["rounds"], code) == ("undecided", 12, 0) and "UNDECIDED" in text, row
    # A path that cannot be the best is left out of further rounds.
    assert calls.count("buffered") == 4 and calls.count("direct") == 12, calls
    row, code, _, _ = sweep(folder, auto=[950, 850, *[950] * 6], direct=[1000], buffered=[500])
    assert (row["verdict"], code) == ("level", 0) and row["rounds"] == 8, row
    row, code, _, _ = sweep(folder, auto=[850, 950, *[850] * 6], direct=[1000], buffered=[500])
    assert (row["verdict"], row["rounds"], code) == ("below", 12, 1), row
    # Begins below, but does not stay below.
    row, code, _, _ = sweep(folder, auto=[*[850] * 5, *[950] * 7], direct=[1000], buffered=[500])
    assert (row["verdict"], row["rounds"], code) == ("undecided", 12, 0), row


def test_a_path_that_cannot_be_taken(folder):
    row, code, _, calls = sweep(folder, auto=[1000], direct=[None], buffered=[1000])
    assert set(row["bytes_per_second"]) == {"auto", "buffered"} and code == 0 and calls.count("direct") == 1, (row, calls)


def test_rounds_with_other_work_are_run_again(folder):
    row, _, _, calls = sweep(folder, "--busy=-1", auto=[1000], direct=[1000], buffered=[500])
    assert row["rounds"] == 4 and len(calls) == 4 * 3 * path_sweep.REPEATS, (row, calls)


def test_the_interval_holds_the_median_nine_times_of_ten(folder):
    draw = random.Random(1)
    for n in (5, 8, 12, 25):
        hits = 0
        for _ in range(4000):
            low, high = path_sweep.interval([math.exp(draw.gauss(0, 1)) for _ in range(n)])
            hits += low <= 1 <= high
        assert 0.89 < hits / 4000 < 0.99, (n, hits)


if __name__ == "__main__":
    sys.exit(run_tests(globals(), sys.argv[1:]))
