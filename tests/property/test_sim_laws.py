"""Laws of random streams, grasps and layouts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mujoco")

from handful.demos import HANDS
from handful.sim import SIMULATED, TASKS, Purpose, Setup
from handful.sim._hand import TIP_BEYOND_CONTACT
from handful.sim.objects import DEFAULT_BOWL, DEFAULT_MUG, UNSEEN_BOTTLES, UNSEEN_MUGS
from handful.sim.objects._draws import spread
from handful.sim.tasks._grasps import contact_at, handle_grasps, neck_grasps, rim_grasps
from handful.sim.tasks._layout import draw_layout
from handful.sim.tasks._types import stream

SEEDS = st.integers(0, 2**31)


@given(SEEDS, SEEDS)
def test_no_two_streams_are_alike(one, other):
    keys = {
        (purpose, task, setup, seed)
        for purpose in Purpose
        for task in ("mug", "bowl")
        for setup in (Setup.TRAINED, Setup.ALL)
        for seed in (one, other)
    }
    first = {stream(*key).integers(2**62) for key in keys}
    assert len(first) == len(keys)


@given(SEEDS)
def test_grasps_are_rigid_motions_with_tips_near_the_thing(seed):
    rng = np.random.default_rng(seed)
    mug, bottle = UNSEEN_MUGS[seed % 10].thing(), UNSEEN_BOTTLES[seed % 10].thing()
    for thing, grasps in (
        (mug, rim_grasps(mug.rim, rng)),
        (mug, rim_grasps(mug.rim, rng, low_variance=True)),
        (mug, handle_grasps(mug.handle, rng)),
        (bottle, neck_grasps(bottle.neck, rng)),
    ):
        pose = next(grasps)
        assert np.allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-12)
        assert np.linalg.det(pose[:3, :3]) > 0
        tips = pose[:3, 3] + TIP_BEYOND_CONTACT * pose[:3, 2]
        low, high = thing.bounds
        assert (tips > low - 0.01).all()
        assert (tips < high + 0.01).all()


@given(SEEDS)
def test_rim_grasps_go_around_and_flip(seed):
    rng = np.random.default_rng(seed)
    grasps = rim_grasps(DEFAULT_BOWL.thing().rim, rng)
    poses = np.stack([next(grasps) for _ in range(40)])
    tips = poses[:, :3, 3] + TIP_BEYOND_CONTACT * poses[:, :3, 2]
    angle = np.arctan2(tips[:, 1], tips[:, 0])
    assert np.ptp(angle) > 4.0
    outward = (poses[:, :2, 0] * tips[:, :2]).sum(axis=1)
    assert (outward > 0).any()
    assert (outward < 0).any()


def test_low_variance_grasps_are_nearly_alike():
    grasps = rim_grasps(DEFAULT_MUG.thing().rim, np.random.default_rng(0), low_variance=True)
    poses = np.stack([next(grasps) for _ in range(50)])
    assert poses[:, :3, 3].std(axis=0).max() < 0.01
    assert poses[:, :3, :3].std(axis=0).max() < 0.15


@given(st.integers(2, 20), st.integers(0, 1000))
def test_spread_stays_in_its_ranges_and_fills_them(count, key):
    drawn = spread({"a": (1.0, 2.0), "b": (-3.0, 0.0)}, count, key)
    a = np.sort([numbers["a"] for numbers in drawn])
    assert (
        (a >= 1.0 + np.arange(count) / count) & (a <= 1.0 + (np.arange(count) + 1) / count)
    ).all()
    assert drawn == spread({"a": (1.0, 2.0), "b": (-3.0, 0.0)}, count, key)


@given(SEEDS)
def test_contact_axes_are_what_was_asked(seed):
    rng = np.random.default_rng(seed)
    approach, across, tips = rng.normal(size=(3, 3))
    pose = contact_at(tips, approach, across)
    assert np.allclose(pose[:3, 2], approach / np.linalg.norm(approach))
    assert pose[:3, 0] @ across > 0
    assert np.allclose(pose[:3, 3] + TIP_BEYOND_CONTACT * pose[:3, 2], tips)


@given(SEEDS)
def test_any_hand_takes_a_grasp_with_its_contact_frame_there(seed):
    rng = np.random.default_rng(seed)
    T_item_contact = next(rim_grasps(DEFAULT_MUG.thing().rim, rng))
    for hand in (HANDS["simulated"], HANDS["simulated-long"], HANDS["franka-hand"]):
        T_item_gripper = T_item_contact @ np.linalg.inv(hand.T_gripper_contact)
        assert np.allclose(T_item_gripper @ hand.T_gripper_contact, T_item_contact)
        pads = [box for box in hand.with_width(0.0).shape.boxes if box.side]
        for box in pads:
            middle = T_item_gripper @ [*box.center, 1.0]
            across = (middle[:3] - T_item_contact[:3, 3]) @ T_item_contact[:3, 0]
            assert across * box.side > 0
    # The grasps of the simulated hand are those that they always were: tips at z = 0.15 m.
    T_item_gripper = T_item_contact @ np.linalg.inv(SIMULATED.T_gripper_contact)
    tips = T_item_contact[:3, 3] + TIP_BEYOND_CONTACT * T_item_contact[:3, 2]
    assert np.allclose(T_item_gripper[:3, 3], tips - 0.15 * T_item_gripper[:3, 2])


@given(SEEDS, st.sampled_from(list(Setup)))
def test_things_of_two_pairs_stand_apart_and_inside_of_the_workspace(seed, setup):
    rng = np.random.default_rng(seed)
    parts = TASKS["tidy"].parts
    things = [part.what.draw_thing(setup, rng) for part in parts]
    targets = [part.what.draw_target(rng) for part in parts]
    lying = [setup is Setup.POSES, False]
    layout = draw_layout(things, targets, setup, lying, rng)
    if layout is None:
        return
    standing = [*layout.items, *layout.targets]
    for one in standing:
        corners = one.thing.vertices @ one.T_scene_thing[:3, :3].T + one.T_scene_thing[:3, 3]
        assert np.abs(corners[:, :2]).max() < 0.3
    for support in layout.supports:
        base = support.T_scene_thing
        corners = support.thing.vertices @ base[:3, :3].T + base[:3, 3]
        assert np.abs(corners[:, :2]).max() < 0.3
    for number, one in enumerate(standing):
        for other in standing[:number]:
            far = np.linalg.norm(one.T_scene_thing[:2, 3] - other.T_scene_thing[:2, 3])
            if not any(lying):
                apart = one.thing.footprint(one.T_scene_thing)
                apart += other.thing.footprint(other.T_scene_thing)
                assert far > apart
    assert len(layout.distractors) <= 2
    assert bool(layout.distractors) <= setup.distracting


@given(SEEDS)
def test_two_pairs_nearly_always_fit(seed):
    rng = np.random.default_rng(seed)
    parts = TASKS["tidy"].parts
    things = [part.what.trained_things()[0] for part in parts]
    targets = [part.what.draw_target(rng) for part in parts]
    assert draw_layout(things, targets, Setup.TRAINED, [False, False], rng) is not None


def test_things_that_do_not_fit_end_the_draw():
    rng = np.random.default_rng(0)
    tray = TASKS["bowl"].parts[0].what.draw_target(rng)
    things, targets = [DEFAULT_BOWL.thing()] * 6, [tray] * 6
    assert draw_layout(things, targets, Setup.TRAINED, [False] * 6, rng) is None
