"""Progress of long reads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any


def _nothing() -> None:
    pass


def make_progress(progress: Any, what: str) -> tuple[Callable[[int, int], None] | None, Callable[[], None]]:
    """What a read calls with (chunks done, chunks in all), and what to call in the end.

    True: a bar on stderr if that is a terminal and TQDM_DISABLE is not set, by tqdm.
    """
    if not progress:
        return None, _nothing
    if callable(progress):
        return progress, _nothing
    if not sys.stderr.isatty() or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return None, _nothing
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm; or give a function of (done, total)") from None
    bar = tqdm(desc=what, unit=" chunks", leave=False)
    lock = threading.Lock()

    def report(done: int, total: int) -> None:
        with lock:  # workers call it
            bar.total = total
            bar.update(done - bar.n)

    return report, bar.close
