"""The arm: its kinematics against a Denavit-Hartenberg reference, its inverse against numbers."""

import numpy as np
import pytest

pytest.importorskip("mujoco")

import mujoco
from scipy.optimize import least_squares

from handful.demos import HANDS, ContactFrame, Gripper, HandBox, HandShape
from handful.errors import OptionError
from handful.sim import SIMULATED, check_hand
from handful.sim._arm import BASE, FLANGE, HOME, LIMITS, LINK_A, LINK_ALPHA, LINK_D, add_arm
from handful.sim._hand import open_hand_points
from handful.sim._ik import MARGIN, forward, plan, solve


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


ELBOW_FORWARD = -0.5
"""The closed form leaves out q4 above -0.47, where the elbow is bent backwards."""


def search_joints(target, start):
    """Joint angles for a pose by least squares from a start, or None: the slow reference."""
    low, high = LIMITS[:, 0] + 2 * MARGIN, LIMITS[:, 1] - 2 * MARGIN
    high[3] = ELBOW_FORWARD

    def gap(joints):
        return (reference_pose(joints) - target)[:3].reshape(-1)

    found = least_squares(gap, start.clip(low + 1e-3, high - 1e-3), bounds=(low, high), xtol=1e-12)
    return found.x if np.abs(gap(found.x)).max() < 1e-6 else None


def test_a_numerical_search_finds_hardly_a_pose_that_the_closed_form_misses():
    rng = np.random.default_rng(2)
    theirs = ours = 0
    for _ in range(40):
        down = np.array([*rng.normal(0.0, 0.5, 2), -1.0])
        down /= np.linalg.norm(down)
        across = np.cross(down, rng.normal(size=3))
        across /= np.linalg.norm(across)
        pose = np.eye(4)
        pose[:3, :3] = np.stack([across, np.cross(down, across), down], axis=1)
        pose[:3, 3] = [*rng.uniform(-0.2, 0.2, 2), rng.uniform(0.03, 0.2)] - 0.15 * down
        if search_joints(pose, HOME) is not None:
            theirs += 1
            ours += solve(pose) is not None
    assert theirs > 10
    # A scan of q7 every 0.1 radians can miss what only a narrow range reaches.
    assert ours >= 0.95 * theirs


def test_the_numerical_search_finds_nothing_where_nothing_is():
    target = reference_pose(HOME)
    target[:3, 3] += [1.5, 0.0, 0.0]
    assert search_joints(target, HOME) is None


ABLE = [HANDS[name] for name in ("simulated", "simulated-long", "franka-hand")]


# --- hands ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hand", ABLE, ids=lambda hand: hand.name)
def test_a_hands_geoms_are_its_boxes_open_and_closed(hand):
    spec = mujoco.MjSpec()
    spec.compiler.degree = False
    add_arm(spec, (0, 0), hand)
    model = spec.compile()
    data = mujoco.MjData(model)
    for width in (hand.opening, 0.02):
        data.qpos[7:9] = width / 2
        mujoco.mj_kinematics(model, data)
        palm = data.body("hand")
        seen = set()
        for geom in range(model.ngeom):
            if model.geom(geom).name.startswith(("palm", "pad")):
                local = palm.xmat.reshape(3, 3).T @ (data.geom_xpos[geom] - palm.xpos)
                size = 2 * model.geom_size[geom]
                seen.add((*np.round(size, 6).tolist(), *(np.round(local, 6) + 0.0).tolist()))
        boxes = hand.with_width(width).shape.boxes
        assert seen == {
            (*np.round(box.size, 6).tolist(), *(np.round(box.center, 6) + 0.0).tolist())
            for box in boxes
        }


def test_the_points_of_an_open_hand_fill_its_boxes_and_nothing_else():
    for hand in ABLE:
        points = open_hand_points(hand)
        assert hand.shape.contains(points, 1e-9).all()
        assert not hand.shape.contains(points, -1e-6).all()
        for box in hand.shape.boxes:
            inside = HandShape((box,)).contains(points, 1e-9)
            corners, _ = box.surface()
            assert np.allclose(points[inside].min(axis=0), corners.min(axis=0))
            assert np.allclose(points[inside].max(axis=0), corners.max(axis=0))


def test_hands_that_the_arm_cannot_carry_are_refused_with_those_that_it_can():
    for hand in ABLE:
        check_hand(hand)
    boxes = SIMULATED.shape.boxes
    shifted = tuple(
        HandBox((box.center[0], box.center[1], box.center[2] - 0.145), box.size, side=box.side)
        for box in boxes
    )
    cases = {
        "no boxes describe it": Gripper(ContactFrame((0.0, 0.0, 0.1)), "x", 0.08),
        "its frame is not at the flange": Gripper(
            ContactFrame((0.0, 0.0, 0.0)), "x", 0.08, HandShape(shifted)
        ),
        "a box of the palm": Gripper(
            ContactFrame((0.0, 0.0, 0.145)), "x", 0.08, HandShape(boxes[:3])
        ),
        "direction of approach": Gripper(
            ContactFrame((0.0, 0.0, 0.145), (0.0, 1.0, 0.0, 0.0)), "x", 0.08, HandShape(boxes)
        ),
    }
    cases["do not move straight"] = HANDS["robotiq-2f-85"]
    for reason, hand in cases.items():
        with pytest.raises(OptionError, match=f"{reason}.*simulated, simulated-long"):
            check_hand(hand)
