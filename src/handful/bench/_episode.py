"""The paper's Algorithm 2: observe, sample, sort, first feasible pose, execute; twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Int
from scipy.spatial import cKDTree

from handful.bench._feasibility import PickFeasibility, PlaceFeasibility
from handful.bench._policies import PolicyMaker, PoseModel
from handful.bench._record import EpisodeRecord, Failure, StepRecord
from handful.clouds import PointCloud
from handful.errors import HandfulError
from handful.learning import SURE_ENOUGH, RankedPoses
from handful.sim import GRIPPER, Episode, Verdict
from handful.sim.objects import Pose

SAMPLES = 100
"""Poses that a model is asked for."""
ATTEMPTS = 3
"""How often it is asked, at most, if it is sure of poses that the robot cannot reach."""
_SEEDS_APART = 1_000_003
_NEAR_OBJECT = 0.03
"""Metres between finger tips and object; a hand farther off went to something else."""
_NEAR_TARGET = 0.05
"""Metres between the rims of object and target, seen from above; the same for a place."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a policy saw and proposed in one step; for pictures.

    Attributes:
        step: `pick` or `place`.
        scene: Scene cloud.
        grasp: Grasp cloud, for the place.
        poses: T_scene_gripper, best first.
        chosen: Which was executed; None if none.
    """

    step: str
    scene: PointCloud
    grasp: PointCloud | None
    poses: np.ndarray
    chosen: int | None


@dataclass
class Watcher:
    """Told what happens in an episode; the film and the report's pictures derive from it."""

    looks: list[Look] = field(default_factory=list)

    def before(self, step: str, pose: Pose) -> None:
        """A pose is about to be executed."""

    def after(self, step: str, verdict: Verdict) -> None:
        """It was; or the episode was judged, with the step `end`."""


@dataclass(frozen=True, eq=False)
class _Choice:
    """The pose to execute, if there is one, and what is recorded of the choice."""

    pose: Pose | None
    record: StepRecord


def run_episode(
    episode: Episode,
    maker: PolicyMaker,
    samples: int = SAMPLES,
    watcher: Watcher | None = None,
) -> EpisodeRecord:
    """Pick and place once.

    Args:
        episode: Fresh from a reset.
        maker: Of the policy.
        samples: Poses that the model is asked for in each step.
        watcher: Told what happens.
    """
    start = time.perf_counter()
    watcher = watcher or Watcher()
    policy = maker(episode)
    lying = bool(abs(episode.world.item_pose[2, 2]) < 0.7)

    def ended(
        failure: Failure, reason: str, pick: StepRecord, place: StepRecord | None = None
    ) -> EpisodeRecord:
        return EpisodeRecord(
            episode.task.name, episode.setup.value, episode.seed, episode.world.item.thing.name,
            lying, failure is Failure.NONE, failure, reason, pick, place,
            time.perf_counter() - start,
        )  # fmt: skip

    scene = episode.observe_scene()
    pick = _choose(policy.pick, scene, None, PickFeasibility(episode), samples, episode, watcher)
    if pick.pose is None:
        none = Failure.PICK_INFEASIBLE if pick.record.proposed else Failure.PICK_NOT_SAMPLED
        return ended(none, pick.record.reason, pick.record)
    near = _tips_at_object(episode, pick.pose)
    watcher.before("pick", pick.pose)
    verdict = episode.pick(pick.pose)
    watcher.after("pick", verdict)
    picked = _judged(pick.record, verdict)
    if not verdict:
        lost = Failure.PICK_LOST if near else Failure.PICK_AWAY
        return ended(lost, verdict.reason, picked)

    scene, grasp = episode.observe_scene(), episode.observe_grasp()
    feasible = PlaceFeasibility(episode, scene, grasp)
    place = _choose(policy.place, scene, grasp, feasible, samples, episode, watcher)
    if place.pose is None:
        none = Failure.PLACE_INFEASIBLE if place.record.proposed else Failure.PLACE_NOT_SAMPLED
        return ended(none, place.record.reason, picked, place.record)
    near = _object_at_target(episode, place.pose)
    watcher.before("place", place.pose)
    verdict = episode.place(place.pose)
    watcher.after("place", verdict)
    if verdict:
        verdict = episode.success()
    watcher.after("end", verdict)
    failure = Failure.NONE if verdict else Failure.PLACE_LOST if near else Failure.PLACE_AWAY
    return ended(failure, verdict.reason, picked, _judged(place.record, verdict))


