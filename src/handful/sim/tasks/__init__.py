"""The tasks of the protocol, one file each, behind one small interface."""

from ._bottle import BottleTask as BottleTask
from ._bowl import BowlTask as BowlTask
from ._bring import load_things as load_things
from ._episode import Episode as Episode
from ._mug import MugTask as MugTask
from ._registry import TASKS as TASKS
from ._registry import task_named as task_named
from ._task import Task as Task
from ._task import run_oracle as run_oracle
from ._types import Purpose as Purpose
from ._types import Setup as Setup
from ._types import Variant as Variant
from ._types import Verdict as Verdict
