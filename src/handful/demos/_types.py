"""What a person shows the robot: demonstrations of named steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from handful.clouds import PointCloud
from handful.errors import DemoError, GeometryError, unknown_name_message
from handful.geometry import check_pose

STEP_NAMES = ("pick", "place")
"""The steps of a pick-and-place task, in the order a robot does them."""

MAX_TARGET_GAP = 20.0
"""Metres from a target to the scene's bounding box; what is farther was meant in millimetres."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True)
class Gripper:
    """Where the fingers of a parallel gripper are, in the gripper frame; approach is along +z.

    Nothing is learned from it: pictures draw it, feasibility checks may use it, and a trained place
    model looks at what is held and not at the hand.

    Attributes:
        tip: Height z of the finger tips, metres.
        opening: Distance between the open fingers, metres.
        axis: The axis of the gripper frame, `x` or `y`, along which the fingers open.
    """

    tip: float = 0.15
    opening: float = 0.08
    axis: str = "x"

    def __post_init__(self) -> None:
        for name in ("tip", "opening"):
            value = getattr(self, name)
            if not (np.isfinite(value) and 0.005 <= value <= 1.0):
                raise DemoError(f"gripper {name} is {value}: need metres, 0.005 to 1.")
        if self.axis not in ("x", "y"):
            raise DemoError(unknown_name_message("gripper axis", self.axis, ("x", "y")))


@dataclass(frozen=True, eq=False)
class Step:
    """One thing to do: what was seen, what was held, and where the gripper should go.

    Attributes:
        name: `pick` or `place`.
        scene: Scene cloud X, in the scene frame.
        grasp: Grasp cloud Y, what the gripper holds (and the gripper, where it was seen), in the
            gripper frame; None when it was not recorded.
        targets: One or more gripper poses T_scene_gripper [targets, 4, 4], float64, read-only.
    """

    name: str
    scene: PointCloud
    grasp: PointCloud | None
    targets: Float[np.ndarray, "targets 4 4"]

    def __init__(
        self, name: str, scene: PointCloud, targets: Any, grasp: PointCloud | None = None
    ) -> None:
        if name not in STEP_NAMES:
            raise DemoError(unknown_name_message("step", name, STEP_NAMES))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "scene", scene)
        object.__setattr__(self, "grasp", grasp)
        object.__setattr__(self, "targets", _checked_targets(targets, name, scene))


@dataclass(frozen=True, eq=False)
class Demonstration:
    """One showing of the task.

    Attributes:
        name: Unique in its set; letters, digits, `_`, `-` and `.`, so that it can name files.
        steps: One or more steps with different names, in order.
    """

    name: str
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DemoError(
                f"demonstration name {self.name!r}: use 1 to 100 letters, digits, '_', '-' or '.', "
                "beginning with a letter or digit."
            )
        names = [step.name for step in self.steps]
        if not names or len(set(names)) != len(names):
            raise DemoError(
                f"demonstration {self.name!r} has steps {names}: need one or more, no two alike."
            )

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
        demonstrations: One or more, with different names.
        gripper: Shape of the gripper, for pictures and feasibility.
        description: One sentence for people.
    """

    demonstrations: tuple[Demonstration, ...]
    gripper: Gripper = field(default_factory=Gripper)
    description: str = ""

    def __post_init__(self) -> None:
        names = [demonstration.name for demonstration in self.demonstrations]
        if not names:
            raise DemoError("a demonstration set needs at least one demonstration; got none.")
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise DemoError(f"demonstrations share the name {repeated[0]!r}: give each its own.")

    def __len__(self) -> int:
        return len(self.demonstrations)

    def __iter__(self) -> Iterator[Demonstration]:
        return iter(self.demonstrations)

    def __getitem__(self, index: int) -> Demonstration:
        return self.demonstrations[index]

    def steps(self, name: str) -> list[Step]:
        """The step of that name of every demonstration.

        Raises:
            DemoError: A demonstration has none.
        """
        return [demonstration.step(name) for demonstration in self]


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
    try:
        check_pose(torch.from_numpy(poses))
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
