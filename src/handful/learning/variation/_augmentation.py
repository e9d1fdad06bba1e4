"""Augmentation: small, seeded changes that leave a demonstration true.

Each function changes one thing and takes a numpy generator; `Augmentation` applies all of them to a
step. Angles are in radians, lengths in metres.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import Step
from handful.errors import OptionError
from handful.geometry import IsotropicGaussianSO3
from handful.learning.variation._visibility import drop_view


@dataclass(frozen=True)
class Augmentation:
    """How strongly to change a step; zero switches a change off.

    Attributes:
        target_angle: Standard deviation of each component of the target's rotation, radians.
        target_distance: Standard deviation of each component of the target's position, metres.
        point_jitter: Standard deviation of each coordinate of each point, metres.
        color_jitter: Standard deviation of the change of each colour channel, of all points
            together and of each point.
        point_dropout: The largest share of points to leave out; the share is drawn from 0 to it.
        view_dropout: Probability that one of `views` virtual cameras is taken away.
        views: How many virtual cameras `drop_view` imagines around the cloud.
        recolor: Probability that all colours are turned to others, for tasks whose objects come in
            other colours than the demonstrated ones.
        fade: Probability that all colours fade, for objects whose parts may have one colour.
    """

    target_angle: float = 0.0
    target_distance: float = 0.0
    point_jitter: float = 0.0
    color_jitter: float = 0.0
    point_dropout: float = 0.0
    view_dropout: float = 0.0
    views: int = 4
    recolor: float = 0.0
    fade: float = 0.0

    def __post_init__(self) -> None:
        for name, most in (
            ("target_angle", np.pi),
            ("target_distance", 1.0),
            ("point_jitter", 1.0),
            ("color_jitter", 1.0),
            ("recolor", 1.0),
            ("fade", 1.0),
            ("point_dropout", 0.99),
            ("view_dropout", 1.0),
        ):
            value = getattr(self, name)
            if not (np.isfinite(value) and 0 <= value <= most):
                raise OptionError(f"augmentation {name} is {value}: need 0 to {most:.3g}.")
        if self.views < 2:
            raise OptionError(f"augmentation views is {self.views}: need at least 2.")

    def apply(self, step: Step, seed: int | np.random.Generator) -> Step:
        """The step with everything changed a little; the same seed gives the same change."""
        rng = np.random.default_rng(seed)
        targets = perturb_poses(step.targets, self.target_angle, self.target_distance, rng)
        grasp = None if step.grasp is None else self.apply_to_cloud(step.grasp, rng)
        return step.changed(self.apply_to_cloud(step.scene, rng), targets, grasp)

    def apply_to_cloud(self, cloud: PointCloud, seed: int | np.random.Generator) -> PointCloud:
        """The cloud with its views, points and colours changed."""
        rng = np.random.default_rng(seed)
        if rng.uniform() < self.view_dropout:
            cloud = drop_view(cloud, self.views, rng)
        cloud = drop_points(cloud, rng.uniform(0.0, self.point_dropout), rng)
        cloud = jitter_points(cloud, self.point_jitter, rng)
        if not cloud.has_colors:
            return cloud
        if self.recolor > 0 and rng.uniform() < self.recolor:
            cloud = turn_colors(cloud, rng)
        if self.fade > 0 and rng.uniform() < self.fade:
            cloud = fade_colors(cloud, rng)
        return jitter_colors(cloud, self.color_jitter, rng)


def perturb_poses(
    poses: Float[np.ndarray, "poses 4 4"], angle: float, distance: float, rng: np.random.Generator
) -> Float[np.ndarray, "poses 4 4"]:
    """Poses turned by IG_SO(3) noise about their own origin and shifted by Gaussian noise.

    Args:
        poses: T_scene_gripper [poses, 4, 4].
        angle: Standard deviation of each component of the rotation vector, radians (small angles).
        distance: Standard deviation of each coordinate, metres.
        rng: Where the randomness comes from.
    """
    moved = poses.copy()
    if angle > 0:
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        turns = (
            _rotation_noise(angle)
            .sample(len(poses), generator=generator, dtype=torch.float64)
            .numpy()
        )
        moved[:, :3, :3] = poses[:, :3, :3] @ turns
    moved[:, :3, 3] += rng.normal(0.0, 1.0, (len(poses), 3)) * distance
    return moved


@lru_cache(maxsize=16)
def _rotation_noise(angle: float) -> IsotropicGaussianSO3:
    """The distribution with `angle` as the standard deviation of each axis; its table is kept."""
    return IsotropicGaussianSO3(angle**2 / 2.0)


def jitter_points(cloud: PointCloud, std: float, rng: np.random.Generator) -> PointCloud:
    """Gaussian noise on every coordinate."""
    if std == 0:
        return cloud
    noise = rng.normal(0.0, std, cloud.points.shape)
    points = (cloud.points + noise).astype(cloud.points.dtype)
    return PointCloud._trusted(points, cloud.colors, cloud.dropped)


def jitter_colors(cloud: PointCloud, std: float, rng: np.random.Generator) -> PointCloud:
    """Gaussian noise on every colour, and the same shift of tint and light on all of them."""
    if std == 0:
        return cloud
    colors = cloud.require_colors()
    noise = rng.normal(0.0, std, (1, 3)) + rng.normal(0.0, std, colors.shape)
    changed = (colors + noise).clip(0.0, 1.0).astype(colors.dtype)
    return PointCloud._trusted(cloud.points, changed, cloud.dropped)


def turn_colors(cloud: PointCloud, rng: np.random.Generator) -> PointCloud:
    """All colours turned or mirrored about middle grey by one random orthogonal matrix.

    What had one colour still has one, and another than its neighbours; which one says nothing.
    """
    turn, upper = np.linalg.qr(rng.normal(size=(3, 3)))
    turn = turn * np.sign(np.diag(upper))  # uniform over O(3)
    colors = cloud.require_colors()
    changed = ((colors - 0.5) @ turn + 0.5).clip(0.0, 1.0).astype(colors.dtype)
    return PointCloud._trusted(cloud.points, changed, cloud.dropped)


def fade_colors(cloud: PointCloud, rng: np.random.Generator) -> PointCloud:
    """All colours faded towards one random colour, one time in three wholly.

    The cap of a bottle is often white, and may have the bottle's colour all the same.
    """
    strength, towards = max(0.0, rng.uniform(-0.5, 1.0)), rng.uniform(size=3)
    colors = cloud.require_colors()
    changed = (strength * colors + (1.0 - strength) * towards).astype(colors.dtype)
    return PointCloud._trusted(cloud.points, changed, cloud.dropped)


def drop_points(cloud: PointCloud, share: float, rng: np.random.Generator) -> PointCloud:
    """Leave out a share of the points, drawn at random; at least two stay."""
    keep = max(2, round(len(cloud) * (1.0 - share)))
    return cloud.subsampled(keep, rng)
