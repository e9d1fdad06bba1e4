"""LeRobot data sets to demonstrations."""

from ._import import NOT_IN_THE_FORMAT as NOT_IN_THE_FORMAT
from ._import import import_lerobot as import_lerobot
from ._import import lerobot_events as lerobot_events
