"""Composed scenes: the object goes somewhere else, and its pose with it, exactly."""

from dataclasses import replace

import numpy as np
import pytest

from equivariance import random_poses
from handful.clouds import NeighbourIndex, PointCloud, concatenate
from handful.demos import Action, ContactFrame, Gripper, Step, gripper_named
from handful.errors import OptionError
from handful.learning.variation import (
    Augmentation,
    Composition,
    ContextDropout,
    Example,
    Variation,
    Warp,
    _composition,
)
from policy_samples import contact_at

CONTACT = np.array([0.01, -0.02, 0.12])
"""In the gripper frame, metres."""
BARE = Gripper(ContactFrame(tuple(CONTACT.tolist())), "x", 0.08)
"""Of unknown shape: its hand is free everywhere."""
HAND = gripper_named("simulated")
ALWAYS = Composition(1.0)
RED, GREY = (0.8, 0.2, 0.2), (0.4, 0.4, 0.4)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def colored(points: np.ndarray, color: tuple[float, float, float]) -> PointCloud:
    return PointCloud(points, np.broadcast_to(color, points.shape), dtype=np.float64)


def example_of(seed: int = 0) -> Example:
    """A red rod with a hook, upright on a grey table beside a post, in a turned frame.

    The contact is at its top, at either of two targets. Some points of it make no symmetry.
    """
    rod = rng(1).uniform([-0.02, -0.015, 0.0], [0.02, 0.015, 0.16], (400, 3))
    hook = rng(2).uniform([0.02, -0.01, 0.11], [0.06, 0.01, 0.13], (100, 3))
    thing = np.vstack([rod, hook])
    thing[0, 2] = 0.0
    table = np.column_stack([rng(3).uniform(-0.3, 0.3, (3000, 2)), np.zeros(3000)])
    post = rng(4).uniform([0.15, 0.15, 0.0], [0.17, 0.17, 0.2], (200, 3))
    motion = random_poses(1, seed)[0].numpy()
    targets = random_poses(2, 4).numpy()
    targets[:, :3, 3] = thing[1:3] - targets[:, :3, :3] @ CONTACT
    parts = [
        colored(points, color).transformed(motion)
        for points, color in ((thing, RED), (np.vstack([table, post]), GREY))
    ]
    step = Step("take it", Action.PICK, concatenate(parts), motion @ targets)
    up = motion[:3, 2]
    return Example(step, up, BARE, BARE.T_gripper_contact, *parts, level=float(motion[:3, 3] @ up))


def distances(example: Example) -> np.ndarray:
    """Between all points of the object and the gripper: its contact, and the tips of its axes."""
    tips = np.array([CONTACT, *(CONTACT + 0.1 * np.eye(3))])
    at = example.step.targets[:, :3, :3] @ tips.T + example.step.targets[:, :3, 3:]
    gripper = at.transpose(0, 2, 1).reshape(-1, 3)
    return np.linalg.norm(gripper[:, None] - example.thing.points[None], axis=-1)


# --- the object ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_object_and_poses_move_as_one(seed):
    before = example_of(seed)
    after = replace(ALWAYS, upright=0.0).apply(before, rng(seed))
    np.testing.assert_allclose(distances(after), distances(before), atol=1e-6)
    assert np.linalg.det(after.step.targets[0, :3, :3]) == pytest.approx(1.0)
    assert np.abs(after.thing.points - before.thing.points).max() > 0.01, "it moved"
    stayed = replace(after, step=after.step.changed(targets=before.step.targets))
    assert np.abs(distances(stayed) - distances(before)).max() > 0.01, "the control: poses stay"


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("raised", [0.0, 1.0])
def test_the_object_stands_on_the_support_or_on_a_block(seed, raised):
    before = example_of(seed)
    composition = replace(ALWAYS, raised=raised, heights=(0.03, 0.12), floating=0.0)
    after = composition.apply(before, rng(seed))
    above = after.thing.points @ before.up - before.level
    if not raised:
        assert above.min() == pytest.approx(0.0, abs=1e-9)
        return
    assert 0.03 <= above.min() <= 0.12
    block = after.step.scene.points[len(before.rest) + len(before.thing) :]
    heights = block @ before.up - before.level
    assert heights.max() == pytest.approx(above.min(), abs=1e-6), "it is on top of its block"
    assert heights.min() > -1e-6


