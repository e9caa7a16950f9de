#!/usr/bin/env python3
"""Writes codecs/*/seeds: one small file for each form of stream that a codec may encounter.

tests/support/codec_seed.h describes the layout of a file. Files named ok* decode, bad* do not; the conformance test
checks this. Needs numpy and numcodecs. The output is committed so that builds need no Python: run this only to add
seeds.
"""
import gzip
import pathlib
import struct
import zlib

import numcodecs
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2] / "codecs"
SMOOTH = (numpy.arange(300, dtype="<f4") * 0.5).tobytes()
TEXT = b"the quick brown fox jumps over the lazy dog. " * 8
NOISE = numpy.random.default_rng(1).integers(0, 256, 200, dtype="u1").tobytes()
ZEROS = bytes(3000)


def seed(codec, name, stream, capacity, at_most=False, choice=0):
    folder = ROOT / codec / "seeds"
    folder.mkdir(parents=True, exist_ok=True)
    head = struct.pack("<I", capacity)[:3] + bytes([int(at_most) | choice << 1])
    (folder / name).write_bytes(head + bytes(stream))


def with_bytes(stream, at, new):
    return bytes(stream[:at]) + bytes(new) + bytes(stream[at + len(new):])


def array_codecs():
    configs = {
        "bytes": ['{"endian":"little"}', '{"endian":"big"}', "{}", '{"endian":1}', '{"endian":"big","x":1}'],
        "transpose": ['{"order":[]}', '{"order":[1,0]}', '{"order":[2,0,1]}', '{"order":[0,0]}', '{"order":"F"}',
                      '{"order":[4,3,2,1,0]}', '{"order":[1,-1]}'],
        "bitround": ['{"keepbits":8}', '{"keepbits":-1}', "{}", '{"keepbits":7.5}', '{"keepbits":8,"x":1}'],
    }
    for codec, texts in configs.items():
        folder = ROOT / codec / "seeds"
        folder.mkdir(parents=True, exist_ok=True)
        for i, text in enumerate(texts):
            rank = text.count(",") + 1 if "[" in text and "[]" not in text else 0
            (folder / f"config{i}").write_bytes(bytes([rank]) + text.encode())


