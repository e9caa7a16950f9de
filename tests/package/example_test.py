#!/usr/bin/env python3
"""Runs examples/train_unet.py on the repository's climate store: training resumes where it stopped, on one rank and on
several.

  example_test.py PYTHON PACKAGES HEADRACE [--device cpu] [--ranks 2]

PACKAGES: the folder that contains headrace/. HEADRACE: the command line tool. If PYTHON has no PyTorch, exits with 77
and prints the reason as the last line."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SMALL = ["--width", "8", "--batch-size", "8", "--seed", "3"]


def run(command, **environment):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, **environment}, timeout=280)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def losses(python, checkpoint):
    return [float(word) for word in run([python, "-c", f"import torch; print(*torch.load({str(checkpoint)!r}, weights_only=True)['losses'])"]).split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("packages")
    parser.add_argument("headrace")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--ranks", type=int, default=2)
    arguments = parser.parse_args()
    python = os.path.abspath(arguments.python) if "/" in arguments.python else arguments.python or sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([os.path.abspath(arguments.packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ["OMP_NUM_THREADS"] = "1"
    if subprocess.run([python, "-c", "import torch, headrace"], capture_output=True, check=False).returncode != 0:
        print("examples/train_unet.py was not run: PyTorch is not installed")
        return 77
    store = ROOT / "tests/data/climate/climate-v2.zarr"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        run([arguments.headrace, "stats", store, "-o", folder / "stats.json"])
        example = [ROOT / "examples/train_unet.py", store, "--device", arguments.device, "--statistics", folder / "stats.json", *SMALL]
        whole, parts = folder / "whole.pt", folder / "parts.pt"
        run([python, *example, "--epochs", "2", "--checkpoint", whole, *(["--plot", folder / "curve.png"] if arguments.device == "cpu" else [])])
        expected = losses(python, whole)
        assert len(expected) > 20, expected
        assert sum(expected[-10:]) < sum(expected[:10]), f"nothing was learnt: {expected}"
        run([python, *example, "--epochs", "2", "--checkpoint", parts, "--stop-at", str(len(expected) // 2 + 3)])
        out = run([python, *example, "--epochs", "2", "--checkpoint", parts])
        assert "goes on in epoch" in out, out
        got = losses(python, parts)
        close = max(abs(a - b) for a, b in zip(expected, got, strict=True))
        assert close == 0 or arguments.device == "cuda" and close < 0.1, f"a training that was interrupted differs by {close}"
        for parallel in ("ddp", "fsdp"):
            for stop in ("7", "0"):  # stopped, then resumed
                run([python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(arguments.ranks), *example, "--epochs", "1",
                     "--parallel", parallel, "--checkpoint", folder / f"{parallel}.pt", "--stop-at", stop])
            assert len(losses(python, folder / f"{parallel}.pt")) == len(expected) // 2 // arguments.ranks
        out = run([python, *example, "--crop", "16", "--crops-per-frame", "4", "--shuffle", "block", "--bars", "5", "--warmup", "1"])
        assert "real / synthetic" in out, out
    print(f"{len(expected)} steps, interrupted and on {arguments.ranks} ranks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
