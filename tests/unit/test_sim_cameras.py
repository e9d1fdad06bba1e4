"""Cameras: rigs, noise models, the robot's own points, and clouds of large held things."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial import cKDTree

pytest.importorskip("mujoco")

from handful.clouds import Box, Intrinsics, RgbdView, cloud_from_rgbd
from handful.demos import gripper_named
from handful.errors import OptionError
from handful.policy import Motion
from handful.render import Camera, look_at
from handful.sim import (
    DEFAULT_RIG,
    NOISES,
    CameraRig,
    DepthNoise,
    Placed,
    World,
    noise_named,
    oracle_pose,
    task_named,
)
from handful.sim import _self_filter as self_filter
from handful.sim._arm import HOME
from handful.sim._cameras import (
    WORKSPACE,
    grasp_cameras,
    grasp_space,
    observe_grasp,
    observe_scene,
    scene_cameras,
)
from handful.sim._hand import GROUP_ARM, GROUP_HAND, GROUP_OBJECT, GROUP_SCENE
from handful.sim._renderer import Renderer
from handful.sim._self_filter import Capsule, _around, robot_shapes, without_robot
from handful.sim.objects import LARGEST, BottleShape, TrayShape, placed

SENSORS = sorted(set(NOISES) - {"none"})


def picture(depth):
    """A view of a camera that looks along z from the origin."""
    h, w = depth.shape
    return RgbdView(depth, None, Intrinsics.from_field_of_view(w, h, 0.8), np.eye(4))


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def holding():
    """An episode whose robot has just lifted a mug."""
    with task_named("mug").reset(2001) as episode:
        pick = episode.task.task.steps[0]
        pose = oracle_pose(episode, pick)
        assert episode.execute(pick, Motion.along_approach(pose, episode.gripper))
        yield episode


def looks(episode, rig, grasp=None):
    return observe_scene(episode.world, episode.renderer, episode.holding, rig, rng(), grasp)


def grasp_of(episode, rig):
    return observe_grasp(episode.world, episode.renderer, rig, rng(), episode.holding)


# --- rigs --------------------------------------------------------------------------------------


def around(distance, azimuth, elevation, height):
    turn, rise = np.deg2rad(azimuth), np.deg2rad(elevation)
    flat = np.cos(rise) * np.array([np.cos(turn), np.sin(turn), 0.0])
    return distance * (flat + np.array([0.0, 0.0, np.sin(rise)])) + np.array([0.0, 0.0, height])


@pytest.mark.parametrize("hand", ["simulated", "simulated-long"])
def test_the_default_rig_sees_what_cameras_saw_before_there_were_rigs(hand):
    """To the bit: cameras and boxes are written down here as they were."""
    with task_named("bottle").reset(2005, gripper=gripper_named(hand)) as episode:
        pick = episode.task.task.steps[0]
        pose = oracle_pose(episode, pick)
        for held in (False, True):
            if held:
                assert episode.execute(pick, Motion.along_approach(pose, episode.gripper))
            lens = Intrinsics.from_field_of_view(256, 192, np.deg2rad(48.0))
            cameras = [
                look_at(around(0.85, turn, 42.0, 0.0), (0.0, 0.0, 0.06), lens)
                for turn in (-30.0, 90.0, 210.0)
            ]
            groups = (GROUP_SCENE,) if held else (GROUP_SCENE, GROUP_OBJECT)
            views = episode.renderer.render(episode.world, cameras, groups)
            box = Box((-0.3, -0.3, -0.001), (0.3, 0.3, 0.45))
            before, now = cloud_from_rgbd(views, box), episode.observe_scene()
            assert np.array_equal(before.points, now.points)
            assert np.array_equal(before.colors, now.colors)

            lens = Intrinsics.from_field_of_view(200, 180, np.deg2rad(42.0))
            contact = episode.gripper.T_gripper_contact
            x, y, z = (contact[:3, 3] + 0.025 * contact[:3, 2]).tolist()
            local = [
                look_at(
                    np.array([x, y, 0.0]) + around(0.62, 60.0 * n, 35.0 * (-1) ** n, z),
                    (x, y, z),
                    lens,
                )
                for n in range(6)
            ]
            T_scene_gripper = episode.world.T_scene_gripper
            there = [Camera(lens, T_scene_gripper @ one.T_scene_camera) for one in local]
            groups = (GROUP_HAND, GROUP_OBJECT) if held else (GROUP_HAND,)
            views = [
                replace(view, T_scene_camera=one.T_scene_camera)
                for view, one in zip(
                    episode.renderer.render(episode.world, there, groups), local, strict=True
                )
            ]
            x, y, z = contact[:3, 3].tolist()
            box = Box((x - 0.25, y - 0.25, 0.001), (x + 0.25, y + 0.25, z + 0.255))
            before, now = cloud_from_rgbd(views, box), episode.observe_grasp()
            assert np.array_equal(before.points, now.points)
            assert np.array_equal(before.colors, now.colors)


def share_seen(surface, cloud):
    """Share of the points of a surface that a cloud shows."""
    return float((cKDTree(cloud.points).query(surface)[0] < 0.006).mean())


def test_fewer_cameras_see_fewer_sides():
    with task_named("mug").reset(2001) as episode:
        mesh = episode.world.item.thing.meshes[0]
        pose = episode.world.T_scene_item
        surface = mesh.vertices[mesh.faces].mean(axis=1) @ pose[:3, :3].T + pose[:3, 3]
        clouds = [looks(episode, CameraRig(cameras=count)) for count in (1, 2, 3)]
        shares = [share_seen(surface, cloud) for cloud in clouds]
    assert shares[0] < shares[1] - 0.05 < shares[2] - 0.1
    # The first cameras are the same ones.
    assert np.array_equal(clouds[0].points, clouds[2].points[: len(clouds[0])])


def test_fewer_views_of_the_hand_see_fewer_sides(holding):
    mesh = holding.world.item.thing.meshes[0]
    pose = holding.world.T_gripper_item
    surface = mesh.vertices[mesh.faces].mean(axis=1) @ pose[:3, :3].T + pose[:3, 3]
    shares = [
        share_seen(surface, grasp_of(holding, CameraRig(grasp_views=count))) for count in (1, 2, 6)
    ]
    assert shares[0] < shares[1] - 0.1
    assert shares[1] < shares[2]


@pytest.mark.parametrize("hand", ["simulated", "franka-hand"])
def test_two_views_of_the_hand_are_from_opposite_sides_across_the_opening_axis(hand):
    gripper = gripper_named(hand)
    one, other = (camera.T_scene_camera[:3, 2] for camera in grasp_cameras(gripper, 2))
    assert one @ other == pytest.approx(-1.0)
    assert one @ gripper.T_gripper_contact[:3, 0] == pytest.approx(0.0, abs=1e-9)
    assert [len(grasp_cameras(gripper, count)) for count in range(1, 7)] == [1, 2, 3, 4, 5, 6]
    assert [len(scene_cameras(count)) for count in (1, 2, 3)] == [1, 2, 3]


def test_a_rig_says_what_it_is_and_refuses_what_it_cannot_be():
    assert DEFAULT_RIG.words == "3 cameras, 6 grasp views, noise none"
    assert DEFAULT_RIG.special == ""
    rig = CameraRig(1, 2, "usual", True)
    assert rig.special == rig.words == "1 camera, 2 grasp views, noise usual, arm in view"
    with pytest.raises(OptionError, match=r"cameras is 4: need a number from 1 to 3"):
        CameraRig(cameras=4)
    with pytest.raises(OptionError, match=r"grasp_views is 0: need a number from 1 to 6"):
        CameraRig(grasp_views=0)
    with pytest.raises(OptionError, match=r"unknown noise 'realsense'. Did you mean 'realsense-d4"):
        CameraRig(noise="realsense")


# --- noise -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "millimetres"),
    [("usual", 3.0), ("realsense-d435", 3.8), ("azure-kinect", 1.4), ("kinect-v1", 1.884)],
)
def test_noise_at_one_metre_is_what_the_source_says(name, millimetres):
    wall = picture(np.ones((300, 300)))
    error = noise_named(name).applied(wall, rng()).depth - 1.0
    assert error.std() == pytest.approx(millimetres * 1e-3, rel=0.04)
    assert abs(error.mean()) < 2e-4


@pytest.mark.parametrize("name", ["usual", "realsense-d435", "azure-kinect"])
def test_noise_grows_with_the_square_of_the_distance(name):
    far = picture(np.full((300, 300), 2.0))
    one = noise_named(name)
    error = one.applied(far, rng()).depth - 2.0
    assert error.std() == pytest.approx(4.0 * one.sigma, rel=0.04)


def correlation(error, lag, axis):
    ahead, behind = (np.take(error, range(*span), axis) for span in ((lag, 400), (0, 400 - lag)))
    return float(np.mean(ahead * behind) / error.var())


@pytest.mark.parametrize("name", SENSORS)
@pytest.mark.parametrize("axis", [0, 1])
def test_neighbours_err_alike_over_the_correlation_length(name, axis):
    one = noise_named(name)
    error = one.applied(picture(np.ones((400, 400))), rng()).depth - 1.0
    for lag in (1, 2, 3, 12):
        wanted = one.correlated * np.exp(-(lag**2) / (2 * one.correlation**2))
        assert correlation(error, lag, axis) == pytest.approx(wanted, abs=0.03)


@pytest.mark.parametrize("name", SENSORS)
def test_edge_pixels_are_lost_and_fly_in_the_named_shares(name):
    depth = np.full((400, 400), 1.0)
    depth[:, np.arange(400) // 10 % 2 == 1] = 0.8
    one = noise_named(name)
    noisy = one.applied(picture(depth), rng()).depth
    # Stripes of ten pixels: the first and the last of each are edges, but at the picture's sides.
    edges = np.zeros_like(depth, dtype=bool)
    edges[:, 9:391:10] = edges[:, 10:391:10] = True
    assert (noisy[edges] == 0).mean() == pytest.approx(one.edge_drop, abs=0.02)
    assert (noisy[~edges] > 0).all()
    between = (noisy > 0.82) & (noisy < 0.98)
    assert between[edges].mean() == pytest.approx(0.8 * one.flying, abs=0.02)
    assert not between[~edges].any()


def test_flying_pixels_at_the_rim_of_nothing_stay_on_the_surface():
    depth = np.zeros((60, 60))
    depth[20:40, 20:40] = 0.7
    noisy = DepthNoise(flying=1.0).applied(picture(depth), rng()).depth
    assert np.allclose(noisy, depth)


def test_without_noise_nothing_changes_and_the_same_seed_gives_the_same_cloud():
    depth = np.linspace(0.5, 1.0, 48 * 64).reshape(48, 64)
    assert np.array_equal(noise_named("none").applied(picture(depth), rng()).depth, depth)
    rig = CameraRig(2, 2, "realsense-d435")

    def clouds(seed):
        with task_named("mug").reset(seed, rig=rig) as episode:
            return episode.observe_scene().points, episode.observe_grasp().points

    first, again = clouds(2001), clouds(2001)
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
    with task_named("mug").reset(2001, rig=rig) as episode:
        once, twice = episode.observe_scene().points, episode.observe_scene().points
    assert once.shape != twice.shape or not np.array_equal(once, twice)


def test_the_oracle_does_the_same_whatever_the_cameras():
    poses = []
    for rig in (DEFAULT_RIG, CameraRig(1, 2, "usual")):
        with task_named("mug").reset(2001, rig=rig) as episode:
            episode.observe_scene()
            poses.append(oracle_pose(episode, episode.task.task.steps[0]))
    assert np.array_equal(*poses)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sigma": 1.0}, r"sigma is 1.0: need 0 to 0.1"),
        ({"floor": -0.1}, r"floor is -0.1"),
        ({"correlation": 0.0}, r"correlation is 0.0: need 0.1 to 50"),
        ({"flying": float("nan")}, r"flying is nan"),
        ({"edge_drop": 0.6, "flying": 0.6}, r"add up to 1 or less"),
    ],
)
def test_noise_that_cannot_be_is_refused(values, message):
    with pytest.raises(OptionError, match=message):
        DepthNoise(**values)


# --- the robot's own points --------------------------------------------------------------------


def is_among(points, others):
    """Whether each point is one of the others."""
    return cKDTree(others).query(points)[0] < 1e-6


@pytest.mark.parametrize("home", [False, True])
@pytest.mark.parametrize("views", [2, 6])
def test_the_self_filter_leaves_no_robot_and_drops_little_else(holding, home, views):
    rig = CameraRig(grasp_views=views, arm_in_view=True)
    lifted = holding.world.joints
    if home:
        holding.world.teleport(HOME, holding=True)
    try:
        there = looks(holding, CameraRig())
        cloud = looks(holding, rig, grasp_of(holding, rig))
        everything = (GROUP_SCENE, GROUP_OBJECT, GROUP_HAND, GROUP_ARM)
        seen = holding.renderer.render(holding.world, scene_cameras(), everything)
        scene = holding.renderer.render(holding.world, scene_cameras(), (GROUP_SCENE,))
    finally:
        holding.world.teleport(lifted, holding=True)
    assert is_among(cloud.points, there.points).all()
    unhidden = [
        replace(view, depth=np.where(view.depth == behind.depth, view.depth, 0.0))
        for view, behind in zip(seen, scene, strict=True)
    ]
    visible = cloud_from_rgbd(unhidden, WORKSPACE)
    assert len(cloud) > (0.98 if home else 0.88) * len(visible)
    # A robot over the scene hides much of it, one at home little.
    hidden = 1.0 - len(visible) / len(there)
    assert hidden < 0.02 if home else hidden > 0.1
    # All that without the filter would be in the cloud.
    unfiltered = cloud_from_rgbd(seen, WORKSPACE).points
    assert (~is_among(unfiltered, there.points)).sum() > 500


def test_what_is_held_is_known_by_its_cloud_alone(holding):
    rig = CameraRig(arm_in_view=True)
    there = looks(holding, CameraRig()).points
    unknown = looks(holding, rig, None).points
    assert (~is_among(unknown, there)).sum() > 200, "the mug is in view, and nobody looked at it"
    known = looks(holding, rig, grasp_of(holding, rig)).points
    assert is_among(known, there).all()


def test_flying_pixels_at_the_outline_of_the_robot_are_dropped(holding, monkeypatch):
    rig = CameraRig(noise="realsense-d435", arm_in_view=True)
    tree = cKDTree(looks(holding, CameraRig()).points)

    def floating(rig):
        cloud = looks(holding, rig, grasp_of(holding, replace(rig, arm_in_view=False)))
        return int((tree.query(cloud.points)[0] > 0.02).sum())

    scene_alone = floating(replace(rig, arm_in_view=False))
    assert floating(rig) < 1.3 * scene_alone + 10
    for shape in (self_filter.Capsule, self_filter.Polytope):
        monkeypatch.setattr(shape, "hides", lambda self, eye, points, margin: points[:, 0] > 9)
    assert floating(rig) > 1.5 * scene_alone + 20


def test_with_the_arm_in_view_the_robot_drives_home_before_it_looks(monkeypatch):
    rig = CameraRig(grasp_views=2, arm_in_view=True)
    with task_named("mug").reset(2001, rig=rig) as episode:
        pick = episode.task.task.steps[0]
        pose = oracle_pose(episode, pick)
        assert episode.execute(pick, Motion.along_approach(pose, episode.gripper))
        held, joints = episode.world.T_gripper_item, episode.world.joints
        with monkeypatch.context() as patch:
            patch.setattr(World, "touching", lambda *_, **__: True)
            episode.observe_scene()
            assert np.array_equal(episode.world.joints, joints), "there is something in the way"
        cloud = episode.observe_scene()
        assert np.allclose(episode.world.joints, HOME)
        assert np.allclose(episode.world.T_gripper_item, held, atol=1e-9)
        assert episode.observe_grasp() is episode.observe_grasp()
    with task_named("mug").reset(2001) as episode:
        assert episode.execute(pick, Motion.along_approach(pose, episode.gripper))
        assert is_among(cloud.points, episode.observe_scene().points).mean() > 0.99
        assert np.allclose(episode.world.joints, joints), "else it stays where it is"


def test_shapes_agree_with_their_points():
    """Against many points of each shape and of each line of sight."""
    generator = rng(3)
    eye = np.array([0.0, 0.0, 1.0])
    points = generator.uniform(-0.3, 0.3, size=(400, 3))
    along = np.linspace(0.0, 1.0, 400)
    sights = eye + along[:, None, None] * (points - eye)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * 0.07
    capsule = Capsule(np.array([-0.1, 0.02, 0.0]), np.array([0.1, -0.05, 0.1]), 0.04)
    axis = capsule.start + np.linspace(0, 1, 400)[:, None] * (capsule.end - capsule.start)
    tree = cKDTree(axis)
    away = tree.query(points)[0]
    least = tree.query(sights.reshape(-1, 3))[0].reshape(400, -1).min(axis=0)
    normals = np.concatenate([np.eye(3), -np.eye(3)])
    box = _around(corners, normals)
    for margin in (0.0, 0.02):
        clear = np.abs(away - 0.04 - margin) > 1e-3
        assert np.array_equal(capsule.near(points, margin)[clear], (away < 0.04 + margin)[clear])
        clear = np.abs(least - 0.04 - margin) > 2e-3
        hidden = capsule.hides(eye, points, margin)
        assert np.array_equal(hidden[clear], (least < 0.04 + margin)[clear])
        assert np.array_equal(
            box.near(points, margin), (np.abs(points) <= 0.07 + margin).all(axis=1)
        )
        deepest = (np.abs(sights).max(axis=2) - 0.07 - margin).min(axis=0)
        clear = np.abs(deepest) > 3e-3
        assert np.array_equal(box.hides(eye, points, margin)[clear], (deepest < 0)[clear])
    pose = placed((0.1, 0.2, 0.3), np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]))
    moved = points @ pose[:3, :3].T + pose[:3, 3]
    assert np.array_equal(box.moved(pose).near(moved, 0.01), box.near(points, 0.01))


def test_the_known_shapes_are_where_the_simulated_robot_is(holding):
    """Every point of the robot in a picture is on one of the shapes, to a millimetre."""
    world = holding.world
    groups = (GROUP_HAND, GROUP_ARM)
    views = holding.renderer.render(world, scene_cameras(), groups)
    points = cloud_from_rgbd(views).points.astype(float)
    shapes = robot_shapes(world.joints, world.gripper, world.finger_gap)
    assert np.any([shape.near(points, 2e-3) for shape in shapes], axis=0).mean() > 0.999
    assert not np.any([shape.near(points, -3e-3) for shape in shapes[-3:]], axis=0).any()
    left = without_robot(views[0], shapes, Box((-2, -2, -2), (2, 2, 2)))
    assert not left.depth.any()


# --- large things ------------------------------------------------------------------------------


@pytest.mark.parametrize("views", [1, 2, 6])
def test_a_held_thing_as_large_as_the_world_accepts_is_seen_to_its_end(views):
    shape = BottleShape(body_height=LARGEST - 0.058)
    assert shape.height == pytest.approx(LARGEST)
    tray = Placed(TrayShape().thing(), placed((0.1, -0.15, 0.0)))
    world = World([Placed(shape.thing(), placed((0.1, 0.1, 0.0)))], [tray])
    contact = world.gripper.T_gripper_contact[2, 3]
    upside_down = np.diag([1.0, -1.0, -1.0])
    end = contact + LARGEST - 0.02
    world.put_item(world.T_scene_gripper @ placed((0.0, 0.0, end), upside_down))
    renderer = Renderer(world)
    cloud = observe_grasp(world, renderer, CameraRig(grasp_views=views), rng())
    renderer.close()
    assert cloud.points[:, 2].max() == pytest.approx(end, abs=2e-3)
    bottom = cloud.points[np.abs(cloud.points[:, 2] - end) < 2e-3]
    assert len(bottom) > 50
    assert np.ptp(bottom[:, 0]) > 1.8 * shape.body_radius
    assert grasp_space(world.gripper).contains(np.array([[LARGEST, 0.0, end]])).all()
