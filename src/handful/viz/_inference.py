"""A sheet of what a model found: gripper poses in a scene, and the key field behind them."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.clouds import PointCloud
from handful.demos import Gripper
from handful.models import Field, QueryPoints
from handful.render import tile
from handful.viz._fields import panels_of_field
from handful.viz._poses import panels_of_poses
from handful.viz._views import PANEL, view_of_pose


def picture_of_inference(
    scene: PointCloud,
    poses: Float[np.ndarray, "poses 4 4"],
    gripper: Gripper,
    *,
    key: Field | None = None,
    queries: QueryPoints | None = None,
    grasp: PointCloud | None = None,
    best: int = 5,
    title: str = "",
    size: tuple[int, int] = PANEL,
) -> Image.Image:
    """A sheet: the best poses in the scene and close by, and the key field there.

    Args:
        scene: Scene cloud.
        poses: T_scene_gripper, best first.
        gripper: What is at the poses.
        key: The key field of the scene; without it there are only poses.
        queries: Drawn into the field at the best pose, as they should match it.
        grasp: What the gripper holds, in the gripper frame; drawn at the best pose.
        best: How many poses to draw.
        title: Over the sheet.
        size: Width and height of each picture, pixels.
    """
    panels = panels_of_poses(scene, poses, gripper, grasp, best, size)
    if key is not None:
        camera = view_of_pose(scene, poses[0], gripper, grasp, with_hand=False, size=size)
        panels += panels_of_field(scene, key, camera, None, queries, poses[0])
    images, captions = zip(*panels, strict=True)
    return tile(images, 2, captions, title)
