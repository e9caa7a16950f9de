#!/usr/bin/env python3
"""libcufile.so.0 as a file that programs load: its exports and dependencies are right, and fork, exit and unloading are
safe. Also `headrace cufile-run`, which preloads it.

  cufile_library_test.py LIBRARY HEADRACE CC [NAME...]"""
import os
import pathlib
import re
import subprocess
import sys
import textwrap

from script_tests import run_tests

LIBRARY = HEADRACE = CC = ""

# Functions of 1.15, then those of later versions.
FUNCTIONS = """
cuFileHandleRegister cuFileHandleDeregister cuFileBufRegister cuFileBufDeregister cuFileRead cuFileWrite cuFileDriverOpen
cuFileDriverClose cuFileDriverClose_v2 cuFileUseCount cuFileDriverGetProperties cuFileDriverSetPollMode
cuFileDriverSetMaxDirectIOSize cuFileDriverSetMaxCacheSize cuFileDriverSetMaxPinnedMemSize cuFileBatchIOSetUp
cuFileBatchIOSubmit cuFileBatchIOGetStatus cuFileBatchIOCancel cuFileBatchIODestroy cuFileReadAsync cuFileWriteAsync
cuFileStreamRegister cuFileStreamDeregister cuFileGetVersion cuFileGetParameterSizeT cuFileGetParameterBool
cuFileGetParameterString cuFileSetParameterSizeT cuFileSetParameterBool cuFileSetParameterString
cuFileGetParameterMinMaxValue cuFileGetBARSizeInKB cuFileGetParameterPosixPoolSlabArray
cuFileSetParameterPosixPoolSlabArray cuFileSetStatsLevel cuFileGetStatsLevel cuFileStatsStart cuFileStatsStop
cuFileStatsReset cuFileGetStatsL1 cuFileGetStatsL2 cuFileGetStatsL3
""".split()
LATER = """cuFileDriverSetP2PFlags cuFileDriverGetP2PFlags cuFileExportPCIeTopology cuFileGetParameterGpuBounceBufferSlabArray
cuFileSetParameterGpuBounceBufferSlabArray cuFileReadv cuFileWritev""".split()

PRELUDE = """
import ctypes, os, sys, threading
class Descr(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("fd", ctypes.c_void_p), ("ops", ctypes.c_void_p)]
lib = ctypes.CDLL(sys.argv[1], use_errno=True)
class Error(ctypes.Structure):
    _fields_ = [("err", ctypes.c_int), ("cu", ctypes.c_int)]
for name in ("cuFileHandleRegister", "cuFileDriverOpen", "cuFileDriverClose_v2", "cuFileDriverClose"):
    getattr(lib, name).restype = Error
lib.cuFileRead.restype = ctypes.c_ssize_t
lib.cuFileRead.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long, ctypes.c_long]
lib.cuFileUseCount.restype = ctypes.c_long
def register(path):
    handle = ctypes.c_void_p()
    descr = Descr(1, os.open(path, os.O_RDONLY), None)
    code = lib.cuFileHandleRegister(ctypes.byref(handle), ctypes.byref(descr)).err
    assert code == 0, code
    return handle
def read(handle, bytes, at=0):
    memory = ctypes.create_string_buffer(bytes)
    return lib.cuFileRead(handle, memory, bytes, at, 0), memory.raw
"""


def python(script, *arguments, expect=0, cwd=None, **environment):
    done = subprocess.run([sys.executable, "-c", PRELUDE + textwrap.dedent(script), LIBRARY, *map(str, arguments)],
                          capture_output=True, text=True, timeout=60, cwd=cwd, env=dict(os.environ, **environment))
    assert done.returncode == expect, (done.returncode, done.stdout, done.stderr)
    return done.stdout


class Fixture:
    def __init__(self, root):
        self.root = root
        self.data = root / "data"
        self.data.write_bytes(bytes(i * 7 % 251 for i in range(300000)))


