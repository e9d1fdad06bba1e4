"""An example of RGB-D recordings that the project makes itself: a peg that goes into a box."""

from ._peg import GRIPPER as GRIPPER
from ._peg import PegLayout as PegLayout
from ._peg import random_layout as random_layout
from ._write import write_rgbd_example as write_rgbd_example
