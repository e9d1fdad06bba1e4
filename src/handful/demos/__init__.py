"""Demonstrations: the types, the folder on disk, importers, augmentation, samples and pictures."""

from ._types import STEP_NAMES as STEP_NAMES
from ._types import Demonstration as Demonstration
from ._types import DemoSet as DemoSet
from ._types import Gripper as Gripper
from ._types import Step as Step
