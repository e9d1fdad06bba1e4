"""Answers for a robot: judged poses, their JSON, and what may stand for a cloud."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

import handful
from handful.answers import (
    VERSION,
    AnsweredPose,
    PoseAnswer,
    Tracking,
    answer_from_json,
    answer_schema,
    answer_to_json,
)
from handful.clouds import Box, PointCloud, as_cloud, read_cloud
from handful.demos import Action, DemoSet, Gripper, TaskStep, gripper_named
from handful.errors import CloudError, FileFormatError, HandfulError, OptionError
from handful.learning import RunFolder, train
from handful.policy import (
    ApproachCone,
    Crossings,
    Limits,
    Predictor,
    RankedPoses,
    SceneView,
    answer_for,
    answer_to_track,
)
from handful.policy._width import width_between
from policy_samples import box_surface, contact_at, level_plane
from samples import thin_sample
from small_training import small_recipe
from unchecked import unchecked


@pytest.fixture(scope="module")
def demos() -> DemoSet:
    return thin_sample()


@pytest.fixture(scope="module")
def pick(demos) -> Predictor:
    return train(demos, small_recipe("pick", Action.PICK))


@pytest.fixture(scope="module")
def place(demos) -> Predictor:
    return train(demos, small_recipe("place", Action.PLACE))


def a_pose(**changes) -> AnsweredPose:
    pose = AnsweredPose(np.eye(4), np.eye(4), np.eye(4), 0.08, None, 1.5, 0.75, True, "")
    return replace(pose, **changes)


def an_answer(**changes) -> PoseAnswer:
    answer = PoseAnswer(
        "hang mug", "place", "franka-hand", 0.08, True, 0, "", 0.5,
        (a_pose(), a_pose(feasible=False, reason="in the table")), 0.25, "base_link", 12.5,
        ("too sparse",), Tracking(True, False, 3),
    )  # fmt: skip
    return replace(answer, **changes)


# --- JSON -------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [an_answer(), an_answer(tracking=None, stamp=None, chosen=None)])
def test_an_answer_survives_its_json(answer):
    again = answer_from_json(answer_to_json(answer))
    for one in fields(PoseAnswer):
        if one.name != "poses":
            assert getattr(again, one.name) == getattr(answer, one.name)
    for before, after in zip(answer.poses, again.poses, strict=True):
        for one in fields(AnsweredPose):
            np.testing.assert_array_equal(getattr(after, one.name), getattr(before, one.name))


def test_numbers_keep_every_bit():
    matrix = np.random.default_rng(0).normal(size=(4, 4))
    again = answer_from_json(answer_to_json(an_answer(poses=(a_pose(T_scene_gripper=matrix),))))
    np.testing.assert_array_equal(again.poses[0].T_scene_gripper, matrix)


def test_every_field_is_described_and_stands_in_the_json():
    schema, content = answer_schema(), json.loads(answer_to_json(an_answer()))
    assert list(content) == list(schema["properties"]) == schema["required"]
    pose = schema["properties"]["poses"]["items"]
    assert list(content["poses"][0]) == list(pose["properties"])
    for one in (*schema["properties"].values(), *pose["properties"].values()):
        assert one["description"].endswith(".")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version": 1}, f"need 'handful-poses', version {VERSION}"),
        ({"format": "x"}, "has the format 'x'"),
        ({"units": {"length": "mm"}}, "other units"),
        ({"chosen": 2}, "chosen is 2 of 2 poses"),
        ({"chosen": 0.5}, "need a whole number"),
        ({"poses": [{}]}, r"poses\[0\]: field 'T_scene_pre' is missing"),
        ({"confidance": 1}, "Did you mean"),
        ({"warnings": [3]}, "need a string"),
        ({"found": 1}, "need true or false"),
    ],
)
def test_a_wrong_answer_is_told(change, told):
    content = {**json.loads(answer_to_json(an_answer())), **change}
    with pytest.raises(FileFormatError, match=told):
        answer_from_json(json.dumps(content))


@pytest.mark.parametrize("rows", [[[1.0] * 4] * 3, [[1.0] * 3] * 4, 3, [["a"] * 4] * 4])
def test_a_wrong_matrix_is_told(rows):
    content = json.loads(answer_to_json(an_answer()))
    content["poses"][0]["T_scene_gripper"] = rows
    with pytest.raises(FileFormatError, match="need four rows of four numbers"):
        answer_from_json(json.dumps(content))


def test_an_answer_with_nan_is_never_written():
    with pytest.raises(ValueError, match="JSON"):
        answer_to_json(an_answer(seconds=math.nan))


def test_representations_are_short(demos, pick):
    things = [an_answer(), an_answer(chosen=None, reason="no"), a_pose(), demos, demos[0], pick,
              demos[0].steps[0], pick.sample(demos[0].step("pick").scene, n=2)]  # fmt: skip
    for thing in things:
        assert len(repr(thing)) < 300
        assert type(thing).__name__ in repr(thing)


# --- answers of predictors --------------------------------------------------------------------


def test_training_measures_what_demonstrations_show(demos, pick, place):
    assert place.crossings == Crossings.shown(demos.steps("place"))
    assert pick.crossings == Crossings()


def test_every_pose_is_there_once_and_infeasible_ones_say_why(demos, pick):
    scene = demos[0].step("pick").scene
    limits = Limits(approach=ApproachCone((0.0, 0.0, -1.0), 1.0))
    answer = pick.answer(scene, limits=limits, n=12, least_confidence=0.0)
    assert 1 <= len(answer) <= 12
    feasible = [pose.feasible for pose in answer.poses]
    assert feasible == sorted(feasible, reverse=True)
    for pose in answer.poses:
        assert pose.feasible == (pose.reason == "")
        approach = pose.T_scene_gripper[:3, :3] @ pick.gripper.T_gripper_contact[:3, 2]
        if pose.feasible:
            assert approach @ [0, 0, -1] >= math.cos(1.0) - 1e-9
        np.testing.assert_allclose(
            pose.T_scene_gripper[:3, 3] - pose.T_scene_pre[:3, 3], 0.08 * approach, atol=1e-9
        )
        assert pose.width_before == pick.gripper.opening
    assert answer.chosen == (0 if feasible[0] else None)
    assert (answer.reason == "") == feasible[0]


def test_ranking_is_that_of_the_predictor(demos, pick):
    scene = demos[0].step("pick").scene
    limits = Limits(hand=False, takes=False)
    answer = pick.answer(scene, limits=limits, n=8, seed=3, least_confidence=0.0)
    np.testing.assert_array_equal(
        np.stack([pose.T_scene_gripper for pose in answer.poses]),
        pick.sample(scene, n=8, seed=3).T_scene_gripper,
    )


@dataclass
class SureOfOnePlace:
    """Knows a good pose at x = 0, and one at x = 10 cm whose energy is much higher."""

    gripper: Gripper

    @property
    def step(self) -> TaskStep:
        return TaskStep("pick", Action.PICK)

    @property
    def trained_gripper(self) -> Gripper:
        return self.gripper

    def for_gripper(self, gripper: Gripper) -> SureOfOnePlace:
        return SureOfOnePlace(gripper)

    def sample(self, scene, grasp=None, n=100, seed=0):
        poses = np.stack([contact_at(self.gripper, x, 0.0, 0.1) for x in (0.0, 0.1)])
        return RankedPoses(poses, np.array([1.0, 9.0]), np.array([0.9, 0.7]), 0.0, self.gripper)

    def rate(self, T_scene_gripper, scene, grasp=None):
        count = len(T_scene_gripper)
        return RankedPoses(
            T_scene_gripper, np.full(count, 1.5), np.full(count, 0.8), 0.0, self.gripper
        )


def test_the_pose_to_execute_is_the_one_that_selection_chose():
    """The best pose is forbidden: one beside it is executed, and not the next one of the list."""
    hand = gripper_named("simulated")
    contact = hand.T_gripper_contact[:, 3]

    def allowed(step: TaskStep, pose: np.ndarray) -> handful.policy.Verdict:
        return handful.policy.Verdict(bool((pose @ contact)[0] > 0.002), "too far left")

    limits = Limits(hand=False, takes=False, allowed=allowed)
    scene = handful.PointCloud(level_plane(0.05))
    answer = answer_for(SureOfOnePlace(hand), scene, limits=limits, n=100)
    assert answer.best is not None
    assert 0.002 < (answer.best.T_scene_gripper @ contact)[0] < 0.02
    assert 9.0 in [pose.energy for pose in answer.poses if pose.feasible]


def test_limits_that_forbid_everything_leave_reasons(demos, pick):
    limits = Limits(allowed=lambda step, pose: handful.policy.Verdict(False, "not on a Sunday"))
    answer = pick.answer(demos[0].step("pick").scene, limits=limits, n=4, least_confidence=0.0)
    assert answer.best is None
    assert {pose.reason for pose in answer.poses} == {"not on a Sunday"}
    assert "none is feasible: not on a Sunday" in answer.reason


def test_an_answer_that_is_not_sure_says_so(demos, pick):
    answer = pick.answer(demos[0].step("pick").scene, n=2, least_confidence=1.0)
    assert answer.best is None
    assert "need at least 1.00" in answer.reason


def test_only_what_is_near_the_workspace_is_encoded(demos, pick, monkeypatch):
    scene, seen = demos[0].step("pick").scene, []
    target = demos[0].step("pick").targets[0] @ pick.gripper.T_gripper_contact
    low, high = (target[:3, 3] - 0.03).tolist(), (target[:3, 3] + 0.03).tolist()
    init = SceneView.__init__

    def watched(self, *arguments, **options):
        init(self, *arguments, **options)
        seen.append(self.points)

    monkeypatch.setattr(SceneView, "__init__", watched)
    limits = Limits(workspace=Box(tuple(low), tuple(high)))
    answer = pick.answer(scene, limits=limits, n=4, least_confidence=0.0)
    pick.answer(scene, n=4, least_confidence=0.0)
    assert seen[0] < seen[-1]
    for pose in answer.poses:
        contact = pose.T_scene_gripper @ pick.gripper.T_gripper_contact
        inside = limits.workspace.contains(contact[None, :3, 3])[0]
        assert inside != (pose.reason == "outside of the workspace")


def test_a_full_gripper_keeps_its_fingers_closed_on_the_way(demos, place):
    step = demos[0].step("place")
    answer = place.answer(step.scene, step.grasp, n=3, least_confidence=0.0)
    assert {pose.width_before for pose in answer.poses} == {None}
    assert {pose.width_after for pose in answer.poses} == {place.gripper.opening}


def test_a_frame_of_a_stream_is_answered(demos, pick):
    scene = demos[0].step("pick").scene
    tracked = pick.track(scene, None, budget=None)
    answer = answer_to_track(pick, scene, tracked, least_confidence=0.0, frame="base", stamp=3.0)
    assert answer.tracking == Tracking(tracked.near, tracked.whole, tracked.parts)
    assert (answer.frame, answer.stamp) == ("base", 3.0)
    np.testing.assert_array_equal(answer.poses[0].T_scene_gripper, tracked.T_scene_gripper[0])


def test_refusals_of_the_model_are_errors(demos, pick):
    grey = demos[0].step("pick").scene.without_colors()
    with pytest.raises(CloudError, match="no colours"):
        pick.answer(grey)
    with pytest.raises(CloudError, match="check its frame and unit"):
        pick.answer(demos[0].step("pick").scene, limits=Limits(Box((5, 5, 5), (6, 6, 6))))


@pytest.mark.parametrize("width", [0.01, 0.04, 0.075])
def test_the_width_between_the_fingers_is_that_of_what_is_there(width):
    gripper = gripper_named("simulated")
    points = box_surface((0.3, 0.1, 0.05), (width, 0.05, 0.06))
    pose = contact_at(gripper, 0.3, 0.1, 0.06)
    assert width_between(points, pose, gripper) == pytest.approx(width, abs=2e-3)
    assert width_between(points + 1.0, pose, gripper) is None


# --- wrong kinds ------------------------------------------------------------------------------


class OpenCloud:
    """What the clouds of another library look like."""

    def __init__(self, points, colors=()):
        self.points, self.colors = list(points), list(colors)


def test_arrays_and_objects_with_points_are_clouds(demos, pick):
    scene = demos[0].step("pick").scene
    wide = np.concatenate([scene.points, scene.colors], axis=1)
    for value in (wide, OpenCloud(scene.points, scene.colors)):
        np.testing.assert_array_equal(as_cloud(value).points, scene.points)
        np.testing.assert_array_equal(as_cloud(value).colors, scene.colors)
    assert not as_cloud(OpenCloud(scene.points)).has_colors
    assert not as_cloud(scene.points).has_colors
    assert as_cloud(scene) is scene
    ours, theirs = pick.sample(scene, n=2), pick.sample(wide, n=2)
    np.testing.assert_array_equal(ours.T_scene_gripper, theirs.T_scene_gripper)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("scene.ply", "read_cloud"),
        (None, "is None"),
        (3, "of type int"),
        (np.zeros((4, 2)), r"shape \(4, 2\)"),
        (np.zeros(3), r"shape \(3,\)"),
        ([[1.0, 2.0], [1.0]], "equally many real numbers"),
        (np.array([["a", "b", "c"]]), "equally many real numbers"),
        (OpenCloud([[0.0, 0.0, 0.0]]), "1 usable point"),
        (np.full((5, 3), np.inf), "infinite"),
    ],
)
def test_what_is_no_cloud_is_one_sentence(value, told, pick):
    with pytest.raises(CloudError, match=told) as caught:
        pick.sample(value)
    assert str(caught.value).startswith("scene: ")


def test_wrong_kinds_are_sentences(demos, pick):
    class Half:
        gripper = demos.gripper

        def observe_scene(self) -> PointCloud: ...

    scene, far = demos[0].steps[0].scene, np.eye(4)
    far[0, 3] = 400.0
    for call, told in [
        (lambda: pick.for_gripper("franka-hand"), "need a Gripper"),
        (lambda: handful.train_step("out/mug", "pick"), "need a DemoSet"),
        (lambda: handful.load_demos(None), "folder is None: need a path"),
        (lambda: handful.load_predictor(5), "folder is 5: need a path"),
        (lambda: RunFolder(5), "path is 5: need a path"),
        (lambda: read_cloud(b"scene.ply"), "need a path"),
        (lambda: pick.answer(demos[0].steps[0].scene, n="9"), "n is '9': need a whole number"),
        (lambda: pick.answer(demos[0].steps[0].scene, limits=0.1), "limits is 0.1: need Limits"),
        (lambda: Limits(workspace=[0, 0, 0, 1, 1, 1]), r"workspace is \[0, 0.*need a Box"),
        (lambda: Limits(approach=(0, 0, -1, 0.9)), "need an ApproachCone"),
        (lambda: Limits(table="0"), "table is '0': need its height in metres"),
        (lambda: ApproachCone((0, 0, -1), 60), r"60 degrees are 1\.05"),
        (lambda: Limits(workspace=Box((-400, -400, 0), (400, 400, 500))), "goes to 500 m"),
        (lambda: pick.sample(scene, n=1, workspace=((0, 0, 0), (1, 1, 1))), "need a Box"),
        (lambda: pick.answer(scene, n=1, seed="a"), "seed is 'a': need a whole number"),
        (lambda: pick.answer(scene, n=1, least_confidence="x"), "least confidence is 'x'"),
        (lambda: pick.answer(scene, n=1, pre_distance=80), "pre_distance is 80: need 0 to 2"),
        (lambda: pick.answer(scene, n=1, frame=None), "frame is None: need its name"),
        (lambda: pick.answer(scene, n=1, stamp="now"), "stamp is 'now': need a number"),
        (lambda: pick.rate(far, scene), "is 400 m from the origin.*by 0.001"),
        (lambda: demos["demo_9"], "unknown demonstration 'demo_9'"),
        (lambda: demos[0].step(0), "unknown step '0'"),
        (lambda: ApproachCone("down", 0.9), "need three numbers, and radians"),
        (lambda: handful.run_task(Half(), demos.task, {}), "observe_grasp, reach, execute"),
    ]:
        with pytest.raises((OptionError, HandfulError), match=told):
            unchecked(call)


def test_a_gripper_without_shape_is_judged_by_limits_alone(demos, pick):
    bare = Gripper(demos.gripper.contact, demos.gripper.axis, demos.gripper.opening)
    answer = pick.for_gripper(bare).answer(
        demos[0].step("pick").scene, limits=Limits(takes=False), n=3, least_confidence=0.0
    )
    assert all(pose.feasible for pose in answer.poses)
