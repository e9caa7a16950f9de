"""Stores that a reader must refuse. cases() yields (name, class of the error, reason, write function).

Every case is a valid array (read_base() below) with one fault. Classes: metadata, codec, checksum, io, security."""
import copy
import json
import os

import numpy as np

import golden_write as w
from golden_cases import BIG, CRC, LITTLE, PLAIN, blosc2, blosc3, gzip, sharding, transpose, values, zstd

SHAPE, CHUNKS = (6, 5), (3, 5)
DATA = values("invalid", "int32", SHAPE)
V2 = {"zarr_format": 2, "shape": list(SHAPE), "chunks": list(CHUNKS), "dtype": "<i4", "compressor": None, "fill_value": 0,
      "order": "C", "filters": None, "dimension_separator": "."}
V3 = {"zarr_format": 3, "node_type": "array", "shape": list(SHAPE), "data_type": "int32",
      "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(CHUNKS)}},
      "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0, "codecs": [LITTLE]}
CHUNK = 3 * 5 * 4
DROP = object()


def write_outside(folder):
    """Writes the targets of links: files whose bytes would decode."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "chunk").write_bytes(DATA[:3].tobytes())
    (folder / "array.json").write_text(json.dumps(V3))
    (folder / "dir").mkdir(exist_ok=True)
    (folder / "dir" / "0").write_bytes(DATA[:3].tobytes())


def document(form, changes=None, base=None, text=None):
    """Writes the valid array, then replaces its document by the bad one."""
    good = {**(V2 if form == 2 else V3), **(base or {})}

    def write(path):
        (w.write_v2 if form == 2 else w.write_v3)(path, good, DATA)
        bad = copy.deepcopy(good)
        for key, value in (changes or {}).items():
            if value is DROP:
                del bad[key]
            else:
                bad[key] = value
        raw = json.dumps(bad) if text is None else text(json.dumps(bad))
        (path / (".zarray" if form == 2 else "zarr.json")).write_bytes(raw if isinstance(raw, bytes) else raw.encode())
    return write


def chunk(form, base, damage):
    """Writes the valid array, then replaces its first chunk or shard by damage(its bytes)."""
    good = {**(V2 if form == 2 else V3), **base}

    def write(path):
        (w.write_v2 if form == 2 else w.write_v3)(path, good, DATA)
        file = path / ("0.0" if form == 2 else "c/0/0")
        file.write_bytes(damage(file.read_bytes()))
    return write


def flip(at, bits=0xFF):
    def damage(raw):
        raw = bytearray(raw)
        raw[at] ^= bits
        return bytes(raw)
    return damage


def put(at, data):
    def damage(raw):
        raw = bytearray(raw)
        start = at if at >= 0 else len(raw) + at
        raw[start:start + len(data)] = data
        return bytes(raw)
    return damage


def recode(form, base, raw):
    """Replaces the first chunk by other bytes, properly encoded."""
    part = np.frombuffer(raw, "u1")
    meta = {**(V2 if form == 2 else V3), **base}
    if form == 2:
        return lambda _: w.v2_chunk(part, meta)
    return lambda _: w.v3_chunk(part, [PLAIN, *meta["codecs"][1:]], 0)


def metadata_cases():
    def two(name, reason, text=None, kind="metadata", **changes):
        return "v2-" + name, kind, reason, document(2, changes, text=text)

    def three(name, reason, text=None, kind="metadata", **changes):
        return "v3-" + name, kind, reason, document(3, changes, text=text)

    for make, label in ((two, "zarray"), (three, "zarr.json")):
        yield make("json-empty", f"{label} is empty", lambda t: "")
        yield make("json-cut", f"{label} ends in the middle", lambda t: t[:-9])
        yield make("json-after", f"{label} goes on after its end", lambda t: t + "}")
        yield make("json-list", f"{label} is a list", lambda t: f"[{t}]")
        yield make("json-deep", f"{label} opens 200000 brackets", lambda t: "[" * 200000)
        yield make("json-utf8", f"{label} is not UTF-8", lambda t: t.encode()[:-1] + b',"x":"\xff\xfe"}')
        yield make("format-string", "zarr_format is a string", zarr_format="3")
        yield make("format-9", "zarr_format 9", zarr_format=9)
        yield make("shape-missing", "no shape", shape=DROP)
        yield make("shape-negative", "negative extent", shape=[-6, 5])
        yield make("shape-fraction", "extent 6.5", shape=[6.5, 5])
        yield make("shape-2p64", "extent 2^64", shape=[2**64, 5])
        yield make("shape-product", "elements overflow 64 bits", shape=[2**40, 2**40])
    yield two("chunks-zero", "chunk extent 0", chunks=[0, 5])
    yield two("chunks-rank", "chunks has another rank than shape", chunks=[3])
    yield two("chunks-product", "chunk bytes overflow 64 bits", chunks=[2**62, 2**62])
    yield two("dtype-unknown", "dtype <q4", dtype="<q4")
    yield two("dtype-size", "dtype <f3", dtype="<f3")
    yield two("dtype-order", "dtype ?i4", dtype="?i4")
    yield two("dtype-field", "structured field without a type", dtype=[["a"]])
    yield two("dtype-field-twice", "two fields of one name", dtype=[["a", "<i2"], ["a", "<i2"]], fill_value=None)
    yield two("order", "order K", order="K")
    yield two("compressor-unknown", "unknown compressor", compressor={"id": "squeeze"})
    yield two("compressor-list", "compressor is a list", compressor=[{"id": "zlib", "level": 1}])
    yield two("filter-unknown", "unknown filter", filters=[{"id": "squeeze"}])
    yield two("filter-object", "filters is an object", filters={"id": "shuffle", "elementsize": 4})
    yield two("fill-word", "fill_value is no integer", fill_value="seven")
    yield two("fill-range", "fill_value beyond int32", fill_value=2**31)
    yield two("separator", "dimension_separator '-'", dimension_separator="-")

    yield three("node-type", "node_type is missing", node_type=DROP)
    yield three("node-group", "the node is a group", text=lambda t: '{"zarr_format": 3, "node_type": "group"}')
    yield three("dtype-unknown", "unknown data type", data_type="int33")
    yield three("dtype-extension", "unknown extension type", data_type={"name": "example.unknown", "configuration": {}})
    yield three("grid-unknown", "unknown chunk grid", chunk_grid={"name": "hexagonal", "configuration": {"chunk_shape": [3, 5]}})
    yield three("grid-rank", "chunk_shape has another rank than shape",
                chunk_grid={"name": "regular", "configuration": {"chunk_shape": [3, 5, 1]}})
    yield three("grid-zero", "chunk extent 0", chunk_grid={"name": "regular", "configuration": {"chunk_shape": [3, 0]}})
    yield three("grid-product", "chunk bytes overflow 64 bits",
                chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2**62, 2**62]}})
    yield three("keys-unknown", "unknown chunk key encoding", chunk_key_encoding={"name": "morton"})
    yield three("keys-separator", "separator '-'", chunk_key_encoding={"name": "default", "configuration": {"separator": "-"}})
    yield three("fill-missing", "no fill_value", fill_value=DROP)
    yield three("fill-null", "fill_value null", fill_value=None)
    yield three("fill-range", "fill_value beyond int32", fill_value=-2**31 - 1)
    yield three("fill-fraction", "fill_value 1.5 of an integer type", fill_value=1.5)
    yield three("names-count", "three dimension names, two dimensions", dimension_names=["a", "b", "c"])
    yield three("unknown-key", "unknown key that must be understood", surprise={"x": 1})
    yield three("transformers", "unknown storage transformer", storage_transformers=[{"name": "scramble"}])
    for name, reason, codecs in (
            ("empty", "no codecs", []), ("unknown", "unknown codec", [LITTLE, {"name": "squeeze"}]),
            ("no-array-to-bytes", "no array-to-bytes codec", [zstd()]), ("two-array-to-bytes", "two array-to-bytes codecs", [LITTLE, BIG]),
            ("order", "bytes-to-bytes codec before the array-to-bytes codec", [zstd(), LITTLE]),
            ("transpose-late", "transpose after bytes", [LITTLE, transpose(1, 0)]),
            ("transpose-twice", "transpose order names an axis twice", [transpose(0, 0), LITTLE]),
            ("transpose-rank", "transpose order has another rank", [transpose(1, 0, 2), LITTLE]),
            ("endian-missing", "bytes without endian for a 4-byte type", [PLAIN]),
            ("endian-word", "endian 'middle'", [{"name": "bytes", "configuration": {"endian": "middle"}}]),
            ("blosc-cname", "unknown blosc compressor", [LITTLE, blosc3("snap")]),
            ("shard-rank", "inner chunk has another rank", [sharding((3,))]),
            ("shard-divide", "inner chunk does not divide the shard", [sharding((2, 5))]),
            ("shard-zero", "inner chunk extent 0", [sharding((0, 5))]),
            ("shard-inner", "no array-to-bytes codec inside", [sharding((1, 5), [zstd()])]),
            ("shard-index", "index codecs of variable size", [sharding((1, 5), index=(LITTLE, gzip()))]),
            ("shard-location", "index_location 'middle'", [sharding((1, 5), location="middle")])):
        yield three("codecs-" + name, reason, codecs=codecs)


def chunk_cases():
    plain2, plain3 = {}, {}
    for form, base in ((2, plain2), (3, plain3)):
        yield f"v{form}-raw-short", "codec", "chunk is a byte short", chunk(form, base, lambda r: r[:-1])
        yield f"v{form}-raw-long", "codec", "chunk is a byte long", chunk(form, base, lambda r: r + b"\0")
        yield f"v{form}-raw-empty", "codec", "chunk file is empty", chunk(form, base, lambda r: b"")
    codecs = {
        "v2-zlib": (2, {"compressor": {"id": "zlib", "level": 6}}), "v2-gzip": (2, {"compressor": {"id": "gzip", "level": 6}}),
        "v2-lz4": (2, {"compressor": {"id": "lz4", "acceleration": 1}}), "v2-blosc": (2, {"compressor": blosc2()}),
        "v3-zstd": (3, {"codecs": [LITTLE, zstd()]}), "v3-gzip": (3, {"codecs": [LITTLE, gzip()]}),
        "v3-blosc": (3, {"codecs": [LITTLE, blosc3("zstd")]}),
    }
    for name, (form, base) in codecs.items():
        yield name + "-cut", "codec", "compressed chunk cut in half", chunk(form, base, lambda r: r[:len(r) // 2])
        yield name + "-rubbish", "codec", "no compressed stream at all", chunk(form, base, lambda r: bytes(range(7, 107)))
        yield name + "-empty", "codec", "chunk file is empty", chunk(form, base, lambda r: b"")
        yield name + "-short", "codec", "expands to 40 bytes, the chunk has 60", chunk(form, base, recode(form, base, bytes(40)))
        yield name + "-long", "codec", "expands to 64 MiB, the chunk has 60 bytes", chunk(form, base, recode(form, base, bytes(64 << 20)))
    check = {"codecs": [LITTLE, zstd(3, True)]}
    yield "v3-zstd-checksum", "checksum", "frame checksum does not match", chunk(3, check, flip(-1))
    yield "v3-gzip-crc", "checksum", "CRC-32 in the trailer does not match", chunk(3, codecs["v3-gzip"][1], flip(-8))
    yield "v2-zlib-adler", "checksum", "Adler-32 does not match", chunk(2, codecs["v2-zlib"][1], flip(-1))
    yield "v3-crc32c-data", "checksum", "a bit changed under the CRC-32C", chunk(3, {"codecs": [LITTLE, CRC]}, flip(11, 4))
    yield "v3-crc32c-sum", "checksum", "the CRC-32C itself changed", chunk(3, {"codecs": [LITTLE, CRC]}, flip(-2))
    yield "v3-crc32c-short", "codec", "three bytes cannot hold a CRC-32C", chunk(3, {"codecs": [LITTLE, CRC]}, lambda r: r[:3])
    yield "v2-lz4-size", "codec", "LZ4 size prefix of 2 GiB", chunk(2, codecs["v2-lz4"][1], put(0, b"\xff\xff\xff\x7f"))
    yield "v2-blosc-nbytes", "codec", "Blosc header promises 1 GiB", chunk(2, codecs["v2-blosc"][1], put(4, b"\0\0\0\x40"))
    yield "v2-blosc-cbytes", "codec", "Blosc header's compressed size is beyond the file", chunk(2, codecs["v2-blosc"][1], put(12, b"\xff\xff\0\0"))
    yield "v3-blosc-version", "codec", "Blosc format version 99", chunk(3, codecs["v3-blosc"][1], put(0, b"\x63"))
    lz4 = {"data_type": "int32", "codecs": [LITTLE, blosc3("lz4")], "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [60, 50]}},
           "shape": [60, 50]}
    smooth = np.tile(np.arange(50, dtype="i4"), (60, 1))

    def offset(path):
        w.write_v3(path, {**V3, **lz4}, smooth)
        file = path / "c/0/0"
        raw = file.read_bytes()
        assert not raw[2] & 2  # compressed: a block offset follows the header
        file.write_bytes(put(16, b"\xff\xff\xff\x7f")(raw))
    yield "v3-blosc-block-offset", "codec", "Blosc block starts beyond the file", offset


def shard_cases():
    base = {"codecs": [sharding((1, 5), [LITTLE, zstd()])]}
    plain = {"codecs": [sharding((1, 5), [LITTLE], (LITTLE,))]}  # no checksum, so the entries can be changed
    start = {"codecs": [sharding((1, 5), [LITTLE], (LITTLE,), "start")]}
    number = lambda n: n.to_bytes(8, "little")  # noqa: E731
    yield "v3-shard-empty", "codec", "shard file is empty", chunk(3, base, lambda r: b"")
    yield "v3-shard-short", "codec", "shard is shorter than its index", chunk(3, base, lambda r: r[-20:])
    yield "v3-shard-index-crc", "checksum", "shard index does not match its CRC-32C", chunk(3, base, flip(-10))
    yield "v3-shard-index-sum", "checksum", "CRC-32C of the shard index changed", chunk(3, base, flip(-1))
    yield "v3-shard-cut", "checksum", "last byte of the shard is missing", chunk(3, base, lambda r: r[:-1])
    yield "v3-shard-offset", "codec", "inner chunk beyond the shard", chunk(3, plain, put(-48, number(10**6)))
    yield "v3-shard-offset-2p63", "codec", "offset 2^63", chunk(3, plain, put(-48, number(2**63)))
    yield "v3-shard-wrap", "codec", "offset + nbytes wraps around", chunk(3, plain, put(-48, number(2**64 - 10) + number(30)))
    yield "v3-shard-nbytes", "codec", "inner chunk of 2^40 bytes", chunk(3, plain, put(-40, number(2**40)))
    yield "v3-shard-nbytes-short", "codec", "inner chunk a byte short", chunk(3, plain, put(-40, number(19)))
    yield "v3-shard-half-absent", "codec", "offset says absent, nbytes does not", chunk(3, plain, put(-48, number(2**64 - 1)))
    yield "v3-shard-start-offset", "codec", "inner chunk beyond the shard, index at the start", chunk(3, start, put(0, number(10**6)))
    yield "v3-shard-wrong-end", "checksum", "index stored at the other end", \
        chunk(3, {"codecs": [sharding((1, 5), location="start")]}, lambda r: r[52:] + r[:52])
    yield "v3-shard-inner-rubbish", "codec", "inner frame is rubbish", chunk(3, base, put(0, b"\0\1\2\3"))
    inner = {"codecs": [sharding((1, 5), [LITTLE, CRC])]}
    yield "v3-shard-inner-crc", "checksum", "a bit changed in an inner chunk under its CRC-32C", chunk(3, inner, flip(3))
    nested = {"codecs": [sharding((3, 5), [sharding((1, 5))])]}
    yield "v3-shard-nested-crc", "checksum", "nested index does not match its CRC-32C", chunk(3, nested, flip(60))


def file_cases():
    def after(change, form=3):
        def write(path):
            (w.write_v2 if form == 2 else w.write_v3)(path, V2 if form == 2 else V3, DATA)
            change(path)
        return write

    def nothing(path):
        path.mkdir(parents=True)
        (path / "unrelated").write_text("no array here")

    def group(path):
        path.mkdir(parents=True)
        (path / ".zgroup").write_text('{"zarr_format": 2}')

    def directory(path):
        (path / "c/0/0").unlink()
        (path / "c/0/0").mkdir()

    def link(at, to):
        def change(path):
            file = path / at
            if file.exists():
                file.unlink() if file.is_file() else [p.unlink() for p in file.iterdir()] and file.rmdir()
            os.symlink(to, file)
        return change

    def fifo(path):
        (path / "c/0/0").unlink()
        os.mkfifo(path / "c/0/0")

    yield "none", "io", "no metadata at all", nothing
    yield "v2-group", "metadata", "a group, not an array", group
    yield "v3-chunk-directory", "io", "a folder where a chunk should be", after(directory)
    yield "v3-chunk-fifo", "io", "a FIFO where a chunk should be", after(fifo)
    yield "v3-chunk-loop", "io", "a chunk is a link to itself", after(link("c/0/0", "0"))
    yield "v3-chunk-link-out", "security", "a chunk is a link out of the store", after(link("c/0/0", "../../../../outside/chunk"))
    yield "v2-chunk-link-out", "security", "a chunk is a link out of the store", after(link("0.0", "../../outside/chunk"), 2)
    yield "v3-folder-link-out", "security", "a chunk's folder is a link out of the store", after(link("c/0", "../../../outside/dir"))
    yield "v3-chunk-link-device", "security", "a chunk is a link to an endless device", after(link("c/0/0", "/dev/zero"))
    for label, separator in (("dotdot", ".."), ("up", "/../"), ("absolute", "//")):
        yield f"v2-separator-{label}", "security", f"dimension_separator {separator!r} would leave the array", \
            document(2, {"dimension_separator": separator})
        yield f"v3-separator-{label}", "security", f"separator {separator!r} would leave the array", \
            document(3, {"chunk_key_encoding": {"name": "default", "configuration": {"separator": separator}}})


def cases():
    for source in (metadata_cases, chunk_cases, shard_cases, file_cases):
        for name, kind, reason, write in source():
            yield "invalid-" + name, kind, reason, write
