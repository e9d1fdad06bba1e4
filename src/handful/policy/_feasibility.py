"""Which proposed poses may be executed: the user's limits, the robot's reach, and collisions."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float

from handful._checks import shown
from handful.clouds import Box, PointCloud
from handful.demos import Action, Gripper, TaskStep
from handful.errors import GeometryError, OptionError
from handful.geometry import check_pose
from handful.policy._collision import SceneSurface, thinned_points
from handful.policy._crossings import Crossings
from handful.policy._grasped import closes_on_something
from handful.policy._interfaces import Robot
from handful.policy._motion import backed_off
from handful.policy._tiles import check_workspace, grown
from handful.policy._verdict import Verdict

BACKS = (0.03, 0.015, 0.0)
"""Metres before the pose, along the approach, where the hand is checked."""

HAND_REACH = 0.5
"""Metres from the contact point: no hand, and nothing that one holds, reaches farther."""


@dataclass(frozen=True)
class ApproachCone:
    """Directions of approach that are allowed.

    Attributes:
        axis: The middle direction in the scene frame, for example (0, 0, -1) for from above.
        half_angle: Largest angle between it and the approach, radians.
    """

    axis: tuple[float, float, float]
    half_angle: float

    def __post_init__(self) -> None:
        try:
            x, y, z = self.axis
            length, angle = math.hypot(x, y, z), float(self.half_angle)
        except (TypeError, ValueError) as error:
            raise OptionError(
                f"approach cone: axis {shown(self.axis)}, half angle {shown(self.half_angle)}: "
                "need three numbers, and radians."
            ) from error
        if not (math.isfinite(length) and length > 0 and 0 < angle <= math.pi):
            degrees = (
                f"; {angle:g} degrees are {math.radians(angle):.3g}" if angle > math.pi else ""
            )
            raise OptionError(
                f"approach cone: axis {self.axis}, half angle {self.half_angle}: need a direction, "
                f"and radians up to pi{degrees}."
            )

    def holds(self, direction: Float[np.ndarray, "3"]) -> bool:
        """Whether a unit vector is inside."""
        axis = np.array(self.axis) / math.hypot(*self.axis)
        return bool(direction @ axis >= math.cos(self.half_angle) - 1e-9)


@dataclass(frozen=True)
class Limits:
    """What a user does not want, whatever the robot could do.

    Attributes:
        workspace: Where the contact point may go, scene frame.
        approach: Allowed directions of approach.
        allowed: The user's own check of a step and T_scene_gripper.
        table: Height z below which nothing may reach, metres; None where there is no such plane.
        hand: Check the hand's described shape against the scene cloud.
        held: Check what is held against the scene cloud.
        takes: Check that a pick takes something: more than a table is between the fingers.
    """

    workspace: Box | None = None
    approach: ApproachCone | None = None
    allowed: Callable[[TaskStep, np.ndarray], Verdict] | None = None
    table: float | None = None
    hand: bool = True
    held: bool = True
    takes: bool = True

    def __post_init__(self) -> None:
        if self.workspace is not None:
            check_workspace(self.workspace, "limits: workspace")
        if self.approach is not None and not isinstance(self.approach, ApproachCone):
            raise OptionError(
                f"limits: approach is {shown(self.approach)}: need an ApproachCone, like "
                "ApproachCone((0.0, 0.0, -1.0), 0.9) in radians, or None."
            )
        number = isinstance(self.table, int | float) and not isinstance(self.table, bool)
        if self.table is not None and not (number and math.isfinite(self.table)):
            raise OptionError(
                f"limits: table is {shown(self.table)}: need its height in metres, or None."
            )


class Feasibility:
    """Judges poses for one step, for what was seen once.

    Args:
        step: The step.
        gripper: What moves.
        scene: Scene cloud X.
        grasp: Grasp cloud Y of a step with something in the gripper, else None.
        limits: The user's.
        robot: Asked for its reach; None where there is no robot.
        crossings: What demonstrated poses of the step show (`Predictor.crossings`); None for none.
    """

    def __init__(
        self,
        step: TaskStep,
        gripper: Gripper,
        scene: PointCloud,
        grasp: PointCloud | None = None,
        limits: Limits | None = None,
        robot: Robot | None = None,
        crossings: Crossings | None = None,
    ) -> None:
        self._step, self._gripper, self._robot = step, gripper, robot
        self._crossings = crossings or Crossings()
        self._limits = limits or Limits()
        self._scene = scene
        self._held = None
        if grasp is not None and self._limits.held:
            self._held = thinned_points(grasp)

    @cached_property
    def _surface(self) -> SceneSurface:
        """Made when a collision is first asked for: it costs more than all other checks.

        What the hand cannot touch with its contact point in the workspace is left out.
        """
        scene, workspace = self._scene, self._limits.workspace
        if workspace is not None:
            near = grown(workspace, HAND_REACH).contains(scene.points)
            scene = scene.selected(near) if 2 <= near.sum() < len(scene) else scene
        return SceneSurface(scene, self._limits.table)

    def with_grasp(self, grasp: PointCloud) -> Feasibility:
        """The same judge with something else in the gripper; the scene's surface is kept.

        Args:
            grasp: Grasp cloud Y, gripper frame.
        """
        other = copy.copy(self)
        other._held = thinned_points(grasp) if self._limits.held else None
        return other

    def __call__(self, T_scene_gripper: Float[np.ndarray, "4 4"]) -> Verdict:
        """Whether the pose can be executed; the reason is a kind, the same for like cases."""
        for check in (self._is_pose, self._within_limits, self._in_reach, self._hand_is_free,
                      self._takes_something, self._held_is_free):  # fmt: skip
            verdict = check(T_scene_gripper)
            if not verdict:
                return verdict
        return Verdict(True)

    def _is_pose(self, pose: Float[np.ndarray, "4 4"]) -> Verdict:
        try:
            check_pose(torch.tensor(pose))
        except GeometryError:
            return Verdict(False, "not a pose")
        return Verdict(True)

    def _within_limits(self, pose: Float[np.ndarray, "4 4"]) -> Verdict:
        contact = pose @ self._gripper.T_gripper_contact
        limits = self._limits
        if limits.workspace is not None and not limits.workspace.contains(contact[None, :3, 3])[0]:
            return Verdict(False, "outside of the workspace")
        if limits.approach is not None and not limits.approach.holds(contact[:3, 2]):
            return Verdict(False, "outside of the cone of allowed approach directions")
        return Verdict(True) if limits.allowed is None else limits.allowed(self._step, pose)

    def _in_reach(self, pose: Float[np.ndarray, "4 4"]) -> Verdict:
        return Verdict(True) if self._robot is None else self._robot.reach(self._step, pose)

    def _hand_is_free(self, pose: Float[np.ndarray, "4 4"]) -> Verdict:
        if self._limits.hand and self._gripper.shape is not None:
            holding = self._step.action.holding
            for back in BACKS:
                where = backed_off(pose[None], self._gripper, back)[0]
                if self._surface.hand_collides(self._gripper, where, holding):
                    return Verdict(False, "the hand would go through the scene")
        return Verdict(True)

    def _takes_something(self, pose: Float[np.ndarray, "4 4"]) -> Verdict:
        """The edge of a table, or of a shadow on it, looks like a rim; but there is nothing."""
        if self._step.action is Action.PICK and self._limits.takes:
            points, table = self._surface.points, self._limits.table
            if not closes_on_something(points, pose, self._gripper, table):
                return Verdict(False, "the fingers would close on nothing")
        return Verdict(True)

    def _held_is_free(self, pose: Float[np.ndarray, "4 4"]) -> Verdict:
        held = self._held
        if held is not None and self._crossings.too_many(self._surface, held, pose):
            return Verdict(False, "what is held would go through the scene")
        return Verdict(True)
