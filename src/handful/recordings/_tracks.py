"""Poses and gripper signals over time, and where a gripper closed and opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.spatial.transform import Rotation, Slerp

from handful.demos import Action
from handful.errors import DemoError

Pose = Float[np.ndarray, "4 4"]

MOST_BEYOND = 0.25
"""Seconds that a pose may be asked for before its first or after its last record."""
LOW, HIGH = 1.0 / 3.0, 2.0 / 3.0
"""Shares of a gripper's range: it is closed below the first, open above the second, and in between
what it was."""


@dataclass(frozen=True, eq=False)
class PoseTrack:
    """A pose that changes over time, with straight lines and constant turns between its records.

    Attributes:
        name: For messages.
        times: Seconds, increasing.
        poses: One for each time [times, 4, 4].
    """

    name: str
    times: Float[np.ndarray, "times"]
    poses: Float[np.ndarray, "times 4 4"]

    def __post_init__(self) -> None:
        if not len(self.times) or not np.isfinite(self.times).all():
            raise DemoError(f"{self.name}: has no poses, or times that are not finite.")
        if (np.diff(self.times) <= 0).any():
            raise DemoError(f"{self.name}: its times do not increase.")

    @cached_property
    def _turns(self) -> Slerp | None:
        if len(self.times) < 2:
            return None
        return Slerp(self.times, Rotation.from_matrix(self.poses[:, :3, :3]))

    def at(self, time: float) -> Pose:
        """The pose at a time, seconds.

        Raises:
            DemoError: It was not recorded then.
        """
        first, last = float(self.times[0]), float(self.times[-1])
        if not first - MOST_BEYOND <= time <= last + MOST_BEYOND:
            raise DemoError(
                f"{self.name}: its poses go from {first:.3f} s to {last:.3f} s, and one at "
                f"{time:.3f} s is needed: record it from before the first image to after the last."
            )
        inside = min(max(time, first), last)
        pose = np.eye(4)
        for axis in range(3):
            pose[axis, 3] = np.interp(inside, self.times, self.poses[:, axis, 3])
        turn = self.poses[0, :3, :3] if self._turns is None else self._turns(inside).as_matrix()
        pose[:3, :3] = turn
        return pose


@dataclass(frozen=True)
class GripperEvent:
    """A time at which the gripper closed or opened.

    Attributes:
        time: Seconds.
        action: What it did.
    """

    time: float
    action: Action


def gripper_events(
    times: Float[np.ndarray, "times"], opening: Float[np.ndarray, "times"], name: str
) -> list[GripperEvent]:
    """When a gripper closed and opened.

    The range is that of the recording itself: fingers that close on something do not close
    wholly. An event is where the signal has left the state before it, at the farther threshold.

    Args:
        times: Seconds, increasing.
        opening: Larger is more open; any unit.
        name: Of the signal, for messages.

    Raises:
        DemoError: The signal hardly changes, or is not finite.
    """
    if not len(opening) or not np.isfinite(opening).all():
        raise DemoError(f"{name}: has no values, or some that are not finite.")
    least, most = float(opening.min()), float(opening.max())
    if most - least <= 1e-6 * max(1.0, abs(most)):
        raise DemoError(
            f"{name}: the gripper's signal is {least:g} all the time: it never closes or opens. "
            "Check its name."
        )
    share = (opening - least) / (most - least)
    events: list[GripperEvent] = []
    is_open: bool | None = None
    for time, value in zip(times.tolist(), share.tolist(), strict=True):
        now = True if value > HIGH else False if value < LOW else is_open
        if is_open is not None and now is not None and now != is_open:
            events.append(GripperEvent(time, Action.PLACE if now else Action.PICK))
        is_open = now
    return events
