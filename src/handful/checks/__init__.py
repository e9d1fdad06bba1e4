"""Checks that know the usual mistakes: demonstrations before training, and cameras before use."""

from ._camera import CameraCheck as CameraCheck
from ._camera import check_camera as check_camera
from ._diagnosis import Diagnosis as Diagnosis
from ._diagnosis import diagnose as diagnose
from ._limits import LIMITS as LIMITS
from ._limits import Check as Check
from ._limits import Limit as Limit
from ._limits import Measure as Measure
from ._measure import measures as measures
from ._mistakes import Mistake as Mistake
from ._posing import PosedStep as PosedStep
from ._recorded import Recorded as Recorded
from ._report import CheckReport as CheckReport
from ._report import Problem as Problem
from ._report import check_demos as check_demos
