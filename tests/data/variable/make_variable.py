"""Writes the arrays of this folder: make_variable.py zarr2|zarr3|zarrs DIR, with that writer installed (README.md)."""
import shutil
import struct
import sys

import numpy as np

which, root = sys.argv[1], sys.argv[2]
words = ["", "a", "Grüße", "日本語", "😀", "plain ascii", "x" * 40]


def strings(count):
    return [words[(i * 5 + i // 7) % len(words)] + (str(i) if i % 3 else "") for i in range(count)]


def fresh(name):
    shutil.rmtree(f"{root}/{name}", ignore_errors=True)
    return f"{root}/{name}"


def write_expected(name, items):
    items = [item.encode() if isinstance(item, str) else bytes(item) for item in items]
    with open(f"{root}/{name}.raw", "wb") as file:
        file.write(b"".join(struct.pack("<I", len(item)) + item for item in items))


def objects(data, shape):
    flat = np.empty(len(data), dtype=object)
    flat[:] = data
    return flat.reshape(shape)


def put2(name, data, shape, **options):
    array = zarr.create(shape, dtype=object, store=zarr.DirectoryStore(fresh(name)), **options)
    array[...] = objects(data, shape)
    write_expected(name, data)


def put3(name, data, shape, dtype="string", **options):
    array = zarr.create_array(fresh(name), shape=shape, dtype=dtype, **options)
    array[...] = np.array(data, dtype=np.dtypes.StringDType()).reshape(shape) if dtype == "string" else objects(data, shape)
    back = np.atleast_1d(np.asarray(array[...], dtype=object))
    assert list(back.ravel()) == data, name
    write_expected(name, data)


if which == "zarr2":
    import numcodecs
    import zarr
    put2("zarr2_utf8_f", strings(24), (4, 6), chunks=(3, 4), order="F", object_codec=numcodecs.VLenUTF8(),
         compressor=numcodecs.Blosc(cname="zstd", clevel=3, shuffle=0), fill_value="")
    put2("zarr2_utf8_plain", strings(10), (10,), chunks=(4,), object_codec=numcodecs.VLenUTF8(), compressor=None,
         fill_value="")
    put2("zarr2_bytes_gzip", [s.encode("utf-16") for s in strings(9)], (3, 3), chunks=(2, 2),
         object_codec=numcodecs.VLenBytes(), compressor=numcodecs.GZip(1), fill_value=None)
    put2("zarr2_json2", strings(9), (3, 3), chunks=(2, 2), object_codec=numcodecs.JSON(), compressor=numcodecs.Zlib(1),
         fill_value="")
    part = zarr.create((6,), dtype=object, store=zarr.DirectoryStore(fresh("zarr2_missing")), chunks=(2,),
                       object_codec=numcodecs.VLenUTF8(), compressor=None, fill_value="füll")
    part[2:4] = np.array(["x", "y"], dtype=object)
    write_expected("zarr2_missing", ["füll", "füll", "x", "y", "füll", "füll"])
elif which == "zarr3":
    import zarr
    from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec
    put3("zarr3_zstd", strings(20), (4, 5), chunks=(3, 2), compressors=[ZstdCodec(level=1)])
    put3("zarr3_shard", strings(48), (6, 8), chunks=(2, 2), shards=(4, 4), compressors=[GzipCodec(level=1), Crc32cCodec()])
    put3("zarr3_blosc", strings(15), (15,), chunks=(7,), compressors=[BloscCodec(cname="lz4", clevel=5)], fill_value="none")
    put3("zarr3_bytes", [s.encode("utf-16") for s in strings(12)], (12,), dtype="variable_length_bytes", chunks=(5,),
         compressors=None)
    put3("zarr3_scalar", ["only"], (), chunks=())
    put3("zarr3_v2", strings(11), (11,), chunks=(4,), zarr_format=2, order="C")
else:
    import zarr
    import zarrs  # noqa: F401
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    put3("zarrs_zstd", strings(20), (4, 5), chunks=(3, 2))