def _choose(
    model: PoseModel,
    scene: PointCloud,
    grasp: PointCloud | None,
    feasible: Callable[[Pose], Verdict],
    samples: int,
    episode: Episode,
    watcher: Watcher,
) -> _Choice:
    """Sample, and take the first feasible pose; the model has sorted them.

    Where the model is sure of some poses and none of those is feasible, it is asked again, with
    other random numbers: there are more poses like them, and a few might be feasible. Poses that it
    is not sure of come last.
    """
    ranked = _NOTHING
    skipped: Counter[str] = Counter()
    chosen: int | None = None
    seconds = 0.0

    def first_feasible(numbers: Int[np.ndarray, "poses"]) -> int | None:
        for number in numbers.tolist():
            verdict = feasible(ranked.T_scene_gripper[number])
            if verdict:
                return number
            skipped[verdict.reason] += 1
        return None

    for attempt in range(ATTEMPTS):
        start = time.perf_counter()
        seed = episode.seed + attempt * _SEEDS_APART
        try:
            more = model.sample(scene, grasp, n=samples, seed=seed)
        except HandfulError as error:
            seconds += time.perf_counter() - start
            return _Choice(None, StepRecord(False, 0, {}, seconds, reason=str(error)))
        seconds += time.perf_counter() - start
        before, ranked = len(ranked), _joined(ranked, more)
        sure = before + np.flatnonzero(more.confidence >= SURE_ENOUGH)
        chosen = first_feasible(sure)
        if chosen is not None or len(sure) == 0:
            break
    if chosen is None:
        by_energy = np.argsort(ranked.energy, kind="stable")
        chosen = first_feasible(by_energy[ranked.confidence[by_energy] < SURE_ENOUGH])
    step = "pick" if grasp is None else "place"
    watcher.looks.append(Look(step, scene, grasp, ranked.T_scene_gripper, chosen))
    record = _step_record(ranked, chosen, skipped, seconds)
    return _Choice(None if chosen is None else ranked.T_scene_gripper[chosen], record)


_NOTHING = RankedPoses(np.zeros((0, 4, 4)), np.zeros(0), np.zeros(0), 0.0)


def _joined(first: RankedPoses, second: RankedPoses) -> RankedPoses:
    return RankedPoses(
        np.concatenate([first.T_scene_gripper, second.T_scene_gripper]),
        np.concatenate([first.energy, second.energy]),
        np.concatenate([first.confidence, second.confidence]),
        first.seconds + second.seconds,
    )


def _step_record(
    ranked: RankedPoses, chosen: int | None, skipped: Counter[str], seconds: float
) -> StepRecord:
    count = len(ranked.energy)
    best = float(ranked.confidence.max()) if count else None
    if chosen is None:
        most = ", ".join(f"{reason} ({times})" for reason, times in skipped.most_common(2))
        reason = f"none of {count} poses: {most}" if count else "the model proposed nothing"
        return StepRecord(
            False, count, dict(skipped), seconds, best_confidence=best, reason=reason
        )  # fmt: skip
    return StepRecord(
        False, count, dict(skipped), seconds, float(ranked.energy[chosen]),
        float(ranked.confidence[chosen]), best, ranked.T_scene_gripper[chosen].tolist(),
    )  # fmt: skip


def _judged(record: StepRecord, verdict: Verdict) -> StepRecord:
    return replace(record, ok=verdict.ok, reason=verdict.reason)


def _tips_at_object(episode: Episode, pose: Pose) -> bool:
    """Whether the finger tips are at the object; of the true state, only to name failures."""
    item = episode.world.item_pose
    corners = episode.world.item.thing.vertices @ item[:3, :3].T + item[:3, 3]
    tips = pose[:3, 3] + GRIPPER.tip * pose[:3, 2]
    return bool(cKDTree(corners).query(tips)[0] < _NEAR_OBJECT)


def _object_at_target(episode: Episode, pose: Pose) -> bool:
    """Whether the object will be over the target; of the true state, only to name failures."""
    world = episode.world
    item = pose @ np.linalg.inv(world.hand_pose) @ world.item_pose
    corners = world.item.thing.vertices @ item[:3, :3].T + item[:3, 3]
    away = np.linalg.norm(corners[:, :2] - world.target.pose[:2, 3], axis=1).min()
    return bool(away < world.target.thing.footprint(world.target.pose) + _NEAR_TARGET)