def test_exports(f):
    assert len(FUNCTIONS) == 43 and len(LATER) == 7
    out = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    names = sorted(line.split()[-1] for line in out.splitlines())
    assert names == sorted(FUNCTIONS + LATER), set(names) ^ set(FUNCTIONS + LATER)


def test_file(f):
    out = subprocess.run(["readelf", "-dVW", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert "Library soname: [libcufile.so.0]" in out
    assert "Version definition section" not in out
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", out)
    assert not [n for n in needed if re.match(r"lib(cuda|nv|udev|mount|urcu|numa)", n)], needed


def test_both_names_of_close(f):
    python("""
        assert lib.cuFileDriverOpen().err == 0 and lib.cuFileDriverOpen().err == 0
        assert lib.cuFileDriverClose().err == 0 and lib.cuFileUseCount() == 1
        assert lib.cuFileDriverClose_v2().err == 0 and lib.cuFileDriverClose().err == 5001""")


def test_fork(f):
    python("""
        handle = register(sys.argv[2])
        assert read(handle, 100000)[0] == 100000
        child = os.fork()
        if child == 0:
            code = 0
            if read(handle, 100)[0] != -5027: code |= 1   # the parent's handle is none here
            if lib.cuFileUseCount() != 0: code |= 2
            own = register(sys.argv[2])
            if read(own, 100000)[0] != 100000: code |= 4
            if lib.cuFileDriverClose_v2().err != 0: code |= 8
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0, "the child"
        assert read(handle, 100000)[0] == 100000
        child = os.fork()
        if child == 0: sys.exit(0)   # with destructors, without a call
        assert os.waitpid(child, 0)[1] == 0""", f.data)


def test_exit_while_threads_read(f):
    for _ in range(5):
        python("""
            handle = register(sys.argv[2])
            def work():
                while True: read(handle, 200000)
            for _ in range(4): threading.Thread(target=work, daemon=True).start()
            for _ in range(20): read(handle, 100000)""", f.data)


def test_threads_that_end(f):
    python("""
        handle = register(sys.argv[2])
        for _ in range(50):
            threads = [threading.Thread(target=read, args=(handle, 150000)) for _ in range(4)]
            for t in threads: t.start()
            for t in threads: t.join()
        assert len(os.listdir("/proc/self/fd")) < 64""", f.data)


def test_unload(f):
    python("""
        import _ctypes
        handle = register(sys.argv[2])
        def work(): read(handle, 200000)
        thread = threading.Thread(target=work); thread.start()
        read(handle, 200000)
        _ctypes.dlclose(lib._handle)
        thread.join()""", f.data)


def test_nothing_is_left_in_the_working_directory(f):
    folder = f.root / "here"
    folder.mkdir()
    python("handle = register(sys.argv[2]); assert read(handle, 10)[0] == 10; assert read(None, 10)[0] == -1", f.data, cwd=folder)
    assert not list(folder.iterdir())


def test_standard_input_stays_open(f):
    python("lib.cuFileDriverOpen(); os.fstat(0); lib.cuFileDriverClose_v2(); os.fstat(0)")


PROGRAM = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#define CUFILE_WITHOUT_CUDA_H
#include <cufile/cufile.h>
int main(int argc, char **argv) {
  char memory[1000];
  CUfileDescr_t descr = {CU_FILE_HANDLE_TYPE_OPAQUE_FD, {0}, NULL};
  CUfileHandle_t handle;
  ssize_t (*read_file)(CUfileHandle_t, void *, size_t, off_t, off_t);
  CUfileError_t (*register_file)(CUfileHandle_t *, CUfileDescr_t *);
  if (argc > 3 && dlopen(argv[3], RTLD_NOW) == NULL) return puts(dlerror()), 6;
  void *lib = dlopen(argc > 2 ? argv[2] : "libcufile.so.0", RTLD_NOW);
  if (lib == NULL) return puts(dlerror()), 3;
  *(void **)&read_file = dlsym(lib, "cuFileRead");
  *(void **)&register_file = dlsym(lib, "cuFileHandleRegister");
  descr.handle.fd = open(argv[1], O_RDONLY);
  if (register_file(&handle, &descr).err != CU_FILE_SUCCESS) return 4;
  return read_file(handle, memory, sizeof memory, 0, 0) == 1000 ? 7 : 5;
}
"""


def run(*arguments, **extra):
    return subprocess.run([HEADRACE, "cufile-run", *map(str, arguments)], capture_output=True, text=True, timeout=60, **extra)


def build(f, name, *flags):
    source = f.root / "program.c"
    source.write_text(PROGRAM)
    program = f.root / name
    include = pathlib.Path(__file__).resolve().parents[2] / "include"
    subprocess.run([CC, "-std=gnu99", f"-I{include}", str(source), "-o", str(program), *flags, "-ldl"], check=True,
                   capture_output=True)
    return program


def test_run_program(f):
    program = build(f, "program")
    for name in ("libcufile.so.0", "libcufile.so"):
        done = run("--stats", "--", program, f.data, name)
        assert done.returncode == 7, done
        assert f"preloading {os.path.realpath(os.path.dirname(LIBRARY))}/libcufile.so.0" in done.stderr, done.stderr
        assert re.search(r"  read +1\n", done.stderr) and re.search(r"  handle_register +1\n", done.stderr), done.stderr
        assert re.search(r"read buffered +1\.00 kB|read buffered +1,?000", done.stderr), done.stderr
        assert "read latency" in done.stderr and "p99" in done.stderr, done.stderr
        assert not done.stdout, done.stdout
    assert not run("--quiet", "--", program, f.data).stderr


def test_run_says_when_it_did_not_take(f):
    static = f.root / "static"
    source = f.root / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run([CC, "-static", str(source), "-o", str(static)], check=True, capture_output=True)
    done = run("--", static)
    assert done.returncode == 1 and "did not load the library" in done.stderr, done


def test_run_says_when_nothing_was_called(f):
    done = run("--", "true")
    assert done.returncode == 1 and "called no cuFile function" in done.stderr, done
    # The program's own failure is passed on. A program that leaves no report may have called a function.
    assert run("--", "false").returncode == 1
    assert run("--", sys.executable, "-c", "import os; os._exit(0)").returncode == 0


def test_run_sees_another_library(f):
    source = f.root / "other.c"
    source.write_text("long cuFileHandleRegister(void *a, void *b) { return 0; }\nlong cuFileRead(void *a) { return 1000; }\n")
    other = f.root / "libcufile.so.0"
    subprocess.run([CC, "-shared", "-fPIC", str(source), "-o", str(other)], check=True, capture_output=True)
    program = build(f, "program")
    done = run("--", program, f.data, other)
    assert done.returncode == 7 and "another libcufile" in done.stderr and str(other) in done.stderr, done
    assert "may have used that one" in done.stderr, done
    # A program that succeeds without calling this library has not used it.
    done = run("--", sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(other)!r})")
    assert done.returncode == 1 and "may have used that one" in done.stderr, done
    # The other library is loaded, but this one gets the calls: reported, and not a failure.
    done = run("--stats", "--", program, f.data, "libcufile.so.0", other)
    assert done.returncode == 7 and "which got the calls" in done.stderr and str(other) in done.stderr, done
    assert re.search(r"  read +1\n", done.stderr), done


def test_run_exit_codes(f):
    assert run("--", "sh", "-c", "exit 5").returncode == 5
    assert run("--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert run("--", f.root / "nowhere").returncode == 127
    assert run("--", f.data).returncode == 126
    assert run().returncode == 2
    assert run("--library", "/nowhere.so", "--", "true").returncode == 1
    assert not [p for p in pathlib.Path("/tmp").glob("headrace-cufile-*") if p.stat().st_uid == os.getuid() and not list(p.iterdir())]


if __name__ == "__main__":
    LIBRARY, HEADRACE, CC = sys.argv[1:4]
    sys.exit(run_tests(globals(), sys.argv[4:], Fixture))
