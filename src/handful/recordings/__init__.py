"""What cameras and robots recorded, to demonstrations: RGB-D folders, bags, data sets."""

from ._held import is_hand as is_hand
from ._held import is_held as is_held
from ._sights import CloudOptions as CloudOptions
from ._sights import SeenStep as SeenStep
from ._sights import Sight as Sight
from ._sights import demonstration_from_sights as demonstration_from_sights
from ._sights import held_cloud as held_cloud
from ._sights import scene_cloud as scene_cloud
from ._timeline import StepPlan as StepPlan
from ._tracks import GripperEvent as GripperEvent
from .example import write_rgbd_example as write_rgbd_example
from .lerobot import NOT_IN_THE_FORMAT as NOT_IN_THE_FORMAT
from .lerobot import import_lerobot as import_lerobot
from .lerobot import lerobot_events as lerobot_events
from .rgbd import RecordedHand as RecordedHand
from .rgbd import import_rgbd as import_rgbd
from .rgbd import recorded_hands as recorded_hands
from .rosbag import RosCamera as RosCamera
from .rosbag import RosTopics as RosTopics
from .rosbag import import_rosbag as import_rosbag
from .rosbag import rosbag_events as rosbag_events
