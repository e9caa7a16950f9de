#!/usr/bin/env python3
"""Fails if a file includes a header that its layer may not, if a public class exposes its implementation, if names of
files or types clash, or if a file grows too long.

  check_layers.py [--root DIR] [--self-test] [--write]

The table below is the architecture: to allow a new dependency, change it here, where a reviewer sees it.
CONTRIBUTING.md shows the table for the folders that exist and is checked; --write regenerates it there. Layers with
many files are divided into rooms: a room names layers and rooms of its own layer, and a row "src/zarr" covers the files
outside all rooms. --self-test plants one violation of each rule in a scratch tree and checks that it is caught."""
import argparse
import collections
import pathlib
import re
import sys
import tempfile

LOW = "base os io device store codec"
LAYERS = {  # folder: its purpose, and the parts of src/ whose headers it may include; its own folder and include/headrace are always allowed
    "src/base": ("Status, checked arithmetic, JSON, budgets, clock, trace, fault points", ""),
    "src/os": ("files, page cache, descriptors, memory pages, machine limits and devices", "base"),
    "src/io": ("Engine interface, request queue", "base os"),
    "src/device": ("Device interface, strided box copy", "base os"),
    "src/codec": ("Codec interface, codec chain", "base os device"),
    "src/http": ("ranges, retries and credentials over a transport", "base os"),
    "src/cache": ("ranges of remote objects on a local disk", "base os"),
    "src/store": ("Store interface, key rules", "base os io cache"),
    "src/transfer/threads": ("worker threads and their CPU affinity", "base os"),
    "src/transfer/pagecache": ("mapped files, read history, choice of path for each range", f"{LOW} threads"),
    "src/transfer/placement": ("which processor decodes", LOW),
    "src/transfer/plan": ("what a read must fetch, and its statistics", f"{LOW} placement"),
    "src/transfer/fetch": ("opening, reading and verifying stored bytes; the I/O service", f"{LOW} threads pagecache plan"),
    "src/transfer/context": ("state shared by all reads of a Context", f"{LOW} threads pagecache placement plan fetch"),
    "src/transfer/read": ("waves: the scheduler, reads, sinks", f"{LOW} threads pagecache placement plan fetch context"),
    "src/transfer/files": ("FileQueue: files and memory, without chunks", f"{LOW} threads pagecache fetch context"),
    "src/zarr/metadata": ("metadata documents of arrays and groups, and their lookup", LOW),
    "src/zarr/select": ("resolving selections", "base"),
    "src/zarr/grid": ("which chunks a selection touches", f"{LOW} transfer/plan metadata select"),
    "src/zarr/shard": ("codec chains, shards and their indexes", f"{LOW} transfer/plan metadata grid"),
    "src/zarr/array": ("the state of an open array", f"{LOW} transfer metadata select grid shard"),
    "src/zarr/plan": ("plans from selections of an array", f"{LOW} transfer metadata select grid shard array"),
    "src/zarr/index": ("decode indexes, cached encoded chunks", f"{LOW} transfer metadata select grid shard array plan"),
    "src/zarr": ("arrays and groups of the public API", f"{LOW} transfer"),
    "src/loader/sampling": ("samples, their order, ranks, state", "base"),
    "src/loader": ("batches read ahead", f"{LOW} transfer zarr"),
    "src/cufile": ("the C interface of libcufile.so.0, a library of its own", "base os io device transfer"),
    "src/system": ("the checks and measurements of `headrace doctor`", "base os io device store http"),
    "src/capi": ("the C API over the public C++ headers", "base"),
    "backends/io_*": ("engines", "base os io"),
    "backends/dev_*": ("devices", "base os device"),
    "backends/store_*": ("stores", "base os io store http"),
    "backends/http_*": ("transports", "base os http"),
    "codecs/*": ("one folder per codec", "base os device codec"),
    "tools/*": ("programs", ""),
    "bench/*": ("benchmarks", ""),
    "python/*": ("the Python package", ""),
}
# A codec that nests others may include their device code; on the CPU it looks them up in the table. Codecs' kernel
# launches are part of the CUDA plug-in.
EXCEPTIONS = {("codecs/blosc", r"codecs/\w+/\w+_device\.cuh"), (r"codecs/\w+", r"backends/dev_cuda/gpu_launch\.cuh"),
              (r"codecs/\w+", r"codecs/lz77/\w+\.(h|cuh)"), ("codecs/deflate", r"codecs/crc32c/checksum_sums_device\.cuh")}
