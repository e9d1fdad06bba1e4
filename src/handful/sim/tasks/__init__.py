"""The tasks of the protocol, their episodes, and their oracle."""

from ._bottle import BottleOnTray as BottleOnTray
from ._bowl import BowlOnTray as BowlOnTray
from ._episode import Episode as Episode
from ._mug import MugOnHanger as MugOnHanger
from ._oracle import SIM_LIMITS as SIM_LIMITS
from ._oracle import OraclePredictor as OraclePredictor
from ._oracle import oracle_pose as oracle_pose
from ._oracle import oracle_predictors as oracle_predictors
from ._oracle import run_oracle as run_oracle
from ._pick_and_place import PickAndPlace as PickAndPlace
from ._registry import TASKS as TASKS
from ._registry import task_named as task_named
from ._sim_task import SimTask as SimTask
from ._sim_task import TaskPart as TaskPart
from ._types import Purpose as Purpose
from ._types import Setup as Setup
from ._types import Variant as Variant
from ._user_objects import folders_of_objects as folders_of_objects
from ._user_objects import load_things as load_things
