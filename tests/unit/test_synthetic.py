"""The sample demonstrations are true to the geometry they are made from."""

import numpy as np
import pytest

from handful.clouds import PointCloud
from handful.demos import ContactFrame, DemoSet, HandShape
from handful.demos.synthetic import (
    GRIPPER,
    HAND_SPACE,
    WORKSPACE,
    HangerShape,
    MugShape,
    hanging_pose,
    make_sample,
    random_layout,
    rim_grasp,
    see_scene,
    table_mesh,
)
from handful.errors import DemoError, OptionError
from handful.render import ColoredMesh, gripper_mesh, joined

MUGS = [
    MugShape(),
    MugShape(radius=0.04, height=0.1, wall=0.003, handle_reach=0.03, handle_height=0.07),
    MugShape(radius=0.05, height=0.09, wall=0.005, handle_reach=0.04, handle_height=0.05),
]
HANGERS = [HangerShape(), HangerShape(arm_rise=0.2, arm_length=0.13, arm_radius=0.004)]
INSTANCES = [(mug, hanger) for mug in MUGS for hanger in HANGERS]
COUNT = 3
TIP = 0.15
"""Height of the finger tips in the gripper frame, metres."""


@pytest.fixture(scope="module")
def sample() -> DemoSet:
    return make_sample(COUNT, seed=0)


def moved(pose: np.ndarray, points: np.ndarray) -> np.ndarray:
    return points @ pose[:3, :3].T + pose[:3, 3]


def surface_points(mesh: ColoredMesh, count: int = 4000) -> np.ndarray:
    """Points spread evenly over the triangles, the corners among them."""
    rng = np.random.default_rng(0)
    a, b, c = np.moveaxis(mesh.triangles, 1, 0)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    which = rng.choice(len(area), size=count, p=area / area.sum())
    share = rng.dirichlet(np.ones(3), size=count)
    inside = np.einsum("nk,nkx->nx", share, mesh.triangles[which])
    return np.concatenate([inside, mesh.vertices])


