"""Stores by URL: reads from moto's S3 equal reads from disk, and no output contains a secret."""

import hashlib
import http.server
import io
import json
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import threading
import zipfile

import headrace
import numpy as np
import pytest

# Machines with a GPU may lack these packages.
boto3 = pytest.importorskip("boto3")
zarr = pytest.importorskip("zarr", minversion="3.1")
ThreadedMotoServer = pytest.importorskip("moto.server").ThreadedMotoServer

DATA = pathlib.Path(__file__).resolve().parents[3] / "tests" / "data" / "climate"
COMMAND = os.environ.get("HEADRACE_BIN_DIR", str(pathlib.Path(headrace.__file__).parent)) + "/headrace"
SECRETS = {"AWS_ACCESS_KEY_ID": "AKIDPLANTED", "AWS_SECRET_ACCESS_KEY": "secret/planted+key", "AWS_SESSION_TOKEN": "token-planted"}


@pytest.fixture(scope="module")
def moto(quick_moto):
    """A server with a bucket that holds climate-v2.zarr as "c" for all tests."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    client = boto3.client("s3", endpoint_url=url, aws_access_key_id="A", aws_secret_access_key="B", region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    upload(client, DATA / "climate-v2.zarr", "c")
    yield url
    server.stop()


@pytest.fixture
def s3(moto, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    for name in [name for name in os.environ if name.startswith("AWS_") and name != "AWS_ENDPOINT_URL"]:
        monkeypatch.delenv(name)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    client = boto3.client("s3", endpoint_url=moto)
    yield client
    things = [{"Key": thing["Key"]} for thing in client.list_objects_v2(Bucket="bucket")["Contents"] if not thing["Key"].startswith("c/")]
    if things:
        client.delete_objects(Bucket="bucket", Delete={"Objects": things})


def upload(client, folder, prefix):
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            client.put_object(Bucket="bucket", Key=f"{prefix}/{path.relative_to(folder)}", Body=path.read_bytes())


@pytest.mark.parametrize(("name", "member"), [("climate-v2.zarr", "air_temperature"), ("climate-v3.zarr", "surface_temperature")])
@pytest.mark.parametrize("consolidated", [True, False])
def test_a_bucket_is_the_folder(s3, name, member, consolidated):
    upload(s3, DATA / name, "some where/+é")
    here, there = headrace.open(DATA / name), headrace.open("s3://bucket/some where/+é", consolidated=consolidated)
    assert sorted(there.keys()) == sorted(here.keys()) != []
    for key in here.keys():
        np.testing.assert_array_equal(there[key][...], here[key][...])
    part = (slice(3, 9), 5, slice(None, None, 7))
    np.testing.assert_array_equal(headrace.open(f"s3://bucket/some where/+é/{member}")[part], here[member][part])


@pytest.mark.parametrize("shards", [None, (40, 30)])
def test_missing_chunks_and_shards(s3, tmp_path, shards):
    data = np.arange(100 * 90, dtype="u4").reshape(100, 90)
    array = zarr.create_array(str(tmp_path / "a"), shape=data.shape, chunks=(10, 10), shards=shards, dtype="u4", fill_value=7)
    array[:60, :60] = data[:60, :60]
    upload(s3, tmp_path / "a", "a")
    wanted = array[...]
    there = headrace.open("s3://bucket/a")
    np.testing.assert_array_equal(there[...], wanted)
    np.testing.assert_array_equal(there[17:43, 55:70], wanted[17:43, 55:70])
    again = pickle.loads(pickle.dumps(there))
    np.testing.assert_array_equal(again[55:], wanted[55:])


@pytest.mark.parametrize(("device", "caches"), [("host", {"host_cache_bytes": 1 << 28}), ("host-staged", {"host_cache_bytes": 1 << 28}),
                                                ("host-staged", {"cache_bytes": 1 << 28})])
def test_later_epochs_of_a_loader_ask_for_nothing(s3, device, caches):
    array = headrace.open("s3://bucket/c/air_temperature")
    wanted = array[...]
    loader = headrace.Loader(array, input_dims={"time": 1}, shuffle="full", seed=3, device=device, **caches)
    asked = []
    for _ in range(4):
        total = sum(float(np.from_dlpack(batch["air_temperature"]).astype("f8").sum()) for batch in loader) if device == "host" else len(list(loader))
        asked.append(loader.stats["reads"].store_bytes)
    assert asked[0] > 0 and asked[3] == asked[2]
    assert (loader.stats["host_kept_bytes"] > 0) == ("host_cache_bytes" in caches)
    if device == "host":
        assert total == pytest.approx(float(wanted.astype("f8").sum()))


def test_what_is_not_there_is_told_from_what_cannot_be_read(s3, monkeypatch):
    with pytest.raises(FileNotFoundError):
        headrace.open("s3://bucket/nothing")
    with pytest.raises(OSError, match="no such bucket") as caught:
        headrace.open("s3://no-such-bucket/x")
    assert not isinstance(caught.value, FileNotFoundError)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", "/nonexistent")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(headrace.HeadraceError, match="AWS_NO_SIGN_REQUEST"):
        headrace.open("s3://bucket/c")


def test_a_profile_says_who_asks_and_where(s3, moto, tmp_path, monkeypatch):
    (tmp_path / "config").write_text(f"[profile lab]\nendpoint_url = {moto}\nregion = us-east-1\n")
    (tmp_path / "credentials").write_text("[lab]\naws_access_key_id = A\naws_secret_access_key = B\n")
    for name in (*SECRETS, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    assert headrace.open("s3://bucket/c/height")[()] == headrace.open(DATA / "climate-v2.zarr/height")[()]


SPELLINGS = {
    "fsspec": lambda url: {"key": "A", "secret": "B", "token": "C", "endpoint_url": url, "client_kwargs": {"region_name": "us-east-1"}},
    "nested": lambda url: {"client_kwargs": {"endpoint_url": url, "aws_access_key_id": "A", "aws_secret_access_key": "B"},
                           "config_kwargs": {"s3": {"addressing_style": "path"}, "connect_timeout": 5}, "asynchronous": False},
    "obstore": lambda url: {"access_key_id": "A", "secret_access_key": "B", "endpoint": url, "region": "us-east-1",
                            "virtual_hosted_style_request": False, "client_options": {"allow_http": True, "timeout": "30s"}},
    "both": lambda url: {"AWS_ACCESS_KEY_ID": "A", "key": "A", "secret": "B", "endpoint": url, "endpoint_url": url},
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_options_say_who_asks_and_where(s3, moto, monkeypatch, spelling):
    """Options, by the names of fsspec and obstore, override the environment, which is wrong here."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    for name in SECRETS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    options = SPELLINGS[spelling](moto)
    wanted = headrace.open(DATA / "climate-v2.zarr/height")[()]
    group = headrace.open("s3://bucket/c", storage_options=options)
    assert group["height"][()] == wanted
    assert pickle.loads(pickle.dumps(group))["height"][()] == wanted
    assert pickle.loads(pickle.dumps(group["height"]))[()] == wanted
    assert headrace.open_array("s3://bucket/c/height", storage_options=options)[()] == wanted
    assert headrace.open_group("s3://bucket", "c", storage_options=options)["height"][()] == wanted
    xarray = pytest.importorskip("xarray")
    from headrace.xarray import HeadraceBackendEntrypoint

    dataset = xarray.open_dataset("s3://bucket/c", engine=HeadraceBackendEntrypoint, storage_options=options)
    assert pickle.loads(pickle.dumps(dataset))["height"].values == wanted
    dataset = xarray.open_dataset(group, engine=HeadraceBackendEntrypoint)
    assert dataset["height"].values == wanted and moto not in repr(dataset)
    loader = headrace.Loader("s3://bucket/c/time", input_dims={"time": 1}, storage_options=options)
    assert len(list(loader)) == headrace.open(DATA / "climate-v2.zarr/time").shape[0]


