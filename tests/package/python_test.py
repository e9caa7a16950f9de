#!/usr/bin/env python3
"""Tests the Python package in a build folder, with the interpreter it was built for.

  python_test.py --python PYTHON --build DIR native|zarr|xarray   the tests of python/tests/NAME
  python_test.py --python PYTHON --build DIR guides               the Python of README.md and docs/guide, as written
  python_test.py --python PYTHON --build DIR types                stubs and annotations, by mypy
  python_test.py --python PYTHON --build DIR wheel [--configure OPTION=VALUE]...
                                                                  pip wheel, installed and used away from this tree

HEADRACE_PYTEST_OUTPUT names a folder for pytest's results as XML. Exit code 77 means skipped: the build has no Python
package (tools/test configures one with tools/python-env), or a guide needs a missing package; the last line says which."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
NEEDS = re.compile(r"^<!-- needs: ([\w, ]+) -->$", re.M)


def run(command, **options):
    print("+", *map(str, command), flush=True)
    done = subprocess.run(command, **options)
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode}: {' '.join(map(str, command))}")


def environment(build):
    path = os.pathsep.join(filter(None, [str(build / "python"), os.environ.get("PYTHONPATH")]))
    # NumPy's linear algebra is unused, but its threads spin for a while in each process. The package's bytecode is
    # cached in the build folder, because otherwise hundreds of test processes would each compile it.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


# Tests that start servers or programs, or compare everything. They are left out with HEADRACE_FAST_TESTS, which
# tools/test --fast sets.
SLOW = {"native": ("test_remote", "test_process", "test_interruption", "test_loader_ray"),
        "zarr": ("test_remote_stores", "test_zarr_errors"), "xarray": ("test_dask", "test_equivalence", "test_guides", "test_loader_dask")}


def run_suite(python, build, name):
    folder = os.environ.get("HEADRACE_PYTEST_OUTPUT")
    results = ["--junitxml", f"{folder}/python_{name}.xml"] if folder else []
    slow = SLOW[name] if os.environ.get("HEADRACE_FAST_TESTS") else ()
    left_out = [f"--ignore=python/tests/{name}/{module}.py" for module in slow]
    run([python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--durations=5", *left_out, *results, f"python/tests/{name}"],
        cwd=ROOT, env=environment(build))


def run_guides(python, build, skip_missing):
    """Runs each page's blocks in order, in one namespace and a folder of its own. Returns the exit code."""
    pages = ran = 0
    left_out = []
    for page in GUIDES:
        text = (ROOT / page).read_text()
        blocks = BLOCK.findall(text)
        if not blocks:
            continue
        missing = [module for needs in NEEDS.findall(text) for module in needs.split(", ") if not has(python, module)]
        if missing:
            left_out.append(f"{page}: not run, needs {', '.join(missing)}")
            if not skip_missing and not set(missing) <= {"torch", "ray"}:
                sys.exit(f"{left_out[-1]}, which tools/python-env installs")
            continue
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "tests").symlink_to(ROOT / "tests")  # the data that pages read
            program = "".join(f"\n# {page}, block {number}\n{block}" for number, block in enumerate(blocks, 1))
            # Worker processes import the main module again.
            (pathlib.Path(folder) / "page.py").write_text(
                "def main():\n    scope = {'__name__': '__page__'}\n    exec(compile(PROGRAM, 'page', 'exec'), scope)\n\n"
                f"PROGRAM = {program!r}\n\nif __name__ == '__main__':\n    main()\n")
            done = subprocess.run([python, "page.py"], cwd=folder, env=environment(build), capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{page}:\n{done.stdout}{done.stderr}")
        for shown in re.findall(r"^```python\n(?:.*?)^```\n+```text\n(.*?)^```$", text, re.M | re.S):
            if shown.strip() not in done.stdout:
                sys.exit(f"{page} shows\n{shown}\nand its blocks print\n{done.stdout}")
        pages, ran = pages + 1, ran + len(blocks)
        print(f"{page}: {len(blocks)} blocks")
    if ran == 0:
        sys.exit("no block was run")
    print("\n".join([f"{ran} blocks of {pages} pages", *left_out]))
    return 77 if left_out and not skip_missing else 0


def run_types(python, build):
    run([python, "-m", "mypy", "--cache-dir", build / "mypy", "-p", "headrace"], cwd=ROOT,
        env={**environment(build), "MYPYPATH": str(build / "python")})


def run_wheel(python, build, options):
    """Uses the wheel in an environment with only NumPy, from another folder, on the demo data."""
    wheel_build = build.with_name(build.name + "-wheel")
    shutil.rmtree(wheel_build, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder / "wheels", ROOT,
             "-C", f"build-dir={wheel_build}", "-C", "cmake.version=>=3.25", "-C", "wheel.py-api=",
             "-C", "cmake.define.HEADRACE_CUDA=OFF", "-C", "install.strip=true", *(argument for option in options for argument in ("-C", option))], cwd=folder)
        wheel, = (folder / "wheels").glob("headrace-*.whl")
        run([sys.executable, ROOT / "tests" / "package" / "wheel_contents.py", wheel, "--without-cuda"])
        run([python, "-m", "venv", "--without-pip", folder / "clean"])  # installing pip takes longer than the test
        clean = folder / "clean" / "bin" / "python"
        pip = [python, "-m", "pip", "--python", clean, "--disable-pip-version-check"]
        run([*pip, "install", "--quiet", wheel])
        names = subprocess.run([*pip, "list", "--format=freeze"], capture_output=True, text=True, check=True).stdout
        others = {line.split("==")[0].lower() for line in names.split()} - {"headrace", "numpy", "pip", "setuptools", "wheel"}
        if others:
            sys.exit(f"the wheel brought {sorted(others)}: NumPy is all it needs")
        tool = clean.with_name("headrace")
        for arguments in (["--version"], ["doctor", "--quick"]):
            run([tool, *arguments], cwd=folder, stdout=subprocess.DEVNULL)
        done = subprocess.run([tool, "cufile-run", "--", "true"], cwd=folder, capture_output=True, text=True)
        if "called no cuFile function" not in done.stderr:  # printed for programs that have the library loaded
            sys.exit(f"cufile-run: {done}")
        shutil.copytree(ROOT / "tests" / "data" / "climate", folder / "climate")
        run([clean, "-c", """
import importlib.metadata, numpy, pathlib, headrace
points = {p.group: p.value for p in importlib.metadata.distribution("headrace").entry_points}
assert points == {"console_scripts": "headrace._cli:main", "zarr.codec_pipeline": "headrace.zarr:HeadracePipeline",
                  "xarray.backends": "headrace.xarray:HeadraceBackendEntrypoint"}, points
assert headrace.__version__ == importlib.metadata.version("headrace")
folder = pathlib.Path(headrace.__file__).parent
assert (folder / "py.typed").exists() and (folder / "_core.pyi").exists(), sorted(folder.iterdir())
group = headrace.open("climate/climate-v3.zarr")
for name, array in group.arrays():
    assert array[...].shape == array.shape
for module in ("headrace.zarr", "headrace.xarray", "headrace.lightning", "headrace.ray"):
    try:
        __import__(module)
    except ImportError as error:
        assert "pip install" in str(error), error
print(group)
"""], cwd=folder, env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="")
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--skip-missing", action="store_true", help="guides: leave out pages whose packages are not installed")
    parser.add_argument("what", choices=["native", "zarr", "xarray", "guides", "types", "wheel"])
    parser.add_argument("--configure", action="append", default=[])
    arguments = parser.parse_args()
    if not arguments.python:
        print("left out by tools/test --no-python" if os.environ.get("HEADRACE_NO_PYTHON") else
              "this build has no Python package: configure with -DHEADRACE_PYTHON=\"$(tools/python-env)\"")
        return 77
    if arguments.what == "wheel":
        # scikit-build-core has its own option for the build type.
        run_wheel(arguments.python, arguments.build,
                  [f"cmake.build-type={value}" if name == "CMAKE_BUILD_TYPE" else f"cmake.define.{name}={value}"
                   for name, _, value in (option.partition("=") for option in arguments.configure)])
    elif arguments.what == "types":
        run_types(arguments.python, arguments.build)
    elif arguments.what == "guides":
        return run_guides(arguments.python, arguments.build, arguments.skip_missing)
    else:
        run_suite(arguments.python, arguments.build, arguments.what)
    return 0


if __name__ == "__main__":
    sys.exit(main())
