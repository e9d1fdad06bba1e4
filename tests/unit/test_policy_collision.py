"""Collisions told from clouds: known answers, motions that must not matter, a slow reference."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud
from handful.demos import ContactFrame, Gripper, HandMesh, HandShape, gripper_named
from handful.policy import SceneSurface
from handful.policy._collision import (
    HAND_DEPTH,
    IN_HAND,
    REACH,
    TOLERANCE,
    TOO_MANY,
    thinned_points,
)
from policy_samples import (
    box_surface,
    contact_at,
    level_plane,
    random_gripper,
    random_poses,
)

HAND = gripper_named("simulated")


def collides(surface: SceneSurface, held: np.ndarray) -> bool:
    """Whether held points go through a scene, where demonstrations show no crossings."""
    return surface.crossings(held) >= TOO_MANY


def wall(spacing: float = 0.002) -> np.ndarray:
    """A vertical plane x = 0 above the table."""
    y, z = (
        grid.ravel()
        for grid in np.meshgrid(np.arange(-0.1, 0.1, spacing), np.arange(0.0, 0.2, spacing))
    )
    return np.stack([np.zeros(len(y)), y, z], axis=1)


def ring(radius: float, center: tuple[float, float, float], spacing: float = 0.002) -> np.ndarray:
    """A tube of 6 mm along a circle in the plane x = 0, like the handle of a mug."""
    around = np.arange(0.0, 2 * np.pi, spacing / radius)
    across = np.linspace(0.0, 2 * np.pi, 9)[:-1]
    turn, small = (grid.ravel() for grid in np.meshgrid(around, across))
    reach = radius + 0.003 * np.cos(small)
    points = np.stack([0.003 * np.sin(small), reach * np.cos(turn), reach * np.sin(turn)], axis=1)
    return points + np.array(center)


def rod(radius: float = 0.006) -> np.ndarray:
    """A level tube along x at the height of 0.1 m, like the arm of a hanger."""
    x, turn = (
        grid.ravel()
        for grid in np.meshgrid(np.arange(-0.08, 0.08, 0.002), np.linspace(0, 2 * np.pi, 25)[:-1])
    )
    return np.stack([x, radius * np.cos(turn), 0.1 + radius * np.sin(turn)], axis=1)


CASES = {
    "on a plane": (level_plane(), box_surface((0.0, 0.0, 0.031), (0.04, 0.04, 0.06)), False),
    "touching a plane": (level_plane(), box_surface((0.0, 0.0, 0.03), (0.04, 0.04, 0.06)), False),
    "sunk into a plane": (level_plane(), box_surface((0.0, 0.0, 0.024), (0.04, 0.04, 0.06)), True),
    "through a plane": (level_plane(), box_surface((0.0, 0.0, 0.0), (0.04, 0.04, 0.06)), True),
    "high above a plane": (level_plane(), box_surface((0, 0, 0.2), (0.04, 0.04, 0.06)), False),
    "beside a plane": (level_plane(), box_surface((0.3, 0, 0.0), (0.04, 0.04, 0.06)), False),
    "beside a wall": (wall(), box_surface((0.022, 0.0, 0.1), (0.04, 0.04, 0.04)), False),
    "against a wall": (wall(), box_surface((0.02, 0.0, 0.1), (0.04, 0.04, 0.04)), False),
    "through a wall": (wall(), box_surface((0.005, 0.0, 0.1), (0.04, 0.04, 0.04)), True),
    "on a box": (
        box_surface((0, 0, 0.05), (0.1, 0.1, 0.1)), box_surface((0, 0, 0.121), (0.04, 0.04, 0.04)),
        False,
    ),
    "in a box": (
        box_surface((0, 0, 0.05), (0.1, 0.1, 0.1)), box_surface((0.04, 0, 0.09), (0.05,) * 3), True,
    ),
    "hanging on a rod": (rod(), ring(0.03, (0.0, 0.0, 0.079)), False),
    "around a rod, apart": (rod(), ring(0.03, (0.0, 0.0, 0.095)), False),
    "through a rod": (rod(), ring(0.03, (0.0, 0.0, 0.07)), True),
}  # fmt: skip
"""Scene, what is held, and whether they collide."""


def held(points: np.ndarray) -> np.ndarray:
    return thinned_points(PointCloud(points))


@pytest.mark.parametrize("name", CASES)
def test_cases_whose_answer_is_known(name: str) -> None:
    scene, moving, expected = CASES[name]
    assert collides(SceneSurface(PointCloud(scene)), held(moving)) is expected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", CASES)
def test_answer_does_not_change_when_both_turn_about_the_vertical(name: str, seed: int) -> None:
    scene, moving, expected = CASES[name]
    rng = np.random.default_rng(seed)
    turn = Rotation.from_euler("z", rng.uniform(-np.pi, np.pi))
    shift = rng.uniform(-0.5, 0.5, 3)
    moved_scene, moved_held = (turn.apply(points) + shift for points in (scene, moving))
    assert collides(SceneSurface(PointCloud(moved_scene)), held(moved_held)) is expected
    if expected:
        # Moved alone, the same thing is elsewhere and free: the scene is looked at.
        away = held(moved_held + np.array([0.0, 0.0, 0.4]))
        assert not collides(SceneSurface(PointCloud(moved_scene)), away)


def test_below_counts_only_for_level_surfaces_seen_from_above() -> None:
    """A sheet 5 mm below the surface: only gravity tells that it is inside of something."""
    plane, below = level_plane(), level_plane(0.06, -0.005)
    assert collides(SceneSurface(PointCloud(plane)), held(below))
    tipped = Rotation.from_euler("x", np.pi / 2)
    assert not collides(SceneSurface(PointCloud(tipped.apply(plane))), held(tipped.apply(below)))


@pytest.mark.parametrize("sunk", [-0.006, -0.001, 0.0, 0.002])
def test_nothing_may_sink_into_the_table_more_than_the_tolerance(sunk: float) -> None:
    far = PointCloud(level_plane(0.05) + np.array([1.0, 0.0, 0.1]))
    surface = SceneSurface(far, table=0.0)
    block = held(box_surface((0.0, 0.0, 0.02 + sunk), (0.04, 0.04, 0.04)))
    assert collides(surface, block) is (sunk < -TOLERANCE)
    assert not collides(SceneSurface(far), block)


def test_a_few_crossed_points_are_noise() -> None:
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, (TOO_MANY - 1, 3))
    surface = SceneSurface(PointCloud(noise + np.array([0.0, 0.0, 0.03])))
    assert not collides(surface, held(box_surface((0.0, 0.0, 0.03), (0.04, 0.04, 0.04))))


def test_points_farther_than_the_reach_do_not_cross() -> None:
    below = level_plane(0.06, -REACH - 0.004)
    assert SceneSurface(PointCloud(level_plane())).crossings(held(below)) == 0


# --- the hand ------------------------------------------------------------------------------------


def slow_hand_collides(
    gripper: Gripper, pose: np.ndarray, scene: np.ndarray, fingers: bool
) -> bool:
    """Box by box and point by point: who is deep enough inside of the hand."""
    assert gripper.shape is not None
    boxes = [box for box in gripper.shape.boxes if box.side == 0 or fingers]
    turns = [Rotation.from_quat(np.roll(box.quat_wxyz, -1)).as_matrix() for box in boxes]
    inside = 0
    for point in scene:
        local = pose[:3, :3].T @ (point - pose[:3, 3])
        for box, turn in zip(boxes, turns, strict=True):
            x, y, z = np.abs(turn.T @ (local - np.array(box.center)))
            a, b, c = (size / 2 - HAND_DEPTH for size in box.size)
            if x <= a and y <= b and z <= c:
                inside += 1
                break
    return inside >= IN_HAND


@pytest.mark.parametrize("seed", range(6))
def test_hand_agrees_with_a_slow_reference(seed: int) -> None:
    gripper = random_gripper(seed)
    scene = PointCloud(np.random.default_rng(seed).uniform(-0.1, 0.1, (1200, 3)))
    surface, points = SceneSurface(scene), thinned_points(scene)
    answers = []
    for T_scene_contact in random_poses(8, seed, reach=0.12):
        pose = T_scene_contact @ np.linalg.inv(gripper.T_gripper_contact)
        for holding in (False, True):
            expected = slow_hand_collides(gripper, pose, points, fingers=not holding)
            assert surface.hand_collides(gripper, pose, holding) is expected
            answers.append(expected)
    assert True in answers
    assert False in answers


@pytest.mark.parametrize("name", ["simulated", "simulated-long"])
@pytest.mark.parametrize("seed", range(8))
def test_a_thin_finger_does_not_go_through_a_surface_unseen(name: str, seed: int) -> None:
    """One finger in a plate that ends between the two, at any place, yaw and density of points."""
    rng = np.random.default_rng(seed)
    gripper = gripper_named(name)
    pose = contact_at(gripper, *rng.uniform(-0.001, 0.001, 2), 0.0)
    plate = level_plane(0.12, rng.uniform(0.01, 0.03), rng.uniform(0.001, 0.003))
    plate[:, 0] += 0.08  # from x = 0.02 on
    turn = Rotation.from_euler("z", rng.uniform(-np.pi, np.pi))
    turned = np.eye(4)
    turned[:3, :3] = turn.as_matrix()
    through, beside = (
        SceneSurface(PointCloud(turn.apply(plate + np.array([shift, 0.0, 0.0]))))
        for shift in (0.0, 0.035)
    )
    assert through.hand_collides(gripper, turned @ pose, holding=False)
    assert not beside.hand_collides(gripper, turned @ pose, holding=False)


def fingers_around(width: float) -> np.ndarray:
    """A block between the fingers of the hand over the origin, contact 2 cm above the table."""
    return box_surface((0.0, 0.0, 0.02), (width, 0.02, 0.04))


def test_open_hand_is_free_around_a_block_and_not_through_a_wide_one() -> None:
    pose = contact_at(HAND, 0.0, 0.0, 0.02)
    narrow, wide = (SceneSurface(PointCloud(fingers_around(width))) for width in (0.04, 0.09))
    assert not narrow.hand_collides(HAND, pose, holding=False)
    assert wide.hand_collides(HAND, pose, holding=False)
    # The fingers of a hand that holds something are somewhere else; its palm is where it was.
    assert not wide.hand_collides(HAND, pose, holding=True)
    tall = SceneSurface(PointCloud(box_surface((0.0, 0.0, 0.075), (0.04, 0.02, 0.15))))
    for holding in (False, True):
        assert tall.hand_collides(HAND, pose, holding)


@pytest.mark.parametrize("holding", [False, True])
def test_hand_may_not_reach_into_the_table(holding: bool) -> None:
    surface = SceneSurface(PointCloud(level_plane(0.05) + np.array([1.0, 0, 0.1])), table=0.0)
    # Open fingers end 5 mm beyond the contact; the palm of a holding hand 83 mm before it.
    lowest = -0.083 if holding else 0.005
    free, sunk = (contact_at(HAND, 0, 0, lowest + depth) for depth in (0.001, -0.008))
    assert not surface.hand_collides(HAND, free, holding)
    assert surface.hand_collides(HAND, sunk, holding)


def test_hand_without_a_described_shape_never_collides() -> None:
    bare = Gripper(HAND.contact, HAND.axis, HAND.opening)
    solid = PointCloud(np.random.default_rng(0).uniform(-0.1, 0.1, (5000, 3)))
    assert not SceneSurface(solid).hand_collides(bare, np.eye(4), holding=False)
    assert SceneSurface(solid).hand_collides(HAND, np.eye(4), holding=False)


def test_hand_of_fingers_only_is_free_while_it_holds() -> None:
    assert HAND.shape is not None
    fingers = Gripper(HAND.contact, HAND.axis, HAND.opening, HandShape(HAND.shape.boxes[2:]))
    solid = PointCloud(np.random.default_rng(0).uniform(-0.05, 0.2, (20000, 3)))
    surface = SceneSurface(solid)
    assert surface.hand_collides(fingers, np.eye(4), holding=False)
    assert not surface.hand_collides(fingers, np.eye(4), holding=True)


@pytest.mark.parametrize("holding", [False, True])
def test_a_mesh_collides_as_the_box_that_it_describes(holding: bool) -> None:
    assert HAND.shape is not None
    palm = HAND.shape.boxes[0]
    vertices, faces = palm.surface()
    mesh = HandMesh(tuple(map(tuple, vertices.tolist())), tuple(map(tuple, faces.tolist())))
    contact = ContactFrame((0.0, 0.0, 0.145))
    as_box = Gripper(contact, "x", 0.08, HandShape((palm,)))
    as_mesh = Gripper(contact, "x", 0.08, HandShape(meshes=(mesh,)))
    surface = SceneSurface(PointCloud(np.random.default_rng(1).uniform(-0.08, 0.08, (3000, 3))))
    answers = []
    for pose in random_poses(20, 3, reach=0.2):
        answers.append(surface.hand_collides(as_box, pose, holding))
        assert surface.hand_collides(as_mesh, pose, holding) is answers[-1]
    assert True in answers
    assert False in answers
