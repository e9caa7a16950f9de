#!/usr/bin/env python3
"""Runs `headrace read` on arrays with known values and on stores that it must refuse.

  check_golden.py --headrace build/tools/headrace [--archive golden.tar.xz] [--data DIR] [--unpacked DIR] [--only REGEX] [--jobs 2]
                  [--device NAME] [--placement auto|cpu|gpu] [--reader build/tests/golden_reader [--boxes N]]
                  [--url URL | --bucket build/tests/golden_bucket]

Arrays: exit code 0 and the SHA-256 of the manifest. Stores to refuse: exit code 1 and exactly one line on stderr, no
signal, within --timeout seconds, below --max-rss GiB; if the case's level is "safe", reading it is right too.

--data reads a folder tree of tar files with manifest.json, manifest-foreign.json and manifest-invalid.json instead of
the archive.

--unpacked keeps an archive's files for the next run, under a name derived from the archive's digest.

--reader uses one long-lived process for each job's reads, restarted when it crashes or is killed: a GPU takes half a
second to start, every time.

--url reads the files kept by --unpacked from a server that has them below URL: s3://bucket/path, https://host/path. ZIP
files with arrays are unpacked for it first. Stores that exist only as files are counted separately: archives to refuse,
links, FIFOs, empty folders, files of references. --unpack-only makes the folder and reads nothing. --bucket starts
golden_bucket to serve it.

disputed.txt names stores on which sets of arrays contradict each other: reading them and refusing them are both right.

A failure whose message starts with "unsupported" is counted separately if unsupported.txt allows it; see the head of
that file. Only failures and a summary are printed. Exit code 1 if anything failed. Python 3.9 or later, no packages."""
import argparse
import collections
import concurrent.futures
import fnmatch
import hashlib
import json
import os
import queue
import re
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFESTS = ("manifest.json", "manifest-foreign.json", "manifest-invalid.json")
NOT_ON_DEVICE = "the device cannot decode, as placement requires"
HOST_ELEMENTS = "elements of variable length are read to the host"
UNSUPPORTED = re.compile(r"^(?:headrace[^:]*: *)?(?:error: *)?(unsupported\b.*)", re.IGNORECASE)


