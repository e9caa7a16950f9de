"""Encodes arrays as Zarr v2 and v3 folders from metadata documents, for forms that no other writer produces.

Nothing here decodes: other readers judge the result (make_golden.py)."""
import gzip
import itertools
import json
import pathlib
import zlib

import numcodecs
import numpy as np

_CRC_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = (_n >> 1) ^ (0x82F63B78 if _n & 1 else 0)
    _CRC_TABLE.append(_n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 255] ^ (crc >> 8)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def endian(dtype, order):
    """The dtype with every field in one byte order ('<' or '>') and packed."""
    if dtype.fields:
        return np.dtype([(name, endian(dtype.fields[name][0], order)) for name in dtype.names])
    if dtype.subdtype:
        return np.dtype((endian(dtype.subdtype[0], order), dtype.subdtype[1]))
    return dtype.newbyteorder(order)


def canonical(data):
    """The bytes that a reader must yield: C order, little endian, packed. Items of variable length: a little-endian
    uint32 length and the bytes, one item after the other."""
    data = np.asarray(data)
    if data.dtype.kind in "OT":
        items = [item.encode() if isinstance(item, str) else bytes(item) for item in data.astype(object).reshape(-1)]
        return b"".join(len(item).to_bytes(4, "little") + item for item in items)
    if data.dtype.name == "bfloat16":
        return np.ascontiguousarray(data).tobytes()
    return np.ascontiguousarray(np.asarray(data)).astype(endian(np.asarray(data).dtype, "<")).tobytes()


def blosc(raw, config, typesize):
    shuffle = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}.get(config["shuffle"], config["shuffle"])
    return numcodecs.blosc.compress(raw, config["cname"].encode(), config["clevel"], shuffle, config.get("blocksize", 0), typesize)


def compress(name, config, raw):
    """Applies one bytes-to-bytes codec, given by its v3 name without the 'numcodecs.' prefix."""
    if name == "blosc":
        return blosc(raw, config, config.get("typesize", 1))
    if name == "zstd":
        return numcodecs.Zstd(config["level"], config.get("checksum", False)).encode(raw)
    if name == "gzip":
        return gzip.compress(raw, config["level"], mtime=0)
    if name == "zlib":
        return zlib.compress(raw, config["level"])
    if name == "lz4":
        return bytes(numcodecs.LZ4(config.get("acceleration", 1)).encode(raw))
    if name == "shuffle":
        size = config.get("elementsize", 4)
        whole = len(raw) - len(raw) % size
        return np.frombuffer(raw[:whole], "u1").reshape(-1, size).T.tobytes() + raw[whole:]
    if name == "crc32c":
        return raw + crc32c(raw)
    raise ValueError(name)


def grid(shape, chunks):
    return itertools.product(*[range(-(-n // c)) for n, c in zip(shape, chunks)])


def take(data, index, chunks, fill):
    """One chunk of the grid, padded with the fill value beyond the array's edge."""
    part = data[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks))]
    if part.shape == tuple(chunks):
        return part
    whole = np.empty(chunks, data.dtype)
    whole[...] = fill
    whole[tuple(slice(0, n) for n in part.shape)] = part
    return whole


def is_fill(part, fill):
    empty = np.empty(part.shape, part.dtype)
    empty[...] = fill
    return np.ascontiguousarray(part).tobytes() == empty.tobytes()


def v2_chunk(part, meta):
    raw = part.tobytes(order=meta["order"])
    typesize = part.dtype.itemsize
    for f in meta["filters"] or []:
        raw, typesize = compress(f["id"], f, raw), 1
    codec = meta["compressor"]
    if codec is None:
        return raw
    return blosc(raw, codec, typesize) if codec["id"] == "blosc" else compress(codec["id"], codec, raw)


def write_v2(path, meta, data, fill=0, drop=False, attributes=None):
    """drop: chunks that contain only the fill value are left out."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    (path / ".zarray").write_text(json.dumps(meta, indent=1))
    if attributes is not None:
        (path / ".zattrs").write_text(json.dumps(attributes))
    separator = meta.get("dimension_separator", ".")
    for index in grid(data.shape, meta["chunks"]):
        part = take(data, index, meta["chunks"], fill)
        if drop and is_fill(part, fill):
            continue
        file = path / (separator.join(map(str, index)) or "0")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(v2_chunk(part, meta))


def shard(part, config, fill, layout):
    """layout: 'reverse' writes the payloads backwards, 'gaps' leaves unused bytes between them, 'share' stores equal
    ones once."""
    inner, chunks = config["codecs"], config["chunk_shape"]
    indexes = list(grid(part.shape, chunks))
    index = np.full((len(indexes), 2), 2**64 - 1, "u8")
    index_codecs = config["index_codecs"]
    crc = any(c["name"] == "crc32c" for c in index_codecs)
    start = config.get("index_location", "end") == "start"
    size = index.nbytes + 4 * crc
    body, position, known = [], size if start else 0, {}
    todo = list(enumerate(indexes))
    for n, i in reversed(todo) if layout == "reverse" else todo:
        piece = take(part, i, chunks, fill)
        if layout != "full" and is_fill(piece, fill):
            continue
        raw = v3_chunk(piece, inner, fill, layout)
        if layout == "share" and raw in known:
            index[n] = known[raw], len(raw)
            continue
        if layout == "gaps":
            body.append(b"\xa5" * 7)
            position += 7
        known[raw] = position
        index[n] = position, len(raw)
        body.append(raw)
        position += len(raw)
    table = v3_chunk(index, index_codecs, 0, None)
    assert len(table) == size
    return table + b"".join(body) if start else b"".join(body) + table


def v3_chunk(part, codecs, fill, layout=None):
    raw = None
    for codec in codecs:
        codec = {"name": codec} if isinstance(codec, str) else codec
        name, config = codec["name"], codec.get("configuration", {})
        if name == "transpose":
            part = part.transpose(config["order"])
        elif name == "bytes":
            raw = part.astype(endian(part.dtype, ">" if config.get("endian") == "big" else "<")).tobytes()
        elif name == "sharding_indexed":
            raw = shard(part, config, fill, layout)
        else:
            raw = compress(name.removeprefix("numcodecs."), config, raw)
    return raw


def v3_key(meta, index):
    encoding = meta["chunk_key_encoding"]
    default = encoding["name"] == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if default else ".")
    parts = (["c"] if default else []) + [str(i) for i in index]
    return separator.join(parts) or "0"


def write_v3(path, meta, data, fill=0, drop=False, layout=None):
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    (path / "zarr.json").write_text(json.dumps(meta, indent=1))
    chunks = meta["chunk_grid"]["configuration"]["chunk_shape"]
    for index in grid(data.shape, chunks):
        part = take(data, index, chunks, fill)
        if drop and is_fill(part, fill):
            continue
        file = path / v3_key(meta, index)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(v3_chunk(part, meta["codecs"], fill, layout))
