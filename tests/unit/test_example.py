"""Examples: what a demonstration says about its object, and where it says nothing."""

from dataclasses import replace

import numpy as np
import pytest

from equivariance import random_poses
from handful.clouds import NeighbourIndex, PointCloud, concatenate
from handful.demos import Action, Demonstration, DemoSet, Step
from handful.errors import DemoError
from handful.learning.variation import examples_of, separate
from handful.policy import Preparation
from samples import pose_at, small_demos, thin_sample

UP = np.array([0.0, 0.0, 1.0])
VOXEL = 0.004
LOW, HIGH = np.array([-0.03, -0.02, 0.0]), np.array([0.03, 0.02, 0.1])
"""Corners of the box, metres."""
CONTACT = np.array([0.0, 0.0, 0.1])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def colored(points: np.ndarray, color: tuple[float, float, float] = (0.5, 0.5, 0.5)) -> PointCloud:
    return PointCloud(points, np.broadcast_to(color, points.shape), dtype=np.float64)


def box_surface(count: int, seed: int) -> np.ndarray:
    """Points on all faces of the box."""
    points = rng(seed).uniform(LOW, HIGH, (count, 3))
    axis, side = rng(seed + 1).integers(3, size=count), rng(seed + 2).integers(2, size=count)
    points[np.arange(count), axis] = np.where(side == 0, LOW[axis], HIGH[axis])
    return points


def table(count: int = 6000) -> np.ndarray:
    return np.column_stack([rng(9).uniform(-0.3, 0.3, (count, 2)), np.zeros(count)])


def seen_box() -> np.ndarray:
    """What cameras see of the standing box: all but its bottom."""
    points = box_surface(3000, 0)
    return points[points[:, 2] > 0.0]


SCENE = concatenate([colored(table(), (0.4, 0.4, 0.4)), colored(seen_box(), (0.8, 0.2, 0.2))])
HELD = colored(box_surface(3000, 5), (0.8, 0.2, 0.2))


def in_box(points: np.ndarray, margin: float) -> np.ndarray:
    return ((points > LOW - margin) & (points < HIGH + margin)).all(axis=1)


# --- separating ---------------------------------------------------------------------------------


def test_the_object_is_the_box_with_its_bottom_and_the_rest_is_the_table():
    thing, rest = separate(SCENE, HELD, CONTACT, UP, VOXEL)
    assert in_box(thing.points, 1e-3).all()
    everywhere = NeighbourIndex(thing.points).distance(HELD.points)
    assert everywhere.max() < 0.012, "all sides, those too that only the held object shows"
    assert (thing.points[:, 2] < 0.004).any(), "its bottom"
    standing = rest.points[:, 2] > 0.008
    assert not standing.any(), "nothing of the box stays behind"
    assert len(rest) >= 6000
    far = SCENE.points[np.linalg.norm(SCENE.points[:, :2], axis=1) > 0.1]
    assert NeighbourIndex(rest.points).distance(far).max() == 0


@pytest.mark.parametrize("seed", range(3))
def test_separating_follows_the_frame(seed):
    """In a turned frame, upwards with it, the parts are those of the unturned one."""
    motion = random_poses(1, seed)[0].numpy()
    there = separate(
        SCENE.transformed(motion),
        HELD.transformed(motion),
        motion[:3, :3] @ CONTACT + motion[:3, 3],
        motion[:3, :3] @ UP,
        VOXEL,
    )
    thing, rest = separate(SCENE, HELD, CONTACT, UP, VOXEL)
    back = np.linalg.inv(motion)
    assert len(there[1]) == len(rest)
    moved = there[0].transformed(back).points
    assert NeighbourIndex(thing.points).distance(moved).max() < 2 * VOXEL


def test_a_wrong_upwards_is_told_from_the_right_one():
    """The broken control: upside down, the box loses its top to the rest and the table joins it."""
    thing, rest = separate(SCENE, HELD, CONTACT, -UP, VOXEL)
    assert (rest.points[:, 2] > 0.09).any() or not in_box(thing.points, 1e-3).all()


def test_what_is_held_elsewhere_separates_nothing():
    away = np.eye(4)
    away[:3, 3] = 0.0, 0.0, 0.5
    assert separate(SCENE, HELD.transformed(away), CONTACT, UP, VOXEL) is None
    away[:3, 3] = 0.15, 0.0, 0.03
    assert separate(SCENE, HELD.transformed(away), CONTACT, UP, VOXEL) is None


