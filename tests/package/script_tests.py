"""What the test scripts of the command line share: functions test_* of a script, each in a folder of its own."""
import pathlib
import tempfile
import traceback


class Skip(Exception):
    """Raised by a test that cannot run here; says why."""


def run_tests(namespace, names, make=lambda folder: folder):
    """Runs the functions test_* of `namespace` whose name contains one of `names` (none: all) with make(folder), and
    returns the script's exit code: 1 if one failed, else 77 with the reasons in the last line if one was skipped."""
    tests = [(n, t) for n, t in namespace.items() if n.startswith("test_") and (not names or any(w in n for w in names))]
    failures, skips = 0, []
    for name, test in tests:
        with tempfile.TemporaryDirectory(prefix="headrace-test-") as folder:
            try:
                test(make(pathlib.Path(folder)))
                print(f"ok    {name}", flush=True)
            except Skip as reason:
                skips.append(f"{name}: {reason}")
                print(f"skip  {name}: {reason}", flush=True)
            except Exception as error:
                failures += 1
                print(f"FAIL  {name}: {error or ''}")
                if not isinstance(error, AssertionError) or not str(error):
                    traceback.print_exc()
    print(f"{len(tests)} tests, {failures} failed, {len(skips)} skipped")
    if skips:
        print("; ".join(skips))
    return 1 if failures else 77 if skips else 0
