"""Pictures without a screen: depth images of meshes, and drawings of clouds for people."""

from ._camera import Camera as Camera
from ._camera import look_at as look_at
from ._mesh import Color as Color
from ._mesh import ColoredMesh as ColoredMesh
from ._mesh import joined as joined
from ._mesh import surface_points as surface_points
from ._picture import PictureStyle as PictureStyle
from ._picture import draw_picture as draw_picture
from ._rgbd import Light as Light
from ._rgbd import render_rgbd as render_rgbd
from ._shapes import arrow_mesh as arrow_mesh
from ._shapes import arrows_mesh as arrows_mesh
from ._shapes import ball_mesh as ball_mesh
from ._shapes import box_mesh as box_mesh
from ._shapes import frame_meshes as frame_meshes
from ._shapes import gripper_mesh as gripper_mesh
from ._shapes import revolved_mesh as revolved_mesh
from ._shapes import tube_mesh as tube_mesh
from ._sheet import beside as beside
from ._sheet import tile as tile
from ._sheet import write_caption as write_caption
from ._viewpoint import best_view as best_view
from ._viewpoint import framed as framed
from ._viewpoint import orbit as orbit
from ._viewpoint import visible_points as visible_points
