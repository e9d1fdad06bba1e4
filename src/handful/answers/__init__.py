"""Answers as data: poses to execute, and the documented JSON of them. Needs numpy and no torch."""

from ._answer import FORMAT as FORMAT
from ._answer import UNITS as UNITS
from ._answer import VERSION as VERSION
from ._answer import AnsweredPose as AnsweredPose
from ._answer import PoseAnswer as PoseAnswer
from ._answer import Tracking as Tracking
from ._answer import answer_from_json as answer_from_json
from ._answer import answer_to_json as answer_to_json
from ._schema import answer_schema as answer_schema
