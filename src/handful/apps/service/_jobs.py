"""What goes between the service and its workers: a JSON header and bytes, never pickles."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from handful.errors import FileFormatError, HandfulError, OptionError

_LENGTH = struct.Struct(">Q")


@dataclass(frozen=True)
class Message:
    """A job for a worker, or its reply.

    Attributes:
        header: JSON values.
        blobs: Files of a job, or the body of a reply.
    """

    header: dict[str, Any]
    blobs: tuple[bytes, ...] = ()

    def encoded(self) -> bytes:
        """As bytes."""
        header = json.dumps(self.header, allow_nan=False).encode()
        parts: list[bytes] = []
        for blob in (header, *self.blobs):
            parts += [_LENGTH.pack(len(blob)), blob]
        return b"".join(parts)

    @classmethod
    def decoded(cls, data: bytes) -> Message:
        """From bytes of `encoded`."""
        parts: list[bytes] = []
        start = 0
        while start < len(data):
            (length,) = _LENGTH.unpack_from(data, start)
            start += _LENGTH.size
            parts.append(data[start : start + length])
            start += length
        return cls(json.loads(parts[0]), tuple(parts[1:]))


def reply(status: int, body: str, **more: Any) -> Message:
    """A reply with an HTTP status and a JSON body."""
    return Message({"status": status, **more}, (body.encode(),))


def problem(status: int, sentence: str) -> Message:
    """A reply that says what is wrong."""
    return reply(status, json.dumps({"detail": sentence}))


def not_started(error: HandfulError) -> Message:
    """What a worker says whose models cannot be loaded."""
    return problem(422 if isinstance(error, OptionError) else 500, str(error))


def started(hello: Message) -> dict[str, Any]:
    """What a worker serves, by its first message.

    Raises:
        OptionError: It was asked for something that it cannot serve.
        FileFormatError: It cannot load its models.
    """
    content = dict(json.loads(hello.blobs[0]))
    if hello.header["status"] == 200:
        return content
    kind = OptionError if hello.header["status"] == 422 else FileFormatError
    raise kind(str(content["detail"]))


@dataclass(frozen=True)
class Uploads:
    """What was uploaded for one cloud, in the order of a message's blobs.

    Attributes:
        cloud: Name of a cloud file; empty if there is none.
        depth: Names of depth images.
        color: Names of colour images; none, or as many.
        cameras: What the caller says of the cameras, a JSON list; empty without images.
    """

    cloud: str = ""
    depth: Sequence[str] = ()
    color: Sequence[str] = ()
    cameras: str = ""

    @property
    def given(self) -> bool:
        """Whether there is anything."""
        return bool(self.cloud or self.depth or self.color or self.cameras)
