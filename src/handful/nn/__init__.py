"""Equivariant layers and the feature layouts they work on."""

from ._allocator import keep_freed_memory as keep_freed_memory
from ._allocator import return_freed_memory as return_freed_memory
from ._convolution import EdgeConvolution as EdgeConvolution
from ._field_sums import FieldEdges as FieldEdges
from ._frames import EdgeGeometry as EdgeGeometry
from ._layout import component_count as component_count
from ._layout import degree_sizes as degree_sizes
from ._pointwise import EquivariantLinear as EquivariantLinear
from ._pointwise import EquivariantNorm as EquivariantNorm
from ._pointwise import Gate as Gate
from ._radial import RadialNetwork as RadialNetwork
from ._radial import smooth_cutoff as smooth_cutoff
from ._tensor_field import TensorFieldLayer as TensorFieldLayer
from ._transformer import DepthwiseTransformerLayer as DepthwiseTransformerLayer
from ._transformer import TransformerLayer as TransformerLayer
from ._types import MAX_DEGREE as MAX_DEGREE
from ._types import Types as Types