def to_segment(points: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    along = end - start
    share = np.clip((points - start) @ along / (along @ along), 0.0, 1.0)
    return np.linalg.norm(points - start - share[:, None] * along, axis=1)


def to_mesh(points: np.ndarray, mesh: ColoredMesh) -> np.ndarray:
    """Slow reference: distance of each point to the nearest triangle of a mesh."""
    triangles = mesh.triangles
    normal = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    area = np.linalg.norm(normal, axis=1)
    triangles, normal = triangles[area > 1e-12], normal[area > 1e-12] / area[area > 1e-12, None]
    offset = points[:, None, :] - triangles[None, :, 0]
    height = np.einsum("ntx,tx->nt", offset, normal)
    within = np.ones(height.shape, dtype=bool)
    to_edges = np.full(height.shape, np.inf)
    for side in range(3):
        start, along = triangles[:, side], triangles[:, (side + 1) % 3] - triangles[:, side]
        local = points[:, None, :] - start
        within &= np.einsum("ntx,tx->nt", local, np.cross(normal, along)) >= 0
        share = np.einsum("ntx,tx->nt", local, along) / np.einsum("tx,tx->t", along, along)
        rest = local - np.clip(share, 0, 1)[..., None] * along
        to_edges = np.minimum(to_edges, np.linalg.norm(rest, axis=2))
    return np.where(within, np.abs(height), to_edges).min(axis=1)


def some(cloud: PointCloud, count: int = 250) -> np.ndarray:
    return cloud.subsampled(count, seed=0).points.astype(np.float64)


def layout(seed: int, index: int, hanger: HangerShape | None = None):
    return random_layout(np.random.default_rng([seed, index]), hanger or HangerShape())


# --- the pick ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mug", MUGS)
def test_fingers_straddle_the_wall(mug: MugShape) -> None:
    for angle, depth in [(np.pi, 0.02), (2.4, 0.03), (4.0, 0.025)]:
        grasp = rim_grasp(mug, angle, depth)
        half = GRIPPER.opening / 2
        tips = np.array([[half, 0, TIP], [-half, 0, TIP], [0, 0, TIP]])
        outer, inner, middle = moved(grasp, tips)
        assert np.hypot(*outer[:2]) > mug.radius
        assert np.hypot(*inner[:2]) < mug.radius - mug.wall
        assert np.hypot(*middle[:2]) == pytest.approx(mug.radius - mug.wall / 2)
        np.testing.assert_allclose([outer[2], inner[2], middle[2]], mug.height - depth, atol=1e-12)
        assert inner[2] > mug.wall
        np.testing.assert_allclose(grasp[:3, 2], [0, 0, -1])
        assert np.linalg.det(grasp[:3, :3]) == pytest.approx(1.0)


@pytest.mark.parametrize("mug", MUGS)
def test_open_hand_is_free_of_mug_and_table(mug: MugShape) -> None:
    hand = surface_points(gripper_mesh(TIP, GRIPPER.opening))
    for angle in np.pi + np.linspace(-np.pi / 4, np.pi / 4, 5):
        there = moved(rim_grasp(mug, angle, 0.03), hand)
        assert there[:, 2].min() > 0.01
        radius = np.hypot(there[:, 0], there[:, 1])
        in_wall = (radius > mug.radius - mug.wall) & (radius < mug.radius)
        assert not (in_wall & (there[:, 2] < mug.height)).any()
        assert to_mesh(there[::20], mug.mesh()).min() > 1e-3


def test_pick_targets_are_on_the_rim_away_from_the_handle(sample: DemoSet) -> None:
    mug = MugShape()
    for index, step in enumerate(sample.steps("pick")):
        at = layout(0, index).T_scene_mug
        tip = moved(np.linalg.inv(at) @ step.targets[0], np.array([[0, 0, TIP]]))[0]
        assert np.hypot(*tip[:2]) == pytest.approx(mug.wall_radius)
        assert tip[0] < -np.cos(np.pi / 4) * mug.wall_radius + 1e-9
        assert 0.02 <= mug.height - tip[2] <= 0.03


# --- the place ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("mug", "hanger"), INSTANCES)
def test_arm_goes_through_the_handle(mug: MugShape, hanger: HangerShape) -> None:
    to_mug = np.linalg.inv(hanging_pose(mug, hanger))
    start, end = moved(to_mug, np.stack([hanger.arm_point(0), hanger.arm_point(hanger.arm_length)]))
    assert start[1] < -0.02 < 0.02 < end[1]
    crossing = start + (end - start) * start[1] / (start[1] - end[1])
    x, z = crossing[0] - mug.wall_radius, crossing[2] - mug.height / 2
    inner = [side - mug.handle_radius for side in (mug.handle_reach, mug.handle_height / 2)]
    assert (x / inner[0]) ** 2 + (z / inner[1]) ** 2 < 1
    assert crossing[0] - hanger.arm_radius > mug.radius


@pytest.mark.parametrize(("mug", "hanger"), INSTANCES)
def test_hanging_mug_touches_the_arm_and_enters_nothing(mug: MugShape, hanger: HangerShape) -> None:
    points = moved(hanging_pose(mug, hanger), surface_points(mug.mesh()))
    arm = to_segment(points, hanger.arm_point(0.0), hanger.arm_point(hanger.arm_length))
    assert hanger.arm_radius - 1e-3 <= arm.min() < hanger.arm_radius + 1e-3
    post = to_segment(points, np.zeros(3), np.array([0, 0, hanger.post_height]))
    assert post.min() > hanger.post_radius
    assert points[:, 2].min() > hanger.foot_height


def test_handle_rests_on_top_of_the_arm() -> None:
    mug, hanger = MugShape(), HangerShape()
    handle = moved(hanging_pose(mug, hanger), mug.handle_line(2001))
    ends = hanger.arm_point(0.0), hanger.arm_point(hanger.arm_length)
    touching = handle[to_segment(handle, *ends).argmin()]
    below = hanger.arm_point((touching - ends[0]) @ hanger.arm_direction)
    assert (touching - below)[2] > 0.9 * np.linalg.norm(touching - below)


@pytest.mark.parametrize("side", [-np.pi / 4, 0.0, np.pi / 4])
def test_closed_hand_is_free_of_hanger_and_table(side: float) -> None:
    mug, hanger = MugShape(), HangerShape()
    hand = surface_points(gripper_mesh(TIP, mug.wall))
    points = moved(hanging_pose(mug, hanger) @ rim_grasp(mug, np.pi + side, 0.025), hand)
    ends = hanger.arm_point(0.0), hanger.arm_point(hanger.arm_length)
    assert to_segment(points, *ends).min() > hanger.arm_radius + 0.005
    post = to_segment(points, np.zeros(3), np.array([0, 0, hanger.post_height]))
    assert post.min() > hanger.post_radius + 0.005
    assert points[:, 2].min() > 0.01


def test_place_target_hangs_the_mug_that_was_picked(sample: DemoSet) -> None:
    mug, hanger = MugShape(), HangerShape()
    for index, demonstration in enumerate(sample):
        pick, place = (demonstration.step(name).targets[0] for name in ("pick", "place"))
        at = layout(0, index)
        carried = place @ np.linalg.inv(pick) @ at.T_scene_mug
        expected = at.T_scene_hanger @ hanging_pose(mug, hanger)
        np.testing.assert_allclose(carried, expected, atol=1e-12)


def test_arm_too_thick_for_the_handle_is_refused() -> None:
    with pytest.raises(DemoError, match="does not fit"):
        make_sample(1, mug=MugShape(handle_reach=0.015))


# --- the clouds --------------------------------------------------------------------------------


def test_clouds_lie_on_the_surfaces(sample: DemoSet) -> None:
    mug, hanger = MugShape(), HangerShape()
    for index, demonstration in enumerate(sample):
        at = layout(0, index)
        stand = hanger.mesh().transformed(at.T_scene_hanger)
        empty = joined([table_mesh(), stand])
        full = joined([empty, mug.mesh().transformed(at.T_scene_mug)])
        pick, place = demonstration.step("pick"), demonstration.step("place")
        assert to_mesh(some(pick.scene), full).max() < 1e-3
        assert to_mesh(some(place.scene), empty).max() < 1e-3
        assert pick.grasp is not None
        assert to_mesh(some(pick.grasp), gripper_mesh(0.15, 0.08)).max() < 1e-3
        held = mug.mesh().transformed(np.linalg.inv(rim_grasp(mug, at.rim_angle, at.depth)))
        hand = joined([gripper_mesh(0.15, mug.wall + 0.003), held])
        assert place.grasp is not None
        assert to_mesh(some(place.grasp), hand).max() < 1e-3


def test_surface_check_notices_a_point_off_the_surface() -> None:
    points = np.array([[0.0, 0.0, 0.002], [0.301, 0.0, 0.0], [0.1, 0.1, 0.0]])
    np.testing.assert_allclose(to_mesh(points, table_mesh()), [0.002, 0.001, 0.0], atol=1e-12)


def test_clouds_are_in_the_workspace_and_cover_it(sample: DemoSet) -> None:
    for demonstration in sample:
        for step in demonstration.steps:
            for cloud, box in ((step.scene, WORKSPACE), (step.grasp, HAND_SPACE)):
                low, high = cloud.bounds
                assert (low >= np.array(box.lower) - 1e-6).all()
                assert (high <= np.array(box.upper) + 1e-6).all()
            assert 30_000 < len(step.scene) < 60_000
            np.testing.assert_allclose(step.scene.extent[:2], 0.6, atol=0.02)
            assert step.scene.points[:, 2].max() > 0.24
            assert step.grasp.points[:, 2].max() > 0.14


def test_colours_tell_things_apart(sample: DemoSet) -> None:
    def share(cloud: PointCloud, color: int) -> float:
        rgb = cloud.require_colors()
        others = np.delete(rgb, color, axis=1).max(axis=1)
        return float((rgb[:, color] > 1.5 * others).mean())

    for demonstration in sample:
        pick, place = demonstration.step("pick"), demonstration.step("place")
        assert share(pick.scene, 0) > 0.02
        assert share(pick.scene, 1) > 0.02
        assert share(place.scene, 0) == 0.0
        assert share(place.scene, 1) > 0.02
        assert pick.grasp is not None
        assert place.grasp is not None
        assert share(pick.grasp, 0) == 0.0
        assert share(place.grasp, 0) > 0.3


def test_cameras_see_inside_the_mug() -> None:
    mug = MugShape()
    cloud = see_scene([table_mesh(), mug.mesh()])
    radius = np.hypot(cloud.points[:, 0], cloud.points[:, 1])
    wall = np.abs(radius - (mug.radius - mug.wall)) < 1e-3
    assert (wall & (cloud.points[:, 2] > 0.05)).sum() > 50


def test_the_gripper_is_the_one_that_the_clouds_show(sample: DemoSet) -> None:
    """Every point of an open hand is on a box, and every box is seen."""
    assert sample.gripper == GRIPPER
    assert GRIPPER.contact == ContactFrame((0.0, 0.0, 0.145))
    assert GRIPPER.shape is not None
    hand = sample[0].step("pick").grasp
    assert hand is not None
    points = hand.points.astype(np.float64)
    assert GRIPPER.shape.contains(points, 1e-4).all()
    assert not GRIPPER.shape.contains(points + np.array([0.0, 0.0, 0.02]), 1e-4).all()
    for box in GRIPPER.shape.boxes:
        skin = HandShape((box,)).contains(points, 1e-4)
        assert skin.sum() > 1000
        low, high = points[skin].min(axis=0), points[skin].max(axis=0)
        np.testing.assert_allclose(high - low, box.size, atol=6e-3)


def test_the_closed_hand_is_the_gripper_at_that_width(sample: DemoSet) -> None:
    mug = MugShape()
    closed = surface_points(gripper_mesh(TIP, mug.wall + 0.003))
    shape = GRIPPER.with_width(mug.wall + 0.003).shape
    assert shape is not None
    assert shape.contains(closed, 1e-6).all()
    assert GRIPPER.shape is not None
    assert not GRIPPER.shape.contains(closed, 1e-6).all()


# --- the random choices ------------------------------------------------------------------------


def test_things_stand_apart_and_on_the_table() -> None:
    hanger = HangerShape()
    for index in range(100):
        at = layout(1, index)
        along = np.linspace(0, hanger.arm_length, 20)[:, None]
        arm = moved(at.T_scene_hanger, hanger.arm_point(0.0) + along * hanger.arm_direction)
        gap = np.linalg.norm(arm[:, :2] - at.T_scene_mug[:2, 3], axis=1).min()
        assert gap > 0.13
        assert np.abs(arm[:, :2]).max() < 0.25
        assert np.abs(at.T_scene_mug[:2, 3]).max() < 0.2


def test_every_yaw_happens() -> None:
    yaws = [np.arctan2(*layout(2, index).T_scene_mug[[1, 0], 0]) for index in range(100)]
    assert (np.histogram(yaws, bins=4, range=(-np.pi, np.pi))[0] > 10).all()


def same(first: DemoSet, second: DemoSet) -> bool:
    pairs = [
        (a, b)
        for one, two in zip(first, second, strict=True)
        for step, other in zip(one.steps, two.steps, strict=True)
        for a, b in [
            (step.targets, other.targets),
            (step.scene.points, other.scene.points),
            (step.scene.colors, other.scene.colors),
            (step.grasp.points, other.grasp.points),
            (step.grasp.colors, other.grasp.colors),
        ]
    ]
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_seed_decides_everything(sample: DemoSet) -> None:
    assert same(make_sample(COUNT, seed=0), sample)
    other = make_sample(1, seed=1)
    assert not same(other, DemoSet(sample.demonstrations[:1], GRIPPER))
    targets = np.stack([step.targets[0] for step in sample.steps("pick")])
    assert len(np.unique(targets[:, 0, 3])) == COUNT


def test_smaller_set_is_the_beginning_of_a_larger(sample: DemoSet) -> None:
    assert same(make_sample(1, seed=0), DemoSet(sample.demonstrations[:1], GRIPPER))


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(OptionError, match="count is 0"):
        make_sample(0)
    with pytest.raises(OptionError, match="seed is -1"):
        make_sample(1, seed=-1)
    with pytest.raises(DemoError, match="radius is nan"):
        MugShape(radius=float("nan"))
    with pytest.raises(DemoError, match="too large"):
        MugShape(handle_height=0.2)
    with pytest.raises(DemoError, match="leave the post"):
        HangerShape(arm_height=0.5)
