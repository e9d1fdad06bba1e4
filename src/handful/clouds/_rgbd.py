"""Depth images to clouds. Cameras look along +z, x right, y down (OpenCV's optical frame)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from handful._rigid import check_pose
from handful.clouds._cloud import Box, PointCloud
from handful.clouds._intrinsics import Intrinsics
from handful.errors import CloudColorError, CloudShapeError, EmptyCloudError

MILLIMETRE = 1e-3


@dataclass(frozen=True, eq=False)
class RgbdView:
    """What one camera saw, and from where.

    Attributes:
        depth: Distance along the optical axis [height, width]: floats in metres, or uint16 in
            millimetres. Zero, negative and non-finite values mean that nothing was seen.
        color: uint8 image [height, width, 3] registered to `depth`, or None.
        intrinsics: Of the depth image.
        T_scene_camera: Maps the optical frame (x right, y down, z forward) to the scene [4, 4].
    """

    depth: Shaped[np.ndarray, "height width"]
    color: Shaped[np.ndarray, "..."] | None
    intrinsics: Intrinsics
    T_scene_camera: Shaped[np.ndarray, "4 4"]

    def __post_init__(self) -> None:
        size = (self.intrinsics.height, self.intrinsics.width)
        if self.depth.shape != size:
            raise CloudShapeError(f"depth image is {self.depth.shape}, intrinsics say {size}.")
        if self.depth.dtype.kind != "f" and self.depth.dtype != np.uint16:
            raise CloudShapeError(
                f"depth image is {self.depth.dtype}: need floats in metres, or uint16 millimetres."
            )
        if self.color is not None and (
            self.color.shape != (*size, 3) or self.color.dtype != np.uint8
        ):
            raise CloudShapeError(
                f"colour image is {self.color.dtype} {self.color.shape}: need uint8 {(*size, 3)}."
            )
        pose = np.array(self.T_scene_camera, dtype=np.float64)
        check_pose(pose, name="T_scene_camera")

    @property
    def metres(self) -> Float[np.ndarray, "height width"]:
        """The depth in metres, float64."""
        depth = self.depth.astype(np.float64)
        return depth * MILLIMETRE if self.depth.dtype == np.uint16 else depth


def cloud_from_rgbd(
    views: RgbdView | Sequence[RgbdView], workspace: Box | None = None
) -> PointCloud:
    """One cloud from any number of cameras, in the scene frame.

    Args:
        views: What each camera saw. All have colour, or none.
        workspace: Only points in this box are kept.

    Raises:
        EmptyCloudError: No camera saw anything, or nothing in the workspace.
        CloudColorError: Some views have colour and some have none.
    """
    listed = [views] if isinstance(views, RgbdView) else list(views)
    if not listed:
        raise EmptyCloudError("cloud_from_rgbd needs at least one view; got none.")
    colored = sum(view.color is not None for view in listed)
    if 0 < colored < len(listed):
        raise CloudColorError(
            f"{colored} of {len(listed)} views have colour: give an image to all of them, or None."
        )
    seen = [_seen(view, workspace) for view in listed]
    points, colors = (np.concatenate(parts) for parts in zip(*seen, strict=True))
    if len(points) < 2:
        where = f" inside the workspace {workspace.lower}..{workspace.upper}" if workspace else ""
        raise EmptyCloudError(
            f"none of {len(listed)} depth images has a valid pixel{where}: check the depth unit, "
            "the camera poses and the workspace."
        )
    return PointCloud(points, colors if listed[0].color is not None else None)


def _seen(
    view: RgbdView, workspace: Box | None
) -> tuple[Float[np.ndarray, "seen 3"], UInt8[np.ndarray, "seen 3"]]:
    """The valid pixels of one view in the scene frame, and their colours; black without."""
    depth = view.metres
    row, column = np.nonzero(np.isfinite(depth) & (depth > 0))
    z = depth[row, column]
    ray = view.intrinsics.rays(column, row)
    points = np.concatenate([ray * z[:, None], z[:, None]], axis=1)
    motion = np.asarray(view.T_scene_camera, dtype=np.float64)
    points = points @ motion[:3, :3].T + motion[:3, 3]
    image = np.zeros((*depth.shape, 3), np.uint8) if view.color is None else view.color
    colors = image[row, column]
    if workspace is None:
        return points, colors
    inside = workspace.contains(points)
    return points[inside], colors[inside]
