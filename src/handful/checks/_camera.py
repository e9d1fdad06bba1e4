"""How far a camera is off: the described hand is registered to the cloud that the camera sees.

The arm says where the hand is. If the hand in the cloud is elsewhere, then the pose of the camera
is wrong by the motion between the two (or the arm, or the description of the hand, is).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud, voxel_filter
from handful.demos import Gripper
from handful.errors import DemoError, EmptyCloudError
from handful.render import surface_points

GRAIN = 0.003
"""Metres between the points that are registered."""
SURFACE = 6000
"""Points on the surface of the hand: one every millimetre or two."""
LOOK = 0.12
"""Metres around the hand where its points are looked for."""
BEHIND = 0.01
"""Metres behind the back of the hand from which on points are the arm's."""
STARTS = 0.035
"""Metres between the places that registration starts from, on each axis."""
GATES = (0.03, 0.02, 0.012, 0.008, 0.006, 0.006)
"""Metres: points farther than this from the hand do not count, from round to round."""
ROUNDS = 6
"""Steps of registration with each gate."""
ON = 0.004
"""Metres: points nearer than this are on the hand."""
INSIDE = 0.006
"""Metres under the surface from which on points speak against a place."""
BESIDE = 0.02
"""Metres: points this near to the hand and not on it are beside it."""
SEEN, UNCLEAR, FLAT = 0.25, 4.0, 0.01
"""The hand is in the cloud if the share of its surface with points, less `UNCLEAR` times what it
does not explain, is at least `SEEN`, and if its seen sides are not all parallel (`_sides`). One
camera sees 0.43 to 0.51 of three hands and leaves less than 0.001 unexplained; without a hand in
the scene the best place has 0.17 at most."""
FINEST = 5
"""Of the registrations from all starts, how many are gone on with."""
DESCRIPTION = 0.001
"""Metres that the description of a hand is off by, and degrees beside, at best: boxes."""
MOST_UNCERTAIN = 0.01
"""Metres of uncertainty from which on nothing can be told."""


@dataclass(frozen=True, eq=False)
class CameraCheck:
    """Where the hand is in a cloud, and where the arm says it is.

    Attributes:
        found: Whether the hand is in the cloud, well enough to be measured.
        seen: Share of the hand's surface with points on it.
        T_scene_gripper: Where the arm says the hand is.
        T_scene_found: Where it is in the cloud.
        offset: From where the arm says to where it is found, at the contact point, scene frame,
            metres [3].
        angle: Between the two, radians.
        offset_error: Standard error of the length of `offset`, metres.
        angle_error: Standard error of `angle`, radians.
    """

    found: bool
    seen: float
    T_scene_gripper: Float[np.ndarray, "4 4"]
    T_scene_found: Float[np.ndarray, "4 4"]
    offset: Float[np.ndarray, "3"]
    angle: float
    offset_error: float
    angle_error: float

    @property
    def correction(self) -> Float[np.ndarray, "4 4"]:
        """The motion that brings the cloud to where it should be: multiply the camera's pose by it.

        T_scene_camera, corrected = correction @ T_scene_camera.
        """
        return self.T_scene_gripper @ np.linalg.inv(self.T_scene_found)

    @property
    def is_off(self) -> bool:
        """Whether the camera is off by more than what cannot be told: two standard errors."""
        return self.found and (
            float(np.linalg.norm(self.offset)) > 2.0 * self.offset_error
            or self.angle > 2.0 * self.angle_error
        )

    def __str__(self) -> str:
        if not self.found:
            return (
                "The hand is not in the cloud, neither where the arm says nor near it (at the best "
                f"place {100 * self.seen:.0f}% of its surface have points, other points "
                "contradict): check that the camera sees the hand, that cloud "
                "and pose are of the same moment and in the same frame, and the gripper."
            )
        mm = 1e3 * self.offset
        return (
            f"The hand is {np.linalg.norm(mm):.1f} mm (+- {1e3 * self.offset_error:.1f}) and "
            f"{np.degrees(self.angle):.1f} degrees (+- {np.degrees(self.angle_error):.1f}) from "
            f"where the arm says: {mm[0]:+.1f}, {mm[1]:+.1f}, {mm[2]:+.1f} mm along x, y, z"
            + ("." if self.is_off else ", which is no more than can be measured.")
        )