def unpack(archive, target):
    """Extracts a trusted archive. Links and FIFOs in it are part of the test; they are created last, so that nothing is
    written through them."""
    with tarfile.open(archive) as tar:
        links = []
        for member in tar.getmembers():
            name = os.path.normpath(member.name)
            if os.path.isabs(name) or name.split(os.sep)[0] == "..":
                raise SystemExit(f"{archive}: member {member.name!r} is outside")
            path = os.path.join(target, name)
            if member.isdir():
                os.makedirs(path, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if member.isreg():
                with open(path, "wb") as out:
                    shutil.copyfileobj(tar.extractfile(member), out)
            elif member.issym() or member.isfifo() or member.islnk():
                links.append((member, path))
            else:
                raise SystemExit(f"{archive}: member {member.name!r} is neither file, folder, link nor FIFO")
        for member, path in links:
            if member.isfifo():
                os.mkfifo(path)
            elif member.issym():
                os.symlink(member.linkname, path)
            else:
                os.link(os.path.join(target, os.path.normpath(member.linkname)), path)


def unpacked(archive, target, kept):
    """The folder with an archive's files: `target`, or one below `kept` that runs of this script share and only read."""
    if kept is None:
        unpack(archive, target)
        return target
    os.makedirs(kept, exist_ok=True)
    whole = os.path.join(kept, digest(archive)[0][:24])
    if not os.path.exists(whole):
        part = tempfile.mkdtemp(prefix="part-", dir=kept)
        unpack(archive, part)
        try:
            os.rename(part, whole)   # atomic: no other run sees a partial folder
        except OSError:
            shutil.rmtree(part)      # another run was faster
    return whole


def folder_of_zip(path):
    """Unpacks a ZIP file into a folder next to it; None if Python cannot read the file."""
    whole = path + ".unpacked"
    if os.path.exists(whole):
        return whole
    part = tempfile.mkdtemp(prefix="part-", dir=os.path.dirname(path))
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                name = os.path.normpath(info.filename)
                if os.path.isabs(name) or name.split(os.sep)[0] == "..":
                    return None
                if not info.is_dir():
                    archive.extract(info, part)
        os.rename(part, whole)
    except OSError:
        return whole if os.path.exists(whole) else None   # another run was faster
    except (zipfile.BadZipFile, NotImplementedError):
        return None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return whole


def serve_as(entry, refuse):
    """The folder that a server can have for an entry's store; None if the store exists only as files."""
    store = entry["_store"]
    if store.endswith(".json"):
        return None
    if os.path.isfile(store):
        return None if refuse else folder_of_zip(store)
    for folder, names, files in os.walk(store):
        if not names and not files:
            return None
        for name in names + files:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not (os.path.isfile(path) or os.path.isdir(path)):
                return None
    return store if os.path.isdir(store) else None


def entries_of(manifest):
    with open(manifest, encoding="utf-8") as file:
        document = json.load(file)
    for entry in document.get("arrays", []):
        refuse = entry.get("must_refuse", False)
        yield dict(entry, level="must", reason="declared unreadable by its authors") if refuse else entry, refuse
    for entry in document.get("cases", []):
        yield entry, True


def load(args, scratch):
    """Returns (entries to read, entries to refuse, names without a known answer), every entry with its folder in
    "_store"."""
    arrays, invalid, unknown, roots = [], [], [], {}
    if args.data:
        found = [os.path.join(folder, name) for folder, _, files in sorted(os.walk(args.data)) for name in files if name in MANIFESTS]
    else:
        root = unpacked(args.archive, os.path.join(scratch, "golden"), args.unpacked)
        found = [os.path.join(root, "manifest.json")]
    if not found:
        raise SystemExit(f"no manifest below {args.data}")
    for manifest in found:
        folder = os.path.dirname(manifest)
        for entry, refuse in entries_of(manifest):
            entry.setdefault("name", entry["store"] + "/" + entry.get("array", ""))
            entry.setdefault("category", "invalid" if refuse else "arrays")
            if not re.search(args.only, entry["name"]) or (args.no_invalid and refuse) or (args.no_valid and not refuse):
                continue
            if not refuse and entry.get("sha256") is None:
                unknown.append(entry["name"])
                continue
            archive = entry.get("archive")
            if archive is None:
                base = folder
            else:
                path = os.path.join(folder, archive)
                if path not in roots:
                    roots[path] = unpacked(path, os.path.join(scratch, f"{len(roots):03d}"), args.unpacked)
                base = roots[path]
            entry["_store"] = os.path.join(base, entry["store"])
            (invalid if refuse else arrays).append(entry)
    return arrays, invalid, unknown


def peak_kib(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


Run = collections.namedtuple("Run", "code stderr killed seconds peak_mib")


def run(command, timeout, max_kib):
    """killed: "timeout" or "memory", or empty. code: the exit code, negative for a signal."""
    start, killed, peak = time.monotonic(), "", 0
    with tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
        except OSError as error:
            raise SystemExit(f"cannot start {command[0]}: {error}") from error
        pause = 0.001
        while True:
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
            if done:
                code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                process.returncode = code
                peak = max(peak, usage.ru_maxrss)
                break
            peak = max(peak, peak_kib(process.pid))
            if not killed and (time.monotonic() - start > timeout or peak > max_kib):
                killed = "memory" if peak > max_kib else "timeout"
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(0.01, pause * 1.5)
        if not killed and peak > max_kib:
            killed = "memory"
        err.seek(0)
        text = err.read(65536).decode("utf-8", "replace")
    return Run(code, text, killed, time.monotonic() - start, peak // 1024)


class Reader:
    """A golden_reader process, used by one thread at a time."""

    def __init__(self, program, device, boxes):
        self.command, self.process = [program, device, str(boxes)], None

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True)
        if not self.process.stdout.readline():   # a line announces that the device is open
            raise SystemExit(f"{self.command[0]} did not start: {self.process.stderr.read().decode('utf-8', 'replace').strip()}")

    def stop(self):
        """Returns the exit code, negative for a signal."""
        if self.process is None:
            return 0
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass   # the process died before reading the line
        code = self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()
        self.process = None
        return code

    def run(self, command, timeout, max_kib):
        if self.process is None:
            self.start()
        process, start, killed, peak, answer = self.process, time.monotonic(), "", 0, b""
        try:
            process.stdin.write(json.dumps(command[1:]).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass   # the process has ended without an answer
        while not answer.endswith(b"\n"):
            if select.select([process.stdout], [], [], 0.005)[0]:
                piece = os.read(process.stdout.fileno(), 1 << 20)
                if not piece:
                    break
                answer += piece
            peak = max(peak, peak_kib(process.pid))
            if not killed and (time.monotonic() - start > timeout or peak > max_kib):
                killed = "memory" if peak > max_kib else "timeout"
                os.killpg(process.pid, signal.SIGKILL)
        seconds = time.monotonic() - start
        if killed or not answer:
            said = "" if killed else process.stderr.read().decode("utf-8", "replace")
            return Run(self.stop(), said, killed, seconds, peak // 1024)
        answer = json.loads(answer)
        return Run(answer["code"], answer["said"], killed, seconds, peak // 1024)


class Readers:
    """One reader per job, each used by one job at a time."""

    def __init__(self, program, device, boxes, jobs):
        self.free = queue.LifoQueue()
        for _ in range(jobs):
            self.free.put(Reader(program, device, boxes))

    def run(self, command, timeout, max_kib):
        reader = self.free.get()
        try:
            return reader.run(command, timeout, max_kib)
        finally:
            self.free.put(reader)

    def stop(self):
        while not self.free.empty():
            self.free.get().stop()


def digest(path):
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            sha.update(block)
    return sha.hexdigest(), os.path.getsize(path)


def address(args, folder):
    path = folder[len(args.unpacked) + 1:]
    # Keys of a bucket are used verbatim; addresses of a web server are escaped.
    return args.url.rstrip("/") + "/" + (urllib.parse.quote(path) if args.url.startswith("http") else path)


def check(args, entry, refuse, out):
    """Returns ("ok" | "unsupported" | "fail", detail)."""
    inside = "/" + entry["array"] if entry.get("array") else ""
    target = ("reference://" if entry["store"].endswith(".json") else "") + entry["_store"] + inside
    if args.url:
        target = address(args, entry["_served"] + inside)
    command = [args.headrace, "read", target, "--device", args.device, "--raw", "-o", out, "--placement"]
    result = args.run(command + [args.placement], args.timeout, args.max_rss * 1048576)
    if args.placement == "gpu" and NOT_ON_DEVICE in result.stderr:
        args.not_on_device.append(entry["name"])
        result = args.run(command + ["auto"], args.timeout, args.max_rss * 1048576)
    if args.device != "host" and HOST_ELEMENTS in result.stderr:
        args.host_elements.append(entry["name"])
        result = args.run([args.headrace, "read", target, "--raw", "-o", out], args.timeout, args.max_rss * 1048576)
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    said = lines[0] if lines else ""
    try:
        if result.killed:
            return "fail", f"{result.killed}: {result.seconds:.1f} s, {result.peak_mib} MiB"
        if result.code < 0:
            return "fail", f"signal {-result.code}: {said}"
        match = UNSUPPORTED.match(said)
        if result.code == 1 and match and len(lines) == 1 and allowed(args.allow, entry):
            return "unsupported", match.group(1)
        if refuse:
            if result.code == 0:
                return ("ok", "") if entry.get("level") == "safe" or entry["name"] in args.disputed else ("fail", f"accepted, though {entry['reason']}")
            if result.code != 1:
                return "fail", f"exit code {result.code}, not 1: {said}"
            return ("ok", "") if len(lines) == 1 else ("fail", f"{len(lines)} lines on stderr, not one: {' | '.join(lines)[:200]}")
        if result.code != 0:
            return "fail", f"exit code {result.code}: {said}"
        if not os.path.exists(out):
            return "fail", "no output"
        sha, size = digest(out)
        return ("ok", "") if sha == entry["sha256"] else ("fail", f"other bytes: {size}, expected {entry.get('nbytes')}")
    finally:
        if os.path.exists(out):
            os.remove(out)


def names_in(value):
    """All codec names in a manifest entry's codec fields."""
    if isinstance(value, dict):
        for key in ("id", "name"):
            if isinstance(value.get(key), str):
                yield value[key]
        for inner in value.values():
            yield from names_in(inner) if isinstance(inner, (dict, list)) else ()
    elif isinstance(value, list):
        for inner in value:
            yield from [inner] if isinstance(inner, str) else names_in(inner)


def facts(entry):
    """The strings that the lines of unsupported.txt are matched against."""
    dtype = entry.get("dtype")
    return {
        "name": [entry["name"]], "category": [entry["category"]], "store": [entry["store"]],
        "codec": [n for key in ("codecs", "compressor", "filters") for n in names_in(entry.get(key))],
        "dtype": [dtype if isinstance(dtype, str) else json.dumps(dtype)],
    }


def allowed(patterns, entry):
    known = facts(entry)
    for pattern in patterns:
        kind, _, rest = pattern.partition(":")
        values, text = (known[kind], rest) if kind in known and rest else (known["name"], pattern)
        if any(fnmatch.fnmatchcase(value, text) for value in values):
            patterns[pattern] += 1
            return True
    return False


def feature(message):
    """The codec or feature that a message names: its first quoted word, else the words after "unsupported"."""
    message = message.partition(";")[0]   # the rest of the message is advice
    quoted = re.search(r"[\"'`]([^\"'`]+)[\"'`]", message)
    return quoted.group(1) if quoted else re.sub(r"^unsupported[:,]?\s*", "", message, flags=re.IGNORECASE)[:60]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headrace", help="the command-line tool; a process for each read")
    parser.add_argument("--reader", help="golden_reader, instead of --headrace")
    parser.add_argument("--boxes", type=int, default=0, help="with --reader: so many boxes of each array are read again, in part")
    parser.add_argument("--archive", default=os.path.join(HERE, "golden.tar.xz"))
    parser.add_argument("--data", help="folder of tar files and manifests, instead of the archive")
    parser.add_argument("--unpacked", help="folder that keeps what archives hold")
    parser.add_argument("--url", help="where a server has what --unpacked keeps")
    parser.add_argument("--bucket", help="golden_bucket, the server of a bucket with what --unpacked keeps")
    parser.add_argument("--unpack-only", action="store_true", help="with --unpacked: make that folder, as --url wants it")
    parser.add_argument("--unsupported", default=os.path.join(HERE, "unsupported.txt"))
    parser.add_argument("--only", default="", help="regular expression on names")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--device", default="host")
    parser.add_argument("--placement", default="auto", choices=("auto", "cpu", "gpu"),
                        help="who decodes; with gpu, what the device cannot decode is counted and read with auto. HEADRACE_STAGED_DECODE=all"
                             " has the host-staged device decode every codec")
    parser.add_argument("--timeout", type=float, default=20, help="seconds for one read")
    parser.add_argument("--max-rss", type=float, default=1, help="GiB for one read")
    parser.add_argument("--no-invalid", action="store_true")
    parser.add_argument("--no-valid", action="store_true")
    parser.add_argument("--strict-optional", action="store_true", help="failures of optional arrays count too")
    parser.add_argument("--list-unsupported", action="store_true", help="print the name of every unsupported entry")
    parser.add_argument("--json", help="write every result to this file")
    args = parser.parse_args()
    if (args.url or args.unpack_only or args.bucket) and not args.unpacked:
        parser.error("--url, --bucket and --unpack-only need --unpacked")
    if args.bucket and args.url:
        parser.error("--bucket is the server: no --url with it")
    if args.unpacked:
        args.unpacked = os.path.abspath(args.unpacked)
    if not args.headrace and not args.reader and not args.unpack_only:
        parser.error("name the program: --headrace or --reader")
    if args.headrace and os.sep in args.headrace:
        args.headrace = os.path.abspath(args.headrace)
    args.run = run
    readers = Readers(os.path.abspath(args.reader), args.device, args.boxes, args.jobs) if args.reader else None
    if readers:
        args.headrace, args.run = "headrace", readers.run
    with open(args.unsupported, encoding="utf-8") as file:
        args.allow = {line.strip(): 0 for line in file if line.strip() and not line.startswith("#")}
    with open(os.path.join(HERE, "disputed.txt"), encoding="utf-8") as file:
        args.disputed = {line.split()[0] for line in file if line.strip() and not line.startswith("#")}
    args.not_on_device, args.host_elements = [], []
    scratch = tempfile.mkdtemp(prefix="headrace-golden-")
    try:
        failed = report(args, scratch)
    finally:
        if readers:
            readers.stop()
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(1 if failed else 0)


def report(args, scratch):
    arrays, invalid, unknown = load(args, scratch)
    left_out = 0
    if args.url or args.unpack_only or args.bucket:
        for entries, refuse in ((arrays, False), (invalid, True)):
            for entry in entries:
                entry["_served"] = serve_as(entry, refuse)
            left_out += sum(entry["_served"] is None for entry in entries)
            entries[:] = [entry for entry in entries if entry["_served"] is not None]
    if args.unpack_only:
        print(f"{len(arrays)} arrays and {len(invalid)} stores to refuse in {args.unpacked}")
        return 0
    bucket = start_bucket(args) if args.bucket else None
    try:
        return read_all(args, scratch, arrays, invalid, unknown, left_out)
    finally:
        if bucket:
            bucket.communicate()


def start_bucket(args):
    """Starts golden_bucket and puts its endpoint into the environment, which the readers inherit."""
    process = subprocess.Popen([os.path.abspath(args.bucket), args.unpacked], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    endpoint = process.stdout.readline().strip()
    if not endpoint:
        raise SystemExit(f"{args.bucket} did not start")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(AWS_ENDPOINT_URL=endpoint, AWS_ACCESS_KEY_ID="golden", AWS_SECRET_ACCESS_KEY="golden", HEADRACE_CACHE_DIR="off")
    args.url = "s3://bucket"
    return process


def read_all(args, scratch, arrays, invalid, unknown, left_out):
    jobs = [(entry, False) for entry in arrays] + [(entry, True) for entry in invalid]
    count, features, rows, failed, other = collections.Counter(), collections.Counter(), [], 0, 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(check, args, entry, refuse, os.path.join(scratch, f"out{i}")) for i, (entry, refuse) in enumerate(jobs)]
        for (entry, refuse), future in zip(jobs, futures):
            outcome, detail = future.result()
            detail = detail.replace(scratch, "")
            optional = entry.get("optional", False) and not args.strict_optional
            kind = "refuse" if refuse else "optional" if optional else "array"
            count[kind, outcome] += 1
            count[kind] += 1
            rows.append({"name": entry["name"], "kind": kind, "class": entry.get("class"), "result": outcome, "detail": detail})
            if outcome == "unsupported":
                features[feature(detail)] += 1
                if args.list_unsupported:
                    print(f"unsupported {entry['name']}: {detail}")
            elif outcome == "fail":
                if optional and not detail.startswith(("signal", "timeout", "memory")):
                    other += 1
                    print(f"fail (optional) {entry['name']}: {detail}", flush=True)
                else:
                    failed += 1
                    print(f"FAIL {entry['name']} [{entry.get('class', entry['category'])}]: {detail}", flush=True)
    for kind, verb in (("array", "arrays equal"), ("optional", "optional arrays equal"), ("refuse", "stores handled as they should be")):
        if count[kind]:
            print(f"{count[kind, 'ok']} of {count[kind]} {verb}, {count[kind, 'unsupported']} unsupported, {count[kind, 'fail']} failed")
    if features:
        print("unsupported by feature: " + ", ".join(f"{name} {n}" for name, n in features.most_common()))
    if args.placement == "gpu":
        print(f"{len(args.not_on_device)} of {len(jobs)} not decoded on the device for want of code there")
        if len(args.not_on_device) == len(jobs):
            print("FAIL nothing was decoded on the device")
            failed += 1
    if args.host_elements:
        print(f"{len(args.host_elements)} of {len(jobs)} have elements of variable length, which are read to the host")
    if left_out:
        print(f"{left_out} not read: archives to refuse, links, FIFOs, empty folders, files of references: a server has none")
    if unknown:
        print(f"{len(unknown)} arrays without a known answer not read")
    if not jobs:
        print("nothing to check")
        failed = 1
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"failed": failed, "results": rows}, file, indent=1)
    return failed


if __name__ == "__main__":
    main()
