"""Pre-training: what is inside of a shape, from a cloud of what cameras see of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch.nn import functional

from handful.baselines.ndf._families import FAMILIES, Shape
from handful.baselines.ndf._network import NdfNetwork
from handful.clouds import Intrinsics, cloud_from_rgbd, voxel_filter
from handful.geometry import haar_rotations
from handful.learning import Loss
from handful.render import look_at, render_rgbd

_LENS = Intrinsics.from_field_of_view(96, 96, np.deg2rad(24.0))
_DISTANCE = 0.7
"""Metres between cameras and shape."""
_ABOVE = 42.0
"""Degrees: elevation of cameras that look at a table."""
_AROUND = 35.0
"""Degrees: of cameras around a hand, by turns from above and from below."""
_UPRIGHT = 0.4
"""Share of shapes that stand; the others lie in any way."""
_BESIDE = 0.006
"""Metres: half of the positions are this far from the surface (standard deviation)."""
_MARGIN = 0.02
"""Metres around the shape where the other half lies."""


@dataclass(frozen=True, eq=False)
class SeenShape:
    """A shape, and what cameras see of it.

    Attributes:
        shape: The shape.
        points: Its cloud, in its frame, metres.
    """

    shape: Shape
    points: Float[np.ndarray, "points 3"]


@dataclass(frozen=True, eq=False)
class ShapeBank:
    """Shapes to learn from; each is drawn when it is first asked for, and remembered.

    Attributes:
        count: How many.
        voxel: Clouds are thinned to cubes of this side, metres.
        seed: The same seed gives the same shapes.
    """

    count: int
    voxel: float
    seed: int
    _seen: dict[int, SeenShape] = field(default_factory=dict, repr=False)

    def seen(self, number: int) -> SeenShape:
        """One of the shapes; families take turns."""
        if number not in self._seen:
            rng = np.random.default_rng([self.seed, number])
            shape = FAMILIES[number % len(FAMILIES)](rng)
            self._seen[number] = SeenShape(shape, _seen_points(shape, self.voxel, rng))
        return self._seen[number]


def _seen_points(
    shape: Shape, voxel: float, rng: np.random.Generator
) -> Float[np.ndarray, "points 3"]:
    """What cameras over a table or around a hand see of a shape, thinned."""
    turn = np.eye(3)
    if rng.uniform() >= _UPRIGHT:
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        turn = haar_rotations(1, generator=generator, dtype=torch.float64)[0].numpy()
    meshes = [mesh.transformed(_pose(turn)) for mesh in shape.meshes]
    corners = np.concatenate([mesh.vertices for mesh in meshes])
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2.0
    count = int(rng.choice([3, 3, 4, 6]))
    rise = [_AROUND * (-1) ** n if count == 6 else _ABOVE for n in range(count)]
    start = rng.uniform(0.0, 360.0)
    views = []
    for number, elevation in enumerate(np.deg2rad(rise)):
        azimuth = np.deg2rad(start + 360.0 * number / count)
        flat = np.cos(elevation) * np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
        eye = middle + _DISTANCE * (flat + np.array([0.0, 0.0, np.sin(elevation)]))
        views.append(render_rgbd(meshes, look_at(eye, middle, _LENS)))
    cloud = voxel_filter(cloud_from_rgbd(views), voxel)
    return (cloud.points.astype(np.float64) @ turn).astype(np.float32)


def _pose(rotation: Float[np.ndarray, "3 3"]) -> Float[np.ndarray, "4 4"]:
    pose = np.eye(4)
    pose[:3, :3] = rotation
    return pose


@dataclass(frozen=True)
class OccupancyObjective:
    """Binary cross entropy of occupancy at positions in and around shapes.

    Attributes:
        clouds: Shapes in each step.
        positions: In and around each of them.
        scale: Shapes are made larger or smaller by up to this share.
    """

    clouds: int = 8
    positions: int = 400
    scale: float = 0.15

    def loss(
        self, model: NdfNetwork, example: ShapeBank, rng: np.random.Generator, progress: float
    ) -> Loss:
        """The loss of some shapes of a bank.

        Args:
            model: What is trained.
            example: The shapes.
            rng: Of all that is drawn.
            progress: Not looked at.
        """
        drawn = [self._drawn(example.seen(int(number)), model.config.points, rng)
                 for number in rng.integers(example.count, size=self.clouds)]  # fmt: skip
        clouds, centers, positions = (
            torch.from_numpy(np.stack(part).astype(np.float32))
            for part in list(zip(*drawn, strict=True))[:3]
        )
        inside = torch.from_numpy(np.stack([one[3] for one in drawn]))
        logits, _ = model.decode(model.encode(clouds, centers), centers, positions)
        total = functional.binary_cross_entropy_with_logits(logits, inside.float())
        there = logits.detach()
        return Loss(total, total.item(), -_mean(there[inside]), -_mean(there[~inside]), ())

    def _drawn(
        self, seen: SeenShape, count: int, rng: np.random.Generator
    ) -> tuple[
        Float[np.ndarray, "points 3"],
        Float[np.ndarray, "3"],
        Float[np.ndarray, "positions 3"],
        Bool[np.ndarray, "positions"],
    ]:
        """Some points of a cloud, its mean, positions, and which of them are inside."""
        points = seen.points
        some = points[some_of(len(points), count, rng)]
        half = self.positions // 2
        low, high = points.min(axis=0) - _MARGIN, points.max(axis=0) + _MARGIN
        near = points[rng.integers(len(points), size=half)] + rng.normal(0.0, _BESIDE, (half, 3))
        anywhere = rng.uniform(low, high, (self.positions - half, 3))
        positions = np.concatenate([near, anywhere])
        size = rng.uniform(1.0 - self.scale, 1.0 + self.scale)
        inside = seen.shape.inside(positions)
        return size * some, size * points.mean(axis=0), size * positions, inside


def some_of(points: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers of some points of a cloud; with repetitions only if it has too few."""
    return rng.choice(points, size=count, replace=points < count)


def _mean(values: torch.Tensor) -> float:
    return values.mean().item() if len(values) else 0.0
