"""Pictures of gripper poses in a scene."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from PIL import Image

from handful.clouds import PointCloud
from handful.demos import Gripper
from handful.errors import OptionError
from handful.render import PictureStyle, draw_picture, tile
from handful.viz._hand import hand_mesh, held_width
from handful.viz._views import PANEL, view_of_pose, view_of_scene
from handful.viz._visible import drawable

_BEST_COLOR = (0.16, 0.42, 0.93)
_OTHER_COLOR = (0.48, 0.66, 0.95)
_OTHER_OPACITY = 0.5

_CLOSE_UP = PictureStyle(hidden_opacity=0.45)


def picture_of_poses(
    scene: PointCloud,
    poses: Float[np.ndarray, "poses 4 4"],
    gripper: Gripper,
    *,
    grasp: PointCloud | None = None,
    best: int = 5,
    title: str = "",
    size: tuple[int, int] = PANEL,
) -> Image.Image:
    """The scene with the best gripper poses, and a close-up of the best.

    Args: See `picture_of_inference`.
    """
    images, captions = zip(*panels_of_poses(scene, poses, gripper, grasp, best, size), strict=True)
    return tile(images, 2, captions, title)


def panels_of_poses(
    scene: PointCloud,
    poses: Float[np.ndarray, "poses 4 4"],
    gripper: Gripper,
    grasp: PointCloud | None,
    best: int,
    size: tuple[int, int],
) -> list[tuple[Image.Image, str]]:
    """Pictures with captions: the whole scene, and the best pose from near."""
    if best < 1 or not len(poses):
        raise OptionError(f"best is {best} of {len(poses)} poses: need one or more of each.")
    shown = poses[:best].astype(np.float64)
    held = [] if grasp is None else [grasp.transformed(shown[0])]
    width = None if grasp is None else held_width(gripper, grasp)
    hand = hand_mesh(gripper, _BEST_COLOR, width=width)
    first = hand.transformed(shown[0])
    others = [hand.recolored(_OTHER_COLOR, _OTHER_OPACITY).transformed(pose) for pose in shown[1:]]
    camera = view_of_scene(scene, shown, gripper, size)
    whole = draw_picture([drawable(scene, camera), *held], [first, *others], camera)
    near = draw_picture(
        [scene, *held],
        [first.recolored(first.color, 0.9)],
        view_of_pose(scene, shown[0], gripper, grasp, size=size),
        _CLOSE_UP,
    )
    number = f"The best {len(shown)} of {len(poses)} poses" if len(poses) > 1 else "The pose"
    holding = " with what it holds" if held else ""
    return [(whole, number), (near, f"The best pose{holding}")]