CUDA_HEADER = re.compile(r"(cuda|cuda_\w+|cooperative_groups|device_launch_parameters|nvtx3/.*|cub/.*|thrust/.*)(\.h|\.cuh|\.hpp)?$")
# Headers that only one folder may include.
OWNED = {r"liburing\.h|linux/io_uring\.h": "backends/io_uring", r"libaio\.h": "backends/io_aio",
         r"curl/.*": "backends/http_curl", r"(sys/socket|netdb|netinet/.*|arpa/inet)\.h": "backends/http_curl",
         r"cufile\.h": "include/cufile", r"nanobind/stl/.*": "python/src/casters.h"}
TOPS = ("include", "src", "backends", "codecs", "tools", "bench", "tests", "python")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".c"}
LISTED_LINES, REFUSED_LINES = 600, 1000
TYPE = re.compile(r"^(?:struct|class|enum class)\s+(?:HEADRACE_\w+ )?(\w+)(?: final)?\s*(?::[^:;]*)?\{", re.M)
# A layer's interface and its public handle share these names. GPU decoders have a namespace each and use the same names
# for the same roles.
TWO_TYPES = {"Device", "Store"}
INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
# Code of this tree reaches the implementation of a public class through src/base/access.h; programs outside cannot.
DOOR = re.compile(r"\bimpl\s*\(\s*\)")


def sources(root):
    for top in TOPS:
        yield from (path for path in sorted((root / top).rglob("*")) if path.suffix in SUFFIXES)


def home_of(path):
    """The row of the table for a file, and what it may include: layers, and rooms prefixed with their layer's name."""
    rows = []
    for folder in LAYERS:
        parts = folder.split("/")
        if len(path.parts) > len(parts) and all(re.fullmatch(want.replace("*", r"\w*"), part) for want, part in zip(parts, path.parts)):
            rows.append(folder)
    if not rows:
        return None, None
    row = max(rows, key=len)
    if len(path.parts) > len(row.split("/")) + 1 and any(folder.startswith(row + "/") for folder in LAYERS):
        return None, None  # a room without a row in the table
    top = row.split("/")[1]
    rooms = {folder.split("/")[2] for folder in LAYERS if folder.startswith(f"src/{top}/")}
    allowed = [f"{top}/{word}" if word in rooms else word for word in LAYERS[row][1].split()]
    if f"src/{top}" == row:
        allowed += [f"{top}/{room}" for room in rooms]
    return row, allowed


def is_test(relative):
    return relative.parts[0] == "tests" or relative.stem.endswith(("_test", "_fuzz", "_bench"))


def check_includes(root, path):
    relative = path.relative_to(root)
    if is_test(relative):
        return
    public = relative.parts[0] == "include"
    row, allowed = (None, []) if public else home_of(relative)
    own = "/".join(relative.parts[:len(row.split("/")) if row else 2])
    if allowed is None:
        if relative.parts[0] in ("src", "backends"):
            yield f"{relative}: the folder {'/'.join(relative.parts[:-1])} is not in the table of layers"
        return
    # cufile.h includes cuda.h if it exists, as programs expect; no other public header does.
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
            if re.fullmatch(pattern, header) and home not in (own, str(relative)):
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
        folder = header.rpartition("/")[0]
        if own != f"src/{folder}" and not {folder, folder.split("/")[0]} & set(allowed):
            yield f"{where}: {own} may include {', '.join(allowed) or 'public headers only'}"


def check_names(root, paths):
    """Base names are unique, so that object files, logs and stack traces identify the file. A header of include/ may
    share its name with the layer that implements it; each tool has a main.cc."""
    seen = collections.defaultdict(list)
    for path in paths:
        relative = path.relative_to(root)
        if relative.parts[0] != "include" and path.name != "main.cc":
            seen[path.name].append(str(relative))
    for name, places in sorted(seen.items()):
        if len(places) > 1:
            yield f"{name}: the same base name in {' and '.join(places)}"


def check_types(root, paths):
    """Types declared in headers have unique names, so that a name means one thing (docs/reference/glossary.md)."""
    seen = collections.defaultdict(list)
    for path in paths:
        relative = path.relative_to(root)
        if path.suffix == ".h" and relative.parts[0] in ("include", "src", "backends", "tools") and not is_test(relative):
            for name in TYPE.findall(path.read_text(errors="replace")):
                seen[name].append(str(relative))
    for name, places in sorted(seen.items()):
        if len(places) > 1 and name not in TWO_TYPES:
            yield f"{name}: types of one name in {' and '.join(places)}"


