#!/usr/bin/env python3
"""Writes ocean.nc (NetCDF-4, by the HDF5 library), ocean.json (references to it, by hand from HDF5's own chunk index)
and ocean.expected.json (what netCDF4 reads) into this folder. Needs numpy, h5py, netCDF4.

The references are version 1 with a template, as kerchunk writes them: chunked variables with shuffle and deflate, a
contiguous variable, a chunked one without filters, one with Fletcher-32, one whose chunks are partly missing, a scalar,
packed numbers with scale_factor and add_offset, big-endian numbers, a group."""
import base64
import hashlib
import json
import pathlib

import h5py
import netCDF4
import numpy

HERE = pathlib.Path(__file__).resolve().parent


def write(path):
    random = numpy.random.default_rng(7)
    with netCDF4.Dataset(path, "w", format="NETCDF4") as nc:
        nc.title = "a small piece of ocean"
        for name, size in (("time", None), ("depth", 3), ("lat", 20), ("lon", 31)):
            nc.createDimension(name, size)
        lat = nc.createVariable("lat", "f8", ("lat",))  # contiguous
        lat[:] = numpy.linspace(-47.5, 47.5, 20)
        lat.units = "degrees_north"
        temperature = nc.createVariable("temperature", "f4", ("time", "depth", "lat", "lon"), zlib=True, shuffle=True,
                                        complevel=4, chunksizes=(2, 2, 8, 16), fill_value=numpy.float32(-999.0))
        y, x = numpy.mgrid[0:20, 0:31]
        field = 15 + 10 * numpy.sin(y / 4) + numpy.cos(x / 5)
        values = numpy.stack([[field - 3 * d + t for d in range(3)] for t in range(5)]).astype("f4")
        values[:, :, 4:7, 9:12] = -999.0
        temperature[:] = values
        packed = nc.createVariable("salinity", "i2", ("time", "lat", "lon"), zlib=True, shuffle=True, complevel=9,
                                   chunksizes=(1, 20, 31), fill_value=numpy.int16(-32768))
        packed.set_auto_maskandscale(False)
        packed[:] = random.integers(-20000, 20000, (5, 20, 31)).astype("i2")
        packed.scale_factor = 0.001
        packed.add_offset = 30.0
        plain = nc.createVariable("mask", "u1", ("lat", "lon"), chunksizes=(7, 10), zlib=False)
        plain[:] = (y * 31 + x) % 251
        checked = nc.createVariable("height", "f8", ("lat", "lon"), zlib=True, shuffle=False, fletcher32=True,
                                    chunksizes=(20, 16))
        checked[:] = random.normal(size=(20, 31)).round(3)
        sparse = nc.createVariable("sparse", "i4", ("time", "lat"), zlib=True, chunksizes=(1, 20),
                                   fill_value=numpy.int32(-7))
        sparse[1, :] = numpy.arange(20)
        sparse[4, :] = numpy.arange(20) - 10
        big = nc.createVariable("big", ">i4", ("lat",), endian="big")
        big[:] = numpy.arange(20) * 1000003
        level = nc.createVariable("level", "f4", ())
        level[...] = 2.5
        deep = nc.createGroup("deep").createVariable("count", "u8", ("depth",), zlib=True, chunksizes=(3,))
        deep[:] = [1, 2**40, 2**63]


def text(value):
    return json.dumps(value, separators=(",", ":"))


def array_references(refs, path, data, variable):
    filters = []
    properties = data.id.get_create_plist()
    for i in range(properties.get_nfilters()):  # in the order of writing
        code, _, values, _ = properties.get_filter(i)
        filters.append({h5py.h5z.FILTER_SHUFFLE: lambda: {"id": "shuffle", "elementsize": values[0]},
                        h5py.h5z.FILTER_DEFLATE: lambda: {"id": "zlib", "level": values[0]},
                        h5py.h5z.FILTER_FLETCHER32: lambda: {"id": "fletcher32"}}[code]())
    chunks = data.chunks or data.shape
    refs[path + "/.zarray"] = text({
        "zarr_format": 2, "shape": data.shape, "chunks": chunks, "dtype": data.dtype.str, "order": "C",
        "compressor": None, "filters": filters or None, "fill_value": data.fillvalue.item() if data.shape else None})
    attributes = {name: variable.getncattr(name) for name in variable.ncattrs()}
    attributes = {name: value.item() if hasattr(value, "item") else value for name, value in attributes.items()}
    attributes["_ARRAY_DIMENSIONS"] = list(variable.dimensions)
    refs[path + "/.zattrs"] = text(attributes)
    if data.chunks is None:
        key = ".".join("0" for _ in data.shape) or "0"
        if data.size * data.dtype.itemsize < 40:
            refs[f"{path}/{key}"] = "base64:" + base64.b64encode(data[...].tobytes()).decode()
        else:
            refs[f"{path}/{key}"] = ["{{u}}", data.id.get_offset(), data.id.get_storage_size()]
        return
    for i in range(data.id.get_num_chunks()):
        info = data.id.get_chunk_info(i)
        assert info.filter_mask == 0
        key = ".".join(str(at // size) for at, size in zip(info.chunk_offset, data.chunks))
        refs[f"{path}/{key}"] = ["{{u}}", info.byte_offset, info.size]


def main():
    write(HERE / "ocean.nc")
    refs = {".zgroup": text({"zarr_format": 2})}
    names = []
    with h5py.File(HERE / "ocean.nc") as file, netCDF4.Dataset(HERE / "ocean.nc") as nc:
        def visit(name, item):
            if isinstance(item, h5py.Group):
                refs[name + "/.zgroup"] = text({"zarr_format": 2})
            elif not item.attrs.get("NAME", b"").startswith(b"This is a netCDF dimension but not"):
                array_references(refs, name, item, nc[name])
                names.append(name)
        file.visititems(visit)
    (HERE / "ocean.json").write_text(json.dumps({"version": 1, "templates": {"u": "ocean.nc"}, "refs": refs}, indent=0))
    expected = {}
    with netCDF4.Dataset(HERE / "ocean.nc") as nc:
        nc.set_auto_maskandscale(False)
        for name in names:
            values = numpy.ascontiguousarray(nc[name][...])
            values = values.astype(values.dtype.newbyteorder("<"))
            entry = {"dtype": values.dtype.str, "shape": list(nc[name].shape), "sha256": hashlib.sha256(values.tobytes()).hexdigest()}
            if "scale_factor" in nc[name].ncattrs():
                scaled = values.astype("f8") * nc[name].scale_factor + nc[name].add_offset
                entry.update(scale=nc[name].scale_factor, offset=nc[name].add_offset,
                             scaled_float64_sha256=hashlib.sha256(scaled.tobytes()).hexdigest())
            expected[name] = entry
    (HERE / "ocean.expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