def test_options_that_contradict_each_other_or_mean_nothing(s3, moto):
    said = []
    for options, match in (
        ({"key": "A", "aws_access_key_id": "planted"}, "'key' and 'aws_access_key_id' mean the same"),
        ({"key": "planted"}, "'key' and 'secret' belong together"),
        ({"anon": "planted"}, "'anon' must be true or false"),
        ({"connect_timeout": "planted"}, "seconds"),
        ({"connect_timeout": -1}, "seconds"),
        ({"retries": 1.5}, "a number"),
        ({"retries": 1000}, "0 to 99"),
        ({"verify": False}, "cannot be disabled"),
        ({"endpoint_url": "planted"}, "not the URL of a server"),
        ({"endpoint_url": "http://planted:x@h"}, "not the URL of a server"),
        ({"endpoint_url": "http://h", "allow_http": False}, "allow_http"),
        ({"region": "planted/x"}, "region"),
        ({"addressing_style": "planted"}, "path, virtual or auto"),
        ({"key": "planted\r\nX: y", "secret": "x"}, "line break"),
        ({"key": "planted x", "secret": "x"}, "invalid characters"),
        ({"proxy_url": "planted://x"}, "proxy_url"),
        ({"secretaccesskey": "planted"}, "no storage option 'secretaccesskey'"),
        ({"a b planted": 1}, "an invalid name; there are anon, key, secret"),
        ({"x" * 100: "planted"}, "an invalid name"),
    ):
        with pytest.raises(headrace.InvalidArgumentError, match=match) as caught:
            headrace.open("s3://bucket/c", storage_options=options)
        said.append(f"{caught.value!r} {caught.value}")
    with pytest.raises(headrace.InvalidArgumentError, match="headrace sets it") as caught:
        headrace.open(moto, storage_options={"headers": {"Range": "planted"}})
    said.append(str(caught.value))
    with pytest.raises(headrace.InvalidArgumentError, match="no storage option 'key'"):
        headrace.open(moto, storage_options={"key": "planted"})
    assert [text for text in said if "planted" in text] == []


