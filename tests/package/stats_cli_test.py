#!/usr/bin/env python3
"""headrace stats computes the same figures as a direct computation from the elements that headrace read returns.

  stats_cli_test.py HEADRACE"""
import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORE = ROOT / "tests/data/climate/climate-v2.zarr"
SHAPE = (240, 37, 49)


def run(tool, *arguments, code=0):
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, f"headrace {arguments} -> {done.returncode}: {done.stderr}"
    return done.stdout if code == 0 else done.stderr


def close(got, wanted):
    assert math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9), (got, wanted)


def check(got, numbers):
    mean = math.fsum(numbers) / len(numbers)
    close(got["mean"], mean)
    close(got["std"], math.sqrt(math.fsum((number - mean) ** 2 for number in numbers) / len(numbers)))
    assert (got["count"], got["min"], got["max"]) == (len(numbers), min(numbers), max(numbers)), got


def one(listed, number):
    return {name: listed[name][number] for name in ("count", "mean", "std", "min", "max")}


def main():
    tool = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder) / "air"
        run(tool, "read", STORE / "air_temperature", "--raw", "-o", raw)
        numbers = array.array("f", raw.read_bytes())
        assert len(numbers) == math.prod(SHAPE)

        alone = json.loads(run(tool, "stats", STORE / "air_temperature", "--json", "--quantiles", "0,0.5,1"))["arrays"]["air_temperature"]
        check(alone, numbers)
        assert alone["by"] == [] and alone["missing"] == 0
        middle = sum(number <= alone["quantiles"]["0.5"] for number in numbers) / len(numbers)
        assert abs(middle - 0.5) < 0.002, middle

        years = json.loads(run(tool, "stats", STORE, "--arrays", "air_temperature", "--by", "time", "--json"))["arrays"]["air_temperature"]
        plane = SHAPE[1] * SHAPE[2]
        assert (years["by"], years["shape"], len(years["mean"])) == (["time"], [240], 240)
        for year in (0, 1, 77, 239):
            check(one(years, year), numbers[year * plane:(year + 1) * plane])
        # Each index of the last dimension on its own; then two dimensions, one of them given by its number.
        columns = json.loads(run(tool, "stats", STORE / "air_temperature", "--by", "longitude,0", "--json", "--threads", "3"))["arrays"]["air_temperature"]
        assert (columns["by"], columns["shape"]) == (["time", "longitude"], [240, 49])
        for year, column in ((0, 0), (5, 48), (239, 17)):
            check(one(columns, year * 49 + column), numbers[year * plane + column:(year + 1) * plane:49])

        celsius = json.loads(run(tool, "stats", STORE / "air_temperature", "--json", "--offset", "-273.15", "--scale", "2"))["arrays"]["air_temperature"]
        close(celsius["mean"], 2 * alone["mean"] - 273.15)

        # A group has figures for all of its numeric arrays; a file gets the same text as standard output.
        group = json.loads(run(tool, "stats", STORE, "--json"))
        assert {"air_temperature", "latitude", "time"} <= set(group["arrays"]), group["arrays"].keys()
        out = pathlib.Path(folder) / "stats.json"
        run(tool, "stats", STORE, "-o", out)
        assert json.loads(out.read_text()) == group
        lines = run(tool, "stats", STORE / "air_temperature", "--quantiles", "0.5").splitlines()
        assert lines[0].startswith("air_temperature [240, 37, 49] float32") and "50%" in lines[1], lines

        for arguments, code, says in [(["--by", "level"], 2, "'level'"), (["--by", "3"], 2, "'3'"), (["--arrays", "wind"], 2, "'wind'"),
                                      (["--quantiles", "2"], 2, "quantiles")]:
            assert says in run(tool, "stats", STORE, *arguments, code=code), says
        assert "neither" in run(tool, "stats", folder, code=1)
        # A damaged chunk gives an error and no figures.
        broken = pathlib.Path(folder) / "broken"
        broken.mkdir()
        for file in (STORE / "air_temperature").iterdir():
            (broken / file.name).write_bytes(file.read_bytes())
        (broken / "1.0.0").write_bytes(b"no blosc")
        assert "1.0.0" in run(tool, "stats", broken, "-o", out, code=1)
        assert json.loads(out.read_text()) == group
    print("statistics are those of the elements")


if __name__ == "__main__":
    main()
