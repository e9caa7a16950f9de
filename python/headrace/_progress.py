"""Progress of long reads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from ._errors import InvalidArgumentError


def _nothing() -> None:
    pass


def _somebody_looks() -> bool:
    return "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())


def make_progress(progress: Any, what: str, unit: str = "chunks") -> tuple[Callable[[int, int], None] | None, Callable[[], None]]:
    """Returns a function of (done, total), or None, and a function to call at the end.

    progress=True: a tqdm bar on a terminal's stderr or in a notebook, unless TQDM_DISABLE is set.
    """
    if not progress:
        return None, _nothing
    if callable(progress):
        return progress, _nothing
    if not isinstance(progress, bool):
        raise InvalidArgumentError(f"progress is a {type(progress).__name__}; give True, or a function of (done, total)")
    if not _somebody_looks() or os.environ.get("TQDM_DISABLE", "0") not in ("", "0"):
        return None, _nothing
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm; or give a function of (done, total)") from None
    bar = tqdm(desc=what, unit=f" {unit}", leave=False)
    lock = threading.Lock()

    def report(done: int, total: int) -> None:
        with lock:  # called by worker threads
            bar.total = total
            bar.update(done - bar.n)

    return report, bar.close
