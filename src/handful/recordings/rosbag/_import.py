"""Bags of ROS to demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from handful.clouds import Intrinsics, RgbdView, cloud_from_rgbd, registered_view
from handful.clouds import without_flying_pixels as without_flying
from handful.demos import DemoSet, Gripper
from handful.errors import DemoError, OptionError, errors_at
from handful.recordings._sights import CloudOptions, Sight
from handful.recordings._timeline import StepPlan, Timeline, demonstration_from_timeline
from handful.recordings._tracks import GripperEvent, Pose, gripper_events
from handful.recordings.rosbag._bag import NANO, Bag, open_bag
from handful.recordings.rosbag._messages import (
    cloud_of,
    color_of,
    depth_of,
    intrinsics_of,
    pose_of,
    seconds,
    signal_of,
)
from handful.recordings.rosbag._transforms import TransformTree, plain

TF_TOPICS = ("/tf", "/tf_static")
MOST_APART = 0.1
"""Seconds between a depth image and its colour image."""
_IMAGES = ("/Image", "/CompressedImage")


@dataclass(frozen=True)
class RosCamera:
    """Topics of one camera: a cloud, or depth and colour.

    Attributes:
        cloud: Of a PointCloud2; empty for images.
        depth: Of a depth image, raw or compressed.
        color: Of a colour image; empty if there is none.
    """

    cloud: str = ""
    depth: str = ""
    color: str = ""

    def __post_init__(self) -> None:
        if bool(self.cloud) == bool(self.depth) or (self.color and not self.depth):
            raise OptionError(
                f"{self}: a camera has a topic of clouds, or one of depth images and, with it, one "
                "of colour images."
            )

    @property
    def leading(self) -> str:
        """The topic whose messages are the camera's views."""
        return self.cloud or self.depth


@dataclass(frozen=True)
class RosTopics:
    """What the topics and frames of a bag mean.

    Attributes:
        cameras: One or more; none are needed to find events.
        base: Frame of the robot's base: the scene frame, z up.
        gripper: Frame of the gripper, as its description means it.
        signal: Topic of the gripper: JointState, or one number or flag.
        joint: Name of its joint in a JointState.
        high_is_closed: The signal grows as the fingers close.
    """

    cameras: tuple[RosCamera, ...]
    base: str
    gripper: str
    signal: str
    joint: str = ""
    high_is_closed: bool = False


def import_rosbag(
    paths: Sequence[str | Path],
    topics: RosTopics,
    gripper: Gripper,
    plan: StepPlan | None = None,
    options: CloudOptions | None = None,
    report: Callable[[str], None] | None = None,
) -> DemoSet:
    """Demonstrations from bags, one from each.

    Args:
        paths: `.bag`, `.mcap` or `.db3` files, or folders of ROS 2 bags.
        topics: What is what.
        gripper: What was used, in metres.
        plan: Which steps, and what they are called.
        options: How clouds are made.
        report: Told the name of each bag before it is read.
    """
    if not topics.cameras:
        raise OptionError("no camera is given: name a topic of clouds or of depth images.")
    plan, options = plan or StepPlan(), options or CloudOptions()
    demonstrations = []
    for path in map(Path, paths):
        if report is not None:
            report(path.name)
        with open_bag(path) as bag, errors_at(path):
            timeline = _timeline(bag, topics)
            made = demonstration_from_timeline(timeline, plan, gripper, options)
        demonstrations.append(made)
    return DemoSet(tuple(demonstrations), gripper)


def rosbag_events(path: str | Path, topics: RosTopics) -> list[tuple[GripperEvent, Pose]]:
    """Where a gripper closed and opened in a bag, with T_base_gripper; times from its beginning."""
    with open_bag(Path(path)) as bag, errors_at(path):
        timeline = _timeline(bag, topics)
        return [(event, timeline.gripper_at(event.time)) for event in timeline.events]


def _timeline(bag: Bag, topics: RosTopics) -> Timeline:
    tree = _transforms(bag)
    zero = _first_time(bag, topics)
    views = [_Views(bag, camera, topics, tree, zero) for camera in topics.cameras]
    by_name = {view.camera.leading: view for view in views}
    return Timeline(
        name=_name_of(bag.path),
        events=tuple(_events(bag, topics, zero)),
        frames={name: view.times for name, view in by_name.items()},
        look=lambda name, index: by_name[name].sight(index),
        gripper_at=lambda time: tree.pose(topics.base, topics.gripper, time + zero),
    )


def _name_of(path: Path) -> str:
    """A demonstration's name from that of its bag."""
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in path.stem)
    return safe.lstrip("_.-") or "bag"


def _transforms(bag: Bag) -> TransformTree:
    records = []
    for topic in TF_TOPICS:
        static = topic == TF_TOPICS[1]
        for _, message in bag.messages(topic):
            for one in message.transforms:
                where = f"{topic}: {one.child_frame_id}"
                time = None if static else seconds(one.header.stamp)
                records.append(
                    (one.header.frame_id, one.child_frame_id, time, pose_of(one.transform, where))
                )
    if not records:
        raise DemoError(
            "the bag has no transforms: record /tf and /tf_static, which say where the gripper and "
            "the cameras are."
        )
    return TransformTree(records)


