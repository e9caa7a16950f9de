"""Fixtures for the engine "headrace": one store opened through it and through engine "zarr"."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("xarray")
pytest.importorskip("zarr")

import xarray as xr  # noqa: E402

from headrace.xarray import HeadraceBackendEntrypoint  # noqa: E402


@pytest.fixture(scope="session")
def engine() -> Any:
    """The engine's name if a wheel has registered it, else its class: a build tree registers nothing."""
    return "headrace" if "headrace" in xr.backends.list_engines() else HeadraceBackendEntrypoint


@pytest.fixture
def open_both(engine: Any) -> Any:
    """open_both(path, **options): the dataset opened by zarr and by headrace."""

    def open_(path: Any, **options: Any) -> tuple[xr.Dataset, xr.Dataset]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (
                xr.open_dataset(path, engine="zarr", **options),
                xr.open_dataset(path, engine=engine, **options),
            )

    return open_
