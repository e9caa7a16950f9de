"""Writes a spec of array_specs.py with its writer, and reads arrays with any reader: zarr-python, zarrs, tensorstore,
headrace."""
import os
import pathlib
import subprocess
import sys
import threading
import warnings

import numpy as np
import tensorstore
import zarr
from zarr.core.buffer import default_buffer_prototype
from zarr.core.metadata.v2 import ArrayV2Metadata
from zarr.core.metadata.v3 import ArrayV3Metadata

from array_specs import EXTRA, values_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
from golden_write import canonical as _canonical  # noqa: E402

warnings.simplefilter("ignore")
READERS = ("tensorstore", "zarr-python", "zarrs")
PIPELINES = {"zarr-python": "zarr.core.codec_pipeline.BatchedCodecPipeline", "zarrs": "zarrs.ZarrsCodecPipeline"}


def canonical(data):
    """The bytes that headrace must yield: C order, little endian, packed."""
    data = np.asarray(data)
    return np.ascontiguousarray(data).tobytes() if data.dtype.name in EXTRA else _canonical(data)


def _driver(form):
    return "zarr" if form == 2 else "zarr3"


def _tensorstore(path, form, **more):
    return {"driver": _driver(form), "kvstore": {"driver": "file", "path": str(path)}, **more}


def write(spec, path):
    """Lets the spec's writer write its document and chunks to `path`, a folder that does not exist. Returns the values."""
    data, document = values_of(spec), spec["document"]
    form = document["zarr_format"]
    if spec["writer"] == "tensorstore":
        metadata = {k: v for k, v in document.items() if not (form == 2 and k == "filters" and v is None)}
        store = tensorstore.open(_tensorstore(path, form, metadata=metadata), create=True).result()
        if data.size:
            store.write(data.astype(store.dtype.numpy_dtype)).result()
        return data
    kind = ArrayV2Metadata if form == 2 else ArrayV3Metadata
    path.mkdir(parents=True)
    for key, buffer in kind.from_dict(document).to_buffer_dict(default_buffer_prototype()).items():
        (path / key).write_bytes(buffer.to_bytes())
    with zarr.config.set({"codec_pipeline.path": PIPELINES["zarr-python"]}):
        array = zarr.open_array(str(path), mode="r+")
        if data.size:
            array[...] = data
    return data


def read(reader, spec, path):
    """The array's values from a reader other than headrace; raises whatever that reader raises."""
    form = spec["document"]["zarr_format"]
    if reader == "tensorstore":
        if isinstance(spec["dtype"], list) or np.dtype(object) == spec["dtype"]:
            raise NotImplementedError("tensorstore reads structured arrays a field at a time")
        store = tensorstore.open(_tensorstore(path, form), read=True).result()
        if store.dtype in (tensorstore.char, tensorstore.byte):
            raise NotImplementedError("tensorstore's strings have another shape")
        return store.read().result()
    with zarr.config.set({"codec_pipeline.path": PIPELINES[reader], "codec_pipeline.strict": True}):
        array = zarr.open_array(str(path), mode="r")
        values = array[...]
        # 0-d arrays are returned as scalars, which lose the string's maximum length.
        return values if isinstance(values, np.ndarray) else np.array(values, array.dtype)


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class Headrace:
    """A headrace_batch process, started on first use and restarted after a crash."""

    def __init__(self, program, limit_s=60):
        self.program, self.limit_s, self.process = program, limit_s, None

    def read(self, path, device="host", placement="auto", selection=""):
        """Returns bytes. Raises Refused for an error that headrace returned, RuntimeError if it crashed or gave no
        answer in time."""
        if self.process is None:
            environment = {**os.environ, "HEADRACE_STAGED_DECODE": "all", "HEADRACE_STAGED_HOST_ONLY": "5"}
            self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        timer = threading.Timer(self.limit_s, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(f"{path}\t{device}\t{placement}\t{selection}\n".encode())
            self.process.stdin.flush()
            head = self.process.stdout.readline().decode(errors="replace").split(" ", 2)
            if head[0] == "error":
                raise Refused(int(head[1]), head[2].strip())
            if head[0] != "ok":
                raise EOFError
            size = int(head[1])
            data = self.process.stdout.read(size)
            if len(data) != size:
                raise EOFError
            return data
        except (EOFError, BrokenPipeError):
            code = self.process.wait()
            self.process = None
            raise RuntimeError(f"headrace_batch ended with {code}, or gave no answer for {self.limit_s} s") from None
        finally:
            timer.cancel()

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process = None
