"""A predictor whose model is at the other end of a network: `run_task` asks `handful serve`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from handful.answers import PoseAnswer
from handful.clouds import CloudLike, as_cloud
from handful.demos import Action, Gripper, Task, TaskStep
from handful.policy._contact import check_contact_frames
from handful.policy._ranked import RankedPoses

if TYPE_CHECKING:
    from handful.client import Client


@dataclass(frozen=True)
class RemotePredictor:
    """Asks a service for the poses of one step; a `RatingPredictor`.

    The service ranks; limits, reach and collisions are judged by whoever uses the poses, as with a
    predictor in this process.

    Attributes:
        client: That asks.
        step: Name of the step.
        gripper: What the service's poses are of.
    """

    client: Client
    step: str
    gripper: Gripper

    def sample(
        self, scene: CloudLike, grasp: CloudLike | None = None, n: int = 100, seed: int = 0
    ) -> RankedPoses:
        """The distinct best poses, at most n; see `Predictor.sample`."""
        start = time.perf_counter()
        held = None if grasp is None else as_cloud(grasp, "grasp")
        answer = self.client.poses(
            self.step, as_cloud(scene, "scene"), held, n=n, seed=seed, beside=False
        )
        return self._ranked(answer, start)

    def rate(
        self,
        T_scene_gripper: Float[np.ndarray, "poses 4 4"],
        scene: CloudLike,
        grasp: CloudLike | None = None,
    ) -> RankedPoses:
        """Poses from elsewhere with energies and confidences; see `Predictor.rate`."""
        start = time.perf_counter()
        held = None if grasp is None else as_cloud(grasp, "grasp")
        answer = self.client.rate(self.step, T_scene_gripper, as_cloud(scene, "scene"), held)
        return self._ranked(answer, start)

    def _ranked(self, answer: PoseAnswer, start: float) -> RankedPoses:
        poses = sorted(answer.poses, key=lambda pose: pose.energy)  # feasible ones came first
        return RankedPoses(
            np.array([pose.T_scene_gripper for pose in poses]).reshape(-1, 4, 4),
            np.array([pose.energy for pose in poses]),
            np.array([pose.confidence for pose in poses]),
            time.perf_counter() - start,
            self.gripper,
        )


def remote_task(client: Client, gripper: Gripper) -> tuple[Task, dict[str, RemotePredictor]]:
    """The task that a service knows, and a predictor for each of its steps.

    Args:
        client: That asks.
        gripper: The robot's.

    Raises:
        OptionError: The service's poses are of a gripper with another contact frame.
    """
    (known,) = client.tasks()
    served = np.array(known["gripper"]["T_gripper_contact"], dtype=np.float64)
    cure = "serve with --gripper and a description of it."
    check_contact_frames(served, gripper.T_gripper_contact, cure)
    steps = [TaskStep(one["name"], Action.named(one["action"])) for one in known["steps"]]
    predictors = {step.name: RemotePredictor(client, step.name, gripper) for step in steps}
    return Task(tuple(steps)), predictors
