"""Descriptor fields, query models, energies, and the pick and place models."""

from ._checkpoint import Model as Model
from ._checkpoint import load_model as load_model
from ._checkpoint import save_model as save_model
from ._config import config_from_json as config_from_json
from ._config import config_to_json as config_to_json
from ._energy import MatchEnergy as MatchEnergy
from ._energy import PoseEnergy as PoseEnergy
from ._energy import QueryPoints as QueryPoints
from ._field import DescriptorField as DescriptorField
from ._field import EncodedCloud as EncodedCloud
from ._field import Encoder as Encoder
from ._field import EncoderConfig as EncoderConfig
from ._field import Field as Field
from ._field import FieldHead as FieldHead
from ._pick import PickConfig as PickConfig
from ._pick import PickModel as PickModel
from ._place import PlaceConfig as PlaceConfig
from ._place import PlaceModel as PlaceModel
from ._queries import GraspQueries as GraspQueries
from ._queries import GraspQueryConfig as GraspQueryConfig
from ._queries import PickQueries as PickQueries
from ._queries import WeightedPoints as WeightedPoints
from ._queries import initial_points as initial_points
from ._queries import svgd_direction as svgd_direction
