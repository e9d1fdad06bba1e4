"""The cameras of a folder of RGB-D recordings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from handful._strict_json import Fields
from handful.clouds import Intrinsics, RgbdView, registered_view, without_flying_pixels
from handful.demos import numbers_from_json
from handful.errors import DemoError, errors_at
from handful.recordings._images import read_color, read_depth
from handful.recordings.rgbd._units import Units

Pose = Float[np.ndarray, "4 4"]

FIXED, ON_WRIST = "T_robot_camera", "T_gripper_camera"


@dataclass(frozen=True, eq=False)
class RecordingCamera:
    """One camera: what its pixels see, and where it is.

    Attributes:
        name: For messages.
        color: Intrinsics of the colour image, and of the depth image if that is registered to it.
        depth: Intrinsics of a depth image that is not; None if it is.
        T_color_depth: From the optical frame of such a depth image to the colour image's.
        depth_scale: Metres per unit of whole numbers; None where depth is in metres.
        on_wrist: The camera moves with the gripper.
        T_base_camera: The colour camera's optical frame in the robot's frame, or in the gripper's
            if it is on the wrist.
    """

    name: str
    color: Intrinsics
    depth: Intrinsics | None
    T_color_depth: Pose
    depth_scale: float | None
    on_wrist: bool
    T_base_camera: Pose

    def view(
        self,
        color: Path,
        depth: Path,
        T_robot_gripper: Pose | None,
        keep_flying_pixels: bool,
        address: str,
    ) -> RgbdView:
        """What the camera saw, in the robot's frame.

        Args:
            color: The colour image.
            depth: The depth image.
            T_robot_gripper: Where the gripper was; needed for a camera on the wrist.
            keep_flying_pixels: Leave them in.
            address: Who names the images, for messages.
        """
        if self.on_wrist and T_robot_gripper is None:
            raise DemoError(
                f"{address}: camera {self.name!r} is on the wrist, so that the view needs "
                "'T_robot_gripper', the arm's pose when it was taken."
            )
        pose = self.T_base_camera
        if self.on_wrist and T_robot_gripper is not None:
            pose = T_robot_gripper @ pose
        with errors_at(address):
            image = read_color(color, (self.color.width, self.color.height))
            own = self.depth or self.color
            metres = read_depth(depth, (own.width, own.height), self.depth_scale)
            if self.depth is None:
                view = RgbdView(metres, image, self.color, pose)
            else:
                view = registered_view(
                    metres, self.depth, image, self.color, self.T_color_depth, pose
                )
        return view if keep_flying_pixels else without_flying_pixels(view)


def read_camera(value: Any, address: str, name: str, units: Units) -> RecordingCamera:
    """A camera from JSON.

    Args:
        value: The object.
        address: File and field, for messages.
        name: Of the camera.
        units: Of lengths in the file.
    """
    fields = Fields(value, address, DemoError)
    color = intrinsics_from_json(fields.any("intrinsics"), f"{address}: intrinsics")
    depth, T_color_depth = None, np.eye(4)
    if fields.has("depth_intrinsics"):
        depth = intrinsics_from_json(fields.any("depth_intrinsics"), f"{address}: depth_intrinsics")
        if not fields.has("T_color_depth"):
            raise DemoError(
                f"{address}: has 'depth_intrinsics' and no 'T_color_depth': give the depth "
                "camera's pose in the colour camera's frame, or save depth aligned to colour and "
                "leave both out."
            )
        T_color_depth = units.pose(fields.any("T_color_depth"), f"{address}: T_color_depth")
    elif fields.has("T_color_depth"):
        raise DemoError(
            f"{address}: has 'T_color_depth' and no 'depth_intrinsics': give both for depth "
            "that is not aligned to colour, or neither for depth that is."
        )
    scale = None
    if fields.has("depth_scale"):
        scale = fields.number("depth_scale")
        if not 0.0 < scale <= 1.0:
            raise DemoError(
                f"{address}: depth_scale is {scale:g}: need metres per unit of the depth image, "
                "more than 0 and at most 1; 0.001 for millimetres."
            )
    place = fields.choose((FIXED, ON_WRIST))
    pose = units.pose(fields.any(place), f"{address}: {place}")
    fields.done()
    return RecordingCamera(name, color, depth, T_color_depth, scale, place == ON_WRIST, pose)


def intrinsics_from_json(value: Any, address: str) -> Intrinsics:
    """Focal lengths, principal point, size and lens of one image, from JSON."""
    fields = Fields(value, address, DemoError)
    fx, fy, cx, cy = (fields.number(name) for name in ("fx", "fy", "cx", "cy"))
    width, height = fields.integer("width"), fields.integer("height")
    distortion: tuple[float, ...] = ()
    if fields.has("distortion"):
        where = f"{address}: distortion [k1, k2, p1, p2, k3]"
        distortion = tuple(numbers_from_json(fields.any("distortion"), (5,), where).tolist())
    fields.done()
    with errors_at(address):
        return Intrinsics(fx, fy, cx, cy, width, height, distortion)
