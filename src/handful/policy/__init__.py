"""What any robot needs: predictors, pose selection, collisions of clouds, and running a task."""

from ._collision import SceneSurface as SceneSurface
from ._confidence import SURE_ENOUGH as SURE_ENOUGH
from ._confidence import Confidence as Confidence
from ._feasibility import ApproachCone as ApproachCone
from ._feasibility import Feasibility as Feasibility
from ._feasibility import Limits as Limits
from ._interfaces import PosePredictor as PosePredictor
from ._interfaces import RatingPredictor as RatingPredictor
from ._interfaces import Robot as Robot
from ._motion import Motion as Motion
from ._perturb import perturbed as perturbed
from ._predictor import Predictor as Predictor
from ._preparation import Preparation as Preparation
from ._preparation import PreparedClouds as PreparedClouds
from ._ranked import RankedPoses as RankedPoses
from ._run import SAMPLES as SAMPLES
from ._run import Look as Look
from ._run import StepFailure as StepFailure
from ._run import StepRecord as StepRecord
from ._run import Watcher as Watcher
from ._run import run_task as run_task
from ._search import SearchConfig as SearchConfig
from ._selection import PoseSelection as PoseSelection
from ._storage import load_predictor as load_predictor
from ._storage import save_predictor as save_predictor
from ._verdict import Verdict as Verdict
