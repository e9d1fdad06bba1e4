"""The one family of errors that `handful` raises on purpose.

Every message says what is wrong, the value that was found, and what would be right. The command
line prints the message alone; a traceback means a bug in `handful`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_LONGEST_NAME = 100
"""Characters of a wrong name that a message shows; a file may hold one of any length."""


LONGEST_MESSAGE = 4_000
"""Characters of a message. What is wrong stands at its start, what would be right at its end."""


class HandfulError(Exception):
    """Root of all errors that a caller can cause and mend.

    A message quotes what was found, and a file may hold a value of any length: a message that
    is too long loses its middle.
    """

    def __str__(self) -> str:
        text = super().__str__()
        if len(text) <= LONGEST_MESSAGE:
            return text
        mark = f" ... ({len(text):,} characters) ... "
        kept = (LONGEST_MESSAGE - len(mark)) // 2
        return f"{text[:kept]}{mark}{text[-kept:]}"


class GeometryError(HandfulError, ValueError):
    """A value is not the rotation, pose or distribution parameter it should be."""


class CloudError(HandfulError, ValueError):
    """A point cloud cannot be used."""


class EmptyCloudError(CloudError):
    """A cloud has fewer than two usable points."""


class CloudShapeError(CloudError):
    """An array does not have the shape or kind of numbers a cloud needs."""


class NonFiniteCloudError(CloudError):
    """A cloud holds infinite values."""


class CloudScaleError(CloudError):
    """A cloud is not in metres."""


class CloudColorError(CloudError):
    """Colours are missing where they are needed, or out of range."""


class FileFormatError(HandfulError, ValueError):
    """A file is malformed, truncated, too large, or of an unknown format."""


class UnsafeFileError(FileFormatError):
    """A file asks for more than data, for example to run code."""


class BusyError(HandfulError, RuntimeError):
    """Another process works on the same thing."""


class ClusterError(HandfulError, RuntimeError):
    """There is no Ray cluster, or it cannot take the work."""


class DemoError(HandfulError, ValueError):
    """A demonstration or a demonstration folder is not valid."""


class OptionError(HandfulError, ValueError):
    """An option or name is unknown or out of range."""


def unknown_name_message(kind: str, name: str, valid: Iterable[str]) -> str:
    """Say that a name is unknown, suggest the nearest valid one and list them all.

    Args:
        kind: What the name names, for example ``"step"``.
        name: The name that was given.
        valid: The names that exist.
    """
    names = sorted(valid)
    name = name if isinstance(name, str) else repr(name)
    name = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    return f"unknown {kind} {name!r}.{hint} Valid: {', '.join(names)}."


@contextmanager
def errors_at(address: object) -> Iterator[None]:
    """Put an address (file, field, line) before the message of a `HandfulError` in the block."""
    try:
        yield
    except HandfulError as error:
        raise type(error)(f"{address}: {error}") from error
