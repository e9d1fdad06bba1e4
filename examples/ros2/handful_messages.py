"""ROS 2 messages to arrays, and answers of the service to ROS 2 messages.

Message classes come from a function (`name -> class`), so that the same code makes messages of
`rclpy` on a robot and of the library `rosbags` in tests. Needs numpy only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from handful.answers import AnsweredPose, PoseAnswer

Types = Callable[[str], Any]

_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
"""PointField's datatypes."""


def ros_types(name: str) -> Any:
    """The message class of a name like `geometry_msgs/msg/Pose`, from an installed ROS 2."""
    package, kind, message = name.split("/")
    return getattr(importlib.import_module(f"{package}.{kind}"), message)


def cloud_from_message(message: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Points [n, 3] and 8-bit colours [n, 3], or None, of a sensor_msgs/PointCloud2.

    Rows without a finite position are left out: cameras write them where they saw nothing.

    Raises:
        ValueError: A field is missing, or of an unknown kind.
    """
    order = ">" if message.is_bigendian else "<"
    fields = {field.name: field for field in message.fields}
    missing = [name for name in "xyz" if name not in fields]
    if missing:
        raise ValueError(f"the cloud has no field {missing[0]!r}: need x, y and z.")
    color = next((fields[name] for name in ("rgb", "rgba") if name in fields), None)
    used = [fields[name] for name in "xyz"] + ([] if color is None else [color])
    kinds = [order + _NUMBERS[field.datatype] for field in used]
    if color is not None:
        kinds[-1] = order + "u4"  # the bytes of a float are those of a packed colour
    row = np.dtype(
        {
            "names": ["x", "y", "z", "rgb"][: len(used)],
            "formats": kinds,
            "offsets": [field.offset for field in used],
            "itemsize": message.point_step,
        }
    )
    data = np.frombuffer(bytes(message.data), dtype=np.uint8)
    lines = data.reshape(message.height, message.row_step)[:, : message.width * message.point_step]
    table = np.frombuffer(lines.tobytes(), dtype=row)
    points = np.stack([table[name].astype(np.float32) for name in "xyz"], axis=1)
    seen = np.isfinite(points).all(axis=1)
    if color is None:
        return points[seen], None
    packed = table["rgb"][seen].astype(np.uint32)
    shifts = np.array([16, 8, 0], dtype=np.uint32)
    return points[seen], ((packed[:, None] >> shifts) & 255).astype(np.uint8)


def stamp_of(header: Any) -> float:
    """Seconds since 1970 of a std_msgs/Header."""
    return float(header.stamp.sec) + 1e-9 * float(header.stamp.nanosec)


def pose_message(types: Types, matrix: np.ndarray) -> Any:
    """A geometry_msgs/Pose of a 4 x 4 matrix."""
    x, y, z = (float(value) for value in matrix[:3, 3])
    position = types("geometry_msgs/msg/Point")(x=x, y=y, z=z)
    qx, qy, qz, qw = quat_xyzw(matrix[:3, :3])
    orientation = types("geometry_msgs/msg/Quaternion")(x=qx, y=qy, z=qz, w=qw)
    return types("geometry_msgs/msg/Pose")(position=position, orientation=orientation)


def pose_array_message(types: Types, header: Any, answer: PoseAnswer) -> Any:
    """A geometry_msgs/PoseArray of the feasible poses, the best first."""
    poses = [pose_message(types, one.T_scene_gripper) for one in answer.poses if one.feasible]
    return types("geometry_msgs/msg/PoseArray")(header=header, poses=poses)


def motion_messages(types: Types, header: Any, pose: AnsweredPose) -> list[Any]:
    """Three geometry_msgs/PoseStamped: the pre-grasp, the pose and the retreat."""
    return [
        types("geometry_msgs/msg/PoseStamped")(header=header, pose=pose_message(types, matrix))
        for matrix in (pose.T_scene_pre, pose.T_scene_gripper, pose.T_scene_retreat)
    ]


def grasp_message(types: Types, header: Any, pose: AnsweredPose, joints: list[str]) -> Any:
    """A moveit_msgs/Grasp: pose, approach and retreat as translations, and finger postures.

    Args:
        types: Message classes.
        header: Of the observation; its frame is that of the poses.
        pose: Of an answer.
        joints: Names of the finger joints; each moves by half of the distance between the fingers.
    """
    return types("moveit_msgs/msg/Grasp")(
        id="handful",
        pre_grasp_posture=_posture(types, header, joints, pose.width_before),
        grasp_posture=_posture(types, header, joints, pose.width_after),
        grasp_pose=types("geometry_msgs/msg/PoseStamped")(
            header=header, pose=pose_message(types, pose.T_scene_gripper)
        ),
        grasp_quality=float(pose.confidence),
        pre_grasp_approach=_translation(types, header, pose.T_scene_pre, pose.T_scene_gripper),
        post_grasp_retreat=_translation(types, header, pose.T_scene_gripper, pose.T_scene_retreat),
        post_place_retreat=_translation(types, header, pose.T_scene_gripper, pose.T_scene_retreat),
        max_contact_force=0.0,
        allowed_touch_objects=[],
    )


def _translation(types: Types, header: Any, start: np.ndarray, end: np.ndarray) -> Any:
    """A moveit_msgs/GripperTranslation from one pose to another."""
    moved = end[:3, 3] - start[:3, 3]
    distance = float(np.linalg.norm(moved))
    x, y, z = (float(value) for value in moved / max(distance, 1e-9))
    vector = types("geometry_msgs/msg/Vector3")(x=x, y=y, z=z)
    return types("moveit_msgs/msg/GripperTranslation")(
        direction=types("geometry_msgs/msg/Vector3Stamped")(header=header, vector=vector),
        desired_distance=distance,
        min_distance=0.5 * distance,
    )


def _posture(types: Types, header: Any, joints: list[str], width: float | None) -> Any:
    """A trajectory_msgs/JointTrajectory of one point; empty if the width is not known."""
    points = []
    if width is not None:
        at_once = types("builtin_interfaces/msg/Duration")(sec=0, nanosec=0)
        points.append(
            types("trajectory_msgs/msg/JointTrajectoryPoint")(
                positions=np.full(len(joints), width / 2.0),
                velocities=np.zeros(0),
                accelerations=np.zeros(0),
                effort=np.zeros(0),
                time_from_start=at_once,
            )
        )
    return types("trajectory_msgs/msg/JointTrajectory")(
        header=header, joint_names=list(joints) if points else [], points=points
    )


def quat_xyzw(rotation: np.ndarray) -> tuple[float, float, float, float]:
    """The unit quaternion of a rotation matrix, w last and not negative."""
    m = rotation
    # The largest eigenvector of this symmetric matrix is the quaternion, near any rotation.
    k = np.array(
        [
            [m[0, 0] - m[1, 1] - m[2, 2], m[1, 0] + m[0, 1], m[2, 0] + m[0, 2], m[2, 1] - m[1, 2]],
            [m[1, 0] + m[0, 1], m[1, 1] - m[0, 0] - m[2, 2], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
            [m[2, 0] + m[0, 2], m[2, 1] + m[1, 2], m[2, 2] - m[0, 0] - m[1, 1], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], m[0, 0] + m[1, 1] + m[2, 2]],
        ]
    )
    q = np.linalg.eigh(k)[1][:, -1]
    q = q if q[3] >= 0 else -q
    return float(q[0]), float(q[1]), float(q[2]), float(q[3])