@pytest.mark.parametrize("seed", range(10))
def test_a_warped_object_stands_on_the_support_all_the_same(seed):
    """A larger object about a contact at its top would reach through the table."""
    example, dropout = example_of(seed), ContextDropout(probability=0.0)
    composition = Composition(1.0, upright=1.0, raised=0.0)
    varied = Variation(
        Augmentation(),
        Warp(0.5, 0.4, 0.5),
        composition=composition,
        context=dropout,
    )
    _, thing = varied.apply_with_thing(example, rng(seed))
    lowest = float((thing.points @ example.up).min())
    assert lowest == pytest.approx(example.level, abs=1e-6)
    height = np.ptp(thing.points @ example.up) / np.ptp(example.thing.points @ example.up)
    assert abs(height - 1.0) > 1e-3


def test_upright_is_as_frequent_as_stated_and_else_any_orientation_comes():
    before = example_of()
    composition = replace(ALWAYS, upright=0.4, lying=0.0)
    ups = []
    for seed in range(120):
        after = composition.apply(before, rng(seed))
        turn = after.step.targets[0, :3, :3] @ before.step.targets[0, :3, :3].T
        ups.append(before.up @ turn @ before.up)
    upright = np.isclose(ups, 1.0, atol=1e-9)
    assert np.mean(upright) == pytest.approx(0.4, abs=0.12)
    others = np.array(ups)[~upright]
    assert np.mean(others < 0) == pytest.approx(0.5, abs=0.15), "upside down as often as not"


@pytest.mark.parametrize("seed", range(10))
def test_an_object_that_lies_rests_on_another_side_than_its_foot(seed):
    """Three points of it, or more, are as low as its lowest; an object that is turned has one."""
    before = example_of(seed)
    resting = []
    for shares in ({"lying": 1.0}, {"lying": 0.0}):
        composition = replace(ALWAYS, upright=0.0, raised=0.0, floating=0.0, **shares)
        after = composition.apply(before, rng(seed))
        height = after.thing.points @ before.up
        resting.append(np.sum(height < height.min() + 1e-5))
    assert resting[0] >= 3
    assert resting[1] < 3, "the control"
    lying = replace(ALWAYS, upright=0.0, lying=1.0).apply(before, rng(seed))
    turn = lying.step.targets[0, :3, :3] @ before.step.targets[0, :3, :3].T
    assert before.up @ turn @ before.up < 0.75, "it does not stand as it did"


def test_an_object_in_one_plane_has_no_other_side_and_takes_any_orientation():
    flat = np.array([[x, y, 0.0] for x in range(3) for y in range(3)], dtype=float)
    assert _composition._some_side(flat, np.array([0.0, 0.0, 1.0]), rng(0)) is None


def test_an_object_elsewhere_is_on_the_table_and_off_what_stands_there():
    before = example_of()
    post = before.rest.points[3000:]
    composition = replace(ALWAYS, upright=1.0, raised=0.0, floating=0.0, elsewhere=1.0)
    moves = []
    for seed in range(40):
        after = composition.apply(before, rng(seed)).thing.points
        moves.append(np.linalg.norm((after - before.thing.points).mean(axis=0)))
        assert NeighbourIndex(after).distance(post).min() > 0.015
    assert np.median(moves) > 0.1
    stays = replace(composition, elsewhere=0.0).apply(before, rng(0)).thing.points
    np.testing.assert_allclose(stays, before.thing.points, atol=1e-9)


# --- the scene ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_a_scene_is_the_rest_and_the_object_once(seed):
    before = example_of(seed)
    after = replace(ALWAYS, floating=0.0, recolored=0.0).apply(before, rng(seed))
    scene = after.step.scene
    count = len(before.rest)
    np.testing.assert_array_equal(scene.points[:count], before.rest.points)
    np.testing.assert_array_equal(scene.points[count:][: len(before.thing)], after.thing.points)
    old = NeighbourIndex(before.thing.points).distance(scene.points) < 1e-9
    moved = NeighbourIndex(after.thing.points).distance(scene.points) < 1e-9
    assert not (old & ~moved).any(), "nothing of the object stays where it was"
    red = np.isclose(scene.require_colors(), RED, atol=1e-6).all(axis=1)
    assert red.sum() == len(before.thing)
    assert not after.separated, "nothing is composed twice"
    assert after.step.task_step == before.step.task_step


