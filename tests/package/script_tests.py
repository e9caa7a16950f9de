"""Helpers shared by the test scripts of the command line: run a script's functions test_*, each in a folder of its own,
and run the program under test."""
import os
import pathlib
import subprocess
import tempfile
import traceback

OK, FAILED, USAGE, UNCHECKED = 0, 1, 2, 3


class Skip(Exception):
    """Raised by a test that cannot run here, with the reason."""


def run_tool(command, *arguments, **extra):
    return subprocess.run([*command, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                          env=dict(os.environ, LC_ALL="C"), timeout=100, **extra)


def expect_tool(command, code, *arguments, says="", quiet=False, parts_at_most=None, **extra):
    """Runs the tool and checks the exit code. A failure must print exactly one line in the documented form, of three to
    `parts_at_most` parts. `quiet`: a success prints nothing on standard error."""
    done = run_tool(command, *arguments, **extra)
    stderr = done.stderr.decode("utf-8", "replace")
    what = f"{' '.join(map(str, ['headrace', *command[1:], *arguments]))} -> {done.returncode}: {stderr!r}"
    assert done.returncode == code, f"{what}, expected {code}"
    if code == OK:
        assert not quiet or stderr == "", f"{what}: wrote on standard error"
    else:
        assert stderr.startswith("headrace: ") and stderr.endswith("\n") and stderr.count("\n") == 1, f"{what}: not one line"
        parts = stderr.count("; ") + 1
        assert 3 <= parts <= (parts_at_most or parts), f"{what}: not '<what>; <where>; <what to do>'"
    assert says in stderr, f"{what}: does not say {says!r}"
    return done


def run_tests(namespace, names, make=lambda folder: folder):
    """Runs the functions test_* of `namespace` whose name contains one of `names` (none: all) with make(folder).
    Returns the script's exit code: 1 if one failed, else 77 with the reasons in the last line if one was skipped."""
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
