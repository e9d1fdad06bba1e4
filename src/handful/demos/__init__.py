"""Demonstrations: tasks, steps, grippers, the folder on disk, importers and samples."""

from ._folder import load_demos as load_demos
from ._folder import save_demos as save_demos
from ._gripper import ContactFrame as ContactFrame
from ._gripper import Gripper as Gripper
from ._gripper import HandBox as HandBox
from ._gripper import HandShape as HandShape
from ._gripper import gripper_from_tip as gripper_from_tip
from ._gripper_json import load_gripper as load_gripper
from ._hand_mesh import HandMesh as HandMesh
from ._hands import HANDS as HANDS
from ._hands import gripper_named as gripper_named
from ._poses import pose_from_json as pose_from_json
from ._task import Action as Action
from ._task import Task as Task
from ._task import TaskStep as TaskStep
from ._types import Demonstration as Demonstration
from ._types import DemoSet as DemoSet
from ._types import Step as Step
from .importers import import_edf as import_edf
from .importers import import_npz as import_npz
from .importers import import_posed_clouds as import_posed_clouds
from .synthetic import HangerShape as HangerShape
from .synthetic import MugShape as MugShape
from .synthetic import make_sample as make_sample
