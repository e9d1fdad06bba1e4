"""Good demonstrations pass, and each usual mistake is named."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from corruptions import CORRUPTIONS, each, inverted, other_contact, with_hand_in_view
from handful.checks import LIMITS, Check, Recorded, check_demos, measures
from handful.clouds import largest_plane
from handful.demos import ContactFrame, DemoSet, Gripper, Step
from policy_samples import level_plane
from samples import mug_sample, small_demos, thin_sample

NAMED = (
    "quaternions x y z w read as w x y z",
    "inverse poses",
    "approach along x",
    "approach along -z",
    "fingers open along the other axis",
    "contact 5 cm too long",
    "contact 5 cm too short",
    "poses and grasps of the finger tips",
    "scene and grasp exchanged",
    "grasp cloud in the scene frame",
    "all in the camera frame",
    "scenes in the camera frame",
    "poses in the camera frame",
    "positions a thousand times too small",
    "poses of the previous demonstration",
)
"""Of the corruptions; `benchmarks/checks.py` tries all of them on more demonstrations."""
ONLY_A_WARNING = ("fingers open along the other axis",)


def kinds(demos: DemoSet) -> set[Check]:
    """What is doubtful or wrong, without looking for its cause."""
    return {one.check for one in measures(Recorded.of(demos)) if one.doubtful}


def test_good_demonstrations_pass():
    report = check_demos(mug_sample(2))
    assert report.problems == ()
    assert report.diagnosis is None
    assert not report.wrong
    assert "fit each other" in report.verdict


@pytest.mark.parametrize("what", NAMED)
def test_each_usual_mistake_is_named(what):
    kind, corrupt = CORRUPTIONS[what]
    report = check_demos(corrupt(thin_sample(2)))
    assert report.diagnosis is not None
    assert report.diagnosis.mistake.kind == kind, report.advice
    assert report.wrong is (what not in ONLY_A_WARNING)
    assert "Cure: " in report.advice


def test_the_part_that_is_wrong_is_told():
    bad = each(thin_sample(3), inverted, lambda number, step: number == 1)
    report = check_demos(bad)
    assert report.diagnosis is not None
    assert report.diagnosis.where == "in 'demo_01' alone"
    assert all("1 of 3 demonstrations" in str(problem) for problem in report.problems)


def test_a_missing_grasp_cloud_is_told():
    def without(step: Step) -> Step:
        return Step(step.name, step.action, step.scene, step.targets)

    report = check_demos(each(thin_sample(2), without))
    assert [problem.check for problem in report.problems] == [Check.NO_GRASP]
    assert report.wrong
    assert report.diagnosis is None


def test_a_hand_in_the_scene_is_told():
    assert Check.SEES_HAND in kinds(with_hand_in_view(thin_sample(2)))


def test_random_points_are_not_demonstrations():
    assert {Check.CONTACT, Check.FINGERS} <= kinds(small_demos())


def test_a_gripper_without_a_shape_is_checked_by_its_contact():
    demos = thin_sample(2)
    bare = replace(demos, gripper=replace(demos.gripper, shape=None))
    assert not check_demos(bare).wrong
    assert Check.CONTACT in kinds(other_contact(bare, -0.08))


def test_fingers_beside_the_opening_axis_are_told():
    demos = thin_sample(2)
    turned = replace(demos.gripper, axis="y")
    assert Check.AXIS in kinds(replace(demos, gripper=turned))


def test_the_checks_do_not_depend_on_where_the_scene_is():
    """A motion that keeps z up changes no measure."""
    demos = thin_sample(2)
    motion = np.eye(4)
    motion[:3, :3] = Rotation.from_euler("z", 1.1).as_matrix()
    motion[:3, 3] = 0.4, -0.7, 0.2

    def moved(step: Step) -> Step:
        return step.changed(scene=step.scene.transformed(motion), targets=motion @ step.targets)

    before, after = (measures(Recorded.of(one)) for one in (demos, each(demos, moved)))
    for one, other in zip(before, after, strict=True):
        assert one.check is other.check
        assert abs(one.amount - other.amount) <= 0.25 * LIMITS[one.check].doubtful + 1e-6


def test_the_checks_do_not_depend_on_the_gripper_frame():
    """The same hand described in another frame, with poses and grasps in it, is as good."""
    demos = thin_sample(2)
    frame = np.eye(4)
    frame[:3, :3] = Rotation.from_euler("xyz", [0.3, -1.0, 2.0]).as_matrix()
    frame[:3, 3] = 0.02, 0.01, -0.03
    bare = replace(demos, gripper=replace(demos.gripper, shape=None))
    contact = frame @ bare.gripper.T_gripper_contact
    quat = np.roll(Rotation.from_matrix(contact[:3, :3]).as_quat(), 1)
    hand = Gripper(ContactFrame(tuple(contact[:3, 3].tolist()), tuple(quat.tolist())), "x", 0.08)

    def moved(step: Step) -> Step:
        grasp = None if step.grasp is None else step.grasp.transformed(frame)
        return step.changed(targets=step.targets @ np.linalg.inv(frame), grasp=grasp)

    assert not check_demos(replace(each(bare, moved), gripper=hand)).problems


@pytest.mark.parametrize("tilt", [0.0, 0.3, 1.2, 2.0])
def test_the_largest_plane_is_found_with_the_side_that_things_stand_on(tilt):
    rng = np.random.default_rng(0)
    things = rng.uniform((-0.05, -0.05, 0.02), (0.05, 0.05, 0.15), (400, 3))
    points = np.concatenate([level_plane(spacing=0.006), things])
    points = points + rng.normal(0.0, 0.001, points.shape)
    turn = Rotation.from_euler("x", tilt)
    plane = largest_plane(turn.apply(points))
    assert plane is not None
    assert abs(plane.tilt - tilt) < 0.02
    assert np.linalg.norm(plane.normal - turn.apply([0.0, 0.0, 1.0])) < 0.02


def test_a_cloud_without_a_plane_has_none():
    points = np.random.default_rng(0).uniform(-0.2, 0.2, (3000, 3))
    assert largest_plane(points) is None
    assert Check.LEVEL not in kinds(small_demos())


def test_what_is_below_a_table_is_told_from_what_is_beside_it():
    plane = largest_plane(level_plane(size=0.3, spacing=0.006))
    assert plane is not None
    spots = np.array([[0.0, 0.0, -0.05], [0.0, 0.0, 0.05], [0.3, 0.0, -0.05]])
    assert plane.below(spots, 0.01).tolist() == [True, False, False]


def test_pictures_mark_what_is_wrong():
    from handful.viz import picture_of_check

    def grey(step: Step) -> Step:
        clouds = [None if one is None else one.painted((0.5, 0.5, 0.5))
                  for one in (step.scene, step.grasp)]  # fmt: skip
        return step.changed(scene=clouds[0], grasp=clouds[1])

    good = each(thin_sample(1), grey)
    reddish = []
    for demos in (good, each(good, inverted)):
        image = np.asarray(picture_of_check(demos, check_demos(demos))).astype(int)
        red, green, blue = np.moveaxis(image, 2, 0)
        reddish.append(float(((red > green + 40) & (red > blue + 40)).mean()))
    assert reddish[0] < 0.001
    assert reddish[1] > 0.01
