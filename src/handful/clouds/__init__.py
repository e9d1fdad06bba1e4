"""Point clouds: the type, voxel filter, neighbours, files, and depth images to clouds."""

from ._cloud import Box as Box
from ._cloud import PointCloud as PointCloud
from ._cloud import concatenate as concatenate
from ._flying import without_flying_pixels as without_flying_pixels
from ._frame import principal_frame as principal_frame
from ._intrinsics import Intrinsics as Intrinsics
from ._levels import LevelOfDetail as LevelOfDetail
from ._likeness import CloudLike as CloudLike
from ._likeness import as_cloud as as_cloud
from ._neighbours import Edges as Edges
from ._neighbours import NeighbourIndex as NeighbourIndex
from ._neighbours import radius_graph as radius_graph
from ._neighbours import radius_neighbours as radius_neighbours
from ._reader import CloudReader as CloudReader
from ._registration import registered_view as registered_view
from ._rgbd import RgbdView as RgbdView
from ._rgbd import cloud_from_rgbd as cloud_from_rgbd
from ._standing import standing_in as standing_in
from ._voxels import voxel_filter as voxel_filter
from .files import array_from_bytes as array_from_bytes
from .files import cloud_from_bytes as cloud_from_bytes
from .files import read_array as read_array
from .files import read_arrays as read_arrays
from .files import read_cloud as read_cloud
from .files import write_cloud as write_cloud
