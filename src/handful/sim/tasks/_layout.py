"""Where things stand when an episode begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.sim._world import Placed
from handful.sim.objects import Pose, Thing, draw_distractor, placed, support_thing
from handful.sim.tasks._types import Setup

REACH = 0.17
"""Things stand at most this far from the table's middle, along x and y, metres."""
SUPPORT_HEIGHTS = (0.03, 0.14)
_GAP = 0.035
"""Free space between things, seen from above, metres."""
DISTRACTORS = 4


@dataclass(frozen=True, eq=False)
class Layout:
    """Poses of everything; T_scene_thing.

    Attributes:
        item: The object, a millimetre above what it will rest on.
        target_thing: Hanger or tray.
        target: Its pose.
        supports: What the object rests on, none for the table.
        distractors: Only seen.
        lying: Whether the object lies.
    """

    item: Pose
    target_thing: Thing
    target: Pose
    supports: tuple[Placed, ...]
    distractors: tuple[Placed, ...]
    lying: bool

    def as_meant(self, now: Pose) -> bool:
        """Whether the object, come to rest, still stands or lies where it was put."""
        upright = abs(float(now[2, 2])) if self.lying else float(now[2, 2])
        tilted = upright < 0.6 if self.lying else upright > 0.985
        moved = np.linalg.norm(now[:2, 3] - self.item[:2, 3])
        dropped = self.item[2, 3] - now[2, 3]
        return bool(tilted and moved < 0.05 and abs(dropped) < 0.03)


def draw_lying(setup: Setup, rng: np.random.Generator) -> bool:
    """Whether the object lies: always in `poses`, half the time in `all`."""
    return setup is Setup.POSES or (setup is Setup.ALL and rng.uniform() < 0.5)


def draw_layout(
    thing: Thing, target: Thing, setup: Setup, lying: bool, rng: np.random.Generator
) -> Layout:
    """Object, target and, if the setup says so, support and distractors, clear of each other.

    Args:
        thing: The object.
        target: Hanger or tray.
        setup: What else is there.
        lying: Whether the object lies; drawn once per episode, so that layouts that are thrown
            away do not change how often it does.
        rng: For the places.
    """
    raised = setup in (Setup.POSES, Setup.ALL)
    rotation = _turned(rng.uniform(-np.pi, np.pi))
    if lying:
        # On the side, turned about its own axis by any angle.
        rotation = rotation @ _tilt(np.pi / 2) @ _turned(rng.uniform(-np.pi, np.pi))
    while True:
        spot, target_spot = rng.uniform(-REACH, REACH, size=(2, 2))
        target_pose = placed((*target_spot, 0.0), _turned(rng.uniform(-np.pi, np.pi)))
        size = thing.footprint(placed((0, 0, 0), rotation))
        far = np.linalg.norm(spot - target_spot)
        if far > size + target.footprint(target_pose) + _GAP:
            break
    height = rng.uniform(*SUPPORT_HEIGHTS) if raised else 0.0
    item = placed((*spot, 0.0), rotation)
    if lying:
        # The middle of what lies is over the spot, not its bottom.
        low, high = thing.bounds
        item[:3, 3] -= rotation @ np.array([0.0, 0.0, (low[2] + high[2]) / 2])
    item[2, 3] = height + 0.001 - thing.lowest(rotation)
    supports = (_support(thing, item, height, spot),) if raised else ()
    if lying and thing.rim is not None and thing.handle is None:
        supports = (*supports, _step(thing, item, height))
    free = [(spot, size + 0.02), (target_spot, target.footprint(target_pose))]
    distractors = _distract(free, rng) if setup.distracting else ()
    return Layout(item, target, target_pose, supports, distractors, lying)


def _support(thing: Thing, item: Pose, height: float, spot: Float[np.ndarray, "2"]) -> Placed:
    """A block under all of the object, turned with it."""
    axis = item[:2, 2] if np.linalg.norm(item[:2, 2]) > 0.5 else item[:2, 0]
    yaw = float(np.arctan2(axis[1], axis[0]))
    turn = _turned(yaw)
    seen = (thing.vertices @ item[:3, :3].T + item[:3, 3])[:, :2] - spot
    half = np.abs(seen @ turn[:2, :2]).max(axis=0) + 0.004
    return Placed(support_thing((float(half[0]), float(half[1])), height), placed((*spot, 0), turn))


def _step(thing: Thing, item: Pose, height: float) -> Placed:
    """A block under the foot of a lying bowl: on its side alone it would right itself."""
    low, high = thing.bounds
    foot = thing.vertices[thing.vertices[:, 2] < low[2] + 0.004]
    above = float((foot @ item[2, :3]).min()) - thing.lowest(item[:3, :3])
    axis = item[:2, 2] / np.linalg.norm(item[:2, 2])
    inside = 0.07 * (high[2] - low[2])
    half = (inside + 0.014) / 2
    middle = item[:2, 3] + (inside - half) * axis
    turn = _turned(float(np.arctan2(axis[1], axis[0])))
    return Placed(support_thing((half, 0.03), height + above), placed((*middle, 0.0), turn))


def _distract(
    taken: list[tuple[Float[np.ndarray, "2"], float]], rng: np.random.Generator
) -> tuple[Placed, ...]:
    """Four things of any kind, colour and pose in the free places of the table."""
    found: list[Placed] = []
    occupied = list(taken)
    for attempt in range(4000):
        if len(found) == DISTRACTORS:
            break
        thing, rotation = draw_distractor(rng, shrink=0.9995**attempt)
        size = thing.footprint(placed((0, 0, 0), rotation))
        spot = rng.uniform(-0.27, 0.27, size=2)
        if all(np.linalg.norm(spot - other) > size + reach for other, reach in occupied):
            pose = placed((*spot, -thing.lowest(rotation)), rotation)
            found.append(Placed(thing, pose))
            occupied.append((spot, size))
    return tuple(found)


def _turned(yaw: float) -> Float[np.ndarray, "3 3"]:
    return np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1.0]])


def _tilt(angle: float) -> Float[np.ndarray, "3 3"]:
    return np.array(
        [[np.cos(angle), 0, np.sin(angle)], [0, 1.0, 0], [-np.sin(angle), 0, np.cos(angle)]]
    )
