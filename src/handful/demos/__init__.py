"""Demonstrations: the types, the folder on disk, importers, augmentation, samples and pictures."""

from ._augment import Augmentation as Augmentation
from ._augment import drop_points as drop_points
from ._augment import drop_view as drop_view
from ._augment import fade_colors as fade_colors
from ._augment import jitter_colors as jitter_colors
from ._augment import jitter_points as jitter_points
from ._augment import perturb_poses as perturb_poses
from ._augment import some_sides as some_sides
from ._augment import turn_colors as turn_colors
from ._augment import visible_from as visible_from
from ._folder import load_demos as load_demos
from ._folder import save_demos as save_demos
from ._picture import picture_of_demos as picture_of_demos
from ._picture import picture_of_step as picture_of_step
from ._types import STEP_NAMES as STEP_NAMES
from ._types import Demonstration as Demonstration
from ._types import DemoSet as DemoSet
from ._types import Gripper as Gripper
from ._types import Step as Step
from .importers import import_edf as import_edf
from .importers import import_npz as import_npz
from .importers import import_posed_clouds as import_posed_clouds
from .synthetic import HangerShape as HangerShape
from .synthetic import MugShape as MugShape
from .synthetic import make_sample as make_sample
