"""Exceptions: one class for each code of a failure, and the standard class a user would expect besides."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from contextlib import contextmanager

from . import _core


class HeadraceError(Exception):
    """A failure that headrace reports.

    ``code`` and ``layer`` say what went wrong and who found out; ``store`` (URL), ``key`` in it, ``offset`` and ``length``
    (bytes) where; ``cause`` and ``errno`` what the system or a library said. What is not known is None.
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

    def __str__(self) -> str:  # KeyError and FileNotFoundError would show the text quoted, or an errno
        text = str(self.args[0]) if self.args else type(self).__name__
        if self.store is not None and self.store not in text:
            text += f"; store {self.store}"
        return text + self._advice


@contextmanager
def naming_store(url: str) -> Iterator[None]:
    """Failures inside say in which store they came about."""
    try:
        yield
    except HeadraceError as error:
        error.store = error.store or url
        raise


class InvalidArgumentError(HeadraceError, ValueError):
    """Something was asked for that cannot be: a wrong shape, type or option."""


# FileNotFoundError and MemoryError are made in their own way: a class that lists them behind another one cannot be made
# again by its __new__, as some picklers do.


class NotFoundError(HeadraceError, FileNotFoundError, KeyError):
    """There is no such array, group or file."""

    __str__ = HeadraceError.__str__


class CorruptError(HeadraceError):
    """Stored bytes break their format: metadata, a shard's index, a checksum, a compressed stream."""


class ShortReadError(HeadraceError, EOFError):
    """Fewer bytes are stored than the format promises."""


class StorageError(HeadraceError, OSError):
    """The system refused to read or write."""

    __str__ = HeadraceError.__str__


class RetriesExhaustedError(StorageError):
    """A failure that passes by itself lasted longer than the retries."""


class TimeoutError(HeadraceError, builtins.TimeoutError):  # noqa: A001 - the standard one, and ours
    """Storage did not answer in time."""

    __str__ = HeadraceError.__str__


class CancelledError(HeadraceError):
    """The read was cancelled."""


class ResourceExhaustedError(MemoryError, HeadraceError):
    """Memory of the host or the device, or a budget of the context, does not suffice."""


class UnsupportedError(HeadraceError, NotImplementedError):
    """Well formed, but not implemented: the message names the feature."""


class PermissionError(HeadraceError, builtins.PermissionError):  # noqa: A001
    """The system denies access."""

    __str__ = HeadraceError.__str__


class DeviceLostError(HeadraceError, RuntimeError):
    """The GPU's context is unusable; the process has to be started again."""


class ForkedError(HeadraceError, RuntimeError):
    """Something opened before ``os.fork()`` was used in the child: open it again there, or start workers by spawn."""

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