def check_camera(
    cloud: PointCloud,
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    width: float | None = None,
) -> CameraCheck:
    """Register the described hand to a cloud that shows it.

    Args:
        cloud: What the camera sees, moved into the scene frame by the pose that is checked.
        T_scene_gripper: Where the arm says the gripper frame is.
        gripper: With a shape.
        width: Distance between the fingers, metres; the gripper's opening if not given.

    Raises:
        DemoError: The gripper has no shape.
    """
    if gripper.shape is None:
        raise DemoError(
            "check camera: the gripper has no shape, by which it is found in the cloud: describe "
            "its boxes or give a mesh."
        )
    hand = _Hand.of(gripper if width is None else gripper.with_width(width))
    points = _near(cloud, hand, T_scene_gripper, gripper.T_gripper_contact[:3, 2])
    if points is None:
        return _result(0.0, 0.0, T_scene_gripper, T_scene_gripper, gripper, np.eye(6))
    steps = (0.0, STARTS, -STARTS)
    starts = []
    for shift in product(steps, steps, steps):
        start = T_scene_gripper.copy()
        start[:3, 3] += shift
        starts.append(start)
    rough = [_registered(hand, points[::2], start, GATES[:3]) for start in starts]
    scores = [_score(hand, points, one) for one in rough]
    best = [rough[index] for index in np.argsort(scores)[::-1][:FINEST]]
    fine = [_registered(hand, points, start, GATES[2:]) for start in best]
    T = max(fine, key=lambda one: _score(hand, points, one) - _roughness(hand, points, one))
    seen = hand.seen(points, T)
    clear = seen - UNCLEAR * _unexplained(hand, points, T) if _sides(hand, points, T) > FLAT else 0
    return _result(seen, clear, T_scene_gripper, T, gripper, _covariance(hand, points, T))


@dataclass(frozen=True, eq=False)
class _Hand:
    """The surface of a hand, gripper frame: points, normals, a tree of the points, and its area."""

    points: Float[np.ndarray, "points 3"]
    normals: Float[np.ndarray, "points 3"]
    tree: cKDTree
    area: float

    @classmethod
    def of(cls, gripper: Gripper) -> _Hand:
        shape = gripper.shape
        assert shape is not None
        points, normals = [], []
        surfaces = shape.surfaces()
        areas = [_areas(vertices[faces]).sum() for vertices, faces in surfaces]
        for (vertices, faces), area in zip(surfaces, areas, strict=True):
            triangles = vertices[faces]
            count = max(50, round(SURFACE * area / sum(areas)))
            some = surface_points(triangles, count)
            points.append(some)
            normals.append(_normals_at(some, triangles))
        on, across = np.concatenate(points), np.concatenate(normals)
        outside = ~shape.contains(on, -0.0005)  # parts overlap: what is inside is not seen
        area = sum(areas) * float(outside.mean())
        return cls(on[outside], across[outside], cKDTree(on[outside]), area)

    def seen(self, cloud: Float[np.ndarray, "cloud 3"], T: Float[np.ndarray, "4 4"]) -> float:
        """Share of the surface that has points of a cloud on it."""
        local = (cloud - T[:3, 3]) @ T[:3, :3]
        gap = cKDTree(local).query(self.points, distance_upper_bound=ON + GRAIN)[0]
        return float(np.isfinite(gap).mean())


def _areas(triangles: Float[np.ndarray, "faces 3 3"]) -> Float[np.ndarray, "faces"]:
    one, two = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    return np.linalg.norm(np.cross(one, two), axis=1) / 2.0


