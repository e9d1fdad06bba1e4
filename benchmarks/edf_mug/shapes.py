"""What the judge needs to know of a cloud: the mug, its handle, the hanger's arm, the table.

Everything is found by colour (the mug is red, the hanger green, the table grey) and by shape, in
any pose, and never from a model. All lengths in metres, in the frame of the cloud.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from edf_mug.cylinders import (
    Array,
    Cylinder,
    FitError,
    across_basis,
    axis_of_normals,
    circle_through,
    normals_of,
    refined,
)
from handful.clouds import PointCloud

MUG_RADII = (0.02, 0.10)
ARM_RADII = (0.003, 0.02)
POST_RADIUS = 0.02
"""A post is no thicker."""

_FIT_POINTS = 5000
_SECTORS = 36
_MIN_POINTS = 150


@dataclass(frozen=True, eq=False)
class Handle:
    """The opening between a mug's handle and its wall, a flat patch of a plane.

    Attributes:
        center: A point inside the opening.
        out: Unit vector in the plane, away from the mug's axis.
        up: Unit vector in the plane, along the mug's axis.
        normal: Unit normal of the plane.
        reach: Distance from `center` to the opening's edge in evenly spaced directions from `out`
            over `up` [directions].
    """

    center: Array
    out: Array
    up: Array
    normal: Array
    reach: Array

    @property
    def radius(self) -> float:
        """Of the largest circle around `center` that is inside the opening."""
        return float(self.reach.min())

    def clearance(self, point: Array) -> float:
        """How far inside the edge a point of the plane is, as seen from `center`; < 0 outside."""
        right, up = (point - self.center) @ self.out, (point - self.center) @ self.up
        turn = np.arctan2(up, right) % (2 * np.pi)
        angles = np.arange(len(self.reach) + 1) * (2 * np.pi / len(self.reach))
        edge = np.interp(turn, angles, np.append(self.reach, self.reach[0]))
        return float(edge - np.hypot(right, up))


@dataclass(frozen=True, eq=False)
class Mug:
    """A mug as its rim circle, wall and handle.

    Attributes:
        rim: Centre of the rim circle.
        axis: Unit vector from the bottom to the rim, out of the opening.
        outer_radius: Of the wall's outside.
        inner_radius: Of its inside.
        height: From the bottom to the rim.
        handle: Its opening; None when the handle was not seen.
        points: What was seen of the mug [points, 3].
    """

    rim: Array
    axis: Array
    outer_radius: float
    inner_radius: float
    height: float
    handle: Handle | None
    points: Array

    @property
    def wall(self) -> Cylinder:
        """Its outside; heights are counted from the rim, and negative in the mug."""
        return Cylinder(self.rim, self.axis, self.outer_radius)


@dataclass(frozen=True, eq=False)
class Hanger:
    """A post with an arm.

    Attributes:
        post: `point` is its lower end, `axis` goes to its top; `radius` is that of the largest
            round rod inside it.
        height: From the lower end to the top.
        arm: `point` is where it leaves the post, `axis` goes to its tip.
        length: Of the arm.
        points: What was seen of the hanger [points, 3].
    """

    post: Cylinder
    height: float
    arm: Cylinder
    length: float
    points: Array

    @property
    def tip(self) -> Array:
        """The arm's end."""
        return self.arm.point + self.length * self.arm.axis


@dataclass(frozen=True, eq=False)
class Table:
    """A plane: a point of it and its unit normal, towards what stands on it."""

    point: Array
    up: Array

    def height(self, points: Array) -> Array:
        """Height of points above the table [points]."""
        return (points - self.point) @ self.up


# --- colours -----------------------------------------------------------------------------------


def is_red(cloud: PointCloud) -> Array:
    """Which points are of the mug [points]."""
    red, green, blue = cloud.require_colors().T
    return (red > 0.2) & (red > 2 * green) & (red > 2 * blue)


def is_green(cloud: PointCloud) -> Array:
    """Which points are of the hanger [points]."""
    red, green, blue = cloud.require_colors().T
    return (green > 0.2) & (green > 2 * red) & (green > 2 * blue)


# --- mug ---------------------------------------------------------------------------------------


def find_mug(cloud: PointCloud) -> Mug:
    """The red mug of a cloud, in any pose.

    Raises:
        FitError: There is no mug.
    """
    points = _of_color(cloud, is_red(cloud), "red (mug)")
    rng = np.random.default_rng(0)
    some = _some(points, rng)
    normals = normals_of(some)
    axis = axis_of_normals(normals, rng)
    wall = some[np.abs(normals @ axis) < 0.2]
    first, second = across_basis(axis)
    center, radius = circle_through(np.stack([wall @ first, wall @ second], axis=1), rng, MUG_RADII)
    cylinder = Cylinder(center[0] * first + center[1] * second, axis, radius)
    outer = _closed_radii(cylinder, wall)[-1]
    skin = wall[np.abs(cylinder.distance(wall) - outer) < 0.003]
    cylinder = refined(Cylinder(cylinder.point, axis, outer), skin, MUG_RADII)
    inner = min(_closed_radii(cylinder, wall)[0], cylinder.radius - 0.001)
    return _upright(cylinder, inner, points)


