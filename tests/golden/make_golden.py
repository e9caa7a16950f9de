#!/usr/bin/env python3
"""Writes golden.tar.xz: small Zarr arrays with the digests of their values, and stores that must be refused.

  make_golden.py [--out FILE] [--keep DIR] [--only REGEX]

Needs zarr >= 3, tensorstore, zarrs, numcodecs, numpy; check_golden.py needs none of them. golden_cases.py and
golden_formats.py define the arrays, golden_invalid.py the stores to refuse, golden_write.py the encoder. The same
package versions produce the same archive."""
import argparse
import base64
import contextlib
import hashlib
import importlib.metadata
import io
import json
import lzma
import multiprocessing
import os
import pathlib
import re
import resource
import shutil
import sys
import tarfile
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import golden_cases  # noqa: E402
import golden_formats  # noqa: E402
import golden_invalid  # noqa: E402
from golden_write import canonical  # noqa: E402

PACKAGES = ("zarr", "tensorstore", "zarrs", "numcodecs", "numpy")
READERS = ("zarr-python", "tensorstore", "zarrs")


def values_of(store):
    """Reads a TensorStore. It returns bytes and chars as NumPy items of length 0, so these are copied one by one."""
    import tensorstore

    if store.dtype not in (tensorstore.char, tensorstore.byte):
        return store.read().result()
    out = np.zeros(store.shape, "S1")
    tensorstore.array(out, dtype=tensorstore.char, copy=False).write(store).result()
    return out


def as_struct(columns, meta):
    """A structured array, assembled from the fields that tensorstore reads one by one."""
    out = np.empty(meta["shape"], [tuple(f) for f in meta["dtype"]])
    for name, column in columns.items():
        out[name] = column.view(out.dtype[name].base).reshape(out[name].shape) if out.dtype[name].kind in "SV" \
            and not out.dtype[name].subdtype else column
    return out


def read(reader, path):
    """The array's values from one reader."""
    file = next((p for p in (path, *path.parents) if p.suffix in (".zip", ".json")), None)
    if file is not None:
        return read_file(reader, file, path.relative_to(file).as_posix().removeprefix("."))
    if reader == "tensorstore":
        import tensorstore

        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
        fields = None
        if (path / ".zarray").exists():
            spec["driver"], dtype = "zarr", json.loads((path / ".zarray").read_text())["dtype"]
            fields = [f[0] for f in dtype] if isinstance(dtype, list) else None
        if not fields:
            return values_of(tensorstore.open(spec, read=True).result())
        columns = {f: values_of(tensorstore.open({**spec, "field": f}, read=True).result()) for f in fields}
        return as_struct(columns, json.loads((path / ".zarray").read_text()))
    import zarr

    if reader == "zarrs":
        import zarrs  # noqa: F401

        pipeline = "zarrs.ZarrsCodecPipeline"
    else:
        pipeline = "zarr.core.codec_pipeline.BatchedCodecPipeline"
    with zarr.config.set({"codec_pipeline.path": pipeline, "codec_pipeline.strict": True, "array.rectilinear_chunks": True}):
        return zarr.open_array(str(path), mode="r")[...]


def read_file(reader, file, array):
    """An array in a single-file store. Two readers read ZIP files; reference files would need packages that are not
    installed."""
    if file.suffix == ".zip" and reader == "zarr-python":
        import zarr

        return zarr.open_array(zarr.storage.ZipStore(file, mode="r"), path=array, mode="r")[...]
    if file.suffix == ".zip" and reader == "tensorstore":
        import tensorstore

        for driver in ("zarr", "zarr3"):
            spec = {"driver": driver, "kvstore": {"driver": "zip", "base": f"file://{file}", "path": array and array + "/"}}
            with contextlib.suppress(ValueError):
                return values_of(tensorstore.open(spec, read=True).result())
    raise NotImplementedError(f"{reader} does not read {file.suffix} here")


def written():
    for source in (golden_cases, golden_formats):
        yield from source.cases()


def facts(path, store):
    """Format, codecs and, if NumPy has no name for it, data type: what check_golden.py may need to know about an array."""
    for name in (".zarray", "zarr.json"):
        if (path / name).exists():
            document = json.loads((path / name).read_text())
            return document["zarr_format"], {k: document[k] for k in ("codecs", "compressor", "filters") if document.get(k)}, \
                document.get("dtype", document.get("data_type"))
    return 2 if "v2" in store else 3, {}, None


def answer(reader, path, queue):
    """Runs in a child process, because hostile stores may crash the reader."""
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    try:
        data = read(reader, path)
        raw = canonical(data)
        queue.put(("ok", hashlib.sha256(raw).hexdigest(), len(raw)))
    except BaseException as error:  # noqa: BLE001 - any exception of a reader is its answer
        queue.put(("error", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160], 0))


