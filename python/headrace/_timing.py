"""Where the time of each batch went: a ring of fixed size that a loop writes one row of, and what an epoch came to."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import numpy as np

from . import _core

#: As the native loader gives them. Times are seconds of time.monotonic(); the last of a row is set when the next batch is asked for.
COLUMNS = ("epoch", "number", "together", "planned", "begun", "ready", "asked", "given", "read_seconds", "decode_seconds", "place_seconds",
           "chunks", "kept_chunks", "read_bytes", "decoded_bytes", "left")
_PATHS = {"direct_bytes": "O_DIRECT", "engine_bytes": "buffered, through the engine", "buffered_bytes": "page cache", "memory_bytes": "memory",
          "mapped_bytes": "page cache, mapped for the device", "store_bytes": "a store of your own, or a remote one", "cache_bytes": "the disk cache of a remote store",
          "packed_bytes": "packed in ZIP files"}


class Timings:
    """Of the last batches. Its memory is made once: a batch costs one row of it."""

    def __init__(self, capacity: int = 4096) -> None:
        self.ring = _core.BatchTimes(capacity)  #: to which the native loader adds a row for each batch

    @property
    def count(self) -> int:
        """Of all batches ever."""
        return self.ring.count

    def leave(self, now: float) -> None:
        """The last batch has been used: an epoch ended, or the loop was left."""
        self.ring.leave(now)

    def rows(self) -> np.ndarray[Any, Any]:
        """A copy, the oldest first, one column for each of COLUMNS."""
        return np.frombuffer(bytearray(self.ring.rows())).reshape(-1, len(COLUMNS))


def numbers_of(stats: _core.Stats) -> dict[str, float]:
    return {name: value for name in dir(stats) if not name.startswith("_") and isinstance(value := getattr(stats, name), int | float)}


@dataclasses.dataclass(frozen=True)
class EpochStats:
    """What one epoch, or what was gone through of it, came to."""

    epoch: int
    batches: int
    seconds: float  #: from its loop's beginning to its end
    wait_seconds: float  #: of those, that the loop waited for batches
    chunks: int  #: of its batches: read, absent or kept
    kept_chunks: int  #: of those, that were kept decoded (cache_bytes)
    read_bytes: int
    decoded_bytes: int
    bytes_by_path: dict[str, int]  #: of read_bytes, by the way they took
    stage_seconds: dict[str, float]  #: of threads, summed: "read", "decode", "place"

    @property
    def wait_share(self) -> float:
        return min(1.0, self.wait_seconds / self.seconds) if self.seconds > 0 else 0.0

    @property
    def kept_share(self) -> float:
        return self.kept_chunks / self.chunks if self.chunks else 0.0

    @property
    def bottleneck(self) -> str:
        """One sentence."""
        share = self.wait_share
        if share <= 0.05:
            return f"The loop is the limit: it waited for batches {share:.0%} of its time."
        stage = max(self.stage_seconds, key=self.stage_seconds.__getitem__)
        what = {"read": "reading from the store", "decode": "decoding", "place": "placing the elements, or copying them to the device"}[stage]
        rest = "holds the loop up at times" if share <= 0.5 else "is the limit"
        return (f"Loading {rest}: the loop waited {share:.0%} of its time, and most of the work was {what} "
                f"({self.stage_seconds[stage]:.1f} of {sum(self.stage_seconds.values()):.1f} s of threads).")


@dataclasses.dataclass(frozen=True)
class _Begin:
    epoch: int
    now: float
    batches: int
    wait_seconds: float
    reads: dict[str, float]


class Epochs:
    """Counts from one epoch's beginning to its end."""

    def __init__(self, kept: int = 1000) -> None:
        self._done: deque[EpochStats] = deque(maxlen=kept)
        self._running: tuple[_Begin, Any] | None = None

    def begin(self, core: Any, now: float) -> _Begin:
        batches, _, wait, reads = core.stats[:4]
        begin = _Begin(core.epoch, now, batches, wait, numbers_of(reads))
        self._running = begin, core
        return begin

    def end(self, begin: _Begin, core: Any, now: float) -> None:
        if self._running is not None and self._running[0] is begin:
            self._running = None
        found = _between(begin, core, now)
        if found.batches:
            self._done.append(found)

    def all(self, now: float) -> list[EpochStats]:
        """Those that have ended, and the one that runs, up to now."""
        running = [] if self._running is None else [_between(*self._running, now)]
        return [*self._done, *(one for one in running if one.batches)]


def _between(begin: _Begin, core: Any, now: float) -> EpochStats:
    batches, _, wait, reads = core.stats[:4]
    more = {name: value - begin.reads.get(name, 0) for name, value in numbers_of(reads).items()}
    kept = int(more["kept_chunks"])
    return EpochStats(begin.epoch, batches - begin.batches, now - begin.now, wait - begin.wait_seconds,
                      int(more["chunks"] + more["missing_chunks"]) + kept, kept, int(more["read_bytes"]), int(more["decoded_bytes"]),
                      {label: int(more[name]) for name, label in _PATHS.items() if more[name] > 0},
                      {"read": more["open_seconds"] + more["read_seconds"], "decode": more["decode_seconds"],
                       "place": more["assemble_seconds"] + more["copy_seconds"]})