def _closed_radii(cylinder: Cylinder, wall: Array) -> Array:
    """The radii, 2 mm apart, at which the wall was seen over more than half of the turn."""
    first, second = across_basis(cylinder.axis)
    offset = cylinder.across(wall)
    turn = np.arctan2(offset @ second, offset @ first)
    sector = np.floor((turn / (2 * np.pi) + 0.5) * _SECTORS).astype(int) % _SECTORS
    ring = np.floor(np.linalg.norm(offset, axis=1) / 0.002).astype(int)
    seen = np.zeros((ring.max() + 1, _SECTORS), dtype=bool)
    seen[ring, sector] = True
    closed = np.flatnonzero(seen.mean(axis=1) > 0.5)
    if not len(closed):
        raise FitError("the red points go less than half around an axis: this is no mug.")
    return (closed + 0.5) * 0.002


def _upright(cylinder: Cylinder, inner: float, points: Array) -> Mug:
    """Tell the rim from the bottom, and find the handle."""
    along, across = cylinder.along(points), cylinder.distance(points)
    wall = (across > inner - 0.003) & (across < cylinder.radius + 0.003)
    low, high = np.percentile(along[wall], [0.1, 99.9])
    middle = (low + high) / 2
    bottom = across < 0.7 * inner
    if bottom.sum() >= 20:
        turned = along[bottom].mean() > middle
    else:  # cameras that see no bottom see the inside through the opening, near the rim
        turned = along[across < (inner + cylinder.radius) / 2].mean() < middle
    axis = -cylinder.axis if turned else cylinder.axis
    rim = cylinder.point + cylinder.axis * (low if turned else high)
    height = float(high - low)
    handle = _find_handle(Cylinder(rim, axis, cylinder.radius), height, points)
    return Mug(rim, axis, cylinder.radius, float(inner), height, handle, points)


def _find_handle(wall: Cylinder, height: float, points: Array) -> Handle | None:
    along, offset = wall.along(points), wall.across(points)
    away = np.linalg.norm(offset, axis=1)
    beyond = (away > wall.radius + 0.006) & (along < 0.0) & (along > -height)
    if beyond.sum() < 40:
        return None
    out = (offset[beyond] / away[beyond, None]).mean(axis=0)
    out /= np.linalg.norm(out)
    normal = np.cross(out, wall.axis)
    right, up = offset[beyond] @ out, along[beyond]
    # The edge of the opening, seen from its middle: the nearest handle point or the wall.
    middle = np.array([(wall.radius + right.max()) / 2 - 0.003, (up.min() + up.max()) / 2])
    turn = np.arctan2(up - middle[1], right - middle[0]) % (2 * np.pi)
    sector = np.floor(turn / (2 * np.pi) * _SECTORS + 0.5).astype(int) % _SECTORS
    reach = np.full(_SECTORS, np.inf)
    np.minimum.at(reach, sector, np.hypot(right - middle[0], up - middle[1]))
    towards = np.cos(np.arange(_SECTORS) * 2 * np.pi / _SECTORS)
    to_wall = np.full(_SECTORS, np.inf)
    to_wall[towards < -0.05] = (wall.radius - middle[0]) / towards[towards < -0.05]
    reach = np.minimum(reach, to_wall)
    known = np.isfinite(reach)
    if known.mean() < 0.7:
        return None
    reach = np.interp(np.arange(_SECTORS), np.flatnonzero(known), reach[known], period=_SECTORS)
    center = wall.point + middle[0] * out + middle[1] * wall.axis
    center = center + normal * (offset[beyond] @ normal).mean()
    return Handle(center, out, wall.axis, normal, reach)


# --- hanger ------------------------------------------------------------------------------------


def find_hanger(cloud: PointCloud) -> Hanger:
    """The green hanger of a cloud, in any pose.

    Raises:
        FitError: There is no hanger with an arm.
    """
    points = _of_color(cloud, is_green(cloud), "green (hanger)")
    post = _find_post(points, np.random.default_rng(0))
    thick = float(np.percentile(post.distance(points[_near_post(post, points)]), 90))
    arm_points = _straightest(points[post.distance(points) > thick + 0.004])
    arm = _find_arm(post, thick, arm_points)
    along = post.along(points[_near_post(post, points)])
    low, high = along.min(), along.max()
    if post.along(arm.point[None])[0] < (low + high) / 2:
        post, low, high = Cylinder(post.point, -post.axis, post.radius), -high, -low
    slim = float(np.percentile(post.distance(points[_near_post(post, points)]), 20))
    length = float(arm.along(arm_points).max())
    lower_end = Cylinder(post.point + low * post.axis, post.axis, slim)
    return Hanger(lower_end, float(high - low), arm, length, points)