class Pool:
    """One process per reader and question, forked from a parent that never starts a thread."""

    def __init__(self):
        self.context = multiprocessing.get_context("fork")

    def ask(self, reader, path, timeout=10):
        queue = self.context.SimpleQueue()
        child = self.context.Process(target=answer, args=(reader, path, queue))
        child.start()
        child.join(timeout)
        if child.is_alive():
            child.kill()
            child.join()
            return "hangs", "", 0
        return queue.get() if not queue.empty() else ("crashes", f"exit {child.exitcode}", 0)

    def call(self, function, *args):
        """Returns a function's result from a child process: tensorstore and zarr start threads, which do not survive a
        fork."""
        queue = self.context.Queue()
        child = self.context.Process(target=lambda: queue.put(function(*args)))
        child.start()
        result = queue.get()
        child.join()
        return result


def write_valid(root, pattern):
    rows = []
    for name, store, array, write, data in written():
        if not re.search(pattern, name):
            continue
        path = root / "arrays" / store / array
        write(root / "arrays" / store if store.endswith((".zip", ".json")) else path)
        raw = canonical(data)
        form, codecs, dtype = facts(path, store)
        rows.append({"name": name, "store": f"arrays/{store}", "array": array, "zarr_format": form, "shape": list(data.shape),
                     "dtype": dtype if data.dtype.kind == "O" else str(data.dtype), **codecs, "nbytes": len(raw),
                     "sha256": hashlib.sha256(raw).hexdigest()})
    if not pattern:
        golden_cases.write_groups(root / "arrays")
    return rows


def with_base64_fill(path, scratch):
    """A copy with the fill_value in base64, which tensorstore requires for raw bits and the specification allows."""
    copy = scratch / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    document = json.loads((copy / "zarr.json").read_text())
    document["fill_value"] = base64.b64encode(bytes(document["fill_value"])).decode()
    (copy / "zarr.json").write_text(json.dumps(document))
    return copy


def build_valid(root, pattern, pool):
    rows = pool.call(write_valid, root, pattern)
    for row in rows:
        agree, others = ["source"], {}
        for reader in READERS:
            state, what, _ = pool.ask(reader, root / row["store"] / row["array"])
            if state == "ok" and what == row["sha256"]:
                agree.append(reader)
            else:
                others[reader] = "other bytes" if state == "ok" else f"{state}: {what}".replace(str(root), "")
        if agree == ["source"] and row["dtype"].startswith("|V") and row["zarr_format"] == 3:
            with tempfile.TemporaryDirectory() as scratch:
                copy = with_base64_fill(root / row["store"] / row["array"], pathlib.Path(scratch))
                if pool.ask("tensorstore", copy)[1] == row["sha256"]:
                    agree.append("tensorstore under base64 fill_value")
        row["agree"] = agree
        if others:
            row["others"] = others
    return rows


def build_invalid(root, pattern, pool):
    golden_invalid.write_outside(root / "outside")
    rows = []
    for name, kind, reason, write in golden_invalid.cases():
        if not re.search(pattern, name):
            continue
        path = root / "invalid" / (name + ".zarr")
        write(path)
        rows.append({"name": name, "store": f"invalid/{name}.zarr", "array": "", "class": kind, "level": "must", "reason": reason})
    for row in rows:
        row["readers"] = {}
        for reader in READERS[:2]:
            state = pool.ask(reader, root / row["store"])[0]
            row["readers"][reader] = {"ok": "accepts", "error": "refuses"}.get(state, state)
    return rows


def pack(root, out):
    """A tar file whose bytes depend only on the content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*"), key=lambda p: p.relative_to(root).as_posix()):
            info = tar.gettarinfo(str(path), path.relative_to(root).as_posix())
            info.uid = info.gid = info.mtime = 0
            info.uname = info.gname = ""
            info.mode = 0o755 if path.is_dir() and not path.is_symlink() else 0o644
            with contextlib.ExitStack() as stack:
                tar.addfile(info, stack.enter_context(open(path, "rb")) if info.isreg() else None)
    out.write_bytes(lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "golden.tar.xz")
    parser.add_argument("--keep", type=pathlib.Path, help="build in this folder and leave it there")
    parser.add_argument("--only", default="", help="regular expression on names; the archive then holds only these")
    args = parser.parse_args()
    for name in PACKAGES:
        __import__(name)
    with tempfile.TemporaryDirectory() as scratch:
        root = args.keep or pathlib.Path(scratch)
        if args.keep:
            shutil.rmtree(root, ignore_errors=True)
            root.mkdir(parents=True)
        pool = Pool()
        arrays, invalid = build_valid(root, args.only, pool), build_invalid(root, args.only, pool)
        document = {
            "about": "arrays: sha256 and nbytes are of the decoded array, C order, little endian, packed; agree names who yields them. "
                     "cases: stores to refuse, with the class of the error; readers is for information.",
            "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
            "arrays": arrays, "cases": invalid,
        }
        (root / "manifest.json").write_text(json.dumps(document, indent=1) + "\n")
        pack(root, args.out)
    for row in arrays:
        if len(row["agree"]) < 3:
            print(f"{row['name']}: only {', '.join(row['agree'])}; {row['others']}")
        elif any(v == "other bytes" for v in row.get("others", {}).values()):
            print(f"{row['name']}: other bytes from {row['others']}")
    for row in invalid:
        if "refuses" not in row["readers"].values():
            print(f"invalid {row['name']}: {row['readers']} ({row['reason']})")
    print(f"{len(arrays)} arrays, {len(invalid)} stores to refuse, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
