"""Whether a pose is on its target, whatever the way in which that is taken or used.

A rim can be held anywhere, a bowl may stand anywhere on a tray, and a mug hangs on either side of a
hook. Whoever asks how often a model is right must not ask for the one demonstrated pose.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from handful.clouds import NeighbourIndex, PointCloud
from handful.demos import Step
from handful.learning.variation import focus_of

OFF_THING, OFF_TARGET = 0.03, 0.2
"""Metres: contacts farther than this from the object that is to be taken, or where that is not
known, from where it was taken in the demonstration, are on something else."""
ON_THING = 0.02
"""Metres: a contact nearer than this to the object that is to be taken is on it."""
AT_FOCUS = 0.05
"""Metres between where the task happens and the nearest point that acts there. Over 72 made-up
scenes of bowls and bottles on trays and mugs on hooks, 68 best poses are nearer than 4.5 cm, and
the others 7.8 to 27 cm away."""


def on_target(
    T_scene_gripper: Float[np.ndarray, "4 4"],
    step: Step,
    contact: Float[np.ndarray, "4 4"],
    thing: PointCloud | None = None,
) -> bool:
    """Whether a pose is on the target of a step.

    An empty gripper must touch the object that is to be taken, or where that is not known, come
    near to where it was demonstrated. What a full one holds must come near to where it touched the
    scene in the demonstration.

    Args:
        T_scene_gripper: The pose.
        step: With its targets, and what is held.
        contact: The contact frame, in the frame that poses are of.
        thing: The object that is to be taken, scene frame, where it is known.
    """
    touching = (T_scene_gripper @ contact)[None, :3, 3]
    if step.action.holding and step.grasp is not None:
        touching = step.grasp.transformed(T_scene_gripper).points
    elif thing is not None:
        return bool(NeighbourIndex(thing.points).distance(touching)[0] < ON_THING)
    for target in step.targets:
        focus = focus_of(step.changed(targets=target[None]), contact[:3, 3])
        if np.linalg.norm(touching - focus, axis=1).min() < AT_FOCUS:
            return True
    return False


def on_something_else(
    T_scene_gripper: Float[np.ndarray, "poses 4 4"],
    step: Step,
    contact: Float[np.ndarray, "4 4"],
    thing: PointCloud | None = None,
) -> Bool[np.ndarray, "poses"]:
    """Which poses of an empty gripper are surely wrong, for they are not at what is to be taken.

    Whether a pose at the object is right that is not the demonstrated one, nobody has said: such a
    pose is neither on something else nor, by `on_target`, always on the target.

    Args:
        T_scene_gripper: The poses.
        step: With its targets.
        contact: The contact frame, in the frame that poses are of.
        thing: The object that is to be taken, scene frame, where it is known.
    """
    touching = (T_scene_gripper @ contact)[:, :3, 3]
    if thing is not None:
        return NeighbourIndex(thing.points).distance(touching) > OFF_THING
    demonstrated = (step.targets @ contact)[:, :3, 3]
    away = np.linalg.norm(touching[:, None] - demonstrated, axis=2)
    return (away > OFF_TARGET).all(axis=1)
