"""headrace itself reads arrays in zarr's remote stores if it understands the store's options, and reads through the store
otherwise; the elements are the same.
"""

import contextlib
import gc
import http.server
import threading

import boto3
import headrace
import headrace.zarr
import numpy as np
import obstore.store
import pytest
import s3fs
import xarray as xr
import zarr
from headrace.zarr import _foreign, _native
from moto.server import ThreadedMotoServer
from zarr.storage import FsspecStore, ObjectStore
from zarr_support import OURS, pipeline

DATA = np.arange(60 * 80, dtype="<i4").reshape(60, 80)
SECRET = "planted/secret"


@pytest.fixture(scope="module")
def bucket(quick_moto):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client("s3", endpoint_url=url, aws_access_key_id="A", aws_secret_access_key=SECRET, region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    yield url, client
    server.stop()


@pytest.fixture
def served(bucket, tmp_path, monkeypatch):
    """A folder of arrays that the bucket holds as "some/data.zarr"."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    url, client = bucket
    folder = tmp_path / "data.zarr"
    group = zarr.open_group(str(folder), mode="w")
    group.create_array("x", data=DATA, chunks=(10, 20))
    group.create_array("sharded", data=DATA, chunks=(10, 20), shards=(30, 40))
    sparse = group.create_array("sparse", shape=DATA.shape, dtype="i4", chunks=(10, 20), fill_value=7)
    sparse[:25, :30] = DATA[:25, :30]
    for path in folder.rglob("*"):
        if path.is_file():
            client.put_object(Bucket="bucket", Key=f"some/data.zarr/{path.relative_to(folder)}", Body=path.read_bytes())
    return url, folder


@contextlib.contextmanager
def web(folder):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 256  # listen backlog: with the default of 5, a busy machine refuses concurrent connections

    server = Server(("127.0.0.1", 0), lambda *a: Quiet(*a, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def fsspec_s3(url, read_only=True, **more):
    options = {"key": "A", "secret": SECRET, "endpoint_url": url, "client_kwargs": {"region_name": "us-east-1"}, **more}
    return FsspecStore.from_url("s3://bucket/some/data.zarr", storage_options=options, read_only=read_only)


def obstore_s3(url, read_only=True, **more):
    options = {"aws_access_key_id": "A", "aws_secret_access_key": SECRET, "region": "us-east-1", "endpoint": url,
               "client_options": {"allow_http": True}, **more}
    return ObjectStore(obstore.store.S3Store("bucket", prefix="some/data.zarr", **options), read_only=read_only)


def check(store, monkeypatch, native, names=("x", "sharded", "sparse")):
    """Checks whether chunks are read natively or through the store, and that elements equal zarr's own."""
    fetched = []
    fetch = _foreign.fetch

    async def counted(batch):
        fetched.append(len(batch))
        return await fetch(batch)

    monkeypatch.setattr(_foreign, "fetch", counted)
    for name in names:
        wanted = zarr.open_array(store, path=name, mode="r")
        with pipeline(OURS):
            array = zarr.open_array(store, path=name, mode="r")
        for where in (slice(None), (slice(3, 27), slice(None, None, 3)), (5, 7), (slice(40, 60), slice(40, 80))):
            fetched.clear()
            np.testing.assert_array_equal(array[where], wanted[where])
            assert (fetched == []) == native, (name, where)


@pytest.mark.parametrize("make", [fsspec_s3, obstore_s3], ids=["s3fs", "obstore"])
def test_stores_of_s3_that_are_understood(served, monkeypatch, make):
    store = make(served[0])
    check(store, monkeypatch, native=True)
    address = _native.remote_location(store)
    assert SECRET not in repr(address) and address is _native.remote_location(store)
    np.testing.assert_array_equal(headrace.open(store)["x"][...], DATA)
    number = id(store)
    assert number in _native._addresses
    del store
    gc.collect()
    assert number not in _native._addresses, "the address is kept for as long as its store"


@pytest.mark.parametrize("make", [lambda url: fsspec_s3(url, version_aware=True),
                                  lambda url: obstore_s3(url, credential_provider=lambda: {
                                      "access_key_id": "A", "secret_access_key": SECRET, "expires_at": None}),
                                  lambda url: FsspecStore(type("Own", (s3fs.S3FileSystem,), {})(
                                      key="A", secret=SECRET, endpoint_url=url, asynchronous=True), path="bucket/some/data.zarr",
                                      read_only=True)],
                         ids=["an unknown option", "a provider", "a class of one's own"])
def test_stores_that_are_not_understood_are_asked_through_zarr(served, monkeypatch, make):
    store = make(served[0])
    assert _native.remote_location(store) is None
    check(store, monkeypatch, native=False, names=("x", "sparse"))


def test_web_servers(served, monkeypatch):
    """Python's server supports no ranges: whole chunks are read natively; parts of shards fail and are left to zarr."""
    _, folder = served
    with web(folder) as url:
        check(FsspecStore.from_url(url, read_only=True), monkeypatch, native=True, names=("x", "sparse"))
        check(ObjectStore(obstore.store.HTTPStore.from_url(url, client_options={"allow_http": True}), read_only=True), monkeypatch,
              native=True, names=("x", "sparse"))
        quiet = FsspecStore.from_url(url, storage_options={"headers": {"X-Token": SECRET}}, read_only=True)
        assert _native.remote_location(quiet) is not None
        assert SECRET not in repr(_native.remote_location(quiet))


@pytest.mark.parametrize("make", [fsspec_s3, obstore_s3])
def test_chunks_written_by_zarr_are_there_at_once(served, make):
    url, _ = served
    store = make(url, read_only=False)
    with pipeline(OURS):
        array = zarr.create_array(store, name=f"written_by_{make.__name__}", shape=(40, 20), dtype="i4", chunks=(10, 20), fill_value=7)
        for row in range(0, 40, 10):
            assert np.all(array[row : row + 10] == 7)
            array[row : row + 10] = row
            assert np.all(array[row : row + 10] == row)


def test_what_is_missing_is_said_to_be(served, monkeypatch):
    """Missing chunks are reported as missing, as by other pipelines."""
    store = fsspec_s3(served[0])
    said = []
    read = headrace.zarr.HeadracePipeline.read

    async def listened(self, *arguments, **named):
        result = await read(self, *arguments, **named)
        said.append([one["status"] for one in result])
        return result

    monkeypatch.setattr(headrace.zarr.HeadracePipeline, "read", listened)
    with pipeline(OURS):
        array = zarr.open_array(store, path="sparse", mode="r")
    assert array[0, 0] == 0 and array[59, 79] == 7
    array[20:40, 20:60]
    assert said[0] == ["present"] and said[1] == ["missing"] and sorted(said[2]) == ["missing"] * 3 + ["present"]


@pytest.mark.parametrize("make", [fsspec_s3, obstore_s3], ids=["s3fs", "obstore"])
def test_xarray_opens_them_with_their_options(served, make, tmp_path):
    url, _ = served
    dataset = xr.Dataset({"t": (("y", "x"), DATA)}, {"y": np.arange(60)})
    folder = tmp_path / "named.zarr"
    dataset.to_zarr(folder, zarr_format=3)
    client = boto3.client("s3", endpoint_url=url, aws_access_key_id="A", aws_secret_access_key=SECRET, region_name="us-east-1")
    for path in folder.rglob("*"):
        if path.is_file():
            client.put_object(Bucket="bucket", Key=f"some/data.zarr/named/{path.relative_to(folder)}", Body=path.read_bytes())
    store = make(url)
    with xr.open_dataset(store, engine="headrace", group="named") as opened:
        xr.testing.assert_identical(opened.load(), dataset)
        assert SECRET not in repr(opened)
    with pytest.raises(ValueError, match="given twice"):
        xr.open_dataset(store, engine="headrace", group="named", storage_options={"anon": True})
    unknown = fsspec_s3(url, version_aware=True)
    with pytest.raises((TypeError, ValueError), match="version_aware"):
        xr.open_dataset(unknown, engine="headrace", group="named")
