"""Where things stand when an episode begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.sim._cameras import WORKSPACE
from handful.sim._model import Placed
from handful.sim.objects import Pose, Thing, draw_distractor, placed, support_thing
from handful.sim.tasks._types import Setup

REACH = 0.17
"""Things stand at most this far from the table's middle, along x and y, metres; large ones less,
see `INSIDE`."""
WIDE_REACH = 0.22
"""The same where there are several pairs: they need more room."""
INSIDE = 0.29
"""Large objects, and several pairs, stand with all that is seen from above this near to the table's
middle, along x and y, metres: inside of the cameras' workspace."""
_LARGE = INSIDE - REACH
"""An object of a larger radius, seen from above, would not be `INSIDE` everywhere within `REACH`.
When it lies, its radius is measured from its middle. That of smaller ones is measured from the
origin of their frame, which is at their foot: more than need be, and for long ones more than the
table has."""
SUPPORT_HEIGHTS = (0.03, 0.14)
_HEADROOM = 0.01
"""Objects on supports stay this far below the upper end of the cameras' workspace, metres."""
_GAP = 0.035
"""Free space between things, seen from above, metres."""
DISTRACTORS = 4
"""How many stand around one pair; around several pairs stand half as many."""
_PLACE_TRIES = 2000
"""Draws of all places until things stand clear of each other."""
_DISTRACTOR_TRIES, _FEW_DISTRACTOR_TRIES = 500, 300
"""Draws of distractors until enough are found, around one pair and around several. Those that are
found needed 36 at most in 760 layouts of the tasks' own objects."""

NO_ROOM = "the things did not fit on the table"
"""Why a layout is thrown away before anything is built."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where everything is.

    Attributes:
        items: The objects, a millimetre above what they will rest on.
        targets: Hanger or tray of each.
        supports: What objects rest on, none for the table.
        distractors: Only seen.
        lying: Whether each object lies.
    """

    items: tuple[Placed, ...]
    targets: tuple[Placed, ...]
    supports: tuple[Placed, ...]
    distractors: tuple[Placed, ...]
    lying: tuple[bool, ...]

    def as_meant(self, number: int, T_scene_item: Pose) -> bool:
        """Whether an object, come to rest, still stands or lies where it was put."""
        start, lying = self.items[number].T_scene_thing, self.lying[number]
        upright = abs(float(T_scene_item[2, 2])) if lying else float(T_scene_item[2, 2])
        tilted = upright < 0.6 if lying else upright > 0.985
        moved = np.linalg.norm(T_scene_item[:2, 3] - start[:2, 3])
        dropped = start[2, 3] - T_scene_item[2, 3]
        return bool(tilted and moved < 0.05 and abs(dropped) < 0.03)


def draw_lying(setup: Setup, rng: np.random.Generator) -> bool:
    """Whether an object lies: always in `poses`, half the time in `all`."""
    return setup is Setup.POSES or (setup is Setup.ALL and rng.uniform() < 0.5)


