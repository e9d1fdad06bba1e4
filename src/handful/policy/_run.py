"""The paper's Algorithm 2 for any task: observe, predict, select, execute, step after step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import Task, TaskStep
from handful.errors import OptionError
from handful.policy._feasibility import Feasibility, Limits
from handful.policy._interfaces import PosePredictor, Robot
from handful.policy._motion import PRE_DISTANCE
from handful.policy._ranked import RankedPoses
from handful.policy._selection import PoseSelection
from handful.policy._verdict import Verdict

SAMPLES = 100
"""Poses that a predictor is asked for."""


class StepFailure(Enum):
    """Why a step failed, as far as can be told without looking at it."""

    NOT_PROPOSED = "no pose proposed"
    INFEASIBLE = "no proposed pose is feasible"
    AWAY = "went to something else"
    LOST = "object not held"


@dataclass(frozen=True)
class StepRecord:
    """How one step of a task went.

    Attributes:
        name: Of the step.
        ok: Whether it succeeded.
        proposed: How many poses the predictor proposed, in all attempts.
        skipped: How many of them were found infeasible before one was executed, by reason.
        seconds: Of inference.
        energy: Of the executed pose; None if none was.
        confidence: Of the executed pose; None if none was.
        best_confidence: Of the best proposed pose, feasible or not.
        T_scene_gripper: The executed pose, row by row; None if none was.
        failure: The kind of failure; None if the step succeeded.
        reason: What was seen, for people.
    """

    name: str
    ok: bool
    proposed: int
    skipped: dict[str, int]
    seconds: float
    energy: float | None = None
    confidence: float | None = None
    best_confidence: float | None = None
    T_scene_gripper: list[list[float]] | None = None
    failure: StepFailure | None = None
    reason: str = ""

    @property
    def skips(self) -> int:
        """How many poses were skipped."""
        return sum(self.skipped.values())


@dataclass(frozen=True, eq=False)
class Look:
    """What was seen and proposed for one step; for pictures, and for demonstrations.

    Attributes:
        step: The step.
        scene: Scene cloud.
        grasp: Grasp cloud of a step with something in the gripper, else None.
        proposed: All proposed poses.
        chosen: Which of them is executed; None if none is.
    """

    step: TaskStep
    scene: PointCloud
    grasp: PointCloud | None
    proposed: RankedPoses
    chosen: int | None


@dataclass
class Watcher:
    """Told what happens while a task runs; films, records and judges derive from it.

    Attributes:
        looks: What was seen and proposed, step by step.
    """

    looks: list[Look] = field(default_factory=list)

    def looked(self, look: Look) -> None:
        """Poses were proposed and one was chosen, or none."""
        self.looks.append(look)

    def before(self, step: TaskStep, T_scene_gripper: Float[np.ndarray, "4 4"]) -> None:
        """A pose is about to be executed."""

    def after(self, step: TaskStep, verdict: Verdict) -> None:
        """A pose was executed."""


def run_task(
    robot: Robot,
    task: Task,
    predictors: Mapping[str, PosePredictor],
    *,
    limits: Limits | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
    watcher: Watcher | None = None,
    pre_distance: float = PRE_DISTANCE,
) -> tuple[StepRecord, ...]:
    """Carry out the steps of a task in order; ends with the first that fails.

    Args:
        robot: Looks and moves.
        task: The steps.
        predictors: Proposes poses, by the name of the step.
        limits: The user's.
        samples: Poses that a predictor is asked for in each step.
        seed: The same seed and observations give the same poses.
        watcher: Told what happens.
        pre_distance: Between a pose and its pre-pose and retreat pose, metres.

    Returns:
        A record of each step that was begun. The task is done if there is one for each step and
        the last is `ok`.

    Raises:
        OptionError: A step has no predictor.
    """
    missing = [step.name for step in task if step.name not in predictors]
    if missing:
        raise OptionError(f"the step {missing[0]!r} has no predictor: train or give one.")
    watcher = watcher or Watcher()
    records: list[StepRecord] = []
    for step in task:
        record = _run_step(robot, step, predictors[step.name], limits, samples, seed, watcher,
                           pre_distance)  # fmt: skip
        records.append(record)
        if not record.ok:
            break
    return tuple(records)


def _run_step(
    robot: Robot,
    step: TaskStep,
    predictor: PosePredictor,
    limits: Limits | None,
    samples: int,
    seed: int,
    watcher: Watcher,
    pre_distance: float,
) -> StepRecord:
    scene = robot.observe_scene()
    grasp = robot.observe_grasp() if step.action.holding else None
    feasible = Feasibility(step, robot.gripper, scene, grasp, limits, robot)
    workspace = None if limits is None else limits.workspace
    selection = PoseSelection(
        predictor, robot.gripper, scene, grasp, feasible, samples, seed, workspace
    )
    watcher.looked(Look(step, scene, grasp, selection.proposed, selection.chosen))
    record = _record_of(step, selection)
    if selection.chosen is None:
        return record
    motion = selection.proposed.motion(selection.chosen, pre_distance)
    watcher.before(step, motion.T_scene_gripper)
    verdict = robot.execute(step, motion)
    watcher.after(step, verdict)
    failure = None if verdict else StepFailure.LOST
    return replace(record, ok=bool(verdict), failure=failure, reason=verdict.reason)


def _record_of(step: TaskStep, selection: PoseSelection) -> StepRecord:
    """What is known before the pose is executed."""
    proposed, chosen = selection.proposed, selection.chosen
    record = StepRecord(
        step.name,
        ok=False,
        proposed=len(proposed),
        skipped=dict(selection.skipped),
        seconds=selection.seconds,
        best_confidence=float(proposed.confidence.max()) if len(proposed) else None,
    )
    if chosen is None:
        failure = StepFailure.INFEASIBLE if len(proposed) else StepFailure.NOT_PROPOSED
        return replace(record, failure=failure, reason=selection.why_none)
    return replace(
        record,
        energy=float(proposed.energy[chosen]),
        confidence=float(proposed.confidence[chosen]),
        T_scene_gripper=proposed.T_scene_gripper[chosen].tolist(),
    )
