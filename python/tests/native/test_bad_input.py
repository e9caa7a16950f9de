"""Errors are raised at the faulty call, with the class that users would catch, and say what to do."""

import copy
import pickle

import native_stores as stores
import numpy as np
import pytest

import headrace

DATA = np.arange(40 * 50, dtype="<f4").reshape(40, 50)
ERRORS = [getattr(headrace, name) for name in headrace.__all__ if name.endswith("Error")]


@pytest.fixture
def group(tmp_path):
    stores.write_group(tmp_path / "g")
    stores.write(tmp_path / "g" / "v", DATA, (10, 25), compress=True)
    stores.write_strings(tmp_path / "g" / "s", ["a", "b"])
    return headrace.open(tmp_path / "g")


# The exceptions


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_exceptions_travel(error):
    """Exceptions can be pickled, also by picklers that call the class's __new__, such as dask's."""
    made = error("says why")
    made.key, made.offset = "c/0", 7
    again = error.__new__(error, "says why")
    again.__dict__.update(made.__dict__)
    for one in (again, copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert type(one) is error and (one.key, one.offset, one.code) == ("c/0", 7, error.code)
        assert str(one).startswith("says why")


def test_each_class_has_its_code():
    codes = {error.code for error in ERRORS if error is not headrace.HeadraceError}
    assert len(codes) == len(ERRORS) - 1 and "not found" in codes and None not in codes
    with pytest.raises(headrace.InvalidArgumentError) as caught:
        headrace.open(7)
    assert caught.value.code == "invalid argument"


READS = {
    "read": lambda array: array.read(),
    "index": lambda array: array[...],
    "read_many": lambda array: array.read_many([0, ...]),
    "future": lambda array: array.read_async().result(),
    "points": lambda array: array.vindex[[29], [49]],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_damage_names_store_and_key(group, tmp_path, read):
    chunk = tmp_path / "g" / "v" / "2.1"
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(headrace.CorruptError) as caught:
        read(group["v"])
    error = caught.value
    assert (error.store, error.key) == (group.url, "v/2.1")
    assert group.url in str(error) and "v/2.1" in str(error) and "gzip" in str(error)


def test_bad_metadata_names_store_and_key(tmp_path):
    stores.write_group(tmp_path / "g")
    (tmp_path / "g" / "v").mkdir()
    (tmp_path / "g" / "v" / ".zarray").write_text("{not json")
    group = headrace.open(tmp_path / "g")
    for open_it in (lambda: group["v"], lambda: headrace.open(tmp_path / "g", "v"),
                    lambda: headrace.open_array(tmp_path / "g", "v")):
        with pytest.raises(headrace.CorruptError, match="line 1, column 3") as caught:
            open_it()
        assert (caught.value.store, caught.value.key) == (group.url, "v/.zarray") and group.url in str(caught.value)


# Arguments


def test_devices_are_looked_at_when_opening(group, tmp_path):
    path = tmp_path / "g"
    for open_it in (headrace.open, headrace.open_group):
        with pytest.raises(ValueError, match="no device kind 'tpu'"):
            open_it(path, device="tpu")
    with pytest.raises(headrace.HeadraceError):
        headrace.open(path, "v", device="cuda:77")
    assert headrace.open(path, "v", device="host-staged").device == "host-staged"


def test_memory_on_a_gpu_that_is_not_there(group, tmp_path):
    if "cuda:0" in headrace.device_names():
        pytest.skip("there is a GPU")

    class OnDevice:
        __cuda_array_interface__ = {"shape": (40, 50), "typestr": "<f4", "data": (1 << 20, False), "version": 3}

    (tmp_path / "f").write_bytes(bytes(8000))
    file = headrace.File(tmp_path / "f", "r+")
    for use in (lambda out: group["v"].read(out=out), lambda out: group["v"].read_many([...], out=[out]),
                lambda out: group["v"].read_async(out=out).result(), file.read, lambda out: file.pread(out).get(), file.write,
                file.read_into):
        with pytest.raises(headrace.UnsupportedError, match="CUDA"):
            use(OnDevice())


@pytest.mark.parametrize(("options", "says"), [
    ({"indexing": "fancy"}, "indexing='fancy' is invalid; choose one of orthogonal"),
    ({"placement": "moon"}, "placement='moon' is invalid; choose one of auto"),
    ({"scale": "x"}, "could not convert"), ({"offset": "x"}, "could not convert"),
    ({"fill": "x"}, "fill='x' is not representable as float32"), ({"fill": [1, 2]}, "not representable"),
    ({"dtype": "nope"}, "nope"), ({"dtype": "i4", "fill_as_nan": True}, "int32 has no NaN"),
    ({"progress": 3}, "progress is a int"), ({"stream": "x"}, "stream"), ({"stream": -1}, "not a CUDA stream")], ids=str)
def test_wrong_options_of_reads(group, options, says):
    array = group["v"]
    for read in (array.read, lambda **how: array.read_many([0], **how), lambda **how: array.read_async(**how).result()):
        with pytest.raises(ValueError, match=says):
            read(**options)


def test_wrong_batches(group):
    array = group["v"]
    with pytest.raises(TypeError, match="list of selections, not int"):
        array.read_many(0)
    for of in (array, group["s"]):
        with pytest.raises(ValueError, match="1 outs for 2 selections"):
            of.read_many([0, 1], out=[np.empty(50, "f4")])
    with pytest.raises(IndexError, match="index 40 is out of range"):
        array.read_many([0, 40])


def test_what_strings_do_not_take(group):
    array = group["s"]
    for options in ({"dtype": "f4"}, {"scale": 2.0}, {"fill": "a"}, {"fill_as_nan": True}):
        with pytest.raises(ValueError, match="not converted"):
            array.read(**options)
    for wrong in (np.empty(2), np.empty(3, object), [None, None]):
        with pytest.raises(ValueError, match=r"array of objects with shape \(2,\)"):
            array.read(out=wrong)
    with pytest.raises(ValueError, match="indexing='fancy'"):
        array.read(indexing="fancy")
    with pytest.raises(ValueError, match="read_async|blocks"):
        array.read_async()
    with pytest.raises(IndexError):
        array[2]
    out = np.empty(2, object)
    seen = []
    assert array.read(out=out, progress=lambda *done: seen.append(done)) is out and list(out) == ["a", "b"]


def test_wrong_options_of_opening(tmp_path, group):
    with pytest.raises(headrace.UnsupportedError, match="'ftp'.*headrace.zarr.enable"):  # rather than "the store takes no options"
        headrace.open("ftp://bucket/key", storage_options={"anon": True})
    with pytest.raises(ValueError, match="no storage option 'anonn': 'anon' is the nearest"):
        headrace.open("s3://bucket/key", storage_options={"anonn": True})
    with pytest.raises(ValueError, match="takes no storage options but those of the cache"):
        headrace.open(tmp_path / "g", storage_options={"anon": True})
    for wrong, said in (([1], "mapping"), ({1: 2}, "type int"), ({"key": b"x"}, "'key' is of type bytes"), ({"key": object()}, "object"),
                        ({"client_kwargs": {"auth": ("me", "planted")}}, "'client_kwargs.auth' is of type tuple")):
        with pytest.raises(ValueError, match=said) as caught:
            headrace.open("s3://bucket/key", storage_options=wrong)
        assert "planted" not in str(caught.value)
    endless = {}
    endless["x"] = endless
    with pytest.raises(ValueError, match="nested"):
        headrace.open("s3://bucket/key", storage_options=endless)
    with pytest.raises(ValueError, match="MemoryStore"):
        headrace.open(headrace.MemoryStore("x"), storage_options={"anon": True})
    for use in (lambda: headrace.open(tmp_path / "g", context=3), lambda: headrace.File(tmp_path / "f", "w", context=3),
                lambda: headrace.MemoryStore("x", context=3)):
        with pytest.raises(ValueError, match="context is a int"):
            use()
    with pytest.raises(ValueError, match="unknown leniency 'zzz'"):
        headrace.open(tmp_path / "g", lenient="zzz")


@pytest.mark.parametrize("options", [{"threads": -1}, {"threads": "a"}, {"threads": 1.5}, {"host_budget_bytes": None},
                                     {"waves": True}, {"engine": 3}, {"allow_direct": 1}, {"threads": 100_000}], ids=str)
def test_wrong_options_of_contexts(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        headrace.Context(**options)


def test_statistics_of_a_read_that_goes_on(group):
    future = group["v"].read_async()
    with pytest.raises(ValueError, match="result"):
        future.stats  # noqa: B018
    assert np.array_equal(future.result(), DATA) and future.stats.chunks == 8
    assert future.result() is future.result()


def test_masked_outs(group):
    with pytest.raises(ValueError, match="out has a mask"):
        group["v"].read(out=np.ma.masked_array(np.zeros_like(DATA), mask=DATA > 3))


# Files


def test_wrong_uses_of_files(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(100))
    for flags in ("", "x", "rw", 0, None):
        with pytest.raises(ValueError, match="flags"):
            headrace.File(path, flags)
    with pytest.raises(ValueError, match="via='magic' is invalid; choose one of auto, direct"):
        headrace.File(path, via="magic")
    file = headrace.File(path)
    with pytest.raises(TypeError, match="integer"):
        file.read(np.empty(4, "u1"), size=1.5)
    with pytest.raises(ValueError, match="tensor is a str"):
        file.read("abcd")
    with pytest.raises(ValueError, match="tensor is read-only"):
        file.pread(b"abcd")
    with pytest.raises(headrace.ShortReadError) as caught:
        file.read_into(np.empty(60, "u1"), file_offset=50)
    assert isinstance(caught.value, EOFError)
    assert (caught.value.key, caught.value.offset, caught.value.length) == (str(path), 50, 50)
    with pytest.raises(ValueError, match=r"opened for reading; open it with flags='r\+'"):
        file.pwrite(np.empty(4, "u1")).get()


def test_what_is_read_only_can_be_written(tmp_path):
    fixed = np.arange(100, dtype="u1")
    fixed.flags.writeable = False
    with headrace.File(tmp_path / "f", "w+") as file:
        assert file.write(fixed) == 100 and file.pwrite(b"abc", file_offset=100).get() == 3
        assert file.write(memoryview(b"de"), file_offset=103) == 2
    assert (tmp_path / "f").read_bytes() == fixed.tobytes() + b"abcde"


# Representations


def test_representations(group, tmp_path):
    (tmp_path / "f").write_bytes(b"x")
    array = group["v"]
    future, transfer = array.read_async(), headrace.File(tmp_path / "f").pread(np.empty(1, "u1"))
    future.result(), transfer.get()
    shown = [future, transfer, headrace.memory_store("shown"), array.read(return_stats=True)[1], headrace.stats(),
             headrace.default_context(), group, array]
    for one in shown:
        assert repr(one).startswith("headrace.") and " object at 0x" not in repr(one), repr(one)
    assert "chunks=8, " in repr(shown[3]) and "path=" in repr(shown[3]) and "missing" not in repr(shown[3])
