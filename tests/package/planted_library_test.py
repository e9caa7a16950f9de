#!/usr/bin/env python3
"""No library or configuration is loaded from a place that others can write to, from the working directory, or from a
folder above the program. No code of a library runs before its build id was checked.

  planted_library_test.py HEADRACE BUILD_ID CC [NAME...]

HEADRACE is a statically linked command line tool, which is copied to where it is tried. A planted library prints a line
when its code runs. NAME limits the run to tests whose name contains it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from script_tests import run_tests

HEADRACE = BUILD_ID = CC = ""
PLUGIN, RAN = "libheadrace_cuda.so", "PLANTED CODE RUNS"
NOBODY = 65534
SOURCE = """
#include <unistd.h>
__attribute__((constructor)) static void run(void) { write(2, "%s\\n", %d); }
__asm__(".pushsection .note.headrace, \\"a\\", %%note\\n.balign 4\\n.long 9, 2f - 1f, 1\\n.asciz \\"headrace\\"\\n.balign 4\\n"
        "1: .asciz \\"%s\\"\\n2: .balign 4\\n.popsection\\n");
"""


def plant(path, build_id=None, mode=0o755):
    """Plants a library with this build's id that must not be loaded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_name(path.name + ".c")
    source.write_text(SOURCE % (RAN, len(RAN) + 1, build_id or BUILD_ID))
    subprocess.run([CC, "-shared", "-fPIC", "-o", path, source], check=True)
    source.unlink()
    path.chmod(mode)


def program(folder):
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    shutil.copy(HEADRACE, folder / "headrace")
    return folder / "headrace"


