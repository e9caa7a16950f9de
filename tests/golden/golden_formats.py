"""Arrays that other writers encode, because golden_cases.py does not: further codecs, strings, single-file stores,
grids, consolidated metadata. Yields the same tuples as golden_cases.cases()."""
import base64
import gzip
import json
import lzma
import pathlib
import tempfile
import zipfile

import numcodecs
import numpy as np

import golden_write as w
from golden_cases import BIG, CRC, LITTLE, PLAIN, blosc2, blosc3, sharding, transpose, v2, v3, values, zstd


def v2_document(dtype, shape, chunks, compressor=None, filters=None, order="C", fill=0):
    return {"zarr_format": 2, "shape": list(shape), "chunks": list(chunks), "dtype": dtype, "compressor": compressor, "fill_value": fill,
            "order": order, "filters": filters, "dimension_separator": "."}


def coded(name, dtype, filters, compressor, data, shape=(13, 10), chunks=(4, 3), fill=0):
    """A v2 array whose chunks numcodecs encodes, one codec after the other, from the configurations in its document."""
    def write(path):
        path.mkdir(parents=True)
        (path / ".zarray").write_text(json.dumps(v2_document(dtype, shape, chunks, compressor, filters or None, fill=fill), indent=1))
        for index in w.grid(shape, chunks):
            part = np.ascontiguousarray(w.take(data, index, chunks, fill)).astype(dtype).reshape(-1)
            for config in [*filters, *([compressor] if compressor else [])]:
                part = numcodecs.get_codec(dict(config)).encode(part)
            (path / ".".join(map(str, index))).write_bytes(np.ascontiguousarray(part).tobytes() if isinstance(part, np.ndarray) else bytes(part))
    return name, name + ".zarr", "", write, data


def replaced(name, make, data, codecs, fill=(0, 0)):
    """An array of one chunk whose stored bytes are make(its elements)."""
    _, _, _, write, data = v3(name, str(data.dtype), data.shape, data.shape, data=data, fill=fill)

    def rewrite(path):
        write(path)
        document = json.loads((path / "zarr.json").read_text())
        (path / "zarr.json").write_text(json.dumps({**document, "codecs": codecs}, indent=1))
        (path / "/".join(["c", *["0"] * data.ndim])).write_bytes(make(data.astype("<" + data.dtype.str[1:]).tobytes()))
    return name, name + ".zarr", "", rewrite, data


def frame(raw):
    return bytes(numcodecs.Zstd(3).encode(raw))


def one_of_unknown_size(raw):
    """A zstd frame without a content size: one raw block after a header with a window."""
    blocks = [raw[i:i + 1000] for i in range(0, len(raw), 1000)]
    return b"\x28\xb5\x2f\xfd\0\0" + b"".join(((len(b) << 3) | (i == len(blocks) - 1)).to_bytes(3, "little") + b for i, b in enumerate(blocks))


