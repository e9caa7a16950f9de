"""The valid arrays of the golden set. cases() yields (name, store, array path, write function, expected data)."""
import base64
import json
import zlib

import numpy as np

import golden_write as w

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
PLAIN = {"name": "bytes"}
CRC = {"name": "crc32c"}
CNAMES = ("lz4", "lz4hc", "zstd", "zlib", "blosclz")


def zstd(level=3, checksum=False):
    return {"name": "zstd", "configuration": {"level": level, "checksum": checksum}}


def gzip(level=5):
    return {"name": "gzip", "configuration": {"level": level}}


def blosc3(cname="lz4", shuffle="shuffle", typesize=4, clevel=5, blocksize=0):
    return {"name": "blosc", "configuration": {"cname": cname, "clevel": clevel, "shuffle": shuffle, "typesize": typesize,
                                               "blocksize": blocksize}}


def blosc2(cname="lz4", shuffle=1, clevel=5, blocksize=0):
    return {"id": "blosc", "cname": cname, "clevel": clevel, "shuffle": shuffle, "blocksize": blocksize}


def transpose(*order):
    return {"name": "transpose", "configuration": {"order": list(order)}}


def sharding(shape, codecs=(LITTLE,), index=(LITTLE, CRC), location="end"):
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": list(shape), "codecs": list(codecs),
                                                          "index_codecs": list(index), "index_location": location}}


