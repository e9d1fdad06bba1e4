"""Warped demonstrations: the same task with an object of another size, proportion and profile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import Step
from handful.errors import OptionError

REACHES = (0.03, 0.1)
"""Metres: over this distance from the focus, along upwards, the profile changes."""


@dataclass(frozen=True)
class Warp:
    """How strongly objects are warped: largest absolute logarithms of factors, 0 for none.

    Attributes:
        size: All lengths grow by one factor.
        proportion: Lengths along upwards grow by one factor, and lengths across by two others,
            along and square to a given horizontal direction.
        profile: Lengths across grow by a factor that changes with the height above or below the
            focus: a taper, a belly, a neck.
    """

    size: float = 0.0
    proportion: float = 0.0
    profile: float = 0.0

    def __post_init__(self) -> None:
        for name in ("size", "proportion", "profile"):
            if not 0 <= getattr(self, name) <= 1:
                raise OptionError(f"warp {name} is {getattr(self, name)}: need 0 to 1.")

    def draw(
        self,
        focus: Float[np.ndarray, "3"],
        middle: Float[np.ndarray, "3"],
        up: Float[np.ndarray, "3"],
        along: Float[np.ndarray, "3"],
        rng: np.random.Generator,
    ) -> WarpMap:
        """A random map of space; see `WarpMap`."""
        size = rng.uniform(-self.size, self.size)
        shares = rng.uniform(-self.proportion, self.proportion, 3) * (1.0, 0.5, 0.5)
        factors = np.exp(size + shares)
        axes = _axes(up, along)
        matrix = (axes.T * factors) @ axes
        profile = rng.uniform(-self.profile, self.profile)
        return WarpMap(matrix, profile, rng.uniform(*REACHES), axes[0], focus, middle)


@dataclass(frozen=True, eq=False)
class WarpMap:
    """x -> middle' + f(h) M (x - middle), where h is the height of x above the focus.

    M is symmetric and positive and has upwards as an eigenvector: what lies flat still lies flat,
    what stands upright still stands. f acts across only. It is one at the focus, with slope zero:
    surfaces keep their directions there, and a gripper its orientation. The focus stays in its
    place.

    Attributes:
        matrix: M.
        profile: Logarithm of f far from the focus.
        reach: Distance from the focus over which f changes, metres.
        up: Upwards, a unit vector.
        focus: Where the task happens.
        middle: What shrinks and grows about.
    """

    matrix: Float[np.ndarray, "3 3"]
    profile: float
    reach: float
    up: Float[np.ndarray, "3"]
    focus: Float[np.ndarray, "3"]
    middle: Float[np.ndarray, "3"]

    def __call__(self, points: Float[np.ndarray, "*n 3"]) -> Float[np.ndarray, "*n 3"]:
        """Where points go."""
        return self._about_middle(points) + (self.focus - self._about_middle(self.focus[None])[0])

    def _about_middle(self, points: Float[np.ndarray, "*n 3"]) -> Float[np.ndarray, "*n 3"]:
        height = (points - self.focus) @ self.up / self.reach
        factor = np.exp(self.profile * height**2 / (1.0 + height**2))
        offset = (points - self.middle) @ self.matrix
        rise = offset @ self.up
        return (
            self.middle + factor[..., None] * offset + ((1.0 - factor) * rise)[..., None] * self.up
        )

    def cloud(self, cloud: PointCloud) -> PointCloud:
        """A cloud, warped."""
        points = self(cloud.points.astype(np.float64)).astype(cloud.points.dtype)
        return PointCloud._trusted(points, cloud.colors, cloud.dropped)

    def poses(
        self, poses: Float[np.ndarray, "poses 4 4"], at: Float[np.ndarray, "3"]
    ) -> Float[np.ndarray, "poses 4 4"]:
        """Poses that go along with their point `at` (gripper frame); their rotations stay."""
        moved = poses.copy()
        where = poses[:, :3, :3] @ at + poses[:, :3, 3]
        moved[:, :3, 3] += self(where) - where
        return moved


def warped_step(step: Step, warp: WarpMap, held: WarpMap | None = None) -> Step:
    """A step whose scene, and held object at the first target, are warped.

    Args:
        step: The step.
        warp: Of the scene and of what is held, scene frame.
        held: Of what is held besides, scene frame.
    """
    first = step.targets[0]
    to_first = np.linalg.inv(first)
    at = to_first[:3, :3] @ warp.focus + to_first[:3, 3]
    grasp = step.grasp
    if grasp is not None:
        there = warp.cloud(grasp.transformed(first))
        there = there if held is None else held.cloud(there)
        grasp = there.transformed(to_first)
    return step.changed(warp.cloud(step.scene), warp.poses(step.targets, at), grasp)


def _axes(up: Float[np.ndarray, "3"], along: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3 3"]:
    """Upwards, the horizontal part of a direction, and the third axis; as rows."""
    flat = along - (along @ up) * up
    if np.linalg.norm(flat) < 0.1:  # The direction is upwards: any other will do.
        other = np.eye(3)[int(np.abs(up).argmin())]
        flat = other - (other @ up) * up
    flat = flat / np.linalg.norm(flat)
    return np.stack([up, flat, np.cross(up, flat)])
