"""From what was seen, and where the hand was then, to a demonstration.

Every importer of recordings ends here: it says what cameras saw before and during each step, as
clouds in the frame of the robot, and this module makes scene clouds and grasp clouds of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.spatial import cKDTree

from handful.clouds import Box, PointCloud, concatenate, voxel_filter
from handful.demos import Action, Demonstration, Gripper, Step
from handful.errors import DemoError, EmptyCloudError, OptionError, errors_at
from handful.recordings._agreement import PosedView
from handful.recordings._held import (
    BODY_MARGIN,
    HELD_REACH,
    NothingHeldError,
    in_gripper_frame,
    is_hand,
    is_held,
)

VOXEL = 0.002
"""Metres: clouds of several views are thinned to this, which also averages their noise."""


@dataclass(frozen=True, eq=False)
class Sight:
    """What one camera saw at one time.

    Attributes:
        cloud: In the scene frame, which is the robot's, metres.
        T_scene_gripper: Where the gripper was; None if it was not in view.
        where: Which picture this is, for messages.
        view: Its depth image with what was recorded of where it was taken; None where that is not
            known.
    """

    cloud: PointCloud
    T_scene_gripper: Float[np.ndarray, "4 4"] | None = None
    where: str = "view"
    view: PosedView | None = None


@dataclass(frozen=True, eq=False)
class SeenStep:
    """One step as it was recorded.

    Attributes:
        name: Of the step.
        action: What the gripper did there.
        scene: What was seen before it, one sight or more.
        held: What was seen of the closed gripper and what it held; may be empty.
        targets: T_scene_gripper where the gripper acted [targets, 4, 4].
    """

    name: str
    action: Action
    scene: tuple[Sight, ...]
    held: tuple[Sight, ...]
    targets: Float[np.ndarray, "targets 4 4"]


@dataclass(frozen=True)
class CloudOptions:
    """How clouds are made of sights.

    Attributes:
        workspace: Only points in this box are kept of a scene; scene frame.
        held_reach: Metres from the contact point within which all of what is held is.
        voxel: Clouds are thinned to this, metres; 0 keeps every point.
    """

    workspace: Box | None = None
    held_reach: float = HELD_REACH
    voxel: float = VOXEL

    def __post_init__(self) -> None:
        if not (np.isfinite(self.held_reach) and 0.02 <= self.held_reach <= 2.0):
            raise OptionError(f"held_reach is {self.held_reach}: need metres, 0.02 to 2.")
        if not (np.isfinite(self.voxel) and 0.0 <= self.voxel <= 0.05):
            raise OptionError(f"voxel is {self.voxel}: need metres, 0 to 0.05.")


def demonstration_from_sights(
    name: str, steps: Sequence[SeenStep], gripper: Gripper, options: CloudOptions
) -> Demonstration:
    """The demonstration that was recorded.

    Args:
        name: Of the demonstration.
        steps: In the order in which they were done.
        gripper: What it was shown with.
        options: How clouds are made.
    """
    return Demonstration(name, tuple(_step(step, gripper, options) for step in steps))


def scene_cloud(
    sights: Sequence[Sight],
    gripper: Gripper,
    options: CloudOptions,
    held: PointCloud | None = None,
) -> PointCloud:
    """The scene without the hand and without what it holds, scene frame.

    Args:
        sights: One or more.
        gripper: Whose hand is in view in the sights that say where it was.
        options: How clouds are made.
        held: What it holds, gripper frame; None for an empty hand.
    """
    tree = None if held is None else cKDTree(held.points)
    parts = [_cleared(sight, gripper, tree, options) for sight in sights]
    return _thinned([part for part in parts if part is not None], options, "the scene")


def held_cloud(sights: Sequence[Sight], gripper: Gripper, options: CloudOptions) -> PointCloud:
    """What the gripper holds, with the tips of its fingers, gripper frame.

    Args:
        sights: One or more; all say where the gripper was.
        gripper: With a described shape.
        options: How clouds are made.
    """
    seen = []
    for sight in sights:
        if sight.T_scene_gripper is None:
            raise DemoError(f"{sight.where}: what is held needs the gripper's pose in the view.")
        near = in_gripper_frame(sight.cloud, sight.T_scene_gripper)
        close = np.linalg.norm(near - gripper.T_gripper_contact[:3, 3], axis=1)
        if (kept := close <= options.held_reach).sum() >= 2:
            seen.append(
                sight.cloud.transformed(np.linalg.inv(sight.T_scene_gripper)).selected(kept)
            )
    if not seen:
        raise NothingHeldError(
            f"nothing is seen within {options.held_reach:g} m of the gripper at its recorded pose: "
            "check that the pose belongs to the picture, and the camera's pose."
        )
    whole = concatenate(seen)
    held = is_held(whole.points.astype(np.float64), gripper, options.held_reach)
    return _thinned([whole.selected(held)], options, "what is held")


def _step(step: SeenStep, gripper: Gripper, options: CloudOptions) -> Step:
    with errors_at(f"step {step.name!r}"):
        grasp = held_cloud(step.held, gripper, options) if step.held else None
        in_view = tuple(sight for sight in step.scene if sight.T_scene_gripper is not None)
        held = grasp
        if held is None and step.action.holding and in_view:
            with suppress(NothingHeldError):  # the hand is out of all of these pictures
                held = held_cloud(in_view, gripper, options)
        scene = scene_cloud(step.scene, gripper, options, held)
        return Step(step.name, step.action, scene, step.targets, grasp)


def _cleared(
    sight: Sight, gripper: Gripper, held: cKDTree | None, options: CloudOptions
) -> PointCloud | None:
    """A sight of the scene, cropped and without the hand; None if nothing is left."""
    kept = np.ones(len(sight.cloud), dtype=bool)
    if options.workspace is not None:
        kept &= options.workspace.contains(sight.cloud.points)
    if sight.T_scene_gripper is not None and kept.any():
        points = in_gripper_frame(sight.cloud, sight.T_scene_gripper)[kept]
        with errors_at(sight.where):
            own = is_hand(points, gripper)
        if held is not None:
            own |= np.isfinite(held.query(points, distance_upper_bound=BODY_MARGIN)[0])
        kept[kept] = ~own
    return sight.cloud.selected(kept) if kept.sum() >= 2 else None


def _thinned(parts: Sequence[PointCloud], options: CloudOptions, what: str) -> PointCloud:
    if not parts:
        box = options.workspace
        where = "" if box is None else f" in the workspace {box.lower} to {box.upper} m"
        raise EmptyCloudError(
            f"no camera sees anything of {what}{where}: check the camera poses, the depth scale "
            "and the workspace."
        )
    whole = concatenate(parts)
    return voxel_filter(whole, options.voxel) if options.voxel > 0.0 else whole
