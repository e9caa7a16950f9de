"""Results as torch tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr_support import open_ours, open_own, same

from headrace.zarr import torch_prototype

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
DATA = np.arange(23 * 31, dtype="int32").reshape(23, 31)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shards", [None, (10, 16)], ids=["chunks", "shards"])
@pytest.mark.parametrize("strict", [True, False], ids=["headrace", "memory"])
def test_selections(tmp_path: Path, device: str, shards: Any, strict: bool) -> None:
    store: Any = tmp_path if strict else zarr.storage.MemoryStore()
    how = {"shards": shards} if shards else {}
    zarr.create_array(store, data=DATA, chunks=(5, 8), **how)
    ours, own = open_ours(store, strict), open_own(store)
    prototype = torch_prototype(device)
    for selection in (np.s_[...], np.s_[3:17:4, -2], np.s_[0:23:7]):
        if not strict and shards:
            continue  # zarr asserts here that the prototype is the global one
        got = ours.get_basic_selection(selection, prototype=prototype)
        assert isinstance(got, torch.Tensor)
        assert got.device.type == device
        same(got.cpu().numpy(), own[selection])
    if strict:
        got = ours.get_orthogonal_selection(([20, 1], slice(3, 9)), prototype=prototype)
        same(got.cpu().numpy(), own.oindex[[20, 1], 3:9])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float64", "complex64", "uint32"])
def test_types(tmp_path: Path, device: str, dtype: str) -> None:
    data = DATA.astype(dtype)
    zarr.create_array(tmp_path, data=data, chunks=(5, 8))
    got = open_ours(tmp_path).get_basic_selection(..., prototype=torch_prototype(device))
    same(got.cpu().numpy(), data)


@pytest.mark.parametrize("device", DEVICES)
def test_what_torch_has_no_type_for_stays_on_the_host(tmp_path: Path, device: str) -> None:
    data = DATA.astype("M8[s]")
    zarr.create_array(tmp_path, data=data, chunks=(5, 8))
    got = open_ours(tmp_path).get_basic_selection(..., prototype=torch_prototype(device))
    assert isinstance(got, np.ndarray)
    same(got, data)


@pytest.mark.parametrize("device", DEVICES)
def test_what_zarr_reads_itself(tmp_path: Path, device: str) -> None:
    """Missing chunks, filters and a transpose, all through zarr's own pipeline."""
    array = zarr.create_array(
        tmp_path, shape=(23, 31), chunks=(5, 8), dtype="int32", fill_value=7, filters=zarr.codecs.TransposeCodec(order=(1, 0))
    )
    array[:10] = DATA[:10]
    own = open_own(tmp_path)
    got = own.get_basic_selection(np.s_[1:20:3], prototype=torch_prototype(device))
    assert got.device.type == device
    same(got.cpu().numpy(), own[1:20:3])
