"""Orthographic images from above: what a cloud looks like from infinitely far up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from handful.clouds import PointCloud, voxel_filter

CHANNELS = 4
"""Red, green, blue and height."""
BELOW = 0.02
"""Metres: noise puts points of a table below it. Left out, they would be holes that only training
shows, and a network that learned from holes finds nothing in clean images."""
THINNED = 0.001
"""Clouds are thinned to this before they are drawn, metres."""


@dataclass(frozen=True, eq=False)
class Points:
    """A coloured cloud whose points are sorted by height, the highest last.

    Turning it about a vertical axis keeps the order, so it is sorted once for all yaws.

    Attributes:
        xyz: Positions, metres.
        rgb: Colours, 0 to 1.
    """

    xyz: Float[np.ndarray, "points 3"]
    rgb: Float[np.ndarray, "points 3"]

    @classmethod
    def of(cls, cloud: PointCloud, thinned: float = THINNED) -> Points:
        """A cloud, thinned; one without colours is grey."""
        thin = voxel_filter(cloud, thinned) if thinned > 0 else cloud
        colors = thin.require_colors() if thin.has_colors else np.full((len(thin), 3), 0.5)
        return cls.sorted(thin.points.astype(np.float64), colors.astype(np.float64))

    @classmethod
    def sorted(
        cls, xyz: Float[np.ndarray, "points 3"], rgb: Float[np.ndarray, "points 3"]
    ) -> Points:
        """Points in any order."""
        order = np.argsort(xyz[:, 2], kind="stable")
        return cls(xyz[order], rgb[order])

    def moved(self, pose: Float[np.ndarray, "4 4"]) -> Points:
        """The points after a motion."""
        return Points.sorted(self.xyz @ pose[:3, :3].T + pose[:3, 3], self.rgb)


@dataclass(frozen=True)
class ImageFrame:
    """Where the pixels of a square image lie in the plane.

    Column j and row i cover x from `low[0] + j size` and y from `low[1] + i size` on.

    Attributes:
        pixels: Along each side.
        size: Side of a pixel, metres.
        low: Corner with the smallest x and y, metres.
        bottom: Height that is drawn as 0, metres. So are points up to `BELOW` lower; those that are
            lower still are left out.
        top: Greatest height over it; higher points are left out, metres.
        splat: Each point also covers this many pixels on each side of its own.
    """

    pixels: int
    size: float
    low: tuple[float, ...]
    bottom: float = 0.0
    top: float = 0.4
    splat: int = 0

    @classmethod
    def around(
        cls, center: tuple[float, ...], pixels: int, size: float, splat: int = 0
    ) -> ImageFrame:
        """A frame whose middle is between the four middle pixels."""
        half = pixels * size / 2.0
        return cls(pixels, size, (center[0] - half, center[1] - half), splat=splat)

    @classmethod
    def about_origin(cls, pixels: int, size: float, bottom: float, splat: int = 0) -> ImageFrame:
        """A frame whose pixel number `pixels // 2` along each side has its middle at the origin."""
        low = -(pixels // 2 + 0.5) * size
        return cls(pixels, size, (low, low), bottom, splat=splat)

    def draw(self, points: Points, yaw: float = 0.0, pivot: tuple[float, ...] = (0.0, 0.0)
             ) -> Float[np.ndarray, "4 pixels pixels"]:  # fmt: skip
        """The image of points that were turned by -yaw about a vertical axis; the highest wins.

        Pixels without points are zero in all channels.

        Args:
            points: What is drawn.
            yaw: A gripper of this yaw has yaw 0 in the image, radians.
            pivot: x and y of the axis.
        """
        c, s = np.cos(yaw), np.sin(yaw)
        moved = points.xyz[:, :2] - np.asarray(pivot)
        plane = moved @ np.array([[c, -s], [s, c]]) + np.asarray(pivot)
        height = points.xyz[:, 2] - self.bottom
        cells = np.floor((plane - np.asarray(self.low)) / self.size).astype(np.int64)
        kept = (height >= -BELOW) & (height <= self.top)
        height = np.maximum(height, 0.0)
        values = np.concatenate([points.rgb, height[:, None]], axis=1)[kept]
        cells = cells[kept]
        image = np.zeros((self.pixels, self.pixels, CHANNELS), dtype=np.float32)
        reach = range(-self.splat, self.splat + 1)
        shifts = [(dy, dx) for dy in reach for dx in reach]
        rows, columns = self._splatted(cells, shifts)
        inside = (rows >= 0) & (rows < self.pixels) & (columns >= 0) & (columns < self.pixels)
        which = np.repeat(np.arange(len(cells)), len(shifts))
        image[rows[inside], columns[inside]] = values[which[inside]]  # the last, highest, stays
        return np.ascontiguousarray(image.transpose(2, 0, 1))

    def _splatted(
        self, cells: Int[np.ndarray, "points 2"], shifts: list[tuple[int, int]]
    ) -> tuple[Int[np.ndarray, "covered"], Int[np.ndarray, "covered"]]:
        """Rows and columns that points cover, those of one point after the other."""
        around = np.asarray(shifts, dtype=np.int64)
        rows = cells[:, 1, None] + around[None, :, 0]
        columns = cells[:, 0, None] + around[None, :, 1]
        return rows.ravel(), columns.ravel()

    def pixel_of(self, x: float, y: float) -> tuple[int, int]:
        """Row and column of a position; they may lie outside."""
        column, row = np.floor((np.array([x, y]) - np.asarray(self.low)) / self.size).astype(int)
        return int(row), int(column)

    def holds(self, row: int, column: int) -> bool:
        """Whether there is such a pixel."""
        return 0 <= row < self.pixels and 0 <= column < self.pixels

    def middles(self) -> Float[np.ndarray, "pixels pixels 2"]:
        """X and y of the middle of every pixel [row, column]."""
        along = (np.arange(self.pixels) + 0.5) * self.size
        x, y = np.meshgrid(along + self.low[0], along + self.low[1])
        return np.stack([x, y], axis=-1)

    def contains(self, plane: Float[np.ndarray, "*any 2"]) -> Bool[np.ndarray, "*any"]:
        """Which positions lie inside of the image."""
        offset = plane - np.asarray(self.low)
        return ((offset >= 0.0) & (offset < self.pixels * self.size)).all(axis=-1)
