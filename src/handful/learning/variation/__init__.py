"""Everything that training makes up: what differs between the demonstrations and the world."""

from ._augmentation import Augmentation as Augmentation
from ._augmentation import drop_points as drop_points
from ._augmentation import fade_colors as fade_colors
from ._augmentation import jitter_colors as jitter_colors
from ._augmentation import jitter_points as jitter_points
from ._augmentation import perturb_poses as perturb_poses
from ._augmentation import turn_colors as turn_colors
from ._clutter import Clutter as Clutter
from ._composition import Composition as Composition
from ._context import ContextDropout as ContextDropout
from ._example import Example as Example
from ._example import examples_of as examples_of
from ._example import separate as separate
from ._removal import without_target as without_target
from ._sensor import Sensor as Sensor
from ._variation import Variation as Variation
from ._variation import focus_of as focus_of
from ._visibility import drop_view as drop_view
from ._visibility import some_sides as some_sides
from ._visibility import visible_from as visible_from
from ._warp import Warp as Warp
from ._warp import WarpMap as WarpMap
from ._warp import warped_step as warped_step
