"""Stretched demonstrations: the same task with a wider, narrower, taller or flatter object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import Step
from handful.errors import OptionError


@dataclass(frozen=True)
class Stretch:
    """Scene and held object are stretched together, about the point where the task happens.

    Across the scene's flattest direction, which is the table's normal where there is a table, all
    lengths grow by one factor, and along it by another. What lies flat still lies flat, what stands
    upright still stands, and what touches still touches: the pose stays right.

    Attributes:
        most: Largest absolute logarithm of both factors; 0 for none.
    """

    most: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.most <= 1:
            raise OptionError(f"stretch is {self.most}: need 0 to 1.")

    def apply(self, step: Step, focus: Float[np.ndarray, "3"], rng: np.random.Generator) -> Step:
        """The step, stretched about `focus`, a point of the scene."""
        if self.most == 0:
            return step
        along, across = np.exp(rng.uniform(-self.most, self.most, 2))
        _, axes = np.linalg.eigh(np.cov(step.scene.points.T.astype(np.float64)))
        up = axes[:, 0]
        matrix = across * np.eye(3) + (along - across) * np.outer(up, up)
        return stretched(step, matrix, focus)


def stretched(step: Step, matrix: Float[np.ndarray, "3 3"], focus: Float[np.ndarray, "3"]) -> Step:
    """A step whose scene, and held object at the first target, are mapped by x -> f + M (x - f).

    Args:
        step: The step.
        matrix: M, symmetric and positive.
        focus: f in the scene frame, metres: where gripper or held object meet the scene.
    """
    first = step.targets[0]
    targets = step.targets.copy()
    to_first = np.linalg.inv(first)
    meets = targets @ to_first @ np.append(focus, 1.0)  # the same point of the gripper elsewhere
    offset = focus - matrix @ focus
    targets[:, :3, 3] += meets[:, :3] @ matrix.T + offset - meets[:, :3]
    grasp = step.grasp
    if grasp is not None:
        grasp = _mapped(grasp.transformed(first), matrix, offset).transformed(to_first)
    return step.changed(_mapped(step.scene, matrix, offset), targets, grasp)


def _mapped(
    cloud: PointCloud, matrix: Float[np.ndarray, "3 3"], offset: Float[np.ndarray, "3"]
) -> PointCloud:
    points = (cloud.points @ matrix.T + offset).astype(cloud.points.dtype)
    return PointCloud._trusted(points, cloud.colors, cloud.dropped)
