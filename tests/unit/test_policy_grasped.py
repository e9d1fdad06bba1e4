"""Which points leave with the gripper: things on tables and blocks, among others, and none."""

import time

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.clouds import PointCloud
from handful.demos import gripper_named
from handful.policy import points_taken
from policy_samples import box_surface, contact_at, level_plane

HAND = gripper_named("simulated")
STANDING, LYING = (0.04, 0.05, 0.12), (0.12, 0.05, 0.04)
SPACING = 0.003


def box_on(height: float, size: tuple[float, float, float], x: float = 0.0) -> np.ndarray:
    """The faces of a box at x, y = 0 that can be seen: not the one that it stands on."""
    points = box_surface((x, 0.0, height + size[2] / 2), size, SPACING)
    return points[points[:, 2] > height + 1e-6]


def table(height: float = 0.0) -> np.ndarray:
    return level_plane(0.6, height, SPACING)


def grasp_at_top(height: float, size: tuple[float, float, float], x: float = 0.0) -> np.ndarray:
    """The fingers reach 15 mm down at the box' sides, and close along y."""
    T_scene_gripper = contact_at(HAND, x, 0.0, height + size[2] - 0.015)
    turn = np.eye(4)
    turn[:3, :3] = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    contact = HAND.T_gripper_contact
    return T_scene_gripper @ contact @ turn @ np.linalg.inv(contact)


def scene_of(thing: np.ndarray, *others: np.ndarray) -> tuple[PointCloud, np.ndarray]:
    """The cloud, and which of its points are of the thing."""
    cloud = PointCloud(np.concatenate([thing, *others]))
    return cloud, np.arange(len(cloud)) < len(thing)


def share(found: np.ndarray, true: np.ndarray) -> float:
    return float((found & true).sum() / (found | true).sum())


@pytest.mark.parametrize("size", [STANDING, LYING], ids=["standing", "lying"])
@pytest.mark.parametrize("height", [0.0, 0.4, -0.2])
@pytest.mark.parametrize("known", [True, False], ids=["table known", "table found"])
def test_a_box_on_a_table_among_others_is_found(
    size: tuple[float, float, float], height: float, known: bool
) -> None:
    others = [box_on(height, STANDING, 0.12), box_on(height, (0.06, 0.2, 0.18), -0.13)]
    scene, true = scene_of(box_on(height, size), table(height), *others)
    taken = points_taken(scene, grasp_at_top(height, size), HAND, height if known else None)
    assert taken, taken.why_not
    assert share(taken.points, true) > 0.85
    assert not (taken.points & ~true).any() or (taken.points & ~true).sum() < 20


@pytest.mark.parametrize("size", [STANDING, LYING], ids=["standing", "lying"])
def test_what_it_stands_on_stays(size: tuple[float, float, float]) -> None:
    """A block that is 3 cm wider than the box on every side, on a table."""
    block = (size[0] + 0.06, size[1] + 0.06, 0.09)
    scene, true = scene_of(box_on(0.09, size), box_on(0.0, block), table())
    taken = points_taken(scene, grasp_at_top(0.09, size), HAND)
    assert taken, taken.why_not
    assert share(taken.points, true) > 0.85


def test_the_inside_of_a_bowl_is_no_support() -> None:
    """A level bottom of 7 cm, 1 cm above the table, in a wall that is 6 cm high."""
    angle, up = np.meshgrid(np.arange(0, 2 * np.pi, 0.04), np.arange(0.0, 0.06, SPACING))
    wall = np.stack([np.cos(angle), np.sin(angle), up], axis=-1).reshape(-1, 3)
    radius = 0.04 + 0.5 * wall[:, 2:]
    wall[:, :2] *= radius
    disc = level_plane(0.08, 0.01, SPACING)
    disc = disc[np.hypot(disc[:, 0], disc[:, 1]) < 0.038]
    bowl = np.concatenate([wall, disc])
    scene, true = scene_of(bowl, table()[np.hypot(*table()[:, :2].T) > 0.041])
    taken = points_taken(scene, contact_at(HAND, 0.065, 0.0, 0.05), HAND)
    assert taken, taken.why_not
    assert share(taken.points, true) > 0.85


