"""A ROS 2 node between cameras and MoveIt: clouds in, poses out, by `handful serve`.

    handful serve runs/mug
    ros2 run your_package handful_node.py --ros-args -p step:=pick -p url:=http://127.0.0.1:8720

Subscribes to `scene` (sensor_msgs/PointCloud2, robot left out, z up) and, for steps with something
in the gripper, to `grasp` (the same, gripper frame). The newest scene is asked about whenever the
last answer has come. Publishes `poses` (PoseArray, feasible ones, the best first), and for the pose
to execute `pre_grasp`, `grasp_pose` and `retreat` (PoseStamped) and, if MoveIt is installed,
`grasp_plan` (moveit_msgs/Grasp). Where there is no pose to execute, only `poses` is published, and
the reason is logged.

This node was checked by a linter and not run with ROS 2: nobody had one here. The conversions that
it makes are in `handful_messages.py`, and are tested with the message types of `rosbags`.
"""

from __future__ import annotations

import threading

import rclpy
from geometry_msgs.msg import PoseArray, PoseStamped
from handful_messages import (
    cloud_from_message,
    grasp_message,
    motion_messages,
    pose_array_message,
    ros_types,
    stamp_of,
)
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import PointCloud2

from handful.client import Client, ClientError


class HandfulNode(Node):
    """Asks the service about the newest cloud, one question at a time."""

    def __init__(self) -> None:
        super().__init__("handful")
        for name, default in (("url", "http://127.0.0.1:8720"), ("token", ""), ("step", "pick")):
            self.declare_parameter(name, default)
        self.declare_parameter("finger_joints", ["panda_finger_joint1", "panda_finger_joint2"])
        self._client = Client(self._text("url"), self._text("token"), timeout=10.0)
        self._scene: PointCloud2 | None = None
        self._grasp: PointCloud2 | None = None
        self._news = threading.Condition()
        self.create_subscription(PointCloud2, "scene", self._on_scene, qos_profile_sensor_data)
        self.create_subscription(PointCloud2, "grasp", self._on_grasp, qos_profile_sensor_data)
        self._poses = self.create_publisher(PoseArray, "poses", 1)
        names = ("pre_grasp", "grasp_pose", "retreat")
        self._motion = [self.create_publisher(PoseStamped, name, 1) for name in names]
        self._plan = None
        try:
            self._plan = self.create_publisher(ros_types("moveit_msgs/msg/Grasp"), "grasp_plan", 1)
        except ModuleNotFoundError:
            self.get_logger().info("moveit_msgs is not installed: no grasp_plan is published.")
        threading.Thread(target=self._work, daemon=True).start()

    def _text(self, name: str) -> str:
        return self.get_parameter(name).get_parameter_value().string_value

    def _on_scene(self, message: PointCloud2) -> None:
        with self._news:
            self._scene = message
            self._news.notify()

    def _on_grasp(self, message: PointCloud2) -> None:
        self._grasp = message

    def _work(self) -> None:
        """Take the newest scene, ask, publish, again."""
        while rclpy.ok():
            with self._news:
                if not self._news.wait_for(lambda: self._scene is not None, timeout=1.0):
                    continue
                scene, self._scene = self._scene, None
            try:
                self._ask(scene)
            except (ClientError, ValueError) as error:
                self.get_logger().warning(str(error))

    def _ask(self, scene: PointCloud2) -> None:
        grasp = None if self._grasp is None else cloud_from_message(self._grasp)
        answer = self._client.poses(
            self._text("step"),
            cloud_from_message(scene),
            grasp,
            frame=scene.header.frame_id,
            stamp=stamp_of(scene.header),
        )
        self._poses.publish(pose_array_message(ros_types, scene.header, answer))
        if answer.best is None:
            self.get_logger().info(f"no pose to execute: {answer.reason}")
            return
        for publisher, message in zip(
            self._motion, motion_messages(ros_types, scene.header, answer.best), strict=True
        ):
            publisher.publish(message)
        if self._plan is not None:
            joints = self.get_parameter("finger_joints").get_parameter_value().string_array_value
            self._plan.publish(grasp_message(ros_types, scene.header, answer.best, list(joints)))


def main() -> None:
    rclpy.init()
    node = HandfulNode()
    try:
        rclpy.spin(node)
    finally:
        node.destroy_node()
        rclpy.shutdown()


if __name__ == "__main__":
    main()