def test_headers_go_to_their_own_server_alone(tmp_path):
    """Headers are not sent along a redirect to another server, and do not appear in any output."""
    shutil.copytree(DATA / "climate-v2.zarr", tmp_path / "c")
    seen = []

    def server(lead_to):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self):
                seen.append((self.server.server_port, self.headers.get("Authorization")))
                if lead_to:
                    self.send_response(302)
                    self.send_header("Location", lead_to + self.path)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                elif self.path.startswith("/locked") and self.headers.get("Authorization") != "Bearer planted":
                    self.send_error(401)
                else:
                    self.path = self.path.removeprefix("/locked")
                    super().do_GET()

            def log_message(self, *_):
                pass

        made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Handler(*a, directory=str(tmp_path)))
        threading.Thread(target=made.serve_forever, daemon=True).start()
        return made

    end = server(None)
    first = server(f"http://127.0.0.1:{end.server_port}")
    try:
        options = {"headers": {"Authorization": "Bearer planted"}, "block_size": 0}
        array = headrace.open(f"http://127.0.0.1:{end.server_port}/locked/c/height", storage_options=options)
        wanted = headrace.open(DATA / "climate-v2.zarr/height")[()]
        assert array[()] == wanted and all(token == "Bearer planted" for _, token in seen) and seen
        seen.clear()
        assert headrace.open(f"http://127.0.0.1:{first.server_port}/c/height", storage_options=options)[()] == wanted
        assert {token for port, token in seen if port == end.server_port} == {None}
        assert {token for port, token in seen if port == first.server_port} == {"Bearer planted"}
        with pytest.raises(headrace.PermissionError) as caught:
            headrace.open(f"http://127.0.0.1:{end.server_port}/locked/c", storage_options={"headers": {"Authorization": "planted2"}})
        assert "planted" not in f"{caught.value!r} {caught.value} {array!r} {array._reopen!r}"
    finally:
        for made in (end, first):
            made.shutdown()
            made.server_close()


def test_of_a_second_pass_nobody_is_asked(s3, tmp_path):
    wanted = headrace.open(DATA / "climate-v2.zarr/air_temperature")[...]
    options = {"cache_dir": tmp_path / "cache", "cache_bytes": "1G"}
    array = headrace.open("s3://bucket/c/air_temperature", storage_options=options)
    for _ in range(100):  # the cache is written with a delay
        before = headrace.stats()
        np.testing.assert_array_equal(array[...], wanted)
        after = headrace.stats()
        if after.cache_misses == before.cache_misses:
            break
    assert after.cache_misses == before.cache_misses and after.cache_hits > before.cache_hits
    assert after.store_bytes == before.store_bytes and after.cache_bytes > before.cache_bytes
    with pytest.raises(headrace.InvalidArgumentError, match="cache_bytes"):
        headrace.open("s3://bucket/c", storage_options={**options, "cache_bytes": "all"})
    told = subprocess.run([COMMAND, "cache", "verify", "--json", "--dir", str(tmp_path / "cache")], capture_output=True, check=True)
    assert json.loads(told.stdout)["records"] > 0 and json.loads(told.stdout)["damaged_records"] == 0


