"""Yes or no, with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether something is possible, or went well.

    Attributes:
        ok: Yes or no.
        reason: Why, for people; on yes, what was seen.
    """

    ok: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.ok)  # a callback may well answer with numpy's kind of yes
