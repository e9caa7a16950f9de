#!/usr/bin/env python3
"""Fails where a file includes what its layer may not, where a public class shows what is behind it, where names clash, and
where files grow beyond reading.

  check_layers.py [--root DIR] [--self-test] [--write]

The table below is the architecture: whoever needs a new arrow changes it here, in view of a reviewer. CONTRIBUTING.md
shows it, as far as folders exist, and is checked; --write makes its table anew. --self-test plants
one violation of each rule in a scratch tree and sees it caught."""
import argparse
import collections
import pathlib
import re
import sys
import tempfile

LAYERS = {  # folder: what it is, layers of src/ whose headers it may include; its own folder and include/headrace always
    "src/base": ("Status, checked arithmetic, JSON, clock, fault points", ""),
    "src/io": ("Engine interface, request queue", "base"),
    "src/device": ("Device interface, strided box copy", "base"),
    "src/codec": ("Codec interface, codec chain", "base device"),
    "src/http": ("ranges, retries and credentials over a transport", "base"),
    "src/store": ("Store interface, key rules", "base io"),
    "src/transfer": ("waves: read, copy, decode, assemble", "base io device store codec"),
    "src/zarr": ("metadata, grids, shards, planner, the array reader", "base io device store codec transfer"),
    "src/loader": ("samples, order, prefetch", "base io device store codec transfer zarr"),
    "src/cufile": ("the C interface of libcufile.so.0, a library of its own", "base io device transfer"),
    "src/system": ("what `headrace doctor` finds out", "base io device"),
    "src/capi": ("the C API over the public C++ headers", "base"),
    "backends/io_*": ("engines", "base io"),
    "backends/dev_*": ("devices", "base device"),
    "backends/store_*": ("stores", "base io store http"),
    "backends/http_*": ("transports", "base http"),
    "backends/gds": ("GPUDirect Storage", "base io device"),
    "codecs/*": ("one folder a codec", "base device codec"),
    "tools/*": ("programs", ""),
    "bench/*": ("benchmarks", ""),
    "python/*": ("the Python package", ""),
}
# A codec that nests others may include their device code; on the CPU it asks the table by name. Codecs' launches are
# part of the CUDA plug-in.
EXCEPTIONS = {("codecs/blosc", r"codecs/\w+/\w+_device\.cuh"), (r"codecs/\w+", r"backends/dev_cuda/gpu_launch\.cuh"),
              (r"codecs/\w+", r"codecs/lz77/\w+\.(h|cuh)"), ("codecs/deflate", r"codecs/crc32c/checksum_device\.cuh")}
CUDA_HEADER = re.compile(r"(cuda|cuda_\w+|cooperative_groups|device_launch_parameters|nvtx3/.*|cub/.*|thrust/.*)(\.h|\.cuh|\.hpp)?$")
# Libraries that belong to one folder.
OWNED = {r"liburing\.h|linux/io_uring\.h": "backends/io_uring", r"libaio\.h": "backends/io_aio",
         r"curl/.*": "backends/http_curl", r"(sys/socket|netdb|netinet/.*|arpa/inet)\.h": "backends/http_curl",
         r"cufile\.h": "backends/gds"}
TOPS = ("include", "src", "backends", "codecs", "tools", "bench", "tests", "python")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".c"}
LISTED_LINES, REFUSED_LINES = 600, 1000
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
# What lies behind a public class is reached by src/base/access.h, which no program outside the tree has.
DOOR = re.compile(r"\bimpl\s*\(\s*\)")


def sources(root):
    for top in TOPS:
        yield from (path for path in sorted((root / top).rglob("*")) if path.suffix in SUFFIXES)


def allowed_for(path):
    for folder, (_, layers) in LAYERS.items():
        top, name = folder.split("/")
        if path.parts[0] == top and len(path.parts) > 2 and re.fullmatch(name.replace("*", r"\w*"), path.parts[1]):
            return layers.split()
    return None


def is_test(relative):
    return relative.parts[0] == "tests" or relative.stem.endswith(("_test", "_fuzz", "_bench"))


def check_includes(root, path):
    relative = path.relative_to(root)
    if is_test(relative):
        return
    public = relative.parts[0] == "include"
    allowed = [] if public else allowed_for(relative)
    own = "/".join(relative.parts[:2])
    if allowed is None:
        if relative.parts[0] in ("src", "backends"):
            yield f"{relative}: the folder {own} is not in the table of layers"
        return
    # cufile.h brings cuda.h where there is one, as programs expect of it; nothing else that is public does.
    cuda_home = own in ("backends/dev_cuda", "include/cufile") or (relative.parts[0] == "codecs" and path.suffix in (".cu", ".cuh"))
    if path.suffix in (".cu", ".cuh") and not cuda_home:
        yield f"{relative}: CUDA code belongs in backends/dev_cuda and codecs/*"
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if public and DOOR.search(line):
            yield f"{relative}:{number}: a public class has impl(): code of the tree uses Access (src/base/access.h)"
        match = INCLUDE.match(line)
        if not match:
            continue
        quoted, header = match[1] == '"', match[2]
        where = f"{relative}:{number}: includes {header}"
        if CUDA_HEADER.match(header) and not cuda_home:
            yield f"{where}: CUDA headers belong in backends/dev_cuda and in codecs/*/*.cu"
        for pattern, home in OWNED.items():
            if re.fullmatch(pattern, header) and own != home:
                yield f"{where}: only {home} may"
        if not quoted:
            continue
        if public and not (header == "cufile.h" or header.startswith("headrace/")):
            yield f"{where}: public headers include <headrace/...> and the standard library only"
            continue
        if "/" not in header or header.startswith("headrace/") or (root / own / header).exists():
            continue
        if any(re.fullmatch(folder, own) and re.fullmatch(pattern, header) for folder, pattern in EXCEPTIONS):
            continue
        layer = header.split("/")[0]
        if own != f"src/{layer}" and layer not in allowed:
            yield f"{where}: {own} may include {', '.join(allowed) or 'public headers only'}"


