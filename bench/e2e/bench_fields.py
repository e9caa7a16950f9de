"""The test field of the end-to-end benchmarks: 64 x 721 x 1440 float32, like a reanalysis. Needs numpy.

The sum of a zonal mean, travelling waves and spatially correlated noise, rounded to 1/512 K. As in data that was packed before it was
written to Zarr, the low mantissa bits are zero and the middle ones look random. The same seed gives the same data.
"""
import numpy as np

SHAPE = (64, 721, 1440)
FIELD = (1, 721, 1440)     # one time step: 4.2 MB
INNER = (1, 91, 180)       # 64 KiB
SHARD = (8, 728, 1440)     # 8 x 8 x 8 inner chunks; 728 is the first multiple of 91 above 721


def smoothed(noise, radius):
    """Running mean along both axes, periodic in longitude."""
    for axis, mode in ((0, "edge"), (1, "wrap")):
        width = [(0, 0), (0, 0)]
        width[axis] = (radius + 1, radius)
        total = np.cumsum(np.pad(noise, width, mode=mode), axis=axis)
        upper = np.take(total, range(2 * radius + 1, total.shape[axis]), axis=axis)
        noise = (upper - np.take(total, range(0, total.shape[axis] - 2 * radius - 1), axis=axis)) / (2 * radius + 1)
    return noise


def make(seed):
    rng = np.random.default_rng(seed)
    lat = np.linspace(np.pi / 2, -np.pi / 2, SHAPE[1])[:, None]
    lon = np.linspace(0, 2 * np.pi, SHAPE[2], endpoint=False)[None]
    weather = np.zeros(SHAPE[1:])
    for radius, size in ((40, 6.0), (12, 2.0), (3, 0.5)):  # radius and standard deviation in K
        part = smoothed(smoothed(rng.normal(size=SHAPE[1:]), radius), radius)
        weather += size * part / part.std()
    data = np.empty(SHAPE, "f4")
    for step in range(SHAPE[0]):
        field = 255 + 40 * np.cos(lat) ** 2 + 4 * np.sin(5 * lon + 0.2 * step) * np.cos(lat) ** 4
        field += np.roll(weather, 4 * step, axis=1) + rng.normal(0, 0.04, SHAPE[1:])
        data[step] = np.rint(field * 512) / 512
    return data


# With tensorstore's names.
LE = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 3}}


def v2(chunks, compressor):
    return {"driver": "zarr", "metadata": {"shape": SHAPE, "chunks": chunks, "dtype": "<f4", "compressor": compressor}}


def v3(chunks, codecs, shards=None):
    if shards:
        codecs = [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": chunks, "codecs": codecs, "index_codecs": [LE, {"name": "crc32c"}]}}]
    return {"driver": "zarr3", "metadata": {
        "shape": SHAPE, "data_type": "float32", "codecs": codecs,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shards or chunks}}}}


def blosc(cname):
    return {"id": "blosc", "cname": cname, "clevel": 5, "shuffle": 1, "blocksize": 0}


LAYOUTS = {
    "v2_raw": v2(FIELD, None),
    "v2_blosc_lz4": v2(FIELD, blosc("lz4")),
    "v2_blosc_zstd": v2(FIELD, blosc("zstd")),
    "v3_zstd3": v3(FIELD, [LE, ZSTD]),
    "shard_zstd": v3(INNER, [LE, ZSTD], SHARD),
    "shard_raw": v3(INNER, [LE], SHARD),
    "shard_blosc_lz4": v3(INNER, [LE, {"name": "blosc", "configuration": {
        "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}}], SHARD),
    "small_v2_blosc_lz4": v2(INNER, blosc("lz4")),
    "small_v3_zstd": v3(INNER, [LE, ZSTD]),
}
