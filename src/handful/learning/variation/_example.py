"""A training example: a demonstrated step, and what the demonstration says about the object in it.

A demonstration shows which points are the object that an empty gripper takes: those that leave the
scene with the gripper. The grasp cloud of the next step with something in the gripper shows that
object from all sides, in the gripper frame, so the pose of the first step tells where it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial import ConvexHull, QhullError, cKDTree

from handful.clouds import NeighbourIndex, PointCloud, concatenate, voxel_filter
from handful.demos import Demonstration, DemoSet, Gripper, Step
from handful.errors import DemoError, EmptyCloudError
from handful.policy import Preparation, without_hand

UP = np.array([0.0, 0.0, 1.0])
SHIFT, REGISTRATIONS = 0.025, 30
"""Metres by which an object may shift when fingers close, and steps of its registration."""
SAME = 0.012
"""Metres: scene points nearer than this to the registered grasp cloud are the object's."""
ABOVE = 0.006
"""Metres above the object's support: scene points below are the support's."""
AROUND = 0.15
"""Metres around the object, seen from above, where its support is looked for."""
AT_CONTACT = 0.03
"""Metres around the contact, where a grasp cloud shows finger tips as well."""
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
        gripper: What does the step.
        contact: The contact frame in the frame that the targets are poses of: T_gripper_contact for
            an empty gripper, and that in the grasp cloud's own frame for a full one.
        thing: The object that leaves with the gripper at the first target, in the frame of the
            scene cloud; None where the demonstration does not tell it.
        rest: The scene without it, or None.
        level: Height of what the object stands on, along upwards, metres.
    """

    step: Step
    up: Float[np.ndarray, "3"]
    gripper: Gripper
    contact: Float[np.ndarray, "4 4"]
    thing: PointCloud | None = None
    rest: PointCloud | None = None
    level: float = 0.0

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
    gripper = demos.gripper
    if step.action.holding:
        if step.grasp is None:
            raise DemoError(
                f"demonstration {demo.name!r}: the step {step.name!r} has no grasp cloud, which "
                "its model learns from: record what the gripper holds."
            )
        clouds = preparation.clouds(step.scene, step.grasp, gripper)
        shown = Step(
            step.name, step.action, clouds.scene, clouds.between_frames(step.targets), clouds.grasp
        )
        T_frame_contact = clouds.T_frame_gripper @ gripper.T_gripper_contact
        return Example(shown, clouds.T_frame_scene[:3, :3] @ UP, gripper, T_frame_contact)
    # What an empty gripper looks like says nothing.
    clouds = preparation.clouds(step.scene, None, gripper)
    targets = clouds.between_frames(step.targets)
    shown = Step(step.name, step.action, clouds.scene, targets)
    up = clouds.T_frame_scene[:3, :3] @ UP
    contact = gripper.T_gripper_contact
    held = _held_next(demo, step)
    if held is None:
        return Example(shown, up, gripper, contact)
    held = without_hand(held, gripper)
    beside = np.linalg.norm(held.points - contact[:3, 3], axis=1) < AT_CONTACT
    doubtful = beside | gripper.may_be_finger(held.points)
    held = held.transformed(targets[0])
    parts = separate(clouds.scene, held, doubtful, up, preparation.scene_voxel)
    return Example(shown, up, gripper, contact, *(parts or ()))


def _held_next(demo: Demonstration, step: Step) -> PointCloud | None:
    """What the gripper holds after a step: the grasp cloud of the next one."""
    later = demo.steps[demo.steps.index(step) + 1 :]
    return later[0].grasp if later and later[0].action.holding else None


def separate(
    scene: PointCloud,
    held: PointCloud,
    doubtful: Bool[np.ndarray, "held"],
    up: Float[np.ndarray, "3"],
    voxel: float,
) -> tuple[PointCloud, PointCloud, float] | None:
    """The object, the rest of a scene and the height of the object's support.

    None where they cannot be told apart.

    Args:
        scene: With the object in it.
        held: The object in the gripper, moved to where it was in the scene.
        doubtful: Which points of `held` may be the gripper's; the scene tells what is there.
        up: Upwards in the scene frame.
        voxel: The object is thinned to this, metres.
    """
    if (~doubtful).sum() < FEWEST:
        return None
    motion = _registration(held, doubtful, scene, up)
    if motion is None:
        return None
    held = held.transformed(motion)
    near = NeighbourIndex(held.points).distance(scene.points, at_most=SAME) < SAME
    held = held.selected(~doubtful)
    to_scene = NeighbourIndex(scene.points).distance(held.points, at_most=SAME)
    if np.isfinite(to_scene).mean() < SEEN:
        return None
    near |= _enclosed(scene.points, held.points)
    height = scene.points @ up
    level = _support(scene.points, height, near, held, up)
    of_thing = near & (height > level + ABOVE)
    if of_thing.sum() < FEWEST or (~near).sum() < FEWEST:
        return None
    parts = [scene.selected(of_thing)]
    if held.has_colors == scene.has_colors:
        parts.append(held)
    try:
        thing = voxel_filter(concatenate(parts), voxel)
    except EmptyCloudError:
        return None
    return thing, scene.selected(~near), level


def _enclosed(
    points: Float[np.ndarray, "points 3"], hull_of: Float[np.ndarray, "corners 3"]
) -> Bool[np.ndarray, "points"]:
    """Which points are in the convex hull of others: the inside of what was seen from outside."""
    try:
        faces = ConvexHull(hull_of).equations
    except QhullError:  # all in one plane
        return np.zeros(len(points), dtype=bool)
    low, high = hull_of.min(axis=0), hull_of.max(axis=0)
    inside = ((points >= low) & (points <= high)).all(axis=1)
    inside[inside] = (points[inside] @ faces[:, :3].T + faces[:, 3] <= 0.0).all(axis=1)
    return inside


def _registration(
    held: PointCloud,
    doubtful: Bool[np.ndarray, "held"],
    scene: PointCloud,
    up: Float[np.ndarray, "3"],
) -> Float[np.ndarray, "4 4"] | None:
    """The small motion that brings a held object to where the scene shows it, or None.

    Objects shift when fingers close. Iterative closest points, from the scene's points above the
    support to the object's, which is known from more sides, over shorter and shorter distances.
    A scene point whose nearest one is doubtful is not paired: with a certain one farther off, it
    would pull the object away.
    """
    target = held.points.astype(np.float64)
    points = scene.points[scene.points @ up > np.quantile(target[~doubtful] @ up, 0.01) + SHIFT]
    motion = np.eye(4)
    for reach in np.linspace(SHIFT, SAME, REGISTRATIONS):
        distance, index = cKDTree(target).query(points, distance_upper_bound=reach)
        found = np.isfinite(distance)
        found[found] = ~doubtful[index[found]]
        if found.sum() < FEWEST:
            return None
        step = _kabsch(target[index[found]], points[found].astype(np.float64))
        target = target @ step[:3, :3].T + step[:3, 3]
        motion = step @ motion
    moved = np.linalg.norm(target - held.points, axis=1).max()
    return motion if moved < 2.0 * SHIFT else None


def _kabsch(
    source: Float[np.ndarray, "pairs 3"], target: Float[np.ndarray, "pairs 3"]
) -> Float[np.ndarray, "4 4"]:
    """The rigid motion of least squares from points to points."""
    middle, to = source.mean(axis=0), target.mean(axis=0)
    left, _, right = np.linalg.svd((source - middle).T @ (target - to))
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
    motion = np.eye(4)
    motion[:3, :3] = (left * sign @ right).T
    motion[:3, 3] = to - motion[:3, :3] @ middle
    return motion


def _support(
    points: Float[np.ndarray, "points 3"],
    height: Float[np.ndarray, "points"],
    near: Bool[np.ndarray, "points"],
    held: PointCloud,
    up: Float[np.ndarray, "3"],
) -> float:
    """Height of what the object stands on: where most of the points around it are, metres.

    Where there is nothing around it, its own lowest point.
    """
    lowest = float((held.points @ up).min())
    middle = held.points.mean(axis=0)
    flat = points - middle - ((points - middle) @ up)[:, None] * up
    around = (
        ~near & (np.square(flat).sum(axis=1) < AROUND**2) & (np.abs(height - lowest) < SAME * 2)
    )
    return float(np.median(height[around])) if around.sum() >= FEWEST else lowest
