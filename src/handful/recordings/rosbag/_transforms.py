"""The tree of frames of a robot (TF): static and moving, interpolated in time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from handful.errors import DemoError, unknown_name_message
from handful.recordings._tracks import Pose, PoseTrack


class TransformTree:
    """Poses of frames in each other, at any time.

    Args:
        records: Parent, child, time in seconds (None for a static one) and T_parent_child. A frame
            has one parent; of several static records of a frame the last counts.
    """

    def __init__(self, records: Iterable[tuple[str, str, float | None, Pose]]) -> None:
        self._parent: dict[str, str] = {}
        self._static: dict[str, Pose] = {}
        moving: dict[str, dict[float, Pose]] = {}
        for parent, child, time, pose in records:
            parent, child = plain(parent), plain(child)
            if self._parent.setdefault(child, parent) != parent:
                raise DemoError(
                    f"frame {child!r} has two parents in TF, {self._parent[child]!r} and "
                    f"{parent!r}: a frame has one."
                )
            if time is None:
                self._static[child] = pose
            else:
                moving.setdefault(child, {})[time] = pose
        self._moving = {child: _track(child, poses) for child, poses in moving.items()}

    @property
    def frames(self) -> set[str]:
        """Names of all frames."""
        return {*self._parent, *self._parent.values()}

    def pose(self, base: str, frame: str, time: float) -> Pose:
        """T_base_frame at a time.

        Raises:
            DemoError: There is no such frame, no way from one to the other, or no record then.
        """
        base, frame = plain(base), plain(frame)
        for name in (base, frame):
            if name not in self.frames:
                raise DemoError(f"TF: {unknown_name_message('frame', name, self.frames)}")
        (root, T_root_base), (other, T_other_frame) = (
            self._from_root(name, time) for name in (base, frame)
        )
        if root != other:
            raise DemoError(
                f"TF: nothing connects {base!r} (below {root!r}) and {frame!r} (below {other!r}): "
                "record the calibration between them (/tf_static), or give another frame."
            )
        return np.linalg.inv(T_root_base) @ T_other_frame

    def _from_root(self, frame: str, time: float) -> tuple[str, Pose]:
        """The frame's root, and T_root_frame."""
        pose, seen = np.eye(4), {frame}
        while frame in self._parent:
            link = self._moving[frame].at(time) if frame in self._moving else self._static[frame]
            pose, frame = link @ pose, self._parent[frame]
            if frame in seen:
                raise DemoError(f"TF: the frames {sorted(seen)} are each other's parents.")
            seen.add(frame)
        return frame, pose


def plain(frame: str) -> str:
    """A frame's name without the slash that ROS 1 allowed before it."""
    return frame.lstrip("/")


def _track(child: str, poses: dict[float, Pose]) -> PoseTrack:
    times = np.array(sorted(poses))
    return PoseTrack(f"TF of {child!r}", times, np.stack([poses[time] for time in times.tolist()]))
