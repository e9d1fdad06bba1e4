"""Laws of random streams, grasps and layouts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mujoco")

from handful.sim import Purpose, Setup
from handful.sim.objects import DEFAULT_BOWL, DEFAULT_MUG, UNSEEN_BOTTLES, UNSEEN_MUGS
from handful.sim.objects._draws import spread
from handful.sim.tasks._grasps import gripper_at, handle_grasps, neck_grasps, rim_grasps
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
        tips = pose[:3, 3] + 0.15 * pose[:3, 2]
        low, high = thing.bounds
        assert (tips > low - 0.01).all()
        assert (tips < high + 0.01).all()


@given(SEEDS)
def test_rim_grasps_go_around_and_flip(seed):
    rng = np.random.default_rng(seed)
    grasps = rim_grasps(DEFAULT_BOWL.thing().rim, rng)
    poses = np.stack([next(grasps) for _ in range(40)])
    tips = poses[:, :3, 3] + 0.15 * poses[:, :3, 2]
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
def test_gripper_axes_are_what_was_asked(seed):
    rng = np.random.default_rng(seed)
    approach, across, tips = rng.normal(size=(3, 3))
    pose = gripper_at(tips, approach, across)
    assert np.allclose(pose[:3, 2], approach / np.linalg.norm(approach))
    assert pose[:3, 0] @ across > 0
    assert np.allclose(pose[:3, 3] + 0.15 * pose[:3, 2], tips)
