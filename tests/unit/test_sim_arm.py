"""The arm: its kinematics against a plain Denavit-Hartenberg reference, and inverse kinematics."""

import numpy as np
import pytest

pytest.importorskip("mujoco")
pytest.importorskip("mink")

from handful.sim._arm import BASE, FLANGE, HOME, LIMITS, LINK_A, LINK_ALPHA, LINK_D
from handful.sim._ik import arm_solver


def reference_pose(joints):
    """Product of modified Denavit-Hartenberg matrices, flange and mounting angle last."""
    pose = np.eye(4)
    pose[:3, 3] = BASE
    for theta, a, d, alpha in zip(joints, LINK_A, LINK_D, LINK_ALPHA, strict=True):
        ct, st, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
        pose = pose @ np.array(
            [
                [ct, -st, 0, a],
                [st * ca, ct * ca, -sa, -d * sa],
                [st * sa, ct * sa, ca, d * ca],
                [0, 0, 0, 1],
            ]
        )
    c = np.cos(-np.pi / 4)
    mount = np.array([[c, c, 0, 0], [-c, c, 0, 0], [0, 0, 1, FLANGE], [0, 0, 0, 1]])
    return pose @ mount


def random_joints(rng):
    return rng.uniform(LIMITS[:, 0], LIMITS[:, 1])


def test_forward_kinematics_are_the_published_ones():
    rng = np.random.default_rng(0)
    for joints in [HOME, *(random_joints(rng) for _ in range(20))]:
        assert np.abs(arm_solver().pose(joints) - reference_pose(joints)).max() < 1e-9


def test_inverse_kinematics_reach_within_limits():
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(20):
        target = reference_pose(HOME + rng.uniform(-0.5, 0.5, 7))
        joints = arm_solver().solve(target)
        if joints is None:
            continue
        found += 1
        assert (joints >= LIMITS[:, 0]).all()
        assert (joints <= LIMITS[:, 1]).all()
        assert np.abs(reference_pose(joints)[:3, 3] - target[:3, 3]).max() < 1e-3
    assert found >= 18


def test_what_is_out_of_reach_has_no_joint_angles():
    target = reference_pose(HOME)
    target[:3, 3] += [1.5, 0.0, 0.0]
    assert arm_solver().solve(target) is None
    assert arm_solver().plan([target, target]) is None


def test_a_path_is_followed_without_jumps():
    start = reference_pose(HOME)
    path = []
    for rise in np.linspace(0.0, 0.2, 9):
        path.append(start.copy())
        path[-1][2, 3] -= rise
    joints = arm_solver().plan(path)
    assert joints is not None
    assert np.abs(np.diff(np.stack(joints), axis=0)).max() < 0.3
