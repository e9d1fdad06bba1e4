"""What an oracle must know about a mesh, found by geometry: rim, handle, neck.

Everything works on points sampled densely on the surface, so that holes, doubled faces and open
edges, which real meshes are full of, do no harm. Meshes stand on z = 0, z up, in metres.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Shaped
from scipy import ndimage

from handful.sim._errors import ObjectRefusedError
from handful.sim.objects._parts import Handle, Neck, Rim

Points = Float[np.ndarray, "points 3"]

CELL = 0.001
"""Metres: side of the cells of silhouettes."""
ARM_ROOM = 0.0065
"""Least radius of a handle's hole, metres: the hanger's arm and a little air."""
WIDEST_NECK = 0.034
"""Largest radius that fits between the open fingers, metres."""
THICKEST_WALL = 0.02
_SECTORS = 72


def opening_center(points: Points, name: str) -> Float[np.ndarray, "2"]:
    """The middle of the opening, seen from above: where the first thing below is deep down.

    Raises:
        ObjectRefusedError: There is no opening.
    """
    height = points[:, 2].max()
    low = points[:, :2].min(axis=0) - 0.002
    cell = np.floor((points[:, :2] - low) / 0.002).astype(int)
    top = np.full(cell.max(axis=0) + 2, -1.0)
    np.maximum.at(top, (cell[:, 0], cell[:, 1]), points[:, 2])
    deep = (top >= 0) & (top < 0.55 * height)
    spots, count = ndimage.label(ndimage.binary_opening(deep, iterations=2))
    best, share = None, 0.0
    for number in range(1, count + 1):
        region = spots == number
        if not _enclosed(region, top > 0.7 * height):
            continue
        if region.sum() > share:
            best, share = region, float(region.sum())
    if best is None or share * 0.002**2 < 4e-4:
        raise ObjectRefusedError(f"{name}: no opening was found that looks upwards.")
    return (np.argwhere(best).mean(axis=0) + 0.5) * 0.002 + low


def find_rim(points: Points, name: str, depth: float = 0.02) -> Rim:
    """The edge of the opening: in every direction the wall's middle, lean and thickness.

    Args:
        points: On the surface.
        name: For messages.
        depth: How far fingers will go below the edge, metres.

    Raises:
        ObjectRefusedError: There is no opening or no wall that fits between the fingers.
    """
    center = opening_center(points, name)
    flat = points[:, :2] - center
    radius, angle = np.linalg.norm(flat, axis=1), np.arctan2(flat[:, 1], flat[:, 0])
    sector = np.floor((angle + np.pi) / (2 * np.pi) * _SECTORS).astype(int) % _SECTORS
    found, reasons = [], []
    for number in range(_SECTORS):
        mine = sector == number
        wall = _wall_of(radius[mine], points[mine, 2], depth)
        if isinstance(wall, str):
            reasons.append(wall)
            continue
        turn = (number + 0.5) / _SECTORS * 2 * np.pi - np.pi
        out = np.array([np.cos(turn), np.sin(turn), 0.0])
        top, middle, lean = wall
        up = np.array([0.0, 0.0, 1.0])
        spot = np.array([*center, 0.0]) + middle * out + top * up
        found.append((spot, -np.sin(lean) * out - np.cos(lean) * up,
                      np.cos(lean) * out - np.sin(lean) * up))  # fmt: skip
    if len(found) < _SECTORS // 4:
        why = max(set(reasons), key=reasons.count)
        raise ObjectRefusedError(f"{name}: no rim that fingers can take: {why}.")
    spots, down, outward = (np.stack(column) for column in zip(*found, strict=True))
    return Rim(spots, down, outward, depth)


def find_handle(points: Points, name: str) -> Handle:
    """The largest hole that can be seen through from the side, away from the body.

    Raises:
        ObjectRefusedError: There is none, or it is too small for the hanger's arm.
    """
    center = opening_center(points, name)
    flat = points[:, :2] - center
    radius = np.linalg.norm(flat, axis=1)
    far = flat[radius > np.percentile(radius, 99.7)].mean(axis=0)
    best: Handle | None = None
    mark = -1.0
    for offset in np.linspace(-0.3, 0.3, 13):
        turn = np.arctan2(far[1], far[0]) + offset
        outward = np.array([np.cos(turn), np.sin(turn), 0.0])
        axis = np.array([-np.sin(turn), np.cos(turn), 0.0])
        x, z = flat @ outward[:2], points[:, 2]
        handle = _hole(x, z, center, outward, axis)
        # Seen askew the bar covers less of the hole; only a clearly larger one is worth it.
        if handle is not None and handle.radius - 0.01 * abs(offset) > mark:
            best, mark = handle, handle.radius - 0.01 * abs(offset)
    if best is None:
        raise ObjectRefusedError(f"{name}: no handle with a hole was found.")
    if best.radius < ARM_ROOM:
        raise ObjectRefusedError(
            f"{name}: the hole of the handle has a radius of {best.radius * 1e3:.1f} mm; the "
            f"hanger's arm needs {ARM_ROOM * 1e3:.1f} mm."
        )
    return best


def find_neck(points: Points, name: str) -> Neck:
    """The upper end, as far down as it fits between the fingers.

    Raises:
        ObjectRefusedError: It is too wide or too short.
    """
    top = float(points[:, 2].max())
    head = points[points[:, 2] > top - 0.012]
    center = (head[:, :2].min(axis=0) + head[:, :2].max(axis=0)) / 2
    radius = np.linalg.norm(points[:, :2] - center, axis=1)
    reach, length = 0.0, 0.0
    for below in np.arange(0.002, 0.03, 0.002):
        slab = (points[:, 2] > top - below) & (points[:, 2] <= top - below + 0.002)
        wide = float(radius[slab].max()) if slab.any() else reach
        if wide > WIDEST_NECK:
            break
        reach, length = max(reach, wide), float(below)
    if length < 0.010:
        wide = 2e3 * float(radius[points[:, 2] > top - 0.012].max())
        raise ObjectRefusedError(
            f"{name}: its upper end is {wide:.0f} mm wide; the fingers take "
            f"{2e3 * WIDEST_NECK:.0f} mm at most, over 10 mm of height or more."
        )
    return Neck(top, reach, min(length, 0.026), (float(center[0]), float(center[1])))


def _wall_of(
    radius: Float[np.ndarray, "n"], z: Float[np.ndarray, "n"], depth: float
) -> tuple[float, float, float] | str:
    """Height of the edge, radius of the wall's middle there, and its lean; or what is wrong."""
    if len(radius) < 30:
        return "the wall has gaps"
    inner = radius < np.percentile(radius[z > 0.5 * z.max()], 60) + 0.012
    top = float(z[inner].max())
    layers = []
    for low, high in ((0.2, 0.5), (0.7, 1.0)):
        band = np.sort(radius[(z < top - low * depth) & (z > top - high * depth)])
        if len(band) < 3:
            return "the wall has gaps"
        steps = np.diff(band) > 0.006
        # A solid wall has two surfaces close together; what comes after a wide gap is a handle.
        close = np.flatnonzero(steps)
        end = len(band) if not len(close) else close[0] + 1
        if (
            band[end - 1] - band[0] < 0.0005
            and end < len(band)
            and band[end] - band[0] < THICKEST_WALL
        ):
            end = close[1] + 1 if len(close) > 1 else len(band)
        if band[end - 1] - band[0] > THICKEST_WALL:
            return f"the wall is more than {THICKEST_WALL * 1e3:.0f} mm thick"
        layers.append(((band[0] + band[end - 1]) / 2, top - (low + high) / 2 * depth))
    (r1, z1), (r2, z2) = layers
    lean = float(np.arctan2(r1 - r2, z1 - z2))
    if abs(lean) > 1.0:
        return "the wall is nearly level"
    return top, float(r1 + np.tan(lean) * (top - z1)), lean


