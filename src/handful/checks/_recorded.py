"""Demonstrations as the checks see them: thin clouds, ready to be measured and to be changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import cKDTree

from handful.clouds import Plane, PointCloud, largest_plane, voxel_filter
from handful.demos import DemoSet, Gripper

GRAIN = 0.004
"""Metres between the points of thinned clouds; hands and handles are several times as thick."""
MOST_POINTS = 2_000_000
"""Points of a cloud that are looked at, at most: every n-th of more."""


@dataclass(frozen=True, eq=False)
class Surface:
    """Points of a cloud with what is computed from them once.

    Attributes:
        points: Thinned, metres.
    """

    points: Float[np.ndarray, "points 3"]

    @cached_property
    def tree(self) -> cKDTree:
        """For neighbours."""
        return cKDTree(self.points)

    @cached_property
    def coarse_tree(self) -> cKDTree:
        """Of every tenth point: a tree takes long to find neighbours that are far away."""
        return cKDTree(self.points[::10])

    @cached_property
    def plane(self) -> Plane | None:
        """The largest plane, or None where nothing is flat."""
        return largest_plane(self.points)

    def moved(self, motion: Float[np.ndarray, "4 4"]) -> Surface:
        """The points moved by a rigid motion."""
        return Surface(self.points @ motion[:3, :3].T + motion[:3, 3])

    def scaled(self, factor: float) -> Surface:
        """The points in another unit."""
        return Surface(self.points * factor)

    def around(self, center: Float[np.ndarray, "3"], radius: float) -> Float[np.ndarray, "some 3"]:
        """The points no farther than `radius` metres from a place."""
        return self.points[self.tree.query_ball_point(center, radius)]


@dataclass(frozen=True, eq=False)
class Shown:
    """One step of one demonstration.

    Attributes:
        demo: Name of the demonstration.
        step: Name of the step.
        holding: Whether something is in the gripper.
        scene: Scene cloud, scene frame.
        grasp: Grasp cloud, gripper frame, or None.
        targets: T_scene_gripper [targets, 4, 4].
    """

    demo: str
    step: str
    holding: bool
    scene: Surface
    grasp: Surface | None
    targets: Float[np.ndarray, "targets 4 4"]

    def with_poses(self, targets: Float[np.ndarray, "targets 4 4"]) -> Shown:
        """The same step with other target poses."""
        return replace(self, targets=targets)


@dataclass(frozen=True, eq=False)
class Recorded:
    """A demonstration set.

    Attributes:
        demos: The steps of each demonstration, in order.
        gripper: What they were shown with.
    """

    demos: tuple[tuple[Shown, ...], ...]
    gripper: Gripper

    @classmethod
    def of(cls, demos: DemoSet) -> Recorded:
        """Thin the clouds of a set; a cloud that several steps share is thinned once."""
        known: dict[int, Surface] = {}

        def surface(cloud: PointCloud) -> Surface:
            if id(cloud) not in known:
                known[id(cloud)] = Surface(thinned_points(cloud))
            return known[id(cloud)]

        return cls(
            tuple(
                tuple(
                    Shown(
                        demo.name,
                        step.name,
                        step.action.holding,
                        surface(step.scene),
                        None if step.grasp is None else surface(step.grasp),
                        step.targets,
                    )
                    for step in demo.steps
                )
                for demo in demos
            ),
            demos.gripper,
        )

    @property
    def steps(self) -> list[Shown]:
        """All steps of all demonstrations."""
        return [shown for demo in self.demos for shown in demo]

    def limited(self, names: set[str]) -> Recorded:
        """Only the demonstrations of these names."""
        return replace(self, demos=tuple(one for one in self.demos if one[0].demo in names))


def thinned_points(cloud: PointCloud) -> Float[np.ndarray, "points 3"]:
    every = -(-len(cloud) // MOST_POINTS)
    few = cloud if every == 1 else cloud.selected(np.arange(0, len(cloud), every))
    if float(few.extent.max()) > GRAIN:
        few = voxel_filter(few, GRAIN)
    return few.points.astype(np.float64)


@lru_cache(maxsize=256)
def held_points(
    grasp: Surface, gripper: Gripper
) -> tuple[Float[np.ndarray, "held 3"], Bool[np.ndarray, "held"]]:
    """What a grasp cloud shows besides the hand's body, and which of it may be fingers."""
    held = grasp.points[~gripper.is_hand(grasp.points)]
    return held, gripper.may_be_finger(held)
