"""Exceptions: one class per error code, each also derived from the standard exception that users would expect."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager

from . import _core


class HeadraceError(Exception):
    """Base class of all errors that headrace reports.

    ``code`` says what went wrong and ``layer`` which layer detected it; ``store`` (URL), ``key``, ``offset`` and
    ``length`` (bytes) say where; ``cause`` and ``errno`` hold the error of the system or a library. Unknown values are
    None.
    """

    code: str | None = None
    layer: str | None = None
    store: str | None = None
    key: str | None = None
    offset: int | None = None
    length: int | None = None
    cause: str | None = None
    errno: int | None = None
    _advice = ""

    def __str__(self) -> str:  # KeyError would quote the text, FileNotFoundError would show an errno
        text = str(self.args[0]) if self.args else type(self).__name__
        if self.store is not None and self.store not in text:
            text += f"; store {self.store}"
        return text + self._advice


@contextmanager
def naming_store(url: str) -> Iterator[None]:
    """Adds the store's URL to errors raised inside."""
    try:
        yield
    except HeadraceError as error:
        error.store = error.store or url
        raise


class InvalidArgumentError(HeadraceError, ValueError):
    """An invalid argument: a wrong shape, type or option."""


# The order of bases matters, since FileNotFoundError and MemoryError have their own __new__: FileNotFoundError must
# precede KeyError, and MemoryError must be first. Otherwise __new__ of the class fails, which some picklers use.


class NotFoundError(HeadraceError, FileNotFoundError, KeyError):
    """The array, group or file does not exist."""

    __str__ = HeadraceError.__str__


class CorruptError(HeadraceError):
    """Stored bytes violate their format: metadata, a shard index, a checksum, a compressed stream."""


class ShortReadError(HeadraceError, EOFError):
    """The stored object is shorter than its format requires."""


class StorageError(HeadraceError, OSError):
    """The operating system reported an error while reading or writing."""

    __str__ = HeadraceError.__str__


class RetriesExhaustedError(StorageError):
    """A transient error persisted through all retries."""


class TimeoutError(HeadraceError, builtins.TimeoutError):  # noqa: A001 - derives from the built-in of that name
    """The storage did not answer in time."""

    __str__ = HeadraceError.__str__


class CancelledError(HeadraceError):
    """The read was cancelled."""


class ResourceExhaustedError(MemoryError, HeadraceError):
    """Host memory, device memory or a budget of the context is exhausted."""


class UnsupportedError(HeadraceError, NotImplementedError):
    """Valid, but not implemented: the message names the feature."""


class PermissionError(HeadraceError, builtins.PermissionError):  # noqa: A001
    """The system denies access."""

    __str__ = HeadraceError.__str__


class DeviceLostError(HeadraceError, RuntimeError):
    """The GPU's context is unusable; the process must be restarted."""


class ForkedError(HeadraceError, RuntimeError):
    """An object opened before ``os.fork()`` was used in the child: reopen it there, or start workers by spawn."""

    _advice = ". In Python: open it again in the child, or send it there pickled; or start processes by spawn"


class InternalError(HeadraceError, RuntimeError):
    """A bug in headrace."""


BY_CODE: dict[str, type[HeadraceError]] = {
    "invalid argument": InvalidArgumentError,
    "not found": NotFoundError,
    "corrupt": CorruptError,
    "short": ShortReadError,
    "i/o error": StorageError,
    "retries exhausted": RetriesExhaustedError,
    "timeout": TimeoutError,
    "cancelled": CancelledError,
    "resource exhausted": ResourceExhaustedError,
    "unsupported": UnsupportedError,
    "permission denied": PermissionError,
    "device lost": DeviceLostError,
    "used after fork": ForkedError,
    "internal error": InternalError,
}
for _code, _class in BY_CODE.items():
    _class.code = _code
_core.set_exception_classes(BY_CODE)
