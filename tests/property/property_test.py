#!/usr/bin/env python3
"""Random arrays, written by zarr-python or tensorstore, read by headrace and by a reader that did not write them.

  property_test.py --reader build/dev/tests/headrace_batch [--arrays 500] [--seed 1] [--jobs 2] [--record]
  property_test.py --reader ... --only SEED [--keep DIR]     one array again; SEED as a failure prints it
  property_test.py --reader ... --self-test                  planted errors must be found

Every array is random in shape, data type, chunks, shards (also nested), codecs, fill value, keys, order, attributes and
holes (array_specs.py). headrace reads it whole and by two random selections, on the host and on the host-staged device,
which decodes itself. The result must equal, byte for byte, what another library reads: tensorstore for zarr-python's
arrays and the other way round, zarrs where that library lacks a codec, and the writer itself where both do.
../golden/unsupported.txt lists what a build may refuse as unsupported.

A failure is shrunk and printed with its seed, its document and a command that repeats it. --record adds a line to
docs/reference/campaigns.jsonl. The packages of requirements.txt are installed in build/property-venv if they are
missing; tools/test --no-python skips this test (exit code 77)."""
import argparse
import collections
import concurrent.futures
import copy
import datetime
import fnmatch
import hashlib
import json
import multiprocessing
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
UNSUPPORTED = 10   # hr_code
NOT_ON_DEVICE = "the device cannot decode, as placement requires"
SHRINK_TRIES = 150


def enter_environment():
    """Restarts this script with the interpreter of the packages' environment."""
    if os.environ.get("HEADRACE_NO_PYTHON"):
        print("left out by tools/test --no-python")
        sys.exit(77)
    folder, wanted = ROOT / "build" / "property-venv", HERE / "requirements.txt"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    python, stamp = folder / "bin" / "python", folder / "requirements.sha256"
    if not stamp.exists() or stamp.read_text() != digest:
        for command in ([sys.executable, "-m", "venv", "--clear", folder], [python, "-m", "pip", "install", "--quiet", "-r", wanted]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"cannot install {wanted} (tools/test --no-python leaves out what needs it)\n{(done.stdout + done.stderr)[-1500:]}")
        stamp.write_text(digest)
    os.execv(python, [python, "-P", os.path.abspath(__file__), *sys.argv[1:]])


class Failure(Exception):
    pass


class Checker:
    def __init__(self, reader, scratch):
        import array_io
        self.io, self.headrace, self.scratch = array_io, array_io.Headrace(reader), pathlib.Path(scratch)
        lines = (ROOT / "tests" / "golden" / "unsupported.txt").read_text().splitlines()
        self.allowed = [line.strip() for line in lines if line.startswith(("codec:", "dtype:"))]

    def may_refuse(self, spec):
        import array_specs
        document = spec["document"]
        names = set(array_specs.codec_names([document.get("codecs"), document.get("filters"), document.get("compressor")]))
        dtype = document.get("dtype", document.get("data_type"))
        facts = {f"codec:{name}" for name in names} | {"dtype:" + (dtype if isinstance(dtype, str) else json.dumps(dtype))}
        return any(fnmatch.fnmatchcase(fact, pattern) for fact in facts for pattern in self.allowed)

    def reference(self, spec, path, source, counts):
        """The values that headrace must yield, from the first independent reader that can read them."""
        names = [r for r in ("tensorstore", "zarr-python") if r != spec["writer"]] + ["zarrs", spec["writer"]]
        for name in names:
            try:
                values = self.io.read(name, spec, path)
            except Exception as error:  # noqa: BLE001 - the reader lacks a codec or a type
                last = error
                continue
            judge = name if name != spec["writer"] else "the writer alone"
            break
        else:
            raise Failure(f"no reader reads it: {type(last).__name__}: {last}")
        raw = self.io.canonical(values)
        if raw != self.io.canonical(source) and name != spec["writer"]:
            # A codec that loses bits, or a wrong reader: the writer's own reading decides what was written.
            own = self.io.canonical(self.io.read(spec["writer"], spec, path))
            if own != raw:
                counts["readers disagree"] += 1
                values, judge = self.io.read(spec["writer"], spec, path), "the writer alone"
        counts["judged by " + judge] += 1
        return values

    def check(self, spec, counts):
        """Raises Failure. Returns False if the writer cannot write the array."""
        import array_specs
        import numpy as np
        path = self.scratch / "array.zarr"
        shutil.rmtree(path, ignore_errors=True)
        try:
            source = self.io.write(spec, path)
        except Exception as error:  # noqa: BLE001 - any exception means that the writer cannot write this array
            counts["not written"] += 1
            counts[f"  {spec['writer']}: {type(error).__name__} {re.sub(r'[^a-z ]+', '#', str(error)[:90].lower())}"] += 1
            return False
        counts["written by " + spec["writer"]] += 1
        values = np.asarray(self.reference(spec, path, source, counts))
        reads = [("host", "auto", s) for s in spec["selections"]]
        reads += [("host-staged", "auto", spec["selections"][-1]), *(("host-staged", "gpu", s) for s in spec["selections"][:2])]
        for device, placement, selection in reads:
            what = f"{device}, placement {placement}, selection {selection!r}"
            try:
                got = self.headrace.read(path, device, placement, selection)
            except self.io.Refused as error:
                if placement == "gpu" and NOT_ON_DEVICE in error.message:
                    counts["reads not on the device"] += 1
                    continue
                if error.code == UNSUPPORTED and self.may_refuse(spec):
                    counts["refused as unsupported"] += 1
                    return True
                raise Failure(f"{what}: {error.message}".replace(str(self.scratch), "")) from None
            except RuntimeError as error:
                raise Failure(f"{what}: {error}") from None
            counts["reads"] += 1
            wanted = self.io.canonical(np.asarray(values[array_specs.numpy_selection(selection)], values.dtype))
            if got != wanted:
                at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
                raise Failure(f"{what}: byte {at} of {len(got)} is {got[at:at + 8].hex()}, {len(wanted)} expected with {wanted[at:at + 8].hex()}")
        return True

    def fails(self, spec):
        try:
            self.check(spec, collections.Counter())
        except Failure as failure:
            return str(failure)
        except Exception:  # noqa: BLE001 - the shrunk case is invalid
            pass
        return None


