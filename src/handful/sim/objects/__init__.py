"""Procedural things and users' meshes: how they look, where they touch, what oracles know."""

from ._bottle import DEFAULT_BOTTLES as DEFAULT_BOTTLES
from ._bottle import UNSEEN_BOTTLES as UNSEEN_BOTTLES
from ._bottle import BottleShape as BottleShape
from ._bowl import DEFAULT_BOWL as DEFAULT_BOWL
from ._bowl import UNSEEN_BOWLS as UNSEEN_BOWLS
from ._bowl import BowlShape as BowlShape
from ._distractors import DISTRACTOR_FAMILIES as DISTRACTOR_FAMILIES
from ._distractors import draw_distractor as draw_distractor
from ._draws import random_color as random_color
from ._mug import DEFAULT_MUG as DEFAULT_MUG
from ._mug import UNSEEN_MUGS as UNSEEN_MUGS
from ._mug import MugShape as MugShape
from ._parts import Handle as Handle
from ._parts import Neck as Neck
from ._parts import Part as Part
from ._parts import Pose as Pose
from ._parts import Rim as Rim
from ._parts import Thing as Thing
from ._parts import placed as placed
from ._targets import DEFAULT_HANGER as DEFAULT_HANGER
from ._targets import TrayShape as TrayShape
from ._targets import hanger_thing as hanger_thing
from ._targets import support_thing as support_thing
from ._targets import varied_hanger as varied_hanger
