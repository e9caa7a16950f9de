"""Contexts (threads, I/O engine, memory budgets), devices and streams."""

from __future__ import annotations

import os
import threading
from typing import Any

from . import _core
from ._errors import InvalidArgumentError

_DEFAULTS: dict[str, Any] = {
    "engine": "auto",
    "threads": 0,
    "host_budget_bytes": 0,
    "device_budget_bytes": 0,
    "wave_bytes": 0,
    "waves": 0,
    "allow_direct": True,
    "cache_reread": True,
    "allow_mapped": True,
    "mapped_budget_bytes": 0,
    "index_budget_bytes": 0,
    "stored_budget_bytes": 0,
    "placement_file": "auto",
    "bind_threads": True,
}


class Context:
    """Resources that reads share: worker threads, an I/O engine, and memory budgets.

    Most programs need none of their own: ``headrace.open`` uses one for the whole process. For each option, 0 or
    leaving it out selects the default:

    engine: "auto", "gds", "io_uring", "aio" or "threads". threads: number of workers. host_budget_bytes: pinned and
        decode buffers.
    device_budget_bytes: slabs in device memory, excluding results. wave_bytes: target size of a wave, in decoded bytes.
    waves: number of waves in flight. allow_direct: O_DIRECT for cold ranges. allow_mapped: GPUs read the page cache
    directly. index_budget_bytes: memory for decode indices, 0 for none.
    stored_budget_bytes: limit of memory whose size is set by stored data (metadata, listings, ZIP directories,
    references, shard indexes; 512 MiB). placement_file: where measurements of whether CPU or GPU decodes a kind of
    array faster are kept for later processes ("auto": ``headrace/placement.json`` in the user's cache folder; "": not
    kept).

    Thread-safe. A context belongs to the process that created it; after a fork the child must create its own.
    """

    def __init__(self, **options: Any) -> None:
        unknown = sorted(set(options) - set(_DEFAULTS))
        if unknown:
            raise InvalidArgumentError(f"unknown context options: {', '.join(unknown)}; known are {', '.join(_DEFAULTS)}")
        self.options = {**_DEFAULTS, **options}
        for name, value in options.items():
            _check_option(name, value)
        self._core = _core.Context.create(**self.options)

    @property
    def engine(self) -> str:
        """The I/O engine in use."""
        return self._core.engine_name

    @property
    def report(self) -> str:
        """What the engine supports on this machine, and why better engines were rejected; several lines."""
        return self._core.engine_report

    def _given(self) -> tuple[tuple[str, Any], ...]:
        """The options that differ from their defaults."""
        return tuple(sorted((name, value) for name, value in self.options.items() if value != _DEFAULTS[name]))

    def __repr__(self) -> str:
        return f"headrace.Context({', '.join(f'{name}={value!r}' for name, value in self._given())})"

    def __reduce__(self) -> Any:
        return _restore_context, (self._given(),)


def _check_option(name: str, value: Any) -> None:
    wanted = type(_DEFAULTS[name])
    if wanted is int:
        if not hasattr(value, "__index__") or isinstance(value, bool) or value < 0:
            raise InvalidArgumentError(f"context option {name}={value!r}: give a non-negative integer, 0 for the default")
    elif not isinstance(value, wanted):
        raise InvalidArgumentError(f"context option {name}={value!r}: a {wanted.__name__}")


_lock = threading.Lock()
_pid = 0
_shared: dict[tuple[tuple[str, Any], ...], Context] = {}
_devices: dict[str, Any] = {}


def _in_this_process() -> None:
    """Drops everything created before a fork. REQUIRES: _lock is held."""
    global _pid, _shared, _devices
    if _pid != os.getpid():
        # Not destroyed in the child: the threads exist only in the parent.
        _abandoned.extend([_shared, _devices])
        _pid, _shared, _devices = os.getpid(), {}, {}


_abandoned: list[Any] = []


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it during the fork


os.register_at_fork(after_in_child=_renew_lock)


def _restore_context(given: tuple[tuple[str, Any], ...]) -> Context:
    """Returns one shared context per set of options, for all objects unpickled with them."""
    with _lock:
        _in_this_process()
        if given not in _shared:
            _shared[given] = Context(**dict(given))
        return _shared[given]


def default_context() -> Context:
    """The context of this process, used where none is given."""
    return _restore_context(())


def context_or_default(context: Context | None) -> Context:
    if context is None:
        return default_context()
    if not isinstance(context, Context):
        raise InvalidArgumentError(f"context is a {type(context).__name__}; give a headrace.Context")
    return context


def device_of(name: str | None) -> Any:
    """The device with this name ("host", "cuda", "cuda:1", "auto"); None is the host."""
    wanted = "host" if name is None or name == "cpu" else str(name)
    found = _devices.get(wanted) if _pid == os.getpid() else None
    if found is None:
        with _lock:
            _in_this_process()
            found = _devices[wanted] = _devices.get(wanted) or _core.Device.open(wanted)
    return found


def usable_device(device: str | None) -> str | None:
    """Returns `device` after checking that it exists, so that the error comes before the first read."""
    if device is not None:
        device_of(device)
    return device


def stream_pointer(stream: Any) -> int:
    """A caller's stream as a number: a cudaStream_t, or the stream of a torch, CuPy or ``__cuda_stream__`` object."""
    if isinstance(stream, int):
        if stream < 0:
            raise InvalidArgumentError(f"stream {stream} is not a CUDA stream")
        return stream
    for name in ("cuda_stream", "ptr"):  # torch, CuPy
        pointer = getattr(stream, name, None)
        if pointer is not None:
            return int(pointer)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return int(protocol()[1])
    raise InvalidArgumentError(f"stream is a {type(stream).__name__}; give a cudaStream_t as an int, a torch or CuPy stream")