def doctor(executable, argv0=None, cwd=None, **environment):
    kept = {k: v for k, v in os.environ.items() if k not in ("HEADRACE_PLUGIN_DIR", "LD_LIBRARY_PATH")}
    done = subprocess.run([argv0 or str(executable), "doctor", "--quick", "--json"], executable=executable, cwd=cwd,
                          env=dict(kept, **environment), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    devices = json.loads(done.stdout)["devices"]
    return RAN in done.stderr, " ".join(d["why_not"] or "" for d in devices if d["name"] != "host")


def expect_refused(executable, says, **extra):
    ran, why = doctor(executable, **extra)
    assert not ran, (executable, extra)
    assert says in why, (says, why)


def test_beside_the_program_it_is_loaded(folder):
    """Positive control: in the other tests this must not happen."""
    executable = program(folder / "bin")
    plant(folder / "bin" / PLUGIN)
    ran, why = doctor(executable)
    assert ran and "headrace_cuda_plugin" in why, why
    (folder / "bin" / PLUGIN).rename(folder / "real.so")
    (folder / "bin" / PLUGIN).symlink_to("../real.so")
    assert doctor(executable)[0]
    (folder / "bin" / PLUGIN).unlink()
    ran, _ = doctor(executable, HEADRACE_PLUGIN_DIR=str(folder))
    assert not ran
    (folder / "real.so").rename(folder / PLUGIN)
    assert doctor(executable, HEADRACE_PLUGIN_DIR=str(folder))[0]


def test_working_directory(folder):
    executable = program(folder / "bin")
    work = folder / "work"
    for place in ("", "bin/", "headrace/", "lib/"):
        plant(work / (place + PLUGIN))
    for argv0 in ("headrace", "./headrace", "bin/headrace", "", f"{work}/headrace", f"{work}/bin/headrace"):
        ran, _ = doctor(executable, argv0=argv0 or "headrace", cwd=work)
        assert not ran, argv0
    # As a shell starts it, with relative and empty folders in PATH.
    for path in (str(folder / "bin"), f"../bin:{os.environ['PATH']}", f":{folder / 'bin'}"):
        done = subprocess.run(["sh", "-c", "headrace doctor --quick"], cwd=work, capture_output=True, text=True,
                              env={"PATH": path + ":/usr/bin:/bin"})
        assert done.returncode == 0 and RAN not in done.stderr, (path, done)


def test_folders_above_the_program(folder):
    executable = program(folder / "prefix" / "bin")
    for place in ("", "lib", "headrace", "lib/headrace", "lib64"):
        plant(folder / "prefix" / place / PLUGIN)
        plant(folder / place / PLUGIN)
    expect_refused(executable, "was not found")


def test_relative_name_in_the_environment(folder):
    executable = program(folder / "bin")
    plant(folder / "work" / PLUGIN)
    for named in (".", "work", "../work", "./"):
        cwd = folder / "work" if named != "work" else folder
        expect_refused(executable, "not an absolute path", cwd=cwd, HEADRACE_PLUGIN_DIR=named)


def test_what_others_can_write(folder):
    executable = program(folder / "outer" / "bin")
    library = folder / "outer" / "bin" / PLUGIN
    plant(library)
    assert doctor(executable)[0]
    for path, mode in ((library.parent, 0o777), (library.parent, 0o1777), (library, 0o757), (folder / "outer", 0o777)):
        kept = path.stat().st_mode & 0o7777
        path.chmod(mode)
        expect_refused(executable, f"{path} may be written by everybody")
        expect_refused(executable, f"{path} may be written by everybody", HEADRACE_PLUGIN_DIR=str(library.parent))
        path.chmod(kept)
    if os.geteuid() == 0:
        for path in (library.parent, library, folder / "outer"):
            kept = path.stat().st_mode & 0o7777
            path.chmod(kept | 0o020)
            expect_refused(executable, f"{path} may be written by its group")
            path.chmod(kept)
            os.chown(path, NOBODY, 0)
            expect_refused(executable, f"{path} belongs to user {NOBODY}")
            os.chown(path, 0, 0)
    # A link into a folder that others can write to.
    shared = folder / "shared"
    shared.mkdir()
    library.rename(shared / PLUGIN)
    library.symlink_to(shared / PLUGIN)
    shared.chmod(0o777)
    expect_refused(executable, f"{shared} may be written by everybody")


def test_build_id_is_read_first(folder):
    executable = program(folder / "bin")
    library = folder / "bin" / PLUGIN
    plant(library, build_id="0.0.1-0000000000000000")
    expect_refused(executable, "0.0.1-0000000000000000")
    expect_refused(executable, "0.0.1-0000000000000000", HEADRACE_PLUGIN_DIR=str(library.parent))
    plant(library)
    whole = library.read_bytes()
    for content, says in ((b"no library at all", "not a 64-bit ELF"), (whole[:40], "not a 64-bit ELF"),
                          (b"", "not a 64-bit ELF"), (whole.replace(b"headrace\0", b"headracf\0"), "no build id")):
        library.write_bytes(content)
        expect_refused(executable, says)
    library.unlink()
    library.mkdir()
    expect_refused(executable, str(library))


def test_other_libraries_in_the_working_directory(folder):
    executable = program(folder / "bin")
    work = folder / "work"
    for name in ("libcuda.so.1", "libcufile.so.0", "libcufile.so", "libcudart.so.13", "libnvToolsExt.so.1", "liburing.so.2"):
        plant(work / name)
        plant(work / "lib" / name)
    assert not doctor(executable, argv0="headrace", cwd=work)[0]
    done = subprocess.run([executable, "cufile-run", "--quiet", "--", "true"], cwd=work, capture_output=True, text=True)
    assert RAN not in done.stderr, done


def test_what_cufile_run_preloads(folder):
    executable = program(folder / "prefix" / "bin")

    def preload(*options):
        done = subprocess.run([executable, "cufile-run", *options, "--", "true"], capture_output=True, text=True, cwd=folder)
        return RAN in done.stderr, done.stderr
    for above in ("prefix/lib/headrace/cufile", "prefix/lib/cufile", "prefix/cufile", "cufile", ""):
        plant(folder / above / "libcufile.so.0")
    assert not preload()[0]
    library = folder / "prefix" / "bin" / "cufile" / "libcufile.so.0"
    plant(library)
    assert preload()[0]  # the positive control
    for path, mode in ((library.parent, 0o777), (library, 0o777), (folder / "prefix", 0o777)):
        kept = path.stat().st_mode & 0o7777
        path.chmod(mode)
        for options in ((), ("--library", str(library))):
            ran, text = preload(*options)
            assert not ran and f"{path} may be written by everybody" in text, (path, text)
        path.chmod(kept)


def main():
    global HEADRACE, BUILD_ID, CC
    HEADRACE, BUILD_ID, CC = sys.argv[1:4]
    return run_tests(globals(), sys.argv[4:], make=lambda folder: pathlib.Path(os.path.realpath(folder)))


if __name__ == "__main__":
    sys.exit(main())
