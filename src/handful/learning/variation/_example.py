"""A training example: a demonstrated step, and what the demonstration says about the object in it.

A demonstration shows which points are the object that an empty gripper takes: those that leave the
scene with the gripper. The grasp cloud of the next step with something in the gripper shows that
object from all sides, in the gripper frame, so the pose of the first step tells where it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from handful.clouds import NeighbourIndex, PointCloud, concatenate, voxel_filter
from handful.demos import Demonstration, DemoSet, Step
from handful.errors import DemoError, EmptyCloudError
from handful.policy import Preparation, without_hand

UP = np.array([0.0, 0.0, 1.0])
SAME = 0.012
"""Metres: scene points nearer than this to the moved grasp cloud are the object's. Objects shift by
some millimetres when fingers close."""
ABOVE = 0.006
"""Metres above the object's lowest point: scene points below are its support's."""
AT_CONTACT = 0.04
"""Metres around the contact, where the grasp cloud shows finger tips as well: its points count
there only if the scene has a point as near as `CONFIRMED`, metres."""
CONFIRMED = 0.006
SEEN = 0.3
"""Least share of the moved grasp cloud that the scene must confirm."""
FEWEST = 40
"""Least number of points of an object, as prepared clouds are thinned."""


@dataclass(frozen=True, eq=False)
class Example:
    """One demonstrated step to learn from, its clouds prepared.

    Attributes:
        step: As the model sees it (`Preparation.step`).
        up: Upwards in the frame of its scene cloud, a unit vector.
        contact: The contact frame in the frame that the targets are poses of: T_gripper_contact for
            an empty gripper, and that in the grasp cloud's own frame for a full one.
        thing: The object that leaves with the gripper at the first target, in the frame of the
            scene cloud; None where the demonstration does not tell it.
        rest: The scene without it, or None.
    """

    step: Step
    up: Float[np.ndarray, "3"]
    contact: Float[np.ndarray, "4 4"]
    thing: PointCloud | None = None
    rest: PointCloud | None = None

    @property
    def separated(self) -> bool:
        """Whether object and rest of the scene are known."""
        return self.thing is not None and self.rest is not None


def examples_of(demos: DemoSet, step: str, preparation: Preparation) -> list[Example]:
    """An example of each demonstration of a step.

    Raises:
        DemoError: A step with something in the gripper has no grasp cloud.
    """
    return [_example(demo, demo.step(step), demos, preparation) for demo in demos]


def _example(demo: Demonstration, step: Step, demos: DemoSet, preparation: Preparation) -> Example:
    contact = demos.gripper.T_gripper_contact
    if step.action.holding:
        if step.grasp is None:
            raise DemoError(
                f"demonstration {demo.name!r}: the step {step.name!r} has no grasp cloud, which "
                "its model learns from: record what the gripper holds."
            )
        clouds = preparation.clouds(step.scene, step.grasp, demos.gripper)
        shown = Step(
            step.name, step.action, clouds.scene, clouds.between_frames(step.targets), clouds.grasp
        )
        T_frame_contact = clouds.T_frame_gripper @ contact
        return Example(shown, clouds.T_frame_scene[:3, :3] @ UP, T_frame_contact)
    # What an empty gripper looks like says nothing.
    clouds = preparation.clouds(step.scene, None, demos.gripper)
    targets = clouds.between_frames(step.targets)
    shown = Step(step.name, step.action, clouds.scene, targets)
    up = clouds.T_frame_scene[:3, :3] @ UP
    held = _held_next(demo, step)
    if held is None:
        return Example(shown, up, contact)
    held = without_hand(held, demos.gripper).transformed(targets[0])
    where = (targets[0] @ contact)[:3, 3]
    parts = separate(clouds.scene, held, where, up, preparation.scene_voxel)
    return Example(shown, up, contact, *(parts or ()))


def _held_next(demo: Demonstration, step: Step) -> PointCloud | None:
    """What the gripper holds after a step: the grasp cloud of the next one."""
    later = demo.steps[demo.steps.index(step) + 1 :]
    return later[0].grasp if later and later[0].action.holding else None


def separate(
    scene: PointCloud,
    held: PointCloud,
    contact: Float[np.ndarray, "3"],
    up: Float[np.ndarray, "3"],
    voxel: float,
) -> tuple[PointCloud, PointCloud] | None:
    """The object and the rest of a scene, or None where they cannot be told apart.

    Args:
        scene: With the object in it.
        held: The object in the gripper, moved to where it was in the scene.
        contact: Where the gripper takes it, scene frame, metres.
        up: Upwards in the scene frame.
        voxel: The object is thinned to this, metres.
    """
    to_scene = NeighbourIndex(scene.points).distance(held.points, at_most=SAME)
    if np.isfinite(to_scene).mean() < SEEN:
        return None
    at_contact = np.linalg.norm(held.points - contact, axis=1) < AT_CONTACT
    held_kept = ~at_contact | (to_scene < CONFIRMED)
    if held_kept.sum() < 2:
        return None
    low = float(np.quantile(held.points[held_kept] @ up, 0.01))
    above = scene.points @ up > low + ABOVE
    near = NeighbourIndex(held.points).distance(scene.points, at_most=SAME) < SAME
    of_thing = near & above
    if of_thing.sum() < FEWEST or (~near).sum() < FEWEST:
        return None
    held_kept &= held.points @ up > low - ABOVE
    parts = [scene.selected(of_thing)]
    if held_kept.sum() >= 2 and held.has_colors == scene.has_colors:
        parts.append(held.selected(held_kept))
    try:
        thing = voxel_filter(concatenate(parts), voxel)
    except EmptyCloudError:
        return None
    return thing, scene.selected(~of_thing)
