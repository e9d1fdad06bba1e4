"""What one camera does to directions: a pinhole, and a lens that bends straight lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Shaped

from handful.errors import CloudShapeError

COEFFICIENTS = ("k1", "k2", "p1", "p2", "k3")
"""Of a Brown-Conrady lens, in the order of OpenCV, ROS (`plumb_bob`) and RealSense."""

_STEPS, _EXACT = 20, 1e-9


@dataclass(frozen=True)
class Intrinsics:
    """A pinhole camera, with or without lens distortion; lengths in pixels.

    A direction (x, y, 1) of the optical frame is seen at column fx x' + cx and row fy y' + cy, with

        x' = x (1 + k1 r^2 + k2 r^4 + k3 r^6) + 2 p1 x y + p2 (r^2 + 2 x^2)
        y' = y (1 + k1 r^2 + k2 r^4 + k3 r^6) + p1 (r^2 + 2 y^2) + 2 p2 x y,    r^2 = x^2 + y^2.

    Attributes:
        fx: Focal length along the image's columns.
        fy: Focal length along its rows.
        cx: Column of the principal point; pixel centres are whole numbers.
        cy: Row of the principal point.
        width: Columns of the image.
        height: Rows of the image.
        distortion: k1, k2, p1, p2 and k3 of the lens; empty where straight lines stay straight.
    """

    fx: float
    fy: float
    cx: float
    cy: float
    width: int
    height: int
    distortion: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        values = np.array([self.fx, self.fy, self.cx, self.cy, *self.distortion])
        if not np.isfinite(values).all() or self.fx <= 0 or self.fy <= 0:
            raise CloudShapeError(f"{self} needs finite numbers and positive focal lengths.")
        if self.width < 1 or self.height < 1:
            raise CloudShapeError(f"{self} needs at least one pixel.")
        if len(self.distortion) not in (0, len(COEFFICIENTS)):
            raise CloudShapeError(
                f"lens distortion {self.distortion} has {len(self.distortion)} numbers: need the "
                f"five of a Brown-Conrady lens, {', '.join(COEFFICIENTS)}, or none."
            )
        if self.distorted:
            self._check_lens()

    @classmethod
    def from_field_of_view(cls, width: int, height: int, vertical: float) -> Intrinsics:
        """Square pixels, centred, with a vertical field of view in radians."""
        focal = height / (2.0 * np.tan(vertical / 2.0))
        return cls(focal, focal, (width - 1) / 2.0, (height - 1) / 2.0, width, height)

    @property
    def distorted(self) -> bool:
        """Whether the lens bends straight lines."""
        return any(self.distortion)

    def rays(
        self, column: Shaped[np.ndarray, "pixels"], row: Shaped[np.ndarray, "pixels"]
    ) -> Float[np.ndarray, "pixels 2"]:
        """The directions (x, y, 1) that pixels see, without the last number.

        Args:
            column: Of the pixels, whole numbers or not.
            row: Likewise.
        """
        bent = np.stack([(column - self.cx) / self.fx, (row - self.cy) / self.fy], axis=1)
        return self._straightened(bent) if self.distorted else bent

    def project(self, points: Shaped[np.ndarray, "points 3"]) -> Float[np.ndarray, "points 2"]:
        """Column and row of points of the optical frame that are in front of the camera."""
        ray = points[:, :2] / points[:, 2:]
        if self.distorted:
            ray = self._bent(ray)
        return ray * np.array([self.fx, self.fy]) + np.array([self.cx, self.cy])

    def _bent(self, ray: Float[np.ndarray, "rays 2"]) -> Float[np.ndarray, "rays 2"]:
        """x', y' of x, y."""
        k1, k2, p1, p2, k3 = self.distortion
        x, y = ray.T
        r2 = x * x + y * y
        radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
        return np.stack(
            [
                x * radial + 2.0 * p1 * x * y + p2 * (r2 + 2.0 * x * x),
                y * radial + p1 * (r2 + 2.0 * y * y) + 2.0 * p2 * x * y,
            ],
            axis=1,
        )

    def _slope(self, ray: Float[np.ndarray, "rays 2"]) -> Float[np.ndarray, "rays 2 2"]:
        """Derivative of x', y' by x, y."""
        k1, k2, p1, p2, k3 = self.distortion
        x, y = ray.T
        r2 = x * x + y * y
        radial = 1.0 + r2 * (k1 + r2 * (k2 + r2 * k3))
        grow = 2.0 * (k1 + r2 * (2.0 * k2 + 3.0 * r2 * k3))
        across = x * y * grow + 2.0 * p1 * x + 2.0 * p2 * y
        slope = np.empty((len(ray), 2, 2))
        slope[:, 0, 0] = radial + x * x * grow + 2.0 * p1 * y + 6.0 * p2 * x
        slope[:, 1, 1] = radial + y * y * grow + 6.0 * p1 * y + 2.0 * p2 * x
        slope[:, 0, 1] = slope[:, 1, 0] = across
        return slope

    def _straightened(self, bent: Float[np.ndarray, "rays 2"]) -> Float[np.ndarray, "rays 2"]:
        """x, y of x', y', by Newton's method from x', y'."""
        ray = bent.copy()
        for _ in range(_STEPS):
            off = self._bent(ray) - bent
            if np.abs(off).max(initial=0.0) < _EXACT:
                break
            ray = ray - np.linalg.solve(self._slope(ray), off[:, :, None])[:, :, 0]
        return ray

    def _check_lens(self) -> None:
        """Refuse a lens that shows one direction twice, or that Newton's method cannot invert."""
        if not _invertible(self):
            raise CloudShapeError(
                f"lens distortion {self.distortion} folds the image of {self.width} x "
                f"{self.height} pixels over itself: check the order {', '.join(COEFFICIENTS)}, and "
                "that the numbers belong to this size of image."
            )


@lru_cache(maxsize=64)
def _invertible(camera: Intrinsics) -> bool:
    """Whether every direction between the middle and the edge of the image is seen once."""
    edge = np.linspace(0.0, 1.0, 17)
    across, down = edge * (camera.width - 1), edge * (camera.height - 1)
    column = np.concatenate([across, across, 0.0 * edge, 0.0 * edge + camera.width - 1])
    row = np.concatenate([0.0 * edge, 0.0 * edge + camera.height - 1, down, down])
    with np.errstate(all="ignore"):
        try:
            ray = camera.rays(column, row)
        except np.linalg.LinAlgError:
            return False
        if not np.isfinite(ray).all():
            return False
        ways = (edge[:, None, None] * ray).reshape(-1, 2)
        seen = camera.project(np.concatenate([ray, np.ones((len(ray), 1))], axis=1))
        slope = np.linalg.det(camera._slope(ways))
    return bool(np.abs(seen - np.stack([column, row], axis=1)).max() < 0.01 and slope.min() > 0.05)
