"""The two sides that a policy stands between: what proposes poses, and what executes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.clouds import PointCloud
from handful.demos import Gripper, TaskStep
from handful.policy._motion import Motion
from handful.policy._ranked import RankedPoses
from handful.policy._verdict import Verdict


@runtime_checkable
class PosePredictor(Protocol):
    """Anything that proposes gripper poses for what is seen."""

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """At most `n` poses, the best first.

        Args:
            scene: Scene cloud X.
            grasp: Grasp cloud Y, for steps with something in the gripper.
            n: How many at most.
            seed: The same seed gives the same poses.
        """
        ...


@runtime_checkable
class RatingPredictor(PosePredictor, Protocol):
    """A predictor that also rates poses from elsewhere."""

    def rate(
        self,
        T_scene_gripper: Float[np.ndarray, "poses 4 4"],
        scene: PointCloud,
        grasp: PointCloud | None = None,
    ) -> RankedPoses:
        """The given poses with energies and confidences, the best first."""
        ...


@runtime_checkable
class TrainedPredictor(PosePredictor, Protocol):
    """What a method of learning makes of the demonstrations of one step (`learning.Method`)."""

    @property
    def step(self) -> TaskStep:
        """Name and action of the step."""
        ...

    @property
    def trained_gripper(self) -> Gripper:
        """The gripper of the demonstrations."""
        ...

    @property
    def gripper(self) -> Gripper:
        """The gripper that is used: poses and grasp clouds are in its frame."""
        ...

    def for_gripper(self, gripper: Gripper) -> TrainedPredictor:
        """The same predictor for another gripper."""
        ...


@dataclass(frozen=True, eq=False)
class Segments:
    """The points of what a step is about.

    Attributes:
        object: The object's: of the scene cloud, or of the grasp cloud if the gripper holds it.
        target: Those of the scene cloud that belong to the object's target.
    """

    object: PointCloud
    target: PointCloud


Segmentation = Callable[[PointCloud, PointCloud | None], Segments]
"""Says which points of a scene cloud and of a grasp cloud, if there is one, are whose."""


@runtime_checkable
class ToldPredictor(TrainedPredictor, Protocol):
    """A predictor that cannot tell the object from the rest of the scene and has to be told."""

    def told(self, segmentation: Segmentation) -> PosePredictor:
        """The same predictor with somebody who tells."""
        ...


@runtime_checkable
class PicturedPredictor(TrainedPredictor, Protocol):
    """A predictor that can show what it sees in a scene, for reports and `handful infer`."""

    def picture(self, scene: PointCloud, grasp: PointCloud | None = None) -> Image.Image:
        """What the model sees and where it would go, in the terms of its method."""
        ...


@runtime_checkable
class Robot(Protocol):
    """A robot that can carry out a task; the simulated one and a real one alike.

    The scene frame is the robot's choice, z up; all clouds and poses are in it.
    """

    @property
    def gripper(self) -> Gripper:
        """What the robot holds things with."""
        ...

    def observe_scene(self) -> PointCloud:
        """The scene cloud X, without the robot and without what it holds; scene frame, metres."""
        ...

    def observe_grasp(self) -> PointCloud:
        """The grasp cloud Y: what the gripper holds, and the hand; gripper frame, metres."""
        ...

    def reach(self, step: TaskStep, T_scene_gripper: Float[np.ndarray, "4 4"]) -> Verdict:
        """Whether the robot can do the step at a pose; if not, why.

        The reason is a kind, the same for like cases: reasons are counted.
        """
        ...

    def execute(self, step: TaskStep, motion: Motion) -> Verdict:
        """Go to the pose, act there and retreat; whether that succeeded as far as is known."""
        ...


@runtime_checkable
class LookingRobot(Robot, Protocol):
    """A robot that can look from elsewhere; `run_task` works with others, too."""

    def look_elsewhere(self, step: TaskStep) -> None:
        """Move a camera or the arm, such that the next observation shows something else.

        Called before the robot looks again, because no feasible pose was sure enough.
        """
        ...
