"""What is measured at each target of each step."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float

from handful.checks._hand import body_points, shape_of
from handful.checks._limits import LIMITS, Check, Measure
from handful.checks._recorded import Recorded, Shown, Surface, held_points
from handful.checks._set_measures import of_the_set, shares_of_hand
from handful.clouds import Plane
from handful.demos import Gripper
from handful.policy import backed_off

BESIDE, AHEAD = 0.01, 0.01
"""Half of the width and of the depth of the space between the fingers, metres: that of a finger."""
DEEP = 0.004
"""Metres inside of the described hand from which on a scene point counts: shapes are boxes around
the true hand, and cameras are rough by some millimetres."""
UNDER = 0.015
"""Metres under a table from which on something is below it."""
BACKS = (0.02, 0.04, 0.06, 0.08)
"""Metres before the pose where the approach is looked at, up to the pre-pose."""
NEAR_SCENE = 0.015
"""Metres: a held point this near to a scene point was seen there. Things shift by up to 2 cm when
fingers close; most of their surface then still is this near to where it was."""
FEWEST_HELD = 30
"""Points besides the hand from which on a grasp cloud shows something."""


def measures(recorded: Recorded, all_of_them: bool = True) -> list[Measure]:
    """The measures of all steps.

    Args:
        recorded: The demonstrations.
        all_of_them: False leaves out some that say themselves what is wrong, to save time.
    """
    found: list[Measure] = []
    for demo in recorded.demos:
        for index, shown in enumerate(demo):
            after = demo[index + 1] if index + 1 < len(demo) else None
            found += measures_of(shown, recorded.gripper, after, all_of_them)
    return found + of_the_set(recorded)


@lru_cache(maxsize=1024)  # undoing mistakes changes some of the steps only
def measures_of(
    shown: Shown, gripper: Gripper, after: Shown | None = None, all_of_them: bool = True
) -> tuple[Measure, ...]:
    """The measures of one step, which are kept; see `fresh_measures_of`."""
    return fresh_measures_of(shown, gripper, after, all_of_them)


def fresh_measures_of(
    shown: Shown, gripper: Gripper, after: Shown | None = None, all_of_them: bool = True
) -> tuple[Measure, ...]:
    """The measures of one step.

    Args:
        shown: The step.
        gripper: What does it.
        after: The step after it in the same demonstration, if there is one.
        all_of_them: See `measures`.
    """
    found: list[Measure] = []

    def add(check: Check, target: int, amount: float) -> None:
        found.append(Measure(check, shown.demo, shown.step, target, float(amount)))

    plane = shown.scene.plane
    if plane is not None:
        add(Check.LEVEL, 0, _tilt(plane))
    held = None
    if shown.holding:
        if shown.grasp is None:
            add(Check.NO_GRASP, 0, 1.0)
        else:
            held = _held_or_all(shown.grasp, gripper)
            add(Check.FINGERS, 0, fingers_gap(shown.grasp.points, gripper))
    body = body_points(gripper, shown.holding)
    for target, pose in enumerate(shown.targets):
        if not shown.holding:
            add(Check.CONTACT, target, contact_gap(shown.scene, pose, gripper))
            taken = None if after is None or not after.holding else after.grasp
            if taken is not None and target == 0:
                add(Check.TAKEN, target, unseen_share(shown.scene, pose, taken, gripper))
        elif held is not None:
            add(Check.HELD, target, held_gap(shown.scene, _moved(held, pose)))
        if plane is not None:
            things = body if held is None else np.concatenate([body, held[::8]])
            if len(things):
                add(Check.BELOW, target, plane.below(_moved(things, pose), UNDER).mean())
        add(Check.HAND, target, points_in_hand(shown.scene, pose, gripper, shown.holding))
        if not all_of_them:
            continue
        before = [backed_off(pose[None], gripper, back)[0] for back in BACKS]
        on_the_way = [points_in_hand(shown.scene, T, gripper, shown.holding) for T in before]
        add(Check.APPROACH, target, max(on_the_way))
        add(Check.SEES_HAND, target, seen_hand_share(shown.scene, pose, gripper))
    return tuple(found)


def forget() -> None:
    """Drop what was kept of clouds that were measured."""
    measures_of.cache_clear()
    held_points.cache_clear()
    shares_of_hand.cache_clear()


def contact_gap(
    scene: Surface, T_scene_gripper: Float[np.ndarray, "4 4"], gripper: Gripper
) -> float:
    """Metres from the space between the fingers to the nearest scene point."""
    T = T_scene_gripper @ gripper.T_gripper_contact
    nearest = float(scene.tree.query(T[:3, 3])[0])
    if nearest > 2.0 * gripper.opening:
        return nearest - gripper.opening / 2.0
    around = scene.around(T[:3, 3], nearest + gripper.opening)
    return _gap_to_space((around - T[:3, 3]) @ T[:3, :3], gripper)


def fingers_gap(grasp: Float[np.ndarray, "grasp 3"], gripper: Gripper) -> float:
    """Metres from the space between the fingers to the nearest point of a grasp cloud."""
    T = gripper.T_gripper_contact
    return _gap_to_space((grasp - T[:3, 3]) @ T[:3, :3], gripper)


def _gap_to_space(local: Float[np.ndarray, "points 3"], gripper: Gripper) -> float:
    half = np.array([gripper.opening / 2.0, BESIDE, AHEAD])
    return float(np.linalg.norm(np.maximum(np.abs(local) - half, 0.0), axis=1).min())


def points_in_hand(
    scene: Surface,
    T_scene_gripper: Float[np.ndarray, "4 4"],
    gripper: Gripper,
    holding: bool,
) -> int:
    """Scene points deep inside of the open hand, or of a full hand without its fingers."""
    shape = shape_of(gripper, holding)
    if shape is None:
        return 0
    corners = np.concatenate([vertices for vertices, _ in shape.surfaces()])
    middle = (corners.min(axis=0) + corners.max(axis=0)) / 2.0
    radius = float(np.linalg.norm(corners - middle, axis=1).max())
    around = scene.around(T_scene_gripper[:3, :3] @ middle + T_scene_gripper[:3, 3], radius)
    local = (around - T_scene_gripper[:3, 3]) @ T_scene_gripper[:3, :3]
    return int(shape.contains(local, -DEEP).sum())


def held_gap(scene: Surface, held: Float[np.ndarray, "held 3"]) -> float:
    """About the metres between what is held and the nearest scene point.

    Few points are compared with few, and those around the nearest pair with all.
    """
    few = held[:: max(1, len(held) // 100)]
    gap = scene.coarse_tree.query(few, distance_upper_bound=LIMITS[Check.HELD].wrong)[0]
    best = int(gap.argmin())
    if np.isinf(gap[best]):  # far away: a tree takes long to say exactly how far
        return float(scene.coarse_tree.query(few[::20])[0].min())
    near = held[np.linalg.norm(held - few[best], axis=1) < 0.03]
    return float(min(gap[best], scene.tree.query(near)[0].min()))


def unseen_share(
    scene: Surface,
    T_scene_gripper: Float[np.ndarray, "4 4"],
    grasp: Surface,
    gripper: Gripper,
) -> float:
    """Share of what is held afterwards that was not in the scene where it was taken; 0 if unknown.

    Fingers hide what is between them, and the grasp cloud shows them: they do not count.
    """
    held, finger = held_points(grasp, gripper)
    thing = held[~finger]
    if len(thing) < FEWEST_HELD:
        return 0.0
    gap = scene.tree.query(_moved(thing[::4], T_scene_gripper), distance_upper_bound=NEAR_SCENE)[0]
    return float(np.isinf(gap).mean())


def seen_hand_share(
    scene: Surface, T_scene_gripper: Float[np.ndarray, "4 4"], gripper: Gripper
) -> float:
    """Share of the surface of the hand's body that has scene points on it."""
    body = body_points(gripper, holding=True)
    if not len(body):
        return 0.0
    gap = scene.tree.query(_moved(body, T_scene_gripper), distance_upper_bound=0.006)[0]
    return float(np.isfinite(gap).mean())


def _tilt(plane: Plane) -> float:
    """Degrees between up and z. An upright plane may be a wall: it is doubtful at most."""
    tilt = float(np.degrees(plane.tilt))
    upright = abs(tilt - 90.0) < LIMITS[Check.LEVEL].doubtful
    return min(tilt, LIMITS[Check.LEVEL].wrong) if upright else tilt


def _held_or_all(grasp: Surface, gripper: Gripper) -> Float[np.ndarray, "held 3"]:
    """What is held; the whole cloud where hardly anything besides the hand's body is in it."""
    held, _ = held_points(grasp, gripper)
    return held if len(held) >= FEWEST_HELD else grasp.points


def _moved(
    points: Float[np.ndarray, "points 3"], pose: Float[np.ndarray, "4 4"]
) -> Float[np.ndarray, "points 3"]:
    return points @ pose[:3, :3].T + pose[:3, 3]
