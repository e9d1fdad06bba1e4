"""Descriptor fields, the two sources of query points, energies, and the one model of them."""

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
from ._grasp_queries import GraspQueries as GraspQueries
from ._grasp_queries import GraspQueryConfig as GraspQueryConfig
from ._grasp_queries import WeightedPoints as WeightedPoints
from ._grasp_queries import initial_points as initial_points
from ._grasp_queries import svgd_direction as svgd_direction
from ._learned_queries import LearnedQueries as LearnedQueries
from ._learned_queries import LearnedQueryConfig as LearnedQueryConfig
from ._model import EdfModel as EdfModel
from ._model import ModelConfig as ModelConfig
from ._storage import USE as USE
from ._storage import load_model as load_model
from ._storage import save_model as save_model
from ._thinned import ThinnedCloud as ThinnedCloud
from ._thinned import local_moments as local_moments