def check_names(root, paths):
    """Base names are unique, so that object files, logs and stack traces say which file is meant. A header of include/
    may share its name with the layer that implements it; each tool has its main.cc."""
    seen = collections.defaultdict(list)
    for path in paths:
        relative = path.relative_to(root)
        if relative.parts[0] != "include" and path.name != "main.cc":
            seen[path.name].append(str(relative))
    for name, places in sorted(seen.items()):
        if len(places) > 1:
            yield f"{name}: the same base name in {' and '.join(places)}"


def check_sizes(root, paths, notes):
    for path in paths:
        lines = path.read_bytes().count(b"\n")
        if lines > REFUSED_LINES:
            yield f"{path.relative_to(root)}: {lines} lines, above {REFUSED_LINES}: split it"
        elif lines > LISTED_LINES:
            notes.append(f"note: {path.relative_to(root)}: {lines} lines, above {LISTED_LINES}")


def check_table(root, write=False):
    """The table of CONTRIBUTING.md between its marks, with the folders that exist."""
    page = root / "CONTRIBUTING.md"
    if not page.exists():
        return
    text = page.read_text()
    before, begin, rest = text.partition("<!-- layers: check_layers.py --write -->\n")
    _, end, after = rest.partition("<!-- end of layers -->")
    rows = ""
    for folder, (what, layers) in LAYERS.items():
        if any(root.glob(folder)):
            there = ", ".join(layer for layer in layers.split() if (root / "src" / layer).exists())
            rows += f"| `{folder}` | {what} | {there or 'public headers only'} |\n"
    made = f"{before}{begin}| folder | is | may include |\n|---|---|---|\n{rows}{end}{after}"
    if not begin or not end:
        yield "CONTRIBUTING.md: the marks around the table of layers are gone"
    elif write:
        page.write_text(made)
    elif made != text:
        yield "CONTRIBUTING.md: its table of layers is not this file's: check_layers.py --write"


def check(root):
    notes = []
    paths = list(sources(root))
    problems = [problem for path in paths for problem in check_includes(root, path)]
    problems += check_names(root, paths)
    problems += check_sizes(root, paths, notes)
    problems += check_table(root)
    return problems, notes


def self_test():
    good = {
        "include/headrace/status.h": "#include <string>\n",
        "src/base/a.h": "", "src/io/a_queue.cc": '#include "base/a.h"\n#include <headrace/status.h>\n',
        "backends/dev_cuda/b.cu": "#include <cuda_runtime.h>\n", "codecs/x/x.cu": "#include <cub/cub.cuh>\n",
        "codecs/x/x_test.cc": '#include "zarr/anything.h"\n', "tools/headrace/main.cc": "#include <headrace/status.h>\n",
    }
    planted = {
        "a layer below including one above": {"src/io/c.cc": '#include "transfer/wave.h"\n'},
        "a store reaching a codec": {"src/store/c.cc": '#include "codec/codec.h"\n'},
        "a tool reaching inside": {"tools/headrace/c.cc": '#include "base/a.h"\n'},
        "the C API reaching inside": {"src/capi/c.cc": '#include "zarr/metadata.h"\n'},
        "a back end including a sibling": {"backends/io_aio/c.cc": '#include "backends/io_uring/ring.h"\n'},
        "a public header including a private one": {"include/headrace/c.h": '#include "base/a.h"\n'},
        "a public class that shows what is behind it": {"include/headrace/c.h": "  const Impl& impl() const;\n"},
        "a CUDA header in a layer": {"src/device/c.cc": "#include <cuda_runtime.h>\n"},
        "a CUDA header in a codec's CPU code": {"codecs/x/c.cc": "#include <cuda_runtime.h>\n"},
        "a .cu file in a layer": {"src/device/c.cu": ""},
        "a socket outside its folder": {"backends/store_file/c.cc": "#include <sys/socket.h>\n"},
        "liburing outside its folder": {"src/io/c.cc": "#include <liburing.h>\n"},
        "a folder that is not in the table": {"src/novel/c.cc": ""},
        "two files of one name": {"src/io/same.cc": "", "src/store/same.cc": ""},
        "a table that says something else": {
            "CONTRIBUTING.md": "<!-- layers: check_layers.py --write -->\n| `src/io` | | zarr |\n<!-- end of layers -->"},
        "a file of 1,001 lines": {"src/io/c.cc": "\n" * 1001},
    }
    failures = 0
    for what, files in {"nothing": {}, **planted}.items():
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**good, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            problems, _ = check(root)
        expected = bool(files)
        if bool(problems) != expected:
            failures += 1
            print(f"self-test: planted {what}: {'not caught' if expected else problems}")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "src/io").mkdir(parents=True)
        (pathlib.Path(folder) / "src/io/long.cc").write_text("\n" * 601)
        problems, notes = check(pathlib.Path(folder))
        if problems or len(notes) != 1:
            failures += 1
            print("self-test: a file of 601 lines must be listed, not refused")
    print(f"self-test: {len(planted)} planted violations, {failures} failures")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.write:
        list(check_table(arguments.root, write=True))
    problems, notes = check(arguments.root)
    print("\n".join(notes + problems) if notes or problems else "every include follows the table")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
