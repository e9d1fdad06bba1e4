"""Continuous recordings: which images show the scene and what is held, from what the gripper did.

A step is where the gripper closes or opens. Its scene is seen at the last time before it at which
the hand was clear of where it then acted; what it holds, between two steps, while it is clear of
both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from handful.demos import Demonstration, Gripper
from handful.errors import DemoError, OptionError, errors_at
from handful.recordings._sights import (
    CloudOptions,
    SeenStep,
    Sight,
    demonstration_from_sights,
)
from handful.recordings._tracks import GripperEvent, Pose

CLEAR = 0.15
"""Metres between the contact point and where it acts, from which on the hand is out of the way."""
HELD_VIEWS = 3
"""Images of what is held, for each camera, at most."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """What one recording holds over time.

    Attributes:
        name: Of the demonstration.
        events: Where the gripper closed and opened, in order.
        frames: Times of the images of each camera, seconds, increasing.
        look: What a camera saw in one of its images, by the camera's name and the image's number.
        gripper_at: T_scene_gripper at a time.
    """

    name: str
    events: tuple[GripperEvent, ...]
    frames: Mapping[str, Float[np.ndarray, "frames"]]
    look: Callable[[str, int], Sight]
    gripper_at: Callable[[float], Pose]


@dataclass(frozen=True)
class StepPlan:
    """Which events are steps, and what they are called.

    Attributes:
        names: Of the steps that are left, in order; empty for names by action and number.
        drop: Numbers of events to leave out, from 1.
        clear: Metres from where the gripper acts, from which on the hand is out of the way.
        held: Make grasp clouds of what is held.
    """

    names: tuple[str, ...] = ()
    drop: tuple[int, ...] = ()
    clear: float = CLEAR
    held: bool = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.clear) and 0.0 <= self.clear <= 2.0):
            raise OptionError(f"clear is {self.clear}: need metres, 0 to 2.")

    def chosen(self, events: Sequence[GripperEvent]) -> list[tuple[str, GripperEvent]]:
        """Names and events of the steps.

        Raises:
            DemoError: Nothing is left, or there are more or fewer names than steps.
        """
        for number in self.drop:
            if not 1 <= number <= len(events):
                raise DemoError(f"there is no event {number} to drop: {told(events)}.")
        kept = [event for index, event in enumerate(events, 1) if index not in self.drop]
        if not kept:
            raise DemoError(f"no step is left: {told(events)}.")
        names = self.names or tuple(f"{event.action.value} {i}" for i, event in enumerate(kept, 1))
        if len(names) != len(kept):
            raise DemoError(
                f"{len(names)} names ({', '.join(names)}) for {len(kept)} steps: {told(events)}. "
                "Name each in order (--steps), or leave some out (--drop)."
            )
        return list(zip(names, kept, strict=True))


def told(events: Sequence[GripperEvent]) -> str:
    """What a gripper did, for people."""
    if not events:
        return "the gripper neither closes nor opens in the recording"
    return "the gripper " + ", ".join(
        f"{'opens' if event.action.holding else 'closes'} ({number}) at {event.time:.2f} s"
        for number, event in enumerate(events, 1)
    )


def steps_of_timeline(timeline: Timeline, plan: StepPlan, gripper: Gripper) -> list[SeenStep]:
    """The steps that a continuous recording shows.

    Args:
        timeline: The recording.
        plan: Which steps.
        gripper: What it was shown with.
    """
    with errors_at(timeline.name):
        steps, start = [], -np.inf
        for name, event in plan.chosen(timeline.events):
            with errors_at(f"step {name!r} at {event.time:.2f} s"):
                steps.append(_step(name, event, start, timeline, plan, gripper))
            start = event.time
        return steps


def demonstration_from_timeline(
    timeline: Timeline, plan: StepPlan, gripper: Gripper, options: CloudOptions
) -> Demonstration:
    """The demonstration that a continuous recording shows.

    Args:
        timeline: The recording.
        plan: Which steps.
        gripper: What it was shown with.
        options: How clouds are made.
    """
    steps = steps_of_timeline(timeline, plan, gripper)
    with errors_at(timeline.name):
        return demonstration_from_sights(timeline.name, steps, gripper, options)


def _step(
    name: str,
    event: GripperEvent,
    start: float,
    timeline: Timeline,
    plan: StepPlan,
    gripper: Gripper,
) -> SeenStep:
    """One step: the sights between the event before it and itself."""
    target = timeline.gripper_at(event.time)
    ends = [target] + ([timeline.gripper_at(start)] if np.isfinite(start) else [])
    scene: list[Sight] = []
    held: list[Sight] = []
    for camera, times in timeline.frames.items():
        (between,) = np.nonzero((times > start) & (times < event.time))
        if not len(between):
            continue
        away = np.array(
            [_clearance(timeline.gripper_at(float(t)), ends, gripper) for t in times[between]]
        )
        scene.append(timeline.look(camera, _scene_frame(between, away[:, 0], plan.clear)))
        if event.action.holding and plan.held:
            free = between[away.min(axis=1) >= plan.clear]
            chosen = free[np.linspace(0, len(free) - 1, min(HELD_VIEWS, len(free))).astype(int)]
            held += [timeline.look(camera, int(index)) for index in chosen]
    if not scene:
        raise DemoError(
            "no camera has an image between the event before and this one: check the camera "
            "topics and their times."
        )
    return SeenStep(name, event.action, tuple(scene), tuple(held), target[None])


def _clearance(pose: Pose, ends: Sequence[Pose], gripper: Gripper) -> list[float]:
    """Metres from the contact point at a pose to that at others."""
    contact = gripper.T_gripper_contact[:, 3]
    return [float(np.linalg.norm((pose @ contact - end @ contact)[:3])) for end in ends]


def _scene_frame(
    between: Int[np.ndarray, "frames"], away: Float[np.ndarray, "frames"], clear: float
) -> int:
    """The last image with the hand out of the way; without one, that with the hand farthest."""
    (free,) = np.nonzero(away >= clear)
    return int(between[free[-1]] if len(free) else between[int(away.argmax())])
