"""Tests that need a GPU and PyTorch. `tools/python-gpu-check` runs them; the suite of machines without a GPU does not."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "native"))
import native_stores as stores  # noqa: E402
import numpy as np
import pytest

import headrace

try:
    import torch

    usable = torch.cuda.is_available() and len(headrace.device_names()) > 1
except ImportError:
    usable = False
collect_ignore_glob = [] if usable else ["*.py"]

DATA = np.random.default_rng(5).normal(size=(64, 96, 128)).astype("<f4")


@pytest.fixture(scope="session", params=["raw", "gzip"])
def array(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("gpu") / "a"
    stores.write(path, DATA, (4, 96, 128), compress=request.param == "gzip")
    return headrace.open(path, device="cuda")


@pytest.fixture(scope="session")
def data():
    return DATA


@pytest.fixture
def busy():
    """Keeps a stream's GPU busy for about 50 ms."""

    def keep(milliseconds=50):
        torch.cuda._sleep(int(milliseconds * 1e-3 * torch.cuda.get_device_properties(0).clock_rate * 1e3)
                          if hasattr(torch.cuda.get_device_properties(0), "clock_rate") else int(milliseconds * 1.7e6))

    return keep