def _normals_at(
    points: Float[np.ndarray, "points 3"], triangles: Float[np.ndarray, "faces 3 3"]
) -> Float[np.ndarray, "points 3"]:
    """Unit normals, away from the middle of the part, of the triangles that the points are on."""
    from trimesh.triangles import closest_point

    normal = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    best, which = np.full(len(points), np.inf), np.zeros(len(points), dtype=np.int64)
    for index, triangle in enumerate(triangles):
        nearest = closest_point(np.repeat(triangle[None], len(points), axis=0), points)
        gap = np.linalg.norm(nearest - points, axis=1)
        closer = gap < best
        best[closer], which[closer] = gap[closer], index
    return normal[which]


def _near(
    cloud: PointCloud,
    hand: _Hand,
    T: Float[np.ndarray, "4 4"],
    approach: Float[np.ndarray, "3"],
) -> Float[np.ndarray, "points 3"] | None:
    """The points around the place where the hand should be, thinned; None if there are few.

    Those behind its back are left out: they are the arm's.
    """
    moved = hand.points @ T[:3, :3].T + T[:3, 3]
    low, high = moved.min(axis=0) - LOOK, moved.max(axis=0) + LOOK
    close = ((cloud.points >= low) & (cloud.points <= high)).all(axis=1)
    back = float((hand.points @ approach).min()) - BEHIND
    close[close] = (cloud.points[close] - T[:3, 3]) @ T[:3, :3] @ approach > back
    if close.sum() < 50:
        return None
    try:
        return voxel_filter(cloud.selected(close), GRAIN).points.astype(np.float64)
    except EmptyCloudError:
        return None


def _registered(
    hand: _Hand,
    cloud: Float[np.ndarray, "cloud 3"],
    start: Float[np.ndarray, "4 4"],
    gates: tuple[float, ...],
) -> Float[np.ndarray, "4 4"]:
    """Point-to-plane registration of the hand to a cloud, with Tukey's weights inside of a gate."""
    T = start
    for gate in gates:
        for _ in range(ROUNDS):
            found = _equations(hand, cloud, T, gate)
            if found is None:
                return T
            rows, gap, weight = found
            normal = (rows.T * weight) @ rows + 1e-9 * len(rows) * np.eye(6)
            step = np.linalg.solve(normal, rows.T @ (weight * gap))
            step *= min(1.0, 0.2 / max(float(np.linalg.norm(step[:3])), 1e-12))
            change = np.eye(4)
            change[:3, :3], change[:3, 3] = Rotation.from_rotvec(step[:3]).as_matrix(), step[3:]
            T = T @ change
            if np.abs(step).max() < 1e-6:
                break
    return T


def _equations(
    hand: _Hand,
    cloud: Float[np.ndarray, "cloud 3"],
    T: Float[np.ndarray, "4 4"],
    gate: float,
) -> (
    tuple[Float[np.ndarray, "pairs 6"], Float[np.ndarray, "pairs"], Float[np.ndarray, "pairs"]]
    | None
):
    """Rows of the linear equations for a small motion (rotation, translation) in the hand's frame.

    A cloud point p near a surface point s with normal n wants n . (p - s) to become zero.
    """
    local = (cloud - T[:3, 3]) @ T[:3, :3]
    distance, which = hand.tree.query(local, distance_upper_bound=gate)
    near = np.isfinite(distance)
    if near.sum() < 20:
        return None
    p, n = local[near], hand.normals[which[near]]
    gap = np.einsum("pi,pi->p", p - hand.points[which[near]], n)
    weight = (1.0 - (distance[near] / gate) ** 2) ** 2
    return np.concatenate([np.cross(p, n), n], axis=1), gap, weight


def _score(hand: _Hand, cloud: Float[np.ndarray, "cloud 3"], T: Float[np.ndarray, "4 4"]) -> float:
    """Share of the hand's surface that has points, less that of points beside and inside of it."""
    return hand.seen(cloud, T) - _unexplained(hand, cloud, T)


