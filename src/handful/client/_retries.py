"""When to ask again, and when to give up."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass

from handful._checks import shown
from handful.client._errors import ClientError, ConnectionLostError, DeadlineError, RefusedError
from handful.errors import OptionError

BUSY = (429, 503)
"""Statuses of requests that were not done, and may be asked again."""


@dataclass(frozen=True)
class Retries:
    """How often, and after how long, a request is sent again.

    Requests are questions: asking one twice changes nothing, but for a frame of a stream, which is
    sent again only if the service says that it did not look at it.

    Attributes:
        most: Retries after the first attempt.
        first: Seconds before the first retry; they double from one to the next, and each is drawn
            evenly from its half to its whole, so that callers do not come back all at once.
        longest: Seconds between two attempts, at most.
    """

    most: int = 4
    first: float = 0.1
    longest: float = 2.0

    def __post_init__(self) -> None:
        finite = math.isfinite(self.first) and math.isfinite(self.longest)
        if self.most < 0 or not finite or self.first <= 0 or self.longest < self.first:
            raise OptionError(f"{self}: need most >= 0 and 0 < first <= longest.")


@dataclass
class Attempts:
    """The attempts at one request, until its deadline.

    Attributes:
        retries: How often.
        deadline: `time.monotonic()` when the caller stops waiting.
        seconds: That the caller waits in all, for messages.
        repeatable: Whether a request that may have been done can be sent again.
        made: Attempts so far.
    """

    retries: Retries
    deadline: float
    seconds: float
    repeatable: bool = True
    made: int = 0

    @classmethod
    def within(cls, retries: Retries, seconds: float, repeatable: bool = True) -> Attempts:
        """Attempts that end after some seconds."""
        number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if not (number and math.isfinite(seconds) and seconds > 0):
            raise OptionError(f"timeout is {shown(seconds)}: need a positive number of seconds.")
        return cls(retries, time.monotonic() + seconds, seconds, repeatable)

    @property
    def left(self) -> float:
        """Seconds until the deadline.

        Raises:
            DeadlineError: It has passed.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise DeadlineError(f"there was no answer within {self.seconds:g} s.")
        return left

    def pause_after(self, error: ClientError, asked: float = 0.0) -> float:
        """Seconds to wait before the next attempt.

        Args:
            error: Why the last one failed.
            asked: Seconds that the service asked to wait.

        Raises:
            ClientError: That error, if it would not help to try again, or there is no time.
        """
        self.made += 1
        busy = isinstance(error, RefusedError) and error.status in BUSY
        lost = isinstance(error, ConnectionLostError) and self.repeatable
        if not (busy or lost) or self.made > self.retries.most:
            raise error
        pause = min(self.retries.first * 2 ** (self.made - 1), self.retries.longest)
        pause = max(pause * random.uniform(0.5, 1.0), asked)
        if time.monotonic() + pause >= self.deadline:
            raise DeadlineError(f"no answer within {self.seconds:g} s; at last: {error}") from error
        return pause
