"""Neural Descriptor Fields: invariant descriptors of a segmented object, pre-trained."""

from ._config import NdfConfig as NdfConfig
from ._config import NetworkConfig as NetworkConfig
from ._config import PoseSearch as PoseSearch
from ._families import FAMILIES as FAMILIES
from ._families import Shape as Shape
from ._method import NDF as NDF
from ._method import NdfRecipe as NdfRecipe
from ._model import NdfEnergy as NdfEnergy
from ._model import NdfField as NdfField
from ._model import NdfModel as NdfModel
from ._network import NdfNetwork as NdfNetwork
from ._predictor import NdfPredictor as NdfPredictor
from ._pretraining import OccupancyObjective as OccupancyObjective
from ._pretraining import ShapeBank as ShapeBank
from ._registration import standing_pose as standing_pose
from ._search import low_poses as low_poses
from ._vector_neurons import VectorBlock as VectorBlock
from ._vector_neurons import VectorLeaky as VectorLeaky
