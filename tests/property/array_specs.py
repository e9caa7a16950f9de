"""Random arrays as plain dictionaries. The seed determines everything, so a case can be printed, shrunk and repeated.

A spec holds the metadata document ("document", .zarray or zarr.json as a dictionary), the NumPy type of the values
("dtype"), the writer ("zarr-python" or "tensorstore"), the seed of the values, the parts filled with the fill value
("holes", lists of [start, stop] per axis) and the selections to read as text."""
import base64
import math
import random

import numpy as np

WRITERS = ("zarr-python", "tensorstore")
INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
NUMBERS = INTEGERS + ("f2", "f4", "f8")
V3_NAMES = {"b1": "bool", "i1": "int8", "u1": "uint8", "i2": "int16", "u2": "uint16", "i4": "int32", "u4": "uint32", "i8": "int64",
            "u8": "uint64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128"}
TIME_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs")
EXTRA = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4")   # types that only ml_dtypes has
CRC = {"name": "crc32c"}


def dtype_of(spec):
    """The NumPy type of the values; types that only ml_dtypes has are looked up by name."""
    name = spec["dtype"]
    if isinstance(name, list):
        return np.dtype([(f[0], f[1], tuple(f[2])) if len(f) == 3 else tuple(f) for f in name])
    if name in EXTRA:
        import ml_dtypes
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def value_of(spec):
    """The fill value as a NumPy scalar."""
    kind, fill = dtype_of(spec), spec["document"]["fill_value"]
    if fill is None:
        return np.zeros((), kind)[()]
    if kind.fields or kind.kind in "SV" and kind.name not in EXTRA and isinstance(fill, str):
        return np.frombuffer(base64.b64decode(fill).ljust(kind.itemsize, b"\0"), kind)[0]
    word = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
    if kind.kind == "c":
        out = np.zeros((), kind)
        out.real, out.imag = (word.get(x, x) for x in fill)
        return out[()]
    if kind.name in EXTRA:
        return kind.type(fill)
    if kind.kind == "f" and isinstance(fill, str) and fill.startswith("0x"):
        return np.frombuffer(bytes.fromhex(fill[2:])[::-1], kind.newbyteorder("<"))[0]
    if kind.kind in "mM":
        return np.array(fill, "i8").view(kind.newbyteorder("="))[()]
    return kind.type(word.get(fill, fill) if kind.kind == "f" else fill)


def values_of(spec):
    """The array to write: values that compress to different degrees, with extremes, and the holes."""
    kind, shape = dtype_of(spec), spec["document"]["shape"]
    out = _values(np.random.default_rng(spec["seed"]), kind, math.prod(shape)).reshape(shape)
    for hole in spec["holes"]:
        out[tuple(slice(a, b) for a, b in hole)] = value_of(spec)
    return out


def _values(rng, kind, n):
    if kind.fields:
        out = np.zeros(n, kind)
        for name in kind.names:
            field = kind.fields[name][0]
            out[name] = _values(rng, field.base, n * math.prod(field.shape)).reshape(n, *field.shape)
        return out
    if kind.name == "int4":
        return rng.integers(-8, 8, n).astype(kind)
    if kind.name in EXTRA:
        out = np.frombuffer(rng.bytes(n * kind.itemsize), kind).copy()
        out[np.isnan(out.astype("f4"))] = 1
        return out
    how = rng.integers(0, 4)
    native = kind.newbyteorder("=")
    if kind.kind == "b":
        return (rng.random(n) < rng.random()).astype(kind)
    if kind.kind in "SU":
        letters = np.frombuffer(b"ab \xff\0", "u1") if kind.kind == "S" else np.array([97, 32, 0xe9, 0x3a9, 0x4e2d, 0x1f300, 0x10ffff, 0], "u4")
        length = kind.itemsize // letters.itemsize
        return letters[rng.integers(0, len(letters), n * length)].view(f"{kind.kind}{length}").astype(kind)
    if kind.kind in "iumM":
        whole = np.dtype(f"i{kind.itemsize}") if kind.kind in "mM" else native
        if how == 0:
            out = np.full(n, rng.integers(0, 100), whole)
        elif how == 1:
            out = (np.arange(n) * 3 + rng.integers(0, 4, n)).astype("i8").astype(whole)
        else:
            out = np.frombuffer(rng.bytes(n * whole.itemsize), whole).copy()
        return out.view(native).astype(kind)
    if kind.kind in "fc" and how != 3:
        out = np.zeros(n, native)
        parts = [out] if kind.kind == "f" else [out.real, out.imag]
        for part in parts:
            with np.errstate(over="ignore"):
                part[...] = 1.5 if how == 0 else np.round(np.cumsum(rng.normal(0, 1, n)) * 8) / 8
            special = [np.inf, -np.inf, np.finfo(part.dtype).smallest_subnormal, np.finfo(part.dtype).max, np.finfo(part.dtype).min]
            if n > 20:
                part[rng.integers(0, n, 5)] = special
        return out.astype(kind)
    raw = np.frombuffer(rng.bytes(n * kind.itemsize), kind).copy()
    if kind.kind == "f":
        raw[np.isnan(raw)] = np.nan   # a writer may take any NaN for the fill value, and may quieten a signalling one
    elif kind.kind == "c":
        raw.real[np.isnan(raw.real)] = np.nan
        raw.imag[np.isnan(raw.imag)] = np.nan
    return raw