def check_sizes(root, paths, notes):
    for path in paths:
        lines = path.read_bytes().count(b"\n")
        if lines > REFUSED_LINES:
            yield f"{path.relative_to(root)}: {lines} lines, above {REFUSED_LINES}: split it"
        elif lines > LISTED_LINES:
            notes.append(f"note: {path.relative_to(root)}: {lines} lines, above {LISTED_LINES}")


def check_table(root, write=False):
    """The table of CONTRIBUTING.md between its markers, with the folders that exist."""
    page = root / "CONTRIBUTING.md"
    if not page.exists():
        return
    text = page.read_text()
    before, begin, rest = text.partition("<!-- layers: check_layers.py --write -->\n")
    _, end, after = rest.partition("<!-- end of layers -->")
    rows = ""
    for folder, (what, layers) in LAYERS.items():
        if any(root.glob(folder)):
            own = root / "/".join(folder.split("/")[:2])
            there = ", ".join(layer for layer in layers.split() if (root / "src" / layer).exists() or (own / layer).exists())
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
    problems += check_types(root, paths)
    problems += check_sizes(root, paths, notes)
    problems += check_table(root)
    return problems, notes


def self_test():
    good = {
        "include/headrace/status.h": "#include <string>\n",
        "src/base/a.h": "", "src/io/a_queue.cc": '#include "base/a.h"\n#include <headrace/status.h>\n',
        "backends/dev_cuda/b.cu": "#include <cuda_runtime.h>\n", "codecs/x/x.cu": "#include <cub/cub.cuh>\n",
        "codecs/x/x_test.cc": '#include "zarr/anything.h"\n',
        "src/zarr/a.cc": '#include "zarr/plan/a_plan.h"\n#include "transfer/read/a_read.h"\n',
        "src/transfer/read/a_read.cc": '#include "transfer/plan/a.h"\n#include "os/a.h"\n', "tools/headrace/main.cc": "#include <headrace/status.h>\n",
    }
    planted = {
        "a layer below including one above": {"src/io/c.cc": '#include "transfer/read/wave.h"\n'},
        "a store reaching a codec": {"src/store/c.cc": '#include "codec/codec.h"\n'},
        "a tool reaching inside": {"tools/headrace/c.cc": '#include "base/a.h"\n'},
        "the C API reaching inside": {"src/capi/c.cc": '#include "zarr/metadata/metadata.h"\n'},
        "a back end including a sibling": {"backends/io_aio/c.cc": '#include "backends/io_uring/ring.h"\n'},
        "a public header including a private one": {"include/headrace/c.h": '#include "base/a.h"\n'},
        "a public class that shows what is behind it": {"include/headrace/c.h": "  const Impl& impl() const;\n"},
        "a CUDA header in a layer": {"src/device/c.cc": "#include <cuda_runtime.h>\n"},
        "a CUDA header in a codec's CPU code": {"codecs/x/c.cc": "#include <cuda_runtime.h>\n"},
        "a .cu file in a layer": {"src/device/c.cu": ""},
        "a socket outside its folder": {"backends/store_file/c.cc": "#include <sys/socket.h>\n"},
        "liburing outside its folder": {"src/io/c.cc": "#include <liburing.h>\n"},
        "a conversion of nanobind outside its header": {"python/src/c.cc": "#include <nanobind/stl/tuple.h>\n"},
        "a folder that is not in the table": {"src/novel/c.cc": ""},
        "a room that is not in the table": {"src/transfer/novel/c.cc": ""},
        "a room including one above": {"src/transfer/fetch/c.cc": '#include "transfer/read/wave.h"\n'},
        "a room reaching past its row": {"src/zarr/grid/c.cc": '#include "transfer/read/wave.h"\n'},
        "a room including the files above the rooms": {"src/zarr/plan/c.cc": '#include "zarr/hierarchy.h"\n'},
        "two files of one name": {"src/io/same.cc": "", "src/store/same.cc": ""},
        "two types of one name": {"src/io/a_wave.h": "struct Wave {\n", "src/store/b_wave.h": "class Wave final : public Other {\n"},
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
