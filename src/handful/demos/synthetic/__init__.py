"""Sample demonstrations made from nothing: a mug, a hanger, and cameras that see them."""

from ._poses import Layout as Layout
from ._poses import hanging_pose as hanging_pose
from ._poses import random_layout as random_layout
from ._poses import rim_grasp as rim_grasp
from ._poses import standing_pose as standing_pose
from ._sample import GRIPPER as GRIPPER
from ._sample import HAND_SPACE as HAND_SPACE
from ._sample import WORKSPACE as WORKSPACE
from ._sample import make_sample as make_sample
from ._sample import see_hand as see_hand
from ._sample import see_scene as see_scene
from ._shapes import HangerShape as HangerShape
from ._shapes import MugShape as MugShape
from ._shapes import table_mesh as table_mesh