def draw_layout(
    things: Sequence[Thing],
    targets: Sequence[Thing],
    setup: Setup,
    lying: Sequence[bool],
    rng: np.random.Generator,
) -> Layout | None:
    """Objects, targets and, if the setup says so, supports and distractors, clear of each other.

    Args:
        things: The objects.
        targets: Hanger or tray of each.
        setup: What else is there.
        lying: Whether each object lies; drawn once per episode, so that layouts that are thrown
            away do not change how often it does.
        rng: For the places.

    Returns:
        The layout, or None if the things do not fit on the table in `_PLACE_TRIES` draws.
    """
    raised = setup in (Setup.POSES, Setup.ALL)
    rotations = [_item_rotation(lies, rng) for lies in lying]
    sizes = np.array(
        [
            [thing.footprint(placed((0, 0, 0), rotation)), target.footprint(np.eye(4))]
            for thing, target, rotation in zip(things, targets, rotations, strict=True)
        ]
    )
    radii = np.array([_radius(*each) for each in zip(things, rotations, lying, strict=True)])
    sizes[:, 0] = np.where(radii > _LARGE, radii, sizes[:, 0])
    # A block under a standing object has corners beyond the object's circle.
    corners = np.array([[1.5 if raised and not lies else 1.0, 1.0] for lies in lying])
    if len(things) == 1:
        reach = np.array([[np.clip(INSIDE - radii[0], 0.0, REACH), REACH]])
    else:
        reach = np.minimum(WIDE_REACH, np.maximum(INSIDE - corners * sizes, 0.0))
    drawn = _draw_places(sizes, reach, rng)
    if drawn is None:
        return None
    spots, yaws = drawn
    items: list[Placed] = []
    supports: list[Placed] = []
    for thing, rotation, lies, spot in zip(things, rotations, lying, spots[:, 0], strict=True):
        height = rng.uniform(*_support_heights(thing, rotation)) if raised else 0.0
        T_scene_item = _item_pose(thing, rotation, lies, spot, height)
        items.append(Placed(thing, T_scene_item))
        if raised:
            supports.append(_support(thing, T_scene_item, height, spot))
        if lies and thing.rim is not None and thing.handle is None:
            supports.append(_step(thing, T_scene_item, height))
    standing = tuple(
        Placed(target, placed((*spot, 0.0), _turned(yaw)))
        for target, spot, yaw in zip(targets, spots[:, 1], yaws, strict=True)
    )
    distractors: tuple[Placed, ...] = ()
    if setup.distracting:
        free = [
            (spots[pair, kind], float(sizes[pair, kind]) + (0.02 if kind == 0 else 0.0))
            for pair in range(len(things))
            for kind in (0, 1)
        ]
        one = len(things) == 1
        count = DISTRACTORS if one else DISTRACTORS // 2
        tries = _DISTRACTOR_TRIES if one else _FEW_DISTRACTOR_TRIES
        distractors = _distract(free, count, tries, rng)
    return Layout(tuple(items), standing, tuple(supports), distractors, tuple(lying))


def _item_rotation(lying: bool, rng: np.random.Generator) -> Float[np.ndarray, "3 3"]:
    rotation = _turned(rng.uniform(-np.pi, np.pi))
    if lying:
        # On the side, turned about its own axis by any angle.
        rotation = rotation @ _tilt(np.pi / 2) @ _turned(rng.uniform(-np.pi, np.pi))
    return rotation


def _radius(thing: Thing, rotation: Float[np.ndarray, "3 3"], lying: bool) -> float:
    """Largest distance of an object from its spot, seen from above, metres."""
    middle = _middle(thing) if lying else 0.0
    flat = (thing.vertices - [0.0, 0.0, middle]) @ rotation[:2].T
    return float(np.linalg.norm(flat, axis=1).max())


def _middle(thing: Thing) -> float:
    """Height of the middle of a standing object, metres."""
    low, high = thing.bounds
    return float((low[2] + high[2]) / 2)


def _support_heights(thing: Thing, rotation: Float[np.ndarray, "3 3"]) -> tuple[float, float]:
    """Least and most height of a support from which an object does not leave the workspace."""
    low, high = SUPPORT_HEIGHTS
    tall = float(np.ptp(thing.vertices @ rotation[2]))
    return low, max(low, min(high, WORKSPACE.upper[2] - _HEADROOM - tall))


def _draw_places(
    sizes: Float[np.ndarray, "pairs 2"],
    reach: Float[np.ndarray, "pairs 2"],
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "pairs 2 2"], list[float]] | None:
    """Places of objects and targets, and turns of the targets; None if they do not fit.

    Args:
        sizes: Radius of each object and target, seen from above, metres.
        reach: How far from the table's middle each may be, along x and y, metres.
        rng: For the places.
    """
    pairs = len(sizes)
    flat = sizes.reshape(-1)
    apart = flat[:, None] + flat[None] + _GAP
    one, other = np.triu_indices(2 * pairs, 1)
    farthest = np.sqrt(2.0) * (reach.reshape(-1)[one] + reach.reshape(-1)[other])
    if (farthest <= apart[one, other]).any():
        return None
    for _ in range(_PLACE_TRIES):
        spots, yaws = np.empty((pairs, 2, 2)), []
        for pair in range(pairs):
            bound = reach[pair][:, None]
            spots[pair] = rng.uniform(-bound, bound, size=(2, 2))
            yaws.append(float(rng.uniform(-np.pi, np.pi)))
        where = spots.reshape(-1, 2)
        far = np.linalg.norm(where[one] - where[other], axis=1)
        if (far > apart[one, other]).all():
            return spots, yaws
    return None


