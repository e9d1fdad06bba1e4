"""Three depth cameras on the workspace and six around the hand, and their noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Shaped

from handful.clouds import Box, Intrinsics, PointCloud, RgbdView, cloud_from_rgbd
from handful.demos import Gripper
from handful.errors import OptionError
from handful.render import Camera, look_at
from handful.sim._hand import GROUP_HAND, GROUP_OBJECT, GROUP_SCENE
from handful.sim._renderer import Renderer
from handful.sim._world import World

WORKSPACE = Box((-0.3, -0.3, -0.001), (0.3, 0.3, 0.45))
"""What is kept of a scene, in the scene frame, metres."""
_BESIDE, _BEYOND = 0.25, 0.255
"""Metres beside and beyond the contact that are kept of a grasp."""
_BEFORE_FLANGE = 0.001
"""Metres: the face at the flange is not kept. In reality the arm hides it."""
_LOOK_BEYOND = 0.025
"""Metres beyond the contact: what the cameras around the hand look at."""


@dataclass(frozen=True)
class DepthNoise:
    """What a real depth camera adds.

    Attributes:
        sigma: Standard deviation of the depth at a distance of one metre, metres; it grows with
            the square of the distance.
        edge_drop: Share of the pixels at depth edges that see nothing.
    """

    sigma: float = 0.0
    edge_drop: float = 0.0

    def __post_init__(self) -> None:
        for name, most in (("sigma", 0.1), ("edge_drop", 1.0)):
            value = getattr(self, name)
            if not (np.isfinite(value) and 0.0 <= value <= most):
                raise OptionError(f"DepthNoise.{name} is {value}: need 0 to {most}.")

    def applied(self, view: RgbdView, rng: np.random.Generator) -> RgbdView:
        """The view as a noisy camera would have taken it."""
        depth = np.asarray(view.depth, dtype=np.float64)
        seen = depth > 0
        noisy = depth + self.sigma * depth**2 * rng.standard_normal(depth.shape)
        lost = _edges(depth) & (rng.uniform(size=depth.shape) < self.edge_drop)
        return replace(view, depth=np.where(seen & ~lost, noisy, 0.0))


NO_NOISE = DepthNoise()


def scene_cameras() -> list[Camera]:
    """Around the table, scene frame."""
    intrinsics = Intrinsics.from_field_of_view(256, 192, np.deg2rad(48.0))
    return [
        look_at(_around(0.85, azimuth, 42.0, 0.0), (0.0, 0.0, 0.06), intrinsics)
        for azimuth in (-30.0, 90.0, 210.0)
    ]


def grasp_space(gripper: Gripper) -> Box:
    """What is kept of a grasp: from the flange to beyond the contact; gripper frame."""
    x, y, z = gripper.T_gripper_contact[:3, 3].tolist()
    return Box((x - _BESIDE, y - _BESIDE, _BEFORE_FLANGE), (x + _BESIDE, y + _BESIDE, z + _BEYOND))


def grasp_cameras(gripper: Gripper) -> list[Camera]:
    """Around the hand, gripper frame."""
    intrinsics = Intrinsics.from_field_of_view(200, 180, np.deg2rad(42.0))
    T_gripper_contact = gripper.T_gripper_contact
    x, y, z = (T_gripper_contact[:3, 3] + _LOOK_BEYOND * T_gripper_contact[:3, 2]).tolist()
    beside = np.array([x, y, 0.0])
    return [
        look_at(beside + _around(0.62, 60.0 * n, 35.0 * (-1) ** n, z), (x, y, z), intrinsics)
        for n in range(6)
    ]


def observe_scene(
    world: World, renderer: Renderer, holding: bool, noise: DepthNoise, rng: np.random.Generator
) -> PointCloud:
    """What the three cameras see in the workspace; the robot is out of the picture.

    Args:
        world: The world.
        renderer: Draws it.
        holding: The object in focus is in the hand, and so out of the picture too.
        noise: Of the cameras.
        rng: For the noise.
    """
    groups = (GROUP_SCENE,) if holding else (GROUP_SCENE, GROUP_OBJECT)
    views = renderer.render(world, scene_cameras(), groups)
    return cloud_from_rgbd(_noisy(views, noise, rng), WORKSPACE)


def observe_grasp(
    world: World,
    renderer: Renderer,
    noise: DepthNoise,
    rng: np.random.Generator,
    holding: bool = True,
) -> PointCloud:
    """What the six cameras see of the hand and of what it holds; gripper frame.

    Args:
        world: The world.
        renderer: Draws it.
        noise: Of the cameras.
        rng: For the noise.
        holding: The object in focus is in the hand, and so in the picture.
    """
    T_scene_gripper = world.T_scene_gripper
    local = grasp_cameras(world.gripper)
    there = [Camera(camera.intrinsics, T_scene_gripper @ camera.T_scene_camera) for camera in local]
    groups = (GROUP_HAND, GROUP_OBJECT) if holding else (GROUP_HAND,)
    views = [
        replace(view, T_scene_camera=camera.T_scene_camera)
        for view, camera in zip(renderer.render(world, there, groups), local, strict=True)
    ]
    return cloud_from_rgbd(_noisy(views, noise, rng), grasp_space(world.gripper))


def _noisy(views: list[RgbdView], noise: DepthNoise, rng: np.random.Generator) -> list[RgbdView]:
    return views if noise == NO_NOISE else [noise.applied(view, rng) for view in views]


def _edges(depth: Float[np.ndarray, "h w"]) -> Shaped[np.ndarray, "h w"]:
    """Pixels where depth bends by more than a centimetre; a slanted plane does not bend."""
    around = np.pad(depth, 1, mode="edge")
    across = around[1:-1, 2:] + around[1:-1, :-2] - 2.0 * depth
    along = around[2:, 1:-1] + around[:-2, 1:-1] - 2.0 * depth
    return np.maximum(np.abs(across), np.abs(along)) > 0.01


def _around(
    distance: float, azimuth: float, elevation: float, height: float
) -> Float[np.ndarray, "3"]:
    """A point on a ball around (0, 0, height); angles in degrees."""
    turn, rise = np.deg2rad(azimuth), np.deg2rad(elevation)
    flat = np.cos(rise) * np.array([np.cos(turn), np.sin(turn), 0.0])
    return distance * (flat + np.array([0.0, 0.0, np.sin(rise)])) + np.array([0.0, 0.0, height])
