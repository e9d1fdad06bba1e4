"""Depth cameras on the workspace and around the hand, and the clouds that they see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from handful.clouds import Box, Intrinsics, PointCloud, RgbdView, cloud_from_rgbd
from handful.demos import Gripper
from handful.render import NO_NOISE, Camera, look_at
from handful.sim._hand import GROUP_ARM, GROUP_HAND, GROUP_OBJECT, GROUP_SCENE
from handful.sim._renderer import Renderer
from handful.sim._rig import MOST_CAMERAS, MOST_VIEWS, CameraRig
from handful.sim._self_filter import robot_shapes, without_robot
from handful.sim._world import World
from handful.sim.objects import LARGEST

WORKSPACE = Box((-0.3, -0.3, -0.001), (0.3, 0.3, 0.45))
"""What is kept of a scene, in the scene frame, metres."""
_AROUND_CONTACT = float(np.sqrt(2.0)) * LARGEST
"""Metres beside and beyond the contact that are kept of a grasp: an object as large as the world
accepts, taken by its end and turned about one axis in any way, is inside."""
_BEFORE_FLANGE = 0.001
"""Metres: the face at the flange is not kept. In reality the arm hides it."""
_LOOK_BEYOND = 0.025
"""Metres beyond the contact: what the cameras around the hand look at."""
_GRASP_DISTANCE = 0.62
"""Metres between these cameras and what they look at."""
_STEP_BACK, _FARTHEST = 1.2, 1.6
"""What is held and does not fit into the picture is held farther away, by this factor and again,
at most at this distance in metres."""
_AZIMUTHS = (-30.0, 90.0, 210.0)
"""Degrees: directions of the scene cameras. The robot stands at 180 degrees."""


def scene_cameras(count: int = MOST_CAMERAS) -> list[Camera]:
    """Around the table, scene frame; fewer are the first of more."""
    intrinsics = Intrinsics.from_field_of_view(256, 192, np.deg2rad(48.0))
    return [
        look_at(_around(0.85, azimuth, 42.0, 0.0), (0.0, 0.0, 0.06), intrinsics)
        for azimuth in _AZIMUTHS[:count]
    ]


def grasp_space(gripper: Gripper) -> Box:
    """What is kept of a grasp: from the flange to beyond the contact; gripper frame."""
    x, y, z = gripper.T_gripper_contact[:3, 3].tolist()
    reach = _AROUND_CONTACT
    return Box((x - reach, y - reach, _BEFORE_FLANGE), (x + reach, y + reach, z + reach))


def grasp_cameras(
    gripper: Gripper, count: int = MOST_VIEWS, distance: float = _GRASP_DISTANCE
) -> list[Camera]:
    """Evenly around the hand, by turns from beyond the finger tips and from the flange's side.

    They stand for one camera in front of which the robot turns its wrist. Two views are of opposite
    sides. Fewer than six begin across the opening axis: there the fingers hide least of what they
    hold.

    Args:
        gripper: The hand.
        count: How many, 1 to 6.
        distance: From what they look at, metres.

    Returns:
        In the gripper frame.
    """
    intrinsics = Intrinsics.from_field_of_view(200, 180, np.deg2rad(42.0))
    T_gripper_contact = gripper.T_gripper_contact
    x, y, z = (T_gripper_contact[:3, 3] + _LOOK_BEYOND * T_gripper_contact[:3, 2]).tolist()
    beside = np.array([x, y, 0.0])
    first = 0.0
    if count < MOST_VIEWS:
        first = float(np.rad2deg(np.arctan2(T_gripper_contact[1, 1], T_gripper_contact[0, 1])))
    return [
        look_at(
            beside + _around(distance, first + 360.0 / count * n, 35.0 * (-1) ** n, z),
            (x, y, z),
            intrinsics,
        )
        for n in range(count)
    ]


def observe_scene(
    world: World,
    renderer: Renderer,
    holding: bool,
    rig: CameraRig,
    rng: np.random.Generator,
    grasp: PointCloud | None = None,
) -> PointCloud:
    """What the cameras see in the workspace, without the robot and without what it holds.

    With `rig.arm_in_view` both are in the pictures, hide what is behind them, and are dropped by
    what the robot knows of itself; see `without_robot`. Otherwise they are not drawn.

    Args:
        world: The world.
        renderer: Draws it.
        holding: The object in focus is in the hand.
        rig: How many cameras, and their noise.
        rng: For the noise.
        grasp: The grasp cloud, gripper frame: what the robot knows of what it holds. Needed only
            with something in the hand and the arm in view.
    """
    cameras = scene_cameras(rig.cameras)
    if not rig.arm_in_view:
        groups = (GROUP_SCENE,) if holding else (GROUP_SCENE, GROUP_OBJECT)
        return cloud_from_rgbd(_noisy(renderer.render(world, cameras, groups), rig, rng), WORKSPACE)
    everything = (GROUP_SCENE, GROUP_OBJECT, GROUP_HAND, GROUP_ARM)
    views = _noisy(renderer.render(world, cameras, everything), rig, rng)
    shapes = robot_shapes(world.joints, world.gripper, world.finger_gap, grasp if holding else None)
    return cloud_from_rgbd([without_robot(view, shapes, WORKSPACE) for view in views], WORKSPACE)


def observe_grasp(
    world: World,
    renderer: Renderer,
    rig: CameraRig,
    rng: np.random.Generator,
    holding: bool = True,
) -> PointCloud:
    """What the cameras see of the hand and of what it holds; gripper frame.

    What is cut off by the edge of a picture is held farther away, and all pictures are taken again.

    Args:
        world: The world.
        renderer: Draws it.
        rig: How many views, and their noise.
        rng: For the noise.
        holding: The object in focus is in the hand, and so in the picture.
    """
    T_scene_gripper = world.T_scene_gripper
    groups = (GROUP_HAND, GROUP_OBJECT) if holding else (GROUP_HAND,)
    distance = _GRASP_DISTANCE
    while True:
        local = grasp_cameras(world.gripper, rig.grasp_views, distance)
        there = [
            Camera(camera.intrinsics, T_scene_gripper @ camera.T_scene_camera) for camera in local
        ]
        seen = renderer.render(world, there, groups)
        distance *= _STEP_BACK
        if distance > _FARTHEST or not any(_cut_off(view) for view in seen):
            break
    views = [
        replace(view, T_scene_camera=camera.T_scene_camera)
        for view, camera in zip(seen, local, strict=True)
    ]
    return cloud_from_rgbd(_noisy(views, rig, rng), grasp_space(world.gripper))


def _cut_off(view: RgbdView) -> bool:
    """Whether something is at the edge of the picture."""
    depth = view.depth
    return bool((depth[[0, -1]] > 0).any() or (depth[:, [0, -1]] > 0).any())


def _noisy(views: list[RgbdView], rig: CameraRig, rng: np.random.Generator) -> list[RgbdView]:
    noise = rig.depth_noise
    return views if noise == NO_NOISE else [noise.applied(view, rng) for view in views]


def _around(
    distance: float, azimuth: float, elevation: float, height: float
) -> Float[np.ndarray, "3"]:
    """A point on a ball around (0, 0, height); angles in degrees."""
    turn, rise = np.deg2rad(azimuth), np.deg2rad(elevation)
    flat = np.cos(rise) * np.array([np.cos(turn), np.sin(turn), 0.0])
    return distance * (flat + np.array([0.0, 0.0, np.sin(rise)])) + np.array([0.0, 0.0, height])
