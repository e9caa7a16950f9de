"""Records where the time of each batch went, in a ring of fixed size with one row per batch, and sums it up per epoch."""

from __future__ import annotations

import dataclasses
from collections import deque
from typing import Any

import numpy as np

from . import _core

#: Columns as the native loader fills them. Times are seconds of time.monotonic(); "left" is set when the next batch is requested.
COLUMNS = ("epoch", "number", "together", "planned", "begun", "ready", "asked", "given", "read_seconds", "decode_seconds", "place_seconds",
           "chunks", "kept_chunks", "read_bytes", "decoded_bytes", "left")
_PATHS = {"direct_bytes": "O_DIRECT", "engine_bytes": "buffered, through the engine", "buffered_bytes": "page cache", "memory_bytes": "memory",
          "mapped_bytes": "page cache, mapped for the device", "store_bytes": "a store of your own, or a remote one", "cache_bytes": "the disk cache of a remote store",
          "packed_bytes": "packed in ZIP files"}


class Timings:
    """Times of the last batches. The memory is allocated once."""

    def __init__(self, capacity: int = 4096) -> None:
        self.ring = _core.BatchTimes(capacity)  #: the native loader adds one row per batch

    @property
    def count(self) -> int:
        """Number of batches recorded, including overwritten ones."""
        return self.ring.count

    def leave(self, now: float) -> None:
        """Marks the last batch as used: the epoch ended, or the loop was left."""
        self.ring.leave(now)

    def rows(self) -> np.ndarray[Any, Any]:
        """A copy of the rows, oldest first, one column per entry of COLUMNS."""
        return np.frombuffer(bytearray(self.ring.rows())).reshape(-1, len(COLUMNS))


def numbers_of(stats: _core.Stats) -> dict[str, float]:
    return {name: value for name in dir(stats) if not name.startswith("_") and isinstance(value := getattr(stats, name), int | float)}


@dataclasses.dataclass(frozen=True)
class EpochStats:
    """Statistics of one epoch, or of the part of it that was consumed."""

    epoch: int
    batches: int
    seconds: float  #: duration of the loop
    wait_seconds: float  #: part of `seconds` that the loop waited for batches
    chunks: int  #: chunks of its batches: read, missing or cached
    kept_chunks: int  #: part of `chunks` found in the decoded cache (cache_bytes)
    read_bytes: int
    decoded_bytes: int
    bytes_by_path: dict[str, int]  #: `read_bytes` by path
    stage_seconds: dict[str, float]  #: seconds of all threads: "read", "decode", "place"

    @property
    def wait_share(self) -> float:
        return min(1.0, self.wait_seconds / self.seconds) if self.seconds > 0 else 0.0

    @property
    def kept_share(self) -> float:
        return self.kept_chunks / self.chunks if self.chunks else 0.0

    @property
    def bottleneck(self) -> str:
        """The bottleneck, in one sentence."""
        share = self.wait_share
        if share <= 0.05:
            return f"The loop is the limit: it waited for batches {share:.0%} of its time."
        stage = max(self.stage_seconds, key=self.stage_seconds.__getitem__)
        what = {"read": "reading from the store", "decode": "decoding", "place": "placing the elements, or copying them to the device"}[stage]
        rest = "sometimes delays the loop" if share <= 0.5 else "is the limit"
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
    """Turns counters into statistics per epoch."""

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
        """The epochs that have ended, and the running one so far."""
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
