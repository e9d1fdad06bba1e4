"""What is told of a task that runs: records of its steps, what was seen, and who is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.demos import TaskStep
from handful.policy._lookahead import LookedAhead
from handful.policy._ranked import RankedPoses
from handful.policy._verdict import Verdict


class StepFailure(Enum):
    """Why a step failed, as far as can be told without looking at it."""

    NOT_PROPOSED = "no pose proposed"
    UNSURE = "not sure enough"
    INFEASIBLE = "no proposed pose is feasible"
    AWAY = "went to something else"
    LOST = "object not held"


@dataclass(frozen=True)
class StepRecord:
    """How one step of a task went.

    Attributes:
        name: Of the step.
        ok: Whether it succeeded.
        proposed: How many poses the predictor proposed, in all attempts and looks.
        skipped: How many of them were found infeasible before one was executed, by reason.
        seconds: Of inference for this step; looking ahead has its own.
        energy: Of the executed pose; None if none was.
        confidence: Of the executed pose; None if none was.
        best_confidence: Of the best proposed pose, feasible or not.
        T_scene_gripper: The executed pose, row by row; None if none was.
        failure: The kind of failure; None if the step succeeded.
        reason: What was seen, for people.
        looks: How often the robot looked before it acted or gave up.
        looked_ahead: What looking ahead to the next step brought; None if nobody looked.
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
    looks: int = 1
    looked_ahead: LookedAhead | None = None

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
        looked_ahead: What looking ahead to the next step brought; None if nobody looked.
    """

    step: TaskStep
    scene: PointCloud
    grasp: PointCloud | None
    proposed: RankedPoses
    chosen: int | None
    looked_ahead: LookedAhead | None = None


@dataclass
class Watcher:
    """Told what happens while a task runs; films, records and judges derive from it.

    Attributes:
        looks: What was seen and proposed, step by step and look by look.
    """

    looks: list[Look] = field(default_factory=list)

    def looked(self, look: Look) -> None:
        """Poses were proposed and one was chosen, or none: then the robot may look again."""
        self.looks.append(look)

    def before(self, step: TaskStep, T_scene_gripper: Float[np.ndarray, "4 4"]) -> None:
        """A pose is about to be executed."""

    def after(self, step: TaskStep, verdict: Verdict) -> None:
        """A pose was executed."""
