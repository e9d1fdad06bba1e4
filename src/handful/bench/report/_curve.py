"""The learning curve: success against the number of demonstrations (the paper's figure `graph`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from handful.bench.report._statistics import Summary
from handful.demos import DemoSet
from handful.errors import OptionError

CURVE = "curve"
"""In a run's folder: one run for each number of demonstrations."""


@dataclass(frozen=True)
class CurvePoint:
    """How models did that were trained on a number of demonstrations.

    Attributes:
        demonstrations: The number.
        summary: Success in the hardest setup that was run.
    """

    demonstrations: int
    summary: Summary


def curve_run(run: Path, demonstrations: int) -> Path:
    """Folder of the models that were trained on a number of demonstrations."""
    return run / CURVE / f"demos-{demonstrations:03d}"


def first_demos(demos: DemoSet, count: int) -> DemoSet:
    """The first demonstrations of a set.

    Raises:
        OptionError: The set has fewer.
    """
    if not 1 <= count <= len(demos):
        raise OptionError(f"{count} demonstrations of {len(demos)}: need 1 to {len(demos)}.")
    return DemoSet(demos.demonstrations[:count], demos.gripper, demos.description)


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse sizes that are no increasing whole numbers."""
    if not sizes or list(sizes) != sorted(set(sizes)) or sizes[0] < 1:
        raise OptionError(f"sizes are {list(sizes)}: need increasing numbers, like 1,3,5,10.")