def test_the_command_line(s3):
    for command in (["info", "s3://bucket/c"], ["verify", "s3://bucket/c"], ["read", "s3://bucket/c/height", "-o", "height.npy"]):
        done = subprocess.run([COMMAND, *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert np.load("height.npy") == headrace.open(DATA / "climate-v2.zarr/height")[()]


def zip_of(folder, compression, inside=""):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", compression) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, inside + str(path.relative_to(folder)))
    return packed.getvalue()


@pytest.mark.parametrize("name", ["climate-v2.zarr", "climate-v3.zarr"])
@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_in_a_bucket_is_what_zarr_reads_from_it(s3, moto, tmp_path, name, compression):
    """The oracle is zarr-python over what fsspec's ZipFileSystem reads."""
    fsspec = pytest.importorskip("fsspec")
    packed = zip_of(DATA / name, compression)
    s3.put_object(Bucket="bucket", Key="some where/a.zarr.zip", Body=packed)
    (tmp_path / "a.zarr.zip").write_bytes(packed)
    files = fsspec.filesystem("zip", fo=str(tmp_path / "a.zarr.zip"))
    for inside in files.find(""):
        (tmp_path / "read" / inside).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "read" / inside).write_bytes(files.cat_file(inside))
    oracle = zarr.open_group(str(tmp_path / "read"), mode="r")
    there = headrace.open("s3://bucket/some where/a.zarr.zip")
    assert sorted(there.keys()) == sorted(dict(oracle.members())) != []
    for key in there.keys():
        np.testing.assert_array_equal(there[key][...], oracle[key][...])
    key = max(there.keys(), key=lambda key: there[key].size if hasattr(there[key], "size") else 0)
    np.testing.assert_array_equal(headrace.open(f"s3://bucket/some where/a.zarr.zip/{key}")[1:], oracle[key][1:])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(there[key]))[...], oracle[key][...])
    options = {"cache_dir": tmp_path / "cache"}
    cached = headrace.open("s3://bucket/some where/a.zarr.zip", storage_options=options)
    np.testing.assert_array_equal(cached[key][...], oracle[key][...])
    with pytest.raises(FileNotFoundError):
        headrace.open("s3://bucket/none.zip")
    with pytest.raises(headrace.CorruptError):
        s3.put_object(Bucket="bucket", Key="wrong.zip", Body=packed[:-1])
        headrace.open("s3://bucket/wrong.zip")


def references_to(folder, url):
    """A reference file of a folder whose files are objects below `url`: documents in the file itself, chunks by reference."""
    refs = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            key = str(path.relative_to(folder))
            document = path.name in ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
            refs[key] = path.read_text() if document else [f"{url}{key}", 0, path.stat().st_size]
    return json.dumps({"version": 1, "refs": refs})


@pytest.mark.parametrize("base", ["c/", "s3://bucket/c/"])
def test_references_in_a_bucket_are_what_zarr_reads_through_them(s3, moto, base):
    """The oracle is zarr-python over fsspec's ReferenceFileSystem, which reads the same objects from the disk."""
    fsspec = pytest.importorskip("fsspec")
    s3.put_object(Bucket="bucket", Key="refs.json", Body=references_to(DATA / "climate-v2.zarr", base).encode())
    local = json.loads(references_to(DATA / "climate-v2.zarr", f"{DATA}/climate-v2.zarr/"))
    files = fsspec.filesystem("reference", fo=local, remote_protocol="file", asynchronous=False)
    there = headrace.open("reference://s3://bucket/refs.json")
    here = headrace.open(DATA / "climate-v2.zarr")
    assert sorted(there.keys()) == sorted(here.keys()) != []
    for key in here.keys():
        np.testing.assert_array_equal(there[key][...], here[key][...])
        for name in [name for name in local["refs"] if name.startswith(f"{key}/")]:
            document = isinstance(local["refs"][name], str)
            assert document or files.cat_file(name) == (DATA / "climate-v2.zarr" / name).read_bytes()
    assert headrace.open("reference://s3://bucket/refs.json", "height")[()] == here["height"][()]


