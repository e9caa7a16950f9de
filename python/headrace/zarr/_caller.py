"""Detects whether the caller still waits for a read.

zarr's synchronous calls start a coroutine on zarr's event loop and wait for it in their own thread. If Ctrl-C or
`async.timeout` ends the wait, the coroutine is not notified. It can detect this, however: the call has disappeared from
the stack of its thread.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from zarr.core import sync as _zarr

if TYPE_CHECKING:
    from types import CodeType, FrameType

# If zarr lacks these functions, nothing is detected and reads run to their end.
_SYNC: CodeType | None = getattr(getattr(_zarr, "sync", None), "__code__", None)
_RUNNER: CodeType | None = getattr(getattr(_zarr, "_runner", None), "__code__", None)


class Caller:
    """The caller that waits for the current task.

    Threads: create it on the event loop's; stopped_waiting() and mark_cancelled() from any.
    """

    def __init__(self) -> None:
        self._left = False
        self._coroutine: Any = None
        self._thread = 0
        task = asyncio.current_task()
        runner: Any = None if task is None else task.get_coro()
        if _RUNNER is None or getattr(runner, "cr_code", None) is not _RUNNER:
            return  # an asynchronous caller cancels the task itself
        coroutine = runner.cr_frame.f_locals.get("coro")
        for thread, frame in sys._current_frames().items():
            if coroutine is not None and _waits(frame, coroutine):
                self._coroutine, self._thread = coroutine, thread
                return

    def mark_cancelled(self) -> None:
        """Records that the task was cancelled."""
        self._left = True

    def stopped_waiting(self) -> bool:
        if self._left or self._coroutine is None:
            return self._left
        return not _waits(sys._current_frames().get(self._thread), self._coroutine)


def _waits(frame: FrameType | None, coroutine: Any) -> bool:
    """Whether zarr's sync(coroutine) is on the stack."""
    while frame is not None:
        if frame.f_code is _SYNC and frame.f_locals.get("coro") is coroutine:
            return True
        frame = frame.f_back
    return False
