"""Which poses may be executed: limits, their order, perturbed poses, and motions around a pose."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.clouds import Box, PointCloud
from handful.demos import Action, Gripper, Step, TaskStep, gripper_named
from handful.errors import OptionError
from handful.policy import (
    ApproachCone,
    Crossings,
    Feasibility,
    Limits,
    Motion,
    RankedPoses,
    Verdict,
    perturbed,
)
from handful.policy._grasped import closes_on_something
from handful.policy._perturb import FARTHEST, STEEPEST
from policy_samples import box_surface, contact_at, level_plane, random_gripper, random_poses

HAND = gripper_named("simulated")
GRASP = TaskStep("grasp it", Action.PICK)
STACK = TaskStep("stack it", Action.PLACE)


@dataclass
class Arm:
    """A robot that reaches up to a distance from the origin; nothing else of it is needed here."""

    gripper: Gripper
    longest: float = np.inf
    asked: list[TaskStep] = field(default_factory=list)

    def observe_scene(self) -> PointCloud:
        raise NotImplementedError

    def observe_grasp(self) -> PointCloud:
        raise NotImplementedError

    def reach(self, step: TaskStep, T_scene_gripper: np.ndarray) -> Verdict:
        self.asked.append(step)
        near = bool(np.linalg.norm(T_scene_gripper[:3, 3]) <= self.longest)
        return Verdict(near, "" if near else "out of the arm's reach")

    def execute(self, step: TaskStep, motion: Motion) -> Verdict:
        raise NotImplementedError


# --- motions -------------------------------------------------------------------------------------


def contacts(gripper: Gripper, T_scene_gripper: np.ndarray) -> np.ndarray:
    return (T_scene_gripper @ gripper.T_gripper_contact)[..., :3, 3]


@pytest.mark.parametrize("seed", range(6))
def test_pre_pose_and_retreat_lie_back_along_the_approach(seed: int) -> None:
    gripper, pose = random_gripper(seed), random_poses(1, seed)[0]
    motion = Motion.along_approach(pose, gripper, 0.07)
    approach = (pose @ gripper.T_gripper_contact)[:3, 2]
    for back in (motion.T_scene_pre, motion.T_scene_retreat):
        np.testing.assert_allclose(back[:3, :3], pose[:3, :3])
        gone = contacts(gripper, pose) - contacts(gripper, back)
        np.testing.assert_allclose(gone, 0.07 * approach, atol=1e-12)
    np.testing.assert_array_equal(motion.T_scene_gripper, pose)
    # The frame of the hand may be turned: its own z axis is not the approach.
    assert np.abs(approach - pose[:3, 2]).max() > 0.01


def test_ranked_poses_give_motions_of_their_own_gripper() -> None:
    gripper, poses = random_gripper(1), random_poses(3, 0)
    ranked = RankedPoses(poses, np.arange(3.0), np.ones(3), 0.0, gripper)
    expected = Motion.along_approach(poses[2], gripper, 0.05)
    np.testing.assert_array_equal(ranked.motion(2, 0.05).T_scene_pre, expected.T_scene_pre)
    other = RankedPoses(poses, np.arange(3.0), np.ones(3), 0.0, random_gripper(2))
    assert np.abs(other.motion(2, 0.05).T_scene_pre - expected.T_scene_pre).max() > 1e-3


# --- perturbed poses -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_perturbed_poses_stay_near_about_the_contact_point(seed: int) -> None:
    gripper, poses = random_gripper(seed), random_poses(3, seed)
    before = poses.copy()
    result = perturbed(poses, 240, gripper, np.random.default_rng(seed))
    np.testing.assert_array_equal(poses, before)
    origins = poses[np.arange(240) % 3]
    shift = np.linalg.norm(contacts(gripper, result) - contacts(gripper, origins), axis=1)
    turn = Rotation.from_matrix(result[:, :3, :3] @ origins[:, :3, :3].transpose(0, 2, 1))
    angle = turn.magnitude()
    assert 0.9 * FARTHEST < shift.max() <= FARTHEST + 1e-12
    assert 0.9 * STEEPEST < angle.max() <= STEEPEST + 1e-9
    assert shift.min() < 0.1 * FARTHEST
    # The origin of the gripper frame goes farther: the hand turns about the contact point.
    lever = np.linalg.norm(gripper.T_gripper_contact[:3, 3])
    of_frame = np.linalg.norm(result[:, :3, 3] - origins[:, :3, 3], axis=1)
    assert of_frame.max() > min(FARTHEST, 0.5 * lever * STEEPEST)
    assert lever < 0.05 or of_frame.max() > FARTHEST


def test_perturbed_poses_follow_the_seed() -> None:
    poses = random_poses(2, 0)
    one, same, other = (perturbed(poses, 5, HAND, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-4


# --- limits --------------------------------------------------------------------------------------


def judged(pose: np.ndarray, limits: Limits, gripper: Gripper = HAND, **more: object) -> Verdict:
    """Of a pose with a small thing between the fingers, and nothing else far and wide."""
    at = contacts(gripper, pose) if np.isfinite(pose).all() else np.zeros(3)
    thing = PointCloud(box_surface(tuple(at), (0.008, 0.008, 0.008)))
    return Feasibility(GRASP, gripper, thing, limits=limits, **more)(pose)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(4))
def test_workspace_bounds_the_contact_point(seed: int) -> None:
    gripper = random_gripper(seed)
    limits = Limits(workspace=Box((-0.1, -0.1, 0.0), (0.1, 0.1, 0.2)))
    inside, outside = contact_at(gripper, 0.05, 0.0, 0.1), contact_at(gripper, 0.15, 0.0, 0.1)
    assert judged(inside, limits, gripper)
    verdict = judged(outside, limits, gripper)
    assert not verdict
    assert verdict.reason == "outside of the workspace"
    assert judged(outside, Limits(), gripper)


@pytest.mark.parametrize("seed", range(4))
def test_cone_bounds_the_direction_of_approach(seed: int) -> None:
    gripper = random_gripper(seed)
    limits = Limits(approach=ApproachCone((0.0, 0.0, -3.0), 0.5))
    for tilt, expected in ((0.0, True), (0.45, True), (0.55, False), (3.0, False)):
        tilted = np.eye(4)
        tilted[:3, :3] = Rotation.from_euler("x", tilt).as_matrix()
        verdict = judged(tilted @ contact_at(gripper, 0.0, 0.0, 0.0), limits, gripper)
        assert bool(verdict) is expected
        assert expected or "cone" in verdict.reason


@pytest.mark.parametrize(
    ("axis", "angle"),
    [
        ((0.0, 0.0, 0.0), 1.0),
        ((0.0, 0.0, np.nan), 1.0),
        ((0.0, 0.0, 1.0), 0.0),
        ((0.0, 0.0, 1.0), 4.0),
        ((0.0, 0.0, 1.0), np.nan),
    ],
)
def test_bad_cones_are_refused(axis: tuple[float, float, float], angle: float) -> None:
    with pytest.raises(OptionError, match="need a direction, and radians up to pi"):
        ApproachCone(axis, angle)


@pytest.mark.parametrize("height", [np.nan, np.inf, -np.inf])
def test_a_table_without_a_height_is_refused(height: float) -> None:
    with pytest.raises(OptionError, match=r"table is .*: need its height"):
        Limits(table=height)


def test_user_is_asked_about_step_and_pose() -> None:
    asked = []

    def allowed(step: TaskStep, pose: np.ndarray) -> Verdict:
        asked.append((step, pose))
        return Verdict(bool(pose[0, 3] < 0.0), "the cat sleeps there")

    left, right = contact_at(HAND, -0.1, 0.0, 0.2), contact_at(HAND, 0.1, 0.0, 0.2)
    assert judged(left, Limits(allowed=allowed))
    assert judged(right, Limits(allowed=allowed)) == Verdict(False, "the cat sleeps there")
    assert [step for step, _ in asked] == [GRASP, GRASP]
    np.testing.assert_array_equal(asked[1][1], right)


def test_robot_is_asked_for_its_reach_after_the_user() -> None:
    arm = Arm(HAND, longest=0.5)
    near, far = contact_at(HAND, 0.0, 0.0, 0.2), contact_at(HAND, 2.0, 0.0, 0.2)
    assert judged(near, Limits(), robot=arm)
    assert judged(far, Limits(), robot=arm).reason == "out of the arm's reach"
    assert arm.asked == [GRASP, GRASP]
    nothing = Limits(allowed=lambda step, pose: Verdict(False, "never"))
    assert judged(far, nothing, robot=arm).reason == "never"
    assert len(arm.asked) == 2


@pytest.mark.parametrize("value", [np.nan, np.inf, 2.0])
def test_what_is_no_pose_is_refused_before_anything_is_asked(value: float) -> None:
    arm = Arm(HAND)
    for place in ((0, 0), (1, 2), (3, 3)):
        pose = contact_at(HAND, 0.0, 0.0, 0.2)
        pose[place] = value
        assert judged(pose, Limits(), robot=arm) == Verdict(False, "not a pose")
    assert arm.asked == []


def test_a_pick_needs_something_between_the_fingers() -> None:
    """The edge of a table looks like a rim; a thing on it does not have to."""
    table = level_plane(0.4, spacing=0.004)
    thing = box_surface((0.0, 0.1, 0.02), (0.02, 0.02, 0.04))
    scene = PointCloud(np.concatenate([table, thing]))
    edge, on_thing = contact_at(HAND, 0.2, 0.0, 0.005), contact_at(HAND, 0.0, 0.1, 0.03)
    air = contact_at(HAND, 0.0, -0.1, 0.2)
    for table_height in (None, 0.0):
        judge = Feasibility(GRASP, HAND, scene, limits=Limits(table=table_height))
        assert judge(on_thing)
        assert judge(air) == Verdict(False, "the fingers would close on nothing")
        assert not judge(edge)
    assert Feasibility(GRASP, HAND, scene, limits=Limits(takes=False))(air)
    assert Feasibility(STACK, HAND, scene)(air), "what is let go need not be anywhere"


@pytest.mark.parametrize("seed", range(4))
def test_something_is_between_the_fingers_however_the_gripper_frame_is_turned(seed: int) -> None:
    gripper = random_gripper(seed)
    pose = contact_at(gripper, 0.0, 0.0, 0.1)
    for shift, expected in (
        ((0.0, 0.0, 0.0), True),
        ((0.03, 0.0, 0.0), True),
        ((0.0, 0.03, 0.0), False),
        ((0.0, 0.0, -0.03), False),
        ((0.0, 0.0, 0.03), True),
    ):
        thing = box_surface((0.0, 0.0, 0.1), (0.006, 0.006, 0.006)) + np.array(shift)
        assert closes_on_something(thing, pose, gripper) is expected


def test_noise_alone_is_nothing_to_close_on() -> None:
    pose = contact_at(HAND, 0.0, 0.0, 0.1)
    assert not closes_on_something(np.array([[0.0, 0.0, 0.1]]), pose, HAND)
    assert not closes_on_something(np.zeros((0, 3)), pose, HAND)


def test_reasons_come_in_a_fixed_order() -> None:
    """A pose with every fault: each cure shows the next reason."""
    block = PointCloud(box_surface((0.0, 0.0, 0.1), (0.1, 0.1, 0.2)))
    pose = contact_at(HAND, 0.0, 0.0, 0.1)
    broken = pose.copy()
    broken[0, 3] = np.nan
    outside = Box((1.0, 1.0, 1.0), (2.0, 2.0, 2.0))
    upwards = ApproachCone((0.0, 0.0, 1.0), 0.5)
    never = Limits(outside, upwards, lambda step, at: Verdict(False, "never"), table=0.0)
    cures = [
        (broken, never, 0.0, "not a pose"),
        (pose, never, 0.0, "workspace"),
        (pose, Limits(None, upwards, never.allowed), 0.0, "cone"),
        (pose, Limits(allowed=never.allowed), 0.0, "never"),
        (pose, Limits(), 0.0, "reach"),
        (pose, Limits(), np.inf, "the hand would go through the scene"),
        (pose, Limits(hand=False), np.inf, "what is held would go through the scene"),
        (pose, Limits(hand=False, held=False), np.inf, ""),
    ]
    grasp = PointCloud(box_surface((0.0, 0.0, 0.145), (0.14, 0.04, 0.04)))
    for at, limits, longest, reason in cures:
        verdict = Feasibility(STACK, HAND, block, grasp, limits, Arm(HAND, longest))(at)
        assert bool(verdict) is (reason == "")
        assert reason in verdict.reason


def test_hand_is_checked_on_its_way_along_the_approach() -> None:
    """A lintel 1 cm behind the open palm: the hand is free at the pose and not before it."""
    thing = box_surface((0.0, 0.0, 0.02), (0.01, 0.01, 0.01))
    lintel, beam = (
        PointCloud(np.concatenate([thing, box_surface((0.0, 0.0, height), (0.3, 0.02, 0.02))]))
        for height in (0.19, 0.3)
    )
    pose = contact_at(HAND, 0.0, 0.0, 0.02)  # the flange is then at z = 0.165
    assert not Feasibility(GRASP, HAND, lintel)(pose)
    assert Feasibility(GRASP, HAND, beam)(pose)
    assert Feasibility(GRASP, HAND, lintel, limits=Limits(hand=False))(pose)


def test_held_thing_is_checked_on_its_way_down() -> None:
    """A roof 1 cm above the held block: it is free at the pose and not above it."""
    grasp = PointCloud(box_surface((0.0, 0.0, 0.145), (0.06, 0.04, 0.04)))
    pose = contact_at(HAND, 0.0, 0.0, 0.05)
    limits = Limits(hand=False)
    for height, free in ((0.08, False), (0.14, True)):
        roof = PointCloud(level_plane(0.2, height))
        assert bool(Feasibility(STACK, HAND, roof, grasp, limits)(pose)) is free


def test_what_demonstrations_show_is_allowed_and_no_more() -> None:
    """A peg in a tight hole seems to cross its edge: not beside it, nor through the ground."""
    board = level_plane(0.2, 0.02)
    hole = np.linalg.norm(board[:, :2], axis=1) < 0.0255
    scene = PointCloud(np.concatenate([board[~hole], level_plane(0.2, 0.0)]))
    grasp = PointCloud(box_surface((0.0, 0.0, 0.145), (0.036, 0.036, 0.05)))
    inserted = contact_at(HAND, 0.0, 0.0, 0.0255)
    beside = contact_at(HAND, 0.025, 0.0, 0.0255)
    through = contact_at(HAND, 0.0, 0.0, 0.015)
    limits = Limits(hand=False)
    shown = Crossings.shown([Step(STACK.name, STACK.action, scene, inserted[None], grasp)] * 3)
    naive = Feasibility(STACK, HAND, scene, grasp, limits)
    learned = Feasibility(STACK, HAND, scene, grasp, limits, crossings=shown)
    assert max(shown.counts) > 0
    assert (naive(inserted).ok, learned(inserted).ok) == (False, True)
    assert not learned(beside)
    assert not learned(through)


def test_one_bad_demonstration_allows_nothing() -> None:
    grasp = PointCloud(box_surface((0.0, 0.0, 0.145), (0.06, 0.04, 0.04)))
    scene = PointCloud(level_plane(0.2, 0.03))
    good, bad = contact_at(HAND, 0.0, 0.0, 0.06), contact_at(HAND, 0.0, 0.0, 0.03)
    steps = [Step(STACK.name, STACK.action, scene, at[None], grasp) for at in (good, good, bad)]
    assert max(Crossings.shown(steps[2:]).counts) > 0, "the control"
    assert Crossings.shown(steps) == Crossings()
    assert Crossings.shown([]) == Crossings()


@pytest.mark.parametrize("counts", [(1.0, 2.0), (0.0, -1.0, 0.0), (0.0, 0.0, math.nan)])
def test_impossible_crossings_are_refused(counts: tuple[float, ...]) -> None:
    with pytest.raises(OptionError, match="crossings are"):
        Crossings(counts)