def test_finger_tips_near_the_contact_are_not_taken_over():
    tips = CONTACT + np.array([[[-0.03, 0.0, 0.014]], [[0.03, 0.0, 0.014]]])
    fingers = (tips + rng(1).uniform(-0.003, 0.003, (2, 150, 3))).reshape(-1, 3)
    with_fingers = concatenate([HELD, colored(fingers, (0.1, 0.1, 0.1))])
    thing, _ = separate(SCENE, with_fingers, CONTACT, UP, VOXEL)
    assert NeighbourIndex(thing.points).distance(fingers).min() > 2 * VOXEL
    plain, _ = separate(SCENE, HELD, CONTACT, UP, VOXEL)
    assert len(thing) == pytest.approx(len(plain), rel=0.02)
    elsewhere = CONTACT - [0.0, 0.0, 0.3]  # the control: nobody says where the fingers are
    taken, _ = separate(SCENE, with_fingers, elsewhere, UP, VOXEL)
    assert NeighbourIndex(taken.points).distance(fingers).min() < 2 * VOXEL


def test_the_object_without_a_rest_and_a_rest_without_the_object_are_no_parts():
    alone = colored(seen_box())
    assert separate(alone, HELD, CONTACT, UP, VOXEL) is None
    sparse = concatenate([colored(table()), colored(seen_box()[:20])])
    assert separate(sparse, HELD, CONTACT, UP, VOXEL) is None


def test_colours_that_only_one_cloud_has_leave_the_other_out():
    thing, rest = separate(SCENE, HELD.without_colors(), CONTACT, UP, VOXEL)
    assert thing.has_colors
    assert rest.has_colors
    assert thing.points[:, 2].min() > 0.005, "the bottom is known from the held cloud only"


# --- examples -----------------------------------------------------------------------------------


def demonstrated(held: PointCloud | None, between: tuple[Step, ...] = ()) -> DemoSet:
    """The box is taken from above, and put somewhere."""
    gripper = replace(small_demos().gripper, shape=None)
    reach = gripper.T_gripper_contact[2, 3]
    target = pose_at(0.0, 0.0, 0.1 + reach)
    grasp = None if held is None else held.transformed(np.linalg.inv(target))
    take = Step("take", Action.PICK, SCENE, target)
    put = Step("put", Action.PLACE, colored(table()), pose_at(0.1, 0.0, 0.3), grasp)
    return DemoSet((Demonstration("one", (take, *between, put)),), gripper)


PREPARATION = Preparation(scene_voxel=0.004, grasp_voxel=0.005)


def test_the_next_grasp_cloud_shows_what_was_taken():
    (example,) = examples_of(demonstrated(HELD), "take", PREPARATION)
    assert example.separated
    assert example.step.grasp is None
    contact = (example.step.targets[0] @ example.contact)[:3, 3]
    height = (example.thing.points - contact) @ example.up
    assert height.max() == pytest.approx(0.0, abs=0.004), "the contact is on top of the box"
    assert height.min() == pytest.approx(-0.1, abs=0.006)
    table_below = (example.rest.points - contact) @ example.up
    assert np.median(table_below) == pytest.approx(-0.1, abs=0.004)


def test_an_example_that_does_not_tell_its_object_has_none():
    away = np.eye(4)
    away[2, 3] = 0.5
    other = Step("take more", Action.PICK, SCENE, pose_at(0.0, 0.0, 0.3))
    for demos in (demonstrated(HELD.transformed(away)), demonstrated(HELD, between=(other,))):
        (example,) = examples_of(demos, "take", PREPARATION)
        assert not example.separated
        assert example.thing is example.rest is None


def test_the_last_step_is_followed_by_nothing():
    demos = demonstrated(HELD)
    only = replace(demos, demonstrations=(Demonstration("one", demos[0].steps[:1]),))
    (example,) = examples_of(only, "take", PREPARATION)
    assert not example.separated


def test_a_full_gripper_without_a_grasp_cloud_is_refused():
    with pytest.raises(DemoError, match="'one': the step 'put' has no grasp cloud"):
        examples_of(demonstrated(None), "put", PREPARATION)


@pytest.mark.parametrize("name", ["pick", "place"])
def test_upwards_and_the_contact_go_along_into_the_frames_of_the_clouds(name):
    """Whatever the frames of the clouds are, the contact is where it was in the scene."""
    demos = thin_sample()
    for demo, example in zip(demos, examples_of(demos, name, Preparation()), strict=True):
        step = demo.step(name)
        clouds = Preparation().clouds(step.scene, step.grasp, demos.gripper)
        T_frame_scene = clouds.T_frame_scene
        np.testing.assert_allclose(example.up, T_frame_scene[:3, :3] @ UP, atol=1e-12)
        expected = T_frame_scene @ step.targets @ demos.gripper.T_gripper_contact
        np.testing.assert_allclose(example.step.targets @ example.contact, expected, atol=1e-9)


def test_the_objects_of_the_sample_are_told():
    for example in examples_of(thin_sample(), "pick", Preparation()):
        assert example.separated
        contact = (example.step.targets[0] @ example.contact)[:3, 3]
        assert NeighbourIndex(example.thing.points).distance(contact[None])[0] < 0.02
