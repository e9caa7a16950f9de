#!/usr/bin/env python3
"""Compares the ABI that compiled programs depend on with tests/data/abi.txt: the layout of every public type, the
values of every public enumerator, and the symbols that a shared library exports.

  abi_test.py CXX [--shared LIBRARY] [--write]
  abi_test.py CXX --self-test

Layouts come from the debug information of one source that includes every public header. Symbols are compared if
--shared names a library. A difference breaks programs compiled earlier: --write accepts it, and the commit must justify
it."""
import argparse
import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

from library_symbols_test import PUBLIC

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASELINE = ROOT / "tests" / "data" / "abi.txt"
HEADER = """# What compiled programs depend on, for 64-bit little-endian Linux. tests/package/abi_test.py c++ --shared LIBRARY --write
"""
SCOPES = {"namespace", "structure_type", "class_type", "union_type"}
RECORDS = SCOPES - {"namespace"}


class Entry:
    """One entry of the debug information."""

    def __init__(self, tag, parent):
        self.tag, self.parent, self.attributes, self.children = tag, parent, {}, []
        if parent is not None:
            parent.children.append(self)

    def name(self):
        return self.attributes.get("name", "")

    def qualified(self):
        parts, at = [], self
        while at is not None and at.tag != "compile_unit":
            parts.append(at.name() or "(unnamed)")
            at = at.parent
        return "::".join(reversed(parts))


def entries_of(source, include, cxx, folder):
    """Returns every entry by its offset."""
    (folder / "all.cc").write_text(source)
    subprocess.run([cxx, "-std=c++20", "-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-femit-class-debug-always", f"-I{include}", "-c", "all.cc", "-o", "all.o"],
                   cwd=folder, check=True)
    dump = subprocess.run(["readelf", "--debug-dump=info", "-W", "all.o"], cwd=folder, capture_output=True, text=True, check=True).stdout
    begins = re.compile(r"\s*<([0-9a-f]+)><([0-9a-f]+)>: Abbrev Number: \d+ \(DW_TAG_(\w+)\)")
    attribute = re.compile(r"\s*<[0-9a-f]+>\s+DW_AT_(name|byte_size|data_member_location|type|const_value|declaration|upper_bound|external|"
                           r"bit_size|vtable_elem_location)\s*:\s*(.*)")
    found, open_entries, entry = {}, [], None
    for line in dump.splitlines():
        if match := begins.match(line):
            depth = int(match[1])  # a decimal number
            del open_entries[depth:]
            entry = Entry(match[3], open_entries[-1] if open_entries else None)
            open_entries.append(entry)
            found[int(match[2], 16)] = entry
        elif entry is not None and (match := attribute.match(line)):
            value = match[2].strip()
            if match[1] == "type":
                value = int(re.search(r"<0x([0-9a-f]+)>", value)[1], 16)
            elif match[1] == "vtable_elem_location":
                value = int(re.search(r"DW_OP_constu: (\d+)", value)[1])
            else:
                value = re.sub(r"^\(\w+\) ?", "", value)  # the form of the value, which newer versions print
                value = re.sub(r"^\((indirect string|offset)[^)]*\): ", "", value)
                value = re.sub(r"\s*\(.*\)$|\t.*$", "", value) if match[1] != "name" else value
            entry.attributes[match[1]] = value
    return found


def number(text):
    return int(text, 0)


def type_name(found, offset):
    if offset is None:
        return "void"
    entry = found[offset]
    inner = entry.attributes.get("type")
    if entry.tag in ("pointer_type", "reference_type", "rvalue_reference_type"):
        return type_name(found, inner) + {"pointer_type": "*", "reference_type": "&", "rvalue_reference_type": "&&"}[entry.tag]
    if entry.tag in ("const_type", "volatile_type"):
        return f"{entry.tag[:-5]} {type_name(found, inner)}"
    if entry.tag == "array_type":
        bounds = [number(child.attributes["upper_bound"]) + 1 for child in entry.children if "upper_bound" in child.attributes]
        return type_name(found, inner) + "".join(f"[{bound}]" for bound in bounds)
    if entry.tag == "subroutine_type":
        parameters = [type_name(found, child.attributes.get("type")) for child in entry.children if child.tag == "formal_parameter"]
        return f"{type_name(found, inner)}({', '.join(parameters)})"
    if entry.tag == "typedef" and inner is not None and not entry.qualified().startswith("headrace"):
        return type_name(found, inner)  # a type that the standard library defines
    return entry.qualified()


def short(name):
    """The name without the parts that every standard container repeats."""
    name = name.replace("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string")
    before = None
    while before != name:
        before, name = name, re.sub(r", std::(allocator|default_delete|less|hash|equal_to)<[^<>]*>(?= ?[>,])", "", name)
        name = re.sub(r"std::pair<const ([^<>]*)> ?", r"std::pair<const \1>", name)
    return name.replace(" >", ">")


