"""Synchronisation when tensors pass between headrace and torch."""

import time

import numpy as np
import pytest
import torch

import headrace


def test_a_consumer_on_its_own_stream_sees_finished_elements(array, data):
    side = torch.cuda.Stream()
    for _ in range(20):
        tensor = array.read()
        with torch.cuda.stream(side):
            total = torch.from_dlpack(tensor).double().sum()
        assert abs(float(total) - float(data.astype("f8").sum())) < 1e-3


def test_a_read_starts_after_what_is_queued_on_the_owners_stream(array, data, busy):
    side = torch.cuda.Stream()
    out = torch.empty(data.shape, device="cuda")
    for stream in (torch.cuda.current_stream(), side):
        for _ in range(5):
            with torch.cuda.stream(stream):
                busy()
                out.fill_(-1)  # queued, not yet executed
                array.read(out=out)
                assert np.array_equal(out.cpu().numpy(), data)


def test_a_stream_that_is_named(array, data, busy):
    side = torch.cuda.Stream()
    out = torch.empty(data.shape, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        busy()
        out.fill_(-1)
    array.read(out=out, stream=side)  # torch's current stream is a different one
    torch.cuda.synchronize()
    assert np.array_equal(out.cpu().numpy(), data)
    array.read(out=out, stream=side.cuda_stream)
    with pytest.raises(ValueError, match="stream"):
        array.read(out=out, stream="side")


def test_memory_is_not_taken_away_under_a_kernel(array, data, busy):
    side = torch.cuda.Stream()
    want = data.astype("f8").sum()
    for _ in range(10):
        tensor = array.read()
        with torch.cuda.stream(side):
            shared = torch.from_dlpack(tensor)
            busy()
            total = shared.double().sum()
        del shared, tensor  # the kernel has not run yet
        others = [array.read(slice(0, 32), dtype="float32", scale=0.0) for _ in range(4)]
        assert abs(float(total) - want) < 1e-3
        del others


def test_minus_one_waits_for_nothing(array, busy):
    tensor = array.read()
    torch.cuda.synchronize()
    busy(300)
    begin = time.perf_counter()
    tensor.__dlpack__(stream=-1, max_version=(1, 0))
    assert time.perf_counter() - begin < 0.05
    torch.cuda.synchronize()
    with pytest.raises(BufferError):
        tensor.__dlpack__(stream=0)


def test_from_dlpack_under_a_side_stream(array, data):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        shared = torch.from_dlpack(array.read(slice(3, 40)))
        assert np.array_equal(shared.cpu().numpy(), data[3:40])


def test_cuda_array_interface(array, data):
    tensor = array.read()
    interface = tensor.__cuda_array_interface__
    assert interface["shape"] == data.shape and interface["typestr"] == "<f4" and interface["version"] == 3
    shared = torch.as_tensor(tensor, device="cuda")
    assert shared.data_ptr() == tensor.pointer and np.array_equal(shared.cpu().numpy(), data)


def test_any_strides_and_types(array, data):
    out = torch.empty((128, 64, 96), device="cuda").permute(1, 2, 0)
    array.read(out=out)
    assert np.array_equal(out.cpu().numpy(), data)
    sliced = torch.zeros((64, 96, 256), device="cuda")[:, :, ::2]
    array.read(out=sliced)
    assert np.array_equal(sliced.cpu().numpy(), data)
    half = torch.empty(data.shape, device="cuda", dtype=torch.bfloat16)
    array.read(out=half, dtype=torch.bfloat16)
    assert torch.equal(half, torch.from_numpy(data).cuda().to(torch.bfloat16))
    for wrong in (torch.empty(data.shape, device="cuda", dtype=torch.float64), torch.empty((3,), device="cuda"),
                  torch.empty(data.shape, device="cuda", requires_grad=True)):
        with pytest.raises(ValueError):
            array.read(out=wrong)


def test_read_many_into_tensors(array, data):
    selections = [slice(0, 10), slice(5, 25), (slice(None), 3)]
    outs = [torch.empty(data[selection].shape, device="cuda") for selection in selections]
    array.read_many(selections, out=outs)
    for selection, out in zip(selections, outs, strict=True):
        assert np.array_equal(out.cpu().numpy(), data[selection])


def test_files(tmp_path, data):
    tensor = torch.from_numpy(data).cuda()
    with headrace.File(tmp_path / "f", "w+") as file:
        assert file.write(tensor) == data.nbytes
        back = torch.zeros_like(tensor)
        assert file.read(back) == data.nbytes and torch.equal(back, tensor)
        back.zero_()
        assert file.pread(back).get() == data.nbytes and torch.equal(back, tensor)


def test_too_large_for_the_device(tmp_path):
    import native_stores as stores

    huge = stores.write(tmp_path / "h", np.zeros((1, 1), "<f4"), (1, 1))
    text = (huge / ".zarray").read_text().replace('"shape": [1, 1]', '"shape": [4000000, 4000000]')
    (huge / ".zarray").write_text(text.replace('"chunks": [1, 1]', '"chunks": [1000, 1000]'))
    with pytest.raises(MemoryError):
        headrace.open(huge, device="cuda").read()
    assert torch.zeros(10, device="cuda").sum() == 0  # the device still works


def test_a_thousand_cycles_leave_nothing_on_the_device(array):
    def used():
        free, total = torch.cuda.mem_get_info()
        return total - free

    for _ in range(50):
        array.read(slice(0, 8))
    before = used()
    for _ in range(1000):
        torch.from_dlpack(array.read(slice(0, 8)))
    assert used() - before <= 4 << 20
