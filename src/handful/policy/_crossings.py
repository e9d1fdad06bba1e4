"""How far what is held may seem to go through the scene: as far as demonstrations show.

Clouds are no sharper than some millimetres. A peg in its hole, or a lid in its groove, seems to
cross what is around it, and a check that knows nothing of the task refuses the very poses that were
demonstrated. What the demonstrated poses show is therefore measured in training, with the same
check, and allowed in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.demos import Step
from handful.errors import OptionError
from handful.policy._collision import TOO_MANY, SceneSurface, thinned_points

RISES = (0.03, 0.015, 0.0)
"""Metres above the pose where what is held is checked: the way down."""
UP = np.array([0.0, 0.0, 1.0])
MORE = 3.0
"""Of the crossings of the median demonstration, so many times as many are allowed besides: other
scenes and other views show more."""
MOST = 1e6
MOST_MEASURED = 20
"""Demonstrations that are measured, at most."""


@dataclass(frozen=True)
class Crossings:
    """What the median of the demonstrations shows.

    Attributes:
        counts: Crossed scene points at each of `RISES` above the pose.
    """

    counts: tuple[float, ...] = (0.0,) * len(RISES)

    def __post_init__(self) -> None:
        good = [np.isfinite(count) and 0 <= count <= MOST for count in self.counts]
        if len(good) != len(RISES) or not all(good):
            raise OptionError(
                f"crossings are {self.counts}: need {len(RISES)} numbers from 0 to {MOST:g}."
            )

    @classmethod
    def shown(cls, steps: Iterable[Step]) -> Crossings:
        """Measured at the first demonstrated pose of each step that has a grasp cloud."""
        rows: list[list[int]] = []
        for step in steps:
            if step.grasp is not None and len(rows) < MOST_MEASURED:
                surface, held = SceneSurface(step.scene), thinned_points(step.grasp)
                rows.append(list(_crossed(surface, held, step.targets[0])))
        if not rows:
            return cls()
        return cls(tuple(np.median(rows, axis=0).tolist()))

    def too_many(
        self,
        surface: SceneSurface,
        held: Float[np.ndarray, "held 3"],
        T_scene_gripper: Float[np.ndarray, "4 4"],
    ) -> bool:
        """Whether what is held goes through a scene, at a pose or on the way down to it.

        Args:
            surface: Of the scene.
            held: Points of what is held, thinned, gripper frame.
            T_scene_gripper: The pose.
        """
        crossed = _crossed(surface, held, T_scene_gripper)
        return any(
            found >= TOO_MANY + MORE * count
            for found, count in zip(crossed, self.counts, strict=True)
        )


def _crossed(
    surface: SceneSurface,
    held: Float[np.ndarray, "held 3"],
    T_scene_gripper: Float[np.ndarray, "4 4"],
) -> Iterator[int]:
    """Crossed scene points at each of `RISES`, counted when they are asked for."""
    moved = held @ T_scene_gripper[:3, :3].T + T_scene_gripper[:3, 3]
    for rise in RISES:
        yield surface.crossings(moved + rise * UP)