def blosc():
    def container(plain, cname, shuffle, item, block=0, level=5):
        array = numpy.frombuffer(plain[:len(plain) // item * item], dtype=f"V{item}")
        codec = numcodecs.Blosc(cname=cname, clevel=level, shuffle=shuffle, blocksize=block, typesize=item)
        return bytes(codec.encode(array)), array.nbytes

    for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):  # numcodecs releases lack snappy
        for shuffle in (0, 1, 2):
            seed("blosc", f"ok_{cname}_{shuffle}", *container(SMOOTH + TEXT, cname, shuffle, 4))
    # Written by hand: a literal of 12 bytes, copies with each size of offset, and a literal whose length is in the next
    # byte.
    snappy = (b"\xa0\x01" + b"\x2chello snappy" + b"\x01\x06" + b"\xee\x0c\x00" + b"\x6f\x0c\0\0\0" +
              b"\xf0\x37" + TEXT[:56])
    body = struct.pack("<II", 20, len(snappy)) + snappy
    header = struct.pack("<BBBBIII", 2, 1, 2 << 5 | 0x10, 1, 160, 160, 16 + len(body))
    seed("blosc", "ok_snappy_by_hand", header + body, 160)
    stream, n = container(ZEROS, "zstd", 1, 4, block=1024)
    seed("blosc", "ok_blocks", stream, n)
    seed("blosc", "ok_limit", stream, n + 100, at_most=True)
    seed("blosc", "ok_stored", *container(NOISE, "lz4", 1, 4))
    seed("blosc", "ok_level0", *container(TEXT, "lz4", 1, 4, level=0))
    seed("blosc", "ok_item3", *container(SMOOTH, "lz4", 1, 3))
    seed("blosc", "ok_item24_bits", *container(SMOOTH, "lz4", 2, 24))
    seed("blosc", "ok_leftover", *container(SMOOTH * 3 + b"abc", "zlib", 1, 1, block=1024))
    seed("blosc", "bad_flags", with_bytes(stream, 2, [0xFF]), n)
    seed("blosc", "bad_size", stream, n + 1)
    seed("blosc", "bad_start", with_bytes(stream, 16, b"\xff\xff\xff\x7f"), n)
    seed("blosc", "bad_blocksize", with_bytes(stream, 8, b"\x01\0\0\0"), n)
    seed("blosc", "bad_split", with_bytes(stream, struct.unpack_from("<I", stream, 16)[0], b"\xff\xff\xff\xff"), n)


def zstd():
    def frame(plain, level=3, checksum=False):
        return bytes(numcodecs.Zstd(level=level, checksum=checksum).encode(plain))

    skippable = struct.pack("<II", 0x184D2A50, 5) + b"12345"
    for name, plain in (("smooth", SMOOTH), ("text", TEXT), ("noise", NOISE), ("zeros", ZEROS)):
        seed("zstd", f"ok_{name}", frame(plain), len(plain))
    seed("zstd", "ok_level19", frame(TEXT + SMOOTH, 19), len(TEXT + SMOOTH))
    seed("zstd", "ok_fast", frame(TEXT + SMOOTH, -7), len(TEXT + SMOOTH))
    seed("zstd", "ok_checksum", frame(TEXT, 3, True), len(TEXT))
    seed("zstd", "ok_two_frames", frame(TEXT) + frame(SMOOTH, 1, True), len(TEXT + SMOOTH))
    seed("zstd", "ok_skippable", skippable + frame(TEXT) + skippable, len(TEXT))
    seed("zstd", "ok_limit", frame(TEXT), len(TEXT) + 10, at_most=True)
    # One raw block, with a window size instead of a content size.
    unknown = struct.pack("<IBB", 0xFD2FB528, 0x00, 0x58) + struct.pack("<I", 1 | 5 << 3)[:3] + b"hello"
    seed("zstd", "ok_unknown_size", unknown, 5)
    seed("zstd", "bad_trailing", frame(TEXT) + b"\0", len(TEXT))
    seed("zstd", "bad_only_skippable", skippable, 10)
    seed("zstd", "bad_dictionary", struct.pack("<IBBB", 0xFD2FB528, 0x21, 7, 5) + b"\x29\0\0hello", 5)
    seed("zstd", "bad_reserved_block", struct.pack("<IBB", 0xFD2FB528, 0x20, 5) + b"\x2f\0\0hello", 5)


def deflate():
    for name, plain in (("smooth", SMOOTH), ("text", TEXT), ("noise", NOISE), ("zeros", ZEROS)):
        seed("gzip", f"ok_{name}", gzip.compress(plain, mtime=0), len(plain))
        seed("zlib", f"ok_{name}", zlib.compress(plain), len(plain))
    for level in (0, 1, 9):
        seed("gzip", f"ok_level{level}", gzip.compress(TEXT, level, mtime=0), len(TEXT))
        seed("zlib", f"ok_level{level}", zlib.compress(TEXT, level), len(TEXT))
    fixed = zlib.compressobj(9, zlib.DEFLATED, 15, 9, zlib.Z_FIXED)
    seed("zlib", "ok_fixed", fixed.compress(TEXT) + fixed.flush(), len(TEXT))
    one = gzip.compress(TEXT, mtime=0)
    seed("gzip", "ok_two_members", one + gzip.compress(SMOOTH, mtime=0), len(TEXT + SMOOTH))
    head = one[:3] + b"\x1e" + one[4:10] + b"\x03\0abc" + b"name\0" + b"comment\0"
    head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    seed("gzip", "ok_all_fields", head + one[10:], len(TEXT))
    seed("gzip", "bad_header_crc", with_bytes(head, 12, b"X") + one[10:], len(TEXT))
    seed("gzip", "bad_crc", with_bytes(one, len(one) - 8, b"\0\0\0\0"), len(TEXT))
    seed("gzip", "bad_isize", with_bytes(one, len(one) - 4, b"\0\0\0\0"), len(TEXT))
    seed("gzip", "bad_zero_padding", one + bytes(16), len(TEXT))
    seed("gzip", "bad_field_without_end", one[:3] + b"\x08" + one[4:10] + b"x" * 40, len(TEXT))
    seed("zlib", "bad_adler", with_bytes(zlib.compress(TEXT), len(zlib.compress(TEXT)) - 4, b"\0\0\0\0"), len(TEXT))
    seed("zlib", "bad_trailing", zlib.compress(TEXT) + b"\0", len(TEXT))
    adler = struct.pack(">I", zlib.adler32(b"hello"))
    seed("zlib", "bad_stored_length", b"\x78\x01\x01\x05\0\0\0hello" + adler, 5)


def lz4():
    for name, plain in (("smooth", SMOOTH), ("text", TEXT), ("noise", NOISE), ("zeros", ZEROS)):
        seed("lz4", f"ok_{name}", numcodecs.LZ4().encode(plain), len(plain))
    stream = bytes(numcodecs.LZ4().encode(TEXT))
    seed("lz4", "ok_limit", stream, len(TEXT) + 10, at_most=True)
    seed("lz4", "bad_size_word", with_bytes(stream, 0, b"\xff\xff\xff\xff"), len(TEXT))
    seed("lz4", "bad_trailing", stream + b"\0", len(TEXT))
    seed("lz4", "bad_offset0", struct.pack("<I", 20) + b"\x1fa\0\0\0", 20)
    seed("lz4", "bad_endless_length", struct.pack("<I", 400) + b"\xf0" + b"\xff" * 60, 400)


def fixed_size():
    def crc32c(data):
        crc = 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        return struct.pack("<I", crc ^ 0xFFFFFFFF)

    for name, plain in (("smooth", SMOOTH), ("text", TEXT), ("one", b"a")):
        seed("crc32c", f"ok_{name}", plain + crc32c(plain), len(plain))
        seed("crc32c", f"ok_start_{name}", crc32c(plain) + plain, len(plain), choice=1)
    seed("crc32c", "ok_limit", TEXT + crc32c(TEXT), len(TEXT) + 8, at_most=True)
    seed("crc32c", "bad_checksum", TEXT + b"\0\0\0\0", len(TEXT))
    seed("crc32c", "bad_short", b"abc", 0)
    for item in (2, 3, 4, 8, 16, 24):
        plain = SMOOTH[:1200 // item * item]
        seed("shuffle", f"ok_{item}", numcodecs.Shuffle(item).encode(plain), len(plain), choice=item)
    seed("shuffle", "bad_ragged", SMOOTH[:35], 35, choice=4)
    seed("shuffle", "bad_size", SMOOTH[:36], 40, choice=4)


if __name__ == "__main__":
    array_codecs()
    blosc()
    zstd()
    deflate()
    lz4()
    fixed_size()
