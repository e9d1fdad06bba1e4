"""LeRobot data sets to demonstrations.

The format knows neither intrinsics nor camera poses, and features have names of their own: a
setup file says what is what (docs/recordings.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from handful._strict_json import Fields, read_json
from handful.clouds import cloud_from_rgbd, without_flying_pixels
from handful.demos import ROTATIONS, Demonstration, DemoSet, pose_from_json
from handful.errors import DemoError, FileFormatError, errors_at
from handful.recordings._agreement import PosedView
from handful.recordings._images import decode_color, decode_depth, depth_in_metres
from handful.recordings._pose_mistakes import check_poses
from handful.recordings._setup import RecordingSetup, check_version, read_setup
from handful.recordings._sights import VOXEL, Sight, demonstration_from_sights
from handful.recordings._timeline import StepPlan, Timeline, steps_of_timeline
from handful.recordings._tracks import GripperEvent, Pose, PoseTrack, gripper_events
from handful.recordings._units import LENGTHS
from handful.recordings.lerobot._dataset import LerobotDataset, array_column, video_frame

FORMAT, VERSION = "handful-lerobot", 1
ARM = "`end_effector`"
NOT_IN_THE_FORMAT = (
    "LeRobot data sets hold neither intrinsics nor camera poses: give a setup file with them "
    "(--setup), see docs/recordings.md"
)


@dataclass(frozen=True)
class _Channels:
    """Channels of a feature."""

    feature: str
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Meaning:
    """What a setup file says."""

    setup: RecordingSetup
    position: _Channels
    rotation: _Channels
    kind: str
    signal: _Channels
    high_is_closed: bool
    where: str


def import_lerobot(
    folder: str | Path,
    setup: str | Path,
    plan: StepPlan | None = None,
    episodes: Sequence[int] = (),
    voxel: float = VOXEL,
    report: Callable[[str], None] | None = None,
    warn: Callable[[str], None] | None = None,
) -> DemoSet:
    """Demonstrations from a LeRobot data set, one from each episode.

    Args:
        folder: Of the data set.
        setup: JSON file with gripper, cameras, and what the features mean.
        plan: Which steps, and what they are called.
        episodes: Their numbers; empty for all.
        voxel: Clouds are thinned to this, metres; 0 keeps every point.
        report: Told the name of each episode before it is read.
        warn: Told in what images and poses do not fit, where no usual mistake explains it.
    """
    data, meaning = LerobotDataset(Path(folder)), _read_meaning(Path(setup), voxel)
    plan = plan or StepPlan()
    gripper, options = meaning.setup.gripper, meaning.setup.options
    demonstrations: list[Demonstration] = []
    for episode in _chosen(data, episodes):
        timeline = _timeline(data, meaning, episode)
        if report is not None:
            report(timeline.name)
        with errors_at(folder):
            steps = steps_of_timeline(timeline, plan, gripper)
            if not demonstrations:  # all episodes have the same cameras and arm
                check_poses(steps, meaning.setup, Path(setup), ARM, warn)
            with errors_at(timeline.name):
                made = demonstration_from_sights(timeline.name, steps, gripper, options)
        demonstrations.append(made)
    return DemoSet(tuple(demonstrations), gripper)


def lerobot_events(
    folder: str | Path, setup: str | Path, episodes: Sequence[int] = ()
) -> dict[str, list[tuple[GripperEvent, Pose]]]:
    """Where the gripper closed and opened in each episode, with T_robot_gripper."""
    data, meaning = LerobotDataset(Path(folder)), _read_meaning(Path(setup), VOXEL)
    found = {}
    for episode in _chosen(data, episodes):
        timeline = _timeline(data, meaning, episode)
        found[timeline.name] = [(e, timeline.gripper_at(e.time)) for e in timeline.events]
    return found


def _chosen(data: LerobotDataset, episodes: Sequence[int]) -> list[int]:
    for episode in episodes:
        if episode not in data.episodes:
            raise DemoError(
                f"{data.folder}: has no episode {episode}: need 0 to {max(data.episodes)}."
            )
    return list(episodes) or list(data.episodes)


def _read_meaning(path: Path, voxel: float) -> _Meaning:
    if not path.is_file():
        raise DemoError(f"{path}: no such file. {NOT_IN_THE_FORMAT}.")
    fields = Fields(read_json(path), str(path), DemoError)
    check_version(fields, FORMAT, VERSION)
    setup = read_setup(fields, path, voxel, of_cameras=("color", "depth"))
    hand = Fields(fields.any("end_effector"), f"{path}: end_effector", DemoError)
    feature = hand.text("feature")
    position = _Channels(feature, _names(hand, "position", 3))
    kind = hand.choose(ROTATIONS)
    rotation = _Channels(feature, _names(hand, kind, 4 if kind.startswith("quat") else 3))
    hand.done()
    signal = Fields(fields.any("gripper_signal"), f"{path}: gripper_signal", DemoError)
    channel = _Channels(signal.text("feature"), (signal.text("channel"),))
    high = signal.flag("high_is_closed", False)
    signal.done()
    fields.done()
    return _Meaning(setup, position, rotation, kind, channel, high, str(path))


def _names(fields: Fields, name: str, count: int) -> tuple[str, ...]:
    values = [value for _, value in fields.items(name)]
    if len(values) != count or not all(isinstance(value, str) for value in values):
        raise DemoError(f"{fields.address}: {name}: need the names of {count} channels.")
    return tuple(values)


def _timeline(data: LerobotDataset, meaning: _Meaning, episode: int) -> Timeline:
    name = f"episode_{episode:03d}"
    with errors_at(f"{data.folder}: {name}"):
        cameras = {
            camera: _Camera(data, meaning, camera, episode) for camera in meaning.setup.cameras
        }
        features = sorted({meaning.position.feature, meaning.signal.feature})
        for feature in features:
            data.check_feature(feature, meaning.where)
        columns = data.columns(episode, ["timestamp", *features])
        times = array_column(columns["timestamp"], (), "timestamp")
        hand = _hand(data, meaning, columns, times)
        opening = _values(data, meaning.signal, columns, meaning.where)[:, 0]
        events = gripper_events(times, -opening if meaning.high_is_closed else opening, name)
    return Timeline(
        name=name,
        events=tuple(events),
        frames=dict.fromkeys(cameras, times),
        look=lambda camera, index: cameras[camera].sight(index, times, hand),
        gripper_at=hand.at,
    )


def _values(
    data: LerobotDataset, channels: _Channels, columns: dict[str, list[Any]], where: str
) -> Float[np.ndarray, "frames channels"]:
    """Channels of a feature, by their names, in every frame."""
    places = [data.channel(channels.feature, name, where) for name in channels.names]
    width = len(np.atleast_1d(columns[channels.feature][0]))
    whole = array_column(columns[channels.feature], (width,), channels.feature)
    if max(places) >= width:
        raise FileFormatError(f"{channels.feature}: has {width} numbers and more names.")
    return whole[:, places]


def _hand(
    data: LerobotDataset,
    meaning: _Meaning,
    columns: dict[str, list[Any]],
    times: Float[np.ndarray, "frames"],
) -> PoseTrack:
    """T_robot_gripper over time."""
    unit = LENGTHS[meaning.setup.units.length]
    position = _values(data, meaning.position, columns, meaning.where) * unit
    rotation = _values(data, meaning.rotation, columns, meaning.where)
    poses = [
        pose_from_json({"position": v.tolist(), meaning.kind: r.tolist()}, f"frame {index}")
        for index, (v, r) in enumerate(zip(position, rotation, strict=True))
    ]
    return PoseTrack(meaning.position.feature, times, np.stack(poses))


class _Camera:
    """What one camera saw in an episode, read when it is asked for."""

    def __init__(self, data: LerobotDataset, meaning: _Meaning, name: str, episode: int) -> None:
        self._data, self._meaning, self._name, self._episode = data, meaning, name, episode
        self._camera = meaning.setup.cameras[name]
        self._features = meaning.setup.sources[name]
        for kind, feature in self._features.items():
            data.check_feature(feature, f"{meaning.where}: cameras: {name}: {kind}")

    def sight(self, index: int, times: Float[np.ndarray, "frames"], hand: PoseTrack) -> Sight:
        """What it saw in the `index`-th frame."""
        time = float(times[index])
        where = f"camera {self._name!r} at {time:.2f} s"
        with errors_at(where):
            camera = self._camera
            color = self._pixels("color", index, time, "rgb24")
            if isinstance(color, bytes):
                color = decode_color(color, camera.color_size, self._features["color"])
            if color.shape != (*camera.color_size[::-1], 3):
                raise FileFormatError(
                    f"{self._features['color']}: has images of shape {list(color.shape)}: the "
                    f"intrinsics are for {list(camera.color_size)} columns and rows."
                )
            raw = self._pixels("depth", index, time, "gray16le")
            feature = self._features["depth"]
            if isinstance(raw, bytes):
                depth = decode_depth(raw, camera.depth_size, camera.depth_scale, feature)
            else:
                flat = raw[..., 0] if raw.ndim == 3 and raw.shape[2] == 1 else raw
                flat = flat[0] if flat.ndim == 3 and flat.shape[0] == 1 else flat
                depth = depth_in_metres(flat, camera.depth_size, camera.depth_scale, feature)
            pose = hand.at(time)
            view = camera.view(np.ascontiguousarray(color), depth, pose)
            if not self._meaning.setup.keep_flying_pixels:
                view = without_flying_pixels(view)
            return Sight(cloud_from_rgbd(view), pose, where, PosedView.of(camera, view, pose))

    def _pixels(
        self, kind: str, index: int, time: float, pixels: str
    ) -> bytes | Shaped[np.ndarray, "..."]:
        """An image of a frame: the bytes of a file, or an array."""
        data, feature = self._data, self._features[kind]
        if data.is_video(feature):
            path, start = data.video(self._episode, feature)
            return video_frame(path, start + time, data.rate, pixels)
        value = data.cell(self._episode, feature, index)
        if isinstance(value, dict):
            if not value.get("bytes"):
                raise FileFormatError(f"{feature}: its images are not in the table.")
            return bytes(value["bytes"])
        described = str(data.features[feature].get("dtype", "float32"))
        if described not in ("uint8", "uint16", "int32", "float32", "float64"):
            raise FileFormatError(f"{feature}: has the type {described!r}: need an image.")
        return np.asarray(value, dtype=described)
