"""Look ahead: whether what a pose would take could be let go in the next step.

A grasp from which nothing can be placed is a bad grasp. Before a step with an empty gripper is
executed, and if the next step needs something in it, the held thing is imagined: the scene points
that would leave with the gripper (`points_taken`), in the gripper frame. The next step's predictor
is asked for poses with that cloud, in the scene without these points, and they are judged as if it
were the next step's turn.

Mostly several candidates take the same thing. Where that thing should go does not depend on where
it is held (the paper's right equivariance), so a `Predictor`, here or at a service, is asked once
for each thing: its answer, as motions of the thing, holds for every grasp of it. Others are asked
for each grasp.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import Enum

import numpy as np
from jaxtyping import Bool, Float

from handful.clouds import PointCloud
from handful.demos import TaskStep
from handful.errors import HandfulError, OptionError
from handful.policy._confidence import LEAST_CONFIDENCE
from handful.policy._feasibility import Feasibility, Limits
from handful.policy._grasped import points_taken
from handful.policy._interfaces import PosePredictor, Robot
from handful.policy._predictor import Predictor, crossings_of
from handful.policy._ranked import RankedPoses
from handful.policy._remote import RemotePredictor

BUDGET = 1.0
"""Seconds for one look, on one core; candidates that are left then are not looked at."""
CANDIDATES = 8
"""How many poses are looked ahead from, at most."""
POSES = 16
"""How many poses of the next step are asked for."""
ALIKE, ALIKE_ANGLE = 0.01, 0.2
"""Candidates no farther apart than this are alike, and one of them speaks for the others: metres
between their contact points, radians."""
SAME_THING = 0.8
"""Two candidates take the same thing if they share this much of the points that they take."""


class Prospect(Enum):
    """What can be told about the next step."""

    FEASIBLE = "a feasible pose of the next step follows"
    INFEASIBLE = "no feasible pose of the next step follows"
    UNKNOWN = "it cannot be told"


@dataclass(frozen=True)
class LookAhead:
    """How far to look.

    Attributes:
        budget: Seconds for one look; infinite for no limit, where the same answer matters more
            than the time it takes.
        candidates: How many poses are looked ahead from, at most.
    """

    budget: float = BUDGET
    candidates: int = CANDIDATES

    def __post_init__(self) -> None:
        if math.isnan(self.budget) or self.budget < 0 or self.candidates < 1:
            raise OptionError(
                f"{self}: need seconds of 0 or more, and at least one candidate; to look nowhere, "
                "give None instead."
            )


@dataclass(frozen=True)
class LookedAhead:
    """What looking ahead brought.

    Attributes:
        tried: From how many poses the next step was imagined.
        passed: From how many of them a feasible pose of the next step follows.
        unknown: For how many it could not be told.
        seconds: That it took.
        changed: Whether another pose was chosen for it than would have been without.
    """

    tried: int = 0
    passed: int = 0
    unknown: int = 0
    seconds: float = 0.0
    changed: bool = False


@dataclass(frozen=True, eq=False)
class _Scene:
    """A scene without what was taken from it.

    Attributes:
        taken: Which points of the whole scene are missing.
        cloud: The others.
        judge: Of poses in it.
        motions: Of the taken thing to where the next step lets it go, the best first, in the scene
            frame; None for predictors that must be asked for each grasp.
    """

    taken: Bool[np.ndarray, "points"]
    cloud: PointCloud
    judge: Feasibility
    motions: Float[np.ndarray, "poses 4 4"] | None = None


class Outlook:
    """Tells, for poses of a step, whether the next step could follow.

    Args:
        robot: Asked for its reach in the next step.
        step: The next one, with something in the gripper.
        predictor: Of the next step.
        scene: What is seen now.
        limits: The user's.
        config: How far to look.
        seed: Of the questions.
        least_confidence: Poses of the next step of lower confidence would not be executed.
    """

    def __init__(
        self,
        robot: Robot,
        step: TaskStep,
        predictor: PosePredictor,
        scene: PointCloud,
        limits: Limits | None,
        config: LookAhead,
        seed: int,
        least_confidence: float = LEAST_CONFIDENCE,
    ) -> None:
        self._least_confidence = least_confidence
        self._robot, self._step, self._predictor = robot, step, predictor
        self._scene, self._limits, self._config, self._seed = scene, limits, config, seed
        self._told: list[tuple[np.ndarray, Prospect]] = []
        self._scenes: list[_Scene] = []
        self._refused = False
        self._tried = self._passed = self._unknown = 0
        self._began: float | None = None
        self._seconds = 0.0

    @property
    def is_over(self) -> bool:
        """Whether to ask no more: time or candidates are used up, or the predictor refused.

        Time counts from the first question on, with all that the robot does between two.
        """
        late = self._began is not None and time.perf_counter() - self._began >= self._config.budget
        return late or self._refused or self._tried >= self._config.candidates

    def record(self, changed: bool) -> LookedAhead:
        """What it brought.

        Args:
            changed: Whether another pose was chosen for it.
        """
        return LookedAhead(self._tried, self._passed, self._unknown, self._seconds, changed)

    def __call__(self, T_scene_gripper: Float[np.ndarray, "4 4"]) -> Prospect:
        """What follows from a pose; poses that are alike are imagined once."""
        for other, prospect in self._told:
            if self._alike(other, T_scene_gripper):
                return prospect
        if self._began is None:
            self._began = time.perf_counter()
        prospect = self._prospect(T_scene_gripper)
        self._seconds = time.perf_counter() - self._began
        self._tried += 1
        self._passed += prospect is Prospect.FEASIBLE
        self._unknown += prospect is Prospect.UNKNOWN
        self._told.append((T_scene_gripper, prospect))
        return prospect

    def _prospect(self, T_scene_gripper: Float[np.ndarray, "4 4"]) -> Prospect:
        table = None if self._limits is None else self._limits.table
        taken = points_taken(self._scene, T_scene_gripper, self._robot.gripper, table)
        if not taken or (~taken.points).sum() < 2:
            return Prospect.UNKNOWN
        held = self._scene.selected(taken.points).transformed(np.linalg.inv(T_scene_gripper))
        try:
            after = self._after_taking(taken.points, held, T_scene_gripper)
            if after.motions is None:
                poses = self._executed(self._predictor.sample(after.cloud, held, POSES, self._seed))
            else:
                poses = after.motions @ T_scene_gripper
        except HandfulError:  # This predictor cannot be asked what it would do.
            self._refused = True
            return Prospect.UNKNOWN
        judge = after.judge.with_grasp(held)
        feasible = any(judge(pose) for pose in poses)
        return Prospect.FEASIBLE if feasible else Prospect.INFEASIBLE

    def _after_taking(
        self,
        taken: Bool[np.ndarray, "points"],
        held: PointCloud,
        T_scene_gripper: Float[np.ndarray, "4 4"],
    ) -> _Scene:
        """The scene after something was taken; the one of before if that was the same thing."""
        for other in self._scenes:
            if (taken & other.taken).sum() >= SAME_THING * (taken | other.taken).sum():
                return other
        cloud, gripper = self._scene.selected(~taken), self._robot.gripper
        motions = None
        if isinstance(self._predictor, Predictor):
            workspace = None if self._limits is None else self._limits.workspace
            found = self._predictor.look(cloud, held, workspace).sample(POSES, self._seed)
            motions = self._executed(found) @ np.linalg.inv(T_scene_gripper)
        elif isinstance(self._predictor, RemotePredictor):
            found = self._predictor.sample(cloud, held, POSES, self._seed)
            motions = self._executed(found) @ np.linalg.inv(T_scene_gripper)
        crossings = crossings_of(self._predictor)
        judge = Feasibility(self._step, gripper, cloud, None, self._limits, self._robot, crossings)
        self._scenes.append(_Scene(taken, cloud, judge, motions))
        return self._scenes[-1]

    def _executed(self, answer: RankedPoses) -> Float[np.ndarray, "poses 4 4"]:
        """The poses that the next step would execute.

        What is imagined is seen from where the cameras are, and often from one side: to ask for
        more confidence than the step itself needs would favour what happens to be seen well.
        """
        return answer.T_scene_gripper[answer.confidence >= self._least_confidence]

    def _alike(self, one: Float[np.ndarray, "4 4"], other: Float[np.ndarray, "4 4"]) -> bool:
        contact = self._robot.gripper.T_gripper_contact
        apart = np.linalg.inv(one @ contact) @ other @ contact
        angle = math.acos(float(np.clip((np.trace(apart[:3, :3]) - 1.0) / 2.0, -1.0, 1.0)))
        return bool(np.linalg.norm(apart[:3, 3]) <= ALIKE) and angle <= ALIKE_ANGLE