def simpler(spec):
    """Specs that are one step smaller."""
    document = spec["document"]

    def changed(change):
        new = copy.deepcopy(spec)
        change(new)
        return new

    if spec["holes"]:
        yield changed(lambda s: s.update(holes=[]))
    if len(spec["selections"]) > 1:
        yield changed(lambda s: s.update(selections=s["selections"][:1]))
        yield changed(lambda s: s.update(selections=s["selections"][-1:]))
    for key in ("attributes", "dimension_names", "filters", "compressor"):
        if document.get(key):
            yield changed(lambda s, k=key: s["document"].update({k: {}}) if k == "attributes" else s["document"].pop(k)
                          if k == "dimension_names" else s["document"].update({k: None}))
    lists = []

    def walk(codecs, way):
        lists.append((way, len(codecs)))
        for i, codec in enumerate(codecs):
            if codec["name"] == "sharding_indexed":
                walk(codec["configuration"]["codecs"], (*way, i))

    def at(s, way):
        codecs = s["document"]["codecs"]
        for i in way:
            codecs = codecs[i]["configuration"]["codecs"]
        return codecs

    if "codecs" in document:
        walk(document["codecs"], ())
    for way, n in lists:
        for i in range(n):
            if at(spec, way)[i]["name"] not in ("bytes", "sharding_indexed"):
                yield changed(lambda s, w=way, j=i: at(s, w).pop(j))
    for axis, n in enumerate(document["shape"]):
        for smaller in {n // 2, n - 1}:
            if 0 < smaller < n:
                yield changed(lambda s, a=axis, m=smaller: s["document"]["shape"].__setitem__(a, m))


def shrink(checker, spec, message):
    tries = 0
    while tries < SHRINK_TRIES:
        for candidate in simpler(spec):
            tries += 1
            found = checker.fails(candidate)
            if found:
                spec, message = candidate, found
                break
            if tries >= SHRINK_TRIES:
                break
        else:
            break
    return spec, message


def run(reader, seeds, deadline=None, plant=0):
    """Returns counts and failures for these seeds. plant: damages every n-th read of headrace, to test the test."""
    sys.path.insert(0, str(HERE))
    import array_specs
    counts, failures = collections.Counter(), []
    with tempfile.TemporaryDirectory(prefix="headrace-property-") as scratch:
        checker = Checker(reader, scratch)
        if plant:
            honest, reads = checker.headrace.read, [0]

            def damaged(*arguments):
                data = honest(*arguments)
                reads[0] += 1
                if reads[0] % plant == 0 and data:
                    data = data[:-1] + bytes([data[-1] ^ 1])
                    counts["planted"] += 1
                return data
            checker.headrace.read = damaged
        for seed in seeds:
            if deadline and time.monotonic() > deadline:
                counts["not run for want of time"] += 1
                continue
            spec = array_specs.make_spec(seed)
            try:
                counts["arrays"] += checker.check(spec, counts)
            except Failure as failure:
                counts["arrays"] += 1
                small, message = (spec, str(failure)) if plant or len(failures) >= 5 else shrink(checker, spec, str(failure))
                failures.append({"seed": seed, "message": str(failure), "spec": spec, "small": small, "small message": message})
            except Exception as error:  # noqa: BLE001 - a bug in this script is a failure, too
                failures.append({"seed": seed, "message": f"the test itself: {type(error).__name__}: {error}", "spec": spec, "small": spec,
                                 "small message": ""})
        checker.headrace.close()
    return counts, failures


def report(failure, reader):
    print(f"FAIL seed {failure['seed']}: {failure['message']}")
    print(f"  repeat: python3 tests/property/property_test.py --reader {reader} --only {failure['seed']} --keep build/property-failure")
    print(f"  writer {failure['spec']['writer']}, values {failure['spec']['dtype']}, holes {failure['spec']['holes']}")
    print(f"  document: {json.dumps(failure['spec']['document'])}")
    if failure["small"] != failure["spec"]:
        print(f"  smaller: {failure['small message']}\n  {json.dumps(failure['small'])}")


def record(args, counts, seconds, failures):
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip() or "unknown"
    line = {"target": "random arrays", "technique": "property", "executions": counts["arrays"], "reads": counts["reads"],
            "seeds": [args.seed, args.arrays], "seconds": round(seconds), "findings": len(failures), "commit": commit,
            "date": datetime.date.today().isoformat(), "machine": f"{os.cpu_count()} cores, {platform.machine()}",
            "counts": {k: n for k, n in sorted(counts.items()) if not k.startswith("  ")}}
    with (ROOT / "docs" / "reference" / "campaigns.jsonl").open("a") as out:
        out.write(json.dumps(line) + "\n")
    subprocess.run([sys.executable, ROOT / "tools" / "fuzz", "--table"], check=True)


def self_test(args):
    counts, failures = run(args.reader, range(1, 41), plant=7)
    missed = counts["planted"] - len(failures)
    print(f"{counts['planted']} reads damaged in {counts['arrays']} arrays, {len(failures)} arrays reported")
    sys.path.insert(0, str(HERE))
    import array_specs
    assert array_specs.make_spec(5) == array_specs.make_spec(5), "a seed gives one array"
    sys.exit(1 if missed or counts["planted"] < 10 else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reader", required=True, help="headrace_batch")
    parser.add_argument("--arrays", type=int, default=500, help="arrays to write and read")
    parser.add_argument("--seed", type=int, default=1, help="the first array's; the following ones count up")
    parser.add_argument("--jobs", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--only", type=int, help="one array by its seed")
    parser.add_argument("--keep", help="with --only: leaves the array there")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if pathlib.Path(sys.prefix) != ROOT / "build" / "property-venv":
        enter_environment()
    args.reader = os.path.abspath(args.reader)
    if args.self_test:
        return self_test(args)
    if args.only is not None:
        _, failures = run(args.reader, [args.only])
        if args.keep:
            sys.path.insert(0, str(HERE))
            import array_io
            import array_specs
            shutil.rmtree(args.keep, ignore_errors=True)
            array_io.write(array_specs.make_spec(args.only), pathlib.Path(args.keep).absolute())
        for failure in failures:
            report(failure, args.reader)
        print(f"seed {args.only}: {'FAILED' if failures else 'passed'}")
        sys.exit(bool(failures))
    start, counts, failures = time.monotonic(), collections.Counter(), []
    # Small portions, so that a slow array does not delay one process, and memory leaked by a writer is released.
    portions = [range(first, min(first + 125, args.seed + args.arrays)) for first in range(args.seed, args.seed + args.arrays, 125)]
    context = multiprocessing.get_context("spawn")   # the packages have threads, which do not survive a fork
    with concurrent.futures.ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
        for done in concurrent.futures.as_completed([pool.submit(run, args.reader, portion) for portion in portions]):
            some, failed = done.result()
            counts.update(some)
            for failure in failed:
                if len(failures) < 20:
                    report(failure, os.path.relpath(args.reader, ROOT))
                failures.append(failure)
    seconds = time.monotonic() - start
    for key, n in sorted(counts.items()):
        print(f"{n:8,} {key}")
    print(f"{counts['arrays']:,} arrays in {seconds:.0f} s, {len(failures)} failed")
    if args.record:
        record(args, counts, seconds, failures)
    if counts["arrays"] < 0.9 * args.arrays:
        print("FAIL more than a tenth of the arrays could not be written")
        sys.exit(1)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
