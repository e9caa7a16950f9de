"""Opens arrays with headrace's pipeline and with zarr's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import zarr

import headrace.zarr  # noqa: F401 - registers the pipeline

OWN = "zarr.core.codec_pipeline.BatchedCodecPipeline"
OURS = "headrace.zarr.HeadracePipeline"


@contextmanager
def pipeline(name: str, strict: bool = False) -> Iterator[None]:
    with zarr.config.set({"codec_pipeline.path": name, "headrace.strict": strict}):
        yield


def open_own(store: Any, **how: Any) -> Any:
    with pipeline(OWN):
        return zarr.open_array(store, mode="r", **how)


def open_ours(store: Any, strict: bool = True, **how: Any) -> Any:
    """Opens with headrace's pipeline. strict: a read that does not go through headrace raises."""
    with pipeline(OURS, strict):
        return zarr.open_array(store, mode="r", **how)


def same(got: Any, expected: Any) -> None:
    """Compares bytes, shape and type."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
