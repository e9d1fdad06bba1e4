"""Where a picture is taken from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from handful.clouds import Intrinsics
from handful.errors import GeometryError


@dataclass(frozen=True, eq=False)
class Camera:
    """A pinhole camera at a place; optical frame as in OpenCV: x right, y down, z forward.

    Attributes:
        intrinsics: Focal lengths, principal point and size of the image, pixels.
        T_scene_camera: Maps the optical frame to the scene [4, 4]; metres.
    """

    intrinsics: Intrinsics
    T_scene_camera: Float[np.ndarray, "4 4"]

    def __post_init__(self) -> None:
        if self.intrinsics.distorted:
            raise GeometryError(
                f"{self.intrinsics} has lens distortion: pictures are drawn without a lens."
            )
        rotation = self.T_scene_camera[:3, :3]
        error = np.abs(rotation @ rotation.T - np.eye(3)).max()
        if not np.isfinite(self.T_scene_camera).all() or error > 1e-4:
            raise GeometryError(
                f"T_scene_camera is not a rigid motion (R R^T is off by {error:.2g}): give a "
                "rotation and a position, both finite."
            )

    @property
    def position(self) -> Float[np.ndarray, "3"]:
        """The optical centre in the scene, metres."""
        return self.T_scene_camera[:3, 3]

    def to_camera(self, points: Shaped[np.ndarray, "*n 3"]) -> Float[np.ndarray, "*n 3"]:
        """Scene coordinates in the optical frame, metres."""
        return (points - self.T_scene_camera[:3, 3]) @ self.T_scene_camera[:3, :3]

    def project(self, points: Shaped[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 2"]:
        """Column and row of scene points; meaningful only for points in front of the camera."""
        x, y, z = self.to_camera(points).T
        view = self.intrinsics
        return np.stack([view.fx * x / z + view.cx, view.fy * y / z + view.cy], axis=1)

    def magnified(self, factor: int) -> Camera:
        """The same view with `factor` times as many rows and columns."""
        view = self.intrinsics
        shift = (factor - 1) / 2.0
        scaled = Intrinsics(
            view.fx * factor,
            view.fy * factor,
            view.cx * factor + shift,
            view.cy * factor + shift,
            view.width * factor,
            view.height * factor,
        )
        return Camera(scaled, self.T_scene_camera)


def look_at(
    eye: Sequence[float] | Shaped[np.ndarray, "3"],
    target: Sequence[float] | Shaped[np.ndarray, "3"],
    intrinsics: Intrinsics,
    up: Sequence[float] | Shaped[np.ndarray, "3"] = (0.0, 0.0, 1.0),
) -> Camera:
    """A camera at `eye` with `target` in the middle of the optical axis and `up` upwards.

    Args:
        eye: Position of the camera in the scene, metres.
        target: What it looks at, in the scene, metres.
        intrinsics: Of the camera.
        up: Direction in the scene that shows upwards in the image. When it is the direction of
            sight, the nearest coordinate axis that is not takes its place.

    Raises:
        GeometryError: `eye` and `target` coincide, or a number is not finite.
    """
    eye_, target_, up_ = (_vector(value) for value in (eye, target, up))
    distance = float(np.linalg.norm(target_ - eye_))
    if not distance > 1e-9:
        raise GeometryError(f"look_at: eye {eye_} and target {target_} coincide; move one.")
    forward = (target_ - eye_) / distance
    right = np.cross(forward, up_)
    if np.linalg.norm(right) < 1e-6 * np.linalg.norm(up_) or not up_.any():
        right = np.cross(forward, np.roll(np.eye(3)[int(np.abs(forward).argmax())], 1))
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
    pose[:3, 3] = eye_
    return Camera(intrinsics, pose)


def _vector(value: Any) -> Float[np.ndarray, "3"]:
    vector = np.asarray(value, dtype=np.float64)
    if not np.isfinite(vector).all():
        raise GeometryError(f"look_at got {vector}: need finite numbers.")
    return vector
