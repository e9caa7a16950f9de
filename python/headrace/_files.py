"""Reads and writes plain files to and from tensors, with the interface of kvikIO's CuFile."""

from __future__ import annotations

import concurrent.futures
import operator
import os
import threading
import weakref
from typing import Any, NamedTuple

from . import _core, _target
from ._context import Context, context_or_default, device_of, stream_pointer
from ._errors import ForkedError, InvalidArgumentError, ShortReadError

_PATHS = ("auto", "direct", "buffered", "mapped")

_local = threading.local()
_pool_lock = threading.Lock()
_pool: tuple[int, concurrent.futures.ThreadPoolExecutor] | None = None


def _executor() -> concurrent.futures.ThreadPoolExecutor:
    global _pool
    with _pool_lock:
        if _pool is None or _pool[0] != os.getpid():
            _pool = (os.getpid(), concurrent.futures.ThreadPoolExecutor(4, "headrace-file"))
        return _pool[1]


def _renew_lock() -> None:
    global _pool_lock
    _pool_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def _queue(context: Context, device: str, path: str, stream: int) -> Any:
    """This thread's request queue for a context, device, file and stream; it is released with the context."""
    of_contexts = _local.__dict__.setdefault("queues", weakref.WeakKeyDictionary())
    queues = of_contexts.setdefault(context, {})
    key = (os.getpid(), device, path, stream)
    if key not in queues:
        queues[key] = _core.FileQueue.create(context._core, device_of(device), path, stream)
    return queues[key]


class _Transfer(NamedTuple):
    """A transfer with checked arguments. It keeps its own reference to the open file, so the File may be closed."""

    opened: Any
    context: Context
    via: str
    write: bool
    device: str
    stream: int
    file_offset: int
    pointer: int
    nbytes: int
    held: list[Any]  # objects that must outlive the transfer

    def run(self, stop: Any) -> int:
        """Runs the transfer, on any thread; at most once."""
        try:
            nbytes = self.nbytes
            if not self.write:
                nbytes = min(nbytes, max(0, self.opened.size_bytes() - self.file_offset))
            if nbytes == 0:
                return 0
            queue = _queue(self.context, self.device, self.via, self.stream)
            transfer = queue.write if self.write else queue.read
            return int(transfer(self.opened, self.file_offset, self.pointer, nbytes, stop))
        finally:
            self.held.clear()


def _end(transfers: dict[concurrent.futures.Future[int], Any]) -> None:
    """Waits for transfers, a mapping of futures to their stop objects; Ctrl-C stops them."""
    try:
        concurrent.futures.wait(transfers)
    except KeyboardInterrupt:
        for stop in transfers.values():
            stop.ask()
        concurrent.futures.wait(transfers)
        raise


class IOFuture:
    """A transfer in flight."""

    def __init__(self, future: concurrent.futures.Future[int], stop: Any) -> None:
        self._future = future
        self._stop = stop
        self._process = os.getpid()

    def get(self) -> int:
        """Blocks until the transfer has finished and returns the number of bytes transferred. Ctrl-C stops it."""
        if self._process != os.getpid() and not self._future.done():
            raise ForkedError("this transfer was started before os.fork()")
        _end({self._future: self._stop})
        return self._future.result()

    result = get

    def done(self) -> bool:
        return self._future.done()

    is_done = done

    def __repr__(self) -> str:
        return f"headrace.IOFuture({'done' if self.done() else 'under way'})"


