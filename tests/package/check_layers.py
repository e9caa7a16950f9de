#!/usr/bin/env python3
"""Fails where a file includes what its layer may not.

The table below is the architecture: whoever needs a new arrow changes it here, in view of a reviewer."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = {  # folder: layers of src/ whose headers it may include; its own folder and include/headrace always
    "src/base": "",
    "src/io": "base",
    "src/device": "base",
    "src/codec": "base",
    "src/http": "base",
    "src/store": "base io",
    "src/transfer": "base io device store codec",
    "src/zarr": "base io device store codec transfer",
    "src/loader": "base io device store codec transfer zarr",
    "src/cufile": "base io device transfer",
    "backends/io_*": "base io",
    "backends/dev_*": "base device",
    "backends/store_*": "base io store http",
    "backends/http_*": "base http",
    "codecs/*": "base codec",
    "tools/*": "",
    "bench/*": "",
}
# A codec that nests others may include their device code; on the CPU it asks the table by name.
EXCEPTIONS = {("codecs/blosc", r"codecs/\w+/\w+_device\.cuh")}
CUDA_HEADER = re.compile(r"(cuda|cuda_runtime|cuda_runtime_api|cuda_fp16|device_launch_parameters|cub/.*|thrust/.*)(\.h|\.cuh)?$")
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".c"}


def allowed_for(path):
    for folder, layers in LAYERS.items():
        top, name = folder.split("/")
        if path.parts[0] == top and len(path.parts) > 2 and re.fullmatch(name.replace("*", r"\w*"), path.parts[1]):
            return layers.split()
    return None


def check_file(path):
    relative = path.relative_to(ROOT)
    if path.stem.endswith(("_test", "_fuzz", "_bench")):
        return
    public = relative.parts[0] == "include"
    allowed = [] if public else allowed_for(relative)
    if allowed is None:
        return
    own = "/".join(relative.parts[:2])
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
        if not match:
            continue
        quoted, header = match[1] == '"', match[2]
        where = f"{relative}:{number}: includes {header}"
        if CUDA_HEADER.match(header) and not (own == "backends/dev_cuda" or path.suffix in (".cu", ".cuh")):
            yield f"{where}: CUDA headers belong in backends/dev_cuda and in .cu files"
        if not quoted:
            continue
        if public:
            yield f"{where}: public headers include <headrace/...> and the standard library only"
            continue
        if "/" not in header or (ROOT / own / header).exists() or header.startswith("headrace/"):
            continue
        if any(own == folder and re.fullmatch(pattern, header) for folder, pattern in EXCEPTIONS):
            continue
        layer = header.split("/")[0]
        if own != f"src/{layer}" and layer not in allowed:
            yield f"{where}: {own} may include {', '.join(allowed) or 'public headers only'}"


def main():
    found = [problem for top in ("include", "src", "backends", "codecs", "tools", "bench")
             for path in sorted((ROOT / top).rglob("*")) if path.suffix in SUFFIXES for problem in check_file(path)]
    print("\n".join(found) or "every include follows the table")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
