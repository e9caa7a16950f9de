#!/usr/bin/env python3
"""docs/reference/environment.md lists exactly the environment variables that the source reads. The library reads them
with secure_getenv, which ignores them in privileged programs. docs/reference/loading.md lists each source that loads a
library.

  environment_test.py [--self-test]"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE, LOADING = ROOT / "docs/reference/environment.md", ROOT / "docs/reference/loading.md"
LIBRARY = ("src", "backends", "codecs", "include")  # runs in other people's programs
CODE = {".cc", ".h", ".cu", ".cuh", ".c", ".py", ""}
CALL = re.compile(r"\b((?:secure_)?getenv)\s*\(")
CONSTANT = re.compile(r'"([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])"')  # in a file that reads the environment, such a string is a variable's name
PYTHON = re.compile(r'environ(?:\.get\(|\.setdefault\(|\.pop\(|\[)\s*["\'](\w+)["\']|getenv\(["\'](\w+)["\']|"(\w+)" (?:not )?in os\.environ')
SHELL = re.compile(r"\$\{?((?:HEADRACE|CUFILE)_\w+)")
LOADS = re.compile(r"\bdl(?:m)?open\s*\(|\bCDLL\(|LoadLibrary\(")
# Standard variables, which scripts use in the standard way.
OTHERS = {"PATH", "PYTHONPATH", "HOME", "TMPDIR", "LC_ALL"}


def names_in(path, text):
    if path.suffix == ".py" or text.startswith("#!/usr/bin/env python3"):
        return {name for found in PYTHON.findall(text) for name in found if name}
    if path.suffix == "":
        return set(SHELL.findall(text)) if text.startswith("#!") else set()
    return set(CONSTANT.findall(text)) if CALL.search(text) else set()


def used():
    """{name: files that read it}"""
    names, unsafe, loading = {}, [], set()
    for folder in (*LIBRARY, "tools", "bench", "python/src", "python/headrace"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in CODE or not path.is_file() or path.stem.endswith("_test"):
                continue
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            relative = str(path.relative_to(ROOT))
            for name in names_in(path, text) - OTHERS:
                names.setdefault(name, []).append(relative)
            if folder in LIBRARY and "getenv" in CALL.findall(text):
                unsafe.append(relative)
            if LOADS.search(text):
                loading.add(relative)
    return names, unsafe, loading


def listed(page):
    rows = [line.split("|")[1] for line in page.read_text().splitlines() if line.startswith("| `")]
    return [name for cell in rows for name in re.findall(r"`([\w./]+)`", cell)]


def main():
    if sys.argv[1:] == ["--self-test"]:
        assert names_in(pathlib.Path("a.cc"), 'x = std::getenv(name); f("HEADRACE_NEW_ONE");') == {"HEADRACE_NEW_ONE"}
        assert names_in(pathlib.Path("a.py"), 'os.environ.get("HEADRACE_A"), os.environ["HEADRACE_B"]') == {"HEADRACE_A", "HEADRACE_B"}
        assert names_in(pathlib.Path("a"), "#!/bin/sh\necho ${HEADRACE_C:-1}") == {"HEADRACE_C"}
        print("planted variables were found")
        return 0
    names, unsafe, loading = used()
    table = listed(PAGE)
    problems = [f"{name} is read by {', '.join(where)} and is not in {PAGE.relative_to(ROOT)}"
                for name, where in sorted(names.items()) if name not in table]
    problems += [f"{name} is in {PAGE.relative_to(ROOT)} and nothing reads it" for name in table if name not in names]
    problems += [f"{name} is listed twice" for name in set(table) if table.count(name) > 1]
    problems += [f"{path} calls getenv: secure_getenv, as the program may be a set-user-id one" for path in unsafe]
    problems += [f"{path}: it loads a library, or {LOADING.relative_to(ROOT)} says so, but not both"
                 for path in sorted(loading ^ {row for row in listed(LOADING) if row.endswith((".cc", ".py"))})]
    print("\n".join(problems) or f"{len(table)} variables, as listed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
