"""All that training makes up, together: seeded, and the demonstrated pose stays right."""

from dataclasses import replace

import numpy as np
import pytest

from equivariance import random_poses
from handful.clouds import NeighbourIndex, PointCloud, concatenate
from handful.demos import Action, Step
from handful.errors import DemoError, OptionError
from handful.learning.variation import (
    Augmentation,
    Clutter,
    Composition,
    ContextDropout,
    Example,
    Sensor,
    Variation,
    Warp,
    focus_of,
)

CONTACT = np.array([0.01, -0.02, 0.12])
"""In the gripper frame, metres."""
NO_DROPOUT = ContextDropout(probability=0.0)
NOTHING = Variation(context=NO_DROPOUT, held_context=NO_DROPOUT)
SHAPES = replace(
    NOTHING,
    augmentation=Augmentation(recolor=1.0, fade=1.0),
    warp=Warp(0.3, 0.3, 0.3),
    clutter=Clutter(6, floor=0.0),
)
"""Everything that moves no point but by the warp, and leaves none out."""
EVERYTHING = Variation(
    Augmentation(0.06, 0.004, 0.001, 0.05, 0.3, 0.5, recolor=0.8, fade=0.8),
    Warp(0.3, 0.3, 0.3),
    Warp(0.2, 0.2, 0.2),
    Composition(0.7),
    ContextDropout(),
    ContextDropout(smallest=0.06, largest=0.14),
    one_sided=0.5,
    clutter=Clutter(6, floor=0.5),
    sensor=Sensor(noisy=0.4, sparse=0.2),
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def colored(points: np.ndarray, color: tuple[float, float, float]) -> PointCloud:
    return PointCloud(points, np.broadcast_to(color, points.shape), dtype=np.float64)


def scene_with(marks: np.ndarray) -> PointCloud:
    """A table, a box on it, and marks: they are the last points."""
    table = np.column_stack([rng(1).uniform(-0.3, 0.3, (3000, 2)), np.zeros(3000)])
    box = rng(2).uniform([-0.03, -0.03, 0.0], [0.03, 0.03, 0.08], (800, 3))
    things = colored(np.vstack([box, marks]), (0.8, 0.2, 0.2))
    return concatenate([colored(table, (0.4, 0.4, 0.4)), things])


def taking_step() -> tuple[Step, np.ndarray]:
    """An empty gripper with its contact at a mark of the scene, at either of two targets."""
    marks = np.array([[0.03, 0.01, 0.07], [-0.03, 0.02, 0.05]])
    targets = random_poses(2, 4).numpy()
    targets[:, :3, 3] = marks - targets[:, :3, :3] @ CONTACT
    return Step("take the box", Action.PICK, scene_with(marks), targets), marks


def putting_step() -> tuple[Step, np.ndarray]:
    """A held rod whose lower end touches a mark of the scene; its last point is that end."""
    mark = np.array([[0.01, -0.01, 0.08]])
    rod = mark + rng(3).uniform([-0.01, -0.01, 0.0], [0.01, 0.01, 0.2], (600, 3))
    target = random_poses(1, 5, reach=0.1).numpy()[0]
    held = colored(np.vstack([rod, mark]), (0.2, 0.8, 0.2)).transformed(np.linalg.inv(target))
    return Step("put the rod", Action.PLACE, scene_with(mark), target, held), mark


def example_of(step: Step, contact: np.ndarray = CONTACT) -> Example:
    frame = np.eye(4)
    frame[:3, 3] = contact
    return Example(step, np.array([0.0, 0.0, 1.0]), frame)


def varied_step(variation: Variation, step: Step, seed: int = 0) -> Step:
    return variation.apply(example_of(step), rng(seed))


STEPS = {"empty": taking_step, "full": putting_step}


def separated_example() -> Example:
    """The step of an empty gripper, with box and marks as the object and the table as the rest."""
    step, _ = taking_step()
    thing = step.scene.selected(np.arange(3000, len(step.scene)))
    return replace(example_of(step), thing=thing, rest=step.scene.selected(np.arange(3000)))


def marks_after(step: Step, before: Step, count: int) -> np.ndarray:
    """The marks of a scene to which shapes may have been added at its end."""
    return step.scene.points[len(before.scene) - count : len(before.scene)].astype(np.float64)


# --- laws of the whole --------------------------------------------------------------------------


@pytest.mark.parametrize("gripper", STEPS)
def test_the_same_seed_gives_the_same_step(gripper):
    step, _ = STEPS[gripper]()
    one, again, other = (varied_step(EVERYTHING, step, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.targets, again.targets)
    for first, second in ((one.scene, again.scene), (one.grasp, again.grasp)):
        if first is not None:
            np.testing.assert_array_equal(first.points, second.points)
            np.testing.assert_array_equal(first.require_colors(), second.require_colors())
    assert not np.array_equal(one.targets, other.targets)
    assert not np.array_equal(one.scene.points, other.scene.points)


@pytest.mark.parametrize("gripper", STEPS)
def test_name_action_and_what_is_held_or_not_survive(gripper):
    step, _ = STEPS[gripper]()
    for seed in range(10):
        varied = varied_step(EVERYTHING, step, seed)
        assert varied.task_step == step.task_step
        assert varied.targets.shape == step.targets.shape
        assert (varied.grasp is None) == (step.grasp is None)


@pytest.mark.parametrize("gripper", STEPS)
def test_no_variation_changes_nothing(gripper):
    step, _ = STEPS[gripper]()
    same = varied_step(NOTHING, step)
    np.testing.assert_allclose(same.targets, step.targets, atol=1e-12)
    np.testing.assert_allclose(same.scene.points, step.scene.points, atol=1e-12)
    np.testing.assert_array_equal(same.scene.require_colors(), step.scene.require_colors())
    if step.grasp is not None:
        np.testing.assert_allclose(same.grasp.points, step.grasp.points, atol=1e-12)


# --- the pose stays right -----------------------------------------------------------------------


def contacts(step: Step) -> np.ndarray:
    """Where the contact is at every target, scene frame."""
    return step.targets[:, :3, :3] @ CONTACT + step.targets[:, :3, 3]


@pytest.mark.parametrize("seed", range(8))
def test_the_contact_stays_where_it_is_on_a_warped_object(seed):
    step, marks = taking_step()
    np.testing.assert_allclose(contacts(step), marks, atol=1e-12)
    varied = varied_step(SHAPES, step, seed)
    now = marks_after(varied, step, 2)
    np.testing.assert_allclose(contacts(varied), now, atol=1e-9)
    np.testing.assert_array_equal(varied.targets[:, :3, :3], step.targets[:, :3, :3])
    assert np.abs(now[1] - marks[1]).max() > 1e-3, "the object was warped"


def test_a_wrong_contact_leaves_the_object():
    """The broken control: warped about a point that is not where the gripper holds."""
    step, _ = taking_step()
    varied = SHAPES.apply(example_of(step, np.zeros(3)), rng(0))
    assert np.linalg.norm(contacts(varied) - marks_after(varied, step, 2), axis=1).max() > 5e-3


@pytest.mark.parametrize("seed", range(8))
def test_what_is_held_still_touches_where_it_touched(seed):
    step, mark = putting_step()
    varied = varied_step(SHAPES, step, seed)
    held = varied.grasp.transformed(varied.targets[0]).points
    np.testing.assert_allclose(held[-1:], marks_after(varied, step, 1), atol=1e-9)
    np.testing.assert_allclose(varied.targets, step.targets, atol=1e-12)
    before = step.grasp.transformed(step.targets[0]).points
    assert np.abs(held - before).max() > 1e-3, "what is held was warped"
    np.testing.assert_allclose(held[-1:], mark, atol=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_held_touches_the_scene_whatever_its_own_shape(seed):
    step, _ = putting_step()
    varied = varied_step(replace(SHAPES, held_warp=Warp(0.4, 0.3, 0.4)), step, seed)
    apart = NeighbourIndex(varied.scene.points[: len(step.scene)].astype(np.float64)).distance(
        varied.grasp.transformed(varied.targets[0]).points
    )
    assert apart.min() < 0.01
    together = varied_step(SHAPES, step, seed).grasp
    assert np.abs(varied.grasp.points - together.points).max() > 1e-3


@pytest.mark.parametrize("seed", range(8))
def test_the_contact_stays_where_it_is_on_a_composed_object(seed):
    """Warped, turned, put elsewhere: the object's marks are still between the fingers."""
    example = separated_example()
    calm = replace(SHAPES, composition=Composition(1.0))
    varied, thing = calm.apply_with_thing(example, rng(seed))
    np.testing.assert_allclose(contacts(varied), thing.points[-2:], atol=1e-9)
    before = example.step
    assert np.abs(varied.targets[:, :3, 3] - before.targets[:, :3, 3]).max() > 1e-3
    seen = NeighbourIndex(varied.scene.points).distance(thing.points[:-2])
    assert 0.1 < np.mean(seen < 1e-6) < 1.0, "cameras see some sides of it"
    step, nothing = SHAPES.apply_with_thing(example, rng(seed))
    assert nothing is None, "only composed scenes know their object"
    assert step.task_step == varied.task_step


def test_scenes_are_composed_now_and_then_and_the_same_for_the_same_seed():
    example = separated_example()
    some = replace(NOTHING, composition=Composition(0.5))
    things = [some.apply_with_thing(example, rng(seed))[1] for seed in range(12)]
    assert {thing is None for thing in things} == {True, False}
    one, again = (EVERYTHING.apply(example, rng(5)) for _ in range(2))
    np.testing.assert_array_equal(one.scene.points, again.scene.points)
    np.testing.assert_array_equal(one.targets, again.targets)


@pytest.mark.parametrize("gripper", STEPS)
def test_target_noise_is_the_only_thing_that_turns_targets(gripper):
    step, _ = STEPS[gripper]()
    calm = replace(
        EVERYTHING, augmentation=replace(EVERYTHING.augmentation, target_angle=0, target_distance=0)
    )
    turned = step.targets[:, :3, :3]
    for seed in range(5):
        after = varied_step(calm, step, seed).targets[:, :3, :3]
        np.testing.assert_array_equal(after, turned)
    noisy = varied_step(EVERYTHING, step).targets[:, :3, :3]
    assert not np.allclose(noisy, turned, atol=1e-3)


# --- what is shown ------------------------------------------------------------------------------


def test_dropout_of_what_is_held_keeps_what_is_near_the_scene():
    step, mark = putting_step()
    crops = ContextDropout(1.0, 0.05, 0.06, offset=0.0, cut=0.0, least_points=2)
    held = varied_step(replace(NOTHING, held_context=crops), step)
    shown = held.grasp.transformed(step.targets[0]).points
    assert 0 < len(shown) < len(step.grasp)
    assert np.linalg.norm(shown - mark, axis=1).max() < 0.06 + 0.03
    assert len(held.scene) == len(step.scene)


def test_one_sided_grasps_are_as_frequent_as_stated():
    step, _ = putting_step()
    some = replace(NOTHING, one_sided=0.5)
    whole = [len(varied_step(some, step, seed).grasp) == 601 for seed in range(60)]
    assert 0.3 < np.mean(whole) < 0.7
    always = replace(NOTHING, one_sided=1.0)
    assert all(len(varied_step(always, step, s).grasp) < 601 for s in range(5))


def test_what_concerns_a_held_object_leaves_an_empty_gripper_alone():
    step, _ = taking_step()
    held = ContextDropout(1.0, 0.05, 0.06, least_points=2)
    besides = replace(NOTHING, one_sided=1.0, held_context=held, held_warp=Warp(0.5, 0.5, 0.5))
    varied = varied_step(besides, step)
    assert varied.grasp is None
    np.testing.assert_allclose(varied.scene.points, step.scene.points, atol=1e-12)


def test_context_dropout_is_about_the_place_where_the_task_happens():
    crops = ContextDropout(1.0, 0.07, 0.08, offset=0.0, cut=0.0, least_points=2)
    for make in STEPS.values():
        step, marks = make()
        shown = varied_step(replace(NOTHING, context=crops), step).scene.points
        assert 0 < len(shown) < len(step.scene)
        assert np.linalg.norm(shown - marks[0], axis=1).max() < 0.08 + 0.03


def test_a_patchwork_shows_the_target_and_other_parts_and_now_and_then_all():
    table = np.random.default_rng(0).uniform([-0.5, -0.5, 0.0], [0.5, 0.5, 0.001], (15_000, 3))
    scene, target = colored(table, (1.0, 0.0, 0.0)), np.array([0.3, 0.3, 0.0])
    context = ContextDropout(0.0, 0.08, 0.2, patches=1, whole=0.25)
    shown = [context.apply(scene, target, rng(seed)).points for seed in range(200)]
    assert 0.15 < np.mean([len(points) == len(table) for points in shown]) < 0.35
    parts = [points for points in shown if len(points) < len(table)]
    distance = [np.linalg.norm(points - target, axis=1) for points in parts]
    assert all((d < 0.08).sum() == (np.linalg.norm(table - target, axis=1) < 0.08).sum()
               for d in distance)  # fmt: skip
    elsewhere = [points[d > 0.12] for points, d in zip(parts, distance, strict=True)]
    assert np.mean([len(points) > 0 for points in elsewhere]) > 0.9
    spread = [np.ptp(points, axis=0).max() for points in elsewhere if len(points)]
    assert max(spread) <= 2 * 0.12, "one ball, not more"
    together = np.concatenate([points for points in elsewhere if len(points)])
    assert len(np.unique(together, axis=0)) > 0.8 * len(table), "all of the scene, in the end"


def test_patchworks_are_off_where_nothing_is_said_of_them():
    step, _ = putting_step()
    assert NO_DROPOUT.apply(step.scene, np.zeros(3), rng(0)) is step.scene


@pytest.mark.parametrize("wrong", [{"whole": -0.1}, {"whole": float("nan")}, {"patches": -1}])
def test_impossible_patchworks_are_refused(wrong):
    with pytest.raises(OptionError, match=next(iter(wrong))):
        ContextDropout(**wrong)


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_an_impossible_probability_is_refused(share):
    with pytest.raises(OptionError, match="one_sided is"):
        Variation(one_sided=share)


# --- where the task happens ---------------------------------------------------------------------


def test_the_focus_of_an_empty_gripper_is_its_contact_at_the_first_target():
    step, marks = taking_step()
    np.testing.assert_allclose(focus_of(step, CONTACT), marks[0], atol=1e-12)


def test_the_focus_of_a_full_gripper_is_where_what_is_held_meets_the_scene():
    step, mark = putting_step()
    assert np.linalg.norm(focus_of(step, CONTACT) - mark[0]) < 0.02
    np.testing.assert_array_equal(focus_of(step, CONTACT), focus_of(step, np.zeros(3)))


@pytest.mark.parametrize("gripper", STEPS)
def test_the_focus_moves_with_the_scene(gripper):
    step, _ = STEPS[gripper]()
    for motion in random_poses(5, 8).numpy():
        there = step.changed(step.scene.transformed(motion), motion @ step.targets)
        expected = motion[:3, :3] @ focus_of(step, CONTACT) + motion[:3, 3]
        np.testing.assert_allclose(focus_of(there, CONTACT), expected, atol=1e-9)


def test_a_full_gripper_without_a_grasp_cloud_is_refused():
    step, _ = putting_step()
    bare = Step(step.name, step.action, step.scene, step.targets)
    with pytest.raises(DemoError, match="'put the rod' has no grasp cloud: record what"):
        focus_of(bare, CONTACT)
