"""Conversions of the ROS 2 example, with the message types of `rosbags`."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from handful.answers import AnsweredPose, PoseAnswer

rosbags = pytest.importorskip("rosbags.typesys")

FOLDER = Path(__file__).parents[2] / "examples" / "ros2"

TRANSLATION = """
geometry_msgs/Vector3Stamped direction
float32 desired_distance
float32 min_distance
"""
GRASP = """
string id
trajectory_msgs/JointTrajectory pre_grasp_posture
trajectory_msgs/JointTrajectory grasp_posture
geometry_msgs/PoseStamped grasp_pose
float64 grasp_quality
moveit_msgs/GripperTranslation pre_grasp_approach
moveit_msgs/GripperTranslation post_grasp_retreat
moveit_msgs/GripperTranslation post_place_retreat
float32 max_contact_force
string[] allowed_touch_objects
"""


@pytest.fixture(scope="module")
def messages():
    sys.path.insert(0, str(FOLDER))
    try:
        import handful_messages
    finally:
        sys.path.remove(str(FOLDER))
    return handful_messages


@pytest.fixture(scope="module")
def store():
    found = rosbags.get_typestore(rosbags.Stores.ROS2_HUMBLE)
    for name, text in (("GripperTranslation", TRANSLATION), ("Grasp", GRASP)):
        found.register(rosbags.get_types_from_msg(text, f"moveit_msgs/msg/{name}"))
    return found


@pytest.fixture(scope="module")
def types(store):
    return lambda name: store.types[name]


def header(types, seconds: int = 7, nanoseconds: int = 250_000_000):
    stamp = types("builtin_interfaces/msg/Time")(sec=seconds, nanosec=nanoseconds)
    return types("std_msgs/msg/Header")(stamp=stamp, frame_id="base_link")


def through_the_wire(store, message, name: str):
    """The message, serialised and read again, as a subscriber gets it."""
    return store.deserialize_cdr(store.serialize_cdr(message, name), name)


def cloud_message(types, points, colors=None, *, big=False, packing="f4", padding=4, rows=1):
    """A PointCloud2 as cameras write them: packed colours, padding after points and rows."""
    order = ">" if big else "<"
    names = ["x", "y", "z"] + ([] if colors is None else ["rgb"])
    kinds = [order + "f4"] * 3 + ([] if colors is None else [order + "u4"])
    row = np.dtype({"names": names, "formats": kinds, "offsets": [0, 4, 8, 16][: len(names)],
                    "itemsize": 20 + padding})  # fmt: skip
    table = np.zeros(len(points), dtype=row)
    for index, name in enumerate("xyz"):
        table[name] = points[:, index]
    if colors is not None:
        r, g, b = colors.astype(np.uint32).T
        table["rgb"] = (r << 16) | (g << 8) | b
    field = types("sensor_msgs/msg/PointField")
    datatype = {"f4": 7, "u4": 6}[packing]
    fields = [
        field(name=name, offset=row.fields[name][1], datatype=7 if name != "rgb" else datatype,
              count=1)
        for name in names
    ]  # fmt: skip
    lines = table.reshape(rows, -1)
    data = b"".join(line.tobytes() + b"\xff" * 8 for line in lines)
    return types("sensor_msgs/msg/PointCloud2")(
        header=header(types), height=rows, width=lines.shape[1], fields=fields, is_bigendian=big,
        point_step=row.itemsize, row_step=row.itemsize * lines.shape[1] + 8,
        data=np.frombuffer(data, dtype=np.uint8), is_dense=False,
    )  # fmt: skip


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("packing", ["f4", "u4"])
@pytest.mark.parametrize("rows", [1, 4])
def test_a_cloud_survives_its_message(messages, store, types, big, packing, rows):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20, 3)).astype(np.float32)
    colors = rng.integers(0, 256, (20, 3), dtype=np.uint8)
    message = cloud_message(types, points, colors, big=big, packing=packing, rows=rows)
    message = through_the_wire(store, message, "sensor_msgs/msg/PointCloud2")
    got, rgb = messages.cloud_from_message(message)
    np.testing.assert_array_equal(got, points)
    np.testing.assert_array_equal(rgb, colors)
    assert messages.stamp_of(message.header) == 7.25


def test_points_that_were_not_seen_are_left_out(messages, types):
    points = np.zeros((5, 3), dtype=np.float32)
    points[2, 1] = np.nan
    got, rgb = messages.cloud_from_message(cloud_message(types, points))
    assert len(got) == 4
    assert rgb is None


def test_a_cloud_without_heights_is_told(messages, types):
    message = cloud_message(types, np.zeros((3, 3), dtype=np.float32))
    message.fields.pop()
    with pytest.raises(ValueError, match="no field 'z'"):
        messages.cloud_from_message(message)


def answered_pose(seed: int, feasible: bool = True, width: float | None = 0.08) -> AnsweredPose:
    pose = np.eye(4)
    pose[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    pose[:3, 3] = np.random.default_rng(seed).uniform(-1, 1, 3)
    back = pose.copy()
    back[:3, 3] -= 0.08 * pose[:3, 2]
    return AnsweredPose(back, pose, back, width, 0.02, 1.0, 0.9, feasible, "" if feasible else "no")


def matrix_of(pose) -> np.ndarray:
    matrix = np.eye(4)
    q = pose.orientation
    matrix[:3, :3] = Rotation.from_quat([q.x, q.y, q.z, q.w]).as_matrix()
    matrix[:3, 3] = pose.position.x, pose.position.y, pose.position.z
    return matrix


@pytest.mark.parametrize("seed", range(8))
def test_poses_survive_their_messages(messages, store, types, seed):
    poses = tuple(answered_pose(seed + 10 * number, number < 2) for number in range(3))
    answer = PoseAnswer("pick", "pick", "", 0.08, True, 0, "", 0.5, poses, 0.1)
    name = "geometry_msgs/msg/PoseArray"
    message = messages.pose_array_message(types, header(types), answer)
    message = through_the_wire(store, message, name)
    assert message.header.frame_id == "base_link"
    assert len(message.poses) == 2  # the third is not feasible
    for one, pose in zip(message.poses, poses, strict=False):
        np.testing.assert_allclose(matrix_of(one), pose.T_scene_gripper, atol=1e-12)


@pytest.mark.parametrize("turn", [np.eye(3), np.diag([1.0, -1, -1]), np.diag([-1.0, -1, 1]),
                                  np.diag([-1.0, 1, -1])])  # fmt: skip
def test_quaternions_of_half_turns_are_right(messages, turn):
    np.testing.assert_allclose(Rotation.from_quat(messages.quat_xyzw(turn)).as_matrix(), turn)


def test_a_grasp_for_moveit_comes_along_its_approach(messages, store, types):
    pose = answered_pose(3)
    name = "moveit_msgs/msg/Grasp"
    message = messages.grasp_message(types, header(types), pose, ["left", "right"])
    message = through_the_wire(store, message, name)
    approach, retreat = message.pre_grasp_approach, message.post_grasp_retreat
    forward = np.array([approach.direction.vector.x, approach.direction.vector.y,
                        approach.direction.vector.z])  # fmt: skip
    np.testing.assert_allclose(forward, pose.T_scene_gripper[:3, 2], atol=1e-6)
    back = retreat.direction.vector
    np.testing.assert_allclose([back.x, back.y, back.z], -forward, atol=1e-6)
    assert approach.desired_distance == pytest.approx(0.08)
    assert message.pre_grasp_posture.joint_names == ["left", "right"]
    np.testing.assert_allclose(message.pre_grasp_posture.points[0].positions, 0.04)
    np.testing.assert_allclose(message.grasp_posture.points[0].positions, 0.01)
    np.testing.assert_allclose(matrix_of(message.grasp_pose.pose), pose.T_scene_gripper, atol=1e-9)
    full = messages.grasp_message(types, header(types), answered_pose(3, width=None), ["left"])
    assert full.pre_grasp_posture.points == []


def test_a_motion_is_three_poses_in_order(messages, types):
    pose = answered_pose(5)
    got = [matrix_of(one.pose) for one in messages.motion_messages(types, header(types), pose)]
    want = [pose.T_scene_pre, pose.T_scene_gripper, pose.T_scene_retreat]
    np.testing.assert_allclose(got, want, atol=1e-9)
