#!/usr/bin/env python3
"""Makes tests/data/xbatcher_windows.txt: the windows that xbatcher cuts for random schemas, which
windows_golden_test.cc compares with.

  xbatcher_windows.py            runs xbatcher again and compares; pip install xbatcher==0.4.0
  xbatcher_windows.py --write    writes the file

Fields of a line: sizes of the dimensions d0, d1, ...; input_dims as dimension:size:overlap; batch_dims likewise
(overlap only where input_dims lacks it); concat_input_dims; number of samples; FNV-1a of their windows. "-" is an empty
dict, and "refused" stands for a schema that xbatcher raises an exception for or makes no sample of.

headrace differs on purpose where there are no windows to compare. xbatcher yields a sample without any window if
batch_dims is smaller than input_dims of the same dimension, and fails on it later; such samples are left out here. A
schema that makes no sample at all is an error."""
import argparse
import pathlib
import random
import sys
import warnings

PAGE = pathlib.Path(__file__).resolve().parents[1] / "data" / "xbatcher_windows.txt"
SCHEMAS, MOST_WINDOWS = 5000, 300


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def draw(rng):
    """A random schema: sizes, {dimension: (window, overlap)} twice, concat_input_dims. About one in ten is refused."""
    sizes = [rng.randint(1, 24) for _ in range(rng.randint(1, 4))]
    wrong = rng.random() < 0.1

    def window(dim):
        size = rng.randint(1, sizes[dim] + (2 if wrong else 0))
        return size, rng.randint(0, size - (0 if wrong else 1)) if rng.random() < 0.5 else 0

    def some(most):
        dims = list(range(len(sizes)))
        rng.shuffle(dims)
        return {dim: window(dim) for dim in dims[:rng.randint(0, most)]}

    inputs = some(len(sizes)) or {0: window(0)}
    batches = some(min(2, len(sizes))) if rng.random() < 0.6 else {}
    batches = {dim: (size, 0 if dim in inputs else overlap) for dim, (size, overlap) in batches.items()}
    return sizes, inputs, batches, rng.random() < 0.5


def samples_of(sizes, inputs, batches, concat):
    """Text with every window of every sample and their number, from xbatcher; None if it refuses the schema."""
    import numpy
    import xarray
    import xbatcher
    names = [f"d{i}" for i in range(len(sizes))]
    data = xarray.DataArray(numpy.broadcast_to(numpy.int8(0), sizes), dims=names)
    overlap = {names[dim]: value for dim, (_, value) in {**batches, **inputs}.items() if value}
    try:
        generator = xbatcher.BatchGenerator(
            data, input_dims={names[dim]: size for dim, (size, _) in inputs.items()}, input_overlap=overlap,
            batch_dims={names[dim]: size for dim, (size, _) in batches.items()}, concat_input_dims=concat, preload_batch=False)
    except (ValueError, ZeroDivisionError):
        return None
    samples = [windows for _, windows in sorted(generator._batch_selectors.selectors.items()) if windows]
    text = ""
    for windows in samples:
        for window in windows:
            slices = [window.get(name, slice(0, size)) for name, size in zip(names, sizes)]
            text += " ".join(f"{piece.start}:{piece.stop}" for piece in slices) + ","
        text += "/"
    return (len(samples), text) if samples else None


def lines():
    rng = random.Random(20)
    made = 0
    while made < SCHEMAS:
        sizes, inputs, batches, concat = draw(rng)
        windows = 1
        for dim, (size, overlap) in {**batches, **inputs}.items():
            windows *= max(1, (sizes[dim] - overlap) // max(1, size - overlap))
        if windows > MOST_WINDOWS:
            continue
        made += 1
        made_of = samples_of(sizes, inputs, batches, concat)
        dicts = [",".join(f"{dim}:{size}:{overlap}" for dim, (size, overlap) in dims.items()) or "-" for dims in (inputs, batches)]
        end = f"{made_of[0]} {fnv1a(made_of[1])}" if made_of else "refused"
        yield f"{','.join(map(str, sizes))} {' '.join(dicts)} {int(concat)} {end}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    text = "".join(lines())
    if arguments.write:
        PAGE.write_text(text)
        return 0
    if text != PAGE.read_text():
        wrong = sum(a != b for a, b in zip(text.splitlines(), PAGE.read_text().splitlines()))
        print(f"{PAGE}: {wrong} of {SCHEMAS} lines are not what this xbatcher makes")
        return 1
    print(f"{SCHEMAS} schemas as xbatcher cuts them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
