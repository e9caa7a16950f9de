"""Memory and streams of two GPUs in one process: reads land in order after earlier work, whichever device is current."""

import types

import native_stores as stores
import numpy as np
import pytest
import torch

import headrace

cupy = pytest.importorskip("cupy")
if torch.cuda.device_count() < 2:
    pytest.skip("needs two GPUs", allow_module_level=True)

DATA = np.random.default_rng(6).normal(size=(64, 96, 128)).astype("<f4")


@pytest.fixture(scope="module")
def array(tmp_path_factory):
    return headrace.open(stores.write(tmp_path_factory.mktemp("two") / "a", DATA, (4, 96, 128), compress=True))


def memory_on(device):
    with cupy.cuda.Device(device):
        return cupy.zeros(DATA.shape, "f4")


def on_host(out, device):
    with cupy.cuda.Device(device):
        return out.get()


@pytest.mark.parametrize("side", [False, True])
@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_any_current_stream(array, device, current, side):
    out = memory_on(device)
    with cupy.cuda.Device(current):
        with cupy.cuda.Stream(non_blocking=True) if side else cupy.cuda.Stream.null:
            array.read(out=out)
    assert np.array_equal(on_host(out, device), DATA)


@pytest.mark.parametrize("device", [0, 1])
def test_a_stream_of_the_other_gpu(array, device):
    """The read waits for the stream, whether the caller or an interface names it."""
    with cupy.cuda.Device(1 - device):
        stream = cupy.cuda.Stream(non_blocking=True)
    for named in (stream, stream.ptr):
        out = memory_on(device)
        array.read(out=out, stream=named)
        assert np.array_equal(on_host(out, device), DATA)
    out = memory_on(device)
    with cupy.cuda.Device(1 - device), stream:
        interface = dict(out.__cuda_array_interface__)
    array.read(out=types.SimpleNamespace(__cuda_array_interface__={**interface, "stream": stream.ptr}, owner=out))
    assert np.array_equal(on_host(out, device), DATA)


@pytest.mark.parametrize("device", [0, 1])
def test_an_interface_that_names_no_device(array, device, monkeypatch):
    out = memory_on(device)
    with cupy.cuda.Device(device):
        interface = out.__cuda_array_interface__
    seen = []
    monkeypatch.setattr(headrace._array, "device_of", lambda name, of=headrace._array.device_of: seen.append(name) or of(name))
    array.read(out=types.SimpleNamespace(__cuda_array_interface__=interface, owner=out))
    assert seen == [f"cuda:{device}"] and np.array_equal(on_host(out, device), DATA)
