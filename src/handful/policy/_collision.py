"""Whether the hand, or what it holds, would go through the scene, told from clouds alone.

A cloud shows surfaces, not solids, so being near is no collision: a mug is meant to touch the
hanger. It is one where the held surface lies on both sides of the scene's surface. Around each
scene point near the held cloud, the scene's tangent plane is known; held points beside that point
which reach beyond the plane on either side by more than a tolerance say that the surfaces cross.
Of a level surface the solid side is known, since cameras see it from above: there it is enough to
be below it. The hand is a solid of known shape: scene points inside of it are a collision.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from handful.clouds import NeighbourIndex, PointCloud, voxel_filter
from handful.demos import Gripper, HandShape

GRAIN = 0.003
"""Both clouds are thinned to this voxel size, metres."""
REACH = 0.009
"""How far around a scene point held points are looked at, metres. Less than the thickness of a
hanger's arm: what passes on the other side of the arm does not cross its surface."""
BESIDE = 0.004
"""Of those, the ones no farther than this from the scene point's normal, metres."""
FIT, FEWEST = 0.006, 4
"""Radius of the neighbourhood that a tangent plane is fitted to, metres, and its fewest points."""
TOLERANCE = 0.003
"""Depth up to which surfaces may sink into each other, metres: clouds are no sharper."""
ROUND, FLAT = 0.5, 0.08
"""Most that a surface bends where it has a tangent plane, and where it is flat: the variance of its
points across the plane, as a share of the smaller one along it."""
LEVEL = 0.95
"""Least upward part of the normal of a level surface."""
TOO_MANY = 6
"""Crossed scene points that make a collision; fewer are noise."""
HAND_DEPTH, IN_HAND = 0.002, 4
"""Depth in the hand from which on a scene point counts, metres, and how many make a collision. Less
than above, for fingers are thin: one of 9 mm by 22 mm in a surface has about ten such points."""


class SceneSurface:
    """The surface that a scene cloud shows, ready to be asked for collisions.

    Args:
        scene: Scene cloud X, z up.
        table: Height below which nothing may reach, metres; None where there is no such plane.

    Attributes:
        points: The points of the cloud above the table, thinned.
    """

    def __init__(self, scene: PointCloud, table: float | None = None) -> None:
        points = thinned_points(scene)
        self._table = -np.inf if table is None else table
        self.points = points[points[:, 2] > self._table + GRAIN]
        self._normals, bend = _tangent_planes(points, self.points)
        self._has_plane = bend < ROUND
        self._level = (bend < FLAT) & (self._normals[:, 2] > LEVEL)

    def hand_collides(
        self, gripper: Gripper, T_scene_gripper: Float[np.ndarray, "4 4"], holding: bool
    ) -> bool:
        """Whether the described hand at a pose has scene points inside, or is in the table.

        Args:
            gripper: With a shape.
            T_scene_gripper: Where it is.
            holding: Leave the fingers out. They are closed around what is held, at a distance that
                nobody knows, and the grasp cloud shows them.
        """
        shape = gripper.shape
        if shape is None:
            return False
        if holding:
            fixed = tuple(box for box in shape.boxes if box.side == 0)
            if not fixed and not shape.meshes:
                return False
            shape = HandShape(fixed, shape.meshes)
        corners = np.concatenate([vertices for vertices, _ in shape.surfaces()])
        moved = corners @ T_scene_gripper[:3, :3].T + T_scene_gripper[:3, 3]
        if moved[:, 2].min() < self._table - TOLERANCE:
            return True
        low, high = moved.min(axis=0), moved.max(axis=0)
        close = ((self.points >= low) & (self.points <= high)).all(axis=1)
        local = (self.points[close] - T_scene_gripper[:3, 3]) @ T_scene_gripper[:3, :3]
        return int(shape.contains(local, -HAND_DEPTH).sum()) >= IN_HAND

    def crossings(self, held: Float[np.ndarray, "held 3"]) -> int:
        """How many scene points the held surface crosses, and held points are in the table.

        Args:
            held: Points of what is held, thinned, scene frame.
        """
        in_table = int((held[:, 2] < self._table - TOLERANCE).sum())
        low, high = held.min(axis=0) - REACH, held.max(axis=0) + REACH
        close = ((self.points >= low) & (self.points <= high)).all(axis=1) & self._has_plane
        if not close.any():
            return in_table
        spots, normals = self.points[close], self._normals[close]
        pairs = cKDTree(spots).sparse_distance_matrix(
            cKDTree(held), REACH, output_type="ndarray"
        )  # fmt: skip
        spot = pairs["i"]
        offset = held[pairs["j"]] - spots[spot]
        height = np.einsum("pi,pi->p", offset, normals[spot])
        beside = pairs["v"] ** 2 - height**2 < BESIDE**2
        over, under = (
            np.bincount(spot[beside & side], minlength=len(spots)) > 0
            for side in (height > TOLERANCE, height < -TOLERANCE)
        )
        return in_table + int((under & (over | self._level[close])).sum())


def thinned_points(cloud: PointCloud) -> Float[np.ndarray, "points 3"]:
    """The points of a cloud, as thin as collisions are looked for."""
    return voxel_filter(cloud, GRAIN).points.astype(np.float64)


def _tangent_planes(
    points: Float[np.ndarray, "points 3"], spots: Float[np.ndarray, "spots 3"]
) -> tuple[Float[np.ndarray, "spots 3"], Float[np.ndarray, "spots"]]:
    """Unit normals at some points, upward ones, and how much the surface bends there, 0 to 1."""
    if not len(spots):
        return np.zeros((0, 3)), np.zeros(0)
    edges = NeighbourIndex(points).around(spots, FIT)
    count = np.bincount(edges.target, minlength=len(spots))
    offset = points[edges.source] - spots[edges.target]
    moments = np.empty((len(spots), 3, 3))
    means = [np.bincount(edges.target, offset[:, i]) / count for i in range(3)]
    for i in range(3):
        for j in range(3):
            product = np.bincount(edges.target, offset[:, i] * offset[:, j]) / count
            moments[:, i, j] = product - means[i] * means[j]
    values, vectors = np.linalg.eigh(moments)
    normals = vectors[:, :, 0] * np.where(vectors[:, 2:, 0] < 0.0, -1.0, 1.0)
    bend = values[:, 0].clip(min=0.0) / values[:, 1].clip(min=1e-12)
    return normals, np.where(count >= FEWEST, bend, 1.0)