class File:
    """A file that is read into, or written from, host or device memory.

    flags: "r", "w" (create or truncate), "a" (create if missing); append "+" to read and write.
    via: "auto", or one path for all ranges: "direct", "buffered", "mapped".

    Thread-safe.
    """

    def __init__(self, path: Any, flags: str = "r", *, context: Context | None = None, via: str = "auto") -> None:
        if not isinstance(flags, str) or flags[:1] not in ("r", "w", "a") or flags[1:] not in ("", "+", "b", "b+", "+b"):
            raise InvalidArgumentError(f"flags {flags!r}: one of r, w, a, and + for reading and writing")
        if via not in _PATHS:
            raise InvalidArgumentError(f"via={via!r} is invalid; choose one of {', '.join(_PATHS)}")
        self._context = context_or_default(context)
        self._via = via
        write = flags[0] != "r" or "+" in flags
        self._core: Any = _core.File.open(os.fsdecode(os.fspath(path)), write, flags[0] != "r", flags[0] == "w")
        self._writes = write
        self._under_way: dict[concurrent.futures.Future[int], Any] = {}
        self._process = os.getpid()

    @property
    def path(self) -> str:
        return self._open.path

    @property
    def nbytes(self) -> int:
        """The current size of the file in bytes."""
        return self._open.size_bytes()

    @property
    def closed(self) -> bool:
        return self._core is None

    @property
    def _open(self) -> Any:
        if self._core is None:
            raise InvalidArgumentError("the file is closed")
        return self._core

    def close(self) -> None:
        """Closes the file after the transfers in flight have finished. Ctrl-C stops them."""
        self._core = None
        if self._process == os.getpid():  # in a forked child there are no threads to finish them
            _end(self._under_way.copy())

    def __enter__(self) -> File:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _range(self, tensor: Any, size: int | None, tensor_offset: int,
               write: bool = False) -> tuple[_target.Target, int, int]:
        target = _target.describe(tensor, "tensor", writable=not write)
        count = 1
        for extent in target.shape:
            count *= extent
        expected = target.dtype.itemsize if not isinstance(target.dtype, str) else 2
        stride = expected
        for extent, step in zip(reversed(target.shape), reversed(target.strides or ()), strict=False):
            if extent > 1 and step != stride:
                raise InvalidArgumentError("a file's bytes go to a contiguous tensor; this one has gaps")
            stride *= extent
        nbytes = count * expected - tensor_offset
        if tensor_offset < 0 or nbytes < 0:
            raise InvalidArgumentError(f"offset {tensor_offset} lies outside the tensor of {count * expected} bytes")
        size = nbytes if size is None else operator.index(size)
        if size < 0 or size > nbytes:
            raise InvalidArgumentError(f"{size} bytes do not fit the {nbytes} bytes of the tensor after that offset")
        return target, target.pointer + tensor_offset, size

    def _checked(self, write: bool, tensor: Any, size: int | None, file_offset: int, tensor_offset: int,
                 stream: Any) -> _Transfer:
        opened = self._open
        if write and not self._writes:
            raise InvalidArgumentError(f"{self.path} was opened for reading; open it with flags='r+' to write")
        if file_offset < 0:
            raise InvalidArgumentError(f"file offset {file_offset} is negative")
        target, pointer, nbytes = self._range(tensor, size, tensor_offset, write)
        on = target.stream if stream is None else stream_pointer(stream)
        if on is None:
            on = _target.current_stream(target.device) if target.device.startswith("cuda") else 0
        return _Transfer(opened, self._context, self._via, write, target.device, on, file_offset, pointer, nbytes,
                         [target.held])

    def read(self, tensor: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0, *,
             stream: Any = None) -> int:
        """Reads `size` bytes (default: what fits) at `file_offset` into the tensor; returns the number of bytes read.

        Ctrl-C interrupts ``read`` and ``write``; bytes transferred by then are in place.
        """
        return self._checked(False, tensor, size, file_offset, dev_offset, stream).run(_core.Stop())

    def read_into(self, tensor: Any, file_offset: int = 0, *, stream: Any = None) -> Any:
        """Fills the whole tensor and returns it. Raises EOFError if the file ends first."""
        target, _, size = self._range(tensor, None, 0)
        got = self.read(tensor, size, file_offset, stream=stream)
        if got != size:
            error = ShortReadError(f"{self.path} has {got} bytes from offset {file_offset} on, but the tensor needs {size}")
            error.key, error.offset, error.length = self.path, file_offset, got
            raise error
        return tensor

    def write(self, tensor: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0, *,
              stream: Any = None) -> int:
        """Writes `size` bytes of the tensor (default: all) at `file_offset`; returns the number of bytes written."""
        return self._checked(True, tensor, size, file_offset, dev_offset, stream).run(_core.Stop())

    def _start(self, write: bool, tensor: Any, size: int | None, file_offset: int, tensor_offset: int,
               stream: Any) -> IOFuture:
        transfer, stop = self._checked(write, tensor, size, file_offset, tensor_offset, stream), _core.Stop()
        future = _executor().submit(transfer.run, stop)
        self._under_way[future] = stop
        future.add_done_callback(self._under_way.pop)
        return IOFuture(future, stop)

    def pread(self, tensor: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0, *,
              stream: Any = None) -> IOFuture:
        """Starts a ``read`` and returns its future. The tensor must not be accessed until the transfer has finished."""
        return self._start(False, tensor, size, file_offset, dev_offset, stream)

    def pwrite(self, tensor: Any, size: int | None = None, file_offset: int = 0, dev_offset: int = 0, *,
               stream: Any = None) -> IOFuture:
        """Starts a ``write`` and returns its future."""
        return self._start(True, tensor, size, file_offset, dev_offset, stream)

    def sync(self) -> None:
        """Blocks until data and size are on stable storage."""
        self._open.sync()

    def __repr__(self) -> str:
        return "headrace.File(closed)" if self.closed else f"headrace.File({self.path!r}, {self.nbytes} bytes)"
