"""What a person shows the robot: demonstrations of named steps."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from handful._rigid import check_pose
from handful.clouds import PointCloud
from handful.demos._gripper import Gripper
from handful.demos._task import MAX_STEPS, Action, Task, TaskStep
from handful.errors import DemoError, GeometryError, errors_at, unknown_name_message

MAX_TARGET_GAP = 20.0
"""Metres from a target to the scene's bounding box; what is farther was meant in millimetres."""

MAX_DEMOS = 10_000
"""Of one set."""
MAX_TARGETS = 1_000
"""Right poses of one step."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, eq=False)
class Step:
    """One thing to do: what was seen, what was held, and where the gripper should go.

    Attributes:
        name: Of the step in its task, for example `pick` or `hang mug`.
        action: What the gripper does there.
        scene: Scene cloud X, in the scene frame.
        grasp: Grasp cloud Y, what the gripper holds (and the gripper, where it was seen), in the
            gripper frame; None when it was not recorded.
        targets: One or more gripper poses T_scene_gripper [targets, 4, 4], float64, read-only.
    """

    name: str
    action: Action
    scene: PointCloud
    grasp: PointCloud | None
    targets: Float[np.ndarray, "targets 4 4"]

    def __init__(
        self,
        name: str,
        action: Action,
        scene: PointCloud,
        targets: Any,
        grasp: PointCloud | None = None,
    ) -> None:
        TaskStep(name, action)  # checks the name
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "action", action)
        object.__setattr__(self, "scene", scene)
        object.__setattr__(self, "grasp", grasp)
        object.__setattr__(self, "targets", _checked_targets(targets, name, scene))

    def __repr__(self) -> str:
        grasp = "" if self.grasp is None else f", grasp {len(self.grasp)} points"
        return (
            f"Step({self.name!r}, {self.action.value}, scene {len(self.scene)} points{grasp}, "
            f"{len(self.targets)} target poses)"
        )

    @property
    def task_step(self) -> TaskStep:
        """Name and action."""
        return TaskStep(self.name, self.action)

    def changed(
        self,
        scene: PointCloud | None = None,
        targets: Any = None,
        grasp: PointCloud | None = None,
    ) -> Step:
        """The step with some of its parts replaced."""
        return Step(
            self.name,
            self.action,
            self.scene if scene is None else scene,
            self.targets if targets is None else targets,
            self.grasp if grasp is None else grasp,
        )


@dataclass(frozen=True, eq=False)
class Demonstration:
    """One showing of the task.

    Attributes:
        name: Unique in its set; letters, digits, `_`, `-` and `.`, so that it can name files.
        steps: One or more steps with different names, in the order in which they were done.
    """

    name: str
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DemoError(
                f"demonstration name {self.name!r}: use 1 to 100 letters, digits, '_', '-' or '.', "
                "beginning with a letter or digit."
            )
        with errors_at(f"demonstration {self.name!r}"):
            Task(tuple(step.task_step for step in self.steps))

    def __repr__(self) -> str:
        return f"Demonstration({self.name!r}, steps {', '.join(step.name for step in self.steps)})"

    @property
    def task(self) -> Task:
        """What the demonstration shows."""
        return Task(tuple(step.task_step for step in self.steps))

    def step(self, name: str) -> Step:
        """The step of that name.

        Raises:
            DemoError: There is none.
        """
        for step in self.steps:
            if step.name == name:
                return step
        names = [step.name for step in self.steps]
        raise DemoError(f"demonstration {self.name!r}: {unknown_name_message('step', name, names)}")


@dataclass(frozen=True, eq=False)
class DemoSet:
    """Demonstrations of one task with one gripper.

    Attributes:
        demonstrations: One or more, with different names. They agree on the order and the actions
            of the steps that they have.
        gripper: What they were shown with.
        description: One sentence for people.
    """

    demonstrations: tuple[Demonstration, ...]
    gripper: Gripper
    description: str = ""

    def __post_init__(self) -> None:
        names = [demonstration.name for demonstration in self.demonstrations]
        if not names:
            raise DemoError("a demonstration set needs at least one demonstration; got none.")
        if len(names) > MAX_DEMOS:
            raise DemoError(f"{len(names):,} demonstrations: need at most {MAX_DEMOS:,}.")
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise DemoError(f"demonstrations share the name {repeated[0]!r}: give each its own.")
        _common_task(self.demonstrations)

    def __repr__(self) -> str:
        hand = self.gripper.name or "a gripper of its own"
        steps = ", ".join(self.task.names)
        return f"DemoSet({len(self)} demonstrations, steps {steps}, {hand})"

    @property
    def task(self) -> Task:
        """All steps of the demonstrations, in their order."""
        return _common_task(self.demonstrations)

    def __len__(self) -> int:
        return len(self.demonstrations)

    def __iter__(self) -> Iterator[Demonstration]:
        return iter(self.demonstrations)

    def __getitem__(self, index: int | str) -> Demonstration:
        """A demonstration by its number or by its name.

        Raises:
            IndexError: There is none of that number.
            DemoError: There is none of that name.
        """
        if not isinstance(index, str):
            return self.demonstrations[index]
        by_name = {one.name: one for one in self}
        if index not in by_name:
            raise DemoError(unknown_name_message("demonstration", index, by_name))
        return by_name[index]

    def steps(self, name: str) -> list[Step]:
        """The step of that name of every demonstration.

        Raises:
            DemoError: A demonstration has none.
        """
        return [demonstration.step(name) for demonstration in self]


def _common_task(demonstrations: tuple[Demonstration, ...]) -> Task:
    """The task that all demonstrations are parts of.

    Steps whose order no demonstration shows stand in the order in which they first appear.

    Raises:
        DemoError: Two demonstrations contradict each other.
    """
    steps: dict[str, TaskStep] = {}
    before: dict[str, set[str]] = {}
    order: list[str] = []
    for demonstration in demonstrations:
        known = sum(map(len, before.values())) + len(before)
        last: set[str] = set()
        for step in demonstration.task:
            first = steps.setdefault(step.name, step)
            before.setdefault(step.name, set()).update(last)
            last = {step.name}
            if first.action is not step.action:
                raise DemoError(
                    f"demonstration {demonstration.name!r} has the step {step.name!r} with the "
                    f"action {step.action.value!r} and those before it with "
                    f"{first.action.value!r}: a set shows one task."
                )
        if len(steps) > MAX_STEPS:
            raise DemoError(f"the demonstrations have more than {MAX_STEPS} different steps.")
        if known == sum(map(len, before.values())) + len(before):
            continue  # nothing that was not known
        order = _in_order(before)
        if len(order) < len(before):
            raise DemoError(
                f"demonstration {demonstration.name!r} has the steps {demonstration.task.names} in "
                "another order than those before it: a set shows one task."
            )
    return Task(tuple(steps[name] for name in order))


def _in_order(before: dict[str, set[str]]) -> list[str]:
    """Names such that each comes after those before it; those in a circle are left out."""
    order: list[str] = []
    rest = list(before)
    while ready := next((name for name in rest if before[name] <= set(order)), None):
        order.append(ready)
        rest.remove(ready)
    return order


def _checked_targets(
    targets: Any, step: str, scene: PointCloud
) -> Float[np.ndarray, "targets 4 4"]:
    try:
        poses = np.array(targets, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DemoError(f"step {step!r}: target poses cannot be read: {error}.") from error
    if poses.ndim == 2:
        poses = poses[None]
    if poses.ndim != 3 or poses.shape[1:] != (4, 4) or len(poses) == 0:
        raise DemoError(
            f"step {step!r}: target poses have shape {poses.shape}: need one or more 4x4 matrices."
        )
    if len(poses) > MAX_TARGETS:
        raise DemoError(
            f"step {step!r}: has {len(poses):,} target poses: need at most {MAX_TARGETS:,}."
        )
    try:
        check_pose(poses)
    except GeometryError as error:
        raise DemoError(f"step {step!r}: target pose: {error}") from error
    _check_near(poses[:, :3, 3], step, scene)
    poses.flags.writeable = False
    return poses


def _check_near(positions: Float[np.ndarray, "targets 3"], step: str, scene: PointCloud) -> None:
    """Refuse a target that is farther from the scene than any arm reaches."""
    low, high = scene.bounds
    gap = np.linalg.norm(positions - positions.clip(low, high), axis=1)
    worst = int(gap.argmax())
    if gap[worst] > MAX_TARGET_GAP:
        raise DemoError(
            f"step {step!r}: target pose [{worst}] is at {positions[worst].tolist()}, "
            f"{gap[worst]:.4g} m from the scene: at most {MAX_TARGET_GAP:g} m makes sense. Give "
            "positions in metres, in the frame of the scene cloud."
        )
