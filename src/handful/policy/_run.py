"""The paper's Algorithm 2 for any task: observe, predict, select, execute, step after step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from handful._checks import MAX_POSES, check_seed, whole_number
from handful.clouds import as_cloud
from handful.demos import Task, TaskStep
from handful.errors import OptionError
from handful.policy._confidence import LEAST_CONFIDENCE, check_least_confidence
from handful.policy._feasibility import Feasibility, Limits
from handful.policy._interfaces import LookingRobot, PosePredictor, Robot
from handful.policy._lookahead import LookAhead, Outlook
from handful.policy._motion import PRE_DISTANCE
from handful.policy._predictor import crossings_of
from handful.policy._records import Look, StepFailure, StepRecord, Watcher
from handful.policy._selection import PoseSelection

SAMPLES = 100
"""Poses that a predictor is asked for."""
LOOKS = 2
"""How often a robot looks, at most, before it gives a step up."""
_LOOKS_APART = 500_000_003
"""Between the seeds of two looks."""


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
    least_confidence: float = LEAST_CONFIDENCE,
    looks: int = LOOKS,
    look_ahead: LookAhead | None = LookAhead(),  # noqa: B008 - frozen
) -> tuple[StepRecord, ...]:
    """Carry out the steps of a task in order; ends with the first that fails.

    A step for which no feasible pose is sure enough is not executed. The robot looks again, from
    elsewhere if it can (`LookingRobot`), and then gives the step up.

    Args:
        robot: Looks and moves.
        task: The steps.
        predictors: Proposes poses, by the name of the step.
        limits: The user's.
        samples: Poses that a predictor is asked for in each step.
        seed: The same seed and observations give the same poses, if looking ahead has the time.
        watcher: Told what happens.
        pre_distance: Between a pose and its pre-pose and retreat pose, metres.
        least_confidence: Poses of lower confidence are not executed, 0 to 1.
        looks: How often the robot looks in a step, at most.
        look_ahead: How far to look ahead: of the poses of a step with an empty gripper, those come
            first from which the next step can go on. None does not look ahead.

    Returns:
        A record of each step that was begun. The task is done if there is one for each step and
        the last is `ok`.

    Raises:
        OptionError: A step has no predictor, or an option is out of range.
    """
    _check_kinds(robot, task, predictors)
    missing = [step.name for step in task if step.name not in predictors]
    if missing:
        raise OptionError(f"the step {missing[0]!r} has no predictor: train or give one.")
    check_least_confidence(least_confidence)
    check_seed(seed)
    whole_number("samples", samples, 1, MAX_POSES)
    whole_number("looks", looks, 1, 1000)
    run = _Run(robot, predictors, limits, samples, seed, watcher or Watcher(), pre_distance,
               least_confidence, looks, look_ahead)  # fmt: skip
    records: list[StepRecord] = []
    for step, following in zip(task, (*task.steps[1:], None), strict=True):
        records.append(run.do(step, following))
        if not records[-1].ok:
            break
    return tuple(records)


def _check_kinds(robot: object, task: object, predictors: object) -> None:
    """Refuse what is no robot, task or predictors, and say what it lacks."""
    if not isinstance(robot, Robot):
        need = ("gripper", "observe_scene", "observe_grasp", "reach", "execute")
        lacks = [name for name in need if not hasattr(robot, name)]
        raise OptionError(
            f"robot is of type {type(robot).__name__}, which has no {', '.join(lacks)}: see "
            "`handful.Robot`."
        )
    if not isinstance(task, Task):
        raise OptionError(
            f"task is of type {type(task).__name__}: need a Task, for example `demos.task`."
        )
    if not isinstance(predictors, Mapping):
        raise OptionError(
            f"predictors is of type {type(predictors).__name__}: need a mapping of names of steps "
            "to predictors."
        )


@dataclass(frozen=True)
class _Run:
    """What all steps have in common; see `run_task`."""

    robot: Robot
    predictors: Mapping[str, PosePredictor]
    limits: Limits | None
    samples: int
    seed: int
    watcher: Watcher
    pre_distance: float
    least_confidence: float
    looks: int
    look_ahead: LookAhead | None

    def do(self, step: TaskStep, following: TaskStep | None) -> StepRecord:
        """Look until a pose is chosen, as often as is allowed, and execute it."""
        selections: list[PoseSelection] = []
        while len(selections) < self.looks:
            if selections and isinstance(self.robot, LookingRobot):
                self.robot.look_elsewhere(step)
            seed = self.seed + len(selections) * _LOOKS_APART
            selections.append(self._selection(step, following, seed))
            if selections[-1].chosen is not None:
                break
        record = _record_of(step, selections, self.least_confidence)
        chosen = selections[-1].chosen
        if chosen is None:
            return record
        motion = selections[-1].proposed.motion(chosen, self.pre_distance)
        self.watcher.before(step, motion.T_scene_gripper)
        verdict = self.robot.execute(step, motion)
        self.watcher.after(step, verdict)
        failure = None if verdict else StepFailure.LOST
        return replace(record, ok=bool(verdict), failure=failure, reason=verdict.reason)

    def _selection(self, step: TaskStep, following: TaskStep | None, seed: int) -> PoseSelection:
        """Observe, and choose a pose."""
        robot, limits = self.robot, self.limits
        scene = as_cloud(robot.observe_scene(), "observe_scene()")
        grasp = as_cloud(robot.observe_grasp(), "observe_grasp()") if step.action.holding else None
        outlook = None
        taking = not step.action.holding and following is not None and following.action.holding
        if taking and following is not None and self.look_ahead is not None:
            outlook = Outlook(robot, following, self.predictors[following.name], scene, limits,
                              self.look_ahead, seed, self.least_confidence)  # fmt: skip
        predictor = self.predictors[step.name]
        selection = PoseSelection(
            predictor,
            robot.gripper,
            scene,
            grasp,
            Feasibility(step, robot.gripper, scene, grasp, limits, robot, crossings_of(predictor)),
            self.samples,
            seed,
            None if limits is None else limits.workspace,
            self.least_confidence,
            outlook,
        )
        look = Look(
            step, scene, grasp, selection.proposed, selection.chosen, selection.looked_ahead
        )
        self.watcher.looked(look)
        return selection


def _record_of(
    step: TaskStep, selections: list[PoseSelection], least_confidence: float
) -> StepRecord:
    """What is known before a pose is executed, from all looks."""
    last = selections[-1]
    best = max((float(one.proposed.confidence.max()) for one in selections if len(one.proposed)),
               default=None)  # fmt: skip
    record = StepRecord(
        step.name,
        ok=False,
        proposed=sum(len(one.proposed) for one in selections),
        skipped=dict(sum((one.skipped for one in selections), Counter[str]())),
        seconds=sum(one.seconds for one in selections),
        best_confidence=best,
        looks=len(selections),
        looked_ahead=last.looked_ahead,
    )
    if last.chosen is not None:
        proposed, chosen = last.proposed, last.chosen
        return replace(
            record,
            energy=float(proposed.energy[chosen]),
            confidence=float(proposed.confidence[chosen]),
            T_scene_gripper=proposed.T_scene_gripper[chosen].tolist(),
        )
    if best is None:
        return replace(record, failure=StepFailure.NOT_PROPOSED, reason=last.why_none)
    if best < least_confidence:
        reason = f"the best confidence is {best:.2f}: need at least {least_confidence:.2f}"
        return replace(record, failure=StepFailure.UNSURE, reason=reason)
    sure = [one for one in selections if (one.proposed.confidence >= least_confidence).any()]
    return replace(record, failure=StepFailure.INFEASIBLE, reason=sure[-1].why_none)
