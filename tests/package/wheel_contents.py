#!/usr/bin/env python3
"""A wheel of headrace contains what it should and is not too large.

  wheel_contents.py WHEEL [--without-cuda]
  wheel_contents.py --self-test

--without-cuda: for a wheel built without nvcc. Otherwise the plug-in must have machine code for each GPU generation,
and PTX for the last."""
import argparse
import pathlib
import re
import struct
import sys
import tempfile
import zipfile

MIB = 1 << 20
# Size limits, of the packed wheel and of unpacked files: about one and a half times the usual size.
MOST_WHEEL, MOST_WITHOUT_CUDA = 14 * MIB, 12 * MIB
MOST = {"libheadrace_cuda.so": 12 * MIB, "headrace": 10 * MIB, "libcufile.so.0": 8 * MIB}
NEEDED = ["__init__.py", "_cli.py", "_core.pyi", "py.typed", "headrace", "libcufile.so.0", "cufile.json", "zarr/__init__.py",
          "xarray/__init__.py"]
CUBINS, PTX = {75, 80, 90, 100, 120}, {120}
GLIBC = 34  # 2.34: tools/wheel's tag


def problems(wheel, cuda):
    found = []
    with zipfile.ZipFile(wheel) as archive:
        infos = {info.filename.removeprefix("headrace/"): info for info in archive.infolist()
                 if info.filename.startswith("headrace/") and not info.is_dir()}
        code = archive.read("headrace/libheadrace_cuda.so") if cuda and "libheadrace_cuda.so" in infos else None
        found += [f"{name} needs GLIBC_2.{newest}, later than 2.{GLIBC}" for name, info in infos.items()
                  if (newest := glibc_of(archive.read(info))) > GLIBC]
        points = "".join(archive.read(n).decode() for n in archive.namelist() if n.endswith("/entry_points.txt"))
    wanted = NEEDED + (["libheadrace_cuda.so"] if cuda else [])
    found += [f"{name} is missing" for name in wanted if name not in infos]
    found += code_problems(code) if code is not None else []
    found += [] if any(re.fullmatch(r"_core\..*so", name) for name in infos) else ["_core is missing"]
    # Only the package: no headers, archives, package configs or a second copy under another name.
    allowed = re.compile(r".*\.pyi?|py\.typed|_core\..*so|" + "|".join(map(re.escape, [*NEEDED, "libheadrace_cuda.so"])))
    found += [f"{name} does not belong there" for name in infos if not allowed.fullmatch(name)]
    found += [f"{name} takes {infos[name].file_size:,} bytes, more than {most:,}"
              for name, most in MOST.items() if name in infos and infos[name].file_size > most]
    if "headrace" in infos and not infos["headrace"].external_attr >> 16 & 0o100:
        found.append("headrace may not be executed")
    if "headrace = headrace._cli:main" not in points:
        found.append("there is no command headrace")
    most = MOST_WHEEL if cuda else MOST_WITHOUT_CUDA
    if (size := pathlib.Path(wheel).stat().st_size) > most:
        found.append(f"the wheel takes {size:,} bytes, more than {most:,}")
    return found


def glibc_of(data):
    """The minor number of the latest glibc version that a program or library needs; 0 for other files."""
    if not data.startswith(b"\x7fELF"):
        return 0
    return max((int(number) for number in re.findall(rb"\0GLIBC_2\.(\d+)(?=[.\0])", data)), default=0)


def machine_code(data):
    """The compute capabilities that a library has machine code for, and those it has PTX for, from its fat binaries: a
    header (magic, version, its size, that of the rest), then entries (kind, version, header's and payload's size, at 28
    the capability)."""
    cubins, ptx, at = set(), set(), 0
    while (at := data.find(b"\x50\xed\x55\xba\x01\x00", at)) >= 0:
        header, size = struct.unpack_from("<6xHQ", data, at)
        end, at = min(at + header + size, len(data)), at + header
        while at + 32 <= end:
            kind, header, size, capability = struct.unpack_from("<H2xIQ12xI", data, at)
            {1: ptx, 2: cubins}.get(kind, set()).add(capability)
            at += header + size
    return cubins, ptx


def code_problems(data):
    cubins, ptx = machine_code(data)
    found = [f"the plug-in has no machine code for sm_{capability}" for capability in sorted(CUBINS - cubins)]
    return found + ([f"the plug-in has PTX for {sorted(ptx)}, not for {sorted(PTX)}"] if ptx != PTX else [])


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        wheel = pathlib.Path(folder) / "x.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in ["", "zarr/", *NEEDED, "_core.abi3.so", "lib/libheadrace.a"]:
                if name != "libcufile.so.0":
                    archive.writestr(f"headrace/{name}", b"\0" * (MOST["headrace"] + 1 if name == "headrace" else 1))
            archive.writestr("headrace/_core.later.so", b"\x7fELF\0GLIBC_2.2.5\0GLIBC_2.36\0")
        text = "\n".join(problems(wheel, cuda=False))
    entries = b"".join(struct.pack("<HHIQ12xI", kind, 1, 32, 8, capability) + b"\0" * 8 for kind, capability in ((2, 75), (2, 90), (1, 80)))
    fat = b"\x7fELF" + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries
    assert machine_code(fat) == ({75, 90}, {80}), machine_code(fat)
    assert len(code_problems(fat)) == 4, code_problems(fat)  # three without machine code, and the wrong PTX
    for planted in ("libcufile.so.0 is missing", "libheadrace.a does not belong", "headrace takes", "may not be executed", "no command",
                    "_core.later.so needs GLIBC_2.36"):
        assert planted in text, (planted, text)
    assert text.count("does not belong") == 1, text  # folders are not listed
    print("what was planted was found")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", nargs="?")
    parser.add_argument("--without-cuda", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    found = problems(arguments.wheel, not arguments.without_cuda)
    print("\n".join(found) or f"{pathlib.Path(arguments.wheel).name}: {pathlib.Path(arguments.wheel).stat().st_size:,} bytes, as it should be")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