def layouts(found):
    """Lines for all types in the order of their names; a type's members follow its first line."""
    types = {}
    for entry in found.values():
        name, attributes = entry.qualified(), entry.attributes
        if not re.match(r"(headrace::|hr_)", name) or "(unnamed)" in name or "declaration" in attributes or "byte_size" not in attributes:
            continue
        if entry.tag == "enumeration_type":
            of = type_name(found, attributes.get("type"))
            lines = [f"  {child.name()} = {number(child.attributes['const_value'])}" for child in entry.children if child.tag == "enumerator"]
            types[name] = [f"enum {name}: {of}", *lines]
        elif entry.tag in RECORDS:
            lines = []
            slots = {child.attributes["vtable_elem_location"]: child for child in entry.children if "vtable_elem_location" in child.attributes}
            lines += [f"  virtual {slot}: {slots[slot].name()}" for slot in sorted(slots)]
            for child in entry.children:
                location = child.attributes.get("data_member_location", "0" if entry.tag == "union_type" else None)
                if child.tag not in ("member", "inheritance") or "external" in child.attributes or location is None:
                    continue
                what = "(base)" if child.tag == "inheritance" else child.name() or "(unnamed)"
                width = f" : {child.attributes['bit_size']}" if "bit_size" in child.attributes else ""
                lines.append(f"  {number(location):4} {what}: {short(type_name(found, child.attributes.get('type')))}{width}")
            types[name] = [f"{entry.tag.removesuffix('_type').replace('structure', 'struct')} {name}, {number(attributes['byte_size'])} bytes", *lines]
    return [line for name in sorted(types) for line in types[name]]


def public_layouts(cxx, folder):
    headers = sorted((ROOT / "include" / "headrace").glob("*.h"))
    source = "".join(f"#include <headrace/{header.name}>\n" for header in headers)
    return layouts(entries_of(source, ROOT / "include", cxx, folder))


def symbols(library):
    """Strong symbols only: which weak ones the compiler copies into a program depends on its optimisation."""
    out = subprocess.run(["nm", "-D", "-C", "--defined-only", str(library)], capture_output=True, text=True, check=True).stdout
    rows = [line.split(" ", 2)[1:] for line in out.splitlines()]
    return sorted({f"symbol {name}" for kind, name in rows if kind in "TDBR" and PUBLIC.match(name)})


def self_test(cxx):
    before = ("namespace headrace { enum class E : char { kA, kB }; struct S { int a; E e; const char* p; }; "
              "struct V { virtual ~V(); virtual void f(); virtual void g(); }; }\n")
    changes = {"a member between": ("int a;", "int a; short b;"), "another type": ("int a;", "unsigned a;"), "a value": ("kA, kB", "kA = 3, kB"),
               "another order": ("int a; E e;", "E e; int a;"), "a base": ("struct S {", "struct B { int b; }; struct S : B {"),
               "a width": ("E : char", "E : short"), "virtual functions": ("void f(); virtual void g();", "void g(); virtual void f();")}
    with tempfile.TemporaryDirectory() as name:
        lines = layouts(entries_of(before, ".", cxx, pathlib.Path(name)))
        if "struct headrace::S, 16 bytes" not in lines or "  kB = 1" not in lines:
            sys.exit(f"self-test: the layout of S is not found in {lines}")
        for what, (old, new) in changes.items():
            if layouts(entries_of(before.replace(old, new), ".", cxx, pathlib.Path(name))) == lines:
                sys.exit(f"self-test: {what} changes nothing in {lines}")
    print("self-test: changed layouts are seen")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cxx")
    parser.add_argument("--shared", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test(arguments.cxx)
    with tempfile.TemporaryDirectory() as name:
        now = public_layouts(arguments.cxx, pathlib.Path(name))
    if len(now) < 300:
        sys.exit(f"only {len(now)} lines of public types were found: readelf's output is not understood")
    known = [line for line in BASELINE.read_text().splitlines() if not line.startswith("#")] if BASELINE.exists() else []
    if arguments.shared:
        now += symbols(arguments.shared)
    else:
        known = [line for line in known if not line.startswith("symbol ")]
    if arguments.write:
        if not arguments.shared:
            sys.exit("--write needs --shared")
        BASELINE.write_text(HEADER + "\n".join(now) + "\n")
        return 0
    if changes := list(difflib.unified_diff(known, now, "tests/data/abi.txt", "this build", lineterm="", n=1)):
        print("\n".join(changes))
        print("Programs that were compiled before do not run with this library. If that is meant: abi_test.py CXX --shared LIBRARY --write")
        return 1
    print(f"{len(now)} lines are as in tests/data/abi.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
