"""The oracle: a policy that sees the true state. It shows tasks, and that they can be done."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import numpy as np

from handful.clouds import PointCloud
from handful.demos import Gripper, TaskStep
from handful.policy import (
    Limits,
    Motion,
    PosePredictor,
    RankedPoses,
    Verdict,
    Watcher,
    run_task,
)
from handful.sim._errors import SimError
from handful.sim.objects import Pose
from handful.sim.tasks._episode import Episode
from handful.sim.tasks._types import Variant

SIM_LIMITS = Limits(table=0.0, hand=False, held=True)
"""For models in this world. The simulator tells collisions of the hand from the true state, as in
the paper (distractors touch nothing); what is held is known by its cloud alone."""
ORACLE_LIMITS = Limits(table=0.0, hand=False, held=False, takes=False)
"""For oracles: they see the truth, and need no clouds to tell collisions."""
_NOTHING_SEEN = PointCloud(np.eye(3))

NO_PICK = "no grasp was in reach and free"
NO_PLACE = "no grasp led to a place in reach and free"
"""Why layouts are thrown away."""

RESET_TRIES = 40
"""Grasps that are drawn when a reset asks whether there is one."""
_GRASP_TRIES = 150
"""The same when the oracle acts."""
_HOPELESS = 6
"""After this many good grasps from which nothing could be placed, the target is out of reach."""
_ALIKE_TRIES = 6
"""Grasps that are nearly alike are not worth more."""
_GOAL_DRAWS, _GOAL_TRIES = 100, 6
"""Goals that are drawn, and how many of those that the object fits into the robot tries."""
_PLACE_ROUNDS = 20
"""How often that is done before the oracle gives up with the object in its hand: it is cheap."""


@dataclass(frozen=True, eq=False)
class OraclePredictor:
    """Proposes the oracle's pose for one step; looks into the episode, not at the clouds.

    Attributes:
        episode: Looked into.
        step: Of its task.
        variant: How the oracle picks.
    """

    episode: Episode
    step: TaskStep
    variant: Variant = Variant.DEFAULT

    def sample(
        self, scene: PointCloud, grasp: PointCloud | None = None, n: int = 1, seed: int = 0
    ) -> RankedPoses:
        """One pose, or none. Random choices are the episode's: `seed` changes nothing.

        Raises:
            SimError: The step lets something go, and nothing is held.
        """
        if self.step.action.holding and not self.episode.holding:
            raise SimError(
                "the oracle sees the truth and nothing imagined: ask for a step that lets "
                "something go when something is held."
            )
        start = time.perf_counter()
        pose = oracle_pose(self.episode, self.step, variant=self.variant)
        gripper = self.episode.gripper
        if pose is None:
            return RankedPoses.nothing(gripper)
        return RankedPoses(
            pose[None], np.zeros(1), np.ones(1), time.perf_counter() - start, gripper
        )


def oracle_predictors(
    episode: Episode, variant: Variant = Variant.DEFAULT
) -> dict[str, PosePredictor]:
    """The oracle for every step of an episode's task, by the name of the step."""
    return {step.name: OraclePredictor(episode, step, variant) for step in episode.task.task}


@dataclass(frozen=True, eq=False)
class _Unseeing:
    """The robot of an episode with its cameras off: drawing clouds takes half of an episode.

    Attributes:
        episode: What moves.
    """

    episode: Episode

    @property
    def gripper(self) -> Gripper:
        """The hand."""
        return self.episode.gripper

    def observe_scene(self) -> PointCloud:
        """Three points, in place of what the cameras would see."""
        return _NOTHING_SEEN

    def observe_grasp(self) -> PointCloud:
        """The same."""
        return _NOTHING_SEEN

    def reach(self, step: TaskStep, T_scene_gripper: Pose) -> Verdict:
        """See `Episode.reach`."""
        return self.episode.reach(step, T_scene_gripper)

    def execute(self, step: TaskStep, motion: Motion) -> Verdict:
        """See `Episode.execute`."""
        return self.episode.execute(step, motion)


