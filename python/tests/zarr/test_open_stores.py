"""headrace.open accepts zarr-python stores and fsspec mappers that hold local files; for others the error says what to
use.
"""

import gc
import os
import pickle

import fsspec
import numpy as np
import pytest
import zarr
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ZipStore

import headrace
import headrace.zarr

DATA = np.arange(60, dtype="<i4").reshape(6, 10)


def write(store):
    group = zarr.open_group(store, mode="w", attributes={"title": "t"})
    group.create_array("x", data=DATA, chunks=(2, 5))
    group.create_array("below/y", data=DATA[0], chunks=(5,))
    return store


@pytest.fixture
def folder(tmp_path):
    return write(str(tmp_path / "data dir.zarr"))


def zipped(folder):
    with ZipStore(folder + ".zip", mode="w") as store:
        write(store)
    return folder + ".zip"


STORES = {
    "LocalStore": lambda folder: LocalStore(folder),
    "LocalStore, relative": lambda folder: LocalStore(os.path.relpath(folder)),
    "LocalStore, read-only": lambda folder: LocalStore(folder, read_only=True),
    "headrace.zarr.Store": lambda folder: headrace.zarr.Store(folder),
    "ZipStore": lambda folder: ZipStore(zipped(folder), mode="r"),
    "MemoryStore": lambda folder: write(MemoryStore()),
    "FsspecStore": lambda folder: FsspecStore.from_url("file://" + folder),
    "mapper": lambda folder: fsspec.get_mapper(folder),
    "mapper by URL": lambda folder: fsspec.get_mapper("file://" + folder),
}


@pytest.mark.parametrize("make", STORES.values(), ids=STORES)
def test_stores_over_local_objects(folder, make):
    store = make(folder)
    group = headrace.open(store)
    assert isinstance(group, headrace.Group) and group.attrs == {"title": "t"} and sorted(group) == ["below", "x"]
    assert np.array_equal(group["x"][:], DATA) and np.array_equal(group["below/y"][:], DATA[0])
    assert np.array_equal(headrace.open(store, "x")[2], DATA[2])
    assert np.array_equal(headrace.open_array(store, "below/y")[:], DATA[0])
    assert headrace.open_group(store, "below").keys() == ["y"]
    array = headrace.Array.from_document(store, "x", 3, (headrace.open(folder)._store.get("x/zarr.json") or b"").decode())
    assert np.array_equal(array[:], DATA)
    assert np.array_equal(pickle.loads(pickle.dumps(group["x"]))[:], DATA)


def test_a_memory_store_is_copied(folder):
    """A memory store is copied when it is opened; the copy lives as long as anything has it open."""
    store = write(MemoryStore())
    array = headrace.open(store)["x"]
    zarr.open_array(store, path="x")[...] = 0
    assert not headrace.open(store, "x")[:].any()
    del store
    gc.collect()
    assert np.array_equal(array[:], DATA)
    with pytest.raises(FileNotFoundError):
        headrace.open(MemoryStore())


class OwnStore(LocalStore):
    """A subclass, whose behaviour is unknown."""


REFUSED = {
    "a class of one's own": (lambda folder: OwnStore(folder), "OwnStore"),
    "a mapper of something else": (lambda folder: fsspec.get_mapper("memory://x"), "FSMap over MemoryFileSystem"),
    "a store of something else": (lambda folder: FsspecStore.from_url("memory://x"), "FsspecStore over"),
    "a wrapper": (lambda folder: zarr.storage.WrapperStore(LocalStore(folder)), "WrapperStore"),
    "a group of zarr's": (lambda folder: zarr.open_group(folder, mode="r"), "Group holds no local files: give the path or URL"),
    "a dictionary": (lambda folder: {}, "not a dict"),
    "None": (lambda folder: None, "not a NoneType"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_served_says_what_to_give(folder, case):
    make, says = REFUSED[case]
    for use in (headrace.open, headrace.open_array, headrace.open_group):
        with pytest.raises(headrace.InvalidArgumentError, match=says):
            use(make(folder))


def test_a_zip_file_that_is_still_written_to(folder):
    with ZipStore(folder + ".zip", mode="w") as store:
        write(store)
        with pytest.raises(headrace.InvalidArgumentError, match="open for writing.*close it, and give its path"):
            headrace.open(store)
    assert np.array_equal(headrace.open(folder + ".zip", "x")[:], DATA)
