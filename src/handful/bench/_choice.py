"""Which of a model's poses to execute: the best that is feasible, after some insistence."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from handful.bench._nudge import nudged
from handful.bench._policies import PoseModel, RatingModel
from handful.bench._record import StepRecord
from handful.clouds import PointCloud
from handful.errors import HandfulError
from handful.learning import SURE_ENOUGH, RankedPoses
from handful.sim import GRIPPER, Verdict
from handful.sim.objects import Pose

GOOD = 0.5
"""Good poses have at least this share of the best one's confidence, or the model is sure."""
ATTEMPTS = 3
"""How often a model is asked, at most, if the robot can execute none of its good poses."""
NUDGED, NUDGES = 8, 256
"""How many of the best poses are nudged the second time, and how many poses come of it."""
_SEEDS_APART = 1_000_003


class Choice:
    """The first feasible pose of a model; it has sorted them.

    Where none of the model's good poses is feasible, it rates poses beside them, and then is asked
    again, with other random numbers: a few more like them might be feasible. Other poses come last.

    Args:
        model: Asked for poses.
        scene: Scene cloud X.
        grasp: Grasp cloud Y, for the place.
        feasible: Judges a pose.
        samples: Poses that the model is asked for.
        seed: The same seed gives the same choice.

    Attributes:
        proposed: All poses that the model proposed or rated.
        chosen: Which of them is to be executed; None if none is feasible.
    """

    def __init__(
        self,
        model: PoseModel,
        scene: PointCloud,
        grasp: PointCloud | None,
        feasible: Callable[[Pose], Verdict],
        samples: int,
        seed: int,
    ) -> None:
        self._model, self._scene, self._grasp = model, scene, grasp
        self._feasible, self._samples, self._seed = feasible, samples, seed
        self._skipped: Counter[str] = Counter()
        self._seconds = 0.0
        self._refusal = ""
        self.proposed = RankedPoses(np.zeros((0, 4, 4)), np.zeros(0), np.zeros(0), 0.0)
        self.chosen: int | None = None
        try:
            self._choose()
        except HandfulError as error:
            self._refusal = str(error)

    @property
    def pose(self) -> Pose | None:
        """The pose to execute."""
        return None if self.chosen is None else self.proposed.T_scene_gripper[self.chosen]

    def record(self) -> StepRecord:
        """What is kept of the choice; whether it was a good one is not known yet."""
        count, chosen = len(self.proposed), self.chosen
        confidence = self.proposed.confidence
        best = float(confidence.max()) if count else None
        if chosen is None:
            return StepRecord(
                False, count, dict(self._skipped), self._seconds, best_confidence=best,
                reason=self._why_none(),
            )  # fmt: skip
        return StepRecord(
            False, count, dict(self._skipped), self._seconds, float(self.proposed.energy[chosen]),
            float(confidence[chosen]), best, self.proposed.T_scene_gripper[chosen].tolist(),
        )  # fmt: skip

    def _why_none(self) -> str:
        if self._refusal:
            return self._refusal
        if not len(self.proposed):
            return "the model proposed nothing"
        most = ", ".join(f"{reason} ({times})" for reason, times in self._skipped.most_common(2))
        return f"none of {len(self.proposed)} poses: {most}"

    def _choose(self) -> None:
        good, enough = np.zeros(0, dtype=np.int64), SURE_ENOUGH
        for attempt in range(ATTEMPTS):
            more = self._asked(attempt, self.proposed.T_scene_gripper[good[:NUDGED]])
            if attempt == 0 and len(more):
                enough = min(SURE_ENOUGH, GOOD * float(more.confidence[0]))
            good = len(self.proposed) + np.flatnonzero(more.confidence >= enough)
            self.proposed = _joined(self.proposed, more)
            self.chosen = self._first_feasible(good)
            if self.chosen is not None or len(good) == 0:
                break
        if self.chosen is None:
            by_energy = np.argsort(self.proposed.energy, kind="stable")
            rest = self.proposed.confidence[by_energy] < enough
            self.chosen = self._first_feasible(by_energy[rest])

    def _asked(self, attempt: int, good_poses: np.ndarray) -> RankedPoses:
        """What the model says the first, second or third time."""
        seed = self._seed + attempt * _SEEDS_APART
        start = time.perf_counter()
        try:
            if attempt == 1 and isinstance(self._model, RatingModel):
                beside = nudged(good_poses, NUDGES, GRIPPER.tip, np.random.default_rng(seed))
                return self._model.rate(beside, self._scene, self._grasp)
            return self._model.sample(self._scene, self._grasp, n=self._samples, seed=seed)
        finally:
            self._seconds += time.perf_counter() - start

    def _first_feasible(self, numbers: Int[np.ndarray, "poses"]) -> int | None:
        for number in numbers.tolist():
            verdict = self._feasible(self.proposed.T_scene_gripper[number])
            if verdict:
                return number
            self._skipped[verdict.reason] += 1
        return None


def _joined(first: RankedPoses, second: RankedPoses) -> RankedPoses:
    return RankedPoses(
        np.concatenate([first.T_scene_gripper, second.T_scene_gripper]),
        np.concatenate([first.energy, second.energy]),
        np.concatenate([first.confidence, second.confidence]),
        first.seconds + second.seconds,
    )
