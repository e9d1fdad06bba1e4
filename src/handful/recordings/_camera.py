"""Cameras as people describe them in JSON: intrinsics, lens, depth, and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8
from scipy.spatial.transform import Rotation

from handful._strict_json import Fields
from handful.clouds import Intrinsics, RgbdView, registered_view
from handful.demos import numbers_from_json
from handful.errors import DemoError, errors_at
from handful.recordings._units import Units

Pose = Float[np.ndarray, "4 4"]

FIXED, ON_WRIST = "T_robot_camera", "T_gripper_camera"
MOST_TURNED, MOST_APART = 20.0, 0.3
"""Degrees and metres between the depth camera and the colour camera of one device."""


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

    @property
    def color_size(self) -> tuple[int, int]:
        """Columns and rows of the colour image."""
        return self.color.width, self.color.height

    @property
    def depth_size(self) -> tuple[int, int]:
        """Columns and rows of the depth image."""
        own = self.depth or self.color
        return own.width, own.height

    @property
    def field(self) -> str:
        """Name of the field that says where it is."""
        return ON_WRIST if self.on_wrist else FIXED

    def pose(self, T_robot_gripper: Pose | None) -> Pose:
        """From its optical frame to the robot's.

        Args:
            T_robot_gripper: Where the gripper was; needed for a camera on the wrist.
        """
        if not self.on_wrist:
            return self.T_base_camera
        if T_robot_gripper is None:
            raise DemoError(
                f"camera {self.name!r} is on the wrist, so that the view needs "
                "'T_robot_gripper', the arm's pose when it was taken."
            )
        found: Pose = T_robot_gripper @ self.T_base_camera
        return found

    def view(
        self,
        color: UInt8[np.ndarray, "h w 3"],
        depth: Float[np.ndarray, "rows columns"],
        T_robot_gripper: Pose | None,
    ) -> RgbdView:
        """What the camera saw, in the robot's frame.

        Args:
            color: The colour image.
            depth: The depth image, metres.
            T_robot_gripper: Where the gripper was; needed for a camera on the wrist.
        """
        pose = self.pose(T_robot_gripper)
        if self.depth is None:
            return RgbdView(depth, color, self.color, pose)
        return registered_view(depth, self.depth, color, self.color, self.T_color_depth, pose)


def read_camera(fields: Fields, name: str, units: Units) -> RecordingCamera:
    """A camera from the fields of a JSON object; the caller takes those that are left.

    Args:
        fields: Of the object.
        name: Of the camera.
        units: Of lengths in the file.
    """
    address = fields.address
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
        _check_beside(T_color_depth, f"{address}: T_color_depth")
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
    return RecordingCamera(name, color, depth, T_color_depth, scale, place == ON_WRIST, pose)


def _check_beside(T_color_depth: Pose, address: str) -> None:
    """Refuse a depth camera that is not beside its colour camera and does not look the same way."""
    turn = Rotation.from_matrix(T_color_depth[:3, :3])
    degrees, apart = np.degrees(turn.magnitude()), float(np.linalg.norm(T_color_depth[:3, 3]))
    if degrees > MOST_TURNED:
        x, y, z, w = turn.as_quat()
        cure = "check it"
        for order, quat in (("wxyz", (y, z, w, x)), ("xyzw", (w, x, y, z))):
            if np.degrees(Rotation.from_quat(quat).magnitude()) <= MOST_TURNED:
                cure = (
                    f"its quaternion is in the order {', '.join(order)}: name it `quat_{order}`, "
                    "and all others that the same program wrote"
                )
        raise DemoError(
            f"{address}: turns depth by {degrees:.0f} degrees against colour, and the two cameras "
            f"of one device look the same way (at most {MOST_TURNED:g} degrees): {cure}."
        )
    if apart > MOST_APART:
        raise DemoError(
            f"{address}: puts the depth camera {apart:.3g} m from the colour camera: at most "
            f"{MOST_APART:g} m makes sense in one device; check the unit."
        )


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
