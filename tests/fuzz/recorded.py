"""Recordings that are fuzzed: RGB-D folders, bags of ROS and LeRobot data sets."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from fuzz.subject import Subject, raise_worst
from handful.recordings import (
    RosCamera,
    RosTopics,
    StepPlan,
    import_lerobot,
    import_rgbd,
    import_rosbag,
    lerobot_events,
    rosbag_events,
)
from handful.recordings.example import GRIPPER
from lerobot_data import write_dataset, write_setup
from rgbd_example import copied
from ros_bags import write_bag

STEPS = StepPlan(("take peg", "insert peg"))
LEFT_OUT = (
    "/camera/depth/millimetres",
    "/camera/depth/image/compressedDepth",
    "/camera/color/image/compressed",
    "/gripper/closing",
)
TOPICS = {"base": "base", "gripper": "flange", "signal": "/joint_states", "joint": "finger"}
CAMERAS = (
    RosCamera(depth="/camera/depth/image", color="/camera/color/image"),
    RosCamera(cloud="/camera/points"),
)


def _make_rgbd(folder: Path) -> None:
    """One recording with one view of each kind, so that a case takes moments."""
    copied(folder / "images")
    path = folder / "images/peg_00/recording.json"
    content = json.loads(path.read_text())
    for step in content["steps"]:
        for views in ("scene", "held"):
            if views in step:
                step[views] = step[views][:1]
    path.write_text(json.dumps(content))
    text = path.read_text()
    for image in path.parent.glob("*.png"):
        if image.name not in text:
            image.unlink()


def _make_bags(folder: Path) -> None:
    for kind in ("mcap", "db3", "bag"):
        (folder / kind).mkdir()
        write_bag(folder / kind, kind, LEFT_OUT)


def _keep_one_bag(folder: Path, rng: random.Random) -> None:
    """A case spoils one of the three."""
    kept = rng.choice(["mcap", "db3", "bag"])
    for bag in folder.iterdir():
        if bag.name != kept:
            shutil.rmtree(bag)


def _read_bags(folder: Path) -> None:
    errors: list[Exception] = []
    for bag in sorted(folder.glob("*/peg*")):
        for camera in CAMERAS:
            topics = RosTopics((camera,), **TOPICS)
            try:
                rosbag_events(bag, topics)
                import_rosbag([bag], topics, GRIPPER, STEPS)
            except Exception as error:
                errors.append(error)
    raise_worst(errors)


def _make_lerobot(folder: Path) -> None:
    for depth in ("image", "video"):
        write_dataset(folder / depth, depth)
    write_setup(folder)


def _read_lerobot(folder: Path) -> None:
    errors: list[Exception] = []
    for depth in ("image", "video"):
        try:
            lerobot_events(folder / depth, folder / "lerobot.json", [1])
            import_lerobot(folder / depth, folder / "lerobot.json", STEPS, [1])
        except Exception as error:
            errors.append(error)
    raise_worst(errors)


RECORDED = {
    "rgbd": Subject(_make_rgbd, lambda folder: import_rgbd(folder / "images"), 1.5, 20.0),
    "bags": Subject(_make_bags, _read_bags, 1.5, 30.0, _keep_one_bag),
    "lerobot": Subject(_make_lerobot, _read_lerobot, 1.5, 30.0),
}
