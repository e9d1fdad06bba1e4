"""Pictures for people: demonstrations, gripper poses, and descriptor fields."""

from ._checks import picture_of_answer as picture_of_answer
from ._checks import picture_of_camera as picture_of_camera
from ._checks import picture_of_check as picture_of_check
from ._curves import Curve as Curve
from ._curves import picture_of_curves as picture_of_curves
from ._demos import picture_of_demos as picture_of_demos
from ._demos import picture_of_step as picture_of_step
from ._fields import palette_of_field as palette_of_field
from ._fields import picture_of_field as picture_of_field
from ._fields import query_meshes as query_meshes
from ._hand import hand_mesh as hand_mesh
from ._hand import held_width as held_width
from ._html import page_of_scene as page_of_scene
from ._inference import picture_of_inference as picture_of_inference
from ._on_cloud import FieldOnCloud as FieldOnCloud
from ._on_cloud import energy_heat as energy_heat
from ._on_cloud import heat_colors as heat_colors
from ._palette import FieldPalette as FieldPalette
from ._poses import picture_of_poses as picture_of_poses
from ._views import view_of_pose as view_of_pose
from ._views import view_of_scene as view_of_scene
