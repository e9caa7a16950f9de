"""Every codec, type and fill value that both support reads the same as through zarr's own pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr_support import open_ours, open_own, same

Z = zarr.codecs
SHAPE, CHUNKS = (23, 31), (5, 8)

V3_CODECS: dict[str, dict[str, Any]] = {
    "none": {"compressors": None},
    "zstd": {"compressors": Z.ZstdCodec(level=3)},
    "zstd-checksum": {"compressors": Z.ZstdCodec(level=1, checksum=True)},
    "gzip": {"compressors": Z.GzipCodec(level=5)},
    "crc32c": {"compressors": Z.Crc32cCodec()},
    "gzip-crc32c": {"compressors": [Z.GzipCodec(level=1), Z.Crc32cCodec()]},
    "big-endian": {"serializer": Z.BytesCodec(endian="big"), "compressors": None},
    "transpose": {"filters": Z.TransposeCodec(order=(1, 0)), "compressors": Z.ZstdCodec()},
    **{
        f"blosc-{name}-{shuffle}": {"compressors": Z.BloscCodec(cname=name, clevel=5, shuffle=shuffle)}
        for name in ("lz4", "lz4hc", "zstd", "zlib", "blosclz")
        for shuffle in ("noshuffle", "shuffle", "bitshuffle")
    },
}
V2_CODECS: dict[str, dict[str, Any]] = {
    "none": {"compressors": None},
    "zstd": {"compressors": numcodecs.Zstd(3)},
    "gzip": {"compressors": numcodecs.GZip(5)},
    "zlib": {"compressors": numcodecs.Zlib(5)},
    "lz4": {"compressors": numcodecs.LZ4()},
    "blosc": {"compressors": numcodecs.Blosc("lz4", 5, numcodecs.Blosc.SHUFFLE)},
    "blosc-bit": {"compressors": numcodecs.Blosc("zstd", 5, numcodecs.Blosc.BITSHUFFLE)},
    "delta": {"filters": [numcodecs.Delta(dtype="<i4")], "compressors": numcodecs.Zstd(1)},
    "shuffle": {"filters": [numcodecs.Shuffle(4)], "compressors": numcodecs.GZip(1)},
}
NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
           "float64", "complex64", "complex128"]  # fmt: skip


def values(dtype: str | np.dtype[Any] = "int32", shape: tuple[int, ...] = SHAPE) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(7)
    return rng.integers(0, 100, shape).astype(dtype)


def create(where: Path, data: np.ndarray[Any, Any], **how: Any) -> Any:
    """Leaves out the last row of chunks, so that fill values are read."""
    how.setdefault("chunks", CHUNKS[: data.ndim])
    how.setdefault("shape", data.shape)
    array = zarr.create_array(where, dtype=data.dtype, **how)
    step = how.get("shards", how["chunks"])[0]
    stored = data.shape[0] // step * step
    array[:stored] = data[:stored]
    return array


def check(where: Path) -> Any:
    ours, own = open_ours(where), open_own(where)
    same(ours[...], own[...])
    same(ours[3:17:4, -2], own[3:17:4, -2])
    return ours[...]


@pytest.mark.parametrize("codecs", V3_CODECS)
def test_v3_codecs(tmp_path: Path, codecs: str) -> None:
    data = values()
    create(tmp_path, data, zarr_format=3, fill_value=17, **V3_CODECS[codecs])
    got = check(tmp_path)
    assert np.array_equal(got[:20], data[:20])
    assert np.all(got[20:] == 17)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("codecs", V2_CODECS)
def test_v2_codecs(tmp_path: Path, codecs: str, order: str) -> None:
    data = values("<i4")
    create(tmp_path, data, zarr_format=2, fill_value=17, order=order, **V2_CODECS[codecs])
    got = check(tmp_path)
    assert np.array_equal(got[:20], data[:20])
    assert np.all(got[20:] == 17)


@pytest.mark.parametrize("inner", ["none", "zstd", "gzip", "blosc-lz4-shuffle", "transpose", "crc32c", "big-endian"])
@pytest.mark.parametrize("location", ["start", "end"])
def test_shards(tmp_path: Path, inner: str, location: str) -> None:
    how = {**V3_CODECS[inner], "chunks": (5, 8), "shards": {"shape": (10, 16), "index_location": location}}
    array = zarr.create_array(tmp_path, shape=SHAPE, dtype="int32", fill_value=9, **how)
    data = values()
    array[:13, 5:] = data[:13, 5:]
    got = check(tmp_path)
    assert np.array_equal(got[:13, 5:], data[:13, 5:])
    assert np.all(got[13:] == 9)
    ours, own = open_ours(tmp_path), open_own(tmp_path)
    for selection in (np.s_[0], np.s_[9:11, 15:17], np.s_[:, 3], np.s_[12, 30]):
        same(ours[selection], own[selection])


def test_nested_shards(tmp_path: Path) -> None:
    inner = Z.ShardingCodec(chunk_shape=(2, 4), codecs=[Z.BytesCodec(), Z.ZstdCodec()])
    outer = Z.ShardingCodec(chunk_shape=(4, 8), codecs=[inner])
    array = zarr.create(
        store=tmp_path, shape=(20, 20), chunk_shape=(8, 16), dtype="uint16", codecs=[outer], fill_value=3, zarr_format=3
    )
    array[...] = values("uint16", (20, 20))
    check(tmp_path)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers(tmp_path: Path, dtype: str, zarr_format: int) -> None:
    create(tmp_path, values(dtype), zarr_format=zarr_format)
    check(tmp_path)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", [">i2", ">u4", ">f4", ">f8", ">c16", ">M8[s]"])
def test_big_endian(tmp_path: Path, dtype: str, zarr_format: int) -> None:
    data = values("int64").astype(dtype)
    create(tmp_path, data, zarr_format=zarr_format)
    check(tmp_path)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.filterwarnings("ignore:.*not have a stable.*")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "dtype",
    ["M8[ns]", "M8[10us]", "m8[D]", "S5", "U4", "V7", [("a", "<i4"), ("b", "<f8")], [("x", "u1"), ("y", "S3")]],
    ids=str,
)
def test_other_types(tmp_path: Path, dtype: Any, zarr_format: int) -> None:
    kind = np.dtype(dtype)
    numbers = values("int64")
    if kind.names:
        data = np.zeros(SHAPE, kind)
        for name in kind.names:
            data[name] = numbers.astype(kind[name])
    elif kind.kind == "V":
        data = np.frombuffer(np.random.default_rng(1).bytes(numbers.size * kind.itemsize), kind).reshape(SHAPE)
    else:
        data = numbers.astype(kind)
    create(tmp_path, data, zarr_format=zarr_format)
    check(tmp_path)


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["str", "bytes"])
def test_variable_length(tmp_path: Path, kind: str, zarr_format: int) -> None:
    words = np.array(["", "a", "bcd", "äöü€", "x" * 300, "0", "\n"], dtype=object)
    if kind == "bytes":
        words = np.array([w.encode() + b"\0z" for w in words], dtype=object)
    dtype: Any = str if kind == "str" else zarr.dtype.VariableLengthBytes()
    array = zarr.create_array(tmp_path, shape=(4, 5), chunks=(2, 2), dtype=dtype, zarr_format=zarr_format)
    array[:2] = np.resize(words, (2, 5))
    ours, own = open_ours(tmp_path), open_own(tmp_path)
    for selection in (np.s_[...], np.s_[1, ::2], np.s_[3, 4], np.s_[0, 3]):
        got, expected = np.asarray(ours[selection]), np.asarray(own[selection])
        assert got.dtype == expected.dtype
        assert got.tolist() == expected.tolist()
    assert ours.vindex[[0, 3, 1], [4, 0, 0]].tolist() == own.vindex[[0, 3, 1], [4, 0, 0]].tolist()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [("float32", np.nan), ("float64", np.inf), ("float32", -np.inf), ("float64", 0.1), ("int64", -(2**63)),
     ("uint64", 2**64 - 1), ("bool", True), ("complex64", 1 + 2j), ("M8[s]", np.datetime64("NaT", "s"))],
)  # fmt: skip
def test_fill_values(tmp_path: Path, dtype: str, fill: Any, zarr_format: int) -> None:
    zarr.create_array(tmp_path, shape=SHAPE, chunks=CHUNKS, dtype=dtype, fill_value=fill, zarr_format=zarr_format)
    got = check(tmp_path)
    same(got, np.full(SHAPE, fill, dtype=dtype))


@pytest.mark.parametrize("dtype", ["<f4", "<i2", "<M8[s]", "|S3", "<U2", "|b1"])
def test_v2_without_fill_value(tmp_path: Path, dtype: str) -> None:
    zarr.create_array(tmp_path, shape=SHAPE, chunks=CHUNKS, dtype=dtype, fill_value=None, zarr_format=2)
    check(tmp_path)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("separator", [".", "/"])
def test_key_encodings(tmp_path: Path, separator: str, zarr_format: int) -> None:
    names = ["v2"] if zarr_format == 2 else ["v2", "default"]
    for name in names:
        where = tmp_path / name
        encoding: Any = {"name": name, "separator": separator}
        create(where, values(), zarr_format=zarr_format, chunk_key_encoding=encoding)
        check(where)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_no_dimensions(tmp_path: Path, zarr_format: int) -> None:
    array = zarr.create_array(tmp_path, shape=(), dtype="int32", zarr_format=zarr_format)
    array[...] = 42
    same(open_ours(tmp_path)[...], open_own(tmp_path)[...])
    assert open_ours(tmp_path)[()] == 42


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_extents_of_zero(tmp_path: Path, zarr_format: int) -> None:
    zarr.create_array(tmp_path, shape=(0, 4), chunks=(2, 2), dtype="int32", zarr_format=zarr_format)
    same(open_ours(tmp_path)[...], open_own(tmp_path)[...])


def test_in_a_group(tmp_path: Path) -> None:
    group = zarr.create_group(tmp_path)
    array = group.create_array("deep/er/a b", shape=SHAPE, chunks=CHUNKS, dtype="int32")
    array[...] = values()
    same(open_ours(tmp_path, path="deep/er/a b")[...], values())
