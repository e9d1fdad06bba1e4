"""The arm: its kinematics against a Denavit-Hartenberg reference, its inverse against mink."""

import numpy as np
import pytest

pytest.importorskip("mujoco")

import mujoco

from handful.sim._arm import BASE, FLANGE, HOME, LIMITS, LINK_A, LINK_ALPHA, LINK_D, TIP, add_arm
from handful.sim._ik import LARGEST_STEP, MARGIN, forward, plan, solve


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


def random_joints(rng, margin=0.0):
    return rng.uniform(LIMITS[:, 0] + margin, LIMITS[:, 1] - margin)


@pytest.fixture(scope="module")
def model():
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_arm(spec, (0, 0))
    return spec.compile()


def test_forward_kinematics_are_the_published_ones(model):
    rng = np.random.default_rng(0)
    data = mujoco.MjData(model)
    for joints in [HOME, *(random_joints(rng) for _ in range(20))]:
        data.qpos[:7] = joints
        mujoco.mj_kinematics(model, data)
        assert np.abs(data.body("hand").xpos - reference_pose(joints)[:3, 3]).max() < 1e-9
        assert np.abs(forward(joints) - reference_pose(joints)).max() < 1e-9


def test_inverse_kinematics_are_exact_and_within_limits():
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(300):
        truth = random_joints(rng, 0.15)
        target = reference_pose(truth)
        joints = solve(target)
        if joints is None:
            # With the elbow bent backwards (q4 > -0.47) the arm is nearly straight: left out. Else
            # only what a scan of q7 every 0.1 radians can miss.
            missed += truth[3] < -0.5
            continue
        assert (joints > LIMITS[:, 0] + MARGIN).all()
        assert (joints < LIMITS[:, 1] - MARGIN).all()
        assert np.abs(reference_pose(joints) - target).max() < 1e-8
    assert missed <= 6


def test_what_is_out_of_reach_has_no_joint_angles():
    target = reference_pose(HOME)
    target[:3, 3] += [1.5, 0.0, 0.0]
    assert solve(target) is None
    assert plan([target, target]) is None
    assert plan([reference_pose(HOME), target]) is None


def test_a_singular_pose_is_no_crash():
    # The wrist straight above the shoulder: q1 and q3 turn about the same axis.
    above = np.eye(4)
    above[:3, 3] = BASE + np.array([0.088, 0.0, 0.9])
    with np.errstate(all="raise"):
        joints = solve(above)
    assert joints is None or np.isfinite(joints).all()


def test_a_path_is_followed_without_jumps():
    start = reference_pose(HOME)
    path = []
    for rise in np.linspace(0.0, 0.2, 9):
        path.append(start.copy())
        path[-1][2, 3] -= rise
    joints = plan(path)
    assert joints is not None
    assert np.abs(np.diff(np.stack(joints), axis=0)).max() < 0.3
    for angles, target in zip(joints, path, strict=True):
        assert np.abs(reference_pose(angles) - target).max() < 1e-8


def mink_reaches(mink, model, path):
    """Whether differential inverse kinematics from home follow a path: the slow reference."""
    configuration = mink.Configuration(model)
    reach = mink.FrameTask("hand", "body", 1.0, 0.3, lm_damping=1e-3)
    rest = mink.PostureTask(model, cost=1e-3)
    limits = [mink.ConfigurationLimit(model)]
    here = np.concatenate([HOME, np.zeros(model.nq - 7)])
    for number, target in enumerate(path):
        configuration.update(here)
        rest.set_target(here)
        reach.set_target(mink.SE3.from_matrix(target))
        for _ in range(60):
            velocity = mink.solve_ik(configuration, [reach, rest], 1.0, "daqp", 1e-6, limits=limits)
            configuration.integrate_inplace(np.clip(velocity, -0.5, 0.5), 1.0)
            if np.abs(reference_pose(configuration.q[:7]) - target).max() < 1e-4:
                break
        if np.abs(reference_pose(configuration.q[:7]) - target).max() > 1e-3:
            return False
        if number and np.abs(configuration.q - here).max() > LARGEST_STEP:
            return False
        here = configuration.q.copy()
    return True


def test_what_mink_reaches_is_reached(model):
    mink = pytest.importorskip("mink")
    rng = np.random.default_rng(2)
    theirs = ours = 0
    for _ in range(40):
        down = np.array([*rng.normal(0.0, 0.5, 2), -1.0])
        down /= np.linalg.norm(down)
        across = np.cross(down, rng.normal(size=3))
        across /= np.linalg.norm(across)
        pose = np.eye(4)
        pose[:3, :3] = np.stack([across, np.cross(down, across), down], axis=1)
        pose[:3, 3] = [*rng.uniform(-0.2, 0.2, 2), rng.uniform(0.03, 0.2)] - TIP * down
        path = [lifted(pose, rise) for rise in (0.0, 0.025, 0.05)]
        if mink_reaches(mink, model, path):
            theirs += 1
            ours += plan(path) is not None
    assert theirs > 10
    assert ours >= 0.95 * theirs


def lifted(pose, rise):
    moved = pose.copy()
    moved[2, 3] += rise
    return moved