def _near_post(post: Cylinder, points: Array) -> Array:
    return post.distance(points) < POST_RADIUS


def _find_post(points: Array, rng: np.random.Generator, trials: int = 400) -> Cylinder:
    """The line that has points near it over the greatest length."""
    some = _some(points, rng, 1200)
    best, most = None, (0, 0)
    for start, end in some[rng.integers(len(some), size=(trials, 2))]:
        span = np.linalg.norm(end - start)
        if span < 0.06:
            continue
        line = Cylinder(start, (end - start) / span, POST_RADIUS)
        near = line.distance(some) < 0.6 * POST_RADIUS
        covered = len(np.unique(np.floor(line.along(some[near]) / 0.01)))
        if (covered, near.sum()) > most:
            best, most = line, (covered, int(near.sum()))
    if best is None:
        raise FitError("the green points are not a hanger: nothing long among them.")
    for _ in range(5):
        near = some[best.distance(some) < POST_RADIUS]
        center = near.mean(axis=0)
        best = Cylinder(center, np.linalg.svd(near - center)[2][0], POST_RADIUS)
    return best


def _straightest(points: Array) -> Array:
    """The connected group of points that is most like a rod."""
    if len(points) < 20:
        raise FitError(f"only {len(points)} points beside the hanger's post: it has no arm.")
    pairs = cKDTree(points).query_pairs(0.01, output_type="ndarray")
    graph = coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(points),) * 2)
    _, label = connected_components(graph, directed=False)
    groups = [points[label == name] for name in np.flatnonzero(np.bincount(label) >= 20)]
    if not groups:
        raise FitError("nothing but specks beside the hanger's post: it has no arm.")

    def straightness(group: Array) -> float:
        spread = np.linalg.svd(group - group.mean(axis=0), compute_uv=False)
        return float((spread[0] - 2.0 * spread[1]) / np.sqrt(len(group)))

    return max(groups, key=straightness)


def _find_arm(post: Cylinder, thick: float, points: Array) -> Cylinder:
    center = points.mean(axis=0)
    axis = np.linalg.svd(points - center)[2][0]
    if axis @ post.across(center[None])[0] < 0:
        axis = -axis
    rough = Cylinder(center, axis, 0.007)
    along = rough.along(points)
    side = points[along < along.max() - 0.006]  # without the flat end
    arm = refined(rough, side, ARM_RADII)
    # It begins where its axis leaves the post: a point per millimetre, back from its middle.
    steps = arm.point - arm.axis * np.arange(0.0, 0.2, 0.001)[:, None]
    inside = post.distance(steps) < thick
    begin = steps[int(inside.argmax())] if inside.any() else arm.point + arm.axis * along.min()
    return Cylinder(begin, arm.axis, arm.radius)


# --- table -------------------------------------------------------------------------------------


def find_table(cloud: PointCloud) -> Table:
    """The plane of most grey points; up is where the red and green points are.

    Raises:
        FitError: There are no grey points.
    """
    things = is_red(cloud) | is_green(cloud)
    points = _of_color(cloud, ~things, "grey (table)")
    rng = np.random.default_rng(0)
    some = _some(points, rng, 2000)
    a, b, c = np.moveaxis(some[rng.integers(len(some), size=(200, 3))], 1, 0)
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-12
    gaps = np.abs(normals @ some.T - np.einsum("ij,ij->i", normals, a)[:, None])
    best = (gaps < 0.002).sum(axis=1).argmax()
    flat = some[gaps[best] < 0.003]
    center = flat.mean(axis=0)
    up = np.linalg.svd(flat - center, full_matrices=False)[2][2]
    above = cloud.points[things].astype(np.float64) if things.any() else points
    return Table(center, up if np.mean((above - center) @ up) >= 0 else -up)


def _of_color(cloud: PointCloud, which: Array, name: str) -> Array:
    if which.sum() < _MIN_POINTS:
        raise FitError(f"{int(which.sum())} {name} points: need at least {_MIN_POINTS}.")
    return cloud.points[which].astype(np.float64)


def _some(points: Array, rng: np.random.Generator, count: int = _FIT_POINTS) -> Array:
    return points if len(points) <= count else points[rng.permutation(len(points))[:count]]
