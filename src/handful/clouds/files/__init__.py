"""Cloud files: PLY, PCD and NPZ, read with suspicion and written in one step."""

from ._cloud_files import cloud_from_bytes as cloud_from_bytes
from ._cloud_files import read_cloud as read_cloud
from ._cloud_files import write_cloud as write_cloud
from ._npz import array_from_bytes as array_from_bytes
from ._npz import read_array as read_array
from ._npz import read_arrays as read_arrays
