"""What a model answers about a demonstrated step, and how far that is from the demonstration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation

from handful.demos import Gripper, Step
from handful.learning import on_target
from handful.learning.variation import focus_of, without_target
from handful.policy import (
    SURE_ENOUGH,
    Feasibility,
    Predictor,
    TrainedPredictor,
    crossings_of,
    points_taken,
    without_hand,
)

NEAR, TURNED = 0.025, math.radians(25.0)
"""Metres and radians: a pose this near to a demonstrated one is that pose. Grasps that are off by
more miss a thin wall, and people do not demonstrate the same grasp more exactly."""
POSES = 60
"""Poses that a model is asked for."""


class Outcome(Enum):
    """How an answer compares with the demonstration; the value is how people read it."""

    FOUND = "found"
    ELSEWHERE = "another place"
    UNSURE = "not sure"
    MISSED = "missed"
    NOTHING = "no pose"

    @property
    def good(self) -> bool:
        """Whether the demonstrated pose was found, or is among the poses that are as sure."""
        return self in (Outcome.FOUND, Outcome.ELSEWHERE)


@dataclass(frozen=True, eq=False)
class Answer:
    """One answer.

    Attributes:
        demo: Name of the demonstration.
        step: Name of the step.
        distance: From the best feasible pose to the nearest demonstrated one, metres: of the
            contact point of an empty gripper, of the middle of what a full one holds.
        angle: Between the same two, radians. The fingers of an empty gripper are alike: turned by
            half a turn about the approach it is the same grasp.
        rank: Of the first proposed pose that is as demonstrated, from 1, or of the demonstrated
            pose itself among the proposed ones by its energy, whichever is first; None if it is
            behind all of them. Where poses are as good in many ways, as those of a round thing on
            a tray, proposed ones hardly ever are the demonstrated one, and their energies tell.
        confidence: Of the best feasible pose.
        demonstrated: Confidence of the demonstrated pose itself, the best of several.
        feasible: Whether a pose that the hand can take was found; else the best one is judged.
        seconds: That the answer took.
        T_scene_gripper: The pose that is judged, or None.
        on_target: Whether that pose is on the target, in whatever way (`learning.on_target`); None
            in files of before.
        without: Confidence of the best pose in the same scene with the target cut out; None where
            that was not asked.
    """

    demo: str
    step: str
    distance: float
    angle: float
    rank: int | None
    confidence: float
    demonstrated: float
    feasible: bool
    seconds: float
    T_scene_gripper: Float[np.ndarray, "4 4"] | None
    on_target: bool | None = None
    without: float | None = None

    @property
    def outcome(self) -> Outcome:
        """In a word."""
        if self.T_scene_gripper is None:
            return Outcome.NOTHING
        if self.distance <= NEAR and self.angle <= TURNED:
            return Outcome.FOUND if self.confidence >= SURE_ENOUGH else Outcome.UNSURE
        if self.rank is not None and self.demonstrated >= SURE_ENOUGH:
            return Outcome.ELSEWHERE
        return Outcome.MISSED


def ask(
    predictor: TrainedPredictor, demo: str, step: Step, gripper: Gripper, seed: int = 0
) -> Answer:
    """Ask a model about a demonstrated step.

    Args:
        predictor: Of that step.
        demo: Name of the demonstration.
        step: What it is asked about; its targets are what is right.
        gripper: Of the demonstrations.
        seed: The same seed gives the same answer.
    """
    grasp = step.grasp if step.action.holding else None
    demonstrated, energy = 0.0, math.inf
    if isinstance(predictor, Predictor):
        view = predictor.look(step.scene, grasp)
        poses = view.sample(POSES, seed)
        rated = view.rate(step.targets)
        demonstrated, energy = float(rated.confidence[0]), float(rated.energy[0])
    else:
        poses = predictor.sample(step.scene, grasp, POSES, seed)
    if not len(poses):
        nothing = math.inf
        return Answer(
            demo, step.name, nothing, nothing, None, 0.0, demonstrated, False, poses.seconds, None,
            on_target=False,
        )  # fmt: skip
    errors = np.array([pose_error(T, step, gripper) for T in poses.T_scene_gripper])
    right = (errors[:, 0] <= NEAR) & (errors[:, 1] <= TURNED)
    right |= poses.energy >= energy
    crossings = crossings_of(predictor)
    judge = Feasibility(step.task_step, gripper, step.scene, grasp, crossings=crossings)
    chosen = next((i for i, T in enumerate(poses.T_scene_gripper) if judge(T).ok), None)
    best = 0 if chosen is None else chosen
    return Answer(
        demo,
        step.name,
        float(errors[best, 0]),
        float(errors[best, 1]),
        int(right.argmax()) + 1 if right.any() else None,
        float(poses.confidence[best]),
        demonstrated,
        chosen is not None,
        poses.seconds,
        poses.T_scene_gripper[best],
        _on_target(poses.T_scene_gripper[best], step, gripper),
    )


def ask_without(
    predictor: Predictor, step: Step, gripper: Gripper, number: int, seed: int = 0
) -> float | None:
    """Confidence of the best pose in a demonstrated scene whose target is cut out.

    Args:
        predictor: Of that step.
        step: What it is asked about.
        gripper: Of the demonstrations.
        number: Of the demonstration. With every other one something else stands in the place.
        seed: The same seed gives the same answer.

    Returns:
        None where too little would be left of the scene, or where targets are at several places.
    """
    focus = focus_of(step, gripper.T_gripper_contact[:3, 3])
    rng = np.random.default_rng([seed, number])
    empty = without_target(step.scene, focus, rng, replaced=number % 2 == 1)
    if empty is None or len(step.targets) > 1:
        return None
    poses = predictor.sample(empty, step.grasp if step.action.holding else None, 1, seed)
    return float(poses.confidence[0]) if len(poses) else 0.0


def _on_target(T_scene_gripper: Float[np.ndarray, "4 4"], step: Step, gripper: Gripper) -> bool:
    """Whether a pose is on the target: on what the demonstrated grasp takes, or near its place."""
    if step.action.holding and step.grasp is not None:
        step = step.changed(grasp=without_hand(step.grasp, gripper))
        return on_target(T_scene_gripper, step, gripper.T_gripper_contact)
    takes = [points_taken(step.scene, target, gripper) for target in step.targets]
    if not all(takes):
        return on_target(T_scene_gripper, step, gripper.T_gripper_contact)
    things = step.scene.selected(np.any([one.points for one in takes], axis=0))
    return on_target(T_scene_gripper, step, gripper.T_gripper_contact, things)


def pose_error(
    T_scene_gripper: Float[np.ndarray, "4 4"], step: Step, gripper: Gripper
) -> tuple[float, float]:
    """Metres and radians from a pose to the nearest of a step's targets; see `Answer`.

    The nearest is the one with the smallest sum of both, each as a share of what is tolerated.
    """
    if step.action.holding and step.grasp is not None:
        held = without_hand(step.grasp, gripper).points.astype(np.float64)
        middle = (held.min(axis=0) + held.max(axis=0)) / 2.0
    else:
        middle = gripper.T_gripper_contact[:3, 3]
    errors = []
    for target in step.targets:
        apart = (T_scene_gripper - target)[:3] @ np.append(middle, 1.0)
        for turn in _same_grasps(step, gripper):
            between = (target[:3, :3] @ turn).T @ T_scene_gripper[:3, :3]
            angle = Rotation.from_matrix(between).magnitude()
            errors.append((float(np.linalg.norm(apart)), float(angle)))
    return min(errors, key=lambda one: one[0] / NEAR + one[1] / TURNED)


def _same_grasps(step: Step, gripper: Gripper) -> list[Float[np.ndarray, "3 3"]]:
    """Rotations of the gripper about the contact point that make the same grasp."""
    if step.action.holding:
        return [np.eye(3)]
    frame = gripper.T_gripper_contact[:3, :3]
    return [np.eye(3), frame @ np.diag([-1.0, -1.0, 1.0]) @ frame.T]
