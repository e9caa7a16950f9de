#!/usr/bin/env python3
"""No binary of a build needs an NVIDIA library to start or looks for libraries in the working directory, and the CUDA
plug-in exports only its one function.

  no_nvidia_needed_test.py BUILD_DIR
  no_nvidia_needed_test.py --self-test CC"""
import pathlib
import re
import subprocess
import sys
import tempfile

NVIDIA = re.compile(r"^lib(cuda|cudart|cufile|nv\w*|cublas\w*|cufft\w*|curand|cusolver|cusparse|npp\w*)\b")


def needed(path):
    """The libraries that a binary requires, and the folders that its RPATH or RUNPATH tells the loader to search."""
    text = subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True, check=True).stdout
    folders = [folder for found in re.findall(r"\(R(?:UN)?PATH\).*?\[(.*)\]", text) for folder in found.split(":")]
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text), folders


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def problems(folders):
    checked, found = 0, []
    for folder in folders:
        for path in sorted(folder.glob("*")):
            if not path.is_file() or path.is_symlink() or not is_elf(path):
                continue
            checked += 1
            names, searched = needed(path)
            found += [f"{path} needs {name}" for name in names if NVIDIA.match(name)]
            found += [f"{path} looks for libraries in '{place}', below the working directory"
                      for place in searched if not place.startswith(("/", "$ORIGIN"))]
            if path.name == "libheadrace_cuda.so":
                text = subprocess.run(["nm", "-D", "--defined-only", str(path)], capture_output=True, text=True, check=True)
                names = [line.split()[-1] for line in text.stdout.splitlines()]
                if names != ["headrace_cuda_plugin"]:
                    found.append(f"{path} exports {names}")
    if checked == 0:
        found.append(f"nothing to check in {', '.join(map(str, folders))}")
    return checked, found


def self_test(compiler):
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        (root / "a.c").write_text("int a(void) { return 1; }\n")
        (root / "b.c").write_text("int a(void); int main(void) { return a() - 1; }\n")
        library = root / "lib" / "libcudart.so.13"
        library.parent.mkdir()
        (root / "bin").mkdir()
        run = lambda *arguments: subprocess.run([compiler, *map(str, arguments)], check=True)
        run("-shared", "-fPIC", "-Wl,-soname,libcudart.so.13", root / "a.c", "-o", library)
        run(root / "b.c", library, "-Wl,-rpath,/opt::", "-o", root / "bin" / "b")
        _, found = problems([root / "bin"])
        if not any("libcudart" in line for line in found):
            sys.exit("the planted dependency was not found")
        if not any("working directory" in line for line in found):
            sys.exit("the planted search in the working directory was not found")
        print("the planted dependency was found")


if sys.argv[1] == "--self-test":
    self_test(sys.argv[2])
else:
    build = pathlib.Path(sys.argv[1])
    count, found = problems([build / "lib", build / "bin", build / "tests", build / "bench"])
    print(*found, f"{count} binaries checked", sep="\n")
    sys.exit(1 if found else 0)