def _unexplained(
    hand: _Hand, cloud: Float[np.ndarray, "cloud 3"], T: Float[np.ndarray, "4 4"]
) -> float:
    """Points that the hand at a place does not explain, as a share of its surface.

    Those that are beside it count half: things may be near a hand, but not in it.
    """
    local = (cloud - T[:3, 3]) @ T[:3, :3]
    distance, which = hand.tree.query(local, distance_upper_bound=BESIDE)
    near = np.isfinite(distance)
    depth = np.einsum("pi,pi->p", local[near] - hand.points[which[near]], hand.normals[which[near]])
    inside = depth < -INSIDE
    beside = ~inside & (distance[near] > ON + GRAIN)
    return float((inside.sum() + 0.5 * beside.sum()) * GRAIN**2 / hand.area)


def _sides(hand: _Hand, cloud: Float[np.ndarray, "cloud 3"], T: Float[np.ndarray, "4 4"]) -> float:
    """How well the sides that are seen fix the place of the hand, 0 (one plane) to 1/3.

    The smallest eigenvalue of the mean of n n^T over normals n at points on the hand.
    """
    local = (cloud - T[:3, 3]) @ T[:3, :3]
    distance, which = hand.tree.query(local, distance_upper_bound=ON)
    normals = hand.normals[which[np.isfinite(distance)]]
    return float(np.linalg.eigvalsh(normals.T @ normals / max(len(normals), 1))[0])


def _covariance(
    hand: _Hand, cloud: Float[np.ndarray, "cloud 3"], T: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "6 6"]:
    """Of a small motion (rotation, translation) in the hand's frame.

    Neighbouring points of depth cameras err together: one in ten counts as independent.
    """
    found = _equations(hand, cloud, T, GATES[-1])
    if found is None:
        return np.eye(6)
    rows, gap, weight = found
    variance = float((weight * gap**2).sum() / weight.sum())
    normal = (rows.T * weight) @ rows / 10.0 + 1e-9 * np.eye(6)
    covariance: Float[np.ndarray, "6 6"] = variance * np.linalg.inv(normal)
    return covariance


def _roughness(
    hand: _Hand, cloud: Float[np.ndarray, "cloud 3"], T: Float[np.ndarray, "4 4"]
) -> float:
    """How far points on the hand are from its surface, as something to add to a score.

    Two places with the same points on the hand are told apart by it: 1 mm counts as a hundredth of
    the hand's surface.
    """
    found = _equations(hand, cloud, T, GATES[-1])
    return 1.0 if found is None else 10.0 * float(np.sqrt(np.mean(found[1] ** 2)))


def _result(
    seen: float,
    clear: float,
    T_scene_gripper: Float[np.ndarray, "4 4"],
    T: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    covariance: Float[np.ndarray, "6 6"],
) -> CameraCheck:
    contact = gripper.T_gripper_contact[:3, 3]
    offset = (T[:3, :3] - T_scene_gripper[:3, :3]) @ contact + T[:3, 3] - T_scene_gripper[:3, 3]
    angle = float(Rotation.from_matrix(T_scene_gripper[:3, :3].T @ T[:3, :3]).magnitude())
    # A turn about the origin moves the contact point: d = v + w x c.
    skew = np.cross(np.eye(3), contact)
    at_contact = np.concatenate([-skew.T, np.eye(3)], axis=1)
    spread = at_contact @ covariance @ at_contact.T
    offset_error = float(np.sqrt(np.linalg.eigvalsh(spread).max() + DESCRIPTION**2))
    angle_error = float(np.sqrt(np.linalg.eigvalsh(covariance[:3, :3]).max() + 0.003**2))
    found = clear >= SEEN and offset_error < MOST_UNCERTAIN
    return CameraCheck(found, seen, T_scene_gripper, T, offset, angle, offset_error, angle_error)
