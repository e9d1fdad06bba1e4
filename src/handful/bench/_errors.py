"""What can go wrong in the benchmark that a caller can mend."""

from __future__ import annotations

from handful.errors import HandfulError


class BenchError(HandfulError, RuntimeError):
    """The benchmark cannot do what was asked."""