def test_floating_objects_have_no_table_and_keep_what_stands_around():
    before = example_of()
    post = before.rest.points[3000:]
    for seed in range(5):
        scene = replace(ALWAYS, floating=1.0, raised=0.0).apply(before, rng(seed)).step.scene
        grey = scene.points[np.isclose(scene.require_colors(), GREY, atol=1e-6).all(axis=1)]
        assert NeighbourIndex(post).distance(grey).max() < 1e-9
        assert 0 < len(grey) < len(post) + 1
    alone = replace(before, rest=before.rest.selected(np.arange(3000)))
    after = replace(ALWAYS, floating=1.0, raised=0.0).apply(alone, rng(0))
    assert len(after.step.scene) == len(before.thing), "where only the table was, nothing is left"


def test_colours_of_objects_change_as_often_as_stated_and_those_of_the_rest_do_not():
    before = example_of()
    changed = []
    for seed in range(100):
        after = replace(ALWAYS, floating=0.0, recolored=0.3).apply(before, rng(seed))
        same = np.array_equal(after.thing.require_colors(), before.thing.require_colors())
        changed.append(not same)
        rest = after.step.scene.require_colors()[: len(before.rest)]
        np.testing.assert_array_equal(rest, before.rest.require_colors())
    assert np.mean(changed) == pytest.approx(0.3, abs=0.12)


def test_clouds_without_colours_stay_without():
    before = example_of()
    bare = replace(
        before,
        step=before.step.changed(scene=before.step.scene.without_colors()),
        thing=before.thing.without_colors(),
        rest=before.rest.without_colors(),
    )
    for seed in range(5):
        assert not replace(ALWAYS, raised=1.0).apply(bare, rng(seed)).step.scene.has_colors


def test_the_same_seed_gives_the_same_scene():
    before = example_of()
    one, again, other = (ALWAYS.apply(before, rng(seed)).step for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.scene.points, again.scene.points)
    np.testing.assert_array_equal(one.scene.require_colors(), again.scene.require_colors())
    np.testing.assert_array_equal(one.targets, again.targets)
    assert not np.array_equal(one.targets, other.targets)


# --- the hand -----------------------------------------------------------------------------------


def in_hand(seed: int = 0) -> Example:
    """The rod in a hand of known shape that came from above, its contact below the rod's top."""
    example = example_of(seed)
    motion = random_poses(1, seed)[0].numpy()
    T_scene_contact = motion @ contact_at(HAND, 0.0, 0.0, 0.15)
    step = example.step.changed(targets=T_scene_contact[None])
    return replace(example, step=step, gripper=HAND, contact=HAND.T_gripper_contact)


def depth_in_table(example: Example) -> float:
    """How far the lowest corner of the open hand is below the support, metres."""
    corners = np.concatenate([vertices for vertices, _ in HAND.shape.surfaces()])
    pose = example.step.targets[0]
    return example.level - float(((corners @ pose[:3, :3].T + pose[:3, 3]) @ example.up).min())


def points_in_hand(example: Example, count: int) -> int:
    """How many points of a composed scene besides its object are well inside the open hand."""
    scene = example.step.scene.points
    of_thing = NeighbourIndex(example.thing.points).distance(scene, at_most=1.0) < 1e-9
    assert of_thing.sum() >= count
    local = scene[~of_thing].astype(np.float64)
    pose = example.step.targets[0]
    return int(HAND.shape.contains((local - pose[:3, 3]) @ pose[:3, :3], -0.003).sum())


HARD = Composition(1.0, upright=0.2, raised=0.4, floating=0.0)


def hands(seeds: range) -> tuple[np.ndarray, np.ndarray]:
    """Depths in the table, and numbers of points inside, of the hands of composed scenes."""
    before = in_hand()
    after = [HARD.apply(before, rng(seed)) for seed in seeds]
    inside = [points_in_hand(one, len(before.thing)) for one in after]
    return np.array([depth_in_table(one) for one in after]), np.array(inside)


