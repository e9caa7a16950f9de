#!/usr/bin/env python3
"""`headrace bench` accepts the option lines of fio's users. For each line that fio accepts, fio_options.txt states what
headrace does with it, and this test checks that.

  fio_options_test.py PATH_TO_HEADRACE [NAME...] [--write]

`--write` updates the verdicts. Exit status 77 if fio is not installed: only the check that fio accepts the lines is
left out."""
import concurrent.futures
import pathlib
import shutil
import subprocess
import sys

from script_tests import Skip, run_tests

HEADRACE = ""
TABLE = pathlib.Path(__file__).resolve().parent / "fio_options.txt"
BASE = ("--name=x", "--filename=f", "--size=1m")
LEAST_LINES, LEAST_TAKEN = 300, 240
# Options that must work here; without them the others would be worth little.
NEEDED = ("--rw=randrw", "--rwmixread=70", "--bs=4k-64k", "--bsrange=4k-64k", "--bssplit=4k/60:64k/40", "--rate=10m,5m",
          "--rate_iops=1000", "--nrfiles=4", "--filesize=256k", "--opendir=files", "--io_size=512k", "--offset=10%",
          "--cpus_allowed=0", "--random_distribution=zipf:1.2", "--write_bw_log=l", "--write_lat_log=l", "--verify=md5",
          "--verify=sha256", "--verify=xxhash", "--verify=crc32c")


def rows():
    """(verdict, option line) of each row of the table."""
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            verdict, option = line.split(" ", 1)
            yield verdict, option.strip()


def ours(folder, option):
    """What happens to the option line, and the message."""
    done = subprocess.run([HEADRACE, "bench", *BASE, option, "--parse-only"], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    said = done.stderr.strip()
    if done.returncode == 0:
        return ("note" if said else "works"), said
    assert done.returncode == 2 and said.startswith("headrace: ") and "\n" not in said, (option, done)
    return "refused", said


def of_all(function, folder, options):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda option: function(folder, option), options))


def prepared(folder):
    (folder / "files").mkdir()
    (folder / "files" / "a").write_bytes(bytes(4096))
    return folder


def test_each_line_is_as_the_table_says(folder):
    table = list(rows())
    options = [option for _, option in table]
    assert len(set(options)) == len(options), "a line twice"
    assert len(options) >= LEAST_LINES, len(options)
    found = of_all(ours, prepared(folder), options)
    wrong = [f"{option}: {verdict} in the table, {now}: {said}"
             for (verdict, option), (now, said) in zip(table, found) if verdict != now]
    assert not wrong, "\n".join(wrong)
    taken = [option for verdict, option in table if verdict in ("works", "note")]
    assert len(taken) >= LEAST_TAKEN, f"only {len(taken)} of {len(options)} lines are taken"
    works = {option for verdict, option in table if verdict == "works"}
    idle = {"--rwmixread=70", "--random_distribution=zipf:1.2", "--nrfiles=4"}  # these only give a note for this file and direction
    assert set(NEEDED) - idle <= works and idle <= set(taken), set(NEEDED) - works
    for (verdict, option), (_, said) in zip(table, found):
        name = option.lstrip("-").split("=")[0]
        assert verdict == "works" or len(said) > len(name) + 20, f"{option}: says nothing: {said}"


def test_fio_takes_each_line(folder):
    if shutil.which("fio") is None:
        raise Skip("fio is not installed")

    def taken(where, batch):
        """Whether fio accepts all of them, each in a job of its own. One call takes many, since fio needs a quarter of
        a second to start."""
        jobs = [argument for option in batch for argument in (*BASE, option)]
        done = subprocess.run(["fio", "--parse-only", *jobs], cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)
        text = done.stdout + done.stderr
        return done.returncode == 0 and not any(word in text for word in ("unrecognized", "Bad option", "failed parsing"))

    options = [option for _, option in rows()]
    prepared(folder)
    batches = [options[at:at + 12] for at in range(0, len(options), 12)]
    # Some options exclude each other; such batches are tried one by one.
    alone = [option for batch, good in zip(batches, of_all(taken, folder, batches)) if not good for option in batch]
    refused = [option for option, good in zip(alone, of_all(taken, folder, [[option] for option in alone])) if not good]
    assert not refused, "fio itself refuses: " + ", ".join(refused)
    assert not taken(folder, ["--no-such-option=1"]) and not taken(folder, ["--bs=much"]), "fio takes anything"


def write(folder):
    """Writes the table with the current verdicts."""
    lines = []
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            option = line.split(" ", 1)[1].strip()
            line = f"{ours(folder, option)[0]:<7} {option}"
        lines.append(line)
    TABLE.write_text("\n".join(lines) + "\n")


def main():
    global HEADRACE
    HEADRACE = str(pathlib.Path(sys.argv[1]).resolve())
    if "--write" in sys.argv:
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            write(prepared(pathlib.Path(folder)))
        return 0
    return run_tests(globals(), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