def _hole(
    x: Float[np.ndarray, "n"],
    z: Float[np.ndarray, "n"],
    center: Float[np.ndarray, "2"],
    outward: Float[np.ndarray, "3"],
    axis: Float[np.ndarray, "3"],
) -> Handle | None:
    """The largest ball in a hole of the side view, on the outer side of the body."""
    low = np.array([0.0, z.min()]) - 3 * CELL
    keep = x > 0
    cell = np.floor((np.stack([x[keep], z[keep]], axis=1) - low) / CELL).astype(int)
    solid = np.zeros(cell.max(axis=0) + 4, dtype=bool)
    solid[cell[:, 0], cell[:, 1]] = True
    solid = ndimage.binary_closing(solid, iterations=2)
    spots, count = ndimage.label(~solid)
    room = ndimage.distance_transform_edt(~solid) * CELL
    border = np.unique(np.concatenate([spots[0], spots[-1], spots[:, 0], spots[:, -1]]))
    best = None
    for number in range(1, count + 1):
        if number in border:
            continue
        inside = np.where(spots == number, room, 0.0)
        at = np.unravel_index(int(inside.argmax()), inside.shape)
        if best is None or inside[at] > best[0]:
            best = (float(inside[at]), at)
    if best is None or best[0] < 0.003:
        return None
    spot = (np.array(best[1]) + 0.5) * CELL + low
    beyond = np.flatnonzero(solid[best[1][0] :, best[1][1]])
    bar = spot[0] + (beyond.mean() * CELL if len(beyond) else best[0])
    base = np.array([*center, 0.0])
    up = np.array([0.0, 0.0, 1.0])
    return Handle(base + spot[0] * outward + spot[1] * up, axis, best[0],
                  base + bar * outward + spot[1] * up, outward)  # fmt: skip


def _enclosed(region: Bool[np.ndarray, "a b"], wall: Shaped[np.ndarray, "a b"]) -> bool:
    """Whether a wall goes around a region: from its middle there is wall in most directions."""
    middle = np.argwhere(region).mean(axis=0)
    walls = np.argwhere(wall) - middle
    turns = np.floor((np.arctan2(walls[:, 1], walls[:, 0]) + np.pi) / (2 * np.pi) * 24)
    return len(np.unique(turns)) >= 20