def _first_time(bag: Bag, topics: RosTopics) -> float:
    """When the gripper's signal begins, seconds; times of events count from there."""
    bag.check_topic(topics.signal, ("/JointState", "/Float32", "/Float64", "/Bool"), "signal")
    for time, message in bag.messages(topics.signal):
        return _time_of(message, time)
    raise DemoError(f"topic {topics.signal!r} has no messages.")


def _time_of(message: Any, recorded: int) -> float:
    """The time stamp of a message; when it was recorded, if it has none."""
    header = getattr(message, "header", None)
    stamp = 0.0 if header is None else seconds(header.stamp)
    return stamp if stamp > 0.0 else recorded * NANO


def _events(bag: Bag, topics: RosTopics, zero: float) -> list[GripperEvent]:
    values: dict[float, float] = {}
    joints: set[str] = set()
    for time, message in bag.messages(topics.signal):
        joints.update(getattr(message, "name", ()))
        value = signal_of(message, topics.joint, f"topic {topics.signal!r}")
        if value is not None:
            values[_time_of(message, time) - zero] = -value if topics.high_is_closed else value
    if not values:
        raise DemoError(
            f"topic {topics.signal!r} has no joint {topics.joint!r}: name one of "
            f"{', '.join(sorted(joints)) or 'its joints'}."
        )
    times = np.array(sorted(values))
    opening = np.array([values[time] for time in times.tolist()])
    return gripper_events(times, opening, f"topic {topics.signal!r}")


class _Views:
    """What one camera saw, read when it is asked for."""

    def __init__(
        self, bag: Bag, camera: RosCamera, topics: RosTopics, tree: TransformTree, zero: float
    ) -> None:
        self.camera = camera
        self._bag, self._topics, self._tree, self._zero = bag, topics, tree, zero
        if camera.cloud:
            bag.check_topic(camera.cloud, ("/PointCloud2",), "cloud")
        else:
            bag.check_topic(camera.depth, _IMAGES, "depth")
            self._depth_info = _camera_info(bag, camera.depth)
            if camera.color:
                bag.check_topic(camera.color, _IMAGES, "color")
                self._color_info = _camera_info(bag, camera.color)
        self._stamps, self.times = self._clock(camera.leading)
        if camera.color:
            self._color_stamps, self._color_times = self._clock(camera.color)

    def _clock(self, topic: str) -> tuple[list[int], Float[np.ndarray, "messages"]]:
        """When each message was recorded, nanoseconds, and its time, seconds from the beginning."""
        both = [
            (stamp, _time_of(message, stamp) - self._zero)
            for stamp, message in self._bag.messages(topic)
        ]
        times = np.array([time for _, time in both])
        if not both or (np.diff(times) <= 0).any():
            raise DemoError(f"topic {topic!r}: has no messages, or their times do not increase.")
        return [stamp for stamp, _ in both], times

    def sight(self, index: int) -> Sight:
        """What the camera saw in its `index`-th message."""
        message = self._message(self.camera.leading, self._stamps[index])
        time = float(self.times[index])
        where = f"{self.camera.leading} at {time:.2f} s"
        with errors_at(where):
            if self.camera.cloud:
                T_base_cloud = self._pose(message.header.frame_id, time)
                cloud = cloud_of(message, "cloud").transformed(T_base_cloud)
            else:
                cloud = cloud_from_rgbd(without_flying(self._view(message, time)))
        hand = self._pose(self._topics.gripper, time)
        return Sight(cloud, hand, where)

    def _view(self, message: Any, time: float) -> RgbdView:
        """A depth image with the colour image that is nearest in time."""
        own, depth_frame = self._depth_info
        depth = depth_of(message, (own.width, own.height), "depth")
        pose = self._pose(depth_frame, time)
        if not self.camera.color:
            return RgbdView(depth, None, own, pose)
        lens, color_frame = self._color_info
        nearest = int(np.abs(self._color_times - time).argmin())
        apart = abs(float(self._color_times[nearest]) - time)
        if apart > MOST_APART:
            raise DemoError(
                f"the nearest colour image is {apart:.3f} s away: need {MOST_APART:g} s or less."
            )
        image = self._message(self.camera.color, self._color_stamps[nearest])
        color = color_of(image, (lens.width, lens.height), "color")
        if color_frame == depth_frame and own == lens:
            return RgbdView(depth, color, own, pose)
        T_base_color = self._pose(color_frame, time)
        T_color_depth = np.linalg.inv(T_base_color) @ pose
        return registered_view(depth, own, color, lens, T_color_depth, T_base_color)

    def _pose(self, frame: str, time: float) -> Pose:
        return self._tree.pose(self._topics.base, frame, time + self._zero)

    def _message(self, topic: str, stamp: int) -> Any:
        return self._bag.message_at(topic, stamp)


def _camera_info(bag: Bag, images: str) -> tuple[Intrinsics, str]:
    """Intrinsics and frame of an image topic, from the `camera_info` beside it."""
    parts = images.strip("/").split("/")
    beside = [
        "/" + "/".join([*parts[:end], "camera_info"]) for end in range(len(parts) - 1, -1, -1)
    ]
    topic = next((name for name in beside if name in bag.types), None)
    if topic is None:
        raise DemoError(
            f"topic {images!r} has no camera info: record {beside[0]!r}, which holds the camera's "
            "intrinsics."
        )
    for _, info in bag.messages(topic):
        return intrinsics_of(info, topic), plain(info.header.frame_id)
    raise DemoError(f"topic {topic!r} has no messages.")
