"""The simulated world: a robot, cameras, objects, three tasks and their oracles, in MuJoCo."""

from ._cameras import NO_NOISE as NO_NOISE
from ._cameras import DepthNoise as DepthNoise
from ._collect import GRIPPER as GRIPPER
from ._collect import collect_demos as collect_demos
from ._errors import DivergedError as DivergedError
from ._errors import MissingExtraError as MissingExtraError
from ._errors import NoGraphicsError as NoGraphicsError
from ._errors import ObjectRefusedError as ObjectRefusedError
from ._errors import SimError as SimError
from ._film import Film as Film
from ._film import film_episode as film_episode
from ._film import write_video as write_video
from ._world import Placed as Placed
from ._world import World as World
from .objects import Refused as Refused
from .objects import Thing as Thing
from .tasks import TASKS as TASKS
from .tasks import Episode as Episode
from .tasks import Purpose as Purpose
from .tasks import Setup as Setup
from .tasks import Task as Task
from .tasks import Variant as Variant
from .tasks import Verdict as Verdict
from .tasks import load_things as load_things
from .tasks import run_oracle as run_oracle
from .tasks import task_named as task_named