def test_the_command_line_reads_archives_and_references(s3, tmp_path):
    s3.put_object(Bucket="bucket", Key="a.zip", Body=zip_of(DATA / "climate-v2.zarr", zipfile.ZIP_STORED, "in/"))
    s3.put_object(Bucket="bucket", Key="refs.json", Body=references_to(DATA / "climate-v2.zarr", "c/").encode())
    for root in ("s3://bucket/a.zip/in", "reference://s3://bucket/refs.json"):
        for command in (["info", root], ["verify", root], ["read", f"{root}/height", "-o", str(tmp_path / "height.npy")]):
            done = subprocess.run([COMMAND, *command], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        assert np.load(tmp_path / "height.npy") == headrace.open(DATA / "climate-v2.zarr/height")[()]
    for url in ("reference://http://a:planted@127.0.0.1:1/x.json?token=planted", "http://127.0.0.1:1/x.zip/y?token=planted"):
        done = subprocess.run([COMMAND, "info", url], capture_output=True, text=True, env={**os.environ, "HEADRACE_HTTP_ATTEMPTS": "1"})
        assert done.returncode != 0 and "planted" not in done.stdout + done.stderr


class TokenService(http.server.BaseHTTPRequestHandler):
    """Serves tokens and keys for files, accounts and machines; nothing if the path begins with /no."""

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        keys = {"accessKeyId": "AKIDPLANTED", "secretAccessKey": "sso-planted", "sessionToken": "answer-planted", "expiration": 4102444800000}
        body = json.dumps({"access_token": "answer-planted", "expires_in": 3600, "roleCredentials": keys}).encode()
        self.send_response(403 if self.path.startswith("/no") else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer  # noqa: N815

    def log_message(self, *_):
        pass


SOURCE_SECRETS = ("program-planted", "login-planted", "sso-planted", "answer-planted", "file-planted", "word-planted", "PRIVATE KEY")


def planted_sources(home, service, moto):
    """URLs, with an environment and files in which credentials are found or not: every place that may hold secrets holds some."""
    sso = "sso_start_url = https://x/start\nsso_region = eu-west-1\nsso_account_id = 1\nsso_role_name = R\n"
    token = home / ".aws" / "sso" / "cache" / (hashlib.sha1(b"https://x/start").hexdigest() + ".json")
    google, workload = home / "google.json", home / "workload"
    printed = '{"Version": 1, "AccessKeyId": "AKIDPLANTED", "SecretAccessKey": "program-planted"}'
    user = {"type": "authorized_user", "client_id": "c", "client_secret": "file-planted", "refresh_token": "file-planted"}
    key = "-----BEGIN PRIVATE KEY-----\nfile-planted\n-----END PRIVATE KEY-----\n"
    account = {"type": "service_account", "client_email": "a@b", "private_key": key, "token_uri": f"{service}/token"}
    for program in (f"/bin/echo '{printed}'", "/bin/echo program-planted", "/bin/sh -c 'echo program-planted >&2; exit 3'",
                    "/nowhere/program-planted", "'program-planted"):
        yield "s3://bucket/none", {"AWS_PROFILE": "p"}, {home / ".aws/config": f"[profile p]\ncredential_process = {program}\n"}
    for place in ("", "/no"):
        for text in (json.dumps({"accessToken": "login-planted", "expiresAt": "2099-01-01T00:00:00Z"}),
                     json.dumps({"accessToken": "login-planted", "expiresAt": "2001-01-01T00:00:00Z"}), "login-planted"):
            yield ("s3://bucket/none", {"AWS_PROFILE": "p", "AWS_ENDPOINT_URL_SSO": service + place},
                   {home / ".aws/config": "[profile p]\n" + sso, token: text})
        for file in ({**user, "token_uri": f"{service}{place}/token"}, account, {**user, "type": "file-planted"}, ["file-planted"]):
            yield "gs://bucket/none", {"GOOGLE_APPLICATION_CREDENTIALS": str(google)}, {google: json.dumps(file)}
        azure = {"AZURE_STORAGE_ACCOUNT": "acc", "AZURE_STORAGE_ENDPOINT": moto}
        yield ("az://bucket/none", {**azure, "IDENTITY_ENDPOINT": f"{service}{place}/msi", "IDENTITY_HEADER": "word-planted"}, {})
        yield ("az://bucket/none", {**azure, "AZURE_POD_IDENTITY_AUTHORITY_HOST": service + place}, {})
        yield ("az://bucket/none", {**azure, "AZURE_FEDERATED_TOKEN_FILE": str(workload), "AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t",
                                    "AZURE_AUTHORITY_HOST": service + place}, {workload: "file-planted"})


def started(command):
    return subprocess.Popen([COMMAND, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "HEADRACE_HTTP_ATTEMPTS": "1"})


def said_of_planted_sources(home, moto, monkeypatch):
    """The output of the library and the command line for each."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenService) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for url, environment, files in planted_sources(home, f"http://127.0.0.1:{server.server_port}", moto):
            for path, text in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            with monkeypatch.context() as changed:
                for name in SECRETS:
                    changed.delenv(name)
                for name, value in {"HOME": str(home), "STORAGE_EMULATOR_HOST": moto, "HEADRACE_HTTP_ATTEMPTS": "1", **environment}.items():
                    changed.setenv(name, value)
                programs = [started(command) for command in (["info", url], ["doctor", "--json", url])]
                try:
                    opened = headrace.open(url)
                    yield from (repr(opened), str(opened))
                except Exception as error:
                    yield from (repr(error), str(error), repr(vars(error)), repr(error.__cause__))
                for program in programs:
                    yield from program.communicate()
        server.shutdown()


def test_no_secret_is_printed(s3, moto, tmp_path, monkeypatch):
    """In the output of any failure: of the library, the command line, traces and representations."""
    s3.put_object(Bucket="bucket", Key="bad/.zarray", Body=b"{")
    said = []
    urls = ["s3://bucket/c", "s3://bucket/bad", "s3://bucket/none", "s3://nobucket/c", "s3://bucket/c?token=query-planted",
            f"{moto}/bucket/c?token=query-planted", f"{moto}/none?token=query-planted", "http://127.0.0.1:1/x?token=query-planted",
            "http://user:password-planted@127.0.0.1/x", "https://127.0.0.1:1/x?sig=query-planted"]
    for url in urls:
        programs = [started(command) for command in (["info", url], ["verify", url], ["read", url, "-o", "x.npy", "--trace", "trace.json"])]
        try:
            opened = headrace.open(url)
            said += [repr(opened), str(opened)]
        except Exception as error:
            said += [repr(error), str(error), str(getattr(error, "store", ""))]
        for program in programs:
            said += program.communicate()
    for url, options in (("s3://bucket/c", {"key": "AKIDPLANTED", "secret": "secret/planted+key", "endpoint_url": moto}),
                         ("s3://nobucket/c", {"key": "AKIDPLANTED", "secret": "secret/planted+key", "token": "token-planted"}),
                         ("s3://bucket/none", {"key": "AKIDPLANTED", "secret": "secret/planted+key", "proxy_url": "http://u:password-planted@127.0.0.1:1"}),
                         ("gs://bucket/c", {"token": "token-planted", "endpoint_url": moto}),
                         ("gs://bucket/c", {"key": "AKIDPLANTED", "secret": "secret/planted+key", "endpoint_url": "http://127.0.0.1:1"}),
                         ("az://bucket/c", {"account_name": "acc", "account_key": "cGFzc3dvcmQtcGxhbnRlZA==", "endpoint_url": moto}),
                         ("az://bucket/c", {"account_name": "acc", "sas_token": "sig=query-planted", "endpoint_url": moto}),
                         ("az://bucket/c", {"account_name": "acc", "sas_token": "sig=query-planted", "account_key": "query-planted"}),
                         (f"{moto}/none", {"headers": {"Authorization": "token-planted"}}),
                         (f"{moto}/none", {"headers": {"Authorization": "token-planted\r\n"}})):
        for use in (headrace.open, headrace.open_array, headrace.open_group, lambda url, **options: headrace.Loader(
                url, input_dims={"time": 1}, **options)):
            try:
                opened = use(url, storage_options={"retries": 0, **options})
                said += [repr(opened), str(opened), repr(getattr(opened, "_reopen", "")), repr(getattr(opened, "_core", ""))]
                said.append(getattr(opened, "_repr_html_", str)())
            except Exception as error:
                said += [repr(error), str(error), repr(vars(error)), repr(error.__cause__), repr(error.__context__)]
    trace = pathlib.Path("trace.json")
    if trace.exists():
        said.append(trace.read_text())
    said += said_of_planted_sources(tmp_path / "home", moto, monkeypatch)
    text = "\n".join(said)
    assert "aws sso login --profile p" in text and "the credential_process of profile 'p'" in text
    assert "no such bucket" in text and "127.0.0.1:1" in text
    for secret in (*SECRETS.values(), *SOURCE_SECRETS, "query-planted", "password-planted", "cGFzc3dvcmQtcGxhbnRlZA==", "Signature="):
        lines = [line for line in text.splitlines() if secret in line]
        assert lines == [], secret


def test_a_server_without_ranges(tmp_path):
    """Python's own server: chunks in their own files can be read, shards raise an error that names the reason."""
    shutil.copytree(DATA / "climate-v3.zarr", tmp_path / "c")
    data = np.arange(900, dtype="u2").reshape(30, 30)
    for name, shards in (("whole", None), ("shards", (30, 30))):
        zarr.create_array(str(tmp_path / name), shape=data.shape, chunks=(10, 10), shards=shards, dtype="u2")[...] = data

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Quiet(*a, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    try:
        np.testing.assert_array_equal(headrace.open(f"{base}/whole")[3:17, 5:], data[3:17, 5:])
        np.testing.assert_array_equal(headrace.open(f"{base}/c")["time"][...], headrace.open(DATA / "climate-v3.zarr")["time"][...])
        with pytest.raises(headrace.UnsupportedError, match="range requests"):
            headrace.open(f"{base}/shards")[...]
        with pytest.raises(FileNotFoundError):
            headrace.open(f"{base}/nothing")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork() here")
def test_a_forked_child_opens_it_again(s3):
    program = """
import os, sys, headrace
array = headrace.open("s3://bucket/c/time")
first = array[:3]
child = os.fork()
if child == 0:
    try:
        array[:3]
        os._exit(1)
    except headrace.HeadraceError as error:
        os._exit(0 if "fork" in str(error) else 2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert (array[:3] == first).all()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_cache_is_told_checked_and_emptied(s3, tmp_path, monkeypatch):
    upload(s3, DATA / "climate-v3.zarr", "kept")
    where = tmp_path / "cache"
    url, options = "s3://bucket/kept/surface_temperature", {"cache_dir": str(where)}
    with pytest.raises(headrace.NotFoundError):
        headrace.inspect_disk_cache(where)
    first = headrace.open(url, storage_options=options)[...]
    report = headrace.inspect_disk_cache(where, verify=True)
    assert report.records > 0 and report.data_bytes > 0 and report.damaged_records == 0 and report.problem == ""
    assert report.directory == str(where.resolve()) and report.disk_free_bytes > 0
    assert sum(segment.records for segment in report.segments) == report.records
    assert all((where / segment.name).stat().st_size == segment.file_bytes and not segment.foreign for segment in report.segments)
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(where))
    assert headrace.inspect_disk_cache().records == report.records
    assert headrace.clear_disk_cache() == report.file_bytes
    assert headrace.inspect_disk_cache(where).segments == ()
    np.testing.assert_array_equal(headrace.open(url, storage_options=options)[...], first)
    monkeypatch.delenv("HEADRACE_CACHE_DIR")
    for call in (headrace.inspect_disk_cache, headrace.clear_disk_cache):
        with pytest.raises(headrace.InvalidArgumentError, match="HEADRACE_CACHE_DIR"):
            call()
        with pytest.raises(headrace.NotFoundError):
            call(tmp_path / "none")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with pytest.raises(headrace.PermissionError):
        headrace.inspect_disk_cache(open_to_all)
