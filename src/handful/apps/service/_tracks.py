"""Streams that are followed: what the next frame needs to know of the last, and for how long."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Track:
    """One stream of one step.

    Attributes:
        step: Name of the step.
        state: What the next frame needs; None before the first.
        stamp: Of the last frame that had one.
        used: `time.monotonic()` of the last frame.
        lock: Frames come one after the other.
    """

    step: str
    state: dict[str, Any] | None = None
    stamp: float | None = None
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Tracks:
    """All streams, by their names; those that nobody uses are forgotten.

    Args:
        most: How many there may be.
        seconds: After so long without a frame a stream is forgotten.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._tracks: dict[str, Track] = {}

    def begin(self, step: str) -> str | None:
        """The name of a new stream, or None if there are too many."""
        self._forget()
        if len(self._tracks) >= self._most:
            return None
        name = secrets.token_urlsafe(16)
        self._tracks[name] = Track(step)
        return name

    def get(self, name: str) -> Track | None:
        """The stream of a name, or None."""
        self._forget()
        track = self._tracks.get(name)
        if track is not None:
            track.used = time.monotonic()
        return track

    def end(self, name: str) -> bool:
        """Forget a stream; whether it was there."""
        return self._tracks.pop(name, None) is not None

    def __len__(self) -> int:
        return len(self._tracks)

    def _forget(self) -> None:
        old = time.monotonic() - self._seconds
        for name in [name for name, track in self._tracks.items() if track.used < old]:
            del self._tracks[name]