def test_a_table_that_was_cut_away_is_not_missed() -> None:
    scene, true = scene_of(box_on(0.0, STANDING), box_on(0.0, STANDING, 0.12))
    taken = points_taken(scene, grasp_at_top(0.0, STANDING), HAND)
    assert taken, taken.why_not
    assert share(taken.points, true) > 0.95


def test_noise_and_a_sparse_cloud_change_little() -> None:
    rng = np.random.default_rng(0)
    thing, ground = box_on(0.0, STANDING), table()
    noisy = [some + rng.normal(0.0, 0.0015, some.shape) for some in (thing, ground)]
    scene, true = scene_of(*noisy)
    assert share(points_taken(scene, grasp_at_top(0.0, STANDING), HAND).points, true) > 0.7
    some = np.sort(rng.permutation(len(scene))[: len(scene) // 6])
    sparse = points_taken(scene.selected(some), grasp_at_top(0.0, STANDING), HAND)
    assert sparse, sparse.why_not
    assert share(sparse.points, true[some]) > 0.7


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ((0.2, 0.2, 0.05), "nothing is between the fingers"),
        ((0.2, 0.2, 0.0), "nothing is between the fingers"),
        ((3.0, 0.0, 0.0), "nothing is near the contact"),
    ],
    ids=["in the air", "on the bare table", "far away"],
)
def test_nothing_at_the_contact_is_told(where: tuple[float, float, float], words: str) -> None:
    scene, _ = scene_of(box_on(0.0, STANDING), table())
    taken = points_taken(scene, contact_at(HAND, *where), HAND, 0.0)
    assert not taken
    assert taken.why_not == words
    assert not taken.points.any()


def test_what_hangs_together_with_everything_is_not_told() -> None:
    """A wall through the whole scene, and a crumb."""
    wall = box_surface((0.0, 0.0, 0.1), (0.9, 0.03, 0.2), SPACING)
    taken = points_taken(scene_of(wall, table())[0], grasp_at_top(0.0, (0, 0, 0.2)), HAND)
    assert "hangs together with everything" in taken.why_not
    crumb = box_surface((0.0, 0.0, 0.02), (0.008, 0.008, 0.008), SPACING)
    taken = points_taken(scene_of(crumb, table())[0], contact_at(HAND, 0.0, 0.0, 0.02), HAND)
    assert "too small to be told" in taken.why_not


def test_the_answer_moves_with_the_scene() -> None:
    """Turned about the vertical, and moved."""
    T = np.eye(4)
    T[:3, :3] = Rotation.from_euler("z", 40, degrees=True).as_matrix()
    T[:3, 3] = (0.5, -0.2, 0.3)
    scene, true = scene_of(box_on(0.0, STANDING), table(), box_on(0.0, LYING, 0.15))
    moved = points_taken(scene.transformed(T), T @ grasp_at_top(0.0, STANDING), HAND)
    assert share(moved.points, true) > 0.85


def test_a_large_scene_takes_no_time() -> None:
    """CPU time of 50,000 points; on a quiet core it is about 30 ms."""
    around = [box_on(0.0, STANDING, x) for x in (0.1, 0.2, -0.1, -0.2)]
    ground = level_plane(0.6, 0.0, 0.0029)
    scene, _ = scene_of(box_on(0.0, STANDING), ground, *around)
    assert len(scene) > 45_000
    pose = grasp_at_top(0.0, STANDING)
    points_taken(scene, pose, HAND)
    start = time.process_time()
    for _ in range(3):
        points_taken(scene, pose, HAND)
    assert (time.process_time() - start) / 3 < 0.2
