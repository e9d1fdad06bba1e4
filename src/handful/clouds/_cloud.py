"""`PointCloud`: coloured points in metres, checked once and never changed after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from handful._checks import MAX_DERIVED_SEED, check_seed, whole_number
from handful.errors import (
    CloudColorError,
    CloudScaleError,
    CloudShapeError,
    EmptyCloudError,
    NonFiniteCloudError,
    OptionError,
)

MIN_POINTS = 2
"""A single point has no shape: nothing can be learned from it or placed on it."""

MAX_EXTENT = 20.0
"""Metres. No table-top scene is wider; a cloud that is was written in millimetres."""

MIN_EXTENT = 1e-3
"""Metres. No depth camera sees an object that is smaller."""

_UNIT_OF_BYTE = np.arange(256) / 255.0

Points = Float[np.ndarray, "points 3"]


@dataclass(frozen=True, eq=False)
class PointCloud:
    """Points in metres with optional colours; immutable.

    The constructor is the boundary: it checks, drops rows that hold NaN (depth cameras write them
    where they saw nothing) and says in `dropped` how many. Everything derived from a cloud is
    trusted and not checked again.

    Attributes:
        points: Positions [points, 3] in metres, read-only, float32 (float64 when asked for).
        colors: Red, green and blue in [0, 1] [points, 3], read-only, or None when there is no
            colour. Integer input is taken as 0..255.
        dropped: How many rows of the input held NaN and were left out.
    """

    points: Float[np.ndarray, "points 3"]
    colors: Float[np.ndarray, "points 3"] | None
    dropped: int

    def __init__(
        self,
        points: Any,
        colors: Any | None = None,
        *,
        dtype: type[np.floating[Any]] = np.float32,
    ) -> None:
        """Check the arrays and keep read-only copies.

        Args:
            points: Anything numpy reads as [points, 3] numbers, in metres.
            colors: The same for colours, uint8 in 0..255 or floats in [0, 1]; None for no colour.
            dtype: `np.float32`, or `np.float64` where rounding matters.

        Raises:
            CloudError: One of its kinds, saying what is wrong and what would be right.
            OptionError: `dtype` is another one.
        """
        check_dtype(dtype)
        xyz = _numbers(points, "points")
        rgb = None if colors is None else _unit_colors(_numbers(colors, "colors"))
        if rgb is not None and len(rgb) != len(xyz):
            raise CloudShapeError(
                f"{len(xyz)} points but {len(rgb)} colours: give one colour per point, or none."
            )
        bad = np.isnan(xyz).any(axis=1)
        if rgb is not None:
            bad |= np.isnan(rgb).any(axis=1)
        dropped = int(bad.sum())
        if dropped:
            xyz = xyz[~bad]
            rgb = None if rgb is None else rgb[~bad]
        _check_count(len(xyz), f"{dropped} of {dropped + len(xyz)} rows hold NaN")
        _check_finite_metres(xyz)
        self._fill(xyz.astype(dtype), None if rgb is None else rgb.astype(dtype), dropped)

    def _fill(self, points: Points, colors: Points | None, dropped: int) -> None:
        for array in (points, colors):
            if array is not None:
                array.flags.writeable = False
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "colors", colors)
        object.__setattr__(self, "dropped", dropped)

    @classmethod
    def _trusted(cls, points: Points, colors: Points | None, dropped: int = 0) -> PointCloud:
        """Wrap fresh arrays derived from a checked cloud; only their number can be wrong."""
        _check_count(len(points), "nothing else is left")
        cloud = object.__new__(cls)
        cloud._fill(points, colors, dropped)
        return cloud

    # --- looking ---------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        size = " x ".join(f"{side:.3f}" for side in self.extent)
        color = "coloured" if self.has_colors else "no colour"
        return f"PointCloud({len(self)} points, {size} m, {color})"

    @property
    def has_colors(self) -> bool:
        """Whether the points have colours."""
        return self.colors is not None

    @property
    def bounds(self) -> tuple[Float[np.ndarray, "3"], Float[np.ndarray, "3"]]:
        """Lowest and highest corner of the axis-aligned bounding box, metres."""
        return self.points.min(axis=0), self.points.max(axis=0)

    @property
    def extent(self) -> Float[np.ndarray, "3"]:
        """Sides of the axis-aligned bounding box, metres."""
        low, high = self.bounds
        return high - low

    def require_colors(self) -> Points:
        """The colours.

        Raises:
            CloudColorError: There are none.
        """
        if self.colors is None:
            raise CloudColorError(
                "this cloud has no colours and they are needed here. Record them, or paint the "
                "cloud on purpose: cloud.painted((0.5, 0.5, 0.5))."
            )
        return self.colors

    # --- deriving --------------------------------------------------------------------------

    def transformed(self, transform: Shaped[np.ndarray, "4 4"]) -> PointCloud:
        """The cloud moved by a rigid motion: x -> R x + v, with `transform` = [[R, v], [0, 1]].

        Args:
            transform: Rigid motion [4, 4]; check it where it enters (`geometry.check_pose`).
        """
        motion = np.asarray(transform, dtype=np.float64)
        moved = self.points.astype(np.float64) @ motion[:3, :3].T + motion[:3, 3]
        return self._trusted(moved.astype(self.points.dtype), self.colors, self.dropped)

    def selected(self, which: Bool[np.ndarray, "points"] | Int[np.ndarray, "kept"]) -> PointCloud:
        """The points that a mask or an index array names."""
        colors = None if self.colors is None else self.colors[which]
        return self._trusted(self.points[which], colors, self.dropped)

    def cropped(self, workspace: Box) -> PointCloud:
        """The points inside a box, its faces included."""
        return self.selected(workspace.contains(self.points))

    def within(self, center: Shaped[np.ndarray, "3"], radius: float) -> PointCloud:
        """The points no farther than `radius` metres from `center`."""
        offset = self.points - np.asarray(center, dtype=self.points.dtype)
        return self.selected(np.einsum("ij,ij->i", offset, offset) <= radius**2)

    def subsampled(self, count: int, seed: int | np.random.Generator) -> PointCloud:
        """`count` of the points, drawn without replacement, in their order; all if fewer."""
        count = whole_number("count", count, 0, MAX_DERIVED_SEED)
        if not isinstance(seed, np.random.Generator):
            check_seed(seed, MAX_DERIVED_SEED)
        if count >= len(self):
            return self
        _check_count(max(count, 0), f"subsampled to {count}")
        rng = np.random.default_rng(seed)
        return self.selected(np.sort(rng.choice(len(self), size=count, replace=False)))

    def painted(self, color: Sequence[float]) -> PointCloud:
        """The same points, all of one colour (red, green, blue in [0, 1])."""
        rgb = _unit_colors(_numbers([color], "colors"))
        colors = np.repeat(rgb.astype(self.points.dtype), len(self), axis=0)
        return self._trusted(self.points, colors, self.dropped)

    def without_colors(self) -> PointCloud:
        """The same points with no colour."""
        return self._trusted(self.points, None, self.dropped)

    def astype(self, dtype: type[np.floating[Any]]) -> PointCloud:
        """The same cloud in another floating-point precision."""
        check_dtype(dtype)
        colors = None if self.colors is None else self.colors.astype(dtype)
        return self._trusted(self.points.astype(dtype), colors, self.dropped)


@dataclass(frozen=True)
class Box:
    """An axis-aligned box, for example a workspace; metres.

    Attributes:
        lower: Lowest x, y, z.
        upper: Highest x, y, z.
    """

    lower: tuple[float, float, float]
    upper: tuple[float, float, float]

    def __post_init__(self) -> None:
        corners = np.array([self.lower, self.upper], dtype=np.float64)
        if not np.isfinite(corners).all() or not (corners[0] < corners[1]).all():
            raise CloudShapeError(
                f"a box needs lower < upper on each axis, finite; got {self.lower}, {self.upper}."
            )

    @classmethod
    def around(cls, points: Points, margin: float) -> Box:
        """The smallest box that holds some points and `margin` metres more on every side."""
        low, high = (points.min(axis=0) - margin).tolist(), (points.max(axis=0) + margin).tolist()
        return cls((low[0], low[1], low[2]), (high[0], high[1], high[2]))

    def contains(self, points: Points) -> Bool[np.ndarray, "points"]:
        """Which points are inside, the faces included."""
        inside = (points >= np.asarray(self.lower)) & (points <= np.asarray(self.upper))
        return np.logical_and.reduce(inside, axis=1)


def concatenate(clouds: Sequence[PointCloud]) -> PointCloud:
    """All points of several clouds, in order.

    Raises:
        EmptyCloudError: No cloud was given.
        CloudColorError: Some of the clouds have colours and some have none.
    """
    if not clouds:
        raise EmptyCloudError("concatenate needs at least one cloud; got none.")
    colored = sum(cloud.has_colors for cloud in clouds)
    if 0 < colored < len(clouds):
        raise CloudColorError(
            f"{colored} of {len(clouds)} clouds have colours: use painted() on the others, or "
            "without_colors() on these."
        )
    return PointCloud._trusted(
        np.concatenate([cloud.points for cloud in clouds]),
        np.concatenate([cloud.require_colors() for cloud in clouds]) if colored else None,
        sum(cloud.dropped for cloud in clouds),
    )


def check_dtype(dtype: Any) -> None:
    """Refuse a number type that clouds do not come in."""
    if dtype not in (np.float32, np.float64):
        raise OptionError(f"dtype is {dtype}: need np.float32 or np.float64.")


def _numbers(array: Any, name: str) -> Shaped[np.ndarray, "points 3"]:
    """The input as an [n, 3] array of real numbers, integers kept as they are."""
    try:
        values = np.asarray(array)
    except (TypeError, ValueError) as error:
        raise CloudShapeError(f"{name} cannot be read as an array: {error}.") from error
    if values.size == 0:
        raise EmptyCloudError(f"{name} are empty (shape {values.shape}): need [n, 3], n >= 2.")
    if values.ndim != 2 or values.shape[1] != 3:
        raise CloudShapeError(f"{name} have shape {values.shape}: need [n, 3].")
    if values.dtype.kind not in "fiu":
        raise CloudShapeError(f"{name} are of type {values.dtype}: need real numbers.")
    return values


def _unit_colors(colors: Shaped[np.ndarray, "points 3"]) -> Points:
    if colors.dtype == np.uint8:
        return _UNIT_OF_BYTE[colors]
    values = colors.astype(np.float64)
    if colors.dtype.kind in "iu":
        values /= 255.0
    low, high = np.nanmin(values, initial=0.0), np.nanmax(values, initial=0.0)
    if low < 0.0 or high > 1.0 + 1e-6:
        found = f"{np.nanmin(colors)}..{np.nanmax(colors)}"
        raise CloudColorError(
            f"colours span {found}: need floats in [0, 1], or integers in 0..255 "
            "(divide floats that mean 0..255 by 255)."
        )
    return values.clip(0.0, 1.0)


def _check_count(count: int, reason: str) -> None:
    if count < MIN_POINTS:
        raise EmptyCloudError(
            f"a cloud of {count} usable point{'s' * (count != 1)} ({reason}): "
            f"need at least {MIN_POINTS}."
        )


def _check_finite_metres(points: Shaped[np.ndarray, "points 3"]) -> None:
    infinite = ~np.isfinite(points).all(axis=1)
    if infinite.any():
        raise NonFiniteCloudError(
            f"{int(infinite.sum())} of {len(points)} points are infinite: write NaN where the "
            "camera saw nothing, or leave those points out."
        )
    low, high = points.min(axis=0).astype(np.float64), points.max(axis=0).astype(np.float64)
    with np.errstate(over="ignore"):
        extent = float((high - low).max())
    farthest = float(np.abs([low, high]).max())
    if max(extent, farthest / 10) > MAX_EXTENT:
        raise CloudScaleError(
            f"the cloud is {extent:.6g} wide and {farthest:.6g} from the origin; in metres a "
            f"scene is at most {MAX_EXTENT:g} wide. If it is in millimetres, multiply by 0.001 "
            "(scale=0.001 when reading a file); otherwise crop it to the workspace first."
        )
    if extent < MIN_EXTENT:
        raise CloudScaleError(
            f"the cloud is {extent:.3g} wide; in metres an object is at least {MIN_EXTENT:g}. "
            "All points may be the same one, or the unit is not the metre (scale= when reading)."
        )
