"""What all tests of the package share."""

import os

import pytest


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path, monkeypatch):
    """Each test runs in a folder of its own, so that nothing is left behind."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def open_descriptors():
    return lambda: len(os.listdir("/proc/self/fd"))
