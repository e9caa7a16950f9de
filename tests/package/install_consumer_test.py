#!/usr/bin/env python3
"""An installed headrace works in a project outside this tree, as a static and as a shared library.

  install_consumer_test.py --source DIR --build DIR --work DIR --type static|shared [--configure OPTION=VALUE]...

static installs the given build; shared first configures and builds a shared one next to it. Then: install into an empty
prefix, configure tests/package/consumer against it, build, run, and run the installed command line tool. The same from
a project in C only, and with pkg-config. Programs find a plug-in in the installed tree, even after it was moved."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import planted_library_test as planted

MISSING = "missing from the installation"


def run(*command, **extra):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **extra)
    if done.returncode != 0:
        print("+", " ".join(str(c) for c in command), f"-> {done.returncode}")
        print((done.stdout + done.stderr)[-4000:])
        sys.exit(1)
    return done.stdout


def write_store(path):
    path.mkdir(parents=True, exist_ok=True)
    (path / ".zarray").write_text(json.dumps({
        "zarr_format": 2, "shape": [10, 10], "chunks": [5, 10], "dtype": "|u1", "compressor": None, "fill_value": 0,
        "filters": None, "order": "C"}))
    (path / "0.0").write_bytes(bytes(range(50)))
    (path / "1.0").write_bytes(bytes(range(50, 100)))


def check_names(prefix, lib, arguments):
    """The version of the headers, and the shared library's name, which contains the minor version as long as the major
    version is 0."""
    header = (prefix / "include/headrace/version.h").read_text()
    major, minor, patch = (re.search(rf"VERSION_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR", "PATCH"))
    config = next(prefix.rglob("headrace-config-version.cmake")).read_text()
    assert f'set(PACKAGE_VERSION "{major}.{minor}.{patch}")' in config, (header, config)
    if arguments.type == "shared":
        name = "libheadrace.so." + (f"0.{minor}" if major == "0" else major)
        assert f"[{name}]" in run("readelf", "-d", lib / "libheadrace.so"), name
        assert (lib / name).resolve().name == f"libheadrace.so.{major}.{minor}.{patch}"


def check_plugin(prefix, lib, tool, arguments, environment, program, store):
    """The tool, a program elsewhere that uses the shared library, and the library that `cufile-run` preloads find a
    plug-in in the installed tree, also after the tree was moved. It is enough that the plug-in is loaded: it prints a
    line."""
    planted.BUILD_ID, planted.CC = arguments.build_id, "cc"
    plugin = lib / "headrace" / planted.PLUGIN
    kept = plugin.rename(plugin.with_suffix(".kept")) if plugin.exists() else None
    planted.plant(plugin)

    def says_so(*command):
        done = subprocess.run([str(c) for c in command], env=environment, capture_output=True, text=True)
        assert planted.RAN in done.stderr, (command, done)
    moved = prefix.with_name(prefix.name + "-moved")
    shutil.rmtree(moved, ignore_errors=True)
    says_so(tool, "doctor", "--quick")
    # It can detect this in programs that have the library loaded.
    done = subprocess.run([tool, "cufile-run", "--", "true"], env=environment, capture_output=True, text=True)
    assert "called no cuFile function" in done.stderr, done
    if arguments.type == "shared":
        says_so(program, store, "auto")
    prefix.rename(moved)
    says_so(moved / "bin/headrace", "doctor", "--quick")
    moved.rename(prefix)
    plugin.unlink()
    if kept:
        kept.rename(plugin)
    done = subprocess.run([program, store, "auto"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done
    if arguments.type == "shared":  # without a plug-in, it says where it looked
        assert "no GPU is used" in done.stderr and f"{lib}/headrace" in done.stderr, done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--type", choices=("static", "shared"), required=True)
    parser.add_argument("--build-id", required=True)
    parser.add_argument("--configure", action="append", default=[])
    arguments = parser.parse_args()
    build = arguments.build
    if arguments.type == "shared":
        build = arguments.build.with_name(arguments.build.name + "-shared")
        run("cmake", "-S", arguments.source, "-B", build, "-G", "Ninja", "-DBUILD_SHARED_LIBS=ON",
            "-DHEADRACE_DEVELOPER_MODE=OFF", "-DHEADRACE_INSTALL=ON", "-DHEADRACE_CUDA=OFF", *(f"-D{option}" for option in arguments.configure))
        run("cmake", "--build", build, "--parallel", "2")

    prefix = arguments.work / f"{arguments.type}-prefix"
    consumer = arguments.work / f"{arguments.type}-consumer"
    for folder in (prefix, consumer):
        shutil.rmtree(folder, ignore_errors=True)
    run("cmake", "--install", build, "--prefix", prefix)

    lib = next((p for p in (prefix / "lib", prefix / "lib64", *prefix.glob("lib/*-linux-gnu")) if list(p.glob("libheadrace*"))), None)
    assert lib, f"library {MISSING}"
    # Exactly the public headers.
    public = sorted(p.name for p in (arguments.source / "include/headrace").glob("*.h"))
    installed = sorted(p.name for p in (prefix / "include/headrace").iterdir())
    assert installed == public, f"headers: {installed} instead of {public}"

    run("cmake", "-S", arguments.source / "tests/package/consumer", "-B", consumer, "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", consumer)

    sources = arguments.source / "tests/package/consumer"
    run("cmake", "-S", sources / "c_only", "-B", consumer / "c_only", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", consumer / "c_only")
    for static in ((), ("--static",)):
        flags = run("pkg-config", *static, "--cflags", "--libs", "headrace",
                    env={**os.environ, "PKG_CONFIG_PATH": str(lib / "pkgconfig")}).split()
        # How programs link libraries outside the loader's search path.
        flags = [*flags, f"-Wl,-rpath,{lib}"]
        run("cc", sources / "consumer_program.c", "-o", consumer / f"pkg_config_c{len(static)}", *flags)
        run("c++", "-std=c++20", sources / "consumer_program.cc", "-o", consumer / f"pkg_config_cxx{len(static)}", *flags)

    store = arguments.work / "store.zarr"
    write_store(store)
    for program in ("consumer_cxx", "consumer_c", "c_only/consumer_c", "pkg_config_c0", "pkg_config_c1", "pkg_config_cxx0", "pkg_config_cxx1"):
        out = run(consumer / program, store).strip()
        assert out == str(sum(range(100))), f"{program} printed {out!r}"
    version = run(consumer / "consumer_cufile").strip()
    assert version.isdecimal(), f"consumer_cufile printed {version!r}"
    linked = run("ldd", consumer / "consumer_cufile")
    assert f"{lib}/headrace/cufile/libcufile.so.0" in linked, linked
    check_names(prefix, lib, arguments)
    tool = prefix / "bin/headrace"
    assert tool.exists(), f"bin/headrace {MISSING}"
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "HEADRACE_PLUGIN_DIR")}
    version = run(tool, "--version", env=environment).strip()
    assert version.startswith("headrace "), version
    check_plugin(prefix, lib, tool, arguments, environment, consumer / "c_only/consumer_c", store)
    # The installation must work without the tree it was built in.
    config = next(prefix.rglob("headrace-config.cmake")).read_text()
    assert str(arguments.build) not in config and str(arguments.source) not in config, "the config names the build tree"
    if arguments.type == "shared":
        run(sys.executable, arguments.source / "tests/package/library_symbols_test.py", "--shared", lib / "libheadrace.so")
        cxx = next(option.split("=", 1)[1] for option in arguments.configure if option.startswith("CMAKE_CXX_COMPILER="))
        run(sys.executable, arguments.source / "tests/package/abi_test.py", cxx, "--shared", lib / "libheadrace.so")
    print(f"{arguments.type}: installed, found, linked, run; {version}")


if __name__ == "__main__":
    main()