def codec_cases():
    ints, floats = values("codecs", "int32", (13, 10)), values("codecs-f", "float64", (13, 10))
    steps = np.round(np.abs(np.nan_to_num(floats, posinf=3, neginf=1)) % 50 * 8) / 8
    chain = [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
    for level in (1, 9):
        yield coded(f"v2-bz2-{level}", "<i4", [], {"id": "bz2", "level": level}, ints)
    for label, config in (("xz", {"format": 1, "check": -1, "preset": None, "filters": None}), ("xz-sha256", {"format": 1, "check": 10, "preset": 1, "filters": None}),
                          ("xz-none", {"format": 1, "check": 0, "preset": 6, "filters": None}),
                          ("alone", {"format": 2, "check": -1, "preset": 1, "filters": None}),
                          ("raw-delta", {"format": 3, "check": -1, "preset": None, "filters": chain}),
                          ("raw-x86", {"format": 3, "check": -1, "preset": None, "filters": [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 1}]})):
        yield coded("v2-lzma-" + label, "<i4", [], {"id": "lzma", **config}, ints)
    for name in ("crc32", "adler32", "fletcher32", "crc32c", "jenkins_lookup3"):
        yield coded("v2-filter-" + name, "<i4", [{"id": name}], {"id": "zlib", "level": 1}, ints)
    yield coded("v2-filter-crc32-end", "<i4", [{"id": "crc32", "location": "end"}], None, ints)
    yield coded("v2-filter-delta", "<i4", [{"id": "delta", "dtype": "<i4"}], blosc2(), ints)
    yield coded("v2-filter-delta-big-endian", ">u2", [{"id": "delta", "dtype": ">u2", "astype": ">u2"}], None, values("delta", "uint16", (13, 10)))
    yield coded("v2-filter-delta-shuffle", "<i8", [{"id": "delta", "dtype": "<i8"}, {"id": "shuffle", "elementsize": 8}], {"id": "zlib", "level": 5},
                values("delta8", "int64", (13, 10)))
    yield coded("v2-filter-astype", "<i2", [{"id": "astype", "encode_dtype": "<f8", "decode_dtype": "<i2"}], None, values("astype", "int16", (13, 10)))
    yield coded("v2-filter-scale", "<f8", [{"id": "fixedscaleoffset", "scale": 8, "offset": 2, "dtype": "<f8", "astype": "<i4"}], {"id": "bz2", "level": 1}, steps)
    yield coded("v2-filter-scale-u1", "<f4", [{"id": "fixedscaleoffset", "scale": 4, "offset": 0, "dtype": "<f4", "astype": "|u1"}], None,
                (np.floor(steps * 4) / 4).astype("f4"))
    yield coded("v2-filter-quantize", "<f8", [{"id": "quantize", "digits": 1, "dtype": "<f8", "astype": "<f8"}], {"id": "zlib", "level": 1},
                np.asarray(numcodecs.Quantize(1, "<f8").encode(steps)).reshape(steps.shape))
    yield coded("v2-filter-bitround", "<f4", [{"id": "bitround", "keepbits": 20}], {"id": "zlib", "level": 1}, steps.astype("f4"))
    yield coded("v2-filter-packbits", "|b1", [{"id": "packbits"}], {"id": "zlib", "level": 1}, values("bits", "bool", (13, 10)), fill=False)
    yield coded("v2-filter-base64", "<i4", [{"id": "base64"}], {"id": "zlib", "level": 1}, ints)
    for name, config in (("bz2", {"level": 5}), ("lzma", {"format": 1, "preset": 1}), ("adler32", {}), ("crc32", {}), ("fletcher32", {}), ("crc32c", {}),
                         ("jenkins_lookup3", {})):
        def stored(raw, name=name, config=config):
            return bytes(numcodecs.get_codec({"id": name, **config}).encode(raw))
        yield replaced("v3-numcodecs-" + name, stored, ints, codecs=[LITTLE, {"name": "numcodecs." + name, "configuration": config}])
    yield replaced("v3-numcodecs-delta", lambda raw: np.diff(np.frombuffer(raw, "<i4"), prepend=np.int32(0)).astype("<i4").tobytes(), ints,
                   codecs=[{"name": "numcodecs.delta", "configuration": {"dtype": "<i4"}}, LITTLE])
    yield replaced("v3-scale-offset", lambda raw: ((np.frombuffer(raw, "<f8") - 2) * 8).astype("<f8").tobytes(), steps, fill=(0.0, 0.0),
                   codecs=[{"name": "scale_offset", "configuration": {"offset": 2.0, "scale": 8.0}}, LITTLE])
    yield replaced("v3-cast-value", lambda raw: np.frombuffer(raw, "<f8").astype(">i4").tobytes(), np.floor(steps), fill=(0.0, 0.0),
                   codecs=[{"name": "cast_value", "configuration": {"data_type": "int32"}}, BIG])
    yield replaced("v3-gzip-members", lambda raw: gzip.compress(raw[:100], mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(raw[100:], mtime=0), ints,
                   codecs=[LITTLE, {"name": "gzip", "configuration": {"level": 5}}])
    yield replaced("v3-zstd-frames", lambda raw: frame(raw[:100]) + frame(raw[100:]), ints, codecs=[LITTLE, zstd()])
    yield replaced("v3-zstd-unknown-size", one_of_unknown_size, ints, codecs=[LITTLE, zstd()])
    yield replaced("v3-reshape", lambda raw: raw, ints, codecs=[{"name": "reshape", "configuration": {"shape": [10, 13]}}, LITTLE])


def shard_cases():
    three = [sharding((4, 6), [sharding((2, 6), [sharding((1, 3), [LITTLE, zstd()], location="start")])])]
    yield v3("v3-shard-nested-3", "int32", (13, 10), (8, 12), three)
    yield v3("v3-shard-nested-mixed", "int16", (13, 10), (8, 6), [sharding((4, 6), [sharding((2, 3), [BIG, CRC], (BIG,), "start")], location="end")],
             layout="gaps", fill=(-1, -1), holes=[np.s_[0:2, 0:3], np.s_[4:8, 0:6]])
    yield v3("v3-shard-nested-transposed", "float32", (13, 10), (8, 6),
             [sharding((4, 6), [transpose(1, 0), sharding((3, 2), [transpose(1, 0), LITTLE, blosc3()])])], fill=(0.0, 0))
    yield v3("v3-shard-nested-zstd-inside", "int32", (13, 10), (8, 6), [sharding((4, 6), [sharding((2, 3)), zstd(), CRC])])
    yield v3("v3-shard-nested-all-missing", "int32", (13, 10), (8, 6), [sharding((4, 6), [sharding((2, 3))])], fill=(3, 3), holes=[np.s_[...]])
    yield v3("v3-shard-transpose-twice-before", "int16", (7, 5, 4), (4, 4, 2), [transpose(2, 0, 1), transpose(1, 2, 0), sharding((2, 2, 2), [LITTLE])])


def grid_cases():
    for label, shapes, edges in (("lists", [[4, 3, 6], [5, 5]], ((4, 3, 6), (5, 5))), ("runs", [[[3, 4], 1], [[5, 2]]], ((3, 3, 3, 3, 1), (5, 5))),
                                 ("beyond", [[8, 8], [6, 6]], ((8, 8), (6, 6))), ("mixed", [5, [1, [2, 3], 3]], ((5, 5, 5), (1, 2, 2, 2, 3)))):
        name = "v3-rectilinear-" + label
        data = values(name, "int32", (13, 10))

        def write(path, shapes=shapes, edges=edges, data=data):
            path.mkdir(parents=True)
            (path / "zarr.json").write_text(json.dumps({
                "zarr_format": 3, "node_type": "array", "shape": [13, 10], "data_type": "int32", "fill_value": 0,
                "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": shapes}},
                "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": [LITTLE, zstd()]}, indent=1))
            for i, j in np.ndindex(len(edges[0]), len(edges[1])):
                at, size = (sum(edges[0][:i]), sum(edges[1][:j])), (edges[0][i], edges[1][j])
                if at[0] >= 13 or at[1] >= 10:
                    continue
                part = np.zeros(size, "int32")
                piece = data[at[0]:at[0] + size[0], at[1]:at[1] + size[1]]
                part[:piece.shape[0], :piece.shape[1]] = piece
                (path / f"c/{i}").mkdir(parents=True, exist_ok=True)
                (path / f"c/{i}/{j}").write_bytes(w.v3_chunk(part, [LITTLE, zstd()], 0))
        yield name, name + ".zarr", "", write, data


