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


@pytest.fixture(scope="session")
def quick_moto():
    """moto's server looks through the folder of its modules for each request: it takes most of its time."""
    backends = pytest.importorskip("moto.backends")
    found = tuple(backends.list_of_moto_modules())
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(backends, "list_of_moto_modules", lambda: found)
        yield
