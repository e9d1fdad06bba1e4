"""Poses by hand: a gripper put onto the surface of a scene, along its normal, and perturbed."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from handful.demos import Gripper
from handful.errors import OptionError

NORMAL_RADIUS = 0.015
"""Metres around a place whose points tell its normal: half of a mug's handle."""
FEWEST = 8
"""Points that tell a normal; where fewer are within the radius, the nearest so many."""
RAY_RADIUS = 0.004
"""Metres from a ray in which it hits a point: the distance between points of a usual cloud."""
LEAST_ACROSS = 0.3
"""Sine of the angle between approach and normal from which on a surface has a direction across."""
DEPTH = 0.01
"""Metres that the contact point goes below a surface: fingers must reach around a thing."""


class ScenePoints:
    """A scene that grippers are put onto.

    Args:
        points: Of the scene, scene frame, metres.
    """

    def __init__(self, points: Float[np.ndarray, "points 3"]) -> None:
        self._points = points.astype(np.float64)
        self._tree = cKDTree(self._points)

    def nearest(self, place: Float[np.ndarray, "3"]) -> Float[np.ndarray, "3"]:
        """The point of the scene that is nearest to a place."""
        return self._points[int(self._tree.query(place)[1])].copy()

    def normal(
        self, place: Float[np.ndarray, "3"], towards: Float[np.ndarray, "3"]
    ) -> Float[np.ndarray, "3"]:
        """The unit normal of the surface around a place.

        A cloud without normals has no front: the side of `towards` is taken for it.

        Args:
            place: On the surface.
            towards: A place on the side that the normal points to.
        """
        around = self._tree.query_ball_point(place, NORMAL_RADIUS)
        if len(around) < FEWEST:
            around = self._tree.query(place, k=min(FEWEST, len(self._points)))[1]
        near = self._points[np.atleast_1d(around)]
        _, axes = np.linalg.eigh(np.cov((near - near.mean(axis=0)).T))
        normal = axes[:, 0]
        return normal if normal @ (towards - place) >= 0.0 else -normal

    def hit(
        self, origin: Float[np.ndarray, "3"], direction: Float[np.ndarray, "3"]
    ) -> Float[np.ndarray, "3"] | None:
        """The first point of the scene that a ray meets, or None.

        Args:
            origin: Where the ray begins.
            direction: Where it goes, of any length.
        """
        length = float(np.linalg.norm(direction))
        if not (np.isfinite(length) and length > 0.0):
            raise OptionError(
                f"the direction of a ray is {direction}: need a vector that is not 0."
            )
        along = (self._points - origin) @ (direction / length)
        aside = np.linalg.norm(
            self._points - origin - along[:, None] * (direction / length), axis=1
        )
        met = np.flatnonzero((along > 0.0) & (aside < RAY_RADIUS))
        return self._points[met[along[met].argmin()]].copy() if len(met) else None


def snapped(
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    surface: ScenePoints,
    place: Float[np.ndarray, "3"] | None = None,
    depth: float = DEPTH,
    across: bool = False,
) -> Float[np.ndarray, "4 4"]:
    """The pose brought onto a surface.

    It approaches against the normal there, and the fingers keep the direction in which they open
    as far as the new approach allows. With `across` the approach stays, and the fingers open
    across the surface as far as it allows: they go to both sides of a wall or a rim.

    Args:
        T_scene_gripper: The pose before.
        gripper: Whose contact frame goes there.
        surface: The scene.
        place: Where; the scene point nearest to the contact point if not given.
        depth: Metres beyond the surface, along the approach, for the contact point.
        across: Open across the surface instead of approaching it.
    """
    T_scene_contact = T_scene_gripper @ gripper.T_gripper_contact
    spot = surface.nearest(T_scene_contact[:3, 3]) if place is None else place
    # The hand comes from outside: from where it is now, behind its contact point.
    normal = surface.normal(spot, spot - T_scene_contact[:3, 2])
    approach, opening = -normal, T_scene_contact[:3, 0]
    if across:
        approach = T_scene_contact[:3, 2]
        wall = normal - (normal @ approach) * approach
        if np.linalg.norm(wall) > LEAST_ACROSS:
            opening = wall if wall @ opening >= 0.0 else -wall
    T = np.eye(4)
    T[:3, :3] = _frame(approach, opening)
    T[:3, 3] = spot + depth * approach
    return T @ np.linalg.inv(gripper.T_gripper_contact)


def shifted_pose(
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    shift: tuple[float, float, float] = (0.0, 0.0, 0.0),
    turn: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Float[np.ndarray, "4 4"]:
    """The pose moved along and turned about the axes of its own contact frame.

    Args:
        T_scene_gripper: The pose before.
        gripper: Whose contact frame.
        shift: Along opening, breadth and approach, metres.
        turn: About these, a rotation vector, radians.
    """
    step = np.eye(4)
    step[:3, :3] = Rotation.from_rotvec(turn).as_matrix()
    step[:3, 3] = shift
    contact = gripper.T_gripper_contact
    return T_scene_gripper @ contact @ step @ np.linalg.inv(contact)


def _frame(
    approach: Float[np.ndarray, "3"], opening: Float[np.ndarray, "3"]
) -> Float[np.ndarray, "3 3"]:
    """Axes with z along the approach and x as near to the opening as that allows."""
    x = opening - (opening @ approach) * approach
    if np.linalg.norm(x) < 1e-6:
        x = np.eye(3)[int(np.abs(approach).argmin())]
        x = x - (x @ approach) * approach
    x = x / np.linalg.norm(x)
    return np.stack([x, np.cross(approach, x), approach], axis=1)
