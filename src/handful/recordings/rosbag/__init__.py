"""Bags of ROS 1 and ROS 2 to demonstrations."""

from ._import import RosCamera as RosCamera
from ._import import RosTopics as RosTopics
from ._import import import_rosbag as import_rosbag
from ._import import rosbag_events as rosbag_events
