"""The caller's own stores: objects with get_ranges()."""

import gc
import pickle
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest
import zarr

import headrace


class Ranges:
    """Objects in memory; records requests."""

    def __init__(self, objects):
        self.objects = dict(objects)
        self.calls = []
        self.under_way = self.max_under_way = 0
        self._lock = threading.Lock()
        self.seconds = 0.0

    def get_ranges(self, key, ranges):
        with self._lock:
            self.calls.append((key, ranges))
            self.under_way += 1
            self.max_under_way = max(self.max_under_way, self.under_way)
        time.sleep(self.seconds)
        try:
            value = self.objects[key]
            return [value[offset:] if offset < 0 else value[offset:offset + length] for offset, length in ranges]
        finally:
            with self._lock:
                self.under_way -= 1


class Listing(Ranges):
    url = "test://listing"

    def list(self, prefix):
        start = f"{prefix}/" if prefix else ""
        below = [key[len(start):].partition("/") for key in self.objects if key.startswith(start)]
        if not below:
            raise FileNotFoundError(prefix)
        return {name + slash for name, slash, _ in below}

    def get_size(self, key):
        return len(self.objects[key])

    def put(self, key, value):
        self.objects[key] = value


VALUES = np.arange(100 * 60, dtype="float32").reshape(100, 60)


def objects(**options):
    """The objects that zarr writes for VALUES, by key."""
    store = zarr.storage.MemoryStore()
    group = zarr.create_group(store, zarr_format=options.get("zarr_format", 3))
    group.create_array("a", data=VALUES, chunks=(10, 20), **{k: v for k, v in options.items() if k != "zarr_format"})
    return {key: value.to_bytes() for key, value in store._store_dict.items()}


@pytest.mark.parametrize("kind", [Ranges, Listing])
@pytest.mark.parametrize("options", [{}, {"zarr_format": 2}, {"shards": (50, 60)}, {"compressors": None}])
def test_reads_what_is_there(kind, options):
    store = kind(objects(**options))
    array = headrace.open(store)["a"]
    np.testing.assert_array_equal(array[...], VALUES)
    np.testing.assert_array_equal(array[3:90:7, 50], VALUES[3:90:7, 50])
    assert all(0 < length and (offset >= 0 or offset == -length) for _, ranges in store.calls for offset, length in ranges)


def test_what_is_not_there_is_the_fill_value():
    stored = objects(fill_value=7)
    del stored["a/c/3/1"]
    expected = VALUES.copy()
    expected[30:40, 20:40] = 7
    np.testing.assert_array_equal(headrace.open(Ranges(stored), "a")[...], expected)
    with pytest.raises(headrace.NotFoundError):
        headrace.open(Ranges({}), "a")


def test_calls_are_made_at_a_time():
    store = Ranges(objects())
    array = headrace.open(store, "a")
    store.seconds = 0.02
    np.testing.assert_array_equal(array[...], VALUES)
    assert store.max_under_way >= 8


@pytest.mark.parametrize(("advice", "ranges"), [({}, 1), ({"gap_bytes": 0}, 5), ({"gap_bytes": None}, 1), ({"gap_bytes": 1600}, 3),
                                                ({"gap_bytes": 1599}, 5), ({"group_bytes": 800}, 10),
                                                ({"gap_bytes": 2**64 - 1, "group_bytes": 2**64 - 1, "window_bytes": 2**64 - 1}, 1)])
def test_ranges_are_asked_for_as_is_best(advice, ranges):
    """A column of ten chunks of 800 bytes. zarr stores them in pairs, at least 1600 bytes apart."""
    store = Listing(objects(shards=(100, 60), compressors=None))
    for name, value in advice.items():
        setattr(store, name, value)
    array = headrace.open(store, "a")
    array[0, 0]
    store.calls.clear()
    np.testing.assert_array_equal(array[:, :20], VALUES[:, :20])
    assert sum(0 <= offset < VALUES.nbytes for _, some in store.calls for offset, _ in some) == ranges, store.calls


@pytest.mark.parametrize("wrong", ["1M", -1, 2**64, 1.5])
def test_advice_is_a_number_of_bytes(wrong):
    store = Ranges(objects())
    store.group_bytes = wrong
    with pytest.raises(TypeError, match="group_bytes of a store is a number of bytes"):
        headrace.open(store, "a")


