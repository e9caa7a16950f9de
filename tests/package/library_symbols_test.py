#!/usr/bin/env python3
"""A library must not end its host's process or write to its host's terminal, and a shared one must not leak symbols.

  library_symbols_test.py --static libheadrace.a     what the objects call
  library_symbols_test.py --shared libheadrace.so    what it exports
  library_symbols_test.py --self-test CXX            both checks catch a planted violation"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# __assert_fail is allowed: asserts exist in development builds only.
FORBIDDEN = re.compile(
    r"^(abort|exit|_exit|_Exit|quick_exit|printf|__printf_chk|vprintf|__vprintf_chk|fprintf|__fprintf_chk|vfprintf|"
    r"__vfprintf_chk|dprintf|puts|putchar|fputs|fputc|putc|fwrite|perror|psignal|stdout|stderr|"
    r"_ZSt4cout|_ZSt4cerr|_ZSt4clog)(@.*)?$")
PUBLIC = re.compile(
    r"^(hr_\w+|(typeinfo for |typeinfo name for |vtable for )?headrace::"
    r"(Status|Stats|Cancel|Result|Store|Array|ArrayInfo|ArrayWriter|Completion|Context|Device|Buffer|DataType|Node|Group|"
    r"VariableResult|Selection|SelectionItem|code_name|layer_name|numeric_type|parse_selection|parse_points|parse_blocks|"
    r"device_names|ByteStore|Windows|Crops|Order|EpochOrder|Split|divide_windows|Loader|LoaderBatch|LoaderSchema|LoaderState|"
    r"resolve_selection|same_elements|index_list|mask|points|mask_points|block|block_range|leniencies|capabilities|result_dtype|"
    r"list_nodes|trace|inspect_system|trusted_path|read_path_name|File|FileQueue|make_file_queue|DecodeBatch|path_name|parse_path_name|read_file|"
    r"write_file|open|build_decode_index|check_decode_index|inspect_disk_cache|clear_disk_cache|split_object_url|remote_bound_name|"
    r"remote_problem_name)\b.*)$")


def nm(*arguments):
    return subprocess.run(["nm", *arguments], capture_output=True, text=True, check=True).stdout


def forbidden_calls(archive):
    member, found, members = "", [], 0
    for line in nm("--undefined-only", str(archive)).splitlines():
        if line.endswith(":"):
            member, members = line[:-1], members + 1
        elif line.split() and FORBIDDEN.match(line.split()[-1]):
            found.append(f"{member} uses {line.split()[-1]}")
    if members == 0:
        found.append(f"{archive} has no members: nothing was checked")
    return found


def leaked_symbols(library):
    names = [line.split(" ", 2)[2] for line in nm("-D", "-C", "--defined-only", str(library)).splitlines()]
    found = [f"exports {name}" for name in names if not PUBLIC.match(name)]
    for expected in ("hr_version", "headrace::Status::code() const"):
        if expected not in names:
            found.append(f"does not export {expected}")
    return found


def self_test(cxx):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "bad.cc").write_text('#include <cstdio>\n#include <cstdlib>\n'
                                       'void leaked(int i) { if (i) std::abort(); std::printf("%d", i); }\n')
        subprocess.run([cxx, "-fPIC", "-c", "bad.cc", "-o", "bad.o"], cwd=folder, check=True)
        subprocess.run(["ar", "rc", "bad.a", "bad.o"], cwd=folder, check=True)
        subprocess.run([cxx, "-shared", "bad.o", "-o", "bad.so"], cwd=folder, check=True)
        calls, leaks = forbidden_calls(folder / "bad.a"), leaked_symbols(folder / "bad.so")
    if not any("abort" in c for c in calls) or not any("printf" in c for c in calls) or not any("leaked" in e for e in leaks):
        return [f"self-test: planted violations not caught: {calls} {leaks}"]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--static", type=pathlib.Path)
    parser.add_argument("--shared", type=pathlib.Path)
    parser.add_argument("--self-test", metavar="CXX")
    arguments = parser.parse_args()
    found = []
    if arguments.static:
        found += forbidden_calls(arguments.static)
    if arguments.shared:
        found += leaked_symbols(arguments.shared)
    if arguments.self_test:
        found += self_test(arguments.self_test)
    print("\n".join(found) or "symbols are as they should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