def values(name, dtype, shape):
    """Values that reveal a wrong byte: neighbours differ, and extremes and special values are included. They depend
    only on the name."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    n = int(np.prod(shape, dtype=int))
    out = np.empty(n, dtype.newbyteorder("="))
    if dtype.fields:
        for field in dtype.names:
            kind = dtype.fields[field][0]
            sub = kind.shape if kind.subdtype else ()
            out[field] = values(name + field, kind.base, (n, *sub))
        return out.astype(dtype).reshape(shape)
    kind, size = dtype.kind, dtype.itemsize
    if kind == "b":
        out[:] = rng.integers(0, 2, n)
    elif kind in "iu":
        info = np.iinfo(dtype)
        smooth = (np.arange(n) * 7 + rng.integers(0, 5, n)) % (100 if size == 1 else 30000)
        out[:] = smooth - (50 if kind == "i" else 0)
        out[1::11] = rng.integers(info.min, info.max, len(out[1::11]), dtype.newbyteorder("="), endpoint=True)
        if n > 3:
            out[-1], out[-2] = info.min, info.max
    elif kind == "f":
        out[:] = np.round(np.cumsum(rng.normal(0, 1, n)) * 16) / 16
        special = [np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max]
        if n >= 24:
            out[3:3 + 6] = special
    elif kind == "c":
        out = np.empty(n, f"c{size}")
        out.imag = values(name + "im", f"f{size // 2}", n)
        out.real = values(name + "re", f"f{size // 2}", n)
    elif kind in "mM":
        out[:] = rng.integers(-10**9, 10**9, n).astype(dtype.newbyteorder("="))
        if n > 2:
            out[2] = "NaT"
    elif kind == "S":
        out[:] = [bytes(rng.integers(33, 127, rng.integers(0, size + 1)).tolist()) for _ in range(n)]
    elif kind == "V":
        out = np.frombuffer(rng.bytes(n * size), dtype).copy()
    elif kind == "U":
        letters = list("abcz \u00e9\u03a9\u4e2d\U0001f300")
        out[:] = ["".join(rng.choice(letters, rng.integers(0, size // 4 + 1))) for _ in range(n)]
    return out.astype(dtype).reshape(shape)


def v2(name, dtype="<i4", shape=(7, 5), chunks=(4, 3), compressor=None, filters=None, order="C", separator=".", fill=(0, 0),
       holes=(), extra=None, omit=(), attributes=None):
    """fill: (JSON spelling, value). holes: slices set to the fill value; chunks that contain nothing else are left out."""
    kind = np.dtype([tuple(f) if not isinstance(f[1], list) else (f[0], [tuple(g) for g in f[1]]) for f in dtype]
                    if isinstance(dtype, list) else dtype)
    data = values(name, kind, shape)
    for hole in holes:
        data[hole] = fill[1]
    meta = {"zarr_format": 2, "shape": list(shape), "chunks": list(chunks), "dtype": dtype, "compressor": compressor,
            "fill_value": fill[0], "order": order, "filters": filters, "dimension_separator": separator, **(extra or {})}
    for key in omit:
        del meta[key]
    full = {"filters": None, "order": "C", **meta}
    value = fill[1] if fill[0] is not None else np.zeros((), kind)[()]

    def write(path):
        w.write_v2(path, full, data, value, bool(holes), attributes)
        (path / ".zarray").write_text(json.dumps(meta, indent=1))
    return name, name + ".zarr", "", write, data


def v3(name, dtype="int32", shape=(7, 5), chunks=(4, 3), codecs=(LITTLE,), fill=(0, 0), holes=(), keys=("default", "/"),
       layout=None, data_type=None, attributes=None, names=None, extra=None, data=None):
    kind = np.dtype(f"V{int(dtype[1:]) // 8}" if dtype[0] == "r" else dtype)
    data = values(name, kind, shape) if data is None else data
    for hole in holes:
        data[hole] = fill[1]
    encoding = {"name": keys[0]}
    if keys[1] is not None:
        encoding["configuration"] = {"separator": keys[1]}
    meta = {"zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": data_type or dtype,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
            "chunk_key_encoding": encoding, "fill_value": fill[0], "codecs": list(codecs),
            **({"attributes": attributes} if attributes is not None else {}),
            **({"dimension_names": names} if names is not None else {}), **(extra or {})}
    return name, name + ".zarr", "", lambda path: w.write_v3(path, meta, data, fill[1], bool(holes), layout), data


def b64(raw):
    return base64.b64encode(raw).decode()


ALL = np.s_[...]
V2_TYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", ">i2", ">u2", ">i4",
            ">u4", ">i8", ">u8", ">f2", ">f4", ">f8", ">c8", ">c16", "<M8[ns]", ">M8[s]", "<m8[ms]", ">m8[us]", "|S5", "|S1", "|V3",
            "|V7", "<U4", ">U3")
STRUCTS = {
    "two": [["a", "<i4"], ["b", ">f8"]],
    "odd": [["x", "|u1"], ["y", "<f4"], ["z", "|S3"], ["t", ">f2"]],
    "sub": [["id", "<u2"], ["p", "<f4", [2]], ["q", ">i2", [2, 3]]],
    "time": [["t", "<M8[s]"], ["v", "<f4"]],
    "nested": [["n", [["u", "<i2"], ["v", "|S3"]]], ["w", "<f8"]],
}


def v2_cases():
    for t in V2_TYPES:
        zero = ([0.0, 0.0], 0) if t[1] == "c" else (False if t == "|b1" else 0, 0)
        yield v2("v2-dtype-" + t.replace("<", "le-").replace(">", "be-").replace("|", "").replace("[", "-").rstrip("]"), t,
                 fill=("", "") if t[1] == "U" else (b64(bytes(int(t[2:]))), b"") if t[1] == "S" else (None, 0) if t[1] == "V" else zero)
    for label, fields in STRUCTS.items():
        yield v2(f"v2-struct-{label}", fields, fill=(None, 0), compressor=blosc2() if label == "odd" else None)
    yield v2("v2-struct-F-zlib", STRUCTS["two"], fill=(None, 0), order="F", compressor={"id": "zlib", "level": 4})
    filler = np.array([(7, -1.5)], [("a", "<i4"), ("b", ">f8")])
    yield v2("v2-struct-fill", STRUCTS["two"], fill=(b64(filler.tobytes()), filler[0]), holes=[np.s_[:4, :3]])

    for shape, chunks in (((7, 5), (4, 3)), ((4, 3, 5), (2, 3, 2)), ((3, 2, 3, 4), (2, 2, 2, 3))):
        for separator in "./":
            yield v2(f"v2-order-F-{len(shape)}d-{'dot' if separator == '.' else 'slash'}", "<f4", shape, chunks, order="F", separator=separator)
    yield v2("v2-order-F-1d", "<i2", (9,), (4,), order="F")
    yield v2("v2-order-F-blosc", "<f8", (9, 6), (4, 5), blosc2(), order="F")
    yield v2("v2-order-F-strings", "|S5", (5, 4), (3, 2), order="F", fill=(b64(bytes(5)), b""))
    yield v2("v2-order-F-big-endian", ">u2", (5, 4, 3), (3, 2, 2), order="F")
    yield v2("v2-separator-slash", shape=(5, 4, 3), chunks=(2, 2, 2), separator="/")
    yield v2("v2-separator-absent", omit=("dimension_separator",))
    yield v2("v2-rank-1", "<u2", (11,), (4,))
    yield v2("v2-rank-4", "<i2", (3, 4, 2, 5), (2, 2, 2, 3))
    yield v2("v2-rank-5", "|u1", (2, 3, 2, 3, 3), (1, 2, 2, 2, 2), {"id": "zlib", "level": 1}, separator="/")
    yield v2("v2-rank-0", "<f8", (), ())
    yield v2("v2-rank-0-blosc", "<i4", (), (), blosc2())
    yield v2("v2-rank-0-missing", "<i4", (), (), fill=(-12, -12), holes=[ALL])
    yield v2("v2-empty-1d", "<f4", (0,), (3,))
    yield v2("v2-empty-3d", "<i4", (3, 0, 2), (2, 2, 2), blosc2())
    yield v2("v2-chunk-larger-than-array", "<u4", (3, 2), (8, 9), blosc2("zstd"))
    yield v2("v2-chunk-of-one", "<i2", (3, 4), (1, 1))
    yield v2("v2-many-chunks", "|u1", (40, 30), (4, 3), {"id": "zlib", "level": 1})
    yield v2("v2-unknown-key", extra={"note": {"anything": [1, 2]}})

    nan = float("nan")
    hole = [np.s_[:4, :3]]
    for label, dtype, fill in (
            ("nan-f4", "<f4", ("NaN", nan)), ("nan-f8-be", ">f8", ("NaN", nan)), ("nan-f2", "<f2", ("NaN", nan)),
            ("inf", "<f8", ("Infinity", np.inf)), ("minus-inf", "<f4", ("-Infinity", -np.inf)), ("f4-integer", "<f4", (3, 3)),
            ("f8-tiny", "<f8", (5e-324, 5e-324)), ("f8-exponent", "<f8", (-1.25e300, -1.25e300)), ("minus-zero", "<f4", (-0.0, -0.0)),
            ("i1-min", "|i1", (-128, -128)), ("u8-max", "<u8", (2**64 - 1, 2**64 - 1)), ("i8-min", "<i8", (-2**63, -2**63)),
            ("u2-be", ">u2", (258, 258)), ("bool-true", "|b1", (True, True)), ("bool-one", "|b1", (1, True)),
            ("c8", "<c8", ([1.5, -2.0], 1.5 - 2j)), ("c16-nan", "<c16", (["NaN", "-Infinity"], complex(nan, -np.inf))),
            ("M8", "<M8[D]", (365, np.datetime64(365, "D"))), ("M8-nat", ">M8[s]", (-2**63, np.datetime64("NaT"))),
            ("m8", "<m8[h]", (-5, np.timedelta64(-5, "h"))), ("S-base64", "|S5", (b64(b"ab\0\0\0"), b"ab")),
            ("V-base64", "|V3", (b64(b"\1\0\xff"), np.void(b"\1\0\xff")))):
        yield v2("v2-fill-" + label, dtype, fill=fill, holes=hole)
    yield v2("v2-fill-null", "<f4", fill=(None, 0), compressor=blosc2("lz4"))
    yield v2("v2-fill-null-strings", "|S5", fill=(None, b""))
    yield v2("v2-fill-S-empty", "|S5", fill=("", b""), holes=hole)
    yield v2("v2-fill-U", "<U4", fill=("\u03a9x", "\u03a9x"), holes=hole)
    yield v2("v2-missing-all", "<i2", fill=(-7, -7), holes=[ALL])
    yield v2("v2-missing-edge", "<f8", (9, 8), (4, 3), blosc2("zstd"), fill=(1.5, 1.5), holes=[np.s_[8:, :], np.s_[:4, 6:]])
    yield v2("v2-missing-F-slash", "<i4", (9, 8), (4, 3), order="F", separator="/", fill=(9, 9), holes=[np.s_[4:8, 3:6]])

    for cname in CNAMES:
        for shuffle in (0, 1, 2):
            yield v2(f"v2-blosc-{cname}-{shuffle}", "<f4", (30, 21), (16, 12), blosc2(cname, shuffle))
    yield v2("v2-blosc-typesize-1", "|u1", (50, 41), (32, 20), blosc2("lz4", 1))
    yield v2("v2-blosc-typesize-1-bits", "|u1", (50, 41), (32, 20), blosc2("lz4", 2))
    yield v2("v2-blosc-typesize-2", ">i2", (50, 41), (32, 20), blosc2("zstd", 1))
    yield v2("v2-blosc-typesize-8-bits", "<f8", (50, 21), (32, 20), blosc2("zstd", 2))
    yield v2("v2-blosc-typesize-12", STRUCTS["two"], (20, 9), (8, 8), blosc2("lz4", 1), fill=(None, 0))
    yield v2("v2-blosc-typesize-16", "<c16", (20, 9), (8, 8), blosc2("lz4hc", 1), fill=([0.0, 0.0], 0))
    yield v2("v2-blosc-typesize-20", "<U5", (20, 9), (8, 8), blosc2("lz4", 1), fill=("", ""))
    yield v2("v2-blosc-typesize-odd-bits", "|S7", (20, 9), (9, 8), blosc2("lz4", 2), fill=(b64(bytes(7)), b""))
    yield v2("v2-blosc-level-0", "<i4", (20, 9), (8, 8), blosc2(clevel=0))
    yield v2("v2-blosc-stored", "|V8", (20, 9), (8, 8), blosc2(), fill=(None, 0))
    yield v2("v2-blosc-blocks", "<i4", (90, 40), (60, 40), blosc2("lz4", 1, 5, 1024))
    yield v2("v2-blosc-blocks-zstd-bits", "<i2", (90, 40), (60, 40), blosc2("zstd", 2, 9, 512))
    yield v2("v2-blosc-short-tail", "<i4", (301,), (301,), blosc2("lz4", 1, 5, 256))
    for level in (1, 19, -3):
        yield v2(f"v2-zstd-level-{level}", "<i4", (30, 21), (16, 12), {"id": "zstd", "level": level})
    yield v2("v2-zstd-checksum", "<i4", (30, 21), (16, 12), {"id": "zstd", "level": 3, "checksum": True})
    for level in (0, 1, 9):
        yield v2(f"v2-zlib-{level}", "<i4", (30, 21), (16, 12), {"id": "zlib", "level": level})
        yield v2(f"v2-gzip-{level}", "<f4", (30, 21), (16, 12), {"id": "gzip", "level": level})
    yield v2("v2-lz4", "<i4", (30, 21), (16, 12), {"id": "lz4", "acceleration": 1})
    yield v2("v2-lz4-acceleration", "<f8", (30, 21), (16, 12), {"id": "lz4", "acceleration": 50}, order="F")
    yield v2("v2-lz4-one-element", "|u1", (1,), (1,), {"id": "lz4", "acceleration": 1})
    four = {"id": "shuffle", "elementsize": 4}
    yield v2("v2-shuffle-raw", "<f4", filters=[four])
    yield v2("v2-shuffle-zlib", "<f4", (30, 21), (16, 12), {"id": "zlib", "level": 6}, [four])
    yield v2("v2-shuffle-8-zstd", "<f8", (30, 21), (16, 12), {"id": "zstd", "level": 3, "checksum": True}, [{"id": "shuffle", "elementsize": 8}])
    yield v2("v2-shuffle-2-lz4", "<i2", (30, 21), (16, 12), {"id": "lz4", "acceleration": 1}, [{"id": "shuffle", "elementsize": 2}], "F")
    yield v2("v2-shuffle-twice", "<i4", (30, 21), (16, 12), {"id": "gzip", "level": 2}, [four, {"id": "shuffle", "elementsize": 2}])
    yield v2("v2-shuffle-blosc", "<i4", (30, 21), (16, 12), blosc2("lz4", 0), [four])
    yield v2("v2-filters-empty", filters=[])


V3_TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
            "complex64", "complex128")


def bits(value, size):
    return np.frombuffer(value.to_bytes(size, "little"), f"<f{size}")[0]


def v3_cases():
    for t in V3_TYPES:
        fill = (False, False) if t == "bool" else ([0.0, 0.0], 0) if t[0] == "c" else (0.0, 0) if t[0] == "f" else (0, 0)
        yield v3("v3-dtype-" + t, t, fill=fill, codecs=[PLAIN] if np.dtype(t).itemsize == 1 else [LITTLE])
        if np.dtype(t).itemsize > 1:
            yield v3(f"v3-dtype-{t}-big", t, fill=fill, codecs=[BIG])
    for n in (8, 24):
        yield v3(f"v3-dtype-r{n}", f"r{n}", fill=([0] * (n // 8), np.void(bytes(n // 8))), codecs=[PLAIN])
    ext = {"datetime64": ("<M8[s]", {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, ("NaT", "NaT")),
           "timedelta64": ("<m8[ms]", {"name": "numpy.timedelta64", "configuration": {"unit": "ms", "scale_factor": 1}}, (-4, -4)),
           "utf32": ("<U4", {"name": "fixed_length_utf32", "configuration": {"length_bytes": 16}}, ("a\u03a9", "a\u03a9")),
           "bytes": ("|S5", {"name": "null_terminated_bytes", "configuration": {"length_bytes": 5}}, (b64(b"ab"), b"ab")),
           "raw": ("|V3", {"name": "raw_bytes", "configuration": {"length_bytes": 3}}, (b64(b"\0\1\2"), np.void(b"\0\1\2")))}
    for label, (dtype, document, fill) in ext.items():
        yield v3("v3-dtype-ext-" + label, dtype, data_type=document, fill=fill, holes=[np.s_[:4, :3]])

    for label, keys in (("default-slash", ("default", "/")), ("default-dot", ("default", ".")), ("default-plain", ("default", None)),
                        ("v2-dot", ("v2", ".")), ("v2-slash", ("v2", "/")), ("v2-plain", ("v2", None))):
        yield v3("v3-keys-" + label, shape=(5, 4, 3), chunks=(2, 3, 2), keys=keys)
        yield v3(f"v3-keys-{label}-0d", "float64", (), (), keys=keys, fill=(0.0, 0))
    yield v3("v3-rank-1", "int16", (11,), (4,))
    yield v3("v3-rank-4", "uint16", (3, 4, 2, 5), (2, 2, 2, 3), [BIG])
    yield v3("v3-rank-5", "uint8", (2, 3, 2, 3, 3), (1, 2, 2, 2, 2), [PLAIN, gzip()])
    yield v3("v3-rank-0-missing", "float32", (), (), fill=("Infinity", np.inf), holes=[ALL])
    yield v3("v3-empty-1d", "int32", (0,), (3,))
    yield v3("v3-empty-2d-zstd", "float32", (4, 0), (2, 2), [LITTLE, zstd()], fill=(0.0, 0))
    yield v3("v3-chunk-larger-than-array", "int64", (3, 2), (8, 9), [LITTLE, zstd()])
    yield v3("v3-chunk-of-one", "int16", (3, 4), (1, 1))
    yield v3("v3-many-chunks", "uint8", (40, 30), (4, 3), [PLAIN, zstd(1)])
    yield v3("v3-names", names=["y", "x"], attributes={"units": "K", "nested": {"list": [1, None, "\u00b0"]}})
    yield v3("v3-names-null", names=["y", None])
    yield v3("v3-ignorable-key", extra={"vendor_note": {"must_understand": False, "x": [1]}})
    yield v3("v3-storage-transformers-empty", extra={"storage_transformers": []})

    hole = [np.s_[:4, :3]]
    for label, dtype, fill in (
            ("nan", "float32", ("NaN", np.nan)), ("nan-big", "float64", ("NaN", np.nan)), ("inf", "float64", ("Infinity", np.inf)),
            ("minus-inf", "float16", ("-Infinity", -np.inf)), ("hex-f2", "float16", ("0x3c01", bits(0x3C01, 2))),
            ("hex-f4", "float32", ("0x7fc00001", bits(0x7FC00001, 4))), ("hex-f4-upper", "float32", ("0xC0490FDB", bits(0xC0490FDB, 4))),
            ("hex-f8", "float64", ("0xfff8000000000123", bits(0xFFF8000000000123, 8))), ("f4-integer", "float32", (3, 3)),
            ("minus-zero", "float64", (-0.0, -0.0)), ("f8-tiny", "float64", (5e-324, 5e-324)), ("bool", "bool", (True, True)),
            ("i1", "int8", (-128, -128)), ("u8-max", "uint64", (2**64 - 1, 2**64 - 1)), ("i8-min", "int64", (-2**63, -2**63)),
            ("complex", "complex64", ([1.5, -2.0], 1.5 - 2j)),
            ("complex-words", "complex128", (["NaN", "-Infinity"], complex(np.nan, -np.inf))),
            ("complex-hex", "complex64", (["0x7fc00001", 1.0], np.frombuffer(b"\1\0\xc0\x7f\0\0\x80\x3f", "<c8")[0])),
            ("raw", "r16", ([1, 255], np.void(b"\1\xff")))):
        one = np.dtype(dtype if dtype[0] != "r" else "V2").itemsize == 1 or dtype[0] == "r"
        yield v3("v3-fill-" + label, dtype, fill=fill, holes=hole, codecs=[PLAIN] if one else [BIG if "big" in label else LITTLE])
    yield v3("v3-missing-all", "int16", fill=(-7, -7), holes=[ALL])
    yield v3("v3-missing-edge", "float64", (9, 8), (4, 3), [LITTLE, zstd()], fill=(1.5, 1.5), holes=[np.s_[8:, :], np.s_[:4, 6:]])

    for cname in CNAMES:
        for shuffle in ("noshuffle", "shuffle", "bitshuffle"):
            yield v3(f"v3-blosc-{cname}-{shuffle}", "int32", (30, 21), (16, 12), [LITTLE, blosc3(cname, shuffle)])
    for size, dtype in ((1, "uint8"), (2, "int16"), (8, "float64"), (16, "complex128")):
        fill = ([0.0, 0.0], 0) if size == 16 else (0, 0)
        for shuffle in ("shuffle", "bitshuffle"):
            yield v3(f"v3-blosc-{shuffle}-typesize-{size}", dtype, (30, 21), (16, 12),
                     [PLAIN if size == 1 else LITTLE, blosc3("lz4", shuffle, size)], fill=fill)
    yield v3("v3-blosc-typesize-not-the-type", "int32", (30, 21), (16, 12), [LITTLE, blosc3("zstd", "shuffle", 3)])
    yield v3("v3-blosc-blocks", "int32", (90, 40), (60, 40), [BIG, blosc3("lz4", "shuffle", 4, 5, 1024)])
    yield v3("v3-zstd", "int32", (30, 21), (16, 12), [LITTLE, zstd()])
    yield v3("v3-zstd-checksum", "int32", (30, 21), (16, 12), [LITTLE, zstd(9, True)])
    yield v3("v3-zstd-level-22", "float32", (30, 21), (16, 12), [BIG, zstd(22)])
    yield v3("v3-gzip", "int32", (30, 21), (16, 12), [LITTLE, gzip()])
    yield v3("v3-gzip-0", "int32", (30, 21), (16, 12), [LITTLE, gzip(0)])
    yield v3("v3-crc32c", "int32", codecs=[LITTLE, CRC])
    yield v3("v3-zstd-crc32c", "int32", (30, 21), (16, 12), [LITTLE, zstd(), CRC])
    yield v3("v3-crc32c-gzip-crc32c", "int32", (30, 21), (16, 12), [LITTLE, CRC, gzip(), CRC])
    yield v3("v3-gzip-zstd", "int32", (30, 21), (16, 12), [LITTLE, gzip(1), zstd()])
    yield v3("v3-numcodecs-zlib", "int32", (30, 21), (16, 12), [LITTLE, {"name": "numcodecs.zlib", "configuration": {"level": 6}}])
    yield v3("v3-numcodecs-lz4", "int32", (30, 21), (16, 12), [LITTLE, {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}])
    yield v3("v3-numcodecs-shuffle-zstd", "int32", (30, 21), (16, 12),
             [LITTLE, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}, zstd()])
    yield v3("v3-numcodecs-shuffle-zlib", "float64", (30, 21), (16, 12),
             [LITTLE, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 8}}, {"name": "numcodecs.zlib", "configuration": {"level": 1}}])

    yield v3("v3-transpose-2d", codecs=[transpose(1, 0), LITTLE])
    yield v3("v3-transpose-3d", "int16", (5, 4, 3), (2, 3, 2), [transpose(2, 0, 1), BIG])
    yield v3("v3-transpose-4d", "float32", (3, 4, 2, 5), (2, 2, 2, 3), [transpose(3, 1, 0, 2), LITTLE, zstd(), CRC])
    yield v3("v3-transpose-twice", "int16", (5, 4, 3), (2, 3, 2), [transpose(1, 2, 0), transpose(1, 2, 0), LITTLE])
    yield v3("v3-transpose-identity", "int16", (5, 4, 3), (2, 3, 2), [transpose(0, 1, 2), LITTLE])
    yield v3("v3-transpose-blosc", "float64", (9, 8), (4, 5), [transpose(1, 0), BIG, blosc3("lz4", "shuffle", 8)], keys=("v2", "."))


def shard_cases():
    big_index = (BIG, CRC)
    outer, inner, shape = (8, 6), (4, 3), (13, 10)
    for location in ("end", "start"):
        for label, index in (("", (LITTLE, CRC)), ("-no-crc", (LITTLE,)), ("-big-index", big_index), ("-big-index-no-crc", (BIG,))):
            yield v3(f"v3-shard-{location}{label}", "int32", shape, outer, [sharding(inner, [LITTLE, zstd()], index, location)])
        yield v3(f"v3-shard-{location}-missing-inner", "int32", shape, outer, [sharding(inner, location=location)], fill=(-3, -3),
                 holes=[np.s_[0:4, 3:6], np.s_[8:12, 0:3]])
        yield v3(f"v3-shard-{location}-missing-shard", "float32", shape, outer, [sharding(inner, location=location)],
                 fill=("NaN", np.nan), holes=[np.s_[0:8, 6:], np.s_[8:12, 0:3]])
        yield v3(f"v3-shard-{location}-reversed", "int16", shape, outer, [sharding(inner, [BIG, gzip()], location=location)], layout="reverse")
        yield v3(f"v3-shard-{location}-gaps", "int16", shape, outer, [sharding(inner, [LITTLE, zstd()], location=location)], layout="gaps")
    yield v3("v3-shard-all-missing", "int32", shape, outer, [sharding(inner)], fill=(5, 5), holes=[ALL])
    yield v3("v3-shard-shared-payload", "int32", shape, outer, [sharding(inner, [LITTLE, zstd()])], layout="share",
             data=np.tile(values("tile", "int32", inner), (4, 4))[:13, :10])
    yield v3("v3-shard-fill-stored", "int32", shape, outer, [sharding(inner)], fill=(5, 5), layout="full")
    yield v3("v3-shard-one-inner", "int32", (7, 5), (4, 3), [sharding((4, 3), [LITTLE, zstd()])])
    yield v3("v3-shard-1d", "uint8", (50,), (16,), [sharding((4,), [PLAIN, zstd()])])
    yield v3("v3-shard-4d", "int16", (3, 4, 2, 5), (2, 4, 2, 4), [sharding((1, 2, 2, 2))])
    yield v3("v3-shard-0d", "float64", (), (), [sharding((), [LITTLE, zstd()])], fill=(0.0, 0))
    yield v3("v3-shard-empty", "int32", (0, 5), (4, 4), [sharding((2, 2))])
    yield v3("v3-shard-bool", "bool", shape, outer, [sharding(inner, [PLAIN, gzip()])], fill=(False, False))
    yield v3("v3-shard-complex", "complex64", shape, outer, [sharding(inner, [BIG])], fill=([0.0, 0.0], 0))
    yield v3("v3-shard-keys-v2", "int32", shape, outer, [sharding(inner)], keys=("v2", "."))
    for label, chain in (("blosc", [LITTLE, blosc3()]), ("blosc-bits", [LITTLE, blosc3("zstd", "bitshuffle")]), ("gzip", [LITTLE, gzip()]),
                         ("crc32c", [LITTLE, CRC]), ("zstd-crc32c", [LITTLE, zstd(), CRC]),
                         ("shuffle-zstd", [LITTLE, {"name": "numcodecs.shuffle", "configuration": {"elementsize": 4}}, zstd()])):
        yield v3("v3-shard-inner-" + label, "float32", (26, 20), (16, 12), [sharding((8, 6), chain)], fill=(0.0, 0))
    yield v3("v3-shard-transpose-inside", "int32", shape, outer, [sharding(inner, [transpose(1, 0), LITTLE, zstd()])])
    yield v3("v3-shard-transpose-before", "int32", shape, outer, [transpose(1, 0), sharding((3, 4), [LITTLE])])
    yield v3("v3-shard-transpose-before-3d", "int16", (7, 5, 4), (4, 4, 2), [transpose(2, 0, 1), sharding((1, 2, 4), [BIG, zstd()])])
    yield v3("v3-shard-zstd-after", "int32", shape, outer, [sharding(inner), zstd()])
    yield v3("v3-shard-crc32c-after", "int32", shape, outer, [sharding(inner, [LITTLE, gzip()]), CRC])
    yield v3("v3-shard-nested", "int32", (13, 10), (8, 6), [sharding((4, 6), [sharding((2, 3), [LITTLE, zstd()])])])
    yield v3("v3-shard-nested-start", "int32", (13, 10), (8, 6), [sharding((4, 6), [sharding((2, 3), location="start")], location="start")])
    yield v3("v3-shard-nested-missing", "int32", (13, 10), (8, 6), [sharding((4, 6), [sharding((2, 3))])], fill=(1, 1),
             holes=[np.s_[0:2, 0:3], np.s_[4:8, 0:6]])


def library_cases():
    """Arrays written by zarr-python and tensorstore themselves, to cover their documents and chunks."""
    import numcodecs
    import tensorstore
    import zarr
    from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ShardingCodec, TransposeCodec, ZstdCodec

    def python(name, dtype="int32", shape=(13, 10), **options):
        data = values(name, dtype, shape)
        options = {"chunks": (4, 3), "fill_value": 0, **options}

        def write(path):
            zarr.create_array(str(path), shape=shape, dtype=dtype, **options)[...] = data
        return name, name + ".zarr", "", write, data

    def store(name, driver, metadata, dtype="int32", shape=(13, 10)):
        data = values(name, dtype, shape)

        def write(path):
            spec = {"driver": driver, "kvstore": {"driver": "file", "path": str(path)}, "create": True,
                    "metadata": {"shape": shape, **metadata}}
            tensorstore.open(spec).result().write(data).result()
        return name, name + ".zarr", "", write, data

    v2_ = {"zarr_format": 2}
    yield python("zarr-python-v2", **v2_)
    yield python("zarr-python-v2-blosc", "float32", compressors=numcodecs.Blosc("lz4", 5, 1), **v2_)
    yield python("zarr-python-v2-F", "float64", order="F", compressors=numcodecs.Zlib(3), fill_value=float("nan"), **v2_)
    yield python("zarr-python-v2-filter", ">i2", filters=[numcodecs.Shuffle(2)], compressors=numcodecs.LZ4(), **v2_)
    yield python("zarr-python-v2-slash", "|S5", chunk_key_encoding={"name": "v2", "separator": "/"}, fill_value=b"", **v2_)
    yield python("zarr-python-v2-datetime", "<M8[ns]", fill_value=np.datetime64("NaT"), **v2_)
    yield python("zarr-python-v3")
    yield python("zarr-python-v3-zstd", "float32", compressors=ZstdCodec(level=3))
    yield python("zarr-python-v3-blosc", "float64", compressors=BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle"))
    yield python("zarr-python-v3-zstd-crc32c", "int16", compressors=[ZstdCodec(level=1), Crc32cCodec()])
    yield python("zarr-python-v3-big-transpose", "uint32", filters=TransposeCodec(order=(1, 0)), serializer=BytesCodec(endian="big"),
                 compressors=None)
    yield python("zarr-python-v3-shard", "float32", shards=(8, 6), compressors=ZstdCodec(level=3))
    yield python("zarr-python-v3-shard-start", "int64", chunks=(8, 6), compressors=None, serializer=ShardingCodec(
        chunk_shape=(4, 3), codecs=[BytesCodec(), ZstdCodec(level=1)], index_location="start"))
    yield python("zarr-python-v3-nan", "float16", fill_value=float("nan"), dimension_names=("y", "x"), attributes={"units": "K"})
    yield store("tensorstore-v2", "zarr", {"chunks": [4, 3], "dtype": "<i4", "compressor": None})
    yield store("tensorstore-v2-blosc", "zarr", {"chunks": [4, 3], "dtype": "<f4", "fill_value": 1.5,
                                                 "compressor": blosc2("zstd", 2)}, "float32")
    yield store("tensorstore-v2-zlib-F", "zarr", {"chunks": [4, 3], "dtype": ">f8", "order": "F", "dimension_separator": "/",
                                                  "compressor": {"id": "zlib", "level": 5}}, "float64")

    def grid(shape):
        return {"name": "regular", "configuration": {"chunk_shape": shape}}

    yield store("tensorstore-v3", "zarr3", {"data_type": "int32", "chunk_grid": grid([4, 3])})
    yield store("tensorstore-v3-zstd", "zarr3", {"data_type": "uint16", "chunk_grid": grid([4, 3]), "codecs": [
        BIG, {"name": "zstd", "configuration": {"level": 2}}]}, "uint16")
    yield store("tensorstore-v3-blosc", "zarr3", {"data_type": "float32", "fill_value": "NaN", "chunk_grid": grid([4, 3]), "codecs": [
        LITTLE, blosc3("lz4", "shuffle", 4)]}, "float32")
    yield store("tensorstore-v3-shard", "zarr3", {"data_type": "int32", "chunk_grid": grid([8, 6]), "codecs": [
        sharding((4, 3), [transpose(1, 0), LITTLE, gzip()], location="start")]})
    yield store("tensorstore-v3-shard-nested", "zarr3", {"data_type": "float64", "chunk_grid": grid([8, 6]), "codecs": [
        sharding((4, 6), [sharding((2, 3), [LITTLE, CRC])])]}, "float64")
    yield store("tensorstore-v3-complex", "zarr3", {"data_type": "complex64", "fill_value": ["NaN", "Infinity"],
                                                    "chunk_grid": grid([4, 3])}, "complex64")


def hierarchy_cases():
    """Arrays below groups, in one store per format; write_groups() adds the groups."""
    for maker, form in ((v2, 2), (v3, 3)):
        for path in ("top", "a/first", "a/second", "a/b/c/deep", "name with space/été", "numbers/0"):
            name = f"v{form}-group-" + path.replace("/", "-").replace(" ", "_").replace("é", "e")
            _, _, _, write, data = maker(name, attributes={"path": path, "list": [1, 2.5, None, {"x": True}]})
            yield name, f"v{form}-groups.zarr", path, write, data
    name, _, _, write, data = v2("v2-consolidated", compressor=blosc2(), attributes={"units": "K"})
    yield name, "v2-consolidated.zarr", "g/x", write, data
    name, _, _, write, data = v3("v3-implicit-group", attributes={})
    yield name, "v3-implicit.zarr", "no/group/documents", write, data


def write_groups(root):
    for group, attributes in (("", {"title": "root", "n": 1}), ("a", {}), ("a/b", None), ("a/b/c", {"deep": [[]]}),
                              ("name with space", {}), ("numbers", None), ("empty", {"nothing": None})):
        folder = root / "v2-groups.zarr" / group
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        if attributes is not None:
            (folder / ".zattrs").write_text(json.dumps(attributes))
        folder = root / "v3-groups.zarr" / group
        folder.mkdir(parents=True, exist_ok=True)
        document = {"zarr_format": 3, "node_type": "group"}
        (folder / "zarr.json").write_text(json.dumps(document if attributes is None else {**document, "attributes": attributes}))
    store = root / "v2-consolidated.zarr"
    for group in ("", "g"):
        (store / group / ".zgroup").write_text('{"zarr_format": 2}')
    documents = {str(p.relative_to(store)): json.loads(p.read_text()) for p in sorted(store.rglob(".z*"))}
    (store / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": documents}, indent=1))


def cases():
    for source in (v2_cases, v3_cases, shard_cases, library_cases, hierarchy_cases):
        yield from source()
