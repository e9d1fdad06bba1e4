"""One episode: the policy runs the task on the simulated robot, and the true state judges it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from handful.bench.run._policies import PolicyMaker
from handful.bench.run._records import EpisodeRecord, Failure
from handful.demos import TaskStep
from handful.policy import (
    LEAST_CONFIDENCE,
    SAMPLES,
    Look,
    LookAhead,
    StepFailure,
    StepRecord,
    Verdict,
    Watcher,
    run_task,
)
from handful.sim import SIM_LIMITS, Episode


@dataclass(frozen=True)
class Caution:
    """How careful the robot is; the defaults are those of `run_task`.

    Looking ahead has all the time that it needs here: the same seed must give the same episode,
    however busy the machine is. The number of candidates bounds it.

    Attributes:
        least_confidence: Poses of lower confidence are not executed.
        look_ahead: Choose poses with the next step in mind.
    """

    least_confidence: float = LEAST_CONFIDENCE
    look_ahead: bool = True

    @property
    def how_far(self) -> LookAhead | None:
        """As `run_task` takes it."""
        return LookAhead(budget=math.inf) if self.look_ahead else None


@dataclass
class EpisodeWatcher(Watcher):
    """Told what happens in an episode; films derive from it."""

    def judged(self, verdict: Verdict) -> None:
        """All steps were done, and the end was judged."""


def run_episode(
    episode: Episode,
    maker: PolicyMaker,
    samples: int = SAMPLES,
    watcher: Watcher | None = None,
    caution: Caution = Caution(),  # noqa: B008 - frozen
) -> EpisodeRecord:
    """Run the task of an episode once.

    Args:
        episode: Fresh from a reset.
        maker: Of the policy.
        samples: Poses that a predictor is asked for in each step.
        watcher: Told what happens.
        caution: How careful the robot is.
    """
    start = time.perf_counter()
    judge = _Judge(episode, watcher or Watcher())
    task, things, lying = episode.task.task, tuple(episode.things), bool(episode.lying)
    steps = run_task(
        episode, task, maker(episode), limits=SIM_LIMITS, samples=samples, seed=episode.seed,
        watcher=judge, least_confidence=caution.least_confidence, look_ahead=caution.how_far,
    )  # fmt: skip
    if len(steps) == len(task) and steps[-1].ok:
        steps = judge.end(steps)
    steps = tuple(judge.named(step) for step in steps)
    failed = next((step for step in steps if step.failure is not None), None)
    return EpisodeRecord(
        task=episode.task.name,
        setup=episode.setup.value,
        seed=episode.seed,
        planned=task.names,
        things=things,
        lying=lying,
        success=failed is None,
        failure=_failure(failed),
        reason=steps[-1].reason if failed is None else failed.reason,
        steps=steps,
        seconds=time.perf_counter() - start,
    )


def _failure(failed: StepRecord | None) -> Failure | None:
    if failed is None or failed.failure is None:
        return None
    return Failure(failed.name, failed.failure)


class _Judge(Watcher):
    """Names failures by the true state, which it looks at before a pose is executed.

    Args:
        episode: What is judged.
        other: Told all that this watcher is told.
    """

    def __init__(self, episode: Episode, other: Watcher) -> None:
        super().__init__()
        self._episode, self._other = episode, other
        self._near: dict[str, bool] = {}

    def looked(self, look: Look) -> None:
        """Pass it on."""
        self._other.looked(look)

    def before(self, step: TaskStep, T_scene_gripper: Float[np.ndarray, "4 4"]) -> None:
        """Look whether the pose is at the right object or target, and pass it on."""
        self._episode.focus(step)
        at = self._episode.object_at_target if step.action.holding else self._episode.tips_at_object
        self._near[step.name] = bool(at(T_scene_gripper))
        self._other.before(step, T_scene_gripper)

    def after(self, step: TaskStep, verdict: Verdict) -> None:
        """Pass it on."""
        self._other.after(step, verdict)

    def named(self, record: StepRecord) -> StepRecord:
        """The record with the kind of failure that the true state tells."""
        if record.failure is StepFailure.LOST and not self._near[record.name]:
            return replace(record, failure=StepFailure.AWAY)
        return record

    def end(self, steps: tuple[StepRecord, ...]) -> tuple[StepRecord, ...]:
        """The records of a task whose steps all went well, with the verdict on its end.

        The verdict belongs to the last step. If an object is not held, it belongs to the step that
        placed the object: the world's focus is then on that object and its target.
        """
        verdict = self._episode.success()
        part = self._episode.task.parts[self._episode.world.in_focus]
        blamed = steps[-1].name if verdict else part.place
        if isinstance(self._other, EpisodeWatcher):
            self._other.judged(verdict)
        failure = None if verdict else StepFailure.LOST
        return tuple(
            replace(step, ok=verdict.ok, failure=failure, reason=verdict.reason)
            if step.name == blamed
            else step
            for step in steps
        )
