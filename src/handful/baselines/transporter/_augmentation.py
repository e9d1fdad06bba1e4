"""What training changes: a little noise, and motions in the plane of the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.baselines.transporter._image import ImageFrame, Points

TRIES = 100
"""Draws of a planar motion until the target is still in the image."""


@dataclass(frozen=True)
class ImageAugmentation:
    """How much is changed; standard deviations.

    Attributes:
        points: Of the noise of every coordinate of every point, metres.
        colors: Of the noise of every colour.
        pose_angle: Of the angle by which a demonstrated pose is turned, radians.
        pose_distance: Of the distance along each axis by which it is moved, metres.
        yaw: Of the angle by which scene and pose are turned in the plane, radians.
        shift: Of the distance along x and y by which they are moved, as a share of the image.
    """

    points: float = 0.003
    colors: float = 0.03
    pose_angle: float = np.deg2rad(2.0)
    pose_distance: float = 0.002
    yaw: float = np.deg2rad(60.0)
    shift: float = 1.0 / 6.0

    def noisy(self, points: Points, rng: np.random.Generator) -> Points:
        """Points with noise."""
        xyz = points.xyz + rng.normal(0.0, self.points, points.xyz.shape)
        rgb = np.clip(points.rgb + rng.normal(0.0, self.colors, points.rgb.shape), 0.0, 1.0)
        return Points.sorted(xyz, rgb)

    def perturbed(
        self, T_scene_contact: Float[np.ndarray, "4 4"], rng: np.random.Generator
    ) -> Float[np.ndarray, "4 4"]:
        """A pose that is turned and moved a little about the contact point."""
        axis = rng.normal(size=3)
        turn = Rotation.from_rotvec(axis / np.linalg.norm(axis) * rng.normal(0.0, self.pose_angle))
        result = T_scene_contact.copy()
        result[:3, :3] = turn.as_matrix() @ result[:3, :3]
        result[:3, 3] += rng.normal(0.0, self.pose_distance, 3)
        return result

    def motion(
        self, contact: Float[np.ndarray, "2"], image: ImageFrame, rng: np.random.Generator
    ) -> Float[np.ndarray, "4 4"]:
        """A motion of the plane after which a contact point is still in the image.

        The identity where none is found.

        Args:
            contact: x and y of the point.
            image: Its middle is what is turned about.
            rng: Source of randomness.
        """
        side = image.pixels * image.size
        middle = np.asarray(image.low) + side / 2.0
        for _ in range(TRIES):
            motion = np.eye(4)
            motion[:3, :3] = Rotation.from_euler("z", rng.normal(0.0, self.yaw)).as_matrix()
            moved = rng.normal(0.0, self.shift * side, 2)
            motion[:2, 3] = middle + moved - motion[:2, :2] @ middle
            if image.contains((motion[:2, :2] @ contact + motion[:2, 3])[None])[0]:
                return motion
        return np.eye(4)
