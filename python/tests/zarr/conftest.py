"""Fixtures that compare zarr with headrace's pipeline to zarr's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("zarr")

from zarr_support import OWN, pipeline


@pytest.fixture(autouse=True)
def _fresh_config() -> Iterator[None]:
    with pipeline(OWN):
        yield
