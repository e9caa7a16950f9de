"""Reads arrays with NumPy indexing, into new and existing tensors."""

import asyncio
import pickle
import threading

import native_stores as stores
import numpy as np
import pytest

import headrace

DATA = np.random.default_rng(1).integers(0, 1 << 30, (37, 41, 5)).astype("<i4")


@pytest.fixture
def array(tmp_path):
    return headrace.open(stores.write(tmp_path / "a", DATA, (10, 7, 5), compress=True, attributes={"units": "K"}))


SELECTIONS = [
    ..., (), slice(None), 3, -1, np.int64(2), slice(3, 30, 4), (slice(None), 2), (1, 2, 3), (Ellipsis, 0), (0, ..., -5),
    slice(-3, None), slice(100, 200), (slice(5, 5), 1), (np.uint8(3), slice(None, None, 2)),
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_basic_indexing_is_numpys(array, selection):
    got = array[selection]
    want = DATA[selection]
    assert got.dtype == want.dtype and got.shape == want.shape
    assert np.array_equal(got, want)
    assert isinstance(got, type(want))  # a scalar where NumPy returns one


TURNED = [
    slice(None, None, -1), slice(30, 3, -4), slice(3, 30, -1), slice(-1, -100, -3), slice(None, None, -100),
    (slice(None, None, -1), slice(None, None, -2), slice(None, None, -3)), (..., slice(None, None, -1)),
    (2, slice(None, None, np.int64(-1))), (slice(5, 5, -1), 1), slice(10**30, None, -(10**30)),
    None, (None,), (None, None), (..., None), (None, ..., None), (None, 3), (3, None), (slice(3, 9), None, slice(None, None, -1)),
    (0, None, ..., None, slice(None, None, -1)), (None, 1, 2, 3), (slice(5, 5), None), (np.int64(2), None, np.array(3))]


@pytest.mark.parametrize("selection", TURNED, ids=str)
def test_negative_steps_and_new_axes_are_numpys(tmp_path, selection):
    path = stores.write(tmp_path / "a", DATA, (10, 7, 5), compress=True)
    want = DATA[selection]
    for device in ("host", "host-staged"):
        array = headrace.open(path, device=device)
        assert np.array_equal(np.asarray(array[selection]), want) and array[selection].shape == want.shape
        assert np.array_equal(np.asarray(array.read_async(selection).result()), want)
        assert np.array_equal(np.asarray(array.read_many([0, selection])[1]), want)
    array = headrace.open(path)
    for out in (np.zeros(want.shape, "<i4"), np.zeros(want.shape[::-1], "<i4").T):
        assert array.read(selection, out=out) is out and np.array_equal(out, want)
    with pytest.raises(ValueError, match="shape"):
        array.read(selection, out=np.zeros((*want.shape, 2), "<i4"))


def test_new_axes_beside_lists(array):
    rows, mask = [5, 0, 5], np.arange(41) % 2 == 0
    assert np.array_equal(array[rows, None, mask, ::-1], DATA[rows][:, None, mask, ::-1])
    assert np.array_equal(array.oindex[None, ::-1, np.array([1, 2])], DATA[None, ::-1, [1, 2]])
    for wrong in (lambda: array.blocks[None], lambda: array.blocks[::-1], lambda: array.vindex[None, 0, 0, 0],
                  lambda: array.vindex[::-1, 0, 0]):
        with pytest.raises(IndexError):
            wrong()


INDICES = {
    "read-only": lambda values: _read_only(np.array(values)),
    "big-endian": lambda values: np.array(values, ">i8"),
    "both": lambda values: _read_only(np.array(values, ">i2")),
    "repeated": lambda values: np.broadcast_to(np.int64(values[0]), (len(values),)),
    "strided": lambda values: np.repeat(np.array(values, ">u4"), 2)[::2],
    "backwards": lambda values: _read_only(np.array(values[::-1])[::-1]),
}


def _read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("make", INDICES.values(), ids=INDICES)
def test_indices_are_looked_at_and_not_written_to(array, make):
    rows, columns, last = make([3, 36, 0]), make([40, 1, 1]), make([4, 0, 2])
    assert np.array_equal(array[rows], DATA[rows]) and np.array_equal(array.oindex[0, columns], DATA[0, columns])
    assert np.array_equal(array.read((rows, columns)), DATA[rows][:, columns])
    assert np.array_equal(array.vindex[rows, columns, last], DATA[rows, columns, last])
    mask = _read_only(np.arange(37) % 3 == 0)
    assert np.array_equal(array[mask], DATA[mask])
    assert np.array_equal(array.vindex[_read_only(DATA % 7 == 0)], DATA[DATA % 7 == 0])


@pytest.mark.parametrize("make", [INDICES["read-only"], INDICES["big-endian"]], ids=["read-only", "big-endian"])
def test_wrong_indices_of_such_arrays(array, make):
    for wrong in ([37, 0], [-38, 0]):
        with pytest.raises(IndexError):
            array[make(wrong)]
    with pytest.raises(IndexError):
        array[make([[1, 2]])]
    with pytest.raises(IndexError, match="integers or booleans"):
        array[np.array([1.5], ">f8")]


@pytest.mark.parametrize("dtype", [">f4", ">i8", np.dtype(">f8"), np.dtype("f4").newbyteorder(">")], ids=str)
def test_another_byte_order_is_refused(array, dtype):
    little = np.dtype(dtype).newbyteorder("<").str
    for read in (array.read, lambda **how: array.read_many([0], **how), lambda **how: array.read_async(**how)):
        with pytest.raises(ValueError, match=f"little-endian; ask for '{little}'"):
            read(dtype=dtype)
    assert array.read(dtype=little).dtype == np.dtype(little)


@pytest.mark.parametrize("rows", [[1, 5, 5, 0], [-1, -37], np.arange(0, 37, 3), np.arange(37) % 2 == 0, [], [True] * 37],
                         ids=str)
def test_lists_select_along_each_axis(array, rows):
    columns = [40, 0, 7]
    assert np.array_equal(array[rows, columns], DATA[rows if len(rows) else slice(0, 0)][:, columns])
    assert np.array_equal(array.oindex[rows, 1:3], DATA[rows if len(rows) else slice(0, 0)][:, 1:3])


def test_points_take_any_common_shape(array):
    rows, columns = np.array([[1, 2], [36, 0]]), np.array([[0], [40]])
    assert np.array_equal(array.vindex[rows, columns, 3], DATA[rows, columns, 3])
    mask = DATA % 7 == 0
    assert np.array_equal(array.vindex[mask], DATA[mask])
    assert array.vindex[1, 2, 3] == DATA[1, 2, 3]


def test_blocks_are_chunks(array):
    assert np.array_equal(array.blocks[1, 2], DATA[10:20, 14:21])
    assert np.array_equal(array.blocks[-1], DATA[30:])
    assert np.array_equal(array.blocks[0:2, 1:], DATA[:20, 7:])


@pytest.mark.parametrize(("selection", "error"), [
    (37, IndexError), (-38, IndexError), (slice(None, None, 0), ValueError),
    ((0, 0, 0, 0), IndexError), ((..., ...), IndexError), ((None, 0, 0, 0, 0), IndexError), ((..., None, ...), IndexError), ("x", IndexError), (1.5, IndexError),
    (True, IndexError), ([1.5], IndexError), ([[1, 2]], IndexError), ([True], IndexError), ([99], IndexError),
    (slice("a"), TypeError), (slice("a", None, -1), TypeError), (slice(None, None, "a"), TypeError), (10**30, IndexError), ({}, IndexError), (np.zeros((2, 2), bool), IndexError)], ids=str)
def test_what_no_array_has_is_an_index_error(array, selection, error):
    with pytest.raises(error):
        array[selection]
    assert np.array_equal(array[0], DATA[0])  # and causes no harm


def test_wrong_points_and_blocks(array):
    for wrong in [(1, 2), ([1, 2], [1, 2, 3], 0), (slice(None), 1, 2), ([99], 0, 0), np.zeros((2, 2), bool)]:
        with pytest.raises(IndexError):
            array.vindex[wrong]
    for wrong in [(99,), ([1, 2],), (slice(0, 4, 2),)]:
        with pytest.raises(IndexError):
            array.blocks[wrong]


def test_a_new_result_and_a_given_one(array):
    want = DATA[3:9, ::2]
    for out in [np.empty(want.shape, "<i4"), np.empty(want.shape[::-1], "<i4").T, np.empty((6, 42, 5), "<i4")[:, ::2],
                np.empty((12, 21, 5), "<i4")[::-2]]:
        assert array.read((slice(3, 9), slice(None, None, 2)), out=out) is out
        assert np.array_equal(out, want)
    flat = bytearray(want.nbytes)
    view = memoryview(flat).cast("i", want.shape)
    array.read((slice(3, 9), slice(None, None, 2)), out=view)
    assert bytes(flat) == np.ascontiguousarray(want).tobytes()


def test_wrong_outs_are_refused(array):
    read_only = np.empty(DATA.shape, "<i4")
    read_only.flags.writeable = False
    good = np.empty(DATA.shape, "<i4")
    for out, says in [(read_only, "read-only"), (np.empty((3,), "<i4"), "shape"), (good.astype("<f4"), "type float32"),
                      (good.astype(">i4"), "type >i4"), ("text", "tensor"), (object(), "tensor"), (b"x" * 10, "read-only")]:
        with pytest.raises((headrace.InvalidArgumentError, ValueError), match=says):
            array.read(out=out)
    with pytest.raises(ValueError, match="indexing"):
        array.read(indexing="fancy")
    with pytest.raises(ValueError, match="placement"):
        array.read(placement="moon")
    with pytest.raises(ValueError, match="verify"):
        array.read(verify="some")
    with pytest.raises(headrace.HeadraceError):
        array.read(device="tpu")
    with pytest.raises(headrace.HeadraceError):
        array.read(dtype="no_such_type")


def test_conversion_on_the_way(array):
    assert array.read(dtype="float64").dtype == np.float64
    assert np.array_equal(array.read(dtype="float64", scale=0.5, offset=1), DATA * 0.5 + 1)
    assert np.array_equal(array.read(dtype=np.int64), DATA)
    value = int(DATA[0, 0, 0])
    got = array.read(dtype="float64", fill=value)
    assert np.array_equal(np.isnan(got), DATA == value)
    with pytest.raises(ValueError, match="fill"):
        array.read(dtype="float64", fill=0.5)


def test_many_are_read_once(tmp_path):
    array = headrace.open(stores.write(tmp_path / "a", DATA, (10, 7, 5), compress=True))
    selections = [slice(0, 15), (slice(5, 25), 3), ..., 0, [36, 0, 36]]
    results, stats = array.read_many(selections, return_stats=True)
    for selection, result in zip(selections, results, strict=True):
        assert np.array_equal(result, DATA[selection])
    assert stats.chunks == array.chunk_count
    outs = [np.empty(result.shape, "<i4") for result in results]
    assert array.read_many(selections, out=outs) == outs
    assert all(np.array_equal(a, b) for a, b in zip(outs, results, strict=True))
    assert array.read_many([]) == []
    with pytest.raises(ValueError, match="outs for"):
        array.read_many([0, 1], out=outs[:1])


def test_chunks_of_several_shapes(tmp_path):
    data = np.arange(24 * 15, dtype="<i4").reshape(24, 15)
    array = headrace.open(stores.write_rectilinear(tmp_path / "a", data, ((1, 2, 3, 5, 13), (4, 11))))
    selections = [slice(0, 15), (slice(5, 24, 3), 3), ..., 0, [20, 0, 20]]
    for selection in selections:
        assert np.array_equal(array[selection], data[selection])
        assert np.array_equal(array.read_async(selection).result(), data[selection])
    results, stats = array.read_many(selections, return_stats=True)
    for selection, result in zip(selections, results, strict=True):
        assert np.array_equal(result, data[selection])
    assert stats.chunks == array.chunk_count == 10


def test_missing_chunks_are_filled(tmp_path):
    data = np.arange(30, dtype="<f8")
    array = headrace.open(stores.write(tmp_path / "a", data, (10,), fill=-1.5, skip=((1,),)))
    got, stats = array.read(return_stats=True)
    assert np.array_equal(got, np.where((np.arange(30) >= 10) & (np.arange(30) < 20), -1.5, data))
    assert (stats.missing_chunks, stats.chunks) == (1, 2)
    assert array.fill_value == -1.5


@pytest.mark.parametrize("dtype", ["?", "i1", "<u2", "<f2", "<c8", "<M8[ns]", "<m8[3D]", "S5", "<U3", "V7",
                                   [("a", "<i4"), ("b", "<f8", (2,))]], ids=str)
def test_types(tmp_path, dtype):
    dtype = np.dtype(dtype)
    data = np.frombuffer(np.random.default_rng(2).integers(0, 2, 60 * dtype.itemsize, np.uint8).tobytes(), dtype).copy()
    if dtype.kind == "U":
        data = np.array(["abc", "é", "", "日本"] * 15, dtype)
    array = headrace.open(stores.write(tmp_path / "a", data, (25,), fill=None))
    assert array.dtype == dtype
    got = array[7:50]
    assert got.dtype == dtype and got.tobytes() == data[7:50].tobytes()
    out = np.empty(43, dtype)
    array.read(slice(7, 50), out=out)
    assert out.tobytes() == data[7:50].tobytes()


def test_what_an_array_says_of_itself(array, tmp_path):
    assert (array.shape, array.ndim, array.size, array.nbytes, len(array)) == (DATA.shape, 3, DATA.size, DATA.nbytes, 37)
    assert (array.chunks, array.shards, array.dtype, array.codecs) == ((10, 7, 5), None, np.dtype("<i4"), ("gzip",))
    assert array.attrs == {"units": "K"} and array.metadata["chunks"] == [10, 7, 5]
    assert array.dims is None and array.zarr_format == 2 and array.url.endswith("/a")
    assert "shape=(37, 41, 5)" in repr(array) and "\n" not in repr(array)
    assert "<table>" in array._repr_html_() and "units" in array._repr_html_()
    assert np.array_equal(np.asarray(array), DATA)
    copies = [pickle.loads(pickle.dumps(array)),
              headrace.Array.from_document(tmp_path, "a", 2, (tmp_path / "a" / ".zarray").read_text())]
    copies.append(pickle.loads(pickle.dumps(copies[1])))
    for copy in copies:
        assert np.array_equal(copy[5], DATA[5])


def test_groups(tmp_path):
    stores.write_group(tmp_path / "g", {"title": "t"})
    stores.write_group(tmp_path / "g" / "sub")
    stores.write(tmp_path / "g" / "x", DATA, (10, 7, 5))
    stores.write(tmp_path / "g" / "sub" / "y", DATA[0], (41, 5))
    group = headrace.open(tmp_path / "g")
    assert isinstance(group, headrace.Group) and group.attrs == {"title": "t"}
    assert sorted(group) == ["sub", "x"] and len(group) == 2 and "x" in group and "nope" not in group
    assert np.array_equal(group["x"][0], DATA[0]) and np.array_equal(group["sub/y"][:], DATA[0])
    assert np.array_equal(group["sub"]["y"][:], DATA[0])
    assert [name for name, _ in group.arrays()] == ["x"] and [name for name, _ in group.groups()] == ["sub"]
    assert {member.path for member in group.members()} == {"sub", "sub/y", "x"}
    assert np.array_equal(pickle.loads(pickle.dumps(group))["x"][1], DATA[1])
    assert group.metadata("x")["shape"] == list(DATA.shape)
    assert "members" in repr(group) and "<table>" in group._repr_html_()
    with pytest.raises(KeyError):
        group["nope"]
    with pytest.raises(TypeError):
        group[0]


def test_wrong_paths(tmp_path):
    for wrong in [tmp_path / "nope", "memory://nothing-here"]:
        with pytest.raises(FileNotFoundError):
            headrace.open(wrong)
    with pytest.raises(headrace.HeadraceError, match="ftp"):
        headrace.open("ftp://host/x")
    with pytest.raises(ValueError, match="path or a URL"):
        headrace.open(7)
    with pytest.raises(ValueError, match="storage options"):
        headrace.open(tmp_path, storage_options={"key": "secret"})
    with pytest.raises(KeyError) as caught:
        headrace.open(stores.write_group(tmp_path / "g"))["a"]
    assert caught.value.code == "not found" and "a" in str(caught.value)


def test_damage_names_key_and_cause(tmp_path):
    path = stores.write(tmp_path / "a", DATA, (10, 7, 5), compress=True)
    chunk = path / "1.2.0"
    chunk.write_bytes(chunk.read_bytes()[:-20])
    array = headrace.open(path)
    with pytest.raises(headrace.CorruptError) as caught:
        array.read()
    assert caught.value.key.endswith("1.2.0") and "1.2.0" in str(caught.value) and caught.value.layer == "codec"
    assert np.array_equal(array[0], DATA[0])


def test_unsupported_codec_is_named(tmp_path):
    path = stores.write(tmp_path / "a", DATA, (10, 7, 5))
    document = (path / ".zarray").read_text().replace('"compressor": null', '"compressor": {"id": "blurb"}')
    (path / ".zarray").write_text(document)
    with pytest.raises(NotImplementedError, match="blurb"):
        headrace.open(path)


def test_async_reads(array):
    async def several():
        return await asyncio.gather(*(array.read_async(i) for i in range(10)))

    for i, result in enumerate(asyncio.run(several())):
        assert np.array_equal(result, DATA[i])
    future = array.read_async()
    assert np.array_equal(future.result(), DATA) and future.done()


def test_threads_share_an_array(array):
    failures = []

    def work(seed):
        random = np.random.default_rng(seed)
        for _ in range(100):
            begin, end = sorted(random.integers(0, 38, 2))
            if not np.array_equal(array[begin:end], DATA[begin:end]):
                failures.append((begin, end))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_progress(tmp_path):
    data = np.zeros((64, 1 << 16), "<f4")
    array = headrace.open(stores.write(tmp_path / "a", data, (1, 1 << 16)))
    seen = []
    array.read(progress=lambda done, total: seen.append((done, total)))
    assert all(total == 64 and 0 <= done <= 64 for done, total in seen)
    array.read(progress=True)  # no bar without a terminal



@pytest.mark.parametrize("elements", [1_000_000, 3_000_000], ids=["short", "long"])  # on the calling thread, or on another
def test_what_a_progress_function_raises_ends_the_read(tmp_path, elements):
    """An array of many small chunks, none stored: looking them up takes longer than the interval between two reports."""
    (tmp_path / ".zarray").write_text(
        '{"zarr_format":2,"shape":[%d],"chunks":[10],"dtype":"<f8","compressor":null,"fill_value":1,"order":"C","filters":null}'
        % elements)
    array = headrace.open(tmp_path)

    class Broken(Exception):
        pass

    def broken(done, total):
        raise Broken(f"{done} of {total}")

    with pytest.raises(Broken, match=f" of {elements // 10}"):
        array.read(progress=broken)
    with pytest.raises(Broken):
        array.read_async(progress=broken).result()
    assert (array.read() == 1).all()


def test_statistics(array):
    headrace.reset_stats()
    array.read()
    total = headrace.stats()
    assert total.decoded_bytes == DATA.nbytes and total.chunks == 4 * 6 and total.read_bytes >= total.stored_bytes > 0
    assert total.wall_seconds > 0 and total.path


def test_context_options():
    context = headrace.Context(threads=1, engine="threads")
    assert context.engine == "threads" and "threads" in repr(context)
    assert pickle.loads(pickle.dumps(context)).options == context.options
    with pytest.raises(ValueError, match="speed"):
        headrace.Context(speed=11)
    with pytest.raises(headrace.HeadraceError, match="warp"):
        headrace.Context(engine="warp")


def test_memory_store():
    store = headrace.memory_store("test-memory-store")
    document = ('{"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "order": "C", "filters": null, '
                '"fill_value": 0, "compressor": null}')
    store.put(".zarray", document.encode())
    store.put("0", np.arange(4, dtype=np.uint8))
    assert np.array_equal(headrace.open(store)[:], np.arange(4))
    assert store.get("0") == bytes(range(4)) and store.get("1") is None
    with pytest.raises(ValueError):
        store.put("../x", b"")


def test_strings_of_variable_length(tmp_path):
    items = ["a", "", "日本語", "x" * 300]
    path = stores.write_strings(tmp_path / "s", items)
    array = headrace.open(path)
    assert array.dtype == object and list(array[:]) == items and array[2] == items[2]
    with pytest.raises(ValueError):
        array.read(device="host-staged")
    # Not planned together, but counted as two reads.
    results, stats = array.read_many([slice(0, 2), 3], return_stats=True)
    assert [list(results[0]), results[1].item()] == [items[:2], items[3]]
    assert stats.chunks == 2
    assert array.read_many([], return_stats=True)[1].chunks == 0


def test_open_gives_what_is_there(tmp_path):
    root = stores.write_group(tmp_path / "a group")
    stores.write(root / "group", DATA, (10, 7, 5))
    assert isinstance(headrace.open(root), headrace.Group)
    array = headrace.open(root, "/group/", lenient="unknown-members")
    assert isinstance(array, headrace.Array) and array.path == "group"
    assert pickle.loads(pickle.dumps(array)).path == "group"
    # A group in the error message must not be mistaken for a group in the store.
    with pytest.raises(headrace.InvalidArgumentError, match="group"):
        headrace.open(root, "../group")
    (root / "group" / ".zarray").write_text("{}")
    with pytest.raises(headrace.CorruptError):
        headrace.open(root, "group")


def test_device_names_can_be_opened(array):
    names = headrace.device_names()
    assert names[:2] == ["host", "host-staged"]
    for name in names:
        read = array.read(0, device=name)
        assert np.array_equal(read if name == "host" else read.numpy(), DATA[0])


@pytest.mark.parametrize("text", [False, True])
def test_a_token_stops_all_reads_that_have_it(tmp_path, text):
    if text:
        array = headrace.open(stores.write_strings(tmp_path / "s", ["a"] * 50, repeat=200))
    else:
        array = headrace.open(stores.write(tmp_path / "a", DATA, (10, 7, 5)))
    token = headrace.Cancel()
    assert not token.asked()
    array.read(cancel=token)
    token.ask()
    assert token.asked()
    reads = [array.read, lambda **how: array.read(0, **how), lambda **how: array.read_many([0, 1], **how)]
    if not text:
        reads.append(lambda **how: array.read_async(**how).result())
    for read in reads:
        with pytest.raises(headrace.CancelledError):
            read(cancel=token)
    assert len(array.read(slice(0, 3))) == 3
    with pytest.raises(headrace.InvalidArgumentError, match="cancel is a bool"):
        array.read(0, cancel=True)


def test_parts_of_chunks(tmp_path):
    zarr = pytest.importorskip("zarr")
    numcodecs = pytest.importorskip("numcodecs")
    data = np.arange(4 * 600 * 500, dtype="<f4").reshape(4, 600, 500)
    stored = zarr.create_array(str(tmp_path / "a"), shape=data.shape, chunks=(1, 600, 500), dtype="<f4", zarr_format=2,
                               compressors=numcodecs.Blosc("lz4", 5, 1))
    stored[:] = data
    array = headrace.open(tmp_path / "a")
    part, stats = array.read((slice(None), slice(300, 340)), return_stats=True)
    np.testing.assert_array_equal(np.asarray(part), data[:, 300:340])
    assert stats.skipped_bytes > data.nbytes // 3  # blocks of a quarter of a chunk
    whole, stats = array.read((slice(None), slice(300, 340)), verify="whole", return_stats=True)
    np.testing.assert_array_equal(np.asarray(whole), data[:, 300:340])
    assert stats.skipped_bytes == 0