def zip_cases():
    def zipped(name, case, options, prefix=""):
        _, _, _, write, data = case

        def pack(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path, "w", options["how"]) as out:
                write(pathlib.Path(folder) / "x" / prefix)
                for file in sorted((pathlib.Path(folder) / "x").rglob("*")):
                    if file.is_file():
                        info = zipfile.ZipInfo(str(file.relative_to(pathlib.Path(folder) / "x")), (2020, 1, 1, 0, 0, 0))
                        info.compress_type = options["how"]
                        with out.open(info, "w", force_zip64=options.get("zip64", False)) as member:
                            member.write(file.read_bytes())
                out.comment = options.get("comment", b"")
        return name, name + ".zip", prefix, pack, data

    stored, deflated = {"how": zipfile.ZIP_STORED}, {"how": zipfile.ZIP_DEFLATED}
    yield zipped("zip-v2-stored", v2("zip-a", "<f4", compressor=blosc2(), attributes={"units": "K"}), stored)
    yield zipped("zip-v2-deflated", v2("zip-b", ">i2", separator="/"), deflated)
    yield zipped("zip-v3-stored", v3("zip-c", codecs=[LITTLE, zstd()]), stored)
    yield zipped("zip-v3-deflated", v3("zip-d"), deflated)
    yield zipped("zip-v3-zip64", v3("zip-e"), {**stored, "zip64": True, "comment": b"a comment behind the directory"})
    yield zipped("zip-v3-shard", v3("zip-f", "int32", (13, 10), (8, 6), [sharding((4, 3), [LITTLE, zstd()])]), stored)
    yield zipped("zip-v3-shard-deflated", v3("zip-g", "int32", (13, 10), (8, 6), [sharding((4, 3))]), deflated)
    yield zipped("zip-v3-group", v3("zip-h"), stored, "group/inner")


