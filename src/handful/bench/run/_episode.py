"""The paper's Algorithm 2: observe, sample, sort, first feasible pose, execute; twice."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.spatial import cKDTree

from handful.bench._choice import Choice
from handful.bench._feasibility import PickFeasibility, PlaceFeasibility
from handful.bench._policies import PolicyMaker
from handful.bench._record import EpisodeRecord, Failure, StepRecord
from handful.clouds import PointCloud
from handful.sim import GRIPPER, Episode, Verdict
from handful.sim.objects import Pose

SAMPLES = 100
"""Poses that a model is asked for."""
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
    pick = Choice(policy.pick, scene, None, PickFeasibility(episode), samples, episode.seed)
    picked = pick.record()
    watcher.looks.append(Look("pick", scene, None, pick.proposed.T_scene_gripper, pick.chosen))
    if pick.pose is None:
        none = Failure.PICK_INFEASIBLE if picked.proposed else Failure.PICK_NOT_SAMPLED
        return ended(none, picked.reason, picked)
    near = _tips_at_object(episode, pick.pose)
    watcher.before("pick", pick.pose)
    verdict = episode.pick(pick.pose)
    watcher.after("pick", verdict)
    picked = _judged(picked, verdict)
    if not verdict:
        lost = Failure.PICK_LOST if near else Failure.PICK_AWAY
        return ended(lost, verdict.reason, picked)

    scene, grasp = episode.observe_scene(), episode.observe_grasp()
    feasible = PlaceFeasibility(episode, scene, grasp)
    place = Choice(policy.place, scene, grasp, feasible, samples, episode.seed)
    placed = place.record()
    watcher.looks.append(Look("place", scene, grasp, place.proposed.T_scene_gripper, place.chosen))
    if place.pose is None:
        none = Failure.PLACE_INFEASIBLE if placed.proposed else Failure.PLACE_NOT_SAMPLED
        return ended(none, placed.reason, picked, placed)
    near = _object_at_target(episode, place.pose)
    watcher.before("place", place.pose)
    verdict = episode.place(place.pose)
    watcher.after("place", verdict)
    if verdict:
        verdict = episode.success()
    watcher.after("end", verdict)
    failure = Failure.NONE if verdict else Failure.PLACE_LOST if near else Failure.PLACE_AWAY
    return ended(failure, verdict.reason, picked, _judged(placed, verdict))


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