def test_the_hand_goes_through_neither_the_table_nor_other_things():
    depth, inside = hands(range(20))
    assert depth.max() < 0.003
    assert inside.max() <= 5


def test_without_the_check_some_hands_are_in_the_table(monkeypatch):
    """The broken control."""
    monkeypatch.setattr(_composition, "_hand_is_free", lambda *_: True)
    depth, inside = hands(range(20))
    assert np.mean(depth > 0.02) > 0.1
    assert inside.max() > 20


def test_the_free_hand_still_finds_other_places_and_orientations():
    before = in_hand()
    moved, tilted = [], []
    for seed in range(16):
        T = HARD.apply(before, rng(seed)).step.targets[0] @ np.linalg.inv(before.step.targets[0])
        moved.append(np.abs(T - np.eye(4)).max() > 0.01)
        tilted.append(before.up @ T[:3, :3] @ before.up < 0.9)
    assert np.mean(moved) > 0.8
    assert np.mean(tilted) > 0.2


def test_lying_objects_are_as_frequent_as_stated_although_the_hand_must_be_free():
    """Orientations that are hard to get at are not drawn less often than others."""
    before, lying = in_hand(), 0
    composition = replace(HARD, upright=0.4, lying=1.0)
    for seed in range(60):
        T = composition.apply(before, rng(seed)).step.targets[0] @ np.linalg.inv(
            before.step.targets[0]
        )
        lying += before.up @ T[:3, :3] @ before.up < 0.9
    assert lying / 60 == pytest.approx(0.6, abs=0.2)


def test_a_hand_that_fits_nowhere_leaves_the_object_where_it_stood(monkeypatch):
    monkeypatch.setattr(_composition, "_hand_is_free", lambda *_: False)
    before = in_hand()
    after = replace(HARD, recolored=0.0).apply(before, rng(1))
    np.testing.assert_allclose(after.step.targets, before.step.targets, atol=1e-9)
    assert len(after.step.scene) == len(before.rest) + len(before.thing), "without a block"


def test_a_hand_of_unknown_shape_is_free_everywhere():
    before = in_hand()
    below = before.step.targets[0].copy()
    below[:3, 3] -= 0.3 * before.up
    assert not _composition._hand_is_free(below, [before.rest], before, False)
    bare = replace(before, gripper=replace(HAND, shape=None))
    assert _composition._hand_is_free(below, [before.rest], bare, False)


def test_a_hand_below_a_table_that_was_cut_away_is_free():
    before = in_hand()
    below = before.step.targets[0].copy()
    below[:3, 3] -= 0.3 * before.up
    assert _composition._hand_is_free(below, [], before, True)


# --- when ---------------------------------------------------------------------------------------


def test_scenes_are_composed_as_often_as_stated_and_never_without_parts():
    known = example_of()
    unknown = replace(known, thing=None, rest=None)
    half = replace(known, rest=None)
    wanted = [Composition(0.3).wanted(known, rng(seed)) for seed in range(300)]
    assert np.mean(wanted) == pytest.approx(0.3, abs=0.08)
    for example in (unknown, half):
        assert not any(ALWAYS.wanted(example, rng(seed)) for seed in range(20))
    assert not any(Composition().wanted(known, rng(seed)) for seed in range(20))
    step, thing = Variation(composition=ALWAYS).apply_with_thing(unknown, rng())
    assert thing is None
    np.testing.assert_allclose(step.targets, known.step.targets, atol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"probability": 1.1},
        {"upright": -0.1},
        {"lying": 1.1},
        {"raised": float("nan")},
        {"floating": 2.0},
        {"elsewhere": -1.0},
        {"recolored": float("inf")},
        {"heights": (0.2, 0.1)},
        {"heights": (0.0, 0.1)},
        {"heights": (0.1, float("nan"))},
    ],
)
def test_impossible_compositions_are_refused(wrong):
    with pytest.raises(OptionError, match=f"composition {next(iter(wrong))}"):
        Composition(**wrong)
