"""The two virtual cameras of the example: one beside the table, one on the wrist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8, UInt16
from scipy.spatial.transform import Rotation

from handful.clouds import Intrinsics, RgbdView
from handful.recordings.example._peg import TABLE_MIDDLE, Pose, pose
from handful.render import Camera, ColoredMesh, DepthNoise, look_at, render_rgbd

NOISE = DepthNoise(sigma=0.0038, edge_drop=0.5, correlated=0.8, correlation=2.0, flying=0.25)
"""That of `NOISES["realsense-d435"]`."""

_MARGIN = 0.12
"""A picture without lens distortion is drawn larger by this share on each side, and then bent."""


@dataclass(frozen=True, eq=False)
class ExampleCamera:
    """A depth camera and a colour camera beside it.

    Attributes:
        color: Intrinsics of the colour image, with its lens.
        depth: Those of the depth image; None if it is registered to colour.
        T_color_depth: From the depth camera's optical frame to the colour camera's.
        depth_scale: Metres per unit of the depth image.
        on_wrist: It moves with the gripper.
        T_base_camera: In the robot's frame, or in the gripper's.
    """

    color: Intrinsics
    depth: Intrinsics | None
    T_color_depth: Pose
    depth_scale: float
    on_wrist: bool
    T_base_camera: Pose

    def taken(
        self, meshes: Sequence[ColoredMesh], T_robot_gripper: Pose | None, rng: np.random.Generator
    ) -> tuple[UInt8[np.ndarray, "h w 3"], UInt16[np.ndarray, "rows columns"]]:
        """A colour image and a depth image with noise, as the camera would save them.

        Args:
            meshes: All that is there, in the robot's frame.
            T_robot_gripper: Where the gripper is, for a camera on the wrist.
            rng: For the noise.
        """
        eye = self.T_base_camera
        if self.on_wrist and T_robot_gripper is not None:
            eye = T_robot_gripper @ eye
        image = _color_image(meshes, self.color, eye)
        own = Camera(self.depth or self.color, eye @ self.T_color_depth)
        depth = NOISE.applied(render_rgbd(meshes, own), rng).metres
        return image, np.rint(depth / self.depth_scale).clip(0, 65535).astype(np.uint16)


def _color_image(
    meshes: Sequence[ColoredMesh], lens: Intrinsics, eye: Pose
) -> UInt8[np.ndarray, "h w 3"]:
    """What a camera with that lens sees, from a picture without a lens that shows more."""
    if not lens.distorted:
        return _image(render_rgbd(meshes, Camera(lens, eye)))
    more = (round(_MARGIN * lens.width), round(_MARGIN * lens.height))
    pinhole = Intrinsics(
        lens.fx,
        lens.fy,
        lens.cx + more[0],
        lens.cy + more[1],
        lens.width + 2 * more[0],
        lens.height + 2 * more[1],
    )
    straight = _image(render_rgbd(meshes, Camera(pinhole, eye)))
    row, column = (grid.reshape(-1) for grid in np.mgrid[: lens.height, : lens.width])
    ray = lens.rays(column, row)
    seen = pinhole.project(np.concatenate([ray, np.ones((len(ray), 1))], axis=1))
    at = np.rint(seen).astype(np.int64).clip(0, [pinhole.width - 1, pinhole.height - 1])
    return straight[at[:, 1], at[:, 0]].reshape(lens.height, lens.width, 3)


def _image(view: RgbdView) -> UInt8[np.ndarray, "h w 3"]:
    assert view.color is not None
    return view.color


def _pose_of(eye: Sequence[float], target: Sequence[float], up: Sequence[float]) -> Pose:
    return look_at(eye, target, Intrinsics(1.0, 1.0, 0.0, 0.0, 1, 1), up).T_scene_camera


TABLE = ExampleCamera(
    color=Intrinsics(318.4, 318.1, 211.2, 120.9, 424, 240, (0.061, -0.142, 0.0009, -0.0006, 0.043)),
    depth=Intrinsics(301.7, 301.7, 212.6, 118.3, 424, 240),
    T_color_depth=pose(
        Rotation.from_rotvec([0.004, -0.002, 0.003]).as_matrix(),
        np.array([-0.0148, 0.0002, 0.0004]),
    ),
    depth_scale=0.001,
    on_wrist=False,
    T_base_camera=_pose_of((1.08, 0.22, 0.52), (*TABLE_MIDDLE, 0.06), (0.0, 0.0, 1.0)),
)
"""Across from the robot. Depth and colour differ, and the lens bends the colour image."""

WRIST = ExampleCamera(
    color=Intrinsics(262.3, 262.3, 159.7, 119.2, 320, 240),
    depth=None,
    T_color_depth=np.eye(4),
    depth_scale=0.0001,
    on_wrist=True,
    T_base_camera=_pose_of((0.085, 0.0, 0.02), (0.02, 0.0, 0.4), (-1.0, 0.0, 0.0)),
)
"""Beside the hand, looking past the fingers. Its depth is registered to colour."""

CAMERAS = {"table": TABLE, "wrist": WRIST}


def looking_poses(rng: np.random.Generator) -> list[Pose]:
    """Two poses of the gripper from which the camera on its wrist sees the table."""
    spots = [(0.27, -0.17, 0.46), (0.45, 0.22, 0.48)]
    return [_hand_towards(rng.normal(spot, 0.015), (*TABLE_MIDDLE, 0.0), 0.0) for spot in spots]


def showing_poses(rng: np.random.Generator) -> list[Pose]:
    """Three poses of the gripper that show the camera beside the table what it holds."""
    towards = (0.80, 0.0, 0.05)
    return [
        _hand_towards(rng.normal((0.42, 0.02, 0.42), 0.01), towards, turn)
        for turn in (0.3, 0.3 + 2.0 * np.pi / 3.0, 0.3 + 4.0 * np.pi / 3.0)
    ]


def hand_poses(rng: np.random.Generator) -> list[Pose]:
    """Three poses of the gripper that show the camera beside the table all of the hand."""
    looks = [
        ((0.50, 0.00, 0.33), (0.9, 0.2, 0.1), 0.0),
        ((0.50, 0.10, 0.25), (0.9, -0.2, 0.1), 1.0),
        ((0.55, 0.05, 0.30), (0.55, 0.45, 0.0), 1.2),
    ]
    return [_hand_towards(rng.normal(spot, 0.01), to, turn) for spot, to, turn in looks]


def _hand_towards(
    position: Float[np.ndarray, "3"], target: tuple[float, float, float], turn: float
) -> Pose:
    """The gripper at a place, its approach towards a point, turned about it by `turn` radians."""
    found = _pose_of(position.tolist(), target, (0.0, 0.0, 1.0))
    found[:3, :3] = found[:3, :3] @ Rotation.from_euler("z", turn + np.pi / 2.0).as_matrix()
    return found
