"""SE(3)-Transporter Networks: images from above, 36 yaws, and three numbers that are regressed."""

from ._augmentation import ImageAugmentation as ImageAugmentation
from ._config import TransporterConfig as TransporterConfig
from ._correlation import correlation as correlation
from ._image import ImageFrame as ImageFrame
from ._image import Points as Points
from ._loss import PoseLoss as PoseLoss
from ._loss import pose_loss as pose_loss
from ._method import TRANSPORTER as TRANSPORTER
from ._method import TransporterRecipe as TransporterRecipe
from ._model import Scores as Scores
from ._model import TransporterModel as TransporterModel
from ._network import ResidualNetwork as ResidualNetwork
from ._planar import PlanarFrame as PlanarFrame
from ._planar import PlanarPose as PlanarPose
from ._predictor import TransporterPredictor as TransporterPredictor
