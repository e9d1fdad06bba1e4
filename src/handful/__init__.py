"""Teach a robot to pick and place from a handful of demonstrations.

The names below are loaded when they are first used, so that `import handful` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from handful.clouds import PointCloud as PointCloud
    from handful.clouds import read_cloud as read_cloud
    from handful.clouds import write_cloud as write_cloud
    from handful.demos import Demonstration as Demonstration
    from handful.demos import DemoSet as DemoSet
    from handful.demos import Gripper as Gripper
    from handful.demos import Step as Step
    from handful.demos import gripper_named as gripper_named
    from handful.demos import load_demos as load_demos
    from handful.demos import save_demos as save_demos
    from handful.errors import HandfulError as HandfulError
    from handful.learning import train_step as train_step
    from handful.policy import Predictor as Predictor
    from handful.policy import RankedPoses as RankedPoses
    from handful.policy import Robot as Robot
    from handful.policy import load_predictor as load_predictor
    from handful.policy import run_task as run_task

_HOME = {
    "PointCloud": "handful.clouds",
    "read_cloud": "handful.clouds",
    "write_cloud": "handful.clouds",
    "Demonstration": "handful.demos",
    "DemoSet": "handful.demos",
    "Step": "handful.demos",
    "load_demos": "handful.demos",
    "save_demos": "handful.demos",
    "HandfulError": "handful.errors",
    "Gripper": "handful.demos",
    "gripper_named": "handful.demos",
    "train_step": "handful.learning",
    "Predictor": "handful.policy",
    "RankedPoses": "handful.policy",
    "Robot": "handful.policy",
    "load_predictor": "handful.policy",
    "run_task": "handful.policy",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'handful' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
