"""Fixtures shared by all tests of the package."""

import os

import pytest


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path, monkeypatch):
    """Runs each test in its own folder, so that no files are left behind."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def open_descriptors():
    return lambda: len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="session")
def quick_moto():
    """Caches moto's list of module folders, which its server otherwise scans on each request and spends most of its
    time on.
    """
    backends = pytest.importorskip("moto.backends")
    found = tuple(backends.list_of_moto_modules())
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(backends, "list_of_moto_modules", lambda: found)
        yield
