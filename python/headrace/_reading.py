"""The options of a read, and its state while it runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _core
from ._errors import InvalidArgumentError, naming_store

_INDEXING = {"orthogonal": 0, "points": 1, "blocks": 2}
_PLACEMENT = {"auto": 0, "cpu": 1, "gpu": 2}
_VERIFY = {"as_read": 0, "whole": 1}


def _choice(what: str, choices: dict[str, int], named: str) -> int:
    number = choices.get(named)
    if number is None:
        raise InvalidArgumentError(f"{what}={named!r} is invalid; choose one of {', '.join(choices)}")
    return number


def indexing_number(named: str) -> int:
    """The number that _core uses. Raises InvalidArgumentError for an unknown name."""
    return _choice("indexing", _INDEXING, named)


class ReadOptions(NamedTuple):
    """The options of ``Array.read`` and similar methods."""

    indexing: str
    device: str | None
    stream: Any
    dtype: Any
    scale: float
    offset: float
    fill_as_nan: bool
    fill: Any
    damage_as_nan: bool
    placement: str
    verify: str
    progress: Any
    cancel: Any

    @property
    def placement_number(self) -> int:
        return _choice("placement", _PLACEMENT, self.placement)

    @property
    def whole(self) -> bool:
        return _choice("verify", _VERIFY, self.verify) == 1

    @property
    def token(self) -> _core.Cancel | None:
        if not isinstance(self.cancel, _core.Cancel | None):
            raise InvalidArgumentError(f"cancel is a {type(self.cancel).__name__}; give a headrace.Cancel")
        return self.cancel

    @property
    def maps_fill_to_nan(self) -> bool:
        return self.fill_as_nan or self.fill is not None

    @property
    def converts(self) -> bool:
        return self.dtype is not None or self.scale != 1.0 or self.offset != 0.0 or self.maps_fill_to_nan or self.damage_as_nan


class Request(NamedTuple):
    """The arguments of ``_core.Array.read``, with its names and in its order."""

    selections: list[Any]
    indexing: int
    targets: list[Any]
    device: Any
    stream: int
    dtype: str
    scale: float
    offset: float
    fill_as_nan: bool
    missing: bytes
    damage_as_nan: bool
    placement: int
    whole: bool
    collect_errors: bool
    progress: Callable[[int, int], None] | None
    cancel: Any


class Prepared(NamedTuple):
    """A read that is ready to start."""

    request: Request
    results: list[Any]  # the objects it writes to
    held: list[Any]  # other objects that must outlive the read
    close: Callable[[], None]  # closes the progress bar

    def end(self) -> None:
        self.held.clear()  # a traceback may keep this object alive
        self.close()


class ReadFuture:
    """A read in flight. ``await`` it, or call ``result()``.

    The read is cancelled when the last reference to the future is dropped.
    """

    def __init__(self, reading: Any, value: Any, finish: Callable[[], None], array: Any) -> None:
        self._reading = reading
        self._value = value
        self._finish = finish
        self._array = array
        self._stats: _core.Stats | None = None
        self._process = os.getpid()

    def result(self, timeout: float | None = None) -> Any:
        """Blocks until the data is in place. Raises TimeoutError after `timeout` seconds; the read continues."""
        if self._stats is not None:
            return self._value
        if not self._reading.wait(1e9 if timeout is None else float(timeout)):
            raise TimeoutError(f"the read has not finished after {timeout} s")
        self._finish()
        with naming_store(self._array.url):
            self._stats = self._reading.finish()
        return self._value

    def __del__(self) -> None:
        if self._stats is None and self._process == os.getpid():
            self._reading.cancel()
            self._finish()

    @property
    def stats(self) -> _core.Stats:
        """Statistics of this read; available once ``result()`` has returned."""
        if self._stats is None:
            raise InvalidArgumentError("a read has statistics once result() has returned")
        return self._stats

    def done(self) -> bool:
        return self._stats is not None or bool(self._reading.done())

    def cancel(self) -> None:
        """Requests cancellation; ``result()`` then raises CancelledError unless the read has already finished."""
        self._reading.cancel()

    def __await__(self) -> Any:
        return self._wait_async().__await__()

    async def _wait_async(self) -> Any:
        try:
            return await asyncio.to_thread(self.result)
        except asyncio.CancelledError:
            self._reading.cancel()
            raise

    def __repr__(self) -> str:
        return f"headrace.ReadFuture({'done' if self.done() else 'under way'}, {self._array!r})"