def test_lists_and_puts():
    store = Listing(objects())
    group = headrace.open(store)
    assert [member.path for member in group.members()] == ["a"]
    assert group["a"].stored_chunks() is not None
    stored = objects()
    assert isinstance(headrace.open(Ranges(stored)), headrace.Group)


class Failing(Ranges):
    def __init__(self, objects, fail):
        super().__init__(objects)
        self.fail = fail

    def get_ranges(self, key, ranges):
        if "/c/" in key:
            return self.fail(super().get_ranges(key, ranges))
        return super().get_ranges(key, ranges)


def raising(error):
    def fail(_):
        raise error
    return fail


@pytest.mark.parametrize(("fail", "error", "text"), [
    (raising(ValueError("planted")), headrace.StorageError, "ValueError: planted"),
    (raising(PermissionError("planted")), headrace.PermissionError, "planted"),
    (raising(TimeoutError("planted")), headrace.TimeoutError, "planted"),
    (lambda parts: parts[:-1], headrace.StorageError, "parts of"),
    (lambda _: None, headrace.StorageError, "TypeError"),
    (lambda parts: ["text" for _ in parts], headrace.StorageError, "TypeError"),
    (lambda parts: [part + b"more" * 10000000 for part in parts], headrace.StorageError, "more bytes than were requested"),
    (lambda parts: [part[:-1] for part in parts], headrace.HeadraceError, ""),
])
def test_what_goes_wrong_is_said(fail, error, text):
    store = Failing(objects(), fail)
    array = headrace.open(store, "a")
    with pytest.raises(error) as caught:
        array[...]
    assert text in str(caught.value)
    assert caught.value.key.startswith("a/c/")
    store.fail = lambda parts: parts
    np.testing.assert_array_equal(array[...], VALUES)


def test_views_of_memory_and_generators_will_do():
    class Views(Ranges):
        def get_ranges(self, key, ranges):
            return (memoryview(bytearray(part)) for part in super().get_ranges(key, ranges))

    np.testing.assert_array_equal(headrace.open(Views(objects()), "a")[...], VALUES)


def test_is_kept_as_long_as_something_uses_it():
    store = Ranges(objects())
    kept = weakref.ref(store)
    array = headrace.open(store, "a")
    del store
    gc.collect()
    np.testing.assert_array_equal(array[0], VALUES[0])
    del array
    gc.collect()
    assert kept() is None


class Picklable(Ranges):
    def __reduce__(self):
        return Picklable, (self.objects,)


def test_pickles_with_its_store():
    array = pickle.loads(pickle.dumps(headrace.open(Picklable(objects()), "a")))
    np.testing.assert_array_equal(array[...], VALUES)


def test_is_named_in_errors():
    stored = objects()
    stored["a/c/0/0"] = b"no chunk"
    with pytest.raises(headrace.HeadraceError, match="test://listing"):
        headrace.open(Listing(stored), "a")[...]


def test_over_a_file_system_of_fsspec():
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for key, value in objects(shards=(50, 60)).items():
        files.pipe_file(f"/own-stores/{key}", value)

    class Files:
        def get_ranges(self, key, ranges):
            path = f"/own-stores/{key}"
            return [files.cat_file(path, offset, None if offset < 0 else offset + length) for offset, length in ranges]

    np.testing.assert_array_equal(headrace.open(Files(), "a")[...], VALUES)


# The interpreter exits while a request is running, and while threads of the store wait.
def test_the_end_of_the_interpreter():
    program = """
import threading, time, headrace
class Slow:
    def get_ranges(self, key, ranges):
        if key == ".zarray":
            return [b'{"zarr_format": 2, "shape": [40], "chunks": [1], "dtype": "|u1", "compressor": null,'
                    b' "fill_value": 0, "filters": null, "order": "C"}'[o:o + n] for o, n in ranges]
        if not key.isdigit():
            raise KeyError(key)
        time.sleep(0.3)
        return [b"x" for _ in ranges]
array = headrace.open(Slow())
threading.Thread(target=lambda: array[...], daemon=True).start()
time.sleep(0.1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()


def test_what_is_no_store_is_refused():
    with pytest.raises(headrace.InvalidArgumentError, match="get_ranges"):
        headrace.open(object())