def run_oracle(
    episode: Episode, variant: Variant = Variant.DEFAULT, watcher: Watcher | None = None
) -> Verdict:
    """Do the whole episode with the oracle, and judge it.

    Without a watcher nobody asks what the robot sees, and it looks at nothing. A robot whose arm
    is in its cameras' view moves to look, and looks all the same.

    Args:
        episode: Fresh from a reset.
        variant: How the oracle picks.
        watcher: Told what happens.

    Returns:
        The verdict of the step that failed, or of the test at the end.
    """
    looks = watcher is not None or episode.rig.arm_in_view
    records = run_task(
        episode if looks else _Unseeing(episode),
        episode.task.task,
        oracle_predictors(episode, variant),
        limits=ORACLE_LIMITS,
        samples=1,
        seed=episode.seed,
        watcher=watcher,
        looks=1,
        look_ahead=None,
    )
    last = records[-1]
    if not last.ok:
        return Verdict(False, f"{last.name}: {last.reason}")
    verdict = episode.success()
    return verdict if verdict else Verdict(False, f"judge: {verdict.reason}")


def oracle_pose(
    episode: Episode,
    step: TaskStep,
    rng: np.random.Generator | None = None,
    variant: Variant = Variant.DEFAULT,
) -> Pose | None:
    """A random feasible T_scene_gripper that does a step well, or None.

    Args:
        episode: Looked into; the focus turns to the step's pair.
        step: Of the episode's task.
        rng: For the choices; the episode's own if not given.
        variant: How the oracle picks.
    """
    episode.focus(step)
    rng = episode.rng if rng is None else rng
    if step.action.holding:
        return _place_pose(episode, rng, variant)
    tries = _ALIKE_TRIES if variant is Variant.LOWVAR else _GRASP_TRIES
    found = search_pick(episode, rng, variant, tries)
    if not isinstance(found, str):
        return found
    pair = episode.world.in_focus
    return None if variant is Variant.LOWVAR else episode.known_picks.get(pair)


def search_pick(
    episode: Episode, rng: np.random.Generator, variant: Variant, tries: int
) -> Pose | str:
    """A T_scene_gripper from which the object in focus can also be placed, or why there is none."""
    world, checks = episode.world, episode.checks
    T_scene_item = world.T_scene_item
    T_contact_gripper = np.linalg.inv(world.gripper.T_gripper_contact)
    what = episode.task.parts[world.in_focus].what
    taken = False
    for grasps in what.grasps(world.item.thing, rng, variant):
        hopeless = 0
        for T_item_contact in itertools.islice(grasps, tries):
            T_item_gripper = T_item_contact @ T_contact_gripper
            pose = T_scene_item @ T_item_gripper
            if not checks.can_pick(pose):
                continue
            taken = True
            T_gripper_item = np.linalg.inv(T_item_gripper)
            place = _some_goal(episode, T_gripper_item, rng, variant, checks.closed_gap)
            if place is not None:
                episode.known_goals[world.in_focus] = place @ T_gripper_item
                return pose
            hopeless += 1
            if hopeless == _HOPELESS:
                break
    return NO_PLACE if taken else NO_PICK


def _place_pose(episode: Episode, rng: np.random.Generator, variant: Variant) -> Pose | None:
    T_gripper_item = episode.world.T_gripper_item
    for _ in range(_PLACE_ROUNDS):
        pose = _some_goal(episode, T_gripper_item, rng, variant, None)
        if pose is not None:
            return pose
    goal = episode.known_goals.get(episode.world.in_focus)
    if goal is None:
        return None
    # What the pick was chosen for is nearly what is held now.
    pose = goal @ np.linalg.inv(T_gripper_item)
    return pose if episode.checks.can_place(pose, T_gripper_item) else None


def _some_goal(
    episode: Episode,
    T_gripper_item: Pose,
    rng: np.random.Generator,
    variant: Variant,
    gap: float | None,
) -> Pose | None:
    """A T_scene_gripper that releases an object which is held like that, or None."""
    world, checks = episode.world, episode.checks
    what = episode.task.parts[world.in_focus].what
    goals = what.goals(world, rng, variant)
    tries = 0
    for _ in range(_GOAL_DRAWS):
        goal = next(goals)
        if not checks.clear_goal(goal):
            continue
        pose = goal @ np.linalg.inv(T_gripper_item)
        if checks.can_place(pose, T_gripper_item, gap) and what.holds(world, goal):
            return pose
        tries += 1
        if tries == _GOAL_TRIES:
            break
    return None