def reference_cases():
    """kerchunk's JSON, version 1: documents and small chunks inline, other chunks as ranges of a file in the same folder."""
    def referred(name, case):
        _, _, _, write, data = case

        def pack(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            refs, blob = {}, b"rubbish before the first chunk"
            with tempfile.TemporaryDirectory() as folder:
                write(pathlib.Path(folder) / "x")
                for n, file in enumerate(sorted((pathlib.Path(folder) / "x").rglob("*"))):
                    if not file.is_file():
                        continue
                    key, raw = str(file.relative_to(pathlib.Path(folder) / "x")), file.read_bytes()
                    if file.name.startswith(".z") or file.name == "zarr.json":
                        refs[key] = raw.decode()
                    elif n % 3 == 0:
                        refs[key] = "base64:" + base64.b64encode(raw).decode()
                    else:
                        refs[key] = [path.stem + ".bin", len(blob), len(raw)]
                        blob += raw
            path.with_name(path.stem + ".bin").write_bytes(blob)
            path.write_text(json.dumps({"version": 1, "refs": refs}))
        return name, name + ".json", "", pack, data

    yield referred("reference-v2-raw", v2("ref-a", "<f4"))
    yield referred("reference-v2-shuffle-zlib", coded("ref-b", "<f4", [{"id": "shuffle", "elementsize": 4}], {"id": "zlib", "level": 4},
                                                      values("ref-b", "float32", (13, 10))))
    yield referred("reference-v3-zstd", v3("ref-c", codecs=[LITTLE, zstd()], keys=("v2", ".")))


def string_cases():
    """Strings and bytes of variable length, written by zarr-python."""
    import zarr

    texts = np.array([["", "a", "\u03a9\u4e2d"], ["long " * 40, "\U0001f300", "z"], ["x", "", "end"]], object)
    raws = np.array([[b"", b"a", b"\0\xff"], [b"long " * 40, b"\0", b"z"], [b"x", b"", b"end"]], object)

    def python(name, data, dtype, **options):
        def write(path):
            zarr.create_array(str(path), shape=data.shape, dtype=dtype, chunks=(2, 2), **options)[...] = data
        return name, name + ".zarr", "", write, data

    from zarr.core.dtype import VariableLengthBytes
    yield python("v3-vlen-string", texts, "string", compressors=None)
    yield python("v3-vlen-string-zstd", texts, "string")
    yield python("v3-vlen-string-shard", texts, "string", shards=(4, 4))
    yield python("v3-vlen-bytes", raws, VariableLengthBytes())
    yield python("v2-vlen-utf8", texts, "string", zarr_format=2, compressors=numcodecs.Zlib(1))
    yield python("v2-vlen-bytes", raws, VariableLengthBytes(), zarr_format=2, compressors=None)


def other_cases():
    import ml_dtypes
    import tensorstore

    def store(name, driver, metadata, data):
        def write(path):
            spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}, "metadata": {"shape": data.shape, **metadata}}
            tensorstore.open(spec, create=True).result().write(data).result()
        return name, name + ".zarr", "", write, data

    half = values("bfloat16", "float32", (13, 10)).astype(ml_dtypes.bfloat16)
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 3]}}
    yield store("tensorstore-v2-bfloat16", "zarr", {"chunks": [4, 3], "dtype": "bfloat16", "compressor": {"id": "zstd", "level": 1}}, half)
    yield store("tensorstore-v3-bfloat16", "zarr3", {"data_type": "bfloat16", "chunk_grid": grid, "codecs": [BIG, blosc3("lz4", "shuffle", 2)]}, half)
    yield store("tensorstore-v2-blosc-snappy", "zarr", {"chunks": [13, 10], "dtype": "<i4", "compressor": blosc2("snappy")}, values("snappy", "int32", (13, 10)))
    yield store("tensorstore-v2-bz2", "zarr", {"chunks": [4, 3], "dtype": "<i4", "compressor": {"id": "bz2", "level": 3}}, values("bz2", "int32", (13, 10)))
    fields = {"name": "struct", "configuration": {"fields": [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float64"}]}}
    data = values("struct", [("a", "<i4"), ("b", "<f8")], (7, 5))
    yield v3("v3-dtype-struct", [("a", "<i4"), ("b", "<f8")], data_type=fields, fill=({"a": 7, "b": 1.5}, np.array((7, 1.5), data.dtype)[()]), data=data,
             holes=[np.s_[:4, :3]])
    for rank in (6, 12, 32):
        shape = tuple(2 if axis % 5 == 0 else 1 for axis in range(rank))
        yield v3(f"v3-rank-{rank}", "int16", shape, tuple(2 if axis % 10 == 5 else 1 for axis in range(rank)), keys=("v2", "."))
    yield v3("v3-codec-names", "uint8", codecs=[PLAIN, CRC], extra={"codecs": ["bytes", "crc32c"]})

    name = "v3-consolidated-inline"
    _, _, _, array, data = v3(name, codecs=[LITTLE, zstd()], attributes={"units": "K"})

    def consolidated(path):
        array(path)
        inner = {"zarr_format": 3, "node_type": "group", "attributes": {"n": 1}}
        metadata = {"g": inner, "g/x": json.loads((path / "zarr.json").read_text())}
        (path.parent / "zarr.json").write_text(json.dumps(inner))
        (path.parent.parent / "zarr.json").write_text(json.dumps({**inner, "consolidated_metadata": {
            "kind": "inline", "must_understand": False, "metadata": metadata}}))
    yield name, name + ".zarr", "g/x", consolidated, data


def cases():
    for source in (codec_cases, shard_cases, grid_cases, zip_cases, reference_cases, string_cases, other_cases):
        yield from source()
