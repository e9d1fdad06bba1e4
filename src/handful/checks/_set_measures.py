"""What is measured of a set as a whole: its gripper, and how alike its demonstrations are."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.checks._hand import body_points
from handful.checks._limits import Check, Measure
from handful.checks._recorded import Recorded, Shown, Surface, held_points
from handful.demos import Gripper

QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Of the clearances between a hand, or what it holds, and the scene."""
FARTHEST = 0.3
"""Metres: larger clearances count as this."""
CLEARANCES = 60
"""Points at which they are measured."""
ON_HAND = 0.008
"""Metres: a point of a grasp cloud this near to the described hand is on it."""
SHOWN = 0.35
"""Share of the hand's surface from which on a grasp cloud shows the hand."""


def of_the_set(recorded: Recorded) -> list[Measure]:
    """The measures of the set."""
    gripper = recorded.gripper
    found = [
        Measure(Check.TIP, "", "", 0, beyond_fingers(gripper)),
        Measure(Check.AXIS, "", "", 0, fingers_beside_axis(gripper)),
        Measure(Check.SHAPE, "", "", 0, other_hand(recorded)),
    ]
    names = dict.fromkeys(shown.step for shown in recorded.steps)
    for name in names:
        steps = [shown for shown in recorded.steps if shown.step == name]
        if len(steps) > 1:
            found.append(Measure(Check.ALIKE, "", name, 0, unlikeness(steps, gripper)))
    return found


def beyond_fingers(gripper: Gripper) -> float:
    """Metres by which the contact point is in front of the described fingers; 0 without any."""
    T = gripper.T_gripper_contact
    boxes = () if gripper.shape is None else gripper.shape.boxes
    corners = [(box.surface()[0] - T[:3, 3]) @ T[:3, 2] for box in boxes if box.side]
    return max(0.0, -float(np.concatenate(corners).max())) if corners else 0.0


def fingers_beside_axis(gripper: Gripper) -> float:
    """Degrees between the opening axis and the line from one described finger to the other."""
    T = gripper.T_gripper_contact
    boxes = () if gripper.shape is None else gripper.shape.boxes
    line = sum((box.side * np.array(box.center) for box in boxes), np.zeros(3)) @ T[:3, :3]
    length = float(np.linalg.norm(line[:2]))
    if length < 1e-6:
        return 0.0
    return float(np.degrees(np.arccos(np.clip(line[0] / length, -1.0, 1.0))))


def other_hand(recorded: Recorded) -> float:
    """Share of the hand that grasp clouds show only if it is turned by 90 degrees; 0 if unknown.

    The palm of a parallel gripper is wider along its opening than across, so that a described hand
    that opens along the wrong axis does not lie on the hand in the cloud.
    """
    grasps = [shown.grasp for shown in recorded.steps if shown.grasp is not None]
    if not grasps:
        return 0.0
    shares = [shares_of_hand(grasp, recorded.gripper) for grasp in grasps]
    as_described, otherwise = np.median(shares, axis=0).tolist()
    return max(0.0, otherwise - as_described) if otherwise > SHOWN else 0.0


@lru_cache(maxsize=256)
def shares_of_hand(grasp: Surface, gripper: Gripper) -> tuple[float, float]:
    """Share of the hand's body that has points of a grasp cloud: as described, and turned."""
    body = body_points(gripper, holding=True)
    if not len(body):
        return 0.0, 0.0
    T = gripper.T_gripper_contact
    turn = T[:3, :3] @ Rotation.from_euler("z", 90, degrees=True).as_matrix() @ T[:3, :3].T
    turned = (body - T[:3, 3]) @ turn.T + T[:3, 3]
    one, two = (grasp.tree.query(each, distance_upper_bound=ON_HAND)[0] for each in (body, turned))
    return float(np.isfinite(one).mean()), float(np.isfinite(two).mean())


def unlikeness(steps: list[Shown], gripper: Gripper) -> float:
    """Metres by which clearances differ from demonstration to demonstration.

    At the same step of the same task a hand, and what it holds, has about the same clearances from
    the scene. Random poses have not.
    """
    rows = np.array([_clearances(shown, gripper) for shown in steps])
    return float(np.abs(rows - np.median(rows, axis=0)).mean())


def _clearances(shown: Shown, gripper: Gripper) -> Float[np.ndarray, "quantiles"]:
    points = body_points(gripper, shown.holding)
    if shown.holding and shown.grasp is not None:
        held = held_points(shown.grasp, gripper)[0]
        points = held if len(held) else shown.grasp.points
    if not len(points):
        points = gripper.T_gripper_contact[None, :3, 3]
    some = points[:: max(1, len(points) // CLEARANCES)]
    T = shown.targets[0]
    there = some @ T[:3, :3].T + T[:3, 3]
    gap = shown.scene.coarse_tree.query(there, distance_upper_bound=FARTHEST)[0]
    found: Float[np.ndarray, "quantiles"] = np.quantile(np.minimum(gap, FARTHEST), QUANTILES)
    return found
