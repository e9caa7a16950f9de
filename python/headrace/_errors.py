"""Exceptions: one class for each code of a failure, and the standard class a user would expect besides."""

from __future__ import annotations

import builtins

from . import _core


class HeadraceError(Exception):
    """A failure that headrace reports.

    ``code`` and ``layer`` say what went wrong and who found out, ``key``, ``offset`` and ``length`` (bytes) where, and
    ``cause`` and ``errno`` what the system or a library said. What is not known is None.
    """

    code: str | None = None
    layer: str | None = None
    key: str | None = None
    offset: int | None = None
    length: int | None = None
    cause: str | None = None
    errno: int | None = None

    def __str__(self) -> str:  # KeyError and FileNotFoundError would show the text quoted, or an errno
        return str(self.args[0]) if self.args else type(self).__name__


class InvalidArgumentError(HeadraceError, ValueError):
    """Something was asked for that cannot be: a wrong shape, type or option."""


class NotFoundError(HeadraceError, KeyError, FileNotFoundError):
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


class ResourceExhaustedError(HeadraceError, MemoryError):
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
_core.set_exception_classes(BY_CODE)
