"""Pre-training: what is inside of a shape, from a cloud of what cameras see of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
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

_BITS = 7
"""Cells of the curve through space: two to this power along each side."""


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
        turn = _any_turn(rng)
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
        some = points[spread_out(points, count, rng)]
        half = self.positions // 2
        low, high = points.min(axis=0) - _MARGIN, points.max(axis=0) + _MARGIN
        near = points[rng.integers(len(points), size=half)] + rng.normal(0.0, _BESIDE, (half, 3))
        anywhere = rng.uniform(low, high, (self.positions - half, 3))
        positions = np.concatenate([near, anywhere])
        size = rng.uniform(1.0 - self.scale, 1.0 + self.scale)
        inside = seen.shape.inside(positions)
        return size * some, size * points.mean(axis=0), size * positions, inside


def spread_out(
    points: Float[np.ndarray, "points 3"], count: int, rng: np.random.Generator
) -> Int[np.ndarray, "count"]:
    """Numbers of some points that lie evenly over a cloud; with repetitions only if it has too few.

    Every n-th point along a curve that fills space (Morton's), which is turned at random. What an
    encoder tells from a cloud are sums over its points: of points that are drawn one by one they
    change from draw to draw by more than a handle adds to them.
    """
    turned = points.astype(np.float64) @ _any_turn(rng).T
    low = turned.min(axis=0)
    size = max(float((turned - low).max()), 1e-9)
    cell = ((turned - low) / size * (2**_BITS - 1)).astype(np.int64)
    along = np.zeros(len(points), dtype=np.int64)
    for bit in range(_BITS):
        for axis in range(3):
            along |= ((cell[:, axis] >> bit) & 1) << (3 * bit + axis)
    order = np.argsort(along, kind="stable")
    return order[((np.arange(count) + rng.uniform()) * (len(points) / count)).astype(np.int64)]


def _any_turn(rng: np.random.Generator) -> Float[np.ndarray, "3 3"]:
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    return haar_rotations(1, generator=generator, dtype=torch.float64)[0].numpy()


def _mean(values: torch.Tensor) -> float:
    return values.mean().item() if len(values) else 0.0
