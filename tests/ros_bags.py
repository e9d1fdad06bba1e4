"""Bags of the moving recording, written by the writers of `rosbags` itself."""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from scipy.spatial.transform import Rotation

from handful.clouds import cloud_from_rgbd
from moving_recording import CAMERA, VIEW, moments

NANO = 10**9
START = 1_700_000_000
"""Seconds of the bag's clock at which the recording begins."""


class BagText:
    """The messages of the recording, for one version of ROS."""

    def __init__(self, first: bool) -> None:
        self.first = first
        self.store = get_typestore(Stores.ROS1_NOETIC if first else Stores.ROS2_HUMBLE)
        if first:
            text = "geometry_msgs/TransformStamped[] transforms"
            self.store.register(get_types_from_msg(text, "tf2_msgs/msg/TFMessage"))

    def make(self, kind: str, **fields):
        return self.store.types[kind](**fields)

    def header(self, time: float, frame: str):
        whole = round((START + time) * NANO)
        stamp = self.make("builtin_interfaces/msg/Time", sec=whole // NANO, nanosec=whole % NANO)
        more = {"seq": 0} if self.first else {}
        return self.make("std_msgs/msg/Header", stamp=stamp, frame_id=frame, **more)

    def transform(self, time: float, parent: str, child: str, pose: np.ndarray):
        x, y, z, w = Rotation.from_matrix(pose[:3, :3]).as_quat().tolist()
        vx, vy, vz = pose[:3, 3].tolist()
        return self.make(
            "geometry_msgs/msg/TransformStamped",
            header=self.header(time, parent),
            child_frame_id=child,
            transform=self.make(
                "geometry_msgs/msg/Transform",
                translation=self.make("geometry_msgs/msg/Vector3", x=vx, y=vy, z=vz),
                rotation=self.make("geometry_msgs/msg/Quaternion", x=x, y=y, z=z, w=w),
            ),
        )

    def tf(self, *transforms):
        return self.make("tf2_msgs/msg/TFMessage", transforms=list(transforms))

    def image(self, time: float, pixels: np.ndarray, encoding: str):
        return self.make(
            "sensor_msgs/msg/Image",
            header=self.header(time, "camera_optical"),
            height=pixels.shape[0],
            width=pixels.shape[1],
            encoding=encoding,
            is_bigendian=0,
            step=pixels[0].nbytes,
            data=np.frombuffer(pixels.tobytes(), np.uint8),
        )

    def compressed(self, time: float, pixels: np.ndarray, form: str, start: bytes = b""):
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, format="PNG")
        return self.make(
            "sensor_msgs/msg/CompressedImage",
            header=self.header(time, "camera_optical"),
            format=form,
            data=np.frombuffer(start + out.getvalue(), np.uint8),
        )

    def info(self, time: float):
        matrix = np.array([VIEW.fx, 0, VIEW.cx, 0, VIEW.fy, VIEW.cy, 0, 0, 1], dtype=np.float64)
        names = "DKRP" if self.first else "dkrp"
        roi = self.make(
            "sensor_msgs/msg/RegionOfInterest",
            x_offset=0, y_offset=0, height=0, width=0, do_rectify=False,
        )  # fmt: skip
        values = (np.zeros(5), matrix, np.eye(3).ravel(), np.zeros(12))
        return self.make(
            "sensor_msgs/msg/CameraInfo",
            header=self.header(time, "camera_optical"),
            height=VIEW.height, width=VIEW.width, distortion_model="plumb_bob",
            binning_x=0, binning_y=0, roi=roi, **dict(zip(names, values, strict=True)),
        )  # fmt: skip

    def cloud(self, time: float, view):
        seen = cloud_from_rgbd(view).transformed(np.linalg.inv(CAMERA.T_scene_camera))
        rgb = np.rint(seen.require_colors() * 255).astype(np.uint32)
        table = np.zeros(
            len(seen), dtype=[("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("rgb", "<u4")]
        )
        for axis, name in enumerate("xyz"):
            table[name] = seen.points[:, axis]
        table["rgb"] = (rgb[:, 0] << 16) | (rgb[:, 1] << 8) | rgb[:, 2]
        fields = [
            self.make("sensor_msgs/msg/PointField", name=n, offset=4 * i, datatype=7, count=1)
            for i, n in enumerate(("x", "y", "z", "rgb"))
        ]
        return self.make(
            "sensor_msgs/msg/PointCloud2",
            header=self.header(time, "camera_optical"),
            height=1, width=len(table), fields=fields, is_bigendian=False, point_step=16,
            row_step=16 * len(table), data=np.frombuffer(table.tobytes(), np.uint8), is_dense=True,
        )  # fmt: skip

    def joints(self, time: float, width: float):
        return self.make(
            "sensor_msgs/msg/JointState",
            header=self.header(time, ""),
            name=["shoulder", "finger"],
            position=np.array([0.3, width]),
            velocity=np.zeros(0),
            effort=np.zeros(0),
        )

    def messages(self):
        """(topic, time, message) of the whole recording."""
        yield (
            "/tf_static",
            0.0,
            self.tf(
                self.transform(0.0, "world", "base", np.eye(4)),
                self.transform(0.0, "base", "camera_optical", CAMERA.T_scene_camera),
            ),
        )
        for moment in moments():
            time = moment.time
            yield (
                "/tf",
                time,
                self.tf(self.transform(time, "base", "flange", moment.T_robot_gripper)),
            )
            yield "/joint_states", time, self.joints(time, moment.width)
            flag = self.make("std_msgs/msg/Float64", data=1.0 - moment.width)
            yield "/gripper/closing", time, flag
            if moment.view is None:
                continue
            depth, color = moment.view.metres, moment.view.color
            millimetres = np.rint(depth * 1000.0).astype(np.uint16)
            yield "/camera/depth/camera_info", time, self.info(time)
            yield "/camera/color/camera_info", time, self.info(time)
            yield "/camera/depth/image", time, self.image(time, depth.astype(np.float32), "32FC1")
            yield "/camera/color/image", time, self.image(time, color[:, :, ::-1].copy(), "bgr8")
            yield "/camera/depth/millimetres", time, self.image(time, millimetres, "16UC1")
            yield (
                "/camera/depth/image/compressedDepth",
                time,
                self.compressed(time, millimetres, "16UC1; compressedDepth png", bytes(12)),
            )
            yield (
                "/camera/color/image/compressed",
                time,
                self.compressed(time, color, "rgb8; png compressed bgr8"),
            )
            yield "/camera/points", time, self.cloud(time, moment.view)


def write_bag(folder: Path, kind: str, leave_out: tuple[str, ...] = ()) -> Path:
    """A bag of the moving recording: `mcap`, `db3` or `bag` (ROS 1)."""
    text = BagText(kind == "bag")
    path = folder / (f"peg.{kind}" if kind == "bag" else f"peg_{kind}")
    if kind == "bag":
        writer, encode = Writer1(path), text.store.serialize_ros1
    else:
        plugin = StoragePlugin.MCAP if kind == "mcap" else StoragePlugin.SQLITE3
        writer = Writer2(path, version=9, storage_plugin=plugin)
        encode = text.store.serialize_cdr
    with writer:
        known = {}
        for topic, time, message in text.messages():
            if topic in leave_out:
                continue
            if topic not in known:
                known[topic] = writer.add_connection(
                    topic, message.__msgtype__, typestore=text.store
                )
            data = encode(message, message.__msgtype__)
            writer.write(known[topic], round((START + time) * NANO), data)
    return path
