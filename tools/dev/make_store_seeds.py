#!/usr/bin/env python3
"""Writes the seeds of zip_store_fuzz and reference_store_fuzz: tests/fuzz/seeds/{zip_store,reference_store}."""
import io
import json
import pathlib
import zipfile

SEEDS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fuzz" / "seeds"
STAMP = (2020, 1, 1, 0, 0, 0)


class Stream(io.RawIOBase):
    """Not seekable, so zipfile writes data descriptors."""

    def __init__(self):
        self.data = bytearray()

    def writable(self):
        return True

    def write(self, piece):
        self.data += bytes(piece)
        return len(piece)


def archive(entries, streamed=False, comment=b"", zip64=False):
    out = Stream() if streamed else io.BytesIO()
    with zipfile.ZipFile(out, "w", allowZip64=True) as file:
        file.comment = comment
        for name, data, method in entries:
            info = zipfile.ZipInfo(name, STAMP)
            info.compress_type = method
            with file.open(info, "w", force_zip64=zip64) as member:
                member.write(data)
    return bytes(out.data) if streamed else out.getvalue()


def zip_seeds():
    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    some = [("zarr.json", b'{"zarr_format":3}', stored), ("g/c/0", bytes(range(100)), stored), ("g/c/1", b"x" * 300, deflated),
            ("g/empty", b"", stored), ("d/", b"", stored)]
    yield "empty", archive([])
    yield "some", archive(some)
    yield "streamed", archive(some, streamed=True)
    yield "zip64", archive(some, zip64=True)
    yield "comment", archive(some[:2], comment=b"PK\5\6 and more")
    yield "hostile_names", archive([(n, b"x", stored) for n in ("../up", "/abs", "a/../b", "a\\b", "./c", "a//b", "g")])
    yield "utf8", archive([("\u00e9t\u00e9/\u4e2d", b"x", stored), ("caf\u00e9", b"y", deflated)])
    yield "bzip2", archive([("b", b"x" * 50, zipfile.ZIP_BZIP2), ("l", b"x" * 50, zipfile.ZIP_LZMA)])
    twice = archive([("x", b"1", stored), ("y", b"2", stored)])
    yield "twice", twice.replace(b"y", b"x")
    plain = archive(some)
    yield "cut", plain[:-30]
    yield "behind", plain + b"\0"
    yield "before", b"\0" * 8 + plain
    yield "encrypted", plain.replace(b"PK\3\4\x14\0\0", b"PK\3\4\x14\0\1").replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1")
    end = plain.rfind(b"PK\5\6")
    # A ZIP64 end record and locator.
    offset = int.from_bytes(plain[end + 16:end + 20], "little")
    size, count = end - offset, len(some)
    n = lambda value, width: value.to_bytes(width, "little")
    record = b"PK\6\6" + n(44, 8) + n(45, 2) * 2 + n(0, 4) * 2 + n(count, 8) * 2 + n(size, 8) + n(offset, 8)
    locator = b"PK\6\7" + n(0, 4) + n(end, 8) + n(1, 4)
    yield "end64", plain[:end] + record + locator + b"PK\5\6" + n(0, 4) + b"\xff" * 12 + n(0, 2)
    yield "overlap", plain.replace(n(plain.find(b"PK\3\4", 4), 4), n(0, 4))


def reference_seeds():
    yield "version0", {".zgroup": '{"zarr_format":2}', "g/0": ["a.bin", 10, 20], "g/1": ["sub/b.bin"], "b": "base64:AAEC/w==",
                       "doc": {"a": [1]}, "in": ["in", 1, 2]}
    yield "version1", {"version": 1, "templates": {"u": "a.bin"}, "refs": {"k": ["{{u}}", 0, 10], "w": ["{{ u }}"]}}
    yield "gen", {"version": 1, "templates": {"u": "a"}, "gen": [{"key": "g/{{i}}.{{j}}", "url": "{{u}}.bin", "offset":
                  "{{(i + 1) * 10 - j // 2 % 3}}", "length": "{{j}}", "dimensions": {"i": {"stop": 3}, "j": [1, 5]}}]}
    yield "outside", {"a": ["../secret", 0, 1], "b": ["/etc/passwd", 0, 1], "c": ["out", 0, 1], "d": ["file:///etc/passwd"],
                      "e": ["sub/../../secret"], "f": ["s3://x/y", 0, 1], "g": ["http://x/y"]}
    yield "ranges", {"a": ["a.bin", 1000, 0], "b": ["a.bin", 1000, 1], "c": ["a.bin", 2**63 - 1, 0], "d": ["none"], "e": ["sub"]}
    yield "keys", {"../a": "x", "/a": "x", "a/../b": "x", "a\\b": "x", "a//b": "x", "": "x", "a\0b": "x", "%2e%2e": "x"}
    yield "bomb", {"version": 1, "gen": [{"key": "{{i}}", "url": "a.bin", "dimensions": {"i": {"stop": 2**62}}}]}
    yield "unsupported", {"version": 1, "templates": {"f": "{{c}}"}, "refs": {"k": ["{{f(c='a')}}"]}}


def main():
    for folder, seeds in (("zip_store", zip_seeds()), ("reference_store", ((n, json.dumps(d).encode()) for n, d in reference_seeds()))):
        (SEEDS / folder).mkdir(exist_ok=True)
        for name, data in seeds:
            (SEEDS / folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