class Maker:
    """Makes one random spec; all randomness comes from `self.r`."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.seed = seed

    def chance(self, p):
        return self.r.random() < p

    def pick(self, *things):
        return self.r.choice(things)

    def spec(self):
        self.writer = self.pick(*WRITERS)
        self.form = self.pick(2, 3, 3)
        rank = self.r.choices(range(7), (4, 20, 30, 25, 12, 5, 4))[0]
        limit = self.pick(40, 400, 4000, 4000, 40000) if not self.chance(0.02) else 400000
        shape = []
        for axis in range(rank):
            room = max(1, limit // max(1, math.prod(shape)))
            shape.append(min(room, self.pick(1, self.r.randint(1, 9), self.r.randint(2, 70), room)))
        self.r.shuffle(shape)
        if rank and self.chance(0.03):
            shape[self.r.randrange(rank)] = 0
        # At most about 100 chunks; some are larger than the array.
        chunks = [max(1, self.pick(1, 2, 3, self.r.randint(1, max(1, n)), n, (n + 1) // 2, n + self.r.randint(0, 3))) for n in shape]
        for axis in self.r.sample(range(rank), rank):
            while math.prod(-(-n // c) for n, c in zip(shape, chunks)) > 100:
                if chunks[axis] >= shape[axis]:
                    break
                chunks[axis] = min(shape[axis], chunks[axis] * 2)
        self.shape, self.chunks = shape, chunks
        spec = {"seed": self.seed, "writer": self.writer, "dtype": self.dtype()}
        self.item = dtype_of(spec)
        spec["document"] = self.v2(spec) if self.form == 2 else self.v3(spec)
        spec["holes"] = self.holes()
        spec["selections"] = [""] + [self.selection() for _ in range(2)]
        return spec

    def dtype(self):
        python = self.writer == "zarr-python"
        order = self.pick("<", "<", ">") if self.form == 2 else "<"
        kinds = ["number"] * 10 + ["b1", "c8", "c16"]
        if python:
            kinds += ["time", "time", "S", "U", "V", "struct"]
        else:
            kinds += ["bfloat16"] if self.form == 2 else ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"]
        kind = self.pick(*kinds)
        if kind == "number":
            name = self.pick(*NUMBERS)
            return ("|" if name[1] == "1" else order) + name
        if kind == "time":
            factor = self.pick("", "", "10", "25")
            return f"{order}{self.pick('M', 'm')}8[{factor}{self.pick(*TIME_UNITS)}]"
        if kind in "SV":
            return f"|{kind}{self.pick(1, 2, 3, 7, 8, 16)}"
        if kind == "U":
            return f"{order}U{self.r.randint(1, 5)}"
        if kind == "struct":
            fields = []
            for i in range(self.r.randint(1, 4)):
                size = self.pick(*NUMBERS, "S3", "c8")
                kind = ("|" if size[1] == "1" or size[0] == "S" else self.pick("<", ">") if self.form == 2 else "<") + size
                fields.append([f"f{i}", kind] + ([[self.r.randint(1, 3)]] if self.form == 2 and self.chance(0.2) else []))
            return fields
        if kind in ("b1", "c8", "c16"):
            return ("|" if kind == "b1" else order) + kind
        return kind

    def fill(self):
        item = self.item
        if item.name in EXTRA:
            return self.pick(0, 1) if item.name == "int4" else self.pick(0.0, 1.0)
        if item.fields:
            raw = bytes(item.itemsize) if self.chance(0.5) else _values(np.random.default_rng(self.r.getrandbits(32)), item, 1).tobytes()
            return base64.b64encode(raw).decode()
        if item.kind == "b":
            return self.chance(0.3)
        if item.kind == "S":
            return base64.b64encode(self.pick(b"", b"x", b"ab")[:item.itemsize].ljust(0)).decode()
        if item.kind == "V":
            return base64.b64encode(self.pick(bytes(item.itemsize), self.r.randbytes(item.itemsize))).decode()
        if item.kind == "U":
            return self.pick("", "z", "\u03a9")[:item.itemsize // 4]
        if item.kind in "iu":
            info = np.iinfo(item)
            return self.pick(0, 0, 1, int(info.max), int(info.min), self.r.randint(int(info.min), int(info.max)))
        if item.kind in "mM":
            return self.pick(0, -(2**63), self.r.randint(-10**6, 10**6))
        words = ["NaN", "Infinity", "-Infinity", 0.0, 1.5, -2.0]
        return self.pick(*words) if item.kind == "f" else [self.pick(*words), self.pick(*words)]

    # v2

    def v2(self, spec):
        dtype = spec["dtype"]
        filters = self.v2_filters() if self.writer == "zarr-python" and self.chance(0.35) and not self.item.fields else []
        return {"zarr_format": 2, "shape": self.shape, "chunks": self.chunks, "dtype": dtype, "compressor": self.v2_compressor(),
                "fill_value": self.fill(), "order": self.pick("C", "C", "F"), "filters": filters or None,
                "dimension_separator": self.pick(".", "/")}

    def blosc(self, python):
        names = ["lz4", "lz4hc", "blosclz", "zlib", "zstd"] if python else ["lz4", "lz4hc", "blosclz", "zlib", "zstd", "snappy"]
        return {"cname": self.pick(*names), "clevel": self.r.randint(0, 9), "blocksize": self.pick(0, 0, 0, 256, 1024, 4096)}

    def v2_compressor(self):
        python = self.writer == "zarr-python"
        kinds = ["none", "blosc", "blosc", "zlib", "gzip", "bz2", "zstd"] + (["lz4", "lzma"] if python else [])
        kind = self.pick(*kinds)
        level = self.r.randint(1, 9)
        if kind == "none":
            return None
        if kind == "blosc":
            return {"id": "blosc", **self.blosc(python), "shuffle": self.pick(0, 1, 2)}
        if kind == "lzma":
            return {"id": "lzma", "format": 1, "check": self.pick(-1, 0, 1, 4), "preset": self.r.randint(0, 2), "filters": None}
        if kind == "lz4":
            return {"id": "lz4", "acceleration": self.r.randint(1, 9)}
        if kind == "zstd":
            return {"id": "zstd", "level": self.pick(-5, 1, 3, 9), **({"checksum": self.chance(0.5)} if python else {})}
        return {"id": kind, "level": level}

    def v2_filters(self):
        """At most two filters that zarr-python applies before the compressor; the first must know the array's type."""
        item, out = self.item, []
        text = item.str
        if item.kind in "iu" or item.kind == "f":
            kind = self.pick("delta", "scale", "quantize", "bitround", "astype", "none")
            if kind == "delta":
                out.append({"id": "delta", "dtype": text})
            elif kind == "scale" and item.kind == "f" and item.itemsize > 2:
                out.append({"id": "fixedscaleoffset", "scale": self.pick(10, 100, 0.5), "offset": self.pick(0, -3, 1000), "dtype": text,
                            "astype": self.pick("<i4", "<i8", "<f8", ">i4")})
            elif kind == "quantize" and item.kind == "f":
                out.append({"id": "quantize", "digits": self.r.randint(0, 4), "dtype": text, "astype": text})
            elif kind == "bitround" and item.kind == "f" and item.str[0] == "<":
                out.append({"id": "bitround", "keepbits": self.r.randint(1, 9)})
            elif kind == "astype" and item.kind in "iu":
                out.append({"id": "astype", "encode_dtype": self.pick("<i8", "<f8", ">i4"), "decode_dtype": text})
        if item.kind == "b" and self.chance(0.5):
            out.append({"id": "packbits"})
        elif self.chance(0.5):
            kind = self.pick("shuffle", "crc32", "adler32", "fletcher32", "crc32c", "jenkins_lookup3")
            out.append({"id": "shuffle", "elementsize": self.pick(1, 2, 4, 8)} if kind == "shuffle" else {"id": kind})
        return out

    # v3

    def v3(self, spec):
        attributes = {"units": "K", "nested": {"list": [1, None, "\u00b0"]}, "n": self.r.randint(0, 9)} if self.chance(0.5) else {}
        keys = {"name": self.pick("default", "default", "v2"), "configuration": {"separator": self.pick("/", ".")}}
        document = {"zarr_format": 3, "node_type": "array", "shape": self.shape, "data_type": self.v3_type(spec["dtype"]),
                    "chunk_grid": None, "chunk_key_encoding": keys, "fill_value": self.fill(), "codecs": None, "attributes": attributes}
        # zarr-python takes a millisecond per inner chunk, so there are few of them.
        most = 60 if self.writer == "zarr-python" else 600
        shards = self.pick(0, 0, 0, 1, 1, 1, 2, 3)
        while True:
            outer = list(self.chunks)
            document["codecs"] = self.v3_codecs(outer, shards)
            each = math.prod(outer) // math.prod(innermost(document["codecs"]) or outer)
            if each <= most:
                break
            shards -= self.chance(0.3)
        while each * math.prod(-(-n // c) for n, c in zip(self.shape, outer)) > most:
            axis = max(range(len(outer)), key=lambda i: self.shape[i] / outer[i])
            self.shape[axis] = (self.shape[axis] + 1) // 2
        document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": outer}}
        if self.shape and self.chance(0.2):
            document["dimension_names"] = [self.pick(None, f"axis{i}") for i in range(len(self.shape))]
        return document

    def v3_type(self, dtype):
        item = self.item
        if item.fields:
            return {"name": "structured", "configuration": {"fields": [[f[0], self.v3_simple(np.dtype(f[1]))] for f in dtype]}}
        return self.v3_simple(item)

    @staticmethod
    def v3_simple(item):
        if item.kind in "mM":
            unit, factor = np.datetime_data(item)
            return {"name": "numpy." + ("datetime64" if item.kind == "M" else "timedelta64"),
                    "configuration": {"unit": unit, "scale_factor": factor}}
        name = {"S": "null_terminated_bytes", "U": "fixed_length_utf32", "V": "raw_bytes"}.get(item.kind)
        if name and item.name not in EXTRA:
            return {"name": name, "configuration": {"length_bytes": item.itemsize}}
        return V3_NAMES.get(item.str[1:], item.name)

    def v3_codecs(self, chunk, shards, inside=False):
        """A chain for chunks of this shape. `chunk` grows if a shard must be a multiple of its inner chunks."""
        python, rank = self.writer == "zarr-python", len(chunk)
        out, shape = [], chunk
        order = list(range(rank))
        # zarr-python does not transpose before sharding.
        if self.chance(0.25) and not (python and shards):
            for _ in range(self.pick(1, 1, 2)):
                self.r.shuffle(order)
                out.append({"name": "transpose", "configuration": {"order": list(order)}})
        if shards:
            # Inner chunks are in transposed coordinates: sizes are chosen there and then mapped back to the array's
            # axes.
            stored = list(shape)
            for codec in out:
                stored = [stored[i] for i in codec["configuration"]["order"]]
            inner = [self.pick(n, 1, max(1, n // 2), self.r.randint(1, max(1, n))) for n in stored]
            codecs = self.v3_codecs(inner, shards - 1, True)
            most = 6 if rank < 3 else 3
            stored = [i * max(1, min(-(-n // i), most)) for n, i in zip(stored, inner)]
            for codec in reversed(out):
                back = [0] * rank
                for to, origin in enumerate(codec["configuration"]["order"]):
                    back[origin] = stored[to]
                stored = back
            chunk[:] = stored
            index = [{"name": "bytes", "configuration": {"endian": self.pick("little", "little", "big")}}] + ([CRC] if self.chance(0.8) else [])
            out.append({"name": "sharding_indexed", "configuration": {"chunk_shape": inner, "codecs": codecs, "index_codecs": index,
                                                                      "index_location": self.pick("end", "end", "start")}})
            if self.chance(0.1) and not inside:
                out.append(CRC if self.chance(0.5) else self.v3_compressor())
            return out
        item = self.item
        filters = python and not inside and self.chance(0.2)
        if filters and item.kind in "iuf" and item.name not in EXTRA:
            text = item.str
            kind = self.pick("delta", "scale", "quantize", "bitround", "astype")
            if kind == "delta":
                out.append({"name": "numcodecs.delta", "configuration": {"dtype": text}})
            elif kind == "scale" and item.kind == "f" and item.itemsize > 2:
                out.append({"name": "numcodecs.fixedscaleoffset", "configuration": {
                    "scale": self.pick(10, 100), "offset": self.pick(0, -3), "dtype": text, "astype": self.pick("<i4", "<i8")}})
            elif kind == "quantize" and item.kind == "f":
                out.append({"name": "numcodecs.quantize", "configuration": {"digits": self.r.randint(0, 4), "dtype": text}})
            elif kind == "bitround" and item.kind == "f":
                out.append({"name": "numcodecs.bitround", "configuration": {"keepbits": self.r.randint(1, 9)}})
            elif kind == "astype" and item.kind in "iu" and item.itemsize > 1:   # otherwise zarr-python loses the byte order
                out.append({"name": "numcodecs.astype", "configuration": {"encode_dtype": "<f8", "decode_dtype": text}})
        single = not item.fields and (item.itemsize == 1 or item.kind in "SVb" and item.name != "bfloat16")
        # zarr-python reads the elements of its own filters as little-endian, whatever "bytes" says.
        plain = not item.fields and not (out and out[-1]["name"].startswith("numcodecs."))
        out.append({"name": "bytes"} if single and plain else
                   {"name": "bytes", "configuration": {"endian": self.pick("little", "little", "big") if plain else "little"}})
        for _ in range(self.pick(0, 1, 1, 1, 2)):
            out.append(CRC if self.chance(0.2) else self.v3_compressor())
        return out

    def v3_compressor(self):
        python = self.writer == "zarr-python"
        kinds = ["blosc", "blosc", "zstd", "zstd", "gzip"]
        if python:
            kinds += ["numcodecs." + k for k in ("zlib", "lz4", "bz2", "lzma", "shuffle", "adler32", "crc32", "fletcher32", "jenkins_lookup3")]
        kind = self.pick(*kinds)
        level = self.r.randint(1, 9)
        if kind == "blosc":
            return {"name": "blosc", "configuration": {**self.blosc(python), "shuffle": self.pick("noshuffle", "shuffle", "bitshuffle"),
                                                       "typesize": self.pick(max(1, self.item.itemsize), 1, 2, 4, 8)}}
        if kind == "zstd":
            return {"name": "zstd", "configuration": {"level": self.pick(-7, 1, 3, 9), "checksum": self.chance(0.5) if python else False}}
        config = {"gzip": {"level": level}, "numcodecs.zlib": {"level": level}, "numcodecs.bz2": {"level": level},
                  "numcodecs.lz4": {"acceleration": level}, "numcodecs.lzma": {"preset": self.r.randint(0, 2)},
                  "numcodecs.shuffle": {"elementsize": self.pick(1, 2, 4, 8)}}.get(kind, {})
        return {"name": kind, "configuration": config}

    # Holes and selections

    def holes(self):
        if not self.shape or not self.chance(0.4):
            return []
        if self.chance(0.1):
            return [[[0, n] for n in self.shape]]
        out = []
        for _ in range(self.r.randint(1, 3)):
            hole = []
            for n, c in zip(self.shape, self.chunks):
                start = self.r.randint(0, n) // c * c
                hole.append([start, min(n, start + c * self.r.randint(1, 4))])
            out.append(hole)
        return out

    def selection(self):
        items = []
        for n in self.shape:
            kind = self.pick("all", "range", "range", "step", "index", "negative")
            a, b = sorted((self.r.randint(0, n), self.r.randint(0, n)))
            if kind == "all" or n == 0 and kind == "index":
                items.append(":")
            elif kind == "range":
                items.append(f"{a}:{b}")
            elif kind == "step":
                items.append(f"{self.pick('', a)}:{self.pick('', b)}:{self.r.randint(1, n + 2)}")
            elif kind == "index":
                items.append(str(self.r.randint(-n, n - 1)))
            else:
                items.append(f"{-b - 1}:{self.pick('', -a)}" if b else ":")
        if items and self.chance(0.2):
            cut = self.r.randint(0, len(items))
            items = items[:cut] + ["..."]
        return ", ".join(items)


def make_spec(seed):
    return Maker(seed).spec()


def numpy_selection(text):
    """Converts a selection's text into an index for NumPy."""
    out = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        if item == "...":
            out.append(...)
        elif ":" in item:
            out.append(slice(*(int(x) if x else None for x in item.split(":"))))
        else:
            out.append(int(item))
    return tuple(out)


def innermost(codecs):
    """Shape of the smallest chunks of a v3 chain; None without shards."""
    for codec in codecs:
        if codec["name"] == "sharding_indexed":
            return innermost(codec["configuration"]["codecs"]) or codec["configuration"]["chunk_shape"]
    return None


def codec_names(value):
    """Names of all codecs in a document, for the list of what a build may refuse."""
    if isinstance(value, dict):
        for key in ("id", "name"):
            if isinstance(value.get(key), str):
                yield value[key]
        for inner in value.values():
            yield from codec_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from codec_names(inner)