def _item_pose(
    thing: Thing,
    rotation: Float[np.ndarray, "3 3"],
    lying: bool,
    spot: Float[np.ndarray, "2"],
    height: float,
) -> Pose:
    """T_scene_item over a spot, a millimetre above a height."""
    T_scene_item = placed((*spot, 0.0), rotation)
    if lying:
        # The middle of what lies is over the spot, not its bottom.
        T_scene_item[:3, 3] -= rotation @ np.array([0.0, 0.0, _middle(thing)])
    T_scene_item[2, 3] = height + 0.001 - thing.lowest(rotation)
    return T_scene_item


def _support(
    thing: Thing, T_scene_item: Pose, height: float, spot: Float[np.ndarray, "2"]
) -> Placed:
    """A block under all of the object, turned with it."""
    axis = T_scene_item[:2, 2] if np.linalg.norm(T_scene_item[:2, 2]) > 0.5 else T_scene_item[:2, 0]
    yaw = float(np.arctan2(axis[1], axis[0]))
    turn = _turned(yaw)
    seen = (thing.vertices @ T_scene_item[:3, :3].T + T_scene_item[:3, 3])[:, :2] - spot
    half = np.abs(seen @ turn[:2, :2]).max(axis=0) + 0.004
    return Placed(support_thing((float(half[0]), float(half[1])), height), placed((*spot, 0), turn))


def _step(thing: Thing, T_scene_item: Pose, height: float) -> Placed:
    """A block under the foot of a lying bowl: on its side alone it would right itself."""
    low, high = thing.bounds
    foot = thing.vertices[thing.vertices[:, 2] < low[2] + 0.004]
    above = float((foot @ T_scene_item[2, :3]).min()) - thing.lowest(T_scene_item[:3, :3])
    axis = T_scene_item[:2, 2] / np.linalg.norm(T_scene_item[:2, 2])
    inside = 0.07 * (high[2] - low[2])
    half = (inside + 0.014) / 2
    middle = T_scene_item[:2, 3] + (inside - half) * axis
    turn = _turned(float(np.arctan2(axis[1], axis[0])))
    return Placed(support_thing((half, 0.03), height + above), placed((*middle, 0.0), turn))


def _distract(
    taken: list[tuple[Float[np.ndarray, "2"], float]],
    count: int,
    tries: int,
    rng: np.random.Generator,
) -> tuple[Placed, ...]:
    """Things of any kind, colour and pose in the free places of the table; fewer if all is full."""
    found: list[Placed] = []
    occupied = list(taken)
    for attempt in range(tries):
        if len(found) == count:
            break
        thing, rotation = draw_distractor(rng, shrink=0.9995**attempt)
        size = thing.footprint(placed((0, 0, 0), rotation))
        spot = rng.uniform(-0.27, 0.27, size=2)
        if all(np.linalg.norm(spot - other) > size + reach for other, reach in occupied):
            found.append(Placed(thing, placed((*spot, -thing.lowest(rotation)), rotation)))
            occupied.append((spot, size))
    return tuple(found)


def _turned(yaw: float) -> Float[np.ndarray, "3 3"]:
    return np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1.0]])


def _tilt(angle: float) -> Float[np.ndarray, "3 3"]:
    return np.array(
        [[np.cos(angle), 0, np.sin(angle)], [0, 1.0, 0], [-np.sin(angle), 0, np.cos(angle)]]
    )
